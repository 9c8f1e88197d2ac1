"""Asks: opened once, ended once; what fits them; who ends them (codecs 5.7, tables 9)."""

from typing import Any

import pytest

from craze.engine import port
from craze.wire.limits import ASKS_KEPT

QUESTION = {
    "title": "Setup",
    "questions": [
        {"id": "q1", "prompt": "Which?", "options": [{"id": "a", "label": "A"}, {"id": "b"}]},
        {"id": "q2", "prompt": "Many?", "options": [{"id": "x"}, {"id": "y"}],
         "allowMultiple": True},
        {"id": "q3", "prompt": "Nothing"},
    ],
}  # fmt: skip
PLAN = {"name": "Big", "plan": "# do it"}


def answer(session: Any, ask: str, **given: Any) -> Any:
    return session.command("asks.answer", askId=ask, answer=given).answer


def test_a_permission_answered(session: Any) -> None:
    session.prompt()
    session.minutes(1)
    ask = session.ask()
    assert ask == "perm-1"
    record = session.engine.asks.get(ask)
    assert (record.status, record.outcome, record.label) == ("open", "", "permission Shell")
    session.minutes(1)
    assert answer(session, ask, optionId="deny") == {}
    assert session.since(2) == ["permission perm-1", "ask perm-1 answered client <c-1/2>"]
    ending = session.events[-1]["ask"]
    assert ending == {
        "id": "perm-1", "kind": "permission", "outcome": "answered", "by": "client",
        "optionId": "deny", "label": "Deny",
    }  # fmt: skip
    assert session.sent(port.AnswerAsk) == [port.AnswerAsk("k", ending)]
    record = session.engine.asks.get(ask)
    assert (record.status, record.outcome, record.by) == ("resolved", "answered", "client")
    assert record.answer == {"optionId": "deny"}
    assert record.resolved_at - record.opened_at == 60 * 10**9
    assert session.engine.asks.open == []


def test_b18_a_late_answer_is_refused_and_harms_nothing(session: Any) -> None:
    """Answered twice, after a cancel, after the turn's end, by two clients in one millisecond."""
    other = session.engine.mint_client()
    session.prompt()
    asks = [session.ask(key=n) for n in range(4)]
    first = session.command("asks.answer", askId=asks[0], answer={"optionId": "allow"})
    second = session.command(
        "asks.answer", client=other, id="1", askId=asks[0], answer={"optionId": "deny"}
    )
    assert first.answer == {}
    assert (second.answer.code, second.answer.message) == (
        "already_resolved", "agent: that ask is already resolved: perm-1",
    )  # fmt: skip
    session.feed(port.AskWithdrawn(1))
    assert answer(session, asks[1], optionId="allow").reason == "already_resolved"
    session.command("session.cancel")
    assert answer(session, asks[2], optionId="allow").reason == "already_resolved"
    session.feed(port.CancelReturned(session.cancels()[0]))
    session.end(stop="cancelled")
    assert answer(session, asks[3], cancel=True).reason == "already_resolved"
    endings = [event["ask"] for event in session.events if event["type"] == "ask"]
    assert [ending["id"] for ending in endings] == ["perm-1", "perm-2", "perm-3", "perm-4"]
    assert [effect.key for effect in session.sent(port.AnswerAsk)] == [0, 2, 3]


def test_b17_an_ask_outlives_its_clients(session: Any) -> None:
    session.prompt()
    ask = session.ask()
    session.engine.release_client(session.client)
    session.minutes(60 * 24)
    assert session.engine.busy
    other = session.engine.mint_client()
    token = session.command("asks.answer", client=other, askId=ask, answer={"optionId": "allow"})
    assert token.answer == {}


def test_b16_an_ask_and_a_turns_end_are_in_the_fold(session: Any) -> None:
    session.prompt()
    session.ask()
    assert [ask.id for ask in session.model.asks.values()] == ["perm-1"]
    session.end()
    assert session.model.turn.id == ""
    assert not session.model.asks


def test_an_invalid_answer_leaves_the_ask_open(session: Any) -> None:
    ask = session.ask()
    mark = len(session.events)
    refused = answer(session, ask, optionId="bogus")
    assert (refused.code, refused.reason) == ("bad_request", "bad_answer")
    assert refused.message == (
        'agent: that answer does not fit the ask: "bogus" is not an option this permission offered'
    )
    assert session.since(mark) == []
    assert session.engine.asks.get(ask).status == "open"
    assert answer(session, ask, optionId="allow") == {}


def test_an_ask_that_never_was(session: Any) -> None:
    refused = answer(session, "perm-1", optionId="x")
    assert (refused.code, refused.message) == ("unknown_ask", "agent: no such ask: perm-1")


_PERMISSION = "a permission takes an option id or an explicit cancel"
_QUESTION = "a question takes its answers or a skip"
_PLAN = "a plan takes an accept or a reject"


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        ("permission", {}, _PERMISSION),
        ("permission", {"optionId": ""}, _PERMISSION),
        ("permission", {"cancel": False}, _PERMISSION),
        ("permission", {"accept": True}, _PERMISSION),
        ("permission", {"optionId": "allow", "skip": True}, _PERMISSION),
        ("permission", {"optionId": "allow", "answers": {}}, _PERMISSION),
        ("permission", {"optionId": "a", "cancel": True}, "a cancelled permission names no option"),
        ("permission", {"optionId": "Allow"},
         '"Allow" is not an option this permission offered'),
        ("question", {}, _QUESTION),
        ("question", {"skip": False}, _QUESTION),
        ("question", {"answers": {}}, _QUESTION),
        ("question", {"answers": {"q1": ["a"]}, "reject": True}, _QUESTION),
        ("question", {"optionId": "a"}, _QUESTION),
        ("question", {"answers": {"q1": ["a"]}, "skip": True},
         "a skipped question carries no answers"),
        ("question", {"answers": {"q9": ["a"]}}, '"q9" is not a question this ask asked'),
        ("question", {"answers": {"q1": ["x"]}},
         '"x" is not an option question "q1" offered'),
        ("question", {"answers": {"q3": [""]}}, '"" is not an option question "q3" offered'),
        ("question", {"answers": {"q1": ["a", "b"]}}, 'question "q1" takes one option'),
        ("plan", {}, _PLAN),
        ("plan", {"accept": False, "reject": False}, _PLAN),
        ("plan", {"accept": True, "cancel": True}, _PLAN),
        ("plan", {"accept": True, "reject": True},
         "a plan takes exactly one of accept and reject"),
    ],
)  # fmt: skip
def test_an_answer_that_does_not_fit(session: Any, kind: str, given: Any, text: str) -> None:
    bodies = {"permission": None, "question": QUESTION, "plan": PLAN}
    ask = session.ask(kind, bodies[kind])
    refused = answer(session, ask, **given)
    assert refused.reason == "bad_answer"
    assert refused.message == f"agent: that answer does not fit the ask: {text}"
    assert session.engine.asks.get(ask).status == "open"


@pytest.mark.parametrize(
    ("kind", "given", "ending"),
    [
        ("permission", {"cancel": True}, {"outcome": "cancelled", "by": "client"}),
        ("permission", {"optionId": "allow", "answers": None, "skip": False},
         {"outcome": "answered", "by": "client", "optionId": "allow", "label": "Allow"}),
        ("question", {"skip": True}, {"outcome": "answered", "by": "client", "skip": True}),
        ("question", {"answers": {"q2": ["y", "x"], "q1": None}},
         {"outcome": "answered", "by": "client", "answers": {"q1": None, "q2": ["y", "x"]}}),
        ("question", {"answers": {"q3": [], "q1": ["b"]}},
         {"outcome": "answered", "by": "client", "answers": {"q1": ["b"], "q3": []}}),
        ("plan", {"accept": True}, {"outcome": "answered", "by": "client", "accepted": True}),
        ("plan", {"reject": True}, {"outcome": "answered", "by": "client"}),
    ],
)  # fmt: skip
def test_an_answer_that_fits(session: Any, kind: str, given: Any, ending: Any) -> None:
    bodies = {"permission": None, "question": QUESTION, "plan": PLAN}
    ask = session.ask(kind, bodies[kind])
    assert answer(session, ask, **given) == {}
    told = session.events[-1]["ask"]
    assert told == {"id": ask, "kind": kind, **ending}
    assert list(told.get("answers", {})) == sorted(told.get("answers", {}))


def test_a_question_that_asks_nothing_takes_no_answers(session: Any) -> None:
    ask = session.ask("question", {"title": "Nothing"})
    assert answer(session, ask, answers={}) == {}
    assert "answers" not in session.events[-1]["ask"]


def test_labels_and_ids_by_kind(session: Any) -> None:
    for kind, body in (("question", QUESTION), ("plan", PLAN), ("plan", {"plan": "x"})):
        session.ask(kind, body)
    session.ask()
    session.ask(id="perm-7")
    session.ask()
    assert [(ask.id, ask.label) for ask in session.engine.asks.open] == [
        ("ask-1", "question"), ("plan-1", "plan Big"), ("plan-2", "plan plan"),
        ("perm-1", "permission Shell"), ("perm-7", "permission Shell"),
        ("perm-8", "permission Shell"),
    ]  # fmt: skip


def test_an_id_of_its_own_is_known_for_good(session: Any) -> None:
    session.ask(id="custom")
    session.ask(id="custom", key="again")
    assert session.since(1) == [
        "permission custom", "ask custom cancelled call", "permission custom",
    ]  # fmt: skip
    answer(session, "custom", cancel=True)
    assert answer(session, "custom", cancel=True).reason == "already_resolved"


def test_a_cancel_ends_every_open_ask_in_order(session: Any) -> None:
    session.ask(key=1)
    session.prompt()
    session.ask("plan", PLAN, key=2)
    mark = len(session.events)
    session.command("session.cancel")
    assert session.since(mark) == [
        "ask perm-1 cancelled cancel <c-1/2>", "ask plan-1 cancelled cancel <c-1/2>",
    ]  # fmt: skip
    kinds = [type(effect).__name__ for effect in session.effects[-3:]]
    assert kinds == ["AnswerAsk", "AnswerAsk", "SendCancel"]


def test_a_turns_end_ends_what_was_asked_in_it(session: Any) -> None:
    outside = session.ask(key=1)
    session.prompt()
    session.ask(key=2)
    mark = len(session.events)
    session.end()
    assert session.since(mark) == [
        "ask perm-2 turn_ended turn",
        "done end_turn",
        "turn turn-1 ended stopReason=end_turn <c-1/1>",
    ]
    assert [ask.id for ask in session.engine.asks.open] == [outside]
    session.foreign(True)
    session.ask(key=3)
    session.foreign(False)
    assert session.since(-2 + len(session.events)) == [
        "ask perm-3 turn_ended turn", "foreign_turn",
    ]  # fmt: skip


def test_an_ask_withdrawn(session: Any) -> None:
    session.ask(key="x")
    session.feed(port.AskWithdrawn("y"))
    assert len(session.engine.asks.open) == 1
    mark = len(session.events)
    assert session.feed(port.AskWithdrawn("x")) == []
    assert session.since(mark) == ["ask perm-1 cancelled call"]


def test_ended_asks_are_kept_to_a_bound(session: Any) -> None:
    for _ in range(ASKS_KEPT + 1):
        answer(session, session.ask(), optionId="allow")
    assert session.engine.asks.get("perm-1") is None
    refused = answer(session, "perm-1", optionId="allow")
    assert (refused.code, refused.message) == (
        "already_resolved",
        "agent: that ask is already resolved: perm-1, whose record has been evicted",
    )
    assert session.engine.asks.get("perm-2").status == "resolved"
    assert answer(session, f"perm-{ASKS_KEPT + 2}", cancel=True).reason == "unknown_ask"


# ---- policy ----


def test_a_forced_permission_is_allowed_and_never_shown(fresh: Any) -> None:
    driver = fresh(force=True).ready()
    options = [
        {"optionId": "1", "name": "Once", "kind": "allow_once"},
        {"optionId": "2", "name": "Always", "kind": "allow_always"},
        {"optionId": "3", "name": "No", "kind": "reject_once"},
    ]
    for offered in (options, options[:1], options[2:], []):
        driver.ask(body={"tool": "Shell", "options": offered})
    endings = [event["ask"] for event in driver.events[1:]]
    assert [(e["id"], e["outcome"], e["by"], e.get("optionId")) for e in endings] == [
        ("perm-x1", "automatic", "policy", "2"),
        ("perm-x2", "automatic", "policy", "1"),
        ("perm-x3", "cancelled", "policy", None),
        ("perm-x4", "cancelled", "policy", None),
    ]
    assert endings[0]["body"] == {
        "permission": {"id": "perm-x1", "tool": "Shell", "options": options}
    }
    assert endings[0]["label"] == "Always"
    assert len(driver.sent(port.AnswerAsk)) == 4
    assert not driver.engine.busy
    assert answer(driver, "perm-x1", optionId="1").reason == "already_resolved"
    driver.ask("question", QUESTION)
    assert driver.engine.asks.open[0].id == "ask-1", "force is about permissions"


def test_where_nobody_is_questions_and_plans_are_taken(fresh: Any) -> None:
    driver = fresh(interactive=False).ready()
    driver.ask("question", QUESTION)
    driver.ask("plan", PLAN)
    driver.ask("question", {"title": "Nothing"})
    assert driver.since(1) == [
        "question ask-1", "ask ask-1 automatic policy", "plan plan-1",
        "ask plan-1 automatic policy", "question ask-2", "ask ask-2 automatic policy",
    ]  # fmt: skip
    answers = {"q1": ["a"], "q2": ["x"], "q3": None}
    assert driver.events[1]["question"]["auto"] is True
    assert driver.events[1]["question"]["answers"] == answers
    assert driver.events[2]["ask"]["answers"] == answers
    assert driver.events[3]["plan"] == {"id": "plan-1", **PLAN, "auto": True, "accepted": True}
    assert driver.events[4]["ask"]["accepted"] is True
    assert "answers" not in driver.events[6]["ask"]
    driver.ask()
    assert [ask.kind for ask in driver.engine.asks.open] == ["permission"]


def test_an_option_without_an_id_is_never_chosen(session: Any) -> None:
    nameless = {"name": "Nameless", "kind": "allow_once"}
    options = [nameless, {"optionId": "allow", "name": "Allow", "kind": "allow_once"}]
    ask = session.ask(body={"tool": "Shell", "options": options})
    refused = session.refused("asks.answer", askId=ask, answer={"optionId": "other"})
    assert refused.reason == "bad_answer"
    assert session.ok("asks.answer", askId=ask, answer={"optionId": "allow"}) == {}
