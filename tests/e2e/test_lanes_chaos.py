"""Lanes over links that are killed hundreds of times, in every way there is, beside one that never
was: they end up showing the same, and every prompt ran once or was said not to be known."""

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import gevent
import pytest

from craze import greenlets
from craze.client import Client
from craze_shed import Dialer, LaneError
from craze_shed.contract.answers import Choice
from craze_shed.contract.rows import FeedMessage
from craze_shed.craze.fold import OMITTED
from craze_shed.craze.lane import CrazeLane
from craze_shed.craze.limits import NOTIFICATIONS
from craze_shed.reach import Reach
from tests.e2e.hubs import eventually, running, settle
from tests.e2e.lanes import (
    BRISK,
    HOST_ID,
    QUICK,
    Actor,
    Box,
    Far,
    Link,
    Reader,
    children,
    kill,
    settled,
    told,
    tools,
)
from tests.e2e.machine import Machine

KILLS = 200
SEED = 20261130
PATIENCE_S = 240


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
        assert not settle(made)
    finally:
        made.close()


@pytest.fixture
def box(machine: Machine, tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path, machine) as made:
        yield made


@pytest.fixture
def actor(machine: Machine, box: Box) -> Iterator[Actor]:
    """A session, and a hub that knows it."""
    made = Actor(machine)
    try:
        with box.local() as here:
            Dialer(here, eager=False).connect(explicit=True).connection.close()
        yield made
    finally:
        made.close()


def lane(reach: Reach, wait: float = 2.0) -> CrazeLane:
    return CrazeLane(Dialer(reach, eager=False), HOST_ID, bounds=QUICK, connected_wait=wait)


class Host:
    """What the session's host itself tells, over a connection that nothing disturbs."""

    def __init__(self, path: str) -> None:
        self.started: Counter[str] = Counter()  # turns, by their prompt
        self.answered: Counter[str] = Counter()  # asks, by their id
        self._client = Client(path)
        self._reading = greenlets.spawn("host", self._read)

    def _read(self) -> None:
        with self._client.attach() as events:
            for note in events:
                event = note.params.get("event", {})
                turn, ask = event.get("turn", {}), event.get("ask", {})
                if turn.get("phase") == "started":
                    self.started[turn.get("text", "")] += 1
                if event.get("type") == "ask" and ask.get("outcome") == "answered":
                    self.answered[ask["id"]] += 1

    def close(self) -> None:
        self._reading.kill()
        self._client.close()


class User:
    """Sends prompts through a lane and answers what is asked, and keeps what became of each."""

    def __init__(self, reader: Reader, chance: random.Random) -> None:
        self.reader = reader
        self.prompts: dict[str, str] = {}
        self.answers: list[tuple[str, str]] = []
        self.over = False
        self._chance = chance
        self._work = greenlets.spawn(f"user {reader.name}", self._use)

    def end(self) -> None:
        self.over = True
        self._work.get()

    def _use(self) -> None:
        lane = self.reader.lane
        while not self.over:
            text = f"{self.reader.name}-{len(self.prompts)}"
            self.prompts[text] = outcome(lambda text=text: lane.send(text))
            for ask in self.reader.view.snapshot().approvals[:1]:
                choice = Choice("yes")
                how = outcome(lambda ask=ask, choice=choice: lane.answer(ask.id, choice))
                self.answers.append((ask.id, how))
            gevent.sleep(self._chance.random() * 0.4)


def outcome(verb: Callable[[], None]) -> str:
    try:
        verb()
    except LaneError as failure:
        return failure.code
    return "ran"


def babble(actor: Actor, chance: random.Random, number: int) -> None:
    """A little of everything that an agent says."""
    words = f"{number} " + "é漢👩‍👧 w" * chance.randrange(1, 40)
    actor.do({"name": chance.choice(("text", "text", "thought")), "text": words})
    if number % 7 == 0:
        actor.tool(f"tool-{number}", chance.choice(("in_progress", "completed")))
    if number % 11 == 0:
        actor.tool(f"tool-{number - number % 7}", "completed")
    if number % 13 == 0:
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        ask = {"id": f"ask-{number}", "tool": "Shell", "options": options}
        actor.do({"name": "permission", **ask})


class Killer:
    """Kills links, one at a time, at random moments and in random ways."""

    def __init__(self, box: Box, links: list[Link], chance: random.Random) -> None:
        self._box = box
        self._links = links
        self._chance = chance
        self.done: Counter[str] = Counter()
        self._spared = running(box.machine, "craze bridge")
        self._ways = {
            self._ssh: 12,
            self._bridge: 8,
            self._connection: 1,
            self._session: 1,
            self._reset: 1,
        }

    def one(self) -> None:
        way = self._chance.choices(list(self._ways), list(self._ways.values()))[0]
        if self.done.total() % 50 == 25:
            way = self._swallow
        if way():
            self.done[way.__name__] += 1

    def _any_of(self, pids: list[int]) -> bool:
        return bool(pids) and kill(self._chance.choice(pids))

    def _ssh(self) -> bool:
        return self._any_of(children("ControlMaster=no"))

    def _connection(self) -> bool:
        return self._any_of(children("-NT"))

    def _session(self) -> bool:
        return self._any_of(self._box.server.sessions())

    def _bridge(self) -> bool:
        bridges = running(self._box.machine, "craze bridge")
        return self._any_of([pid for pid in bridges if pid not in self._spared])

    def _reset(self) -> bool:
        self._chance.choice(self._links).cut()
        return True

    def _swallow(self) -> bool:
        self._chance.choice(self._links).swallow()
        return True


def test_b01_b09_b41_b68_200_lost_links_leave_no_trace(box: Box, actor: Actor) -> None:
    chance = random.Random(SEED)
    links = [Link(box.server.port), Link(box.server.port)]
    ways: list[Reach] = [box.local(), *(box.reach(link, keepalive=BRISK) for link in links)]
    host = Host(actor.socket)
    readers: list[Reader] = []
    users: list[User] = []
    try:
        calm = Reader("calm", lane(ways[0]))
        readers.append(calm)
        eventually(lambda: calm.live)
        killer = Killer(box, links, chance)
        readers += [Reader(f"lane{n}", lane(ways[1 + n % 2])) for n in range(6)]
        users = [User(reader, chance) for reader in readers[1:]]
        rounds = 0
        with gevent.Timeout(PATIENCE_S):
            while killer.done.total() < KILLS:
                rounds += 1
                babble(actor, chance, rounds)
                gevent.sleep(chance.random() * 0.2)
                # Most moments are of a lane that is live, some of one that comes back.
                if rounds % 4 == 0 or sum(reader.live for reader in readers[1:]) > 2:
                    killer.one()
            for user in users:
                user.end()
            settled(actor, readers, "the last words")
    finally:
        for user in users:
            user.over = True
        for reader in readers:
            reader.close()
        for way in ways:
            way.close()
        for link in links:
            link.close()
        host.close()

    assert calm.outages == [] and calm.resets == ["connect"]
    for reader in readers[1:]:
        # A seed lost on its way is begun anew, a reader left behind seeded anew; nothing else is.
        anew = [how for how in reader.outages if how != "resumed"]
        assert set(anew[1:]) <= {"reconnect", "lagged"}
        assert reader.resets == (anew if "connect" in anew[:1] else ["connect", *anew])
        shows_the_same(reader, calm)
    ran_once(users, host)


def shows_the_same(reader: Reader, calm: Reader) -> None:
    """The same rows, as far back as the reader's seed went, and the same approvals."""
    said, all_said = told(reader.rows), told(calm.rows)
    if said and said[0][2] == OMITTED:  # and the next may have lost its beginning
        said, all_said = said[2:], all_said[2 - len(said) :]
    assert said == all_said, reader
    for id, drawn in tools(reader.rows).items():
        assert tools(calm.rows)[id][-len(drawn) :] == drawn
    assert reader.view.snapshot().approvals == calm.view.snapshot().approvals


def ran_once(users: list[User], host: Host) -> None:
    for user in users:
        for text, how in user.prompts.items():
            expected = {"ran": (1,), "outcome_unknown": (0, 1), "unavailable": (0,)}[how]
            assert host.started[text] in expected, (text, how)
    settled_by = Counter(ask for user in users for ask, how in user.answers if how == "ran")
    assert all(count == 1 for count in settled_by.values())
    assert set(settled_by) <= set(host.answered)
    refused = {how for user in users for _, how in user.answers} - {"ran"}
    assert refused <= {"outcome_unknown", "unavailable", "already_resolved", "unknown_approval"}


def test_b03_b42_a_refused_cursor_is_a_new_seed_of_the_same_session(box: Box, actor: Actor) -> None:
    """The host has begun anew while the lane was away: nothing of what was can be gone on with."""
    chance = random.Random(SEED)
    with box.local() as here, box.reach() as there:
        calm, cut = readers = [Reader("calm", lane(here)), Reader("cut", lane(there))]
        try:
            for number in range(6):
                for step in range(20):
                    babble(actor, chance, 100 * number + step)
                settled(actor, readers, f"last {number}")
                shows_the_same(cut, calm)
                box.server.stop()
                eventually(lambda: not cut.live)
                actor.do({"name": "restart"})
                box.server.start()
            settled(actor, readers, "the last words")
            shows_the_same(cut, calm)
        finally:
            for reader in readers:
                reader.close()
    assert cut.outages == 6 * ["cursor_lost:foreign_incarnation"]
    assert cut.resets == ["connect", *cut.outages]
    assert calm.outages == 6 * ["server_reset:session_replaced"]


def test_b01_a_lane_that_missed_more_than_is_queued_for_it_is_seeded_once(
    box: Box, actor: Actor
) -> None:
    """What was missed comes in one go, more of it than a connection holds."""
    with box.local() as here, box.reach() as there:
        calm, cut = readers = [Reader("calm", lane(here)), Reader("cut", lane(there))]
        try:
            settled(actor, readers, "first words")
            box.server.stop()
            eventually(lambda: not cut.live)
            for number in range(NOTIFICATIONS + 500):
                actor.say(f"{number} ")
                gevent.sleep(0)
            box.server.start()
            settled(actor, readers, "the last words")
            shows_the_same(cut, calm)
        finally:
            for reader in readers:
                reader.close()
    assert cut.outages == ["lagged"] and calm.outages == []


# ---- programs of their own ----


def same_as(far: Far, calm: Reader, actor: Actor, words: str) -> None:
    """Have the session say something last: what the program's lane shows is the calm one's."""
    settled(actor, [calm], words)
    far("until", text=words)
    found, shown = (
        [FeedMessage.from_wire(row) for row in read]
        for read in (far("rows"), [row.to_wire() for row in calm.rows])
    )
    assert told(found) == told(shown) and tools(found) == tools(shown)


@pytest.mark.parametrize("way", ["ssh", "paramiko"])
def test_b50_thirty_lost_links_leave_nothing_in_a_program(box: Box, actor: Actor, way: str) -> None:
    chance = random.Random(SEED)
    with box.local() as here, Far("first") as far:
        calm = Reader("calm", lane(here))
        try:
            eventually(lambda: calm.live)
            spared = running(box.machine, "craze bridge")
            far("reach", way=way, config=box.config())
            far("open", id=HOST_ID)
            far("until")
            outcomes = Counter()
            for number in range(30):
                babble(actor, chance, number)
                if number % 3:
                    for pid in box.server.sessions():
                        kill(pid)
                else:
                    for pid in running(box.machine, "craze bridge"):
                        _ = pid in spared or kill(pid)
                babble(actor, chance, 100 + number)
                answer = far.answer("send", text=f"prompt {number}")
                outcomes[answer.get("error", "ran")] += 1
            assert set(outcomes) <= {"ran", "outcome_unknown", "unavailable"}, outcomes
            same_as(far, calm, actor, "the last words")
            prompts = Counter(row.text for row in calm.rows if row.role == "user")
            assert set(prompts.values()) == {1}
            assert outcomes["ran"] <= len(prompts) <= 30 - outcomes["unavailable"]
            assert far("close") == []
            assert far.end() == ""
        finally:
            calm.close()


@pytest.mark.parametrize("way", ["ssh", "paramiko"])
def test_b41_a_link_that_carries_nothing_is_noticed_by_a_lane_at_rest(
    box: Box, actor: Actor, way: str
) -> None:
    link = Link(box.server.port)
    with Far("first") as far:
        try:
            far("reach", way=way, config=box.config(link), keepalive=BRISK)
            far("open", id=HOST_ID)
            far("until", banner="")
            link.swallow()
            actor.tool("said meanwhile")
            far("until", banner="not live · reconnecting")
            assert far("until", text="said meanwhile")["generation"] == 1
            assert far("close") == []
        finally:
            link.close()


@pytest.mark.parametrize("way", ["ssh", "paramiko"])
def test_b04_a_program_that_slept_shows_what_was_said_meanwhile(
    box: Box, actor: Actor, way: str
) -> None:
    """More was said than anybody keeps for it; and once the session has even begun anew."""
    with box.local() as here, Far("first") as far:
        calm = Reader("calm", lane(here))
        try:
            eventually(lambda: calm.live)
            far("reach", way=way, config=box.config())
            far("open", id=HOST_ID)
            far("until")
            for number in range(2):
                far.process.send_signal(signal.SIGSTOP)
                for _ in range(48):
                    actor.do({"name": "text", "bytes": 500_000})
                    gevent.sleep(0)
                if number:
                    actor.do({"name": "restart"})
                actor.say("said meanwhile")
                far.process.send_signal(signal.SIGCONT)
                settled(actor, [calm], f"last {number}")
                far("until", text=f"last {number}")
                said = far("until", text=f"last {number}")["rows"]
                assert said[-3].endswith("said meanwhile"), said
            assert far("close") == []
        finally:
            calm.close()
