"""A session is loaded: its replay is told once, wherever the agent puts it, and then it is live."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.agents import limits
from craze.agents.acp import AcpAgent
from craze.agents.acp.updates import Session as UpdateSession
from craze.clock import ManualClock
from craze.engine import port
from craze.host.session import Facts, Session
from craze.machine import providers
from craze.transcript import snapshot
from craze.transcript.restore import restore
from craze.wire.codes import Refusal
from tests.unit.agents.conftest import PATIENCE, PROGRAM

Rows = list[tuple[str, str]]


class Loaded:
    """A session over the fake agent, driven by hand; `rows` are what a reader sees of it."""

    def __init__(self, folder: Path, script: str, env: dict[str, str], load: str) -> None:
        provider = providers.PROVIDERS["grok" if script.startswith("grok-") else "cursor"]
        variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "CRAZE_FAKE_SCRIPT": script}
        launch = providers.launch(
            provider, PROGRAM, env=variables | env, cwd=str(folder), force=False
        )
        clock = ManualClock(1_767_225_600_000_000_000)
        self.session = Session(
            Facts("s", str(folder), provider.name, provider.label, provider.capabilities()),
            "inc-1",
            clock,
            lambda post: AcpAgent(post, launch=launch, clock=clock, load=load),
        )
        self.engine = self.session.engine
        self.client = self.engine.mint_client()
        self._commands = 0

    def start(self) -> "Loaded":
        self.session.start()
        with gevent.Timeout(PATIENCE):
            assert self.session.wait_started(None)  # type: ignore[arg-type]
        started = self.session.started
        assert started is not None and started.error is None, started
        return self

    def until(self, done: Callable[[], Any]) -> Any:
        with gevent.Timeout(PATIENCE):
            while not (found := done()):
                gevent.sleep(0.002)
        return found

    def command(self, method: str, **args: Any) -> Any:
        self._commands += 1
        return self.session.command(self.client, str(self._commands), method, args, True)

    def refused(self, method: str, **args: Any) -> str:
        with pytest.raises(Refusal) as refused:
            self.command(method, **args)
        return refused.value.reason

    def turn(self, text: str) -> None:
        """A whole prompt."""
        self.command("session.prompt", text=text, mode="queue")
        self.until(lambda: not self.engine.turn)

    def events(self) -> list[dict[str, Any]]:
        """Every event there has been."""
        reader = self.session.log.subscribe(0, "inc-1", wake=lambda: None)
        made = []
        while (record := reader.take()) is not None:
            made.append(json.loads(record.body))
        reader.close()
        return made

    def rows(self) -> Rows:
        return rows(self.session.model)


def rows(model: Any) -> Rows:
    """The main transcript, a kind and its words each."""
    return [
        (entry["kind"], entry.get("text") or entry.get("tool", {}).get("title", ""))
        for entry in model.main.documents()
    ]


def told(*turns: int) -> Rows:
    """The rows of some of the turns that the fake agent replays."""
    made: Rows = []
    for number in turns:
        made += [
            ("user", f"question {number}"),
            ("thought", f"thinking {number}"),
            ("assistant", f"looking {number}"),
            ("tool", f"Read {number}.md"),
            ("assistant", f"answer {number}"),
        ]
    return made


RESTORED = ("note", "restored")
LIVE = [("user", "hi"), ("assistant", "echo: hi")]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., Loaded]]:
    """Makes a session that loads `saved-1` from a script of the fake agent."""
    made: list[Loaded] = []

    def make(script: str, env: dict[str, str] | None = None, load: str = "saved-1") -> Loaded:
        made.append(Loaded(tmp_path, script, env or {}, load))
        return made[-1]

    yield make
    for loaded in made:
        loaded.session.close()


# ---- the replay is told once ----


@pytest.mark.parametrize("script", ["load-turns", "load-twice"])
def test_b08_a_replay_is_shown_once(load: Any, script: str) -> None:
    for _ in range(2):  # reopened, and reopened again
        loaded = load(script).start()
        assert loaded.rows() == [*told(1, 2, 3), RESTORED]
        loaded.turn("hi")
        assert loaded.rows() == [*told(1, 2, 3), RESTORED, *LIVE]


@pytest.mark.parametrize("time", ["first", "second"])
def test_b08_a_replay_after_the_load_is_shown_once(load: Any, time: str) -> None:
    loaded = load("load-late").start()
    # A slow machine may see it in two parts, which are `restored` each.
    loaded.until(lambda: told(3)[-1] in loaded.rows() and loaded.engine.activity == "idle")
    loaded.turn("hi")
    assert [row for row in loaded.rows() if row != RESTORED] == [*told(1, 2, 3), *LIVE]


def test_b08_an_agent_that_answers_before_it_replays_is_heard_out(load: Any, mocker: Any) -> None:
    loaded = load("load-late")
    agent = loaded.session.agent
    hear_out = agent._hear_out
    heard = []

    def at_leisure(replay: Any) -> None:
        loaded.until(lambda: replay.count == 18)
        heard.append(loaded.engine.activity)
        hear_out(replay)

    mocker.patch.object(agent, "_hear_out", at_leisure)
    loaded.start()
    assert heard == ["replaying"]
    assert loaded.rows() == [*told(1, 2, 3), RESTORED]


def test_an_agent_that_never_falls_silent_is_heard_out_so_long(load: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "REPLAY_LATE", 0.05)
    mocker.patch.object(limits, "REPLAY_QUIET", 30.0)
    loaded = load("load-turns").start()
    assert loaded.rows() == [*told(1, 2, 3), RESTORED]


def test_b08_an_agent_that_says_nothing_of_the_session_it_loads(load: Any) -> None:
    """Its answer is null, and the replay comes after it."""
    loaded = load("bad-load-early").start()
    expected = [("user", "question 1"), ("assistant", "answer 1")]
    loaded.until(lambda: [row for row in loaded.rows() if row != RESTORED] == expected)
    assert loaded.engine.settings()["mode"] == ""


def test_b08_a_replay_of_nothing_shows_nothing(load: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "REPLAY_BEGINS", 0.01)
    for _ in range(2):
        loaded = load("load-nothing").start()
        assert loaded.rows() == [RESTORED]
        loaded.turn("hi")
        assert loaded.rows() == [RESTORED, *LIVE]


def test_b08_an_agent_that_replays_again_when_it_is_prompted(load: Any) -> None:
    loaded = load("load-again").start()
    loaded.turn("hi")
    loaded.turn("hi")
    assert loaded.rows() == [*told(1, 2, 3), RESTORED, *LIVE, *LIVE]


def in_a_turn(loaded: Loaded, gate: Path, text: str, updates: list[dict[str, Any]]) -> None:
    """A whole prompt, in which the agent says all this first."""
    with open(os.open(gate, os.O_RDWR), "wb", buffering=0) as opened:
        loaded.command("session.prompt", text=text, mode="queue")
        for params in updates:
            loaded.session.agent._updated(params)  # type: ignore[attr-defined]
        opened.write(b"1")
        loaded.until(lambda: not loaded.engine.turn)


@pytest.mark.parametrize("prompt", ["hi", "and?"])
def test_what_only_begins_as_the_replay_did_is_not_lost(
    load: Any, tmp_path: Path, prompt: str
) -> None:
    """Whether the turn goes on with something else or ends there."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    kept = [["one", "echo: and?"], ["two", "echo: two"]]
    lines = "".join(json.dumps(exchange) + "\n" for exchange in kept)
    (tmp_path / ".fake-agent-saved-1.jsonl").write_text(lines)
    loaded = load("remember", {"CRAZE_FAKE_GATE": str(gate)}).start()
    before = loaded.rows()
    in_a_turn(loaded, gate, prompt, [update("user_message_chunk", "one", "saved-1")])
    expected = [("user", prompt), ("assistant", f"echo: {prompt}")]
    assert loaded.rows() == [*before, *expected]


@pytest.mark.parametrize("echoes", [False, True])
def test_an_answer_that_was_given_before_is_given_again(
    load: Any, tmp_path: Path, echoes: bool
) -> None:
    """Also by an agent that says each prompt back."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    kept = json.dumps(["hi", "echo: hi"]) + "\n"
    (tmp_path / ".fake-agent-saved-1.jsonl").write_text(kept)
    loaded = load("remember", {"CRAZE_FAKE_GATE": str(gate)}).start()
    assert loaded.rows() == [*LIVE, RESTORED]
    echo = [update("user_message_chunk", "hi", "saved-1")] * echoes
    in_a_turn(loaded, gate, "hi", echo)
    assert loaded.rows() == [*LIVE, RESTORED, *LIVE]


def test_b08_what_is_replayed_within_a_turn_is_shown_once(load: Any) -> None:
    """Nothing parts such a replay from the turn's own words, so it is part of the turn."""
    for _ in range(2):
        loaded = load("load-split").start()
        loaded.turn("hi")
        later = [row for row in told(2, 3) if row[0] != "user"]
        *later, (_, last) = later
        expected = [*told(1), RESTORED, LIVE[0], *later, ("assistant", last + "echo: hi")]
        assert loaded.rows() == expected


def test_b08_a_replay_that_begins_when_the_session_is_already_up(load: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "REPLAY_BEGINS", 0.001)
    mocker.patch.object(limits, "REPLAY_QUIET", 0.001)
    loaded = load("load-late")
    agent = loaded.session.agent
    # The agent is held up between its answer and the replay, by a clock of the loop's alone.
    held: list[dict[str, Any]] = []
    mocker.patch.object(agent, "_updated", held.append)
    loaded.start()
    loaded.until(lambda: len(held) >= 18)
    mocker.stopall()
    for params in held:
        agent._updated(params)
    assert loaded.engine.activity == "replaying"
    assert loaded.refused("session.prompt", text="x", mode="queue") == "not_accepting"
    loaded.until(lambda: loaded.engine.activity == "idle")
    assert loaded.rows() == [RESTORED, *told(1, 2, 3), RESTORED]
    loaded.turn("hi")
    assert loaded.rows() == [RESTORED, *told(1, 2, 3), RESTORED, *LIVE]


# ---- how a replay stands in the stream ----


def test_the_records_of_a_load(load: Any) -> None:
    loaded = load("load-turns").start()
    events = loaded.events()
    assert [event["type"] for event in events][:3] == ["replay", "user", "thought"]
    assert events[0]["replay"] == {"phase": "start"}
    assert events[-1]["replay"] == {"phase": "end"}
    assert [event.get("replayed") for event in (events[0], events[-1])] == [None, None]
    assert all(event["replayed"] for event in events[1:-1])
    # The install is the last of them: one delta, whatever was told of settings on the way.
    assert [event["type"] for event in events].count("meta") == 1
    install = events[-2]
    assert list(install["state"]) == ["mode", "model", "config", "commands", "plugins"]
    loaded.turn("hi")
    assert not any(event.get("replayed") for event in loaded.events()[len(events) :])


@pytest.mark.parametrize("script", ["load", "grok-load"])
def test_the_start_has_ended_when_the_replay_has(drive: Any, script: str) -> None:
    driven = drive(script, load="saved-1").start()
    assert driven.wait(port.AgentReady).provider_session == "saved-1"
    driven.until(lambda: len(driven.events("replay")) == 2)
    kinds = [
        made.event["type"] if isinstance(made, port.AgentEvent) else type(made).__name__
        for made in driven.posts
    ]
    told = ["user", "thought", "text"]
    assert kinds[:9] == ["replay", *told, *told, "AgentReady", "replay"]
    driven.turn("live")
    assert [event["text"] for event in driven.events("user")] == ["question 1", "question 2"]


def test_a_replayed_prompt_in_pieces_is_one(drive: Any) -> None:
    users = drive("load-long", load="saved-1").start().events("user")
    assert len(users) == 200
    assert users[7]["text"] == "question 7 in two pieces"


def test_a_load_restates_the_settings(drive: Any) -> None:
    state = drive("load-settings", load="s").start().wait(port.AgentReady).state
    assert (state["mode"], state["model"]) == ("plan", "composer")
    assert state["config"]["options"][0]["current"] == "high"


def test_a_replay_is_no_prompt(load: Any) -> None:
    loaded = load("load-turns").start()
    engine = loaded.engine
    assert (engine.activity, engine.prompted, engine.turn_count) == ("idle", False, 0)
    assert (engine.last_turn, engine.busy, engine.rows) == (None, False, [])
    loaded.turn("hi")
    assert engine.prompted
    assert engine.last_turn["turnId"] == "turn-1"


def test_what_may_be_done_while_a_session_is_replayed(load: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    loaded = load("load-held", {"CRAZE_FAKE_GATE": str(gate)})
    loaded.session.start()
    loaded.until(lambda: loaded.rows() == told(1))
    engine = loaded.engine
    assert (engine.activity, engine.ready, engine.busy) == ("replaying", False, True)
    for mode in ("queue", "send_now", "interject"):
        assert loaded.refused("session.prompt", text="x", mode=mode) in (
            "not_accepting", "unsupported",
        )  # fmt: skip
    for method, args in (
        ("session.queue.add", {"text": "x"}),
        ("session.cancel", {}),
        ("session.disarm", {}),
        ("session.setTitle", {"title": "x"}),
        ("session.set", {"setting": {"kind": "mode", "value": "plan"}}),
    ):
        assert loaded.refused(method, **args) == "not_accepting", method
    # Whoever reads it now reads that it is being replayed.
    seen = json.loads(snapshot.encode(loaded.session.model, 1 << 20))
    assert seen["replaying"] is True
    late = restore(seen)
    mark = loaded.session.log.head
    with open(gate, "wb", buffering=0) as opened:
        opened.write(b"1")
        loaded.until(lambda: engine.ready)
        assert loaded.rows() == [*told(1, 2, 3), RESTORED]
        for seq, event in enumerate(loaded.events()[mark:], mark + 1):
            late.fold(seq, event)
        assert rows(late) == loaded.rows()


def test_what_a_replay_leaves_open_is_over(load: Any) -> None:
    """The process that ran it is gone: nothing of it runs on, nor ends with a later turn."""
    loaded = load("load-turns").start()
    tools = [entry["tool"] for entry in loaded.session.model.main.documents() if "tool" in entry]
    assert [tool["status"] for tool in tools] == ["completed", "completed", "cancelled"]
    seen = loaded.session.log.head
    loaded.turn("hi")
    assert "tool" not in [event["type"] for event in loaded.events()[seen:]]


def replaying(provider: str) -> UpdateSession:
    made = UpdateSession(providers.PROVIDERS[provider], lambda: "now", Counter())
    made.id, made.replaying = "s", True
    return made


def update(kind: str, words: str = "", of: str = "s", **members: Any) -> dict[str, Any]:
    if words:
        members["content"] = {"type": "text", "text": words}
    return {"sessionId": of, "update": {"sessionUpdate": kind, **members}}


def test_a_replay_may_end_with_a_prompt() -> None:
    made = replaying("cursor")
    assert made.update(update("user_message_chunk", "unanswered")) == []
    assert made.replayed() == [{"type": "user", "text": "unanswered"}]
    assert made.replayed() == []


def test_the_first_words_after_a_replay_are_a_message_of_their_own() -> None:
    """Messages with ids are set apart within a run, but not from what was replayed before it."""
    made = replaying("cursor")
    made.update(update("agent_message_chunk", "old", messageId="m-1"))
    made.replayed()
    live = made.update(update("agent_message_chunk", "new", messageId="m-2"))
    assert live == [{"type": "text", "text": "new"}]


def test_b16_a_sub_agent_that_was_running_is_not_shown_running_for_ever() -> None:
    grok = replaying("grok")
    child = {"subagent_id": "sub-1", "child_session_id": "c-1"}
    told_of = {"sessionUpdate": "subagent_spawned", **child}
    grok.vendor("x.ai/session_notification", {"sessionId": "s", "update": told_of})
    grok.update(update("tool_call", of="c-1", toolCallId="t", title="Look", status="in_progress"))
    cursor = replaying("cursor")
    cursor.update(update("tool_call", toolCallId="sub-1", title="Task: x", status="in_progress"))
    for made in (grok, cursor):
        events = made.replayed()
        tools = [event["tool"]["status"] for event in events if event["type"] == "tool"]
        assert tools == ["cancelled"]
        [row] = [event for event in events if event["type"] == "subagent"]
        assert (row["subagentChange"], row["subagent"]["status"]) == ("finished", "cancelled")
        assert made.replayed() == []


def test_b16_a_cancelled_turn_ends_the_sub_agent_that_its_tool_is() -> None:
    made = replaying("cursor")
    made.replayed()
    made.update(update("tool_call", toolCallId="sub-1", title="Task: x", status="in_progress"))
    events = made.ended("cancelled", False)
    assert [event["type"] for event in events] == ["tool", "subagent"]
    assert events[0]["tool"]["task"]["status"] == "cancelled"
    assert events[1]["subagent"]["status"] == "cancelled"


def test_a_conversation_comes_back_as_it_was(load: Any, tmp_path: Path) -> None:
    """b08: reopened twice, with a turn between, nothing is there twice or lost."""
    first = load("remember", load="").start()
    for text in ("one", "two", "two"):
        first.turn(text)
    id = first.engine.provider_session
    said = [("user", "one"), ("assistant", "echo: one")]
    again = [("user", "two"), ("assistant", "echo: two")]
    assert first.rows() == [*said, *again, *again]
    first.session.close()
    for turns in (0, 1):
        loaded = load("remember", load=id).start()
        assert loaded.rows() == [*said, *again, *again, *again * turns, RESTORED]
        loaded.turn("two")
        loaded.session.close()


# ---- a load that fails ----


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo", "agent: cursor does not support session/load"),
        ("grok-echo", "agent: grok does not support session/load"),
        ("load-missing", "session not found: saved-1"),
        ("load-hang", "acp: agent did not answer session/load within 0.2s"),
        ("exit-two-lines", "acp: agent exited: exit status 1: "
         "Error: KEYCHAIN LOCKED / Run unlock and retry."),
    ],
)  # fmt: skip
def test_b43_b75_why_a_session_could_not_be_loaded(
    load: Any, mocker: Any, script: str, cause: str
) -> None:
    if script == "load-hang":
        mocker.patch.object(limits, "LOAD_SESSION", 0.2)
    loaded = load(script)
    loaded.session.start()
    loaded.until(lambda: loaded.session.started)
    assert loaded.session.started.error.message == cause
    engine = loaded.engine
    assert (engine.activity, engine.err, engine.start_failed) == ("error", cause, True)
    assert not engine.busy
    assert engine.provider_session == "", "nothing else was opened in its place"


def test_a_load_is_given_a_minute_and_a_half() -> None:
    assert limits.LOAD_SESSION == 90.0


def test_an_agent_that_dies_while_it_replays(load: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    loaded = load("load-held", {"CRAZE_FAKE_GATE": str(gate)})
    loaded.session.start()
    loaded.until(loaded.rows)
    os.kill(loaded.session.agent._process.pid, 9)
    loaded.until(lambda: loaded.session.started)
    assert loaded.session.started.error.message == "acp: agent exited: signal: killed"
    assert loaded.engine.activity == "error"
