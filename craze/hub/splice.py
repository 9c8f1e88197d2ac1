"""The splice: a client's connection and a session's host, joined byte for byte.

Each direction moves what one side sent to the other through a buffer of its own, emptied before
the next read, so that a side that stops reading stops the other and nothing piles up. Where the
platform can, the buffer is a pipe and the bytes never leave the kernel. Nothing is read or added.

A side that closes its writing half is passed on as that; the host's end ends the client's
connection; a client that is gone altogether is noticed within about a second.
"""

import contextlib
import fcntl
import os
import select
import socket as names
from collections.abc import Callable
from typing import Protocol

import gevent
from gevent import socket
from gevent.event import Event

from craze import greenlets
from craze.wire.limits import CHUNK, SPLICE_BUFFER, SPLICE_SHUTDOWN, WRITE_STALL

_READ, _WRITE = 1, 2
_LOOK = 1.0  # how often a client that sends no more is looked at
_PIPE = 256 * 1024
_STALL_LOOKS = 12
_TURN = 16  # moves of one direction before the others have theirs
_NO_READER = (BrokenPipeError, ConnectionResetError)
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Buffer(Protocol):
    """What one direction's bytes pass through."""

    def fill(self, source: int) -> int:
        """Take what the descriptor has; how much, 0 at its end. Raises BlockingIOError, OSError."""

    def drain(self, sink: int) -> int:
        """Give what is held, or a part of it; how much is left. Raises as `fill`."""

    def close(self) -> None:
        """Let go of it."""


class Memory:
    """A buffer in this process's memory."""

    __slots__ = ("_held", "_space")

    def __init__(self) -> None:
        self._space = bytearray(SPLICE_BUFFER)
        self._held = memoryview(b"")

    def fill(self, source: int) -> int:
        size = os.readv(source, [self._space])
        self._held = memoryview(self._space)[:size]
        return size

    def drain(self, sink: int) -> int:
        self._held = self._held[os.write(sink, self._held) :]
        return len(self._held)

    def close(self) -> None:
        self._held = memoryview(b"")


class Pipe:
    """A buffer in the kernel. It holds as much as a socket does, where this user may have such
    pipes: what one write has put there then moves in one go."""

    __slots__ = ("_held", "_reading", "_writing")

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, _PIPE)
        self._held = 0

    def fill(self, source: int) -> int:
        # The pipe is empty: it is the source that has nothing when this would block.
        self._held = os.splice(source, self._writing, _PIPE, flags=_MOVE)
        return self._held

    def drain(self, sink: int) -> int:
        self._held -= os.splice(self._reading, sink, self._held, flags=_MOVE)
        return self._held

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


if hasattr(os, "splice"):
    _MOVE = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
    Best: Callable[[], Buffer] = Pipe
else:
    Best = Memory


class Splice:
    """`client` and `host` joined; `ahead` is what the client sent before it knew.

    `run` returns once both are closed. Other buffers, stalls and looks are for tests.
    """

    def __init__(
        self,
        client: socket.socket,
        host: socket.socket,
        ahead: bytes = b"",
        *,
        buffer: Callable[[], Buffer] = Best,
        stall: float = WRITE_STALL,
        look: float = _LOOK,
    ) -> None:
        self._client = client
        self._host = host
        self._ahead = ahead
        self._buffer = buffer
        self._stall = stall
        self._look = look
        self._over = Event()
        self._directions: list[_Direction] = []

    def run(self) -> None:
        """Move bytes both ways until one side ends them, and close both."""
        with contextlib.ExitStack() as held:
            held.callback(_close, self._host)
            held.callback(_close, self._client)
            self._directions = [
                held.enter_context(_Direction(*ends, self._buffer(), self._stall))
                for ends in ((self._client, self._host), (self._host, self._client))
            ]
            inward, outward = (
                greenlets.spawn(f"splice {name}", work, on_error=self._ended)
                for name, work in (("inward", self._inward), ("outward", self._outward))
            )
            held.callback(gevent.killall, [inward, outward])
            while not self._over.wait(self._stall / _STALL_LOOKS):
                if any(direction.stalled() for direction in self._directions):
                    return

    def shut_down(self) -> None:
        """End it from this side: both read their end after all that was taken of the other, and
        have half a second to go."""
        with gevent.Timeout(SPLICE_SHUTDOWN, False):
            for direction in self._directions:
                direction.stop()
            for direction in self._directions:
                direction.stopped.wait()
        self._over.set()

    def _inward(self) -> None:
        to_host, to_client = self._directions
        try:
            if self._ahead:
                to_host.send(self._ahead)
            to_host.move()
        except _Deaf:
            to_client.stopped.wait(self._stall)
        else:
            # The host heard of the end and still answers, while somebody is there to read it.
            while not _gone(self._client):
                gevent.sleep(self._look)
        self._over.set()

    def _outward(self) -> None:
        to_host, to_client = self._directions
        try:
            to_client.move()
        except _Deaf:
            to_host.stopped.wait(self._stall)
        if not to_client.stopping:
            self._over.set()

    def _ended(self, failure: BaseException) -> None:
        self._over.set()
        if not isinstance(failure, OSError):  # TimeoutError, the stall's, is one
            raise failure


class _Deaf(OSError):
    """The sink takes nothing any more: it has gone, most likely, and what it said before that is
    still to reach the other side."""


class _Direction:
    """From one side to the other."""

    def __init__(
        self, source: socket.socket, sink: socket.socket, buffer: Buffer, stall: float
    ) -> None:
        loop = gevent.get_hub().loop
        self._source = source
        self._sink = sink
        self._buffer = buffer
        self._stall = stall
        self._readable = loop.io(source.fileno(), _READ)
        self._writable = loop.io(sink.fileno(), _WRITE)
        self._drained = 0  # how often the sink has taken something
        self._blocked = False  # it takes nothing just now
        self._looks = (0, 0)  # how often it was seen blocked at the same place, and which
        self.stopping = False
        self.stopped = Event()  # the sink was told of the end

    def __enter__(self) -> "_Direction":
        return self

    def __exit__(self, *_: object) -> None:
        self._readable.close()
        self._writable.close()
        self._buffer.close()

    def send(self, data: bytes) -> None:
        """Send `data` to the sink, before anything that is moved. Raises OSError."""
        view = memoryview(data)
        try:
            while view:
                with gevent.Timeout(self._stall, TimeoutError("it takes nothing")):
                    view = view[self._sink.send(view) :]
        except _NO_READER:
            raise _Deaf from None

    def move(self) -> None:
        """Move what comes until the source's end or `stop`, and pass the end on. Raises OSError."""
        moves = 0
        while self._fill():
            self._drain()
            moves += 1
            if not moves % _TURN:
                gevent.sleep(0)  # two sides that are always ready would keep everybody else waiting
        with contextlib.suppress(OSError):  # the sink may have gone meanwhile
            self._sink.shutdown(names.SHUT_WR)
        self.stopped.set()

    def stop(self) -> None:
        """Read no more, pass on what is held, then the end."""
        self.stopping = True
        with contextlib.suppress(OSError):
            self._source.shutdown(names.SHUT_RD)  # which wakes who waits for it

    def _fill(self) -> bool:
        """Whether there is something to drain; false at the end."""
        while not self.stopping:
            try:
                return self._buffer.fill(self._source.fileno()) > 0
            except BlockingIOError:
                gevent.get_hub().wait(self._readable)
        return False

    def stalled(self) -> bool:
        """Whether the sink has taken nothing for the stall's time, asked `_STALL_LOOKS` times in
        it. A timer for each wait would cost more than the moving."""
        count, place = self._looks
        count = count + 1 if self._blocked and place == self._drained else 0
        self._looks = count, self._drained
        return count >= _STALL_LOOKS

    def _drain(self) -> None:
        left = 1
        while left:
            try:
                left = self._buffer.drain(self._sink.fileno())
                self._drained += 1
            except BlockingIOError:
                self._blocked = True
                gevent.get_hub().wait(self._writable)
                self._blocked = False
            except _NO_READER:
                raise _Deaf from None


def _gone(sock: socket.socket) -> bool:
    """Whether the other end is closed altogether."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return any(events & _GONE for _, events in poll.poll(0))


def _close(sock: socket.socket) -> None:
    """Close, first taking what nobody will read: a peer whose bytes are left unread is told of a
    reset in place of an end."""
    with contextlib.suppress(OSError):
        sock.shutdown(names.SHUT_RDWR)
        while sock.recv(CHUNK, names.MSG_DONTWAIT):
            pass
    sock.close()
