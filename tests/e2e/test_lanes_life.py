"""How a lane lives through what happens to its machine: hubs, hosts and sessions that end, machines
that are not there yet or not any more."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze.client import Client
from craze_shed import (
    ClientError,
    CrazeSource,
    Dialer,
    LaneError,
    OpenLane,
    SourceView,
)
from craze_shed.contract import errors, frames
from craze_shed.contract.creating import LaneCreateRequest, new_request_id
from craze_shed.craze.lane import CrazeLane
from craze_shed.craze.limits import Pace, Waits
from craze_shed.machine import CrazeMachine
from craze_shed.reach import LocalReach, Reach
from tests.e2e import hubs
from tests.e2e.hubs import Hub, eventually, running, settle
from tests.e2e.lanes import HOST_ID, QUICK, Actor, Box, Reader, children, kill, settled, told
from tests.e2e.machine import Machine

BRISK = Pace(first=0.02, most=0.3, rarely=0.1)
SOON = Waits(first=0.05, most=0.3, rarely=0.1)
MINUTE = 60.0


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(hubs.script("long-turn"))
    try:
        yield made
        assert not settle(made)
    finally:
        made.close()


@pytest.fixture
def hub(machine: Machine) -> Hub:
    made = Hub(machine)
    made.start()
    return made


@pytest.fixture
def reach(machine: Machine) -> Iterator[LocalReach]:
    with LocalReach(env=machine.environment) as made:
        yield made


@pytest.fixture
def readers() -> Iterator[list[Reader]]:
    """Those that a test has; they are closed for it."""
    made: list[Reader] = []
    yield made
    for reader in made:
        reader.close()


def lane(reach: Reach, id: str = HOST_ID, *, eager: bool = False, **options: Any) -> CrazeLane:
    options.setdefault("bounds", QUICK)
    return CrazeLane(Dialer(reach, eager=eager), id, **options)


class Listed:
    """A source's list, as it stands."""

    def __init__(self, source: CrazeSource) -> None:
        self.view = SourceView()
        self.said: list[str] = []
        self._stream = source.subscribe()
        self._reading = greenlets.spawn("roster", self._read)

    def _read(self) -> None:
        for frame in self._stream:
            self.view.apply(frame)
            if isinstance(frame, frames.SourceReset):
                self.said.append(f"reset {frame.reason}")
            elif isinstance(frame, frames.SourceOffline):
                self.said.append(f"offline {frame.cause}")

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.view.sessions]

    def close(self) -> None:
        self._stream.close()
        self._reading.join()


# ---- hubs ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_lane_and_a_list_outlive_the_hub_and_start_none(
    hub: Hub, reach: LocalReach, readers: list[Reader], number: int
) -> None:
    """b16: the ask that was opened and the turn that ended meanwhile come with the resume."""
    actor = Actor(hub.machine)
    source = CrazeSource(Dialer(reach, eager=False), pace=BRISK, bounds=QUICK)
    listed = Listed(source)
    reader = Reader("far", source.open(HOST_ID))
    readers.append(reader)
    try:
        eventually(lambda: reader.live and listed.ids == [HOST_ID])
        actor.do({"name": "hang_next"})
        reader.lane.send("go")
        eventually(lambda: reader.view.snapshot().activity == "working")

        hub.kill(number)
        eventually(lambda: reader.view.snapshot().stale and listed.view.offline)
        actor.do({"name": "end"}, {"name": "permission", "tool": "Shell", "id": "ask-1"})
        eventually(lambda: listed.said[-1] == "offline no_hub")
        gevent.sleep(0.5)
        assert not running(hub.machine, "craze hub") and not reader.live
        assert [one.approximate for one in listed.view.sessions] == [True]

        source.create_options()
        eventually(lambda: reader.live and not listed.view.offline)
        shown = reader.view.snapshot()
        assert [one.id for one in shown.approvals] == ["ask-1"]
        assert shown.activity == "needs_approval"
        assert reader.outages == ["resumed"] and reader.resets == ["connect"]
        assert [row.text for row in reader.rows][:2] == ["go", "cancelled"]
        assert listed.said[-1] == "reset reconnect" and listed.ids == [HOST_ID]
    finally:
        listed.close()
        actor.close()


def test_on_this_machine_a_lane_brings_a_hub_back_by_itself(
    hub: Hub, reach: LocalReach, readers: list[Reader]
) -> None:
    id = hub.create()["hostId"]
    reader = Reader("here", lane(reach, id, eager=True))
    readers.append(reader)
    eventually(lambda: reader.live)
    reader.lane.send("go")
    pid = hub.kill()
    eventually(lambda: reader.outages == ["resumed"])
    assert hub.record.pid != pid
    reader.lane.cancel()
    eventually(lambda: reader.rows[-1].text == "cancelled")
    reader.lane.stop()
    assert reader.ended() == "session_closed"


def test_b06_a_session_just_created_stays_when_the_list_is_made_anew(
    hub: Hub, reach: LocalReach
) -> None:
    """Its hub dies before it has listed the session: the first prompt goes to that session."""
    source = CrazeSource(Dialer(reach, eager=True), pace=BRISK, bounds=QUICK)
    listed = Listed(source)
    try:
        eventually(lambda: listed.said == ["reset connect"])
        made = source.create(
            LaneCreateRequest(cwd=str(hub.machine.work), request_id=new_request_id())
        )
        id = made.session.id
        opened = OpenLane(source.open(id))
        hub.kill()
        opened.send("go")
        while listed.ids != [id] or listed.view.offline:
            assert id in [*listed.ids, *(row.id for row in source.created_rows())]
            gevent.sleep(0.01)
        eventually(lambda: "go" in [row.text for row in opened.snapshot().messages])
        assert source.created_rows() == ()
        opened.stop()
        eventually(lambda: opened.finished)
        opened.close()
        eventually(lambda: listed.ids == [])
    finally:
        listed.close()


# ---- hosts and sessions ----


def test_a_host_that_is_killed_ends_its_lane_for_good(hub: Hub, reach: LocalReach) -> None:
    row = hub.create()
    source = CrazeSource(Dialer(reach, eager=False), pace=BRISK, bounds=QUICK)
    opened = OpenLane(source.open(row["hostId"]))
    opened.send("go")
    eventually(lambda: opened.snapshot().activity == "working")
    kill(row["host"]["pid"])
    eventually(lambda: opened.finished)
    shown = opened.snapshot()
    assert shown.banner == "ended · unknown_session — showing the last known transcript"
    assert shown.messages[0].text == "go"
    for verb in (opened.cancel, opened.stop, lambda: opened.send("late")):
        with pytest.raises(ClientError) as refused:
            verb()
        assert refused.value.code == errors.LANE_ENDED
    assert not running(hub.machine, "craze bridge")
    opened.close()


def test_a_session_stopped_by_somebody_else_ends_its_lane_with_its_last_words(
    hub: Hub, reach: LocalReach, readers: list[Reader]
) -> None:
    id = hub.create()["hostId"]
    reader = Reader("watching", lane(reach, id))
    readers.append(reader)
    eventually(lambda: reader.live)
    reader.lane.send("go")
    eventually(lambda: "tick 2" in (reader.lane.history().messages[-1].text or ""))
    host = next(one for one in hub.hosts() if one.hostId == id)
    hubs.stop(host)
    assert reader.ended() == "session_closed"
    assert reader.outages == []
    asked, (_, kind, answer) = told(reader.rows)
    assert asked == ("user", "text", "go")
    assert kind == "text" and answer.startswith("tick 1 tick 2 ")


def test_b43_a_session_that_does_not_start_says_why(
    machine: Machine, reach: LocalReach, readers: list[Reader], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    machine.configure(hubs.gated(gate, "echo the keychain is locked >&2; exit 1"))
    hub = Hub(machine)
    hub.start()
    source = CrazeSource(Dialer(reach, eager=False), pace=BRISK, bounds=QUICK)
    request = LaneCreateRequest(cwd=str(machine.work), request_id=new_request_id())
    creating = gevent.spawn(lambda: failure(lambda: source.create(request)))
    id = eventually(hub.hosts)[0].hostId
    reader = Reader("early", source.open(id))
    readers.append(reader)
    gevent.sleep(0.5)
    gate.touch()
    reason = reader.ended()
    assert reason.startswith("start_failed:") and "the keychain is locked" in reason
    assert frames.is_final(reason)
    refused = creating.get()
    assert refused.variant == errors.FAILED and "the keychain is locked" in refused.message


def test_the_reasons_of_lanes_that_never_come_up(
    hub: Hub, reach: LocalReach, readers: list[Reader], tmp_path: Path
) -> None:
    bare = LocalReach(env={"HOME": str(tmp_path), "PATH": "/nowhere"})
    down = LocalReach(env=hub.machine.environment | {"CRAZE_HOME": str(tmp_path / "other")})
    short = QUICK._replace(outage=0.5)
    expected = {
        "unknown_session": lane(reach, "ffffffffffff"),
        "craze unavailable: craze is not installed on this machine": lane(bare),
        "unreachable": lane(down, bounds=short),
    }
    for reason, one in expected.items():
        reader = Reader(reason, one)
        readers.append(reader)
        assert reader.ended().startswith(reason)
        assert frames.is_final(reason) == (reason == "unknown_session")
    bare.close()
    down.close()


# ---- machines ----


def test_b12_a_lane_opened_before_its_machine_is_there_comes_up_with_it(
    machine: Machine, tmp_path: Path, readers: list[Reader]
) -> None:
    actor = Actor(machine)
    box = Box(tmp_path, machine)
    reach = box.reach()
    source = CrazeSource(Dialer(reach, eager=False), pace=BRISK, bounds=QUICK)
    listed = Listed(source)
    reader = Reader("early", source.open(HOST_ID))
    readers.append(reader)
    try:
        eventually(lambda: listed.said == ["offline unreachable"])
        eventually(lambda: reader.view.snapshot().stale == "reconnecting")
        with box:
            eventually(lambda: listed.said[-1] == "offline no_hub")
            gevent.sleep(0.5)
            assert not running(machine, "craze hub") and not reader.live
            source.create_options()
            eventually(lambda: reader.live and listed.ids == [HOST_ID])
            reader.lane.send("hello")
            eventually(lambda: reader.has("echo: hello"))
            assert reader.resets == ["connect"]
            reader.close()
            listed.close()
            reach.close()
    finally:
        listed.close()
        reach.close()
        actor.close()


@contextlib.contextmanager
def far(reach: Reach, grace: float) -> Iterator[CrazeMachine]:
    """The machine as a dashboard holds it that is not on it."""
    made = CrazeMachine(
        Dialer(reach, eager=False), bounds=QUICK, pace=BRISK, waits=SOON, grace=grace
    )
    try:
        yield made
    finally:
        made.close()
        for id in list(made.lanes):
            made.close_lane(id)


def test_a_machine_that_is_removed_ends_its_lanes_and_leaves_nothing(
    hub: Hub, reach: LocalReach
) -> None:
    ids = [hub.create()["hostId"] for _ in range(3)]
    with far(reach, MINUTE) as removed:
        eventually(lambda: len(removed.rows) == len(ids))
        opened = [removed.open(id) for id in ids]
        eventually(lambda: all(one.snapshot().generation for one in opened))
        removed.close()
        for one in opened:
            assert one.finished
            assert one.snapshot().banner.startswith("ended · host_removed")
        eventually(lambda: not running(hub.machine, "craze bridge"))


def test_a_lane_whose_row_leaves_is_ended_for_why_it_left(hub: Hub, reach: LocalReach) -> None:
    """The one lane's host leaves the registry and serves on; the other's leaves with the hub."""
    actors = [Actor(hub.machine, f"{number:012x}") for number in range(2)]
    try:
        with far(reach, 0.1) as machine:
            unlisted, orphan = opened = [machine.open(actor.id) for actor in actors]
            eventually(lambda: machine.status.state == "live" and len(machine.rows) == 2)
            eventually(lambda: all(one.snapshot().generation for one in opened))
            actors[0].do({"name": "unlist"})
            eventually(lambda: unlisted.finished)
            assert unlisted.snapshot().stale == "session_gone"
            assert not orphan.finished
            hub.kill()
            eventually(lambda: orphan.finished)
            assert orphan.snapshot().stale == "hub_gone"
            assert machine.status.state == "dormant" and machine.rows == ()
    finally:
        for actor in actors:
            actor.close()


def test_a_hub_that_comes_back_in_time_keeps_its_lanes(hub: Hub, reach: LocalReach) -> None:
    actor = Actor(hub.machine)
    try:
        with far(reach, MINUTE) as machine:
            opened = machine.open(HOST_ID)
            graces = machine._departures._graces
            eventually(lambda: opened.snapshot().generation and machine.row(HOST_ID))
            hub.kill()
            eventually(lambda: machine.status.state == "dormant")
            assert graces.next() is not None
            machine.create_options()
            eventually(lambda: machine.row(HOST_ID) and opened.snapshot().stale is None)
            assert graces.next() is None
            assert opened.snapshot().generation == 1
            actor.do({"name": "mark_stopping"})  # the row leaves first, the end comes after it
            eventually(lambda: machine.rows == ())
            actor.say("goodbye")
            opened.stop()
            actor.do({"name": "run_stop"})
            eventually(lambda: opened.finished)
            shown = opened.snapshot()
            assert shown.stale == "session_closed" and shown.messages[-1].text == "goodbye"
    finally:
        actor.close()


# ---- verbs while there is no connection ----


@pytest.fixture
def served(machine: Machine, tmp_path: Path, hub: Hub) -> Iterator[tuple[Box, Actor]]:
    actor = Actor(machine)
    with Box(tmp_path, machine) as box:
        try:
            yield box, actor
        finally:
            actor.close()


def turns(actor: Actor) -> list[str]:
    """The prompts that the session has run."""
    with Client(actor.socket) as client, client.attach() as events:
        assert events.snapshot is not None
        entries = events.snapshot["main"].get("entries", [])
    return [entry["text"] for entry in entries if entry["kind"] == "user"]


def failure(verb: Callable[[], object]) -> LaneError:
    with pytest.raises(LaneError) as failed:
        verb()
    return failed.value


def test_b05_b06_a_prompt_while_the_link_is_gone_waits_or_was_never_sent(
    served: tuple[Box, Actor], readers: list[Reader]
) -> None:
    box, actor = served
    with box.reach() as reach:
        hasty, waiting = lane(reach, connected_wait=1.0), lane(reach)
        reader, other = Reader("hasty", hasty), Reader("waiting", waiting)
        readers += [reader, other]
        eventually(lambda: reader.live and other.live)
        box.server.stop()
        eventually(lambda: not reader.live)
        lost = failure(lambda: hasty.send("lost"))
        assert lost == errors.unavailable(
            "not connected to craze within 1s; the prompt was not sent — try again"
        )
        box.server.start()
        eventually(lambda: reader.live and other.live)
        for pid in children("ControlMaster=no"):
            kill(pid)
        eventually(lambda: not other.live)
        waiting.send("kept")
        settled(actor, readers, "the last words")
        assert turns(actor) == ["kept"]
        assert reader.outages == other.outages == ["resumed", "resumed"]
        reader.close()
        other.close()


def test_b09_b10_a_prompt_whose_answer_is_lost_is_unknown_and_ran_once(
    served: tuple[Box, Actor], readers: list[Reader]
) -> None:
    box, actor = served
    with box.reach() as reach:
        reader = Reader("far", lane(reach))
        readers.append(reader)
        eventually(lambda: reader.live)
        actor.do({"name": "stall_writes"})
        sent = gevent.spawn(lambda: failure(lambda: reader.lane.send("once")))
        eventually(lambda: turns(actor) == ["once"])
        for pid in children("ControlMaster=no"):
            kill(pid)
        assert sent.get() == errors.outcome_unknown(
            "the connection to craze dropped; check the transcript"
        )
        settled(actor, [reader], "the last words")
        assert turns(actor) == ["once"]
        assert [row.text for row in reader.rows][:2] == ["once", "echo: once"]
        assert reader.outages == ["resumed"]
        reader.close()
