"""When a host nobody uses ends: a small clock that is told each second how things stand.

Pure: the caller says what is busy and attached, and carries out the verdict behind its fences.
"""

from typing import Final

from craze.machine.durations import format_duration

STARTUP_GRACE: Final = 60.0
UNPROMPTED: Final = 300.0


class Idle:
    """The idle clock of one host. `limit` is `host_idle_exit` in seconds, None for never."""

    def __init__(self, limit: float | None, now: float) -> None:
        self._limit = limit
        self._born = now
        self._since = now
        self._turns = 0

    def due(
        self,
        now: float,
        *,
        attached: int,
        ever_attached: bool,
        busy: bool,
        turns: int,
        start_failed: bool,
        prompted: bool,
    ) -> str:
        """Why the host should end now, or "" for want of use.

        `turns` is how many turns have run: one that came and went between two looks restarts the
        clock.
        """
        if attached or (busy and not start_failed) or turns != self._turns:
            self._since = now
            self._turns = turns
            return ""
        if not ever_attached and now - self._born < STARTUP_GRACE:
            return ""
        if start_failed:
            return "its session did not start and no client is attached"
        if self._limit is None:
            return ""
        limit = self._limit if prompted else min(self._limit, UNPROMPTED)
        if now - self._since < limit:
            return ""
        idle = f"idle for {format_duration(now - self._since)} with no client attached"
        return idle if prompted else f"{idle}, never prompted"

    def stayed(self, now: float) -> None:
        """The verdict was lifted: the clock starts again."""
        self._since = now
