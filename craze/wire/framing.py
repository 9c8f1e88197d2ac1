"""Lines out of a byte stream: what arrives in any chunks leaves as whole lines, bounded in memory.

Nothing here decodes a line. A line longer than the limit is dropped as it arrives and reported
once, where it ends, so that a connection can answer it and go on (protocol tables 1.1).
"""

from typing import Final


class TooLong:
    """Stands, as `TOO_LONG`, in the place of a line that was over the limit."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TOO_LONG"


TOO_LONG: Final = TooLong()

Line = bytes | TooLong


class LineDecoder:
    """Splits on `\\n` alone; a line comes without it and without one `\\r` before it.

    `limit` is the most bytes a line may have, neither of the two counted. Every byte is searched
    once however the stream is cut, and at most `limit` + 1 bytes are held between calls.
    """

    __slots__ = ("_held", "_limit", "_over")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()  # the unfinished line, already searched
        self._over = False  # the unfinished line is past the limit, and nothing of it is held

    def __repr__(self) -> str:
        state = "over the limit" if self._over else f"{len(self._held)} held"
        return f"<LineDecoder {state}, limit {self._limit}>"

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes, oldest first."""
        lines: list[Line] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            lines.append(self._completed(data[start:end]))
            start = end + 1
        self._hold(data[start:])
        return lines

    def finish(self) -> list[Line]:
        """At the stream's end: the last line, if it lacks its newline and is not empty."""
        return [self._completed(b"")] if self._over or self._held else []

    def _hold(self, piece: bytes) -> None:
        # One byte more than the limit may be the "\r" that does not count.
        if self._over or len(self._held) + len(piece) > self._limit + 1:
            self._over = True
            self._held = bytearray()
        else:
            self._held += piece

    def _completed(self, piece: bytes) -> Line:
        if self._over or self._held:
            self._hold(piece)
            if self._over:
                self._over = False
                return TOO_LONG
            piece = bytes(self._held)
            self._held = bytearray()
        line = piece[:-1] if piece.endswith(b"\r") else piece
        return line if len(line) <= self._limit else TOO_LONG
