"""Streamed text cut into rows: a run of one kind becomes a row where it ends or reaches its cap.

Nothing is lost and nothing is truncated: a run longer than a row goes on in the next one.
"""

from typing import Any

from craze_shed.contract.rows import FeedMessage
from craze_shed.contract.text import MAX_FEED_MESSAGE_BYTES
from craze_shed.craze.values import filled


class Segmenter:
    """The open run, if there is one. Its bytes are kept in UTF-8, so that a cap is a slice."""

    __slots__ = ("_at", "_held", "_kind", "_limit")

    def __init__(self, limit: int = MAX_FEED_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()
        self._kind = ("", "")  # the run's role and type
        self._at: Any = None  # its first chunk's time

    def __len__(self) -> int:
        """The bytes of the open run; it moves whenever the run does."""
        return len(self._held)

    def grow(self, role: str, type: str, chunk: str, at: Any) -> list[FeedMessage]:
        """Add a chunk: the rows that this completes. An empty chunk changes nothing. `at` is its
        time as craze gives it, which is looked at only where a row begins with it."""
        if not chunk:
            return []
        rows = [] if self._kind == (role, type) else self.close()
        self._kind = (role, type)
        if not self._held:
            self._at = at
        self._held += chunk.encode("utf-8", "replace")
        while len(self._held) > self._limit:
            end = self._limit
            while self._held[end] & 0xC0 == 0x80:  # inside a character
                end -= 1
            rest = self._held[end:]
            del self._held[end:]
            rows += self._row()
            self._held, self._at = rest, at
        return rows

    def close(self) -> list[FeedMessage]:
        """End the open run: its row, unless it is blank."""
        rows = self._row()
        self._held, self._kind = bytearray(), ("", "")
        return rows

    def _row(self) -> list[FeedMessage]:
        words = self._held.decode()
        if not words.strip():
            return []
        role, type = self._kind
        return [FeedMessage(ts=filled(self._at), role=role, type=type, text=words)]
