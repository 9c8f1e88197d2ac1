"""The queue of prompts that wait for their turn (codecs 5.3).

A row is the wire's dict, replaced and never changed, as events hold it too. Its id and its place
are its own: an edit moves neither. Adding a row never starts a turn.
"""

from typing import Any

from craze.engine.refusals import refusal
from craze.engine.stage import Stage
from craze.events import build
from craze.events.members import payload
from craze.wire.limits import QUEUE_ROWS, QUEUE_TEXT
from craze.wire.times import format_time

Row = dict[str, Any]


class Queue:
    """The rows in order, head first. Every change is an event; a refusal changes nothing."""

    __slots__ = ("_count", "_stage", "rows")

    def __init__(self, stage: Stage) -> None:
        self.rows: list[Row] = []
        self._stage = stage
        self._count = 0

    def find(self, row: str) -> Row:
        """The row of that id. Raises Refusal `unknown_row`."""
        return self.rows[self._place(row)]

    def has(self, row: str) -> bool:
        return any(held["id"] == row for held in self.rows)

    def add(self, text: str, cause: str) -> Row:
        """A new row at the back. Raises Refusal `queue_full`, `text_too_long`."""
        if len(self.rows) >= QUEUE_ROWS:
            raise refusal("queue_full")
        _bounded(text)
        self._count += 1
        row = payload(
            "queue", id=f"q-{self._count}", text=text, queuedAt=format_time(self._stage.now)
        )
        self.rows.append(row)
        self._tell(row, "queued", len(self.rows) - 1, cause)
        return row

    def edit(self, row: str, text: str, expected: int | None, cause: str) -> None:
        """Another text for the row, if it is still at the `expected` version (None: whatever it is
        at). Raises Refusal `unknown_row`, `stale_version`, `text_too_long`."""
        place = self._place(row)
        held = self.rows[place]
        version = held.get("version", 0)
        if expected is not None and expected != version:
            raise refusal("stale_version", f"{row} is at version {version}, not {expected}")
        _bounded(text)
        self.rows[place] = payload(
            "queue", id=row, text=text, queuedAt=held["queuedAt"], version=version + 1
        )
        self._tell(self.rows[place], "edited", place, cause)

    def remove(self, row: str, cause: str) -> Row:
        """Take the row out unsent. Raises Refusal `unknown_row`."""
        return self._drop(self._place(row), "removed", cause)

    def clear(self, cause: str = "") -> list[Row]:
        """Take every row out, head first; the rows in queue order."""
        return [self._drop(0, "removed", cause) for _ in range(len(self.rows))]

    def take(self, row: str, cause: str) -> Row:
        """Take the row out to be sent. Raises Refusal `unknown_row`."""
        return self._drop(self._place(row), "sent", cause)

    def restore(self, row: Row, cause: str) -> None:
        """Put a row that was not sent after all back at the head, as it was and past any cap."""
        self.rows.insert(0, row)
        self._tell(row, "queued", 0, cause)

    def _place(self, row: str) -> int:
        for place, held in enumerate(self.rows):
            if held["id"] == row:
                return place
        raise refusal("unknown_row", row)

    def _drop(self, place: int, change: str, cause: str) -> Row:
        row = self.rows.pop(place)
        self._tell(row, change, place, cause)
        return row

    def _tell(self, row: Row, change: str, place: int, cause: str) -> None:
        self._stage.commit(build.queue(row, change, place, cause))


def _bounded(text: str) -> None:
    if len(text) * 4 > QUEUE_TEXT and len(text.encode(errors="surrogatepass")) > QUEUE_TEXT:
        raise refusal("text_too_long")
