"""A hub's roster as a source's stream: a seed, its changes, and every outage said as one.

A lost connection is said once, and tried again for ever, or, for whoever decides that, is the end.
What a slow client missed is sent anew, whole.
"""

import random
from collections.abc import Callable
from typing import Any, NoReturn

import gevent

from craze.client.errors import Refused
from craze.clock import Clock
from craze_shed import backoff
from craze_shed.contract import frames
from craze_shed.contract.capabilities import SourceCapabilities
from craze_shed.contract.frames import SourceFrame
from craze_shed.contract.publisher import MAX_SOURCE_ROWS, Lagged, Publisher, ReceiverGone
from craze_shed.contract.sessions import LaneSession
from craze_shed.craze import limits, roster_rows
from craze_shed.craze.connection import Connection, Deadline, Ended
from craze_shed.craze.created import CreatedRows
from craze_shed.craze.dial import Dialer, Hub, NotReached
from craze_shed.craze.driver import NO_HUB, cause_of, is_settled
from craze_shed.craze.limits import Pace
from craze_shed.craze.settings import KIND
from craze_shed.craze.wakes import Wakes

_OWN_END = "craze's hub is shutting down"
LAGGED = "lagged"  # a reset's reason, whatever happens until it is sent


class _Offline(Exception):
    """The roster is lost: `cause`, and `str()` why."""

    def __init__(self, cause: str, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause


class _Over(Exception):
    """It is not to be tried again."""


class RosterWatcher:
    """The pump of one subscription to a source; unless it is to `retry`, until the roster is lost
    or not there."""

    def __init__(
        self,
        dialer: Dialer,
        publisher: Publisher[SourceFrame],
        created: CreatedRows,
        wakes: Wakes,
        *,
        retry: bool = True,
        pace: Pace = Pace(),  # noqa: B008 a value
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._retry = retry
        self._dialer = dialer
        self._publisher = publisher
        self._created = created
        self._wakes = wakes
        self._pace = pace
        self._clock = clock or Clock()
        self._chance = chance
        self._generation = 0
        self._reason = "connect"
        self._delay = pace.first
        self._ready = False  # in this cycle
        self._said: tuple[str, str] | None = None  # the last Offline
        self._connection: Connection | None = None

    def run(self) -> None:
        """Stream until nobody receives any more, or this is over."""
        try:
            while True:
                self._cycle()
        except (ReceiverGone, _Over):
            return
        finally:
            self._publisher.close()
            self._let_go()

    def _cycle(self) -> None:
        wait = None
        try:
            wait = self._attempt()
        except Lagged:
            self._lag()
        self._pause(wait)

    def _attempt(self) -> float | None:
        """One connection, and what its loss comes to: how long to wait, None for the usual."""
        self._ready = False
        listed = self._wakes.listed
        try:
            self._once()
        except _Offline as offline:
            self._let_go()
            if offline.cause == NO_HUB and self._wakes.listed != listed:
                return 0.0  # it may be older than the hub that a create has started since
            if self._generation and self._reason != LAGGED:
                self._reason = "reconnect"
            self._say(offline)
            if not self._retry:
                raise _Over from None
            return self._pace.rarely if is_settled(offline.cause) else None
        raise AssertionError("a connection only ends in a loss")

    def _once(self) -> NoReturn:
        try:
            hub = self._dialer.connect()
        except NotReached as failure:
            raise _Offline(cause_of(failure.kind), str(failure)) from None
        self._connection = hub.connection
        try:
            while True:
                self._follow(hub.connection, hub.id, self._seed(hub))
        except (Ended, Deadline) as failure:
            raise _Offline(frames.UNREACHABLE, str(failure)) from None

    def _seed(self, hub: Hub) -> str:
        """Subscribe and send the list: the subscription's id."""
        try:
            reply = hub.connection.ask("sessions.subscribe", {}, limits.ASK)
        except Refused as refused:
            raise _Offline(frames.FAILED, f"the roster was refused: {refused}") from None
        subscription, listed = reply.get("subscription"), reply.get("sessions")
        if not isinstance(subscription, str) or not isinstance(listed, list):
            raise _Offline(frames.FAILED, "the roster cannot be read")
        self._same_epoch(reply.get("epoch"), hub.id)
        rows = [self._row(one) for one in listed]
        self._created.seeded(rows, self._clock.monotonic())
        self._generation += 1
        self._publisher.publish(frames.SourceReset(self._reason, self._generation))
        self._reason = "reconnect"
        for row in rows[:MAX_SOURCE_ROWS]:
            self._publisher.publish(frames.SourceSession(row))
        self._publisher.publish(frames.SourceCapabilitiesFrame(capabilities(hub)))
        cut = reply.get("truncated") is True or len(rows) > MAX_SOURCE_ROWS
        self._publisher.publish(frames.SourceReady(self._generation, cut))
        self._ready = True
        self._said = None
        return subscription

    def _follow(self, connection: Connection, epoch: str, subscription: str) -> None:
        """Send the changes, until a reset after which the list is asked for anew."""
        while True:
            notice = connection.next()
            if notice is None or notice.params.get("subscription") != subscription:
                continue
            if notice.method == "reset":
                reason = notice.params.get("reason")
                if not isinstance(reason, str):
                    raise _Offline(frames.UNREACHABLE, "a roster reset that cannot be read")
                if reason == "hub_closing":
                    raise _Offline(frames.UNREACHABLE, _OWN_END)
                self._reason = f"server_reset:{reason}"
                return
            if notice.method == "roster":
                self._change(notice.params, epoch)
                gevent.sleep(0)  # whoever reads it gets a turn, however many there are

    def _change(self, params: dict[str, Any], epoch: str) -> None:
        self._same_epoch(params.get("epoch"), epoch)
        upserts, removes = params.get("upserts"), params.get("removes")
        if not (
            isinstance(upserts, list)
            and isinstance(removes, list)
            and all(isinstance(host_id, str) for host_id in removes)
        ):
            raise _Offline(frames.UNREACHABLE, "a roster change that cannot be read")
        for one in upserts:
            row = self._row(one)
            self._created.listed(row)
            self._publisher.publish(frames.SourceSession(row))
        for host_id in removes:
            self._created.gone(host_id, self._clock.monotonic())
            self._publisher.publish(frames.SourceRemoved(host_id))

    def _row(self, listed: Any) -> LaneSession:
        named = isinstance(listed, dict) and all(
            isinstance(listed.get(id), str) and listed[id] for id in ("hostId", "sessionId")
        )
        if not named:
            raise _Offline(frames.UNREACHABLE, "a roster row without its ids")
        return roster_rows.session(listed)

    def _same_epoch(self, got: Any, wanted: str) -> None:
        if got != wanted:
            raise _Offline(frames.UNREACHABLE, f'a roster of hub "{got}", not "{wanted}"')

    def _say(self, offline: _Offline) -> None:
        said = offline.cause, str(offline)
        if self._said != said:
            self._said = said
            self._publisher.publish(frames.SourceOffline(str(offline), offline.cause))

    def _lag(self) -> None:
        """The client has fallen behind: wait for it, with nothing held, to tell it all anew."""
        self._let_go()
        self._publisher.wait_drained()
        self._said = None
        self._ready = False  # this is a failure like any other
        self._reason = LAGGED

    def _pause(self, wait: float | None) -> None:
        if wait is None:
            first, most = self._pace.first, self._pace.most
            wait = self._delay = backoff.next_delay(self._delay, first, most, worked=self._ready)
        self._wakes.wait(backoff.jittered(wait, self._chance()))
        if self._publisher.is_closed():
            raise ReceiverGone

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close("the roster was given up")


def capabilities(hub: Hub) -> SourceCapabilities:
    """What a hub's hello says of its machine."""
    return SourceCapabilities(
        kind=KIND,
        create=hub.can("sessionCreate"),
        create_options=hub.can("createOptions"),
        create_title=hub.can("createTitle"),
        reopen=hub.can("reopen"),
    )
