"""Ports here that lead to ports of another machine's own loopback, shared and counted.

Everybody who needs a port there holds a share of one forward; the last to let go ends it, with what
still goes through it. A forward outlives the connection that it goes through: each of its
connections is made anew.
"""

from collections.abc import Callable
from socket import SHUT_WR
from types import TracebackType
from typing import TYPE_CHECKING, Self

import gevent
from gevent import socket

from craze import greenlets
from craze.wire.limits import CHUNK
from craze_shed.reach.errors import ReachError, reason
from craze_shed.reach.once import Once

if TYPE_CHECKING:
    from craze_shed.reach.interface import Running

_BACKLOG = 64
_PAUSE = 0.1  # seconds, after an accept that failed


class Share:
    """A holder's part of a forward. `port` is the one on 127.0.0.1 to connect to, for as long as
    the share is held."""

    def __init__(self, port: int, release: Callable[[], None]) -> None:
        self.port = port
        self._release: Callable[[], None] | None = release

    def __repr__(self) -> str:
        return f"<share of 127.0.0.1:{self.port}, {'held' if self._release else 'released'}>"

    def release(self) -> None:
        """Let go of it; doing so twice is harmless."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Forwards:
    """The forwards to one machine; `connect(port)` makes one connection to a port of it."""

    def __init__(self, connect: Callable[[int], "Running"]) -> None:
        self._connect = connect
        self._forwards: dict[int, _Forward] = {}

    def __len__(self) -> int:
        return len(self._forwards)

    def share(self, port: int) -> Share:
        """A share of the forward to `port`, which begins with its first. Raises ReachError."""
        forward = self._forwards.get(port)
        if forward is None:
            forward = self._forwards[port] = _Forward(port, self._connect)
        forward.shares += 1
        return Share(forward.local, lambda: self._released(forward))

    def close(self) -> None:
        """End them all, whoever holds a share."""
        for forward in list(self._forwards.values()):
            self._end(forward)

    def _released(self, forward: "_Forward") -> None:
        forward.shares -= 1
        if forward.shares == 0:
            self._end(forward)

    def _end(self, forward: "_Forward") -> None:
        if self._forwards.get(forward.port) is forward:
            del self._forwards[forward.port]
        forward.close()


class _Forward:
    """A listening socket here, and what was accepted on it."""

    def __init__(self, port: int, connect: Callable[[int], "Running"]) -> None:
        self.port = port
        self.shares = 0
        self._connect = connect
        self._serving: set[gevent.Greenlet] = set()
        self.close = Once(f"forward-end {port}", self._close)
        try:
            self._listener = _listening()
        except OSError as failure:
            raise ReachError(f"no port to forward {port} from: {reason(failure)}") from failure
        self.local: int = self._listener.getsockname()[1]
        self._accepter = greenlets.spawn(f"forward {port}", self._accept)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                gevent.sleep(_PAUSE)  # no descriptor left, or it hung up already
                continue
            serving = greenlets.spawn(f"forward {self.port} connection", self._serve, sock)
            self._serving.add(serving)
            serving.rawlink(self._serving.discard)

    def _serve(self, sock: socket.socket) -> None:
        """One connection: both ways, each until its own end, or until one fails."""
        with sock:
            try:
                with self._connect(self.port) as stream:
                    self._both_ways(sock, stream)
            except ReachError:
                return  # whoever connected sees it closed, as by a program that is not there

    def _both_ways(self, sock: socket.socket, stream: "Running") -> None:
        ways: list[gevent.Greenlet] = []

        def broken(_: BaseException) -> None:
            gevent.killall(ways, block=False)

        name = f"forward {self.port}"
        there = (sock.recv, stream.sendall, stream.half_close)
        back = (stream.recv, sock.sendall, lambda: sock.shutdown(SHUT_WR))
        ways.append(greenlets.spawn(f"{name} there", _copy, *there, on_error=broken))
        ways.append(greenlets.spawn(f"{name} back", _copy, *back, on_error=broken))
        try:
            gevent.joinall(ways)
        finally:
            gevent.killall(ways)

    def _close(self) -> None:
        self._accepter.kill()
        self._listener.close()
        gevent.killall(list(self._serving))


def _listening() -> socket.socket:
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _copy(
    recv: Callable[[int], bytes], send: Callable[[bytes], None], end: Callable[[], None]
) -> None:
    while data := recv(CHUNK):
        send(data)
    end()
