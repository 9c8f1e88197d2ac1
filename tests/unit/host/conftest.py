"""A host in this process: the real server and session over a stub agent, and clients of it."""

import json
import socket as names
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from gevent import socket

from craze.clock import ManualClock
from craze.engine import port
from craze.fakes.stub import CAPABILITIES, Stub
from craze.host.server import Server
from craze.host.session import Facts, Session
from craze.machine import sockets

SESSION = "session-1"
START = 1_767_225_600_000_000_000


class Client:
    """A raw client: lines out, lines in."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(names.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(path)
        self._buffer = b""
        self._id = 0

    def send(self, method: str, **params: Any) -> int:
        """Send a request; its id."""
        self._id += 1
        line = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.sock.sendall(json.dumps(line).encode() + b"\n")
        return self._id

    def read(self) -> Any:
        """The next line, None at the end."""
        while b"\n" not in self._buffer:
            data = self.sock.recv(1 << 20)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def call(self, method: str, **params: Any) -> Any:
        """Send and read until the reply: its result, or its error's data."""
        number = self.send(method, **params)
        while True:
            line = self.read()
            assert line is not None, "the host closed the connection"
            if line.get("id") == number:
                return line["result"] if "result" in line else line["error"]["data"]

    def hello(self, **more: Any) -> Any:
        return self.call("hello", protocols=[1], client={"kind": "test"}, **more)


class Hosted:
    """The host, its clock, and what its server reported."""

    def __init__(self, path: str, make_agent: Callable[..., Any], able: dict[str, bool]) -> None:
        self.path = path
        self.clock = ManualClock(START)
        self.reported: list[tuple[str, BaseException]] = []
        self.stops = 0
        facts = Facts(SESSION, "/work", "", "cursor", {**CAPABILITIES, **able})
        self.session = Session(facts, "inc-1", self.clock, lambda post: make_agent(post, {}))
        self.tokens = iter(f"{number:032x}" for number in range(1, 10_000))
        self.server = Server(
            sockets.bind(path),
            self.session,
            host_id="0123456789ab",
            version="test",
            pid=1,
            draw_token=lambda: next(self.tokens),
            report=lambda where, error: self.reported.append((where, error)),
            on_stop=self._stop,
        )
        self.clients: list[Client] = []

    def _stop(self) -> None:
        self.stops += 1

    def client(self, hello: bool = True) -> Client:
        client = Client(self.path)
        self.clients.append(client)
        if hello:
            client.hello()
        return client

    def event(self, event: dict[str, Any]) -> None:
        self.session.post(port.AgentEvent(event))

    def close(self) -> None:
        self.session.close()
        self.server.close()
        self.server.hang_up()
        for client in self.clients:
            client.sock.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., Hosted]]:
    """Makes a started host; `agent` is its class, the rest session capabilities."""
    made: list[Hosted] = []

    def make(agent: Callable[..., Any] = Stub, start: bool = True, **able: bool) -> Hosted:
        hosted = Hosted(str(tmp_path / f"h{len(made)}.sock"), agent, able)
        made.append(hosted)
        if start:
            hosted.session.start()
        return hosted

    yield make
    for hosted in made:
        hosted.close()
        assert not hosted.reported, hosted.reported
    gevent.sleep(0)
