"""Asks: which are open, how each is shown, and what an answer to one is."""

import json
from typing import Any

import pytest

from craze_shed.contract import answers, approvals, errors
from craze_shed.contract.approvals import LaneApproval, LaneApprovalOption, LaneQuestion
from craze_shed.craze import asks
from craze_shed.craze.asks import MOST, Ask, Book

HOST = "0123456789ab"
CARDS = {"askCards": True, "planCards": True}
MOMENT, MOMENT_MS = "2026-01-01T00:00:00Z", 1_767_225_600_000
YES = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
ALWAYS = {"optionId": "a", "name": "Always", "kind": "allow_always"}
NO = {"optionId": "n", "name": "No", "kind": "reject_once"}
NEVER = {"optionId": "x", "name": "Never", "kind": "reject_always"}


def permission(id: str = "perm-1", *options: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "tool": "Run `ls`", "options": list(options or (YES, NO)), **more}


def question(id: str = "ask-1", **more: Any) -> dict[str, Any]:
    items = [
        {"id": "lang", "prompt": "Which language?", "allowMultiple": True, "options": [
            {"id": "rs", "label": "Rust", "description": "fast"},
            {"id": "go", "label": "Go", "description": " "},
        ]},
        {"id": "db", "prompt": "Which database?", "options": [
            {"id": "pg", "label": "Postgres"}, {"id": "pg", "label": "Postgres 16"},
            {"id": "l1", "label": "Lite"}, {"id": "l2", "label": "Lite"},
        ]},
        {"id": "none", "prompt": "Anything?"},
    ]  # fmt: skip
    return {"id": id, "title": "Some\nthings", "questions": items, **more}


def plan(id: str = "plan-1", **more: Any) -> dict[str, Any]:
    return {"id": id, "name": "Refactor", "overview": "Split the module", **more}


def record(kind: str, ask: dict[str, Any], /, **more: Any) -> dict[str, Any]:
    return {
        "id": ask["id"], "kind": kind, "status": "open", "body": {kind: ask}, "openedAt": MOMENT,
        **more,
    }  # fmt: skip


def book(**can: bool) -> Book:
    made = Book(HOST)
    made.expose(can or CARDS)
    return made


def read(kind: str, body: Any, **can: bool) -> Ask:
    ask = book(**can).read(kind, body, MOMENT)
    assert ask is not None
    return ask


# ---- how an ask is shown ----


def test_a_permission() -> None:
    odd = {"optionId": "o", "name": "Odd", "kind": " "}
    body = permission("perm-1", YES, odd, {"kind": 5})
    assert read("permission", body).approval == LaneApproval(
        id="perm-1",
        session_id=HOST,
        kind="permission",
        status="pending",
        title="Run `ls`",
        options=(
            LaneApprovalOption("y", "Yes", kind="allow_once"),
            LaneApprovalOption("o", "Odd"),
            LaneApprovalOption("", ""),
        ),
        request_json=json.dumps(body, separators=(",", ":")),
        created_at_unix_ms=MOMENT_MS,
    )


def test_a_question() -> None:
    made = read("question", question()).approval
    assert (made.kind, made.title, made.detail, made.options) == (
        "question", "Some things", None, (),
    )  # fmt: skip
    assert made.questions[0] == LaneQuestion(
        id="lang",
        header="",
        question="Which language?",
        options=(LaneApprovalOption("rs", "Rust", "fast"), LaneApprovalOption("go", "Go")),
        multiple=True,
        custom=False,
    )
    assert [(one.id, one.multiple, len(one.options)) for one in made.questions[1:]] == [
        ("db", False, 4),
        ("none", False, 0),
    ]


def test_a_plan() -> None:
    made = read("plan", plan()).approval
    assert (made.kind, made.title, made.detail) == (
        "plan_approval", "Refactor", "Refactor\nSplit the module",
    )  # fmt: skip
    assert made.options == (
        LaneApprovalOption("accept", "Accept plan", kind="allow_once"),
        LaneApprovalOption("reject", "Reject plan", kind="reject_once"),
    )


@pytest.mark.parametrize(
    ("kind", "body", "title"),
    [
        ("permission", permission(tool=" \n "), "permission"),
        ("permission", permission(tool="a\n\x1b[31mb\x07"), "a b"),
        ("permission", permission(tool=7), "permission"),
        ("question", question(title=""), "Which language?"),
        ("question", {"id": "q"}, "question"),
        ("question", {"id": "q", "questions": [{"prompt": " "}, {"prompt": "second"}]}, "question"),
        ("plan", plan(name=""), "plan"),
    ],
)
def test_titles(kind: str, body: Any, title: str) -> None:
    assert read(kind, body).approval.title == title


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        ({"name": "N", "overview": ""}, "N"),
        ({"name": "", "overview": "O"}, "O"),
        ({"name": "", "overview": ""}, None),
        ({"name": "N\x1b]0;x\x07", "overview": "O\x00"}, "N\nO"),
    ],
)
def test_a_plans_detail(more: dict[str, Any], detail: str | None) -> None:
    assert read("plan", plan(**more)).approval.detail == detail


@pytest.mark.parametrize(
    ("kind", "body", "can"),
    [
        ("permission", permission(id=""), CARDS),
        ("permission", permission(auto=True), CARDS),
        ("question", question(auto=True), CARDS),
        ("question", question(), {"planCards": True}),
        ("plan", plan(auto=True), CARDS),
        ("plan", plan(), {"askCards": True}),
        ("riddle", permission(), CARDS),
        ("permission", None, CARDS),
        ("permission", [], CARDS),
        ("permission", permission(id=5), CARDS),
        ("permission", permission(tool=float("inf")), CARDS),
    ],
)
def test_what_is_not_shown(kind: str, body: Any, can: dict[str, bool]) -> None:
    assert book(**can).read(kind, body, MOMENT) is None


def test_a_permission_is_shown_whatever_the_cards() -> None:
    assert book(other=True).read("permission", permission(), None) is not None


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        (
            "permission",
            permission("p", NO, YES, NEVER, ALWAYS, YES),
            ("deny", "allow", "allow_always"),
        ),
        ("permission", permission("p", {"optionId": "a", "kind": "maybe"}, {}), ()),
        ("permission", permission("p", {"kind": "reject_for_now"}), ("deny",)),
        ("plan", plan(), ("allow", "deny")),
        ("question", question(), ()),
    ],
)
def test_the_words_of_what_may_be_decided(kind: str, body: Any, words: tuple[str, ...]) -> None:
    assert asks.decisions(read(kind, body)) == words


# ---- which are open ----


def test_the_registry_decides_what_is_pending() -> None:
    held = book()
    held.open(read("permission", permission("perm-1")), member=True)
    held.open(read("permission", permission("perm-2")), member=True)
    held.open(read("permission", permission("perm-3")), member=False)
    held.open(read("permission", permission("perm-4")), member=False)
    held.adopt([record("permission", permission(id)) for id in ("perm-2", "perm-3", "perm-5")])
    assert {id: one.status for id, one in held.approvals().items()} == {
        "perm-1": "resolved",
        "perm-2": "pending",
        "perm-3": "pending",  # a snapshot's, which is listed
        "perm-5": "pending",
    }
    assert held.pending == 3


@pytest.mark.parametrize(
    "odd",
    [
        record("permission", permission(), status="resolved"),
        record("permission", permission(), status=None),
        record("permission", permission(), id="perm-2"),
        record("permission", permission(id="")),
        record("permission", permission(), body={"question": question()}),
        record("permission", permission(), body=[]),
        record("permission", permission(), kind="riddle"),
        record("question", question(auto=True)),
        record("question", question(), kind=["question"]),
        {},
    ],
)
def test_a_record_that_is_no_open_ask_of_ours_is_passed_over(odd: Any) -> None:
    held = book()
    held.adopt([odd])
    assert held.approvals() == {}


def test_hidden_kinds_are_no_members() -> None:
    held = book(planCards=True)
    held.adopt([record("question", question()), record("plan", plan())])
    assert list(held.approvals()) == ["plan-1"]


def test_an_ask_keeps_the_time_it_was_first_held_with() -> None:
    held = book()
    held.open(read("permission", permission()), member=False)
    held.adopt([record("permission", permission(tool="now"), openedAt="2026-01-02T00:00:00Z")])
    (one,) = held.approvals().values()
    assert (one.title, one.created_at_unix_ms) == ("now", MOMENT_MS)
    untimed = book()
    ask = untimed.read("permission", permission(), None)
    assert ask is not None
    untimed.open(ask, member=True)
    untimed.adopt([record("permission", permission())])
    assert untimed.approvals()["perm-1"].created_at_unix_ms == MOMENT_MS


def test_approvals_come_in_id_order() -> None:
    held = book()
    held.adopt([record("permission", permission(id)) for id in ("b", "c", "a")])
    assert list(held.approvals()) == ["a", "b", "c"]


def test_an_ask_opened_again_is_pending_again() -> None:
    held = book()
    held.open(read("permission", permission()), member=True)
    ended = held.end("perm-1")
    assert ended is not None and not ended.approval.pending
    held.open(read("permission", permission(tool="again")), member=True)
    assert held.approvals()["perm-1"].pending and held.approvals()["perm-1"].title == "again"
    assert held.end("perm-9") is None


def test_past_the_bound_the_oldest_settled_goes_and_nothing_that_is_pending() -> None:
    held = book()
    for number in range(MOST):
        held.open(read("permission", permission(f"perm-{number:03}")), member=True)
    held.end("perm-007")
    held.end("perm-003")
    for number in range(3):
        held.open(read("permission", permission(f"new-{number}")), member=True)
    kept = held.approvals()
    assert len(kept) == MOST + 1 and "perm-003" not in kept and "perm-007" not in kept
    assert all(one.pending for one in kept.values())
    held.adopt([])
    assert held.pending == 0 and len(held.approvals()) == MOST


def test_every_change_is_counted() -> None:
    held = book()
    counts = [held.changes]
    held.open(read("permission", permission()), member=True)
    counts.append(held.changes)
    held.adopt([])
    counts.append(held.changes)
    held.end("perm-1")
    counts.append(held.changes)
    held.end("nobody")
    assert [*counts, held.changes] == [0, 1, 2, 3, 3]


# ---- what an answered one leaves ----


def test_notes_of_a_question() -> None:
    ask = read("question", question())
    answered = {"answers": {"lang": ["rs", "go", "gone"], "db": ["pg"], "none": None}}
    assert asks.notes(ask, answered) == [
        "? Which language? → Rust, Go",
        "? Which database? → …",
        "? Anything? → nothing",
    ]
    assert asks.notes(ask, {"answers": {"lang": ["gone"], "db": "pg", "none": ["x", 5]}}) == [
        "? Which language? → nothing",
        "? Which database? → nothing",
        "? Anything? → nothing",
    ]
    assert asks.notes(ask, {"answers": 7})[0] == "? Which language? → nothing"


@pytest.mark.parametrize(
    ("more", "title"),
    [
        ({"title": "T"}, "T"),
        ({"title": ""}, "Which language?"),
        ({"title": "", "questions": []}, "question"),
    ],
)
def test_the_note_of_a_skipped_question(more: dict[str, Any], title: str) -> None:
    assert asks.notes(read("question", question(**more)), {"skip": True}) == [
        f"? {title} → skipped"
    ]


def test_the_note_of_a_plan() -> None:
    assert asks.notes(read("plan", plan()), {"accepted": True}) == ["plan Refactor → accepted"]
    assert asks.notes(read("plan", plan(name="")), {}) == ["plan plan → rejected"]


def test_a_permission_leaves_no_note() -> None:
    assert asks.notes(read("permission", permission()), {"optionId": "y"}) == []


def test_notes_are_capped() -> None:
    (note,) = asks.notes(read("plan", plan(name="é" * 4000)), {})
    assert len(note.encode()) <= 4096 and note.endswith("…")


@pytest.mark.parametrize(
    ("ask", "ending", "word"),
    [
        (read("permission", permission("p", YES, ALWAYS, NO)), {"optionId": "a"}, "allow_always"),
        (read("permission", permission("p", YES, ALWAYS, NO)), {"optionId": "n"}, "deny"),
        (read("permission", permission()), {"optionId": "gone"}, ""),
        (read("permission", permission()), {}, ""),
        (read("plan", plan()), {"accepted": True}, "allow"),
        (read("plan", plan()), {}, "deny"),
        (read("question", question()), {"answers": {}}, ""),
    ],
)
def test_what_an_answer_decided(ask: Ask, ending: Any, word: str) -> None:
    assert asks.decided(ask, ending) == word


# ---- how one is answered ----


def body(kind: str, ask: Any, answer: answers.LaneAnswer) -> dict[str, Any]:
    return asks.body(read(kind, ask).approval, answer)


@pytest.mark.parametrize(
    ("kind", "ask", "answer", "sent"),
    [
        ("permission", permission(), answers.Choice("n"), {"optionId": "n"}),
        ("permission", permission(), answers.Permission("allow_once"), {"optionId": "y"}),
        ("permission", permission(), answers.Permission("reject"), {"optionId": "n"}),
        ("permission", permission(), answers.Reject(), {"cancel": True}),
        ("plan", plan(), answers.Choice("accept"), {"accept": True}),
        ("plan", plan(), answers.Choice("reject"), {"reject": True}),
        ("plan", plan(), answers.Permission("allow_once"), {"accept": True}),
        ("plan", plan(), answers.Permission("reject"), {"reject": True}),
        ("plan", plan(), answers.Reject(), {"reject": True}),
        ("question", question(), answers.Reject(), {"skip": True}),
        (
            "question",
            question(),
            answers.Question((("rs", "Go"), ("Postgres 16",)), (None, " ")),
            {"answers": {"lang": ["rs", "go"], "db": ["pg"], "none": []}},
        ),
        ("question", {"id": "q"}, answers.Question(), {"answers": {}}),
        (
            "permission",
            permission(),
            answers.Raw('{"cancel":true,"x":[1]}'),
            {"cancel": True, "x": [1]},
        ),
        ("question", question(), answers.Raw("{}"), {}),
    ],
)
def test_the_body_of_an_answer(
    kind: str, ask: Any, answer: answers.LaneAnswer, sent: dict[str, Any]
) -> None:
    assert body(kind, ask, answer) == sent


FIVE = permission(
    "p", YES, {"optionId": "y2", "name": "don't ask again for anything", "kind": "allow_once"},
    ALWAYS, NO, NEVER,
)  # fmt: skip


def test_a_decision_that_two_options_mean_is_not_guessed() -> None:
    assert body("permission", FIVE, answers.Permission("allow_always")) == {"optionId": "a"}
    assert body("permission", FIVE, answers.Permission("reject")) == {"optionId": "n"}
    without = permission("p", *(one for one in FIVE["options"] if one is not NO))
    assert body("permission", without, answers.Permission("reject")) == {"optionId": "x"}
    with pytest.raises(errors.LaneError) as refused:
        body("permission", FIVE, answers.Permission("allow_once"))
    assert refused.value == errors.bad_request(
        "craze offered no single allow_once option on this permission; answer with the option's id"
    )


@pytest.mark.parametrize(
    ("kind", "ask", "answer", "message"),
    [
        (
            "permission", permission(), answers.Choice("z"),
            'craze did not offer option "z" on this permission',
        ),
        (
            "permission", permission(), answers.Question(),
            "craze's permission approval takes no question answer",
        ),
        (
            "plan", plan(), answers.Choice("maybe"),
            'a craze plan offers only "accept" and "reject", not "maybe"',
        ),
        (
            "plan", plan(), answers.Permission("allow_always"),
            "craze offered no single allow_always option on this permission;"
            " answer with the option's id",
        ),
        ("plan", plan(), answers.Question(), "craze's plan approval takes no question answer"),
        (
            "question", question(), answers.Choice("rs"),
            "craze's question approval takes no choice answer",
        ),
        (
            "question", question(), answers.Permission("reject"),
            "craze's question approval takes no permission answer",
        ),
        (
            "question", question(), answers.Question((("py",),)),
            'question 0 offers no option "py"',
        ),
        (
            "question", question(), answers.Question(((), ("Lite",))),
            'question 1 offers several options labelled "Lite"; answer with the option\'s id',
        ),
        (
            "question", question(), answers.Question(((), ("pg",))),
            'question 1 offers several options with id "pg"',
        ),
        (
            "question", question(), answers.Question(((),) * 4),
            "the approval has 3 questions; 4 answers were given",
        ),
        (
            "question", question(), answers.Question((), (None,) * 4),
            "the approval has 3 questions; free text was given for 4",
        ),
        (
            "question", question(), answers.Question((), (None, " typed ")),
            "question 1 does not accept free text",
        ),
        ("permission", permission(), answers.Raw("[]"), "a raw answer must be one JSON object"),
        ("plan", plan(), answers.Raw("{} {}"), "a raw answer must be one JSON object"),
        ("plan", plan(), answers.Raw(""), "a raw answer must be one JSON object"),
    ],
)  # fmt: skip
def test_refusals(kind: str, ask: Any, answer: answers.LaneAnswer, message: str) -> None:
    with pytest.raises(errors.LaneError) as refused:
        body(kind, ask, answer)
    assert refused.value == errors.bad_request(message)


@pytest.mark.parametrize("answer", [answers.Reject(), answers.Raw("{}"), answers.Choice("a")])
def test_an_ask_of_a_kind_that_is_not_known_takes_no_answer(answer: answers.LaneAnswer) -> None:
    odd = LaneApproval("e-1", HOST, approvals.MCP_ELICITATION, "pending", "t")
    with pytest.raises(errors.LaneError) as refused:
        asks.body(odd, answer)
    assert refused.value == errors.failed(
        "craze's ask e-1 is not one shed can answer (an automatic one, or a kind it does not know)"
    )
