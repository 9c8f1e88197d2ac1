"""Answers: strict on the way out, and one reply for each question."""

import pytest

from craze_shed.contract import answers
from craze_shed.contract.answers import Choice, Permission, Question, QuestionReply, Raw, Reject
from craze_shed.contract.approvals import LaneQuestion
from craze_shed.contract.codec import ContractError
from craze_shed.contract.errors import LaneError


@pytest.mark.parametrize("answer,wire", [
    (Permission("allow_once"), {"kind": "permission", "decision": "allow_once"}),
    (Choice("a1"), {"kind": "choice", "option_id": "a1"}),
    (Question((("a",), ())), {"kind": "question", "answers": [["a"], []]}),
    (
        Question(((), ("b",)), (None, "typed")),
        {"kind": "question", "answers": [[], ["b"]], "custom_text": [None, "typed"]},
    ),
    (Reject(), {"kind": "reject"}),
    (Raw('{"a":1}'), {"kind": "raw", "json": '{"a":1}'}),
])  # fmt: skip
def test_each_answer_has_its_form(answer, wire):
    assert answer.to_wire() == wire
    assert answers.decode_answer(wire) == answer


@pytest.mark.parametrize("wire,problem", [
    ({"kind": "shrug"}, "LaneAnswer.kind: expected one of permission, choice, question, reject, "
        "raw, got shrug"),
    ({}, "LaneAnswer.kind: missing"),
    ({"kind": 3}, "LaneAnswer.kind: expected a string, got an integer"),
    ("reject", "LaneAnswer: expected an object, got a string"),
    ({"kind": "permission", "decision": "maybe"},
        "Permission.decision: expected one of allow_once, allow_always, reject, got maybe"),
    ({"kind": "permission", "decision": "reject", "for": 1}, "Permission.for: unknown field"),
    ({"kind": "choice"}, "Choice.option_id: missing"),
    ({"kind": "question", "answers": ["a"]},
        "Question.answers[0]: expected a list, got a string"),
    ({"kind": "raw", "json": {}}, "Raw.json: expected a string, got an object"),
])  # fmt: skip
def test_what_is_not_understood_is_refused(wire, problem):
    with pytest.raises(ContractError) as caught:
        answers.decode_answer(wire)
    assert str(caught.value) == problem


def test_a_rejection_is_a_rejection_whatever_else_it_says():
    assert answers.decode_answer({"kind": "reject", "decision": "allow_always"}) == Reject()


def test_an_unknown_decision_is_not_written():
    with pytest.raises(ContractError):
        Permission("allow").to_wire()  # type: ignore[arg-type]


def test_words():
    assert [answers.decision(word) for word in answers.DECISIONS] == list(answers.DECISIONS)
    assert [answers.send_mode(word) for word in ("queue", "interject")] == ["queue", "interject"]
    with pytest.raises(ContractError, match="expected one of queue, interject, got now"):
        answers.send_mode("now")


# ---- replies ----


def question(custom=False):
    return LaneQuestion(question="?", custom=custom)


def test_a_reply_for_each_question_padded_with_empty_ones():
    replies = answers.normalize_question_answer([question()] * 3, [["a", "b"]])
    assert replies == (QuestionReply(("a", "b")), QuestionReply(), QuestionReply())


def test_text_is_trimmed_and_blank_text_is_none():
    replies = answers.normalize_question_answer(
        [question(True), question(False), question(True)], [], [" on Friday \n", "  ", None]
    )
    assert [reply.text for reply in replies] == ["on Friday", None, None]


@pytest.mark.parametrize("given,typed,problem", [
    ([[], [], []], [], "the approval has 2 questions; 3 answers were given"),
    ([], [None] * 3, "the approval has 2 questions; free text was given for 3"),
    ([], [None, "x"], "question 1 does not accept free text"),
])  # fmt: skip
def test_what_does_not_fit_the_questions_is_refused(given, typed, problem):
    with pytest.raises(LaneError) as caught:
        answers.normalize_question_answer([question(True), question()], given, typed)
    assert caught.value == LaneError("bad_request", problem)
