"""A `craze hub` in a benchmark's machine, and hosts that cost nothing: sockets and locks that this
process holds."""

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import gevent
from gevent import socket as cooperative

from craze.machine import hubs, registry
from craze.machine.paths import Paths
from tests.bench.peer import Peer
from tests.e2e.machine import Machine, until

READY_S, END_S = 20, 20
STARTED = "2026-01-01T00:00:00Z"


class Hub(NamedTuple):
    """A hub that has said it is ready."""

    process: subprocess.Popen[bytes]
    socket: str


@contextlib.contextmanager
def hub(machine: Machine) -> Iterator[Hub]:
    """A hub, ended by a signal."""
    process = machine.craze("hub")
    paths = Paths.of(machine.environment)
    try:
        assert until(lambda: hubs.read(paths) is not None, READY_S)
        found = hubs.read(paths)
        assert found is not None
        yield Hub(process, found.record.socket)
    finally:
        process.terminate()
        process.wait(timeout=END_S)


def listed(machine: Machine, number: int) -> registry.Listing:
    """A host in the registry with a listening socket that nobody answers yet."""
    paths = Paths.of(machine.environment)
    listing = registry.bind(paths, f"{number:012x}", {"startedAt": STARTED}, sleep=gevent.sleep)
    listing.update(crazeSessionId=f"session-{number}", ready=True)
    return listing


def spliced(hub: Hub, session: str) -> socket.socket:
    """A connection through the hub's splice, on which the host has heard nothing yet."""
    peer = Peer(hub.socket)
    peer.ask("session.connect", {"sessionId": session})
    return peer.sock


def through(hub: Hub, session: str) -> Peer:
    """A client of the session's host, past its hello, through the hub."""
    peer = Peer(hub.socket)
    peer.ask("session.connect", {"sessionId": session})
    peer.ask("hello", {"protocols": [1], "client": {"kind": "bench"}})
    peer.ask("session.attach", {"sessionId": session, "when": "ready"})
    return peer


def per_trip(peer: Peer, method: str, params: dict[str, Any], count: int = 500) -> float:
    """Microseconds for one request and its reply."""
    request = peer.request(method, params)
    begun = time.perf_counter()
    for _ in range(count):
        peer.trip(request)
    return (time.perf_counter() - begun) / count * 1e6


class Crowd:
    """`count` hosts, each of which answers hello and its list, all in this process."""

    def __init__(self, machine: Machine, count: int) -> None:
        self.listings = [listed(machine, number) for number in range(count)]
        self._serving = [gevent.spawn(self._accept, listing) for listing in self.listings]

    def close(self) -> None:
        gevent.killall(self._serving)
        for listing in self.listings:
            listing.unbind()

    def _accept(self, listing: registry.Listing) -> None:
        while True:
            sock, _ = listing.listener.accept()
            self._serving.append(gevent.spawn(self._answer, sock, listing.entry.hostId))

    def _answer(self, sock: Any, host_id: str) -> None:
        with sock, sock.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                reply = {"jsonrpc": "2.0", "id": request["id"], "result": _result(request, host_id)}
                sock.sendall(json.dumps(reply).encode() + b"\n")


def _result(request: dict[str, Any], host_id: str) -> dict[str, Any]:
    if request["method"] == "hello":
        return {"endpoint": {"kind": "host", "hostId": host_id, "crazeVersion": "1"}}
    row = {"hostId": host_id, "title": "a title", "activity": "idle", "filler": "x" * 1500}
    return {"epoch": host_id, "cursor": 1, "sessions": [row]}


def asked(hub: Hub, method: str) -> float:
    """Seconds for one answer, on a connection that this process's own hosts can answer beside."""
    sock = cooperative.socket(socket.AF_UNIX)
    sock.connect(hub.socket)
    with sock, sock.makefile("rb") as lines:
        for id, name, params in (
            (1, "hello", {"protocols": [1], "client": {"kind": "bench"}}),
            (2, method, {}),
        ):
            line = json.dumps({"jsonrpc": "2.0", "id": id, "method": name, "params": params})
            begun = time.perf_counter()
            sock.sendall(line.encode() + b"\n")
            lines.readline()
        return time.perf_counter() - begun


def descriptors(count: int) -> None:
    """Allow this process as many descriptors."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count), hard))
    assert os.sysconf("SC_OPEN_MAX") >= min(hard, count)
