"""A hub's answers and its size: the roster of many hosts, a create, a bridge's first line."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import gevent

from tests.bench import hosts, hubs
from tests.bench.measure import Measure, cpu_seconds, resident_mib, side_by_side
from tests.bench.peer import Peer
from tests.bench.start import HELLO, ROUNDS, floor
from tests.e2e.machine import BIN, Machine

WATCH_S = 20
CREATES = 7


def run() -> Iterator[Measure]:
    hubs.descriptors(8192)
    for count in (10, 100, 512):
        yield from roster(count)
    yield from creates()
    yield from bridge()


def roster(count: int) -> Iterator[Measure]:
    with hosts.machine() as machine, hubs.hub(machine) as hub:
        crowd = hubs.Crowd(machine, count)
        try:
            taken = min(hubs.asked(hub, "sessions.list") for _ in range(3))
            yield Measure(f"sessions.list of {count} hosts", taken * 1e3, "ms")
            if count == 512:
                gevent.sleep(5)  # the connections that the list kept are let go
                before = cpu_seconds(hub.process.pid)
                gevent.sleep(WATCH_S)
                spent = cpu_seconds(hub.process.pid) - before
                yield Measure(
                    f"hub, {count} hosts and nobody", 100 * spent / WATCH_S, "% CPU", at_most=0.2
                )
        finally:
            crowd.close()
    if count != 100:
        return
    with hosts.machine() as machine, hubs.hub(machine) as hub:
        crowd = hubs.Crowd(machine, 50)
        try:
            hubs.asked(hub, "sessions.list")
            yield Measure("hub, 50 hosts", resident_mib(hub.process.pid), "MiB", at_most=32)
        finally:
            crowd.close()


def creates() -> Iterator[Measure]:
    """A create's answer against the agent's own start: process, initialize, session/new."""
    with hosts.machine() as machine, hubs.hub(machine) as hub:
        peer = Peer(hub.socket)
        times = []
        for _ in range(CREATES):
            begun = time.perf_counter()
            made = peer.ask("session.create", {"cwd": str(machine.work), "provider": "fake"})
            times.append(time.perf_counter() - begun)
            pid = made["session"]["host"]["pid"]
            os.kill(pid, 15)
        bare = min(agent(machine) for _ in range(CREATES))
        peer.close()
        more = (min(times) - bare) * 1e3
        yield Measure("create, over the bare agent's start", more, "ms", at_most=250)


def agent(machine: Machine) -> float:
    """Seconds of an agent's start, by itself."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [str(BIN / "craze-fake-agent")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=machine.work, env=machine.environment,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    asked = (
        ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        ("session/new", {"cwd": str(machine.work), "mcpServers": []}),
    )
    for id, (method, params) in enumerate(asked):
        line = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        while json.loads(process.stdout.readline()).get("id") != id:
            pass
    taken = time.perf_counter() - begun
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    return taken


def bridge() -> Iterator[Measure]:
    with hosts.machine() as machine, hubs.hub(machine):
        mine, base = side_by_side(lambda: first_line(machine), floor, ROUNDS)
        yield Measure("bridge --hub, the hub's hello", mine * 1e3, "ms", base * 1e3, at_most=2)


def first_line(machine: Machine) -> None:
    pipe = subprocess.PIPE
    process = machine.craze("bridge", "--hub", stdin=pipe, stdout=pipe, stderr=sys.stderr)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert b'"kind":"hub"' in process.stdout.readline()
    process.stdout.close()
    process.stdin.close()
    process.kill()
    process.wait()
