"""A connection's writer: a bounded queue of whole lines and the one greenlet that sends them.

Lines queued together leave together, in pieces of at most 64 KiB, so that a burst costs few system
calls. Whoever queues a line never waits: it asks `fits` first and, where there is no room, is
called back once there is. A peer that takes nothing for the write stall is given up.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence

import gevent
from gevent import socket
from gevent.event import Event

from craze import greenlets
from craze.wire.documents import Piece
from craze.wire.limits import CHUNK, RESET_RESERVE, WRITE_STALL, WRITER_QUEUE


class Outbox:
    """The lines on their way to one peer. `closed(error)` hears of the writer's end, once."""

    def __init__(
        self,
        sock: socket.socket,
        closed: Callable[[BaseException | None], None],
        *,
        limit: int = WRITER_QUEUE,
        reserve: int = RESET_RESERVE,
        stall: float = WRITE_STALL,
    ) -> None:
        self._sock = sock
        self._closed = closed
        self._limit = limit - reserve
        self._stall = stall
        self._lines: deque[bytes | list[Piece]] = deque()
        self._queued = 0  # bytes not yet handed to the kernel, those being sent included
        self._sent = 0  # bytes handed to it
        self._rest = b""  # of a line of which a part is sent: it goes whatever else is dropped
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()
        self._wake = Event()
        self._asleep = False  # the writer waits for `_wake`
        self._room: list[Callable[[], None]] = []
        self._finishing = False
        self._terminal = False
        self._held = False
        self._writer = greenlets.spawn("outbox", self._write, on_error=self._failed)

    def __repr__(self) -> str:
        state = "finishing" if self._finishing else "held" if self._held else "open"
        return f"<Outbox {state}, {self._queued} bytes queued>"

    def fits(self, size: int) -> bool:
        """Whether a line of `size` bytes may be queued now; an empty queue takes any line."""
        return not self._queued or self._queued + size <= self._limit

    def offer(self, line: bytes) -> bool:
        """Queue a line if it fits; whether it did. This is every event's way out."""
        queued = self._queued + len(line)
        if (queued > self._limit and self._queued) or self._terminal:
            return False
        self._lines.append(line)
        self._queued = queued
        if self._asleep:
            self._stir()
        return True

    def put(self, line: bytes | list[Piece], written: Callable[[], None] | None = None) -> None:
        """Queue a line that `fits`, or a connection's last one, for which the reserve is kept. A
        very long one may come in pieces.

        `written` is called once its last byte is on the socket. After the terminal line nothing
        more is taken.
        """
        if self._terminal:
            return
        size = len(line) if isinstance(line, bytes) else sum(map(len, line))
        self._queued += size
        if written is not None:
            self._marks.append((self._sent + self._queued, written))
        if self._asleep and not self._held and isinstance(line, bytes) and size <= CHUNK:
            self._rest = self._send_now(line)
        else:
            self._lines.append(line)
        if self._queued:
            self._stir()

    def _send_now(self, line: bytes) -> bytes:
        """Send a line there and then, as far as the socket takes it: what is left of it. With
        nothing queued that spares a reply a turn of the loop."""
        try:
            sent = os.write(self._sock.fileno(), line)
        except OSError:
            return line  # not now, or never: the writer finds out which
        self._account(sent)
        return line[sent:]

    def when_room(self, call: Callable[[], None]) -> None:
        """Call `call` after the next bytes have left (or never, if none ever do)."""
        if call not in self._room:
            self._room.append(call)

    def wait_room(self, size: int) -> None:
        """Wait until a line of `size` bytes fits."""
        while not self.fits(size) and not self._terminal:
            left = Event()
            self.when_room(left.set)
            left.wait()

    def finish(self) -> None:
        """Send what is queued, then end: `closed(None)`."""
        self._finishing = True
        self._stir()

    def terminate(self, line: bytes = b"") -> None:
        """Drop what is queued, finish the line being sent, send `line`, then end."""
        self._lines.clear()
        self._queued = len(line)
        self._marks.clear()
        if line:
            self._lines.append(line)
        self._terminal = True
        self.finish()

    def hold(self, held: bool) -> None:
        """Stop sending, or go on: how a test makes a stalled peer out of a live one."""
        self._held = held
        self._stir()

    def kill(self) -> None:
        """End the writer at once; nothing more is sent and `closed` is not called."""
        self._terminal = True
        self._lines.clear()
        self._writer.kill(block=False)
        self._give_room()

    def _write(self) -> None:
        lines = self._lines
        while True:
            while (self._rest or lines) and not self._held:
                for piece in self._next():
                    self._send(piece)
            if self._finishing and not (self._rest or lines):
                break
            self._wake.clear()
            self._asleep = True
            self._wake.wait()
        self._closed(None)

    def _stir(self) -> None:
        self._asleep = False
        self._wake.set()

    def _next(self) -> Sequence[Piece]:
        """What to send next: one line in pieces, or one piece of many lines, as many as a chunk
        holds and one at least."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return (rest,)
        lines = self._lines
        first = lines.popleft()
        if isinstance(first, list):
            return first
        batch = [first]
        size = len(first)
        while lines:
            line = lines[0]
            if isinstance(line, list) or size + len(line) > CHUNK:
                break
            lines.popleft()
            size += len(line)
            batch.append(line)
        return (first if len(batch) == 1 else b"".join(batch),)

    def _send(self, piece: Piece) -> None:
        view = memoryview(piece)
        while view:
            sent = self._push(view[:CHUNK])
            view = view[sent:]
            self._account(sent)
            if self._room:
                self._give_room()

    def _push(self, piece: memoryview) -> int:
        # The stall is bounded here alone: as the socket's own timeout it would bound the reading
        # side, too, where a peer may say nothing for as long as it likes.
        try:
            return os.write(self._sock.fileno(), piece)
        except BlockingIOError:
            with gevent.Timeout(self._stall, TimeoutError("the peer takes nothing")):
                return int(self._sock.send(piece))

    def _account(self, sent: int) -> None:
        """So many bytes more are on the socket."""
        if self._terminal:
            return  # what was dropped is counted no more
        self._queued -= sent
        self._sent += sent
        while self._marks and self._marks[0][0] <= self._sent:
            self._marks.popleft()[1]()

    def _give_room(self) -> None:
        waiting, self._room = self._room, []
        for call in waiting:
            call()

    def _failed(self, error: BaseException) -> None:
        self._terminal = True
        self._lines.clear()
        self._give_room()
        self._closed(error)
