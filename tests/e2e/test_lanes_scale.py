"""Lanes in numbers, and readers that take nothing: what is held is bounded, and goes in the end."""

import os
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from craze.client import Client
from craze_shed import CrazeSource, Dialer, OpenLane
from craze_shed.contract import frames
from craze_shed.contract.publisher import LANE_CHANNEL_CAPACITY
from craze_shed.craze.lane import CrazeLane
from craze_shed.reach import LocalReach, Reach
from tests.bench.measure import resident_mib
from tests.e2e.hubs import Hub, eventually, running, settle
from tests.e2e.lane_holder import left
from tests.e2e.lanes import HOST_ID, QUICK, Actor, Box, children, tools
from tests.e2e.machine import Machine
from tests.unit.shed.craze.conformance import LaneStream, ended

MIB = 1024 * 1024
SOURCES, FAR_SOURCES, LANES, ACTORS = 10, 2, 50, 5
FAR_LANES = 13  # of each far source; a server has room for ten sessions on one connection


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        Hub(made).start()
        yield made
        assert not settle(made)
    finally:
        made.close()


@pytest.fixture
def reach(machine: Machine) -> Iterator[LocalReach]:
    with LocalReach(env=machine.environment) as made:
        yield made


@pytest.fixture
def actor(machine: Machine) -> Iterator[Actor]:
    made = Actor(machine)
    yield made
    made.close()


def lane(reach: Reach) -> CrazeLane:
    return CrazeLane(Dialer(reach, eager=False), HOST_ID, bounds=QUICK)


def queued(stream: LaneStream) -> int:
    """The frames that nobody has taken yet."""
    return len(stream.subscription._channel.frames)


def test_a_reader_that_takes_nothing_costs_nothing_and_is_told_it_all_anew(
    machine: Machine, reach: LocalReach, actor: Actor
) -> None:
    stream = LaneStream(lane(reach).subscribe())
    try:
        stream.until(frames.Ready)
        for number in range(LANE_CHANNEL_CAPACITY // 2 + 10):
            actor.tool(f"tool-{number}")
            gevent.sleep(0)
        # Nothing is held for it meanwhile: no connection, and no more frames.
        eventually(lambda: not running(machine, "craze bridge"))
        held, before = queued(stream), resident_mib(os.getpid())
        assert held == LANE_CHANNEL_CAPACITY
        for _ in range(128):
            actor.do({"name": "text", "bytes": MIB // 2})
            gevent.sleep(0)
        actor.tool("the last words")
        assert queued(stream) == held and not running(machine, "craze bridge")
        assert resident_mib(os.getpid()) - before < 16

        stale = stream.waiting()
        assert len(stale) == held
        assert not [frame for frame in stale if isinstance(frame, frames.Stale | frames.Reset)]
        [reset, *seed, ready] = stream.until(frames.Ready)
        assert reset == frames.Reset("lagged", 2) and ready == frames.Ready(2)
        rows = [frame.message for frame in seed if isinstance(frame, frames.Message)]
        assert list(tools(rows))[-1] == "the last words"
    finally:
        stream.close()


def test_the_end_of_a_session_reaches_a_reader_whose_channel_is_full(
    machine: Machine, reach: LocalReach, actor: Actor
) -> None:
    stream = LaneStream(lane(reach).subscribe())
    try:
        stream.until(frames.Ready)
        actor.say("first")
        number = 0
        while room := LANE_CHANNEL_CAPACITY - (held := queued(stream)):
            some = room // 2 or 1
            for _ in range(some):
                number += 1
                actor.tool(f"tool-{number}", "pending")  # a row each
            eventually(lambda held=held, some=some: queued(stream) >= held + some)
        actor.say("last")
        with Client(actor.socket) as client:
            client.command("session.stop")
        actor.do({"name": "run_stop"})
        eventually(lambda: not running(machine, "craze bridge"))
        gevent.sleep(0.2)
        assert queued(stream) == LANE_CHANNEL_CAPACITY  # and the end waits for room
        assert ended(stream) == "session_closed"
        *_, row, _ = stream.seen
        assert isinstance(row, frames.Message) and row.message.text == "last"
        assert [one.reason for one in stream.seen if isinstance(one, frames.Reset)] == ["connect"]
    finally:
        stream.close()


def test_b38_fifty_lanes_and_ten_sources_leave_nothing(machine: Machine, tmp_path: Path) -> None:
    """Some over ssh, more at once than a server lets through one connection."""
    actors = [Actor(machine, f"{number:012x}") for number in range(ACTORS)]
    before = left()
    try:
        with Box(tmp_path, machine) as box:
            hold_fifty_lanes(box, actors)
            box.server.until(0)
        eventually(lambda: not running(machine, "craze bridge"))
        eventually(lambda: left() <= before)
    finally:
        for actor in actors:
            actor.close()


def hold_fifty_lanes(box: Box, actors: list[Actor]) -> None:
    ways: list[Reach] = [box.reach() for _ in range(FAR_SOURCES)]
    ways += [box.local() for _ in range(SOURCES - FAR_SOURCES)]
    sources = [CrazeSource(Dialer(way, eager=False), bounds=QUICK) for way in ways]
    lists = [source.subscribe() for source in sources]
    turns = [*FAR_LANES * sources[:FAR_SOURCES], *LANES * sources[FAR_SOURCES:]]
    lanes = [OpenLane(turns[number].open(actors[number % ACTORS].id)) for number in range(LANES)]
    eventually(lambda: all(one.snapshot().generation == 1 for one in lanes))
    assert len(running(box.machine, "craze bridge")) == LANES + SOURCES
    assert len(children("ControlMaster=yes")) == 2 * FAR_SOURCES
    for number, one in enumerate(lanes):
        one.send(f"prompt {number}")
    for actor in actors:
        actor.tool("the last words")
    for number, one in enumerate(lanes):
        eventually(lambda one=one: "the last words" in tools(list(one.snapshot().messages)))
        assert f"prompt {number}" in [row.text for row in one.snapshot().messages]
        assert one.snapshot().generation == 1
    for held in (*lanes, *lists, *sources, *ways):
        held.close()
