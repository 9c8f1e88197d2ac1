"""The cheapest client there is, for the benchmarks: blocking, one request at a time, no checks."""

import json
import socket
from typing import Any

from tests.e2e.machine import Host


class Peer:
    """A connection to a host's socket, past its hello."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.lines = self.sock.makefile("rb")
        self.ask("hello", {"protocols": [1], "client": {"kind": "bench"}})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request; notifications before it are passed over."""
        reply = json.loads(self.trip(self.request(method, params)))
        while "id" not in reply:
            reply = json.loads(next(self.lines))
        return reply["result"]

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        """The line of a request."""
        line = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return json.dumps(line).encode() + b"\n"

    def trip(self, line: bytes) -> bytes:
        """Send a line and give the next one: its reply, on a quiet session."""
        self.sock.sendall(line)
        return next(self.lines)

    def close(self) -> None:
        self.lines.close()
        self.sock.close()


def attached(host: Host) -> Peer:
    """A client of `host` that follows its session, which has started."""
    peer = Peer(host.socket)
    peer.ask("session.attach", {"sessionId": host.session, "when": "ready"})
    return peer
