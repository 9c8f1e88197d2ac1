"""The rows of sessions that were just created or reopened, until the roster has them.

A roster lists a new session a moment after its create answers; until then the row is kept here. A
session that has left, by the roster or by what its lane saw, is not listed again by a late answer.
Nothing here does I/O; times are seconds of the caller's monotonic clock.
"""

from collections.abc import Iterable

from craze_shed.contract.sessions import LaneSession
from craze_shed.craze import limits

MOST_ROWS = 64
MOST_GONE = 4096


class CreatedRows:
    """What one source has created, what its roster lists, and what has gone."""

    __slots__ = ("_gone", "_listed", "_rows")

    def __init__(self) -> None:
        self._rows: dict[str, tuple[LaneSession, float]] = {}
        self._gone: dict[str, float] = {}  # host id -> when it was let go
        self._listed: dict[str, LaneSession] = {}  # by the roster, as it stands

    def rows(self, now: float) -> tuple[LaneSession, ...]:
        """Every row that only this knows of, in host-id order."""
        self._age(now)
        return tuple(row for _, (row, _) in sorted(self._rows.items()))

    def get(self, host_id: str, now: float) -> LaneSession | None:
        """The row of a session, listed or just created; None where there is neither."""
        self._age(now)
        kept = self._rows.get(host_id)
        return self._listed.get(host_id) if kept is None else kept[0]

    def created(self, row: LaneSession, now: float) -> bool:
        """A create or reopen was answered with this row; whether its session is there to be
        listed."""
        self._age(now)
        if row.id in self._gone:
            return False
        if row.id not in self._listed:
            self._rows.pop(row.id, None)
            self._rows[row.id] = (row, now)
            while len(self._rows) > MOST_ROWS:
                del self._rows[next(iter(self._rows))]
        return True

    def seeded(self, listed: Iterable[LaneSession], now: float) -> None:
        """The roster was told anew; what it has dropped is gone, what it never had stays."""
        before, self._listed = self._listed, {row.id: row for row in listed}
        for host_id in before.keys() - self._listed:
            self._let_go(host_id, now)
        for host_id in self._listed:
            self._spend(host_id)

    def listed(self, row: LaneSession) -> None:
        """The roster lists this row."""
        self._listed[row.id] = row
        self._spend(row.id)

    def gone(self, host_id: str, now: float) -> bool:
        """The session has left: the roster says so, or its lane has seen the end. Whether that
        takes a row away that no roster would."""
        self._listed.pop(host_id, None)
        kept = host_id in self._rows
        self._let_go(host_id, now)
        return kept

    def hub_gone(self) -> None:
        """The hub has ended, and its roster with it: every row leaves, none for good."""
        self._rows.clear()
        self._listed.clear()

    def _spend(self, host_id: str) -> None:
        self._rows.pop(host_id, None)
        self._gone.pop(host_id, None)

    def _let_go(self, host_id: str, now: float) -> None:
        self._rows.pop(host_id, None)
        self._gone.pop(host_id, None)
        self._gone[host_id] = now
        while len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def _age(self, now: float) -> None:
        for host_id in [id for id, (_, at) in self._rows.items() if now - at >= limits.CREATED]:
            del self._rows[host_id]
        for host_id in [id for id, at in self._gone.items() if now - at >= limits.CREATED]:
            del self._gone[host_id]
