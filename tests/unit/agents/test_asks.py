"""How an agent's questions are read, and how their endings are told to it."""

from typing import Any

import pytest

from craze.agents.acp import asks


def read(ask: asks.Ask, **params: Any) -> Any:
    return ask.read(params)


def test_permission_options_are_kept_as_they_are() -> None:
    options = [
        {"optionId": "b", "name": "B", "kind": "allow_once"},
        {"optionId": "a", "name": "A", "kind": "allow_once", "_meta": {}},
        {"optionId": "c", "kind": "someday"},
        {"name": "no id"},
    ]
    body = read(asks.PERMISSION, toolCall={"toolCallId": "t"}, options=options)
    assert body == {
        "options": [
            {"optionId": "b", "name": "B", "kind": "allow_once"},
            {"optionId": "a", "name": "A", "kind": "allow_once"},
            {"optionId": "c", "name": "c", "kind": "someday"},
        ]
    }


@pytest.mark.parametrize(
    "params",
    [{}, {"toolCall": {}}, {"toolCall": {}, "options": []}, {"toolCall": 7, "options": [{}]}],
)
def test_permissions_that_cannot_be_read(params: dict[str, Any]) -> None:
    assert asks.PERMISSION.read(params) is None


@pytest.mark.parametrize("table", [asks.CURSOR, asks.GROK])
def test_questions_that_cannot_be_read(table: dict[str, asks.Ask]) -> None:
    for ask in table.values():
        if ask.kind == "question":
            assert ask.read({}) is None
            assert ask.read({"questions": "x"}) is None


def test_a_question_without_options_is_shown_with_one() -> None:
    body = read(asks.CURSOR["cursor/ask_question"], questions=[{"id": "q", "prompt": "Why?"}])
    assert body["questions"] == [{"id": "q", "prompt": "Why?", "options": [{"label": "OK"}]}]
    answer = asks.CURSOR["cursor/ask_question"].answer(
        {"outcome": "answered", "answers": {"q": [""]}}
    )
    assert answer["outcome"]["answers"] == [{"questionId": "q", "selectedOptionIds": []}]


@pytest.mark.parametrize(
    ("plan", "shown"),
    [
        ("words", "words"),
        ({"content": "inner"}, "inner"),
        ({"steps": [1]}, '{"steps":[1]}'),
        (None, None),
        (7, None),
    ],
)
def test_a_plan_in_any_form(plan: Any, shown: str | None) -> None:
    body = read(asks.CURSOR["cursor/create_plan"], title="T", plan=plan)
    assert body["name"] == "T"
    assert body.get("plan") == shown


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("in_progress", "in_progress"),
        ("inProgress", "in_progress"),
        ("TODO_STATUS_IN_PROGRESS", "in_progress"),
        ("TODO_STATUS_CANCELLED", "cancelled"),
        ("complete", "completed"),
        ("done", "completed"),
        ("canceled", "cancelled"),
        ("pending", "pending"),
        ("whatever", "pending"),
        (None, "pending"),
    ],
)
def test_the_words_for_a_todos_status(word: Any, status: str) -> None:
    assert asks.todo_status(word) == status


def test_todos_without_words_are_left_out() -> None:
    entries = [{"content": "a"}, {"content": " "}, 7, {"content": "b", "id": "B", "status": "done"}]
    assert asks.todos({"entries": entries}, "entries", "plan") == [
        {"id": "plan-0", "content": "a", "status": "pending"},
        {"id": "B", "content": "b", "status": "completed"},
    ]
