"""An attach that brings a snapshot of 8 MiB, against encoding the same object once.

The floor is `ujson.dumps` of the finished snapshot. Ours has more to do for the same bytes: choose
what fits the budget and build the objects; the second line is the whole attach, from the request's
first byte to the reply's last.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ujson
from gevent.socket import wait_read

from craze.events import build
from craze.transcript import snapshot
from craze.wire.limits import SNAPSHOT_MAX
from tests.bench.inprocess import SESSION, Served, served
from tests.bench.measure import Measure, seconds, side_by_side

ENTRY_BYTES, ENTRIES = 1600, 5000
ATTACHER = Path(__file__).with_name("attacher.py")


def fill(host: Served) -> None:
    """A transcript of entries of 1.6 KiB, as long as one may get."""
    words = "All work and no play, said the model. " * (ENTRY_BYTES // 38)
    for number in range(ENTRIES // 2):
        host.event(build.text(f"{number} {words}"))
        host.event(build.thought(f"{number} {words}"))


def attach_seconds(host: Served) -> float:
    """The best time of a whole attach, taken by a client in another process."""
    command = [sys.executable, "-I", str(ATTACHER), host.path, SESSION, str(SNAPSHOT_MAX)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert client.stdout is not None
    wait_read(client.stdout.fileno())
    line = client.stdout.readline()
    client.stdout.close()
    client.wait(timeout=20)
    return float(line)


def run() -> Iterator[Measure]:
    with served() as host:
        fill(host)
        model = host.session.model
        encoded = snapshot.encode(model, SNAPSHOT_MAX)
        document = ujson.loads(encoded)
        size = f"{len(encoded) / 2**20:.1f} MiB"

        mine, floor = side_by_side(
            lambda: snapshot.encode(model, SNAPSHOT_MAX), lambda: ujson.dumps(document)
        )
        yield Measure(f"snapshot of {size}, encode", mine * 1e3, "ms", floor * 1e3, at_most=2)

        floor = seconds(lambda: ujson.dumps(document))
        whole = attach_seconds(host)
        yield Measure(f"snapshot of {size}, attach", whole * 1e3, "ms", floor * 1e3, at_most=2)
