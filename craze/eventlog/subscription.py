"""One reader's place in the log: the replay after its cursor, then the live records, in order.

What it holds that its owner has not taken is bounded by two budgets; a reader that falls behind
them is ended as a slow consumer rather than waited for (codecs 4.2).
"""

from collections import deque
from collections.abc import Callable, Sequence

from craze.eventlog.record import Record


def _nothing() -> None:
    """The wake of a subscription whose owner has closed it."""


def _later(record: Record) -> bool:
    """The delivery of an owner that takes what it is given in its own time."""
    return False


class Subscription:
    """Made by `EventLog.subscribe`; the owner takes from it and closes it.

    `file_range` is the first and last seq that the owner streams from `EventLog.read_file` before
    it takes anything, or None. `cutoff` is the last seq of the replay. `ended` is "" while more may
    come, "slow_consumer" (nothing more is handed out), or "closed" (what is held still is).
    """

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_deliver",
        "_items_max",
        "_leave",
        "_pinned",
        "_records",
        "cutoff",
        "ended",
        "file_range",
        "wake",
    )

    def __init__(
        self,
        replay: Sequence[Record],
        cutoff: int,
        file_range: tuple[int, int] | None,
        *,
        max_items: int,
        max_bytes: int,
        wake: Callable[[], None],
        deliver: Callable[[Record], bool] | None,
        leave: Callable[["Subscription"], None],
    ) -> None:
        self._records = deque(replay)
        self._pinned = len(replay)  # of the replay's records, which count as bytes but not as items
        self._bytes = sum(record.size for record in replay)
        self._items_max = max_items
        self._bytes_max = max_bytes
        self._leave = leave
        self.cutoff = cutoff
        self.file_range = file_range
        self.ended = ""
        self.wake = wake
        self._deliver = deliver or _later

    def __repr__(self) -> str:
        held = f"{len(self._records)} records, {self._bytes} bytes held"
        return f"<Subscription {self.ended or 'live'}, {held}>"

    def take(self) -> Record | None:
        """The next record, which from now on no longer counts; None when there is none now."""
        if not self._records:
            return None
        record = self._records.popleft()
        self._bytes -= record.size
        if self._pinned:
            self._pinned -= 1
        return record

    def close(self) -> None:
        """The owner wants nothing more: no record, no wake."""
        self._clear()
        self.wake = _nothing
        self._deliver = _later
        self._leave(self)

    def pass_on(self, record: Record) -> bool:
        """Hand a live record straight to an owner that can take it, so that it never counts;
        whether it was. A record larger than the budget itself always overflows it.

        The log's to call, as `offer` and `finish` are.
        """
        return not self._records and record.size <= self._bytes_max and self._deliver(record)

    def offer(self, record: Record) -> bool:
        """Hold the next live record. False when a budget is overflowed, which ends this."""
        if (
            len(self._records) - self._pinned >= self._items_max
            or self._bytes + record.size > self._bytes_max
        ):
            self.ended = "slow_consumer"
            self._clear()
            return False
        self._records.append(record)
        self._bytes += record.size
        return True

    def finish(self) -> None:
        """The log has closed: what is held is still to be taken, then no more comes."""
        self.ended = "closed"

    def _clear(self) -> None:
        self._records.clear()
        self._bytes = self._pinned = 0
