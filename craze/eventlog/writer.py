"""The journal's file, as its one thread writes it.

The thread waits and writes by itself once it has been set to work, so that a loop kept busy by the
session does not hold the journal up. What the two sides share is a deque, appended to on one side
and popped on the other, and numbers that only one side ever changes.
"""

import os
from _queue import Empty, SimpleQueue  # the native one, whatever a program has patched
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from craze.eventlog import lines
from craze.eventlog.record import Record


class Note:
    """A queued line that is no event; with `sync` it is to be on the disk at once."""

    __slots__ = ("line", "size", "sync")
    seq: Final = 0

    def __init__(self, line: bytes, sync: bool) -> None:
        self.line = line
        self.size = len(line)
        self.sync = sync


class Writer:
    """Writes `queue` to the file at `path`, which `opener` makes; the header comes first.

    `size` is the file's complete lines in bytes, `written` the last seq whose fate, a line or a
    gap, is among them, `taken` the bytes of all entries ever taken off the queue.
    """

    def __init__(
        self,
        path: str,
        header: bytes,
        opener: Callable[[str], int],
        flush_seconds: float,
        flush_bytes: int,
    ) -> None:
        self.queue: deque[Record | Note | lines.Gap] = deque()
        self.size = 0
        self.written = 0
        self.taken = 0
        self.closing = False
        self._path = path
        self._header = header
        self._opener = opener
        self._flush_seconds = flush_seconds
        self._flush_bytes = flush_bytes
        self._fd: int | None = None
        self._asked = False
        self._calls: SimpleQueue[None] = SimpleQueue()

    def ask(self) -> None:
        """From any side: write now what is queued, without waiting for the flush's time."""
        if not self._asked:
            self._asked = True
            self._calls.put(None)

    def idle(self) -> bool:
        """Whether nothing is queued that could be written now."""
        return not self._ready()

    def work(self, told: Callable[[], None]) -> None:
        """Write what is queued whenever it is time, until there is nothing; blocks.

        `told()` is called after every write. Raises OSError, after which nothing may be written.
        """
        while True:
            if not self.closing:
                with suppress(Empty):
                    self._calls.get(timeout=self._flush_seconds)
            self._asked = False
            batch = self._take()
            if not batch:
                return
            self._write(batch)
            told()

    def close(self) -> None:
        """Sync and close the file; blocks. Raises OSError."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _ready(self) -> int:
        # A gap at the tail may still grow; it is written once something follows it.
        ready = len(self.queue)
        if ready and not self.closing and type(self.queue[ready - 1]) is lines.Gap:
            ready -= 1
        return ready

    def _take(self) -> list[Record | Note | lines.Gap]:
        batch: list[Record | Note | lines.Gap] = []
        size = 0
        for _ in range(self._ready()):
            entry = self.queue.popleft()
            batch.append(entry)
            size += entry.size
            if size >= self._flush_bytes:  # a write stays small; the rest follows without a wait
                self.ask()
                break
        self.taken += size
        return batch

    def _write(self, batch: list[Record | Note | lines.Gap]) -> None:
        parts = []
        if self._fd is None:
            self._fd = self._opener(self._path)
            parts.append(self._header)
        last = self.written
        sync = False
        for entry in batch:
            if type(entry) is Record:
                parts.append(lines.event(entry))
                last = entry.seq
            elif isinstance(entry, Note):
                parts.append(entry.line)
                sync = sync or entry.sync
            elif isinstance(entry, lines.Gap):
                parts.append(entry.line())
                last = entry.seq or last
        text = b"".join(parts)
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        self.size += len(text)
        self.written = last
        if sync:
            os.fsync(self._fd)
