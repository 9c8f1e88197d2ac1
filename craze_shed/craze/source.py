"""A machine's craze sessions as a source: the list, what can be created, and lanes to each.

Each request that the person asks for goes over a connection of its own, which may start the
machine's hub; nothing in the background may. A create whose answer is lost is asked again once
under its request id, a reopen once under its session: craze answers both with what they began.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import gevent

from craze import greenlets
from craze.client.errors import Refused
from craze.clock import Clock
from craze_shed.contract import errors
from craze_shed.contract.creating import (
    LaneCreated,
    LaneCreateOptions,
    LaneCreateRequest,
    LaneProvider,
    LaneReopened,
    LaneSavedList,
    LaneSavedSession,
    check_request_id,
)
from craze_shed.contract.errors import LaneError
from craze_shed.contract.frames import SourceFrame
from craze_shed.contract.interfaces import AgentSource
from craze_shed.contract.publisher import Publisher, Subscription, channel
from craze_shed.contract.sessions import LaneSession
from craze_shed.craze import limits, roster_rows
from craze_shed.craze.connection import Deadline, Ended, refusal
from craze_shed.craze.created import CreatedRows
from craze_shed.craze.dial import TIMED_OUT, Dialer, Hub, NotReached
from craze_shed.craze.lane import CrazeLane
from craze_shed.craze.limits import Bounds, Pace
from craze_shed.craze.roster import RosterWatcher, capabilities
from craze_shed.craze.settings import KIND
from craze_shed.craze.spare import Spare
from craze_shed.craze.values import filled, members, objects, text, whole
from craze_shed.craze.wakes import Wakes

# The versions from before sessions could be reopened.
_BEFORE_REOPEN = re.compile(r"0\.[01](\.|$)")


class CrazeSource(AgentSource):
    """The sessions of the machine that `dialer` reaches. `on_created_change()` is called when the
    rows of `created_rows` have changed and no roster frame will say so; it must not wait. With
    `spare.keep()` the lanes that are opened here find a connection, as long as that is kept."""

    agent = KIND

    def __init__(
        self,
        dialer: Dialer,
        *,
        on_created_change: Callable[[], object] = lambda: None,
        bounds: Bounds = Bounds(),  # noqa: B008 a value
        pace: Pace = Pace(),  # noqa: B008 a value
        clock: Clock | None = None,
    ) -> None:
        self.dialer = dialer
        self.spare = Spare(dialer)
        self.wakes = Wakes()
        self._created = CreatedRows()
        self._on_created_change = on_created_change
        self._bounds = bounds
        self._pace = pace
        self._clock = clock or Clock()
        self._pumps: set[gevent.Greenlet] = set()

    def __repr__(self) -> str:
        return f"<CrazeSource {self.dialer.reach.label}, {len(self._pumps)} subscriptions>"

    # ---- the list ----

    def subscribe(self, *, retry: bool = True) -> Subscription[SourceFrame]:
        """The list. Unless it is to `retry`, the stream ends with its first Offline."""
        publisher: Publisher[SourceFrame]
        subscription: Subscription[SourceFrame]
        publisher, subscription = channel()
        watcher = RosterWatcher(
            self.dialer,
            publisher,
            self._created,
            self.wakes,
            retry=retry,
            pace=self._pace,
            clock=self._clock,
        )
        pump = greenlets.spawn(f"roster of {self.dialer.reach.label}", watcher.run)
        self._pumps.add(pump)
        pump.rawlink(self._pumps.discard)
        pump.rawlink(lambda _: publisher.close())  # though it was ended before it began
        publisher.on_close(lambda: pump.kill(block=False))
        return subscription

    def created_rows(self) -> tuple[LaneSession, ...]:
        """The sessions that were created or reopened and that no roster has listed yet."""
        return self._created.rows(self._clock.monotonic())

    def open(self, session_id: str) -> CrazeLane:
        return CrazeLane(
            self.dialer,
            session_id,
            row=self._created.get(session_id, self._clock.monotonic()),
            ended=lambda: self._lane_ended(session_id),
            spare=self.spare.take,
            bounds=self._bounds,
            clock=self._clock,
        )

    def _lane_ended(self, session_id: str) -> None:
        if self._created.gone(session_id, self._clock.monotonic()):
            self._on_created_change()

    def hub_gone(self) -> None:
        """The machine's hub has ended: the rows that it was to list leave with it."""
        self._created.hub_gone()

    def close(self) -> None:
        gevent.killall(list(self._pumps))
        self.spare.drop()

    # ---- explicit actions ----

    def create_options(self) -> LaneCreateOptions:
        hub, result = self._read("sessions.createOptions", _offers_options)
        return LaneCreateOptions(
            providers=tuple(_provider(one) for one in objects(result.get("providers"))),
            default_provider=filled(result.get("defaultProvider")),
            recent_dirs=tuple(
                one["dir"]
                for one in objects(result.get("recentDirs"))
                if isinstance(one.get("dir"), str)
            ),
            reopen=capabilities(hub).reopen,
        )

    def saved(self) -> LaneSavedList:
        _, result = self._read("sessions.saved", _offers_reopen)
        return LaneSavedList(
            tuple(_saved(one) for one in objects(result.get("sessions"))),
            result.get("more") is True,
        )

    def create(self, request: LaneCreateRequest) -> LaneCreated:
        check_request_id(request.request_id)
        try:
            result = self._start("session.create", lambda hub: _create(hub, request), limits.CREATE)
        except _Unknown as unknown:
            raise errors.outcome_unknown(
                f"craze did not answer the create, twice ({unknown}); it may have started a session"
                " — check the session list, or try again with the same request id, which craze"
                " answers with that session"
            ) from None
        return LaneCreated(
            self._listed(result.get("session")),
            text(result.get("prompt")),
            filled(result.get("promptError")),
        )

    def reopen(self, saved_id: str) -> LaneReopened:
        try:
            result = self._start(
                "session.reopen", lambda hub: _reopen(hub, saved_id), limits.REOPEN
            )
        except _Unknown as unknown:
            raise errors.outcome_unknown(
                f"craze did not answer the reopen, twice ({unknown}); the session may be running"
                " — check the session list"
            ) from None
        return LaneReopened(self._listed(result.get("session")), result.get("joined") is True)

    def _read(self, method: str, judge: Callable[[Hub], None]) -> tuple[Hub, dict[str, Any]]:
        """What a hub answers that may be asked again at any time. Raises LaneError."""
        try:
            with self._hub() as hub:
                judge(hub)
                return hub, hub.connection.ask(method, {}, limits.ASK)
        except NotReached as failure:
            raise failure.error() from None
        except Refused as refused:
            raise refusal(refused) from None
        except (Ended, Deadline) as failure:
            raise errors.unavailable(f"{method}: {failure}") from None
        finally:
            self.wakes.wake()

    def _start(
        self, method: str, params: Callable[[Hub], dict[str, Any]], time: float
    ) -> dict[str, Any]:
        """What a hub answers to what starts a session; a lost answer is asked for once more.
        `params(hub)` are what to ask that hub with, or it raises LaneError for one that cannot.
        Raises LaneError, _Unknown."""
        try:
            try:
                return self._started(method, params, time)
            except _CannotStart as failure:
                raise failure.error from None
            except _Unknown:
                pass
            try:
                return self._started(method, params, time)
            except _CannotStart as failure:  # which says nothing of what the first try has done
                raise _Unknown(failure.error.message) from None
        finally:
            self.wakes.wake()

    def _started(
        self, method: str, params: Callable[[Hub], dict[str, Any]], time: float
    ) -> dict[str, Any]:
        """One try. Raises LaneError, _CannotStart, _Unknown."""
        try:
            with self._hub() as hub:
                try:
                    asked = params(hub)
                except LaneError as failure:
                    raise _CannotStart(failure) from None
                return hub.connection.ask(method, asked, time)
        except NotReached as failure:
            if failure.kind == TIMED_OUT:
                raise _Unknown(str(failure)) from None
            raise _CannotStart(failure.error()) from None
        except Refused as refused:
            raise refusal(refused, refused.cause) from None
        except ValueError as failure:
            raise errors.bad_request(str(failure)) from None
        except (Ended, Deadline) as failure:
            raise _Unknown(str(failure)) from None

    @contextlib.contextmanager
    def _hub(self) -> Iterator[Hub]:
        """A connection for one request that the person asked for. Raises NotReached."""
        hub = self.dialer.connect(explicit=True)
        try:
            yield hub
        finally:
            hub.connection.close("it was answered")

    def _listed(self, row: Any) -> LaneSession:
        """The session of an answer, remembered until the roster has it. Raises LaneError."""
        listed = members(row)
        if not text(listed.get("hostId")) or not text(listed.get("sessionId")):
            raise errors.failed("craze answered with a session that names no host")
        session = roster_rows.session(listed)
        self.wakes.listed += 1
        if self._created.created(session, self._clock.monotonic()):
            self._on_created_change()
        return session


class _Unknown(Exception):
    """No answer came, so what was asked for may have been done; `str()` says how that was."""


class _CannotStart(Exception):
    """The hub was not asked: it was not reached, or cannot do it."""

    def __init__(self, error: LaneError) -> None:
        super().__init__(error.message)
        self.error = error


def _provider(said: dict[str, Any]) -> LaneProvider:
    id = text(said.get("id"))
    return LaneProvider(
        id,
        filled(said.get("label")) or id,
        text(said.get("state")),
        filled(said.get("reason")),
        filled(said.get("fix")),
    )


def _saved(said: dict[str, Any]) -> LaneSavedSession:
    return LaneSavedSession(
        id=text(said.get("id")),
        craze_session_id=filled(said.get("crazeSessionId")),
        provider=text(said.get("provider")),
        provider_session_id=text(said.get("providerSessionId")),
        workspace=text(said.get("workspace")),
        title=filled(said.get("title")),
        created_at=text(said.get("createdAt")),
        updated_at=text(said.get("updatedAt")),
    )


# ---- what a hub must offer ----


def _offers_options(hub: Hub) -> None:
    if not hub.can("createOptions"):
        raise errors.failed("craze on this machine is too old to offer providers; update it")


def _create(hub: Hub, request: LaneCreateRequest) -> dict[str, Any]:
    if not hub.can("sessionCreate"):
        raise errors.failed("craze on this machine is too old to create sessions; update it")
    title = (request.title or "").strip() if hub.can("createTitle") else ""
    params = {
        "cwd": request.cwd,
        "prompt": request.prompt,
        "provider": request.provider,
        "requestId": request.request_id,
        "title": title or None,
    }
    return {name: value for name, value in params.items() if value is not None}


def _reopen(hub: Hub, saved_id: str) -> dict[str, Any]:
    _offers_reopen(hub)
    return {"id": saved_id}


def _offers_reopen(hub: Hub) -> None:
    if hub.can("reopen"):
        return
    words = f"this craze hub (craze {hub.version}) does not offer reopening saved sessions"
    pid = whole(members(hub.hello.get("endpoint")).get("pid"))
    if _BEFORE_REOPEN.match(hub.version) and pid:
        words += f"; end it with kill {pid}"
    raise errors.unavailable(words)
