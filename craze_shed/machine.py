"""One machine's craze as a dashboard holds it: its rows, its status, and the lanes open on it.

It keeps looking for the machine's hub, lists what that lists, and ends the lanes whose rows have
left for good. Every explicit action goes through here, so that what it brings about is seen at
once. Whoever holds it is told that something changed, and then reads.
"""

import itertools
import random
from collections.abc import Callable
from typing import Final

from craze import greenlets
from craze.clock import Clock
from craze_shed import backoff
from craze_shed.contract import errors, frames
from craze_shed.contract.creating import (
    LaneCreated,
    LaneCreateOptions,
    LaneCreateRequest,
    LaneReopened,
    LaneSavedList,
)
from craze_shed.contract.errors import LaneError
from craze_shed.contract.frames import SourceFrame
from craze_shed.contract.sessions import LaneSession
from craze_shed.craze.departures import Departures
from craze_shed.craze.dial import Dialer
from craze_shed.craze.driver import NO_HUB, Driver, Status, cause_of
from craze_shed.craze.limits import GRACE, Bounds, Pace, Waits
from craze_shed.craze.source import CrazeSource
from craze_shed.keeper import OpenLane
from craze_shed.lines import LIVE
from craze_shed.view import SourceView
from ladder import Kind

_generations: Final = itertools.count(1)


class CrazeMachine:
    """The craze of the machine that `dialer` reaches, from now until `close`. The dialer's reach
    stays the caller's.

    `on_change()` is called after each change of `rows` or `status`, and `on_lane(session_id)` after
    each of an open lane; neither may wait or raise.
    """

    def __init__(
        self,
        dialer: Dialer,
        *,
        on_change: Callable[[], object] = lambda: None,
        on_lane: Callable[[str], object] = lambda session_id: None,
        bounds: Bounds = Bounds(),  # noqa: B008 a value
        pace: Pace = Pace(),  # noqa: B008 a value
        waits: Waits = Waits(),  # noqa: B008 a value
        grace: float = GRACE,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.source = CrazeSource(
            dialer, on_created_change=self._changed, bounds=bounds, pace=pace, clock=clock
        )
        self.source_gen = next(_generations)
        self.lanes: dict[str, OpenLane] = {}
        self._dialer = dialer
        self._on_change = on_change
        self._on_lane = on_lane
        self._chance = chance
        self._view = SourceView()
        self._driver = Driver(waits)
        self._departures = Departures(self._end, grace=grace, clock=clock)
        self._orders = itertools.count(1)
        self._closed = False
        self._pump = greenlets.spawn(f"machine {dialer.reach.label}", self._run)

    def __repr__(self) -> str:
        label = self._dialer.reach.label
        return f"<CrazeMachine {label}: {self._driver.state}, {len(self.lanes)} lanes>"

    # ---- what shows ----

    @property
    def rows(self) -> tuple[LaneSession, ...]:
        """The sessions that the hub lists, and then those just created that it does not yet."""
        listed = self._view.sessions
        ids = {row.id for row in listed}
        return (*listed, *(row for row in self.source.created_rows() if row.id not in ids))

    @property
    def status(self) -> Status:
        return self._driver.status(self._view.capabilities, self.source_gen)

    @property
    def truncated(self) -> bool:
        """Whether the hub lists more sessions than are shown."""
        return self._view.truncated

    def row(self, session_id: str) -> LaneSession | None:
        return next((row for row in self.rows if row.id == session_id), None)

    # ---- lanes ----

    def open(self, session_id: str) -> OpenLane:
        """The session's lane, opened unless it is: at once, without asking anybody.

        A lane that has ended is given as it is while its row is gone. Raises LaneError
        `unknown_session` for what a live machine does not list, ClientError once this is closed.
        """
        held = self.lanes.get(session_id)
        row = None if self._closed else self.row(session_id)
        if held is not None and (row is None or not held.finished):
            return held
        if self._closed:
            raise errors.ClientError(
                errors.UNAVAILABLE,
                f"{self._dialer.reach.label}'s craze source stopped while the lane for session"
                f' "{session_id}" was being opened',
            )
        if row is None and self._driver.state == LIVE and not self.truncated:
            raise LaneError(errors.UNKNOWN_SESSION)
        lane = OpenLane(
            self.source.open(session_id), lambda: self._on_lane(session_id), self._chance
        )
        self.lanes[session_id] = lane
        self._departures.back(session_id, next(self._orders))
        if held is not None:
            held.close()
        return lane

    def close_lane(self, session_id: str) -> None:
        """The lane's panel was closed."""
        lane = self.lanes.pop(session_id, None)
        self._departures.forget(session_id)
        if lane is not None:
            lane.close()

    # ---- explicit actions ----

    def create_options(self) -> LaneCreateOptions:
        return self.source.create_options()

    def create(self, request: LaneCreateRequest) -> LaneCreated:
        """As the source's. The session is among `rows` then, but where it has ended since: a
        repeated request is answered with what it began."""
        made = self.source.create(request)
        self._answered(made.session.id)
        return made

    def saved(self) -> LaneSavedList:
        return self.source.saved()

    def reopen(self, saved_id: str) -> LaneReopened:
        made = self.source.reopen(saved_id)
        self._answered(made.session.id)
        return made

    def close(self) -> None:
        """The machine was removed: its lanes end at once, and stay readable. Closing twice is
        harmless."""
        self._closed = True
        for lane in list(self.lanes.values()):
            lane.end(frames.HOST_REMOVED)
        self._departures.close()
        self._pump.kill()
        self.source.close()

    # ---- looking for the hub ----

    def _run(self) -> None:
        while True:
            cause = self._look()
            if cause is not None:
                wait = self._take(cause)
                self.source.wakes.wait(backoff.jittered(wait, self._chance()))

    def _look(self) -> str | None:
        """Follow the machine's roster to its end: why that was, None for what is not to be
        believed."""
        if self._dialer.eager:
            return self._follow()
        listed = self.source.wakes.listed
        found = self._dialer.probe().kind
        if found == Kind.HUB:
            return self._follow()
        if found == Kind.NO_HUB and self.source.wakes.listed != listed:
            return None  # it may be older than the hub that a create has started since
        return cause_of(found)

    def _follow(self) -> str:
        """Fold the source's stream. That of our own machine goes on after an outage; any other's
        ends with the first: the cause."""
        cause = frames.UNREACHABLE
        with self.source.subscribe(retry=self._dialer.eager) as stream:
            for frame in stream:
                self._fold(frame)
                if isinstance(frame, frames.SourceOffline):
                    cause = frame.cause
                    if self._dialer.eager:
                        self._take(cause)
                    continue
                if isinstance(frame, frames.SourceReady):
                    self._driver.ready()
                    self.source.spare.keep()
                self._changed()
        return cause

    def _take(self, cause: str) -> float:
        """There is no roster, and that is why: the seconds to wait, unjittered."""
        wait = self._driver.found(cause)
        if cause == NO_HUB:
            created = [row.id for row in self.source.created_rows()]
            left = (*self._view.go_dormant().departed, *created)
            self.source.hub_gone()
            self._leave(left, frames.HUB_GONE)
        self._changed()
        self.source.spare.drop()  # which may take a moment
        return wait

    def _fold(self, frame: SourceFrame) -> None:
        change = self._view.apply(frame)
        for session_id in change.listed:
            self._came(session_id)
        left = change.departed
        if isinstance(frame, frames.SourceRemoved):
            left = (frame.session_id,)  # one that was just created is in no view
        self._leave(left, frames.SESSION_GONE)

    def _answered(self, session_id: str) -> None:
        """A create or a reopen was answered with this session."""
        if self.row(session_id) is not None:
            self._came(session_id)

    def _came(self, session_id: str) -> None:
        if session_id in self.lanes:
            self._departures.back(session_id, next(self._orders))

    def _leave(self, session_ids: tuple[str, ...], reason: str) -> None:
        for session_id in session_ids:
            if session_id in self.lanes:
                self._departures.left(session_id, reason, next(self._orders))

    def _end(self, session_id: str, reason: str) -> None:
        """Its grace is over."""
        lane = self.lanes.get(session_id)
        if lane is not None:
            lane.end(reason)

    def _changed(self) -> None:
        if not self._closed:
            self._on_change()
