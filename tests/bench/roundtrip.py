"""A request's round trip, against an echo on the same kind of socket.

The echo is the least that a gevent server can do for a request: take a line, send a fixed one of
the reply's size.
"""

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import hosts
from tests.bench.measure import Measure
from tests.bench.peer import Peer, attached

REQUESTS, ROUNDS = 500, 5

ECHO = """
import sys
from gevent import socket, spawn
path, size = sys.argv[1], int(sys.argv[2])
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print("ready", flush=True)
reply = b"x" * (size - 1) + b"\\n"
sock, _ = listener.accept()
while sock.recv(65536):
    sock.sendall(reply)
"""


@contextlib.contextmanager
def echo(size: int) -> Iterator[Any]:
    """A connection to an echo whose replies have `size` bytes, as a function that makes a trip."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = str(Path(folder) / "echo.sock")
        server = subprocess.Popen(
            [sys.executable, "-c", ECHO, path, str(size)], stdout=subprocess.PIPE
        )
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)

        def trip() -> None:
            sock.sendall(b"x" * 99 + b"\n")
            left = size
            while left:
                left -= len(sock.recv(left))

        try:
            yield trip
        finally:
            sock.close()
            server.wait(timeout=20)
            server.stdout.close()


def per_trip(trip: Any) -> float:
    """Microseconds."""
    begun = time.perf_counter()
    for _ in range(REQUESTS):
        trip()
    return (time.perf_counter() - begun) / REQUESTS * 1e6


def run() -> Iterator[Measure]:
    with hosts.machine() as machine, hosts.host(machine) as served:
        attached(served).close()  # the start is over
        peer = Peer(served.socket)
        yield from (
            compare(peer, method, {"sessionId": served.session})
            for method in ("session.sync", "session.state")
        )
        peer.close()


def compare(peer: Peer, method: str, params: dict[str, Any]) -> Measure:
    request = peer.request(method, params)
    size = len(peer.trip(request))
    with echo(size) as trip:
        pairs = [(per_trip(lambda: peer.trip(request)), per_trip(trip)) for _ in range(ROUNDS)]
    mine, floor = (min(column) for column in zip(*pairs, strict=True))
    return Measure(f"round trip, {method} ({size} bytes)", mine, "us", floor)
