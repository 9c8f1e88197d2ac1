"""The journal's writer: every event and a few notes, as lines in one file per incarnation.

A commit only queues; one thread takes from the queue and alone touches the file.
The queue is bounded, so a disk that stalls costs a gap in the journal and never the session's pace;
a disk that fails ends the journal and never the session. A journal is never opened again to append.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
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
from craze.eventlog.writer import Note, Writer
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
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)  # a strict umask may have taken the owner's own bits
    return fd


def complain(words: str) -> None:
    """Say a journal's notice on stderr, if there is one to say it on."""
    with suppress(OSError, ValueError):
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
        self.error = ""  # what ended the journal, if something did
        self._dropped = False
        self._gap: lines.Gap | None = None  # the queue's last entry, when that is a gap
        self._notice = notice
        self._file = Writer(
            self.path, lines.header(made, header), opener, flush_seconds, flush_bytes
        )
        self._queue = self._file.queue
        self._queued = 0  # bytes of all entries ever queued
        self._entries_max = queue_entries
        self._bytes_max = queue_bytes
        self._flush_bytes = flush_bytes
        self._flush_lines = flush_lines
        self._catch_up_seconds = catch_up
        self._close_wait = close_wait
        self._greenlet: gevent.Greenlet | None = None
        self._working = False  # the thread is, or has been asked to
        self._filled = Event()  # there is work for it
        self._progress = Event()  # set, and replaced, after every write
        self._closing = False
        self._over = False  # nothing is written any more

    def __repr__(self) -> str:
        return f"<Journal {self.path} {self.health}, written to {self._file.written}>"

    @property
    def health(self) -> str:
        """`ok`, `gap` once something was dropped, `failed` once writing has failed."""
        return "failed" if self.error else "gap" if self._dropped else "ok"

    def event(self, record: Record | Note) -> None:
        """Queue a record's line, or count it into a gap when the queue is full."""
        if self._closing or self.error:
            return
        queue, size = self._queue, record.size
        held = self._queued - self._file.taken + size
        if len(queue) >= self._entries_max or held > self._bytes_max:
            self._drop(record.seq)
            return
        self._gap = None
        queue.append(record)
        self._queued += size
        if not self._working:
            self._start()
        if len(queue) >= self._flush_lines or held >= self._flush_bytes:
            self._file.ask()

    def note(self, kind: str, members: dict[str, Any]) -> None:
        """Queue a line that is no event: `kind` and its `members` are one of `lines.NOTES`.

        A `prompt_end` is on the disk, not only with the system, soon after. Raises KeyError for
        another kind or member.
        """
        sync = kind == "prompt_end"
        self.event(Note(lines.note(self._stamp(self._clock.now()), kind, members), sync))
        if sync:
            self._file.ask()

    def diag(self, kind: str, fields: dict[str, Any]) -> None:
        """Queue a `diag` line."""
        self.note("diag", {"kind": kind, "fields": fields})

    def missing(self, low: int, high: int) -> str:
        """Why the records `low` to `high` cannot come from the file: a reason of codecs 4.4, or "".

        What is queued still counts as there.
        """
        if self.error and not self._file.size:
            return "no_journal"
        if self._in_gap(low, high) or (self.error and high > self._file.written):
            return "journal_gap"
        return ""

    def replay(self, low: int, high: int) -> Iterator[Record]:
        """The records `low` to `high` from the file, which is first waited for.

        Reading is done on a thread, a piece at a time. Raises ReplayFailed (codecs 4.4).
        """
        self._catch_up(low, high)
        replay = Replay(self.path, low, high, self.incarnation, self._file.size)
        threads = gevent.get_hub().threadpool
        while records := _result(threads.apply(_outcome, (replay.piece,))):
            yield from records

    def close(self) -> None:
        """Write what is queued and the closing note, sync, and wait for that for a moment.

        A disk that takes longer is left to it. Idempotent.
        """
        if self._closing:
            return
        if self._greenlet is None:
            self._closing = self._over = True
            return
        self.diag("closing", {})
        self._closing = self._file.closing = True
        self._filled.set()
        self._file.ask()
        self._greenlet.join(self._close_wait)

    def _start(self) -> None:
        self._working = True
        self._filled.set()
        if self._greenlet is None:
            self._greenlet = greenlets.spawn("journal", self._run, on_error=self._fail)

    def _drop(self, seq: int) -> None:
        if self._gap is None:
            self._gap = lines.Gap(self._stamp(self._clock.now()))
            self._queue.append(self._gap)
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
                if self._file.written >= high:
                    return
                if self._over:
                    break
                self._file.ask()
                self._progress.wait()
        raise ReplayFailed("journal_behind")

    def _run(self) -> None:
        """Keep the thread at work whenever there is some, until the journal is closed, or fails."""
        thread = ThreadPool(1)
        loop = gevent.get_hub().loop
        try:
            while not self.error and (self._queue or not self._closing):
                self._filled.wait()
                self._filled.clear()
                self._on(thread, self._file.work, lambda: loop.run_callback_threadsafe(self._tell))
                self._working = self._closing or not self._file.idle()
                if self._working:
                    self._filled.set()
            self._on(thread, self._file.close)
        finally:
            self._over = True
            self._tell()
            thread.kill()

    def _on(self, thread: ThreadPool, work: Callable[..., None], *args: Any) -> None:
        try:
            _result(thread.apply(_outcome, (work, *args)))
        except Exception as failure:
            self._fail(failure)

    def _fail(self, failure: BaseException) -> None:
        if not self.error:
            self.error = str(failure) or type(failure).__name__
            self._queue.clear()
            self._notice(f"craze: journal {self.path}: {self.error}; it is not written any further")

    def _tell(self) -> None:
        told, self._progress = self._progress, Event()
        told.set()


def _make_directory(path: str) -> None:
    # os.makedirs gives its mode to the last directory alone.
    if not os.path.isdir(path):
        _make_directory(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)
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
