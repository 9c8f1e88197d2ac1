"""How long the processes take to be of use, against an interpreter that imports gevent's sockets.

A bridge is of use at the first byte that it brings back from its host; a host when it says ready.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

from tests.bench import hosts
from tests.bench.measure import Measure, side_by_side
from tests.e2e.machine import Host, Machine

ROUNDS = 15
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"hello",'
    b'"params":{"protocols":[1],"client":{"kind":"bench"}}}\n'
)


def floor() -> None:
    subprocess.run([sys.executable, "-c", "import gevent.socket"], check=True)


def bridge(machine: Machine, host: Host) -> None:
    pipe = subprocess.PIPE
    process = machine.craze("bridge", f"--session={host.session}", stdin=pipe, stdout=pipe)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert os.read(process.stdout.fileno(), 1) == b"{"
    process.stdout.close()
    process.stdin.close()
    process.kill()
    process.wait()


def run() -> Iterator[Measure]:
    with hosts.machine() as machine:
        with hosts.host(machine) as served:
            mine, base = side_by_side(lambda: bridge(machine, served), floor, ROUNDS)
            yield Measure("bridge, first byte", mine * 1e3, "ms", base * 1e3, at_most=1.5)

        ready: list[Host] = []
        mine, base = side_by_side(
            lambda: ready.append(machine.serve("--provider=fake")), floor, ROUNDS
        )
        for one in ready:
            one.process.terminate()
        for one in ready:
            one.process.wait(timeout=20)
        yield Measure("serve, ready", mine * 1e3, "ms", base * 1e3, at_most=3)
