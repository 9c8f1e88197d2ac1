"""The one clock: everything that reads the time is given one of these, so that tests drive it."""

import time


class Clock:
    """The machine's clocks."""

    __slots__ = ()

    def now(self) -> int:
        """Wall time, in nanoseconds since 1970 UTC: what events, asks and receipts bear."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Seconds from an arbitrary origin that never go back: what waits are measured with."""
        return time.monotonic()


class ManualClock(Clock):
    """A clock that only `advance` moves."""

    __slots__ = ("_elapsed", "_start")

    def __init__(self, start: int) -> None:
        self._start = start
        self._elapsed = 0

    def now(self) -> int:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed / 1e9

    def advance(self, nanoseconds: int) -> None:
        self._elapsed += nanoseconds
