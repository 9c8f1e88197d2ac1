"""Lanes over ssh on the loopback: how soon one is open, how fast its rows come, what many cost.

The floor of opening one is the bare `ssh box true` through the same connection, which is there
already. A machine that is held, as a dashboard does, has made the lane's connection ahead; without
that, opening a lane does as much as the floor, starts a craze there, and asks it for the session:
its floor is the hub's hello. That of its rows is a plain client of the same session, beside it and
without ssh, that reads and counts.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import gevent
from gevent.event import Event

from craze import greenlets
from craze.client import Client
from craze.wire import json
from craze_shed import Dialer, Subscription
from craze_shed.contract import frames
from craze_shed.contract.frames import LaneFrame
from craze_shed.craze.lane import CrazeLane
from craze_shed.machine import CrazeMachine
from craze_shed.reach import Reach
from tests.bench import hosts
from tests.bench.measure import Measure, cpu_seconds, resident_mib, side_by_side
from tests.e2e.lanes import HOST_ID, Actor, Box, children
from tests.e2e.machine import BIN, Machine

OTHER_ID = "ba9876543210"
ROUNDS = 9
TOOLS = 10_000  # two rows each
LANES = 50
SETTLE_S, WATCH_S = 3, 20


def run() -> Iterator[Measure]:
    with hosts.machine() as machine, tempfile.TemporaryDirectory() as root:
        actor = Actor(machine)
        try:
            with Box(Path(root), machine, noise=False) as box, box.reach() as reach:
                Dialer(reach, eager=False).connect(explicit=True).connection.close()
                yield from opening(box, reach)
                yield from resting(reach)
                yield from flowing(machine, reach)
        finally:
            actor.close()


def opened(reach: Reach, id: str = HOST_ID) -> Subscription[LaneFrame]:
    return until_ready(CrazeLane(Dialer(reach, eager=False), id))


def until_ready(lane: CrazeLane) -> Subscription[LaneFrame]:
    stream = lane.subscribe()
    while not isinstance(stream.next(), frames.Ready):
        pass
    return stream


def opening(box: Box, reach: Reach) -> Iterator[Measure]:
    with reach.run("exec sleep 600"):  # or the connection would be let go of
        [master] = children("ControlMaster=yes")
        words = Path(f"/proc/{master}/cmdline").read_bytes().decode().split("\0")
        through = words[words.index("-S") + 1]
        bare = ["ssh", "-F", box.config(), "-S", through, "box", "true"]

        def greeted() -> None:
            Dialer(reach, eager=False).connect().connection.close()

        machine = CrazeMachine(Dialer(reach, eager=False))

        def at_rest() -> None:
            while not machine.source.spare.there:
                gevent.sleep(0.1)
            gevent.sleep(0.5)

        try:
            mine, base = side_by_side(
                lambda: until_ready(machine.source.open(HOST_ID)).close(),
                lambda: subprocess.run(bare, check=True),
                ROUNDS,
                before=at_rest,
            )
        finally:
            machine.close()
        yield Measure("lane, open to Ready", mine * 1e3, "ms", base * 1e3, at_most=3)
        mine, base = side_by_side(lambda: opened(reach).close(), greeted, ROUNDS)
        name = "the same, nothing made ahead; a hub's hello"
        yield Measure(name, mine * 1e3, "ms", base * 1e3, at_most=1.5)


def flowing(machine: Machine, reach: Reach) -> Iterator[Measure]:
    """A burst that a session has in one go; nobody may fall behind."""
    op = {"name": "tool", "tool": "Shell", "status": "completed", "title": "x" * 200}
    ops = b"".join(json.dumps({**op, "id": str(number)}) + b"\n" for number in range(TOOLS))
    host = subprocess.Popen(
        [str(BIN / "craze-fake-host"), f"--registry={machine.home}", f"--host-id={OTHER_ID}"],
        env=machine.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert host.stdin is not None and host.stdout is not None
    path = json.loads(host.stdout.readline())["socket"]
    took: dict[str, float] = {}

    def plain() -> None:
        count = 0
        with Client(path) as client, client.attach() as events:
            for note in events:
                count += note.params.get("event", {}).get("type") == "tool"
                if count == TOOLS:
                    break
        took["plain"] = time.perf_counter() - begun

    def folded() -> None:
        count = 0
        with opened(reach, OTHER_ID) as stream:
            ready.set()
            for frame in stream:
                assert not isinstance(frame, frames.Reset), "it fell behind"
                count += isinstance(frame, frames.Message)
                if count == 2 * TOOLS:
                    break
        took["folded"] = time.perf_counter() - begun

    ready = Event()
    readers = [gevent.spawn(plain), gevent.spawn(folded)]
    ready.wait()
    gevent.sleep(1)
    begun = time.perf_counter()
    greenlets.on_thread(host.stdin.write, ops)
    host.stdin.flush()
    gevent.joinall(readers, raise_error=True)
    host.stdin.close()
    host.wait()
    host.stdout.close()
    rows, base = 2 * TOOLS / took["folded"], 2 * TOOLS / took["plain"]
    yield Measure("lane, rows end to end", rows, "rows/s", base)


def resting(reach: Reach) -> Iterator[Measure]:
    pid = os.getpid()
    with contextlib.ExitStack() as held:
        held.enter_context(opened(reach))
        before = resident_mib(pid)
        lanes = [gevent.spawn(opened, reach) for _ in range(LANES)]
        for opening in lanes:
            held.enter_context(opening.get())
        each = (resident_mib(pid) - before) / LANES * 1024
        yield Measure(f"a lane at rest, of {LANES}", each, "KiB")
        theirs = sum(map(proportional_kib, children("ssh"))) / LANES
        yield Measure("its ssh, what it shares divided", theirs, "KiB")
        gevent.sleep(SETTLE_S)
        everybody = [pid, *children("ssh")]
        spent = -sum(map(cpu_seconds, everybody))
        gevent.sleep(WATCH_S)
        spent += sum(map(cpu_seconds, everybody))
        name = f"{LANES} lanes at rest, with their ssh"
        yield Measure(name, 100 * spent / WATCH_S, "% CPU", at_most=0.5)


def proportional_kib(pid: int) -> int:
    """The memory of a process, what it shares with others counted in parts."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("Pss:")[1].split()[0])
