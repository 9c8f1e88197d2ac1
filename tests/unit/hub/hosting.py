"""A machine with hosts in this process: listed as real ones are, and saying what a test has them
say."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from gevent import socket

from craze import greenlets
from craze.clock import Clock
from craze.hub.bounds import Bounds
from craze.hub.server import Hub
from craze.machine import registry, sockets
from craze.machine.paths import Paths
from craze.wire import json

A, B, C = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
PATIENCE = 10.0


def until(holds: Callable[[], Any]) -> None:
    """Let the loop run until `holds`."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        gevent.sleep(0.002)


class StepClock(Clock):
    """A clock that stands still, but for what a test puts it forward, or once it `passes`."""

    __slots__ = ("at", "passes")

    def __init__(self) -> None:
        self.at = 1000.0
        self.passes = False

    def monotonic(self) -> float:
        return self.at + (time.monotonic() if self.passes else 0)


class Lines:
    """A connection that lines are read from and written to."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""

    def read(self) -> Any:
        """The next line, None at the end."""
        while b"\n" not in self._buffer:
            data = self.sock.recv(1 << 20)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def write(self, line: dict[str, Any]) -> None:
        self.sock.sendall(json.dumps(line) + b"\n")


class Host:
    """A listed host. `row` is its row; `says(request)`, where it is set, returns the lines it
    answers a request with, in place of what a host would."""

    def __init__(self, paths: Paths, id: str, **members: Any) -> None:
        self.id = id
        self.session = members.pop("crazeSessionId", f"session-{id[0]}")
        given = {"startedAt": "2026-01-01T00:00:00Z", "provider": "grok", "workspace": "/work"}
        self.listing = registry.bind(paths, id, given | members, sleep=gevent.sleep)
        self.listing.update(crazeSessionId=self.session, ready=True)
        self.row: Any = {"sessionId": self.session, "title": ""}
        self.version = "1.2.3"
        self.says: Callable[[dict[str, Any]], list[bytes]] | None = None
        self.dialled = self.asked = self.asking = self.most = 0
        self.slow = 0.0  # seconds before each answer
        self._open: set[socket.socket] = set()
        self._busy: set[gevent.Greenlet] = set()
        self._acceptor = greenlets.spawn("fake host", self._accept, self.listing.listener)

    def _accept(self, listener: Any) -> None:
        while True:
            sock, _ = listener.accept()
            self.dialled += 1
            self._open.add(sock)
            serving = greenlets.spawn("fake host", self._serve, sock, on_error=lambda _: None)
            self._busy.add(serving)
            serving.rawlink(self._busy.discard)

    def _serve(self, sock: socket.socket) -> None:
        lines = Lines(sock)
        try:
            while (request := lines.read()) is not None:
                self.asking += 1
                self.most = max(self.most, self.asking)
                try:
                    gevent.sleep(self.slow)
                    for line in (self.says or self._answer)(request):
                        sock.sendall(line)
                finally:
                    self.asking -= 1
        finally:
            self._open.discard(sock)
            sock.close()

    def _answer(self, request: dict[str, Any]) -> list[bytes]:
        if request["method"] == "hello":
            self.greeting = request["params"]
            result: Any = {"endpoint": {"crazeVersion": self.version}}
        else:
            self.asked += 1
            result = {"epoch": self.id, "cursor": 1, "sessions": [self.row]}
        return [json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + b"\n"]

    def hang_up(self) -> None:
        """Close every connection."""
        gevent.killall(list(self._busy))
        for sock in self._open:  # of those that had not begun
            sock.close()
        self._open.clear()

    def deaf(self) -> None:
        """Take no more connections, and leave the socket's name."""
        self._acceptor.kill()
        self.listing.listener.close()
        self.hang_up()

    def close(self) -> None:
        self._acceptor.kill()
        self.hang_up()
        self.listing.unbind()


class Client(Lines):
    """A client of a hub."""

    def __init__(self, path: str) -> None:
        super().__init__(sockets.dial(path, PATIENCE))
        self._id = 0

    def send(self, method: str, **params: Any) -> int:
        """Send a request; its id."""
        self._id += 1
        self.write({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        return self._id

    def call(self, method: str, **params: Any) -> Any:
        """Send, and read the next line: its result, or its error's data."""
        number = self.send(method, **params)
        line = self.read()
        assert line is not None and line["id"] == number, line
        return line["result"] if "result" in line else line["error"]["data"]

    def hello(self) -> Any:
        return self.call("hello", protocols=[1], client={"kind": "test"})

    def ended(self) -> bool:
        """Whether nothing more comes, and the connection is over."""
        try:
            return self.read() is None
        except ConnectionResetError:
            return True


class Served:
    """A hub in this process."""

    def __init__(self, root: Path, paths: Paths, clock: Clock, **bounds: float) -> None:
        self.path = str(root / "hub.sock")
        self.reported: list[tuple[str, BaseException]] = []
        self.said: list[str] = []
        self.hub = Hub(
            sockets.bind(self.path),
            paths,
            hub_id="0a1b2c3d4e5f",
            version="test",
            pid=os.getpid(),
            report=lambda where, failure: self.reported.append((where, failure)),
            say=self.said.append,
            failed=lambda: self.said.append("failed"),
            clock=clock,
            bounds=Bounds(**bounds),  # type: ignore[arg-type]
        )
        self.clients: list[Client] = []

    def client(self, *, hello: bool = True) -> Client:
        client = Client(self.path)
        self.clients.append(client)
        if hello:
            client.hello()
        return client

    def close(self) -> None:
        self.hub.close()
        for client in self.clients:
            client.sock.close()
        os.unlink(self.path)
