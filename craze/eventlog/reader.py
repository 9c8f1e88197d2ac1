"""Reading a journal: a range of records for a replay, or every line to look at.

A file may be gigabytes long and its writer still at work. It is read in pieces, never past the
complete lines that the reader was told of, and found the place in by bisection. Everything here
blocks on the disk: a program with a loop calls it on a thread (`craze.eventlog.journal`).
"""

import os
from collections.abc import Iterator
from typing import Any, Final

from craze.eventlog import lines
from craze.eventlog.cursors import ReplayFailed
from craze.eventlog.record import Record
from craze.wire import limits

# A record's line is its body and some 200 bytes; a note's texts are far smaller.
LINE_BYTES: Final = limits.RECORD + 64 * limits.KIB
PIECE_BYTES: Final = 256 * limits.KIB


class Replay:
    """Where the replay of `low` to `high` stands in the journal at `path`, read up to byte `end`.

    A piece opens the file, reads and closes it, so a replay that is abandoned leaves nothing open,
    even while a piece of it is being read on a thread.
    """

    def __init__(
        self,
        path: str,
        low: int,
        high: int,
        incarnation: str,
        end: int | None = None,
        *,
        piece_bytes: int = PIECE_BYTES,
        line_bytes: int = LINE_BYTES,
    ) -> None:
        self._path = path
        self._low = self._next = low
        self._high = high
        self._incarnation = incarnation
        self._end = end
        self._offset: int | None = None
        self._piece_bytes = piece_bytes
        self._line_bytes = line_bytes

    def piece(self) -> list[Record]:
        """The next records, some `piece_bytes` of them; none when `high` has been reached.

        Raises ReplayFailed (codecs 4.4).
        """
        if self._next > self._high:
            return []
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return self._read(fd)
            finally:
                os.close(fd)
        except FileNotFoundError as failure:
            raise ReplayFailed("no_journal", str(failure)) from None
        except (OSError, ValueError) as failure:
            raise ReplayFailed("evicted", str(failure)) from None

    def _read(self, fd: int) -> list[Record]:
        if self._end is None:
            self._end = os.fstat(fd).st_size
        if self._offset is None:
            self._offset = self._locate(fd, self._end)
        records: list[Record] = []
        size = 0
        for after, line in _lines(fd, self._offset, self._end, self._line_bytes):
            self._offset = after
            seq = lines.seq_of(line)
            if not seq:
                self._pass(line)
            elif seq > self._next:
                raise ReplayFailed("journal_gap", f"{self._next} to {seq - 1} are not in the file")
            elif seq == self._next:
                records.append(lines.read_event(line))
                self._next += 1
                size += len(line)
                if size >= self._piece_bytes or seq == self._high:
                    return records
            elif self._next > self._low:
                raise ValueError(f"record {seq} comes after {self._next - 1}")
        if records:
            return records
        raise ReplayFailed("journal_behind", f"the file ends before {self._next}")

    def _pass(self, line: bytes) -> None:
        """Judge a line that is no event's: only a gap in what is still to come matters."""
        members = lines.read_other(line)
        if members["type"] == "event":
            raise ValueError("a malformed event line")
        if members["type"] != "gap" or "fromSeq" not in members:
            return
        first, last = members["fromSeq"], members.get("toSeq")
        if not isinstance(first, int) or not isinstance(last, int):
            raise ValueError("a malformed gap line")
        if first <= self._high and last >= self._next:
            raise ReplayFailed("journal_gap", f"{first} to {last} were dropped")

    def _locate(self, fd: int, end: int) -> int:
        """Where a line begins from which on `low` is found, after no more than a piece or so."""
        below = _after_header(fd, end, self._incarnation, self._line_bytes)
        above = end
        while above - below > self._piece_bytes:
            middle = (below + above) // 2
            start, seq = self._probe(fd, middle, above)
            if seq and seq <= self._low:
                below = start
            else:
                above = middle
        return below

    def _probe(self, fd: int, middle: int, above: int) -> tuple[int, int]:
        """The first event's line that begins after `middle` and before `above`: where, its seq."""
        start = 0  # of the line; the first one has begun before `middle`, or at it
        for after, line in _lines(fd, middle, above, self._line_bytes):
            seq = lines.seq_of(line) if start else 0
            if seq:
                return start, seq
            start = after
        return 0, 0


def read(
    path: str, low: int, high: int, incarnation: str, end: int | None = None
) -> Iterator[Record]:
    """The records `low` to `high` of the journal at `path`, in order. Blocks; raises ReplayFailed.

    `end` is how many bytes of it are complete; a torn last line past or before that is ignored.
    """
    replay = Replay(path, low, high, incarnation, end)
    while records := replay.piece():
        yield from records


def load(path: str) -> Iterator[dict[str, Any]]:
    """Every line of a journal as its members, the header first; a torn last line is ignored.

    Blocks. Raises OSError, and ValueError at a line that is malformed or longer than any is.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, line in _lines(fd, 0, os.fstat(fd).st_size, LINE_BYTES):
            yield lines.read_other(line)
    finally:
        os.close(fd)


def _after_header(fd: int, end: int, incarnation: str, line_bytes: int) -> int:
    for after, line in _lines(fd, 0, end, line_bytes):
        members = lines.read_other(line)
        stated = tuple(members.get(name) for name in ("type", "format", "eventCodec"))
        if stated != ("header", 1, 1):
            raise ValueError("the first line is no header of format 1")
        if members.get("incarnation") != incarnation:
            raise ValueError("the journal of another incarnation")
        return after
    raise ReplayFailed("journal_behind", "the file holds no complete line")


def _lines(fd: int, start: int, end: int, line_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The complete lines between two offsets: where the next one begins, and the line.

    Raises ValueError at a line longer than `line_bytes`.
    """
    parts: list[bytes] = []
    held = 0
    while start < end:
        chunk = os.pread(fd, min(limits.CHUNK, end - start), start)
        if not chunk:
            return
        begin = 0
        while (cut := chunk.find(b"\n", begin)) >= 0:
            parts.append(chunk[begin:cut])
            begin = cut + 1
            if held + len(parts[-1]) > line_bytes:
                break
            yield start + begin, b"".join(parts)
            parts.clear()
            held = 0
        else:
            parts.append(chunk[begin:])
            held += len(parts[-1])
            start += len(chunk)
            if held <= line_bytes:
                continue
        raise ValueError(f"a line longer than {line_bytes} bytes")
