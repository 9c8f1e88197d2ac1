"""What the splice moves, and what of the processor it takes, against `socat` between two sockets.

A child of this process is the host: it takes what comes as fast as it can and answers one byte at
the end. The client writes pieces of one size. `socat` copies through a buffer of its own, 32 KiB as
a program of the field would, or 256 KiB.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import hosts, hubs
from tests.bench.measure import Measure, cpu_seconds
from tests.bench.peer import attached
from tests.e2e.machine import until

TOTAL = 512 * 1024 * 1024
ROUNDS = 3
MIB = 1024 * 1024


def sink(listener: socket.socket) -> int:
    """A process that takes everything of one connection after the other; its pid."""
    pid = os.fork()
    if pid:
        return pid
    space = bytearray(256 * 1024)
    try:
        while True:
            sock, _ = listener.accept()
            while sock.recv_into(space):
                pass
            sock.sendall(b".")
            sock.close()
    finally:
        os._exit(0)


def move(sock: socket.socket, size: int) -> float:
    """Seconds until everything has arrived."""
    piece, fd, write = bytes(size), sock.fileno(), os.write
    begun = time.perf_counter()
    for _ in range(TOTAL // size):
        assert write(fd, piece) == size  # it blocks until all is taken
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(1) == b"."
    spent = time.perf_counter() - begun
    sock.close()
    return spent


def straight(target: str) -> socket.socket:
    """A connection to the host itself."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(target)
    return sock


@contextlib.contextmanager
def socat(target: str, buffer: int) -> Iterator[tuple[int, Callable[[], socket.socket]]]:
    """A socat to the socket `target`: its pid, and how to connect to it, once."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = str(Path(folder) / "in")
        process = subprocess.Popen(
            ["socat", "-b", str(buffer), f"UNIX-LISTEN:{path}", f"UNIX-CONNECT:{target}"]
        )
        assert until(lambda: Path(path).exists(), 20)

        def connect() -> socket.socket:
            sock = socket.socket(socket.AF_UNIX)
            assert until(lambda: sock.connect_ex(path) == 0, 20)  # bound, then listening
            return sock

        try:
            yield process.pid, connect
        finally:
            process.terminate()
            process.wait(timeout=20)


def measured(pid: int, connect: Callable[[], socket.socket], size: int) -> tuple[float, float]:
    """MiB a second, and processor seconds a GiB of the process between."""
    sock = connect()
    before = cpu_seconds(pid)
    spent = move(sock, size)
    cpu = cpu_seconds(pid) - before
    return TOTAL / MIB / spent, cpu * 1024 * MIB / TOTAL


def run() -> Iterator[Measure]:
    if shutil.which("socat") is None:
        raise SystemExit("the benchmark `splice` needs socat (apt-get install socat)")
    with hosts.machine() as machine, hubs.hub(machine) as hub:
        target = hubs.listed(machine, 1)
        pid = sink(target.listener)
        try:
            for size, faster in ((64 * 1024, 2.0), (8 * 1024, 1.5)):
                ours, small, large = [], [], []
                for _ in range(ROUNDS):
                    connect = lambda: hubs.spliced(hub, "session-1")  # noqa: E731
                    ours.append(measured(hub.process.pid, connect, size))
                    for buffer, taken in ((32768, small), (262144, large)):
                        with socat(target.socket, buffer) as (other, dial):
                            taken.append(measured(other, dial, size))
                yield from compared(f"{size // 1024} KiB", ours, small, large, faster)
                alone = max(
                    TOTAL / MIB / move(straight(target.socket), size) for _ in range(ROUNDS)
                )
                yield Measure("  client and host with nothing between", alone, "MiB/s")
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            target.unbind()
    yield from round_trip()


def compared(
    name: str,
    ours: list[tuple[float, float]],
    small: list[tuple[float, float]],
    large: list[tuple[float, float]],
    faster: float,
) -> Iterator[Measure]:
    """The best throughput of each, and the processor time that went with the least."""
    best = {key: (max(t for t, _ in all), min(c for _, c in all)) for key, all in
            (("ours", ours), ("32", small), ("256", large))}  # fmt: skip
    for buffer in ("32", "256"):
        (speed, cpu), (floor, floor_cpu) = best["ours"], best[buffer]
        budget = {"at_least": faster} if buffer == "32" else {}
        yield Measure(
            f"splice, {name} writes / socat {buffer} KiB", speed, "MiB/s", floor, **budget
        )
        cpu_budget = {"at_most": 0.5} if buffer == "32" and faster == 2.0 else {}
        yield Measure("  its processor time", cpu * 1e3, "ms/GiB", floor_cpu * 1e3, **cpu_budget)


def round_trip() -> Iterator[Measure]:
    """A request through the splice against the same one on the host's own socket."""
    with hosts.machine() as machine, hubs.hub(machine) as hub, hosts.host(machine) as served:
        direct = attached(served)
        through = hubs.through(hub, served.session)
        params = {"sessionId": served.session}
        pairs = []
        for _ in range(5):
            pairs.append(tuple(hubs.per_trip(peer, "session.sync", params)
                               for peer in (through, direct)))  # fmt: skip
        mine, floor = (min(column) for column in zip(*pairs, strict=True))
        for peer in (through, direct):
            peer.close()
        yield Measure("session.sync, spliced / direct", mine, "us", floor, at_most=2)
