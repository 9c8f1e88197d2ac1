"""The newest records in memory: what a cursor can be served from without the journal."""

from collections import deque
from itertools import islice

from craze.eventlog.record import Record


class Ring:
    """Up to `events` records of together `size` bytes; the newest is kept whatever its size."""

    __slots__ = ("_bytes", "_bytes_max", "_events_max", "_records")

    def __init__(self, events: int, size: int) -> None:
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._events_max = events
        self._bytes_max = size

    @property
    def oldest(self) -> int:
        """The oldest record's seq, 0 while there is none."""
        return self._records[0].seq if self._records else 0

    def push(self, record: Record) -> None:
        """Take the next record in and let the oldest go that no longer fit."""
        records = self._records
        records.append(record)
        self._bytes += record.size
        while (self._bytes > self._bytes_max or len(records) > self._events_max) and len(
            records
        ) > 1:
            self._bytes -= records.popleft().size

    def after(self, seq: int) -> list[Record]:
        """The records above `seq`, oldest first; all of them when `seq` is older than the ring."""
        return list(islice(self._records, max(0, seq + 1 - self.oldest), None))
