"""Lanes whose rows have left: each keeps its connection for a while, to end by its own last words,
and is ended if it has not.

A row that is listed again calls its lane's departure off. Reports are in an order, and an older
one never undoes what a newer one has done, however late it comes.
"""

from collections.abc import Callable
from typing import NamedTuple

from gevent.event import Event

from craze import greenlets
from craze.clock import Clock
from craze_shed.craze import limits


class _Report(NamedTuple):
    """The last one of a lane: its place in the order, and for a departure when the grace is over
    and what the lane then ends for."""

    order: int
    until: float | None = None
    reason: str = ""


class Graces:
    """Who is departing, and until when."""

    __slots__ = ("_grace", "_last")

    def __init__(self, grace: float = limits.GRACE) -> None:
        self._grace = grace
        self._last: dict[str, _Report] = {}

    def left(self, session_id: str, reason: str, order: int, now: float) -> None:
        """Its row has left. Within one absence the first report counts."""
        last = self._last.get(session_id)
        if last is not None and last.until is not None:
            self._take(session_id, last._replace(order=order))
        else:
            self._take(session_id, _Report(order, now + self._grace, reason))

    def back(self, session_id: str, order: int) -> None:
        """Its row is listed."""
        self._take(session_id, _Report(order))

    def _take(self, session_id: str, report: _Report) -> None:
        last = self._last.get(session_id)
        if last is None or last.order < report.order:
            self._last[session_id] = report

    def forget(self, session_id: str) -> None:
        """There is no such lane any more."""
        self._last.pop(session_id, None)

    def over(self, now: float) -> list[tuple[str, str]]:
        """The lanes whose grace is over, each with its reason; they are told once."""
        due = []
        for session_id, report in self._last.items():
            if report.until is not None and report.until <= now:
                due.append((session_id, report.reason))
                self._last[session_id] = _Report(report.order)
        return due

    def next(self) -> float | None:
        """When the next grace is over."""
        ends = (report.until for report in self._last.values())
        return min((end for end in ends if end is not None), default=None)


class Departures:
    """The graces of one source's lanes, with the timer that ends them: `end(session_id, reason)`
    is called for each whose grace is over; it must not raise."""

    def __init__(
        self,
        end: Callable[[str, str], object],
        *,
        grace: float = limits.GRACE,
        clock: Clock | None = None,
    ) -> None:
        self._end = end
        self._clock = clock or Clock()
        self._graces = Graces(grace)
        self._moved = Event()
        self._timer = greenlets.spawn("departures", self._run)

    def left(self, session_id: str, reason: str, order: int) -> None:
        self._graces.left(session_id, reason, order, self._clock.monotonic())
        self._moved.set()

    def back(self, session_id: str, order: int) -> None:
        self._graces.back(session_id, order)
        self._moved.set()

    def forget(self, session_id: str) -> None:
        self._graces.forget(session_id)

    def close(self) -> None:
        """End nobody any more."""
        self._timer.kill()

    def _run(self) -> None:
        while True:
            for session_id, reason in self._graces.over(self._clock.monotonic()):
                self._end(session_id, reason)
            at = self._graces.next()
            self._moved.clear()
            self._moved.wait(None if at is None else max(at - self._clock.monotonic(), 0.001))
