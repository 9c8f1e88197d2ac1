"""How tool calls merge, and the counting of a diff."""

import difflib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from craze.agents import limits
from craze.agents.acp import diff
from craze.agents.acp.tools import Tools

NOW = "2026-01-01T00:00:00Z"


def tools() -> Tools:
    return Tools(frozenset(("task",)), "Task:")


def merged(*calls: dict[str, Any], meta: Any = None) -> list[dict[str, Any] | None]:
    made = tools()
    return [made.update({"toolCallId": "t", **call}, meta, NOW) for call in calls]


def test_absent_and_null_leave_what_was_there() -> None:
    first, second = merged(
        {"title": "Run", "kind": "execute", "status": "pending", "rawInput": {"command": "ls"}},
        {"title": None, "status": "in_progress", "content": None, "locations": None},
    )
    assert first is not None
    assert second == {**first, "status": "in_progress"}


def test_an_update_that_changes_nothing_makes_nothing() -> None:
    _, second, third = merged({"title": "Run", "status": "pending"}, {"status": "pending"}, {})
    assert second is None
    assert third is None


def test_an_update_of_a_call_never_announced_creates_it() -> None:
    assert merged({"status": "completed"}) == [{"id": "t", "status": "completed", "at": NOW}]


def test_a_call_without_an_id_is_nothing() -> None:
    assert tools().update({"title": "Run"}, None, NOW) is None
    assert tools().update({"toolCallId": 7}, None, NOW) is None


def test_present_and_empty_content_clears() -> None:
    words = [{"type": "content", "content": {"type": "text", "text": "x"}}]
    first, second = merged({"content": words}, {"content": []})
    assert first is not None
    assert first["contentText"] == "x"
    assert second is not None
    assert "contentText" not in second


def test_content_is_joined_and_a_bare_block_counts() -> None:
    (made,) = merged(
        {
            "content": [
                {"type": "content", "content": {"type": "text", "text": "a"}},
                {"type": "content", "content": {"type": "image", "data": "…"}},
                {"type": "text", "text": "b"},
                {"type": "terminal", "terminalId": "never made"},
                "not an object",
            ]
        }
    )
    assert made is not None
    assert made["contentText"] == "ab"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ({"command": "ls", "args": "x"}, "ls"),
        ({"args": "x", "prompt": "y"}, "x"),
        ({"prompt": "y"}, "y"),
        ({"command": ["/bin/sh", "-c", "ls"]}, '{"command":["/bin/sh","-c","ls"]}'),
        ({"path": "/a"}, '{"path":"/a"}'),
        ("words", "words"),
        ([1, 2], "[1,2]"),
        ({"bad": float("inf")}, None),
        ({}, None),
    ],
)
def test_the_text_of_an_input(raw: Any, shown: str | None) -> None:
    (made,) = merged({"rawInput": raw})
    assert made is not None
    assert made.get("rawInput") == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ({"exitCode": 0}, {"exitCode": 0}),
        (
            {"exit_code": 3, "stdout": "o", "stderr": "e"},
            {"exitCode": 3, "stdout": "o", "stderr": "e"},
        ),
        ("words", {"content": "words"}),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], {"content": "ab"}),
        ({"exitCode": True}, None),
        ({"other": 1}, None),
        (7, None),
    ],
)
def test_the_output(raw: Any, shown: dict[str, Any] | None) -> None:
    (made,) = merged({"rawOutput": raw})
    assert made is not None
    assert made.get("output") == shown


@pytest.mark.parametrize(
    ("call", "meta"),
    [
        ({"name": "run"}, None),
        ({"rawInput": {"_toolName": "run"}}, None),
        ({}, {"x.ai/tool": {"name": "run"}}),
        ({}, {"claudeCode": {"toolName": "run"}}),
    ],
)
def test_the_tools_own_name_stays(call: dict[str, Any], meta: Any) -> None:
    made = tools()
    made.update({"toolCallId": "t", **call}, meta, NOW)
    moved = made.update({"toolCallId": "t", "title": "Run `ls`"}, None, NOW)
    assert moved is not None
    assert (moved["toolName"], moved["name"], moved["title"]) == ("run", "Run `ls`", "Run `ls`")


def test_output_streamed_beside_the_protocol() -> None:
    made = tools()
    for words in ("one\n", "two\n"):
        made.update({"toolCallId": "t"}, {"terminal_output_delta": {"data": words}}, NOW)
    last = made.update({"toolCallId": "t"}, {"terminal_exit": {"exit_code": 1}}, NOW)
    assert last is not None
    assert last["output"] == {"exitCode": 1, "stdout": "one\ntwo\n"}


def test_a_task_by_its_title() -> None:
    (made,) = merged({"title": "Task: look", "rawInput": {"prompt": "x" * 5000}})
    assert made is not None
    assert len(made["task"]["prompt"].encode()) == limits.TASK_PROMPT


def test_what_was_made_before_does_not_change() -> None:
    made = tools()
    first = made.update({"toolCallId": "t", "rawOutput": "a", "title": "Task: x"}, None, NOW)
    assert first is not None
    copy = {**first, "output": dict(first["output"]), "task": dict(first["task"])}
    made.update({"toolCallId": "t", "rawOutput": "b", "status": "completed"}, None, NOW)
    made.receipt("t", {"agentId": "7"}, NOW)
    assert first == copy


def test_only_the_newest_calls_are_kept() -> None:
    made = tools()
    made.update({"toolCallId": "open", "title": "open"}, None, NOW)
    for number in range(limits.TOOLS_KEPT + 5):
        made.update({"toolCallId": f"t{number}", "status": "completed"}, None, NOW)
    assert len(made._held) == limits.TOOLS_KEPT
    assert made.title("open") == "open"  # the finished ones went first


def test_settling() -> None:
    made = tools()
    for number, status in (("a", "pending"), ("b", "in_progress"), ("c", "completed"), ("d", "")):
        made.update({"toolCallId": number, **({"status": status} if status else {})}, None, NOW)
    assert [t["id"] for t in made.settle("failed", NOW, only=("pending",))] == ["a", "d"]
    assert [t["id"] for t in made.settle("cancelled", NOW)] == ["b"]


# ---- diffs ----


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("", "", (0, 0)),
        ("", "a\nb\n", (2, 0)),
        ("a\nb\n", "", (0, 2)),
        ("a\nb\nc\n", "a\nX\nc\n", (1, 1)),
        ("a\nb\n", "b\na\n", (1, 1)),
        ("a", "a\n", (0, 0)),
    ],
)
def test_counts(old: str, new: str, counts: tuple[int, int]) -> None:
    assert diff.counts(old, new) == counts


@settings(deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_counts_are_exact(before: list[str], after: list[str]) -> None:
    lengths = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, one in enumerate(before):
        for j, other in enumerate(after):
            lengths[i + 1][j + 1] = (
                lengths[i][j] + 1 if one == other else max(lengths[i][j + 1], lengths[i + 1][j])
            )
    kept = lengths[-1][-1]
    counted = diff.counts("\n".join(before), "\n".join(after))
    assert counted == (len(after) - kept, len(before) - kept)
    assert difflib.SequenceMatcher(None, before, after, autojunk=False).ratio() <= 1


def test_too_large_to_count(mocker: Any) -> None:
    mocker.patch.object(diff, "DIFF_CELLS", 100)
    old, new = ("".join(f"{word}{n}\n" for n in range(20)) for word in "ab")
    assert diff.counts(old, new) is None
    item = {"type": "diff", "path": "/a", "oldText": old, "newText": new}
    (made,) = merged({"content": [item]})
    assert made is not None
    assert made["diffs"] == [{"path": "/a", "oldText": old, "newText": new, "truncated": True}]
