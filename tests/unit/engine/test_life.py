"""A session's start, its end, and what its row says of it (codecs 5.1, 5.11, 5.12; tables 5.2)."""

import subprocess
import sys
from typing import Any

import pytest

from craze.engine import port
from craze.engine.port import AgentError, AgentExited, Close, Ended, Started

DEAD = AgentError("the agent exited with status 1: out of memory", "agent_exit_status", 1)


def replay(driver: Any, phase: str) -> None:
    driver.say({"type": "replay", "replay": {"phase": phase}})


# ---- the start ----


def test_a_start(fresh: Any) -> None:
    driver = fresh()
    assert (driver.engine.activity, driver.engine.ready) == ("starting", False)
    effects = driver.feed(port.AgentReady("p-1", [], [{"id": "plan"}], {"mode": "agent"}))
    assert effects == [Started(1)]
    assert driver.since(0) == ["meta mode=agent"]
    assert (driver.engine.activity, driver.engine.ready) == ("idle", True)
    assert (driver.engine.provider_session, driver.engine.modes) == ("p-1", [{"id": "plan"}])
    assert driver.effects[0] == port.JournalNote("session", {"providerSessionId": "p-1"})
    assert driver.feed(port.AgentReady("p-2", [], [], {})) == []
    assert driver.engine.provider_session == "p-1"


def test_a_start_that_fails(fresh: Any) -> None:
    driver = fresh()
    driver.ask()
    error = AgentError("no such binary")
    effects = driver.feed(port.StartFailed(error))
    assert effects[-1] == Started(2, error)
    assert driver.since(1) == ["ask perm-1 cancelled call"]
    engine = driver.engine
    assert (engine.activity, engine.err, engine.start_failed) == ("error", "no such binary", True)
    assert not engine.busy
    mark = len(driver.events)
    driver.ready()
    driver.say({"type": "text", "text": "late"})
    driver.feed(AgentExited(DEAD))
    driver.feed(port.StartFailed(DEAD))
    assert driver.since(mark) == []
    assert driver.feed(port.AskRaised("k", "plan", {})) == [
        port.AnswerAsk("k", {"kind": "plan", "outcome": "closing", "by": "close"})
    ]
    assert driver.feed(Close()) == [port.CloseAgent(), Ended()]
    assert engine.activity == "closing"


def test_an_agent_that_exits_while_it_starts(fresh: Any) -> None:
    driver = fresh()
    assert driver.feed(AgentExited(DEAD)) == [Started(0, DEAD)]
    assert driver.engine.start_failed


def test_b08_a_replay_is_marked_and_the_start_ends_with_it(fresh: Any) -> None:
    """What an agent replays is never told as live."""
    driver = fresh()
    replay(driver, "start")
    assert driver.engine.activity == "replaying"
    driver.say({"type": "user", "text": "before"})
    driver.say({"type": "text", "text": "answer"})
    driver.say({"type": "subagent", "subagent": {"id": "a", "status": "running"}})
    driver.ready()
    assert not driver.engine.ready
    assert driver.sent(Started) == []
    replay(driver, "end")
    assert driver.since(0) == [
        "replay", "user replayed", "text replayed", "subagent replayed",
        "meta mode=agent model=grok replayed", "replay",
    ]  # fmt: skip
    assert driver.sent(Started) == [Started(6)]
    assert not driver.engine.busy
    driver.say({"type": "text", "text": "live"})
    assert driver.since(6) == ["text"]


def test_a_replays_end_drains(session: Any) -> None:
    session.ok("session.queue.add", text="waits")
    session.foreign(True)
    session.prompt("waits too")
    replay(session, "start")
    session.foreign(False)
    assert session.engine.turn == ""
    replay(session, "end")
    assert session.engine.turn == "turn-1"


# ---- the end ----


def test_the_closing_order(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    session.prompt("now", mode="send_now")
    session.ask(key=1)
    session.ask("plan", {"name": "p"}, key=2)
    mark = len(session.events)
    effects = session.feed(Close())
    assert session.since(mark) == [
        "turn turn-1 ended stopReason=closing synthetic=True pending=1 <c-1/1>",
        "meta sendNow={} reason=closing <c-1/3>",
        "ask perm-1 closing close",
        "ask plan-1 closing close",
    ]
    assert [type(effect).__name__ for effect in effects] == [
        "AnswerAsk", "AnswerAsk", "CloseAgent", "Ended",
    ]  # fmt: skip
    assert session.engine.last_turn["outcome"] == "cancelled"
    assert (session.engine.activity, session.engine.closed) == ("closing", True)
    assert len(session.engine.rows) == 1, "rows stay"


def test_an_idle_session_ends_without_a_record(session: Any) -> None:
    mark = len(session.events)
    assert session.feed(Close()) == [port.CloseAgent(), Ended()]
    assert session.since(mark) == []
    assert session.feed(Close()) == []


def test_nothing_is_committed_after_the_end(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    session.command("session.setTitle", title="t")
    session.command("session.set", setting={"kind": "mode", "value": "plan"})
    session.feed(Close())
    session.log.close()
    session.say({"type": "text", "text": "late"})
    session.foreign(False)
    session.feed(port.PromptEnded("turn-1", "end_turn"))
    session.feed(port.SettingReturned(2, "plan", {"mode": "plan"}))
    session.feed(port.TitleWritten(1, "disk full"))
    session.feed(port.TitleWritten(None, "disk full"))
    session.feed(port.TimerFired("recheck"))
    session.feed(port.Fence(True))
    session.feed(port.Fence(False))
    session.feed(port.AgentExited(DEAD))
    session.feed(port.StartFailed(DEAD))
    session.feed(port.AskWithdrawn("k"))
    assert session.feed(port.AskRaised("k", "permission", {}))[0].ending["outcome"] == "closing"


def test_what_is_owed_is_answered_before_the_end(session: Any) -> None:
    session.prompt("one")
    tokens = [
        session.command("session.cancel"),
        session.command("session.prompt", text="x", mode="interject"),
        session.command("session.setTitle", title="t"),
        session.command("session.set", setting={"kind": "mode", "value": "plan"}),
        session.command("session.set", setting={"kind": "mode", "value": "ask"}),
    ]
    session.feed(Close())
    assert tokens[0].answer == {"outcome": "settled", "turn": "turn-1", "reported": False}
    assert [token.answer.reason for token in tokens[1:]] == [
        "command_aborted", "command_aborted", "set_outcome_unknown", "not_run",
    ]  # fmt: skip


def test_a_turn_that_was_over_ends_as_it_did(session: Any) -> None:
    session.prompt("one")
    session.command("session.cancel")
    session.end(stop="cancelled")
    mark = len(session.events)
    session.feed(Close())
    assert session.since(mark) == ["turn turn-1 ended stopReason=cancelled <c-1/1>"]


def test_an_agent_that_dies_in_mid_turn(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    cancel = session.command("session.cancel")
    session.ask()
    mark = len(session.events)
    effects = session.feed(AgentExited(DEAD))
    assert session.since(mark) == [
        "ask perm-1 turn_ended turn",
        f"error {DEAD.kind} {DEAD.message}",
        "queue removed q-1 0",
        f"turn turn-1 ended errClass={DEAD.kind} <c-1/1>",
    ]
    assert effects[-2:] == [port.CloseAgent(), Ended()]
    assert cancel.answer["outcome"] == "settled"
    assert session.engine.err == DEAD.message
    assert session.engine.last_turn == {
        "outcome": "failed", "err": DEAD.message, "endedAt": "2026-01-01T00:00:00Z",
        "turnId": "turn-1",
    }  # fmt: skip
    assert not session.engine.start_failed


def test_an_agent_that_dies_after_its_turn_failed_of_it(session: Any) -> None:
    session.prompt("one")
    session.fail("closed", "the connection closed")
    mark = len(session.events)
    session.feed(AgentExited(DEAD))
    assert session.since(mark) == [f"error {DEAD.kind} {DEAD.message}"]
    assert session.engine.closed


def test_an_agent_that_dies_while_nothing_runs(session: Any) -> None:
    mark = len(session.events)
    session.ok("session.queue.add", text="stays")
    assert session.feed(AgentExited(DEAD)) == [port.CloseAgent(), Ended()]
    assert session.since(mark + 1) == [f"error {DEAD.kind} {DEAD.message}"]
    assert (session.engine.activity, session.engine.err) == ("closing", DEAD.message)


# ---- what the row says ----


def minute(session: Any) -> float:
    return (session.engine.since - session.engine._born) / 60e9


def test_since(session: Any) -> None:
    session.minutes(1)
    assert minute(session) == 0
    session.prompt()
    session.minutes(1)
    session.say({"type": "tool", "tool": {"id": "t"}})
    session.prompt("two")
    assert minute(session) == 1
    session.minutes(1)
    ask = session.ask()
    session.minutes(1)
    session.ask(key=2)
    assert minute(session) == 3, "needs you since its first ask"
    for held in (ask, "perm-2"):
        session.ok("asks.answer", askId=held, answer={"optionId": "allow"})
    assert minute(session) == 4, "working again since the answer"
    session.minutes(1)
    session.end()
    assert session.engine.turn == "turn-2"
    assert minute(session) == 4, "a successor in the same settlement keeps it"
    session.minutes(1)
    session.end()
    assert minute(session) == 6
    session.minutes(1)
    session.foreign(True)
    session.minutes(1)
    assert minute(session) == 7
    session.foreign(False)
    assert minute(session) == 8
    session.minutes(1)
    session.prompt()
    session.minutes(1)
    session.fail()
    session.minutes(1)
    assert minute(session) == 10
    session.foreign(True)
    assert minute(session) == 11, "a foreign turn runs over the failure"
    session.foreign(False)
    session.minutes(1)
    session.feed(Close())
    assert minute(session) == 12


def test_since_of_a_start(fresh: Any) -> None:
    driver = fresh()
    driver.minutes(1)
    replay(driver, "start")
    assert minute(driver) == 0
    driver.ready()
    driver.minutes(1)
    replay(driver, "end")
    driver.minutes(1)
    assert minute(driver) == 2
    failed = fresh()
    failed.minutes(3)
    failed.feed(port.StartFailed(DEAD))
    failed.minutes(1)
    assert minute(failed) == 3


def test_a_turn_of_the_agents_own_ends_what_a_failed_one_left(session: Any) -> None:
    session.minutes(1)
    session.prompt()
    session.fail()
    session.foreign(True)
    session.minutes(1)
    session.foreign(False)
    session.minutes(1)
    assert session.engine.last_turn["outcome"] == "done"
    assert (session.engine.activity, minute(session)) == ("error", 2), "idle since that turn's end"


@pytest.mark.parametrize(
    ("begin", "over"),
    [
        (lambda s: s.prompt(), lambda s: s.end()),
        (lambda s: s.foreign(True), lambda s: s.foreign(False)),
        (lambda s: s.ask(key="k"), lambda s: s.feed(port.AskWithdrawn("k"))),
        (lambda s: s.ok("session.queue.add", text="x"), lambda s: s.ok("session.queue.clear")),
        (lambda s: s.command("session.set", setting={"kind": "mode", "value": "x"}),
         lambda s: s.feed(port.SettingReturned(s.sent(port.SendSetting)[0].token, "x"))),
        (lambda s: s.command("session.setTitle", title="t"),
         lambda s: s.feed(port.TitleWritten(s.sent(port.WriteTitle)[0].token))),
        (lambda s: s.say({"type": "subagent", "subagent": {"id": "a", "status": "running"}}),
         lambda s: s.say({"type": "subagent", "subagent": {"id": "a", "status": "failed"}})),
        (lambda s: replay(s, "start"), lambda s: replay(s, "end")),
    ],
)  # fmt: skip
def test_what_keeps_a_host_from_its_idle_exit(session: Any, begin: Any, over: Any) -> None:
    assert not session.engine.busy
    begin(session)
    assert session.engine.busy
    over(session)
    assert not session.engine.busy


def test_a_starting_and_a_closing_session_are_busy(fresh: Any) -> None:
    driver = fresh()
    assert driver.engine.busy
    driver.ready()
    driver.feed(Close())
    assert driver.engine.busy


def test_the_count_of_turns(session: Any) -> None:
    session.prompt()
    session.end()
    session.foreign(True)
    session.foreign(False)
    assert session.engine.turn_count == 2


def test_the_journal_hears_of_prompts(session: Any) -> None:
    session.prompt("hi")
    session.clock.advance(1_500_000_000)
    session.command("session.prompt", text="and", mode="interject")
    session.fail("rpc", "boom")
    notes = [note for note in session.sent(port.JournalNote) if note.kind.startswith("prompt")]
    assert [tuple(note.fields.values()) for note in notes] == [
        ("prompt-1", "hi", "prompt"),
        ("interject-1", "and", "interject"),
        ("prompt-1", "rpc", "boom", 1500),
    ]


def test_plain_events_pass_as_they_are(session: Any) -> None:
    event = {"type": "text", "text": "hi"}
    assert session.say(event) == []
    assert session.events[-1] is event
    assert session.say({"type": "of a later build"}) == []
    assert session.since(2) == ["of a later build"]


def test_the_engine_brings_no_loop_and_little_else() -> None:
    heavy = "gevent ujson dataclasses inspect uuid hashlib typing_extensions"
    code = f"""import sys, craze.engine.engine
found = [name for name in {heavy.split()} if name in sys.modules]
assert not found, found"""
    subprocess.run([sys.executable, "-c", code], check=True)
