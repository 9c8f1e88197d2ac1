"""A side question in flight: its answer piece by piece, then as a whole."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from gevent.event import Event

from craze.client.connection import Call


class Aside:
    """What `Client.aside` returns (protocol tables 10.6). Iterate over it for the pieces of the
    answer as they come, if the agent streams; `result` waits for the whole.

    A question costs a model call, so it is never sent twice: a lost connection ends it with
    ConnectionLost.
    """

    def __init__(
        self, id: str, call: Call, timeout: float, limit: int, cancel: Callable[[str], None]
    ) -> None:
        self.id = id
        self._call = call
        self._timeout = timeout
        self._limit = limit
        self._cancel = cancel
        self._pieces: deque[str] = deque()
        self._size = 0
        self._arrived = Event()
        call.reply.rawlink(lambda _: self._arrived.set())

    def __iter__(self) -> Iterator[str]:
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._size -= len(piece)
                yield piece
            if self._call.reply.ready():
                return
            self._arrived.clear()
            if not self._arrived.wait(self._timeout):
                return

    def result(self) -> dict[str, Any]:
        """The answer: `text`, `model`, `usage`. Raises Refused, ConnectionLost, OutcomeUnknown."""
        return self._call.result(self._timeout)

    def cancel(self) -> None:
        """Ask the host to stop; the question then ends in `aborted`, reason `context`."""
        self._cancel(self.id)

    def piece(self, text: Any) -> None:
        """Take one notification's text. Past the bound pieces are dropped; the result has all."""
        if self._call.reply.ready():
            return
        if isinstance(text, str) and self._size + len(text) <= self._limit:
            self._pieces.append(text)
            self._size += len(text)
            self._arrived.set()
