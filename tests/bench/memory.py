"""Resident memory of a host with its session started, and of a bridge to it."""

import subprocess
from collections.abc import Iterator

from tests.bench import hosts
from tests.bench.measure import Measure, resident_mib
from tests.bench.peer import attached
from tests.bench.start import HELLO


def run() -> Iterator[Measure]:
    with hosts.machine() as machine, hosts.host(machine) as served:
        attached(served).close()
        yield Measure("host, resident", resident_mib(served.process.pid), "MiB", at_most=36)

        pipe = subprocess.PIPE
        bridge = machine.craze("bridge", f"--session={served.session}", stdin=pipe, stdout=pipe)
        assert bridge.stdin is not None and bridge.stdout is not None
        bridge.stdin.write(HELLO)
        bridge.stdin.flush()
        bridge.stdout.readline()
        yield Measure("bridge, resident", resident_mib(bridge.pid), "MiB", at_most=20)
        bridge.stdin.close()
        bridge.stdout.read()
        bridge.stdout.close()
        bridge.wait(timeout=20)
