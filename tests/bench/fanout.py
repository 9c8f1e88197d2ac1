"""Events to 1, 8 and 64 clients, against a broadcast of lines that are already bytes.

Both sides put the same number of 400-byte lines on the same kind of socket through the same
coalescing writers, to a reader process that only counts. The floor does nothing else. Ours starts
from an agent's event: engine, fold, log, journal, and each subscription's budget are on.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
from gevent import socket
from gevent.socket import wait_read

from craze.engine.port import AgentEvent
from craze.events import build
from craze.host.outbox import Outbox
from craze.wire.limits import CHUNK, MIB, WRITER_QUEUE
from tests.bench.inprocess import SESSION, served, text_for
from tests.bench.measure import Measure

LINE_BYTES = 400
BURST = CHUNK // LINE_BYTES  # lines between two looks at the loop: what an agent's one read brings
QUEUED_MAX = MIB
ROUNDS = 5
CASES = ((1, 60_000, 0.08), (8, 20_000, 0.2), (64, 6_000, 0.4))
DRAIN = Path(__file__).with_name("drain.py")


@contextlib.contextmanager
def drain(path: str, clients: int, lines: int, session: str) -> Iterator[Callable[[], None]]:
    """The reader process, its clients connected; gives what waits for its end."""
    arguments = [path, str(clients), str(lines), session]
    reader = subprocess.Popen(
        [sys.executable, "-I", str(DRAIN), *arguments], stdout=subprocess.PIPE
    )
    assert reader.stdout is not None

    def wait_for(word: bytes) -> None:
        # The stream is watched by the loop: the connections are served meanwhile.
        wait_read(reader.stdout.fileno())
        assert reader.stdout.readline() == word

    try:
        wait_for(b"ready\n")
        yield lambda: wait_for(b"done\n")
    finally:
        reader.stdout.close()
        reader.wait(timeout=20)


def produce(lines: int, one: Callable[[], Any], outboxes: list[Outbox]) -> None:
    """Make `lines` of them in bursts, no faster than the slowest reader takes them."""
    for at in range(0, lines, BURST):
        for _ in range(min(BURST, lines - at)):
            one()
        for outbox in outboxes:
            outbox.wait_room(WRITER_QUEUE - QUEUED_MAX)
        gevent.sleep(0)


def floor(clients: int, lines: int) -> float:
    """Lines a second, over all clients."""
    # As events' lines are, each is an object of its own: one line sent over and over would never
    # leave the processor's nearest cache.
    encoded = iter(
        [b"%010d" % number + b"x" * (LINE_BYTES - 11) + b"\n" for number in range(lines)]
    )
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = str(Path(folder) / "floor.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(clients)
        outboxes: list[Outbox] = []

        def accept() -> None:
            for _ in range(clients):
                outboxes.append(Outbox(listener.accept()[0], lambda error: None))

        acceptor = gevent.spawn(accept)
        with drain(path, clients, lines, "") as done:
            acceptor.join()

            def broadcast() -> None:
                # As an event leaves: `put`, a reply's way, may send its line at once and alone.
                line = next(encoded)
                for outbox in outboxes:
                    assert outbox.offer(line)

            begun = time.perf_counter()
            produce(lines, broadcast, outboxes)
            done()
            took = time.perf_counter() - begun
        for outbox in outboxes:
            outbox.kill()
        listener.close()
    return clients * lines / took


def ours(clients: int, lines: int) -> tuple[float, int]:
    """Lines a second, over all clients, and how many the journal had no time for."""
    words = text_for(LINE_BYTES)
    with served() as host, drain(host.path, clients, lines, SESSION) as done:
        outboxes = [connection.outbox for connection in host.server.connections]
        post = host.session.post
        begun = time.perf_counter()
        produce(lines, lambda: post(AgentEvent(build.text(words))), outboxes)
        done()
        took = time.perf_counter() - begun
        lost = sum(high - low + 1 for low, high in host.journal.gaps)
    return clients * lines / took, lost


def run() -> Iterator[Measure]:
    for clients, lines, least in CASES:
        rounds = [(*ours(clients, lines), floor(clients, lines)) for _ in range(ROUNDS)]
        # Dropping events is cheaper than journalling them: a round that did counts last.
        mine, lost, _ = max(rounds, key=lambda one: (-one[1], one[0]))
        base = max(one[2] for one in rounds)
        name = f"fan-out, {clients} client{'s' * (clients > 1)}"
        if lost:
            name += f" ({100 * lost / lines:.0f}% not journalled)"
        if base < mine:
            # It does a part of the same work: losing, it has stopped measuring that part.
            yield Measure(f"{name}: FLOOR BROKEN", mine, "lines/s", base)
            continue
        yield Measure(name, mine, "lines/s", base, at_least=least)
