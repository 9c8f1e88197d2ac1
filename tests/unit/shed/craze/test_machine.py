"""A machine as a dashboard holds it: its states, its rows, its lanes, and who departs when."""

from typing import Any

import gevent
import pytest

from craze_shed.contract import errors, frames
from craze_shed.contract.errors import ClientError, LaneError
from craze_shed.craze.dial import Dialer
from craze_shed.craze.driver import Status
from craze_shed.craze.limits import Pace, Waits
from craze_shed.machine import CrazeMachine
from tests.unit.shed.craze.conftest import QUICK
from tests.unit.shed.craze.hosts import HOST, HUB, Host, hello, row
from tests.unit.shed.craze.scripting import Command, settle, until
from tests.unit.shed.craze.test_dial import BRIDGE, NO_START, PROBE, asked
from tests.unit.shed.craze.test_lane import Doing
from tests.unit.shed.craze.test_source import A, B, Roster, listed, request

NO_HUB = b"craze bridge: no hub is running\n"
LONG = Waits(60.0, 60.0, 60.0)


class Held:
    """A machine that is held, and its commands by what they are: each kind in its own order."""

    def __init__(self, reach: Any, *, eager: bool = False, **options: Any) -> None:
        self.reach = reach
        self.changes = 0
        self.lane_changes: list[str] = []
        self.machine = CrazeMachine(
            Dialer(reach, eager=eager),
            on_change=self._changed,
            on_lane=self.lane_changes.append,
            **{
                "bounds": QUICK, "pace": Pace(0.001, 0.01, 0.001), "grace": 60.0,
                "waits": Waits(0.001, 0.01, 0.001), **options,
            },
        )  # fmt: skip
        self._taken: set[int] = set()

    def _changed(self) -> None:
        self.changes += 1

    def next(self, *kinds: str) -> Command:
        """The next command of one of these kinds that was not taken yet, nor let go of: a spare
        connection comes and goes with its roster."""

        def found() -> Command | None:
            for number, command in enumerate(self.reach.commands):
                if number not in self._taken and asked(command) in kinds and not command.closed:
                    self._taken.add(number)
                    return command
            return None

        made = until(found)
        assert isinstance(made, Command)
        return made

    def probe(self, hub: bool = True) -> None:
        command = self.next(PROBE)
        if hub:
            command.feed(b"{}\n")
            command.end(0)
        else:
            command.end(1, b"craze providers: no hub is running\n")

    def roster(self, *rows: Any, **changes: Any) -> Roster:
        one = Roster(self.next(NO_START))
        one.seed(*rows, **changes)
        return one

    def live(self, *rows: Any) -> Roster:
        self.probe()
        one = self.roster(*rows)
        self.until("live")
        return one

    def lane(self) -> Host:
        """A lane's connection, seeded."""
        one = Host(self.next(NO_START)).greet()
        one.seed(1)
        return one

    def until(self, state: str, cause: str | None = None) -> Status:
        until(lambda: (self.machine.status.state, self.machine.status.cause) == (state, cause))
        return self.machine.status

    def ids(self) -> list[str]:
        return [row.id for row in self.machine.rows]


@pytest.fixture
def hold(reach):
    made = []

    def make(**options: Any) -> Held:
        made.append(Held(reach, **options))
        return made[-1]

    yield make
    for one in made:
        for id in list(one.machine.lanes):
            one.machine.close_lane(id)
        one.machine.close()
        one.machine.close()


def create(held: Held, id: str) -> None:
    """Create a session, and have the hub answer with that one."""
    doing = Doing(lambda: held.machine.create(request()))
    command = held.next(BRIDGE)
    command.reply(command.expect("hello"), hello("hub"))
    command.reply(command.expect("session.create"), {"session": listed(id), "prompt": "none"})
    assert doing.result().session.id == id


# ---- states ----


def test_a_remote_machine_is_probed_and_then_listed(hold):
    held = hold()
    assert held.machine.status[:2] == ("absent", None)
    held.live(listed(A), listed(B))
    status = held.machine.status
    assert status == Status("live", None, True, True, True, True, held.machine.source_gen)
    assert held.ids() == [A, B] and held.changes
    assert held.machine.row(A) is not None and held.machine.row(HOST) is None


@pytest.mark.parametrize(
    ("code", "said", "state", "cause"),
    [
        (1, b"no hub is running", "dormant", None),
        (127, b"", "absent", "not_installed"),
        (1, b"unknown flag: --hub", "offline", "too_old"),
        (255, b"no route", "offline", "unreachable"),
    ],
)
def test_what_a_probe_says_is_the_state_until_the_next(hold, code, said, state, cause):
    held = hold()
    for _ in range(3):
        held.next(PROBE).end(code, said)
        held.until(state, cause)
    held.live(listed(A))
    assert held.ids() == [A]


def test_a_roster_that_is_lost_keeps_its_rows_and_is_probed_for(hold):
    held = hold()
    one = held.live(listed(A))
    one.drop()
    held.until("offline", "unreachable")
    (row,) = held.machine.rows
    assert row.approximate and not held.machine.status.create
    held.live(listed(B))
    assert held.ids() == [B] and not held.machine.rows[0].approximate


def test_a_hub_that_ends_takes_its_rows_along(hold):
    held = hold()
    one = held.live(listed(A))
    one.drop()
    held.probe(hub=False)
    held.until("dormant")
    assert held.ids() == []
    held.probe()
    held.next(NO_START).end(3, NO_HUB)  # it has gone between the two
    held.until("dormant")
    held.live(listed(A))


def test_the_first_outage_drops_the_subscription(hold):
    held = hold(pace=Pace(60.0, 60.0, 60.0), waits=LONG._replace(first=0.001))
    one = held.live(listed(A))
    one.drop()
    held.probe()  # and no second dial of the roster's own
    held.roster(listed(A))
    held.until("live")


def test_a_wake_cuts_the_wait_short(hold):
    held = hold(waits=LONG)
    held.probe(hub=False)
    held.until("dormant")
    doing = Doing(held.machine.create_options)
    command = held.next(BRIDGE)
    command.reply(command.expect("hello"), {})  # any answer will do
    doing.failure()
    held.live(listed(A))


def test_an_action_that_ends_while_the_roster_is_dialled_is_looked_after_at_once(hold):
    held = hold(waits=LONG)
    held.probe()
    dialled = held.next(NO_START)
    doing = Doing(held.machine.create_options)
    command = held.next(BRIDGE)
    command.reply(command.expect("hello"), {})  # any answer will do
    doing.failure()
    dialled.end(3, NO_HUB)
    held.until("dormant")
    held.live(listed(A))


def test_no_hub_is_not_believed_of_a_probe_from_before_a_create(hold):
    held = hold(waits=LONG)
    before = held.next(PROBE)
    held.machine.source.wakes.listed += 1
    before.end(1, b"no hub is running")
    held.live(listed(A))


def test_our_own_machine_holds_one_subscription_and_probes_nothing(hold):
    held = hold(eager=True)
    held.next(BRIDGE).end(127)
    held.until("absent", "not_installed")
    held.next(BRIDGE).end(255)
    held.until("offline", "unreachable")
    one = Roster(held.next(BRIDGE))
    one.seed(listed(A))
    held.until("live")
    one.drop()
    held.until("offline", "unreachable")
    assert held.ids() == [A]
    two = Roster(held.next(BRIDGE))
    two.seed(listed(B))
    held.until("live")
    assert held.ids() == [B] and PROBE not in map(asked, held.reach.commands)


def test_a_later_source_has_a_higher_generation(hold):
    assert hold().machine.source_gen < hold().machine.source_gen


# ---- rows ----


def test_created_rows_come_behind_the_listed(hold):
    held = hold()
    one = held.live(listed(B))
    create(held, A)
    assert held.ids() == [B, A]
    one.change(listed(A))
    until(lambda: held.machine.source.created_rows() == ())
    assert held.ids() == [B, A]
    one.change(removes=(A,))
    until(lambda: held.ids() == [B])


def test_more_than_fit_is_said(hold):
    held = hold()
    held.probe()
    held.roster(listed(A), truncated=True)
    held.until("live")
    assert held.machine.truncated


# ---- lanes ----


def opened(held: Held, id: str = HOST) -> tuple[Any, Host]:
    lane = held.machine.open(id)
    one = held.lane()
    until(lambda: lane.snapshot().generation)
    return lane, one


def test_a_lane_is_opened_once(hold):
    held = hold()
    held.live(listed(HOST))
    lane, _ = opened(held)
    assert held.machine.open(HOST) is lane
    assert lane.snapshot().session is not None and held.lane_changes
    held.machine.close_lane(HOST)
    held.machine.close_lane(HOST)
    assert held.machine.lanes == {}


def test_what_is_not_listed_is_not_opened_on_a_live_machine(hold):
    held = hold()
    held.live(listed(A))
    with pytest.raises(LaneError) as refused:
        held.machine.open(HOST)
    assert refused.value == LaneError(errors.UNKNOWN_SESSION)


def test_b12_a_remembered_session_is_opened_before_its_machine_is_there(hold, reach):
    reach.unreachable = "no route"
    held = hold()
    held.until("offline", "unreachable")
    lane = held.machine.open(HOST)
    until(lambda: lane.snapshot().stale)
    reach.unreachable = ""
    reach.serve = lambda command: serve(command)
    until(lambda: lane.snapshot().generation)
    assert lane.snapshot().stale is None


def serve(command: Command) -> None:
    """Be whatever is asked for."""
    if asked(command) == PROBE:
        command.feed(b"{}\n")
        command.end(0)
        return
    command.reply(command.expect("hello"), hello("hub"))
    request = command.request()
    if request["method"] == "sessions.subscribe":
        command.reply(
            request,
            {
                "subscription": "r-1",
                "epoch": HUB,
                "sessions": [listed(HOST)],
            },
        )
        return
    command.reply(request)
    one = Host(command)
    one.reply(one.expect("hello"), hello())
    one.reply(one.expect("sessions.list"), {"sessions": [row()]})
    one.seed(1)


def test_a_row_that_leaves_departs_its_lane_which_ends_by_itself(hold):
    held = hold()
    one = held.live(listed(HOST))
    lane, session = opened(held)
    one.change(removes=(HOST,))
    until(lambda: held.ids() == [])
    session.events(2, {"type": "text", "text": "last words"}).reset("session_closed")
    until(lambda: lane.finished)
    shown = lane.snapshot()
    assert shown.stale == "session_closed" and shown.messages[-1].text == "last words"


@pytest.mark.parametrize("leaves", ["removed", "reseed", "dormant"])
def test_past_its_grace_it_is_ended(hold, leaves):
    held = hold(grace=0.02)
    one = held.live(listed(HOST))
    lane, session = opened(held)
    if leaves == "removed":
        one.change(removes=(HOST,))
    elif leaves == "reseed":
        one.note("reset", reason="slow_consumer").seed(listed(A))
    else:
        one.drop()
        held.probe(hub=False)
    until(lambda: lane.finished)
    assert lane.snapshot().stale == ("hub_gone" if leaves == "dormant" else "session_gone")
    session.command.left()
    with pytest.raises(ClientError, match="the session has ended"):
        lane.send("too late")
    assert held.machine.open(HOST) is lane  # readable while its row is gone


@pytest.mark.parametrize("returns", ["reseed", "upsert", "hub", "reopen"])
def test_a_row_that_returns_calls_the_departure_off(hold, clock, returns):
    held = hold(clock=clock, grace=10.0)
    one = held.live(listed(HOST))
    lane, session = opened(held)
    if returns in ("hub", "reopen"):
        one.drop()
        held.probe(hub=False)
        held.until("dormant")
    else:
        one.change(removes=(HOST,))
        until(lambda: held.ids() == [])
    clock.at += 9
    if returns == "reseed":
        one.note("reset", reason="omitted").seed(listed(HOST))
    elif returns == "upsert":
        one.change(listed(HOST))
    elif returns == "hub":
        held.live(listed(HOST))
    else:
        doing = Doing(lambda: held.machine.reopen("saved"))
        command = held.next(BRIDGE)
        command.reply(command.expect("hello"), hello("hub"))
        command.reply(command.expect("session.reopen"), {"session": listed(HOST), "joined": True})
        assert doing.result().joined
    until(lambda: held.ids() == [HOST])
    clock.at += 60
    held.machine._departures._moved.set()
    settle()
    gevent.sleep(0.02)
    assert not lane.finished and not session.command.closed


def test_a_just_created_session_departs_with_its_hub_too(hold):
    held = hold(grace=0.02)
    one = held.live()
    create(held, HOST)
    lane, _ = opened(held)
    one.drop()
    held.probe(hub=False)
    until(lambda: lane.finished)
    assert lane.snapshot().stale == "hub_gone" and held.ids() == []


def test_a_removal_of_a_row_that_was_only_created_departs_its_lane(hold):
    held = hold(grace=0.02)
    one = held.live()
    create(held, HOST)
    lane, _ = opened(held)
    one.change(removes=(HOST,))
    until(lambda: lane.finished)
    assert lane.snapshot().stale == "session_gone"


def test_b06_a_reseed_without_it_leaves_a_created_session_and_its_lane(hold):
    held = hold(grace=0.01)
    one = held.live(listed(A))
    create(held, HOST)
    lane, _ = opened(held)
    one.note("reset", reason="slow_consumer").seed(listed(A))
    one.change(listed(B))
    until(lambda: B in held.ids())
    gevent.sleep(0.05)
    assert HOST in held.ids() and not lane.finished


def test_an_ended_lane_is_opened_afresh_once_its_row_is_listed_again(hold):
    held = hold()
    one = held.live(listed(HOST))
    lane, session = opened(held)
    session.reset("session_closed")
    one.change(removes=(HOST,))
    until(lambda: lane.finished and held.ids() == [])
    assert held.machine.open(HOST) is lane
    one.change(listed(HOST))
    until(lambda: held.ids() == [HOST])
    fresh, _ = opened(held)
    assert fresh is not lane and held.machine.lanes == {HOST: fresh}


def test_a_machine_that_is_removed_ends_its_lanes_at_once(hold):
    held = hold()
    held.live(listed(HOST))
    lane, session = opened(held)
    held.machine.close()
    assert lane.finished and lane.snapshot().stale == frames.HOST_REMOVED
    session.command.left()
    assert lane.snapshot().banner == "ended · host_removed — showing the last known transcript"
    changes = held.changes
    with pytest.raises(ClientError) as refused:
        held.machine.open(A)
    assert refused.value.message == (
        f'machine\'s craze source stopped while the lane for session "{A}" was being opened'
    )
    assert held.machine.open(HOST) is lane and held.changes == changes


def test_a_session_that_ended_before_its_repeated_answer_is_not_listed(hold):
    held = hold()
    one = held.live(listed(HOST))
    one.change(removes=(HOST,))
    until(lambda: held.ids() == [])
    create(held, HOST)
    assert held.machine.row(HOST) is None


def test_it_says_what_it_is(hold):
    held = hold()
    assert repr(held.machine) == "<CrazeMachine machine: absent, 0 lanes>"


# ---- the connection that is made ahead ----


def test_a_machine_that_is_live_has_a_connection_for_the_next_lane(hold):
    held = hold()
    one = held.live(listed(A))
    spare = held.next(NO_START)
    spare.reply(spare.expect("hello"), hello("hub"))
    held.machine.open(A)
    assert spare.expect("session.connect")["params"] == {"sessionId": A}
    one.drop()


def test_it_is_let_go_of_with_the_roster(hold):
    held = hold()
    one = held.live(listed(A))
    spare = held.next(NO_START)
    one.drop()
    assert spare.left()
    held.live(listed(A))
    assert held.next(NO_START) is not spare


def test_it_is_let_go_of_with_the_machine(hold):
    held = hold()
    held.live(listed(A))
    spare = held.next(NO_START)
    held.machine.close()
    assert spare.left()
