"""What a host costs while nothing happens: one client attached, its agent silent."""

import time
from collections.abc import Iterator

from tests.bench import hosts
from tests.bench.measure import Measure, cpu_seconds
from tests.bench.peer import attached

SETTLE_S, WATCH_S = 2, 20


def run() -> Iterator[Measure]:
    with hosts.machine() as machine, hosts.host(machine) as served:
        peer = attached(served)
        time.sleep(SETTLE_S)
        before = cpu_seconds(served.process.pid)
        time.sleep(WATCH_S)
        spent = cpu_seconds(served.process.pid) - before
        peer.close()
        yield Measure("host, idle, one client", 100 * spent / WATCH_S, "% CPU", at_most=0.2)
