"""The journal's writer: every event and a few notes, as lines in one file per incarnation.

A commit only queues; one greenlet hands what is queued to one thread, which alone touches the file.
The queue is bounded, so a disk that stalls costs a gap in the journal and never the session's pace;
a disk that fails ends the journal and never the session. A journal is never opened again to append.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import gevent
from gevent.event import Event
from gevent.threadpool import ThreadPool

from craze import greenlets
from craze.clock import Clock
from craze.eventlog import lines
from craze.eventlog.cursors import ReplayFailed
from craze.eventlog.reader import Replay, load, read
from craze.eventlog.record import Record
from craze.eventlog.stamp import Stamper
from craze.wire import limits
from craze.wire.times import format_time

__all__ = ["Journal", "load", "read", "slug"]

_SLUG_BYTES: Final = 200
_INCARNATION = re.compile(r"[A-Za-z0-9._-]+")


def slug(cwd: str) -> str:
    """The name of the directory that holds a working directory's journals (codecs 4.5).

    Two working directories may share one: a reader goes by the header's `cwd`.
    """
    inner = cwd[1:] if cwd[:1] in ("/", "\\") else cwd
    name = "--" + re.sub(r"[/\\:]", "-", inner) + "--"
    full = os.fsencode(name)
    if len(full) <= _SLUG_BYTES:
        return name
    from hashlib import sha256  # megabytes that few sessions need

    tail = f"-{sha256(full).hexdigest()[:8]}--"
    return full[: _SLUG_BYTES - len(tail)].decode(errors="ignore") + tail


def create(path: str) -> int:
    """A descriptor for the new file at `path`, 0600, in directories of which the new are 0700.

    Raises FileExistsError rather than open what is there.
    """
    _make_directory(os.path.dirname(path))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def complain(words: str) -> None:
    """Say a journal's notice on stderr."""
    print(words, file=sys.stderr, flush=True)


class Journal:
    """The journal of one incarnation, at `path` in `root`; the file is made with its first line.

    `header` holds the members of `lines.HEADER`: `incarnation` and `cwd` say where the file is.
    `notice` is given one line when the first entry is dropped and one when the journal fails.
    """

    def __init__(
        self,
        root: str,
        header: dict[str, Any],
        clock: Clock,
        *,
        notice: Callable[[str], None] = complain,
        opener: Callable[[str], int] = create,
        queue_entries: int = limits.JOURNAL_QUEUE_ENTRIES,
        queue_bytes: int = limits.JOURNAL_QUEUE_BYTES,
        flush_seconds: float = limits.JOURNAL_FLUSH_SECONDS,
        flush_bytes: int = limits.JOURNAL_FLUSH_BYTES,
        flush_lines: int = limits.JOURNAL_FLUSH_LINES,
        catch_up: float = limits.JOURNAL_CATCH_UP,
        close_wait: float = limits.JOURNAL_CLOSE_WAIT,
    ) -> None:
        self.incarnation = str(header["incarnation"])
        if not _INCARNATION.fullmatch(self.incarnation):
            raise ValueError(f"an incarnation names a file, and {self.incarnation!r} cannot")
        self._clock = clock
        self._stamp = Stamper()
        made = format_time(clock.now())
        when = re.sub("[-:]", "", made[:19]) + "Z"
        self.path = os.path.join(root, slug(header["cwd"]), f"{when}_{self.incarnation}.jsonl")
        self.gaps: list[tuple[int, int]] = []  # at most JOURNAL_GAPS; past that they cover more
        self.written = 0  # the last seq whose fate, a line or a gap, is in the file
        self.size = 0  # bytes of complete lines in the file
        self.error = ""  # what ended the journal, if something did
        self._dropped = False
        self._notice = notice
        self._file = _File(self.path, lines.header(made, header), opener)
        self._queue: list[Record | _Note | lines.Gap] = []
        self._queue_bytes = 0
        self._flight_entries = self._flight_bytes = 0  # with the thread, and not yet written
        self._gap: lines.Gap | None = None  # the queue's last entry, when that is a gap
        self._entries_max = queue_entries
        self._bytes_max = queue_bytes
        self._flush_seconds = flush_seconds
        self._flush_bytes = flush_bytes
        self._flush_lines = flush_lines
        self._catch_up_seconds = catch_up
        self._close_wait = close_wait
        self._writer: gevent.Greenlet | None = None
        self._closing = False
        self._over = False  # the writer has ended
        self._filled = Event()  # something is queued
        self._hurry = Event()  # and must not wait for the flush's time
        self._progress = Event()  # set, and replaced, with every batch

    def __repr__(self) -> str:
        return f"<Journal {self.path} {self.health}, written to {self.written}>"

    @property
    def health(self) -> str:
        """`ok`, `gap` once something was dropped, `failed` once writing has failed."""
        return "failed" if self.error else "gap" if self._dropped else "ok"

    def event(self, record: Record) -> None:
        """Queue a record's line, or count it into a gap when the queue is full."""
        self._put(record, record.size)

    def note(self, kind: str, members: dict[str, Any]) -> None:
        """Queue a line that is no event: `kind` and its `members` are one of `lines.NOTES`.

        A `prompt_end` is on the disk, not only with the system, soon after. Raises KeyError for
        another kind or member.
        """
        line = lines.note(self._stamp(self._clock.now()), kind, members)
        sync = kind == "prompt_end"
        self._put(_Note(line, sync), len(line))
        if sync:
            self._hurry.set()

    def diag(self, kind: str, fields: dict[str, Any]) -> None:
        """Queue a `diag` line."""
        self.note("diag", {"kind": kind, "fields": fields})

    def missing(self, low: int, high: int) -> str:
        """Why the records `low` to `high` cannot come from the file: a reason of codecs 4.4, or "".

        What is queued still counts as there.
        """
        if self.error and not self.size:
            return "no_journal"
        if self._in_gap(low, high) or (self.error and high > self.written):
            return "journal_gap"
        return ""

    def replay(self, low: int, high: int) -> Iterator[Record]:
        """The records `low` to `high` from the file, which is first waited for.

        Reading is done on a thread, a piece at a time. Raises ReplayFailed (codecs 4.4).
        """
        self._catch_up(low, high)
        replay = Replay(self.path, low, high, self.incarnation, self.size)
        threads = gevent.get_hub().threadpool
        while records := _result(threads.apply(_outcome, (replay.piece,))):
            yield from records

    def close(self) -> None:
        """Write what is queued and the closing note, sync, and wait for that for a moment.

        A disk that takes longer is left to it. Idempotent.
        """
        if self._closing:
            return
        if self._writer is not None:
            self.diag("closing", {})
        self._closing = True
        self._filled.set()
        self._hurry.set()
        if self._writer is not None:
            self._writer.join(self._close_wait)

    def _put(self, entry: "Record | _Note", size: int) -> None:
        if self._closing or self.error:
            return
        queue = self._queue
        if (
            len(queue) + self._flight_entries >= self._entries_max
            or self._queue_bytes + self._flight_bytes + size > self._bytes_max
        ):
            self._drop(entry.seq)
            return
        if not queue:
            self._filled.set()
            if self._writer is None:
                self._writer = greenlets.spawn("journal", self._write_all, on_error=self._fail)
        queue.append(entry)
        self._gap = None
        self._queue_bytes += size
        if len(queue) >= self._flush_lines or self._queue_bytes >= self._flush_bytes:
            self._hurry.set()

    def _drop(self, seq: int) -> None:
        if self._gap is None:
            self._gap = lines.Gap(self._stamp(self._clock.now()))
            self._queue.append(self._gap)
            self._filled.set()
        self._gap.add(seq)
        if seq:
            self._remember(seq)
        if not self._dropped:
            self._dropped = True
            self._notice(f"craze: journal {self.path}: its queue is full; entries are dropped")

    def _remember(self, seq: int) -> None:
        gaps = self.gaps
        if gaps and gaps[-1][1] == seq - 1:
            gaps[-1] = (gaps[-1][0], seq)
            return
        gaps.append((seq, seq))
        if len(gaps) > limits.JOURNAL_GAPS:
            near = min(range(len(gaps) - 1), key=lambda i: gaps[i + 1][0] - gaps[i][1])
            gaps[near : near + 2] = [(gaps[near][0], gaps[near + 1][1])]

    def _in_gap(self, low: int, high: int) -> bool:
        return any(first <= high and last >= low for first, last in self.gaps)

    def _catch_up(self, low: int, high: int) -> None:
        """Have the file reach `high`."""
        with gevent.Timeout(self._catch_up_seconds, False):
            while True:
                if self._in_gap(low, high):
                    raise ReplayFailed("journal_gap")
                if self.written >= high:
                    return
                if self._over:
                    break
                self._hurry.set()
                self._progress.wait()
        raise ReplayFailed("journal_behind")

    def _write_all(self) -> None:
        """The writer greenlet: batch after batch until the journal is closed, or fails."""
        thread = ThreadPool(1)
        try:
            while not self.error and (self._queue or not self._closing):
                self._filled.wait()
                if not self._closing:
                    self._hurry.wait(self._flush_seconds)
                self._filled.clear()
                self._hurry.clear()
                self._write(thread)
            self._on(thread, self._file.close)
        finally:
            self._over = True
            self._tell()
            thread.kill()

    def _write(self, thread: ThreadPool) -> None:
        batch, self._queue = self._queue, []
        self._flight_entries, self._flight_bytes = len(batch), self._queue_bytes
        self._queue_bytes = 0
        self._gap = None
        written = self._on(thread, self._file.write, batch)
        if written is not None:
            self.size, last = written
            self.written = max(self.written, last)
        self._flight_entries = self._flight_bytes = 0
        self._tell()

    def _on(self, thread: ThreadPool, work: Callable[..., Any], *args: Any) -> Any:
        try:
            return _result(thread.apply(_outcome, (work, *args)))
        except OSError as failure:
            self._fail(failure)
            return None

    def _fail(self, failure: BaseException) -> None:
        if not self.error:
            self.error = str(failure) or type(failure).__name__
            self._queue.clear()
            self._notice(f"craze: journal {self.path}: {self.error}; it is not written any further")

    def _tell(self) -> None:
        told, self._progress = self._progress, Event()
        told.set()


class _Note:
    """A queued line that is no event."""

    __slots__ = ("line", "sync")
    seq = 0

    def __init__(self, line: bytes, sync: bool) -> None:
        self.line = line
        self.sync = sync


class _File:
    """The journal's file. Blocks; used by one thread alone."""

    def __init__(self, path: str, header: bytes, opener: Callable[[str], int]) -> None:
        self._path = path
        self._header = header
        self._opener = opener
        self._fd: int | None = None
        self._size = 0

    def write(self, batch: list[Record | _Note | lines.Gap]) -> tuple[int, int]:
        """Write the batch's lines and sync if one asks for it: the file's size, the last seq."""
        parts = []
        if self._fd is None:
            self._fd = self._opener(self._path)
            parts.append(self._header)
        last = 0
        sync = False
        for entry in batch:
            last = entry.seq or last
            if type(entry) is Record:
                parts.append(lines.event(entry))
            elif type(entry) is _Note:
                parts.append(entry.line)
                sync = sync or entry.sync
            elif type(entry) is lines.Gap:
                parts.append(entry.line())
        data = memoryview(b"".join(parts))
        self._size += len(data)
        while data:
            data = data[os.write(self._fd, data) :]
        if sync:
            os.fsync(self._fd)
        return self._size, last

    def close(self) -> None:
        """Sync and close."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def _make_directory(path: str) -> None:
    # os.makedirs gives its mode to the last directory alone.
    if not os.path.isdir(path):
        _make_directory(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise


def _outcome(work: Callable[..., Any], *args: Any) -> tuple[Any, Exception | None]:
    """What `work` returns or raises. A pool prints what is raised on its thread, unasked."""
    try:
        return work(*args), None
    except Exception as failure:
        return None, failure


def _result(outcome: tuple[Any, Exception | None]) -> Any:
    value, failure = outcome
    if failure is not None:
        raise failure
    return value
