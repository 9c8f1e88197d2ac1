"""Turns from their start to what follows them (codecs 5.2, 5.4 to 5.6)."""

from typing import Any

from craze.engine import port
from craze.engine.port import AgentError, CancelReturned, PromptEnded, SendPrompt, TimerFired


def test_a_prompt_that_starts(session: Any) -> None:
    token = session.command("session.prompt", text="fix the flaky test", mode="queue")
    assert token.answer == {"turn": "turn-1", "text": "fix the flaky test"}
    assert session.sent(SendPrompt) == [SendPrompt("turn-1", "fix the flaky test")]
    assert session.engine.activity == "working"
    assert session.engine.prompted
    session.say({"type": "text", "text": "done"})
    session.end()
    assert session.since(1) == [
        "turn turn-1 started text=fix the flaky test origin=submit <c-1/1>",
        "text",
        "done end_turn",
        "turn turn-1 ended stopReason=end_turn <c-1/1>",
    ]
    assert (session.engine.activity, session.engine.turn) == ("idle", "")


def test_a_started_turns_events_stand_before_its_prompt_is_sent(session: Any) -> None:
    effects = session.feed(
        port.Command(_Silent(), session.client, "1", "session.prompt",
                     {"text": "hi", "mode": "queue"}, "h")
    )  # fmt: skip
    assert [type(effect).__name__ for effect in effects] == ["SendPrompt", "Reply"]
    assert session.since(1) == ["turn turn-1 started text=hi origin=submit <c-1/1>"]


class _Silent:
    answers: list[Any] = []  # noqa: RUF012


def test_the_queue_drains_in_the_settlement(session: Any) -> None:
    session.prompt("one")
    assert session.prompt("two") == {
        "queued": {"id": "q-1", "text": "two", "queuedAt": "2026-01-01T00:00:00Z"}
    }
    session.prompt("three")
    mark = len(session.events)
    session.end()
    assert session.since(mark) == [
        "done end_turn",
        "queue sent q-1 0",
        "turn turn-1 ended stopReason=end_turn next=turn-2 pending=1 <c-1/1>",
        "turn turn-2 started text=two origin=drain",
    ]
    session.end()
    session.end()
    assert session.since(len(session.events) - 1) == ["turn turn-3 ended stopReason=end_turn"]


def test_a_failed_turn_clears_the_queue_and_the_next_prompt_the_error(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    session.prompt("three")
    mark = len(session.events)
    session.fail("rpc", "boom")
    assert session.since(mark) == [
        "error rpc boom",
        "queue removed q-1 0",
        "queue removed q-2 0",
        "turn turn-1 ended errClass=rpc <c-1/1>",
    ]
    assert session.events[-1]["turn"]["err"] == "boom"
    assert (session.engine.activity, session.engine.err) == ("error", "boom")
    assert session.engine.last_turn["outcome"] == "failed"
    session.ok("session.queue.add", text="waits")
    assert session.engine.activity == "error"
    session.prompt("again")
    assert (session.engine.activity, session.engine.err) == ("working", "")
    session.end()
    assert session.engine.turn == "turn-3", "what was queued follows"


def test_a_direct_prompt_the_agent_refuses(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    mark = len(session.events)
    session.fail("prompt_in_flight", "acp: prompt already in flight")
    assert session.since(mark) == [
        "turn turn-1 ended errClass=prompt_in_flight synthetic=True pending=1 <c-1/1>",
    ]
    assert session.engine.activity == "error"
    assert [row["id"] for row in session.engine.rows] == ["q-1"]


def test_a_prompt_withdrawn_before_it_was_sent(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    cancel = session.command("session.cancel")
    session.fail("prompt_cancelled", "agent: prompt cancelled before it was sent")
    assert session.engine.turn == "turn-1", "no ending while the cancel is on its way"
    mark = len(session.events)
    session.feed(CancelReturned(session.cancels()[0]))
    assert session.since(mark) == [
        "queue sent q-1 0",
        "turn turn-1 ended stopReason=cancelled synthetic=True next=turn-2 <c-1/1>",
        "turn turn-2 started text=two origin=drain",
    ]
    assert cancel.answer == {"outcome": "settled", "turn": "turn-1", "reported": False}


def test_a_row_refused_by_a_foreign_turn_is_put_back(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    session.end()
    row = session.events[-3]["queue"]
    session.minutes(1)
    mark = len(session.events)
    effects = session.fail("foreign_turn", "acp: agent is running a turn of its own")
    assert session.since(mark) == [
        "queue queued q-1 0",
        "turn turn-2 ended errClass=foreign_turn synthetic=True pending=1",
    ]
    assert session.engine.rows == [row]
    assert session.engine.activity == "idle"
    assert effects == [port.Timer("recheck", 0.010)]
    mark = len(session.events)
    session.feed(TimerFired("recheck"))
    assert session.since(mark) == [
        "queue sent q-1 0", "turn turn-3 started text=two origin=drain",
    ]  # fmt: skip


def test_the_recheck_waits_for_the_foreign_turn_and_its_end_drains(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    session.end()
    session.fail("foreign_turn")
    session.foreign(True)
    mark = len(session.events)
    session.feed(TimerFired("recheck"))
    assert session.since(mark) == []
    session.foreign(False)
    assert session.since(mark) == [
        "foreign_turn", "queue sent q-1 0", "turn turn-3 started text=two origin=drain",
    ]  # fmt: skip


def test_a_row_given_by_a_prompt_is_put_back_with_its_cause(session: Any) -> None:
    session.ok("session.queue.add", text="a row")
    assert session.prompt("", fromRow="q-1") == {"turn": "turn-1", "text": "a row"}
    mark = len(session.events)
    session.fail("foreign_turn")
    assert session.since(mark) == [
        "queue queued q-1 0 <c-1/2>",
        "turn turn-1 ended errClass=foreign_turn synthetic=True pending=1 <c-1/2>",
    ]


def test_a_row_refused_after_its_cancel_is_cancelled(session: Any) -> None:
    session.ok("session.queue.add", text="a row")
    session.prompt("", fromRow="q-1")
    session.command("session.cancel")
    session.fail("foreign_turn")
    session.feed(CancelReturned(session.cancels()[0]))
    assert session.since(-1 + len(session.events)) == [
        "turn turn-1 ended stopReason=cancelled synthetic=True <c-1/2>",
    ]
    assert session.engine.rows == []


def test_a_prompt_of_a_row(session: Any) -> None:
    session.ok("session.queue.add", text="first")
    session.ok("session.queue.add", text="second")
    mark = len(session.events)
    assert session.prompt("ignored", fromRow="q-2") == {"turn": "turn-1", "text": "second"}
    assert session.since(mark) == [
        "queue sent q-2 1 <c-1/3>", "turn turn-1 started text=second origin=submit <c-1/3>",
    ]  # fmt: skip
    mark = len(session.events)
    answer = session.prompt("", fromRow="q-1")
    assert answer["queued"] == session.engine.rows[0]
    assert session.since(mark) == []
    refused = session.refused("session.prompt", mode="queue", fromRow="q-2")
    assert (refused.reason, refused.message) == (
        "unknown_row", "engine: no such queued message: q-2",
    )  # fmt: skip


def test_late_and_doubled_answers_of_the_agent_change_nothing(session: Any) -> None:
    session.prompt("one")
    session.command("session.cancel")
    session.end()
    session.end()
    session.feed(CancelReturned(session.cancels()[0]))
    mark = len(session.events)
    session.feed(PromptEnded("turn-1", "end_turn"))
    session.feed(CancelReturned(session.cancels()[0]))
    session.feed(CancelReturned(99, AgentError("late")))
    session.feed(TimerFired("send_now 1"))
    session.feed(TimerFired("of somebody else"))
    assert session.since(mark) == []


# ---- cancel ----


def test_a_cancel_the_agent_confirms(session: Any) -> None:
    session.prompt("one")
    token = session.command("session.cancel", turnId="turn-1")
    assert token.answers == []
    session.feed(CancelReturned(session.cancels()[0]))
    assert token.answer == {"outcome": "requested", "turn": "turn-1", "reported": False}
    mark = len(session.events)
    session.end(stop="cancelled")
    assert session.since(mark) == [
        "done cancelled", "turn turn-1 ended stopReason=cancelled <c-1/1>",
    ]  # fmt: skip
    assert session.engine.cancelled
    assert session.engine.last_turn["outcome"] == "cancelled"
    session.foreign(True)
    session.foreign(False)
    assert session.engine.cancelled, "craze's last turn still was"
    session.prompt("two")
    assert not session.engine.cancelled


def test_no_turn_ends_or_starts_while_any_cancel_is_on_its_way(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    session.command("session.cancel")
    session.command("session.cancel")
    session.end(stop="cancelled")
    first, second = session.cancels()
    session.feed(CancelReturned(second))
    assert session.engine.turn == "turn-1"
    session.feed(CancelReturned(first))
    assert session.engine.turn == "turn-2"


def test_a_cancel_that_fails(session: Any) -> None:
    session.prompt("one")
    token = session.command("session.cancel")
    session.feed(CancelReturned(session.cancels()[0], AgentError("broken pipe")))
    assert (token.answer.code, token.answer.message) == ("failed", "broken pipe")
    assert token.answer.result == {"outcome": "unknown", "turn": "turn-1", "reported": False}
    assert session.engine.turn == "turn-1"


def test_a_cancel_of_unknown_outcome(session: Any) -> None:
    session.prompt("one")
    given_up = session.command("session.cancel")
    late = session.command("session.cancel")
    session.feed(CancelReturned(session.cancels()[0], AgentError("x"), possibly_written=True))
    session.feed(port.CommandExpired(late))
    unknown = {"outcome": "unknown", "turn": "turn-1", "reported": False}
    assert given_up.answer == late.answer == unknown
    session.end()
    assert session.engine.turn == "", "a cancel that nobody waits for holds nothing up"


def test_a_cancel_without_a_turn_of_crazes(session: Any) -> None:
    session.foreign(True)
    token = session.command("session.cancel")
    session.prompt("waits")
    session.foreign(False)
    assert session.engine.turn == "", "the cancel is still on its way"
    session.feed(CancelReturned(session.cancels()[0]))
    assert token.answer == {"outcome": "settled", "turn": "", "reported": False}
    assert session.engine.turn == "turn-1"


def test_stale_turn(session: Any) -> None:
    session.prompt("one")
    refused = session.refused("session.cancel", turnId="turn-2")
    assert (refused.code, refused.message) == (
        "stale_turn", "engine: that turn is no longer current",
    )  # fmt: skip


# ---- send now ----


def test_an_armed_send_now_fires_at_the_settlement_ahead_of_the_queue(session: Any) -> None:
    session.prompt("one")
    session.prompt("queued")
    mark = len(session.events)
    assert session.prompt("now", mode="send_now") == {"armed": True}
    assert session.since(mark) == [
        "meta sendNow={'armed': True, 'text': 'now', 'turn': 'turn-1'} <c-1/3>"
    ]
    assert session.engine.send_now == {
        "text": "now", "fromRow": "", "turn": "turn-1", "cause": "c-1/3",
    }  # fmt: skip
    token = session.cancels()[0]
    assert session.sent(port.Timer) == [port.Timer(f"send_now {token}", 2.0)]
    session.feed(CancelReturned(token))
    mark = len(session.events)
    session.end(stop="cancelled")
    assert session.since(mark) == [
        "done cancelled",
        "turn turn-1 ended stopReason=cancelled next=turn-2 pending=1 <c-1/1>",
        "turn turn-2 started text=now origin=send_now <c-1/3>",
    ]
    assert session.engine.send_now is None
    assert "sendNow" not in session.model.settings or not session.model.settings["sendNow"]
    session.feed(TimerFired(f"send_now {token}"))
    session.end()
    assert session.engine.turn == "turn-3"


def test_an_armed_row_is_sent_as_it_then_stands(session: Any) -> None:
    session.prompt("one")
    session.prompt("first")
    session.prompt("second")
    session.prompt("", mode="send_now", fromRow="q-2")
    session.ok("session.queue.edit", rowId="q-2", text="second, edited")
    session.feed(CancelReturned(session.cancels()[0]))
    mark = len(session.events)
    session.end()
    assert session.since(mark) == [
        "done end_turn",
        "queue sent q-2 1 <c-1/4>",
        "turn turn-1 ended stopReason=end_turn next=turn-2 pending=1 <c-1/1>",
        "turn turn-2 started text=second, edited origin=send_now <c-1/4>",
    ]


def test_an_armed_row_that_is_gone(session: Any) -> None:
    session.prompt("one")
    session.prompt("first")
    session.prompt("second")
    session.prompt("", mode="send_now", fromRow="q-2")
    session.ok("session.queue.remove", rowId="q-2")
    session.feed(CancelReturned(session.cancels()[0]))
    mark = len(session.events)
    session.end()
    assert session.since(mark) == [
        "done end_turn",
        "queue sent q-1 0",
        "turn turn-1 ended stopReason=end_turn next=turn-2 <c-1/1>",
        "meta sendNow={} reason=row_gone <c-1/4>",
        "turn turn-2 started text=first origin=drain",
    ]


def test_arming_a_row_that_is_not_there(session: Any) -> None:
    session.prompt("one")
    mark = len(session.events)
    assert session.refused("session.prompt", mode="send_now", fromRow="q-1").reason == "unknown_row"
    assert session.since(mark) == []
    assert session.cancels() == []


def test_a_failed_turn_disarms(session: Any) -> None:
    session.prompt("one")
    session.prompt("now", mode="send_now")
    session.feed(CancelReturned(session.cancels()[0]))
    mark = len(session.events)
    session.fail()
    assert session.since(mark) == [
        "error rpc boom",
        "turn turn-1 ended errClass=rpc <c-1/1>",
        "meta sendNow={} reason=turn_failed <c-1/2>",
    ]
    assert session.engine.turn == ""


def test_a_withdrawn_send_now(session: Any) -> None:
    session.prompt("one")
    session.prompt("now", mode="send_now")
    mark = len(session.events)
    assert session.ok("session.disarm") == {}
    assert session.since(mark) == ["meta sendNow={} reason=withdrawn <c-1/3>"]
    session.feed(CancelReturned(session.cancels()[0], AgentError("late")))
    session.end()
    assert session.engine.turn == ""


def test_an_armed_sends_cancel_that_fails(session: Any) -> None:
    session.prompt("one")
    session.prompt("now", mode="send_now")
    mark = len(session.events)
    session.feed(CancelReturned(session.cancels()[0], AgentError("broken pipe")))
    assert session.since(mark) == [
        "meta sendNow={} reason=cancel_failed detail=broken pipe <c-1/2>"
    ]


def test_an_armed_sends_cancel_that_takes_too_long(session: Any) -> None:
    session.prompt("one")
    session.prompt("now", mode="send_now")
    mark = len(session.events)
    timer = session.sent(port.Timer)[0]
    session.feed(TimerFired(timer.name))
    assert session.since(mark) == [
        "meta sendNow={} reason=cancel_failed detail=context deadline exceeded <c-1/2>"
    ]
    session.end()
    assert session.engine.turn == "", "it holds nothing up any more"


def test_an_armed_send_fires_when_its_turn_is_over_though_the_cancel_is_late(session: Any) -> None:
    session.prompt("one")
    session.prompt("now", mode="send_now")
    session.end(stop="cancelled")
    session.feed(TimerFired(session.sent(port.Timer)[0].name))
    assert session.since(len(session.events) - 1) == [
        "turn turn-2 started text=now origin=send_now <c-1/2>"
    ]


def test_an_armed_send_held_back_by_a_foreign_turn_fires_at_its_end(session: Any) -> None:
    session.prompt("one")
    session.prompt("now", mode="send_now")
    session.foreign(True)
    session.feed(CancelReturned(session.cancels()[0]))
    session.end(stop="cancelled")
    assert session.refused("session.prompt", text="x", mode="send_now").reason == (
        "already_submitted"
    )
    session.foreign(False)
    assert session.engine.turn == "turn-2"
    assert session.events[-1]["turn"]["origin"] == "send_now"


def test_a_second_send_now(session: Any) -> None:
    session.prompt("one")
    session.prompt("now", mode="send_now")
    refused = session.refused("session.prompt", text="x", mode="send_now")
    assert (refused.code, refused.message) == (
        "already_submitted", "engine: a send-now is already pending",
    )  # fmt: skip


# ---- interject, sub-agents ----


def test_an_interjection(session: Any) -> None:
    session.prompt("one")
    tokens = [session.command("session.prompt", text="x", mode="interject") for _ in range(4)]
    sent = session.sent(port.SendInterject)
    assert [effect.text for effect in sent] == ["x"] * 4
    session.feed(port.InterjectReturned(sent[0].token))
    session.feed(port.InterjectReturned(sent[1].token, refused="not_in_turn"))
    session.feed(port.InterjectReturned(sent[2].token, AgentError("no")))
    session.feed(port.CommandExpired(tokens[3]))
    session.feed(port.InterjectReturned(sent[3].token))
    assert tokens[0].answer == {}
    assert [(t.answer.reason, t.answer.message) for t in tokens[1:]] == [
        ("not_in_turn", "agent: no running turn to interject into"),
        ("failed", "no"),
        ("context", "context deadline exceeded"),
    ]
    assert tokens[3].answer.code == "aborted"


def test_cancelling_a_sub_agent(session: Any) -> None:
    tokens = [session.command("session.subagent.cancel", agentId=f"a{n}") for n in (1, 2)]
    sent = session.sent(port.SendSubagentCancel)
    assert [effect.agent for effect in sent] == ["a1", "a2"]
    session.feed(port.SubagentCancelReturned(sent[0].token))
    session.feed(port.SubagentCancelReturned(sent[1].token, refused="unknown_subagent"))
    assert tokens[0].answer == {}
    assert (tokens[1].answer.code, tokens[1].answer.message) == (
        "unknown_subagent", "agent: no such sub-agent",
    )  # fmt: skip
