"""Updates turned into events, without a process: what the fake agent's scripts do not reach."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from craze.agents import limits
from craze.agents.acp.updates import Session
from craze.machine import providers

NOW = "2026-01-01T00:00:00Z"
OTHER = providers.custom("other", "", ["agent"], {})


def session(provider: Any = OTHER) -> Session:
    made = Session(provider, lambda: NOW, Counter())
    made.id = "s"
    made.catalog.install({"modes": {"currentModeId": "a", "availableModes": [{"id": "a"}]}})
    return made


def told(made: Session, kind: str, of: str = "s", **members: Any) -> list[dict[str, Any]]:
    return made.update({"sessionId": of, "update": {"sessionUpdate": kind, **members}})


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (words("x"), "x"),
        ({"type": "resource_link", "uri": "file:///a", "name": "a"}, "file:///a"),
        ({"type": "resource", "resource": {"uri": "u", "text": "inside"}}, "inside"),
        ({"type": "image", "data": "AAAA"}, "[image]"),
        ({"type": "audio", "data": "AAAA"}, "[audio]"),
    ],
)
def test_blocks_of_every_type_are_shown(content: dict[str, Any], shown: str) -> None:
    assert told(session(), "agent_message_chunk", content=content) == [
        {"type": "text", "text": shown}
    ]


@pytest.mark.parametrize("content", [words(""), {"type": "hologram"}, None, "x", {"text": 7}])
def test_blocks_with_nothing_to_show(content: Any) -> None:
    assert told(session(), "agent_message_chunk", content=content) == []


def test_two_messages_in_a_row_are_kept_apart() -> None:
    made = session()
    said = []
    for number, text in (("m1", "a"), ("m1", "b"), ("m2", "c"), ("m2", "d"), ("", "e")):
        for event in told(made, "agent_message_chunk", content=words(text), messageId=number):
            said.append(event["text"])
    assert said == ["a", "b", "\n\nc", "d", "e"]
    told(made, "tool_call", toolCallId="t", title="T")
    assert told(made, "agent_message_chunk", content=words("f"), messageId="m3")[0]["text"] == "f"


def test_a_plan_is_the_todos_of_an_agent_of_the_users_own() -> None:
    entries = [{"content": "look", "priority": "high", "status": "in_progress"}]
    event = {
        "type": "todos",
        "todos": [{"id": "plan-0", "content": "look", "status": "in_progress"}],
    }
    assert told(session(), "plan", entries=entries) == [event]
    assert told(session(providers.PROVIDERS["grok"]), "plan", entries=entries) == [event]
    assert told(session(providers.PROVIDERS["cursor"]), "plan", entries=entries) == []
    assert told(session(), "plan", entries=[]) == [{"type": "todos"}]


@pytest.mark.parametrize("member", ["currentModeId", "modeId"])
def test_a_mode_under_either_name(member: str) -> None:
    assert told(session(), "current_mode_update", **{member: "b"}) == [
        {"type": "meta", "mode": "b", "state": {"mode": "b"}}
    ]


def test_an_option_that_carries_the_mode() -> None:
    made = session()
    option = {
        "id": "mode",
        "category": "mode",
        "type": "select",
        "currentValue": "b",
        "options": [{"value": "b"}],
    }
    (event,) = told(made, "config_option_update", configOptions=[option])
    assert event["mode"] == "b"
    assert list(event["state"]) == ["mode", "config"]
    assert told(made, "config_option_update", configOptions=[option]) == []
    assert told(made, "config_option_update", configOptions="x") == []


@pytest.mark.parametrize("title", [None, "", 7])
def test_a_title_that_says_nothing(title: Any) -> None:
    assert told(session(), "session_info_update", title=title) == []


def test_replayed_prompts_by_their_message_ids() -> None:
    made = session()
    made.replaying = True
    for number, text in (("1", "a"), ("1", "b"), ("2", "c")):
        events = told(made, "user_message_chunk", content=words(text), messageId=number)
        if number == "2":
            assert events == [{"type": "user", "text": "ab"}]
    assert made.flush() == [{"type": "user", "text": "c"}]
    assert made.flush() == []


def test_kinds_without_a_meaning_are_counted() -> None:
    made = session()
    assert told(made, "usage_update", used=1, size=2) == []
    assert told(made, "", x=1) == []
    assert made.update({"sessionId": "s"}) == []
    assert made.update({}) == []
    assert made._counters == {"unknown_update": 3, "unknown_session": 1}


def spawn(made: Session, number: int) -> list[dict[str, Any]]:
    update = {
        "sessionUpdate": "subagent_spawned",
        "subagent_id": f"c{number}",
        "child_session_id": f"cs{number}",
        "description": "é" * 400,
        "tools_used": [str(n) for n in range(20)],
    }
    return made.vendor(
        "x.ai/session_notification", {"params": {"sessionId": "s", "update": update}}
    )


def test_children_past_the_cap_have_rows_and_no_stream() -> None:
    made = session(providers.PROVIDERS["grok"])
    rows = [spawn(made, number)[0]["subagent"] for number in range(limits.CHILDREN_ROUTED + 1)]
    assert rows[0]["transcript"] is True
    assert "transcript" not in rows[-1]
    assert len(rows[0]["description"].encode()) <= limits.ROW_DESCRIPTION
    assert rows[0]["toolsUsed"] == [str(n) for n in range(12, 20)]
    assert told(made, "agent_message_chunk", of="cs64", content=words("x")) == []
    assert told(made, "agent_message_chunk", of="cs63", content=words("x")) == [
        {"type": "text", "text": "x", "agent": "c63"}
    ]


def test_a_child_has_no_state_of_its_own() -> None:
    made = session(providers.PROVIDERS["grok"])
    spawn(made, 1)
    for kind, members in (
        ("available_commands_update", {"availableCommands": [{"name": "x"}]}),
        ("current_mode_update", {"currentModeId": "z"}),
        ("session_info_update", {"title": "z"}),
        ("config_option_update", {"configOptions": []}),
        ("plan", {"entries": [{"content": "x"}]}),
    ):
        assert told(made, kind, of="cs1", **members) == []


# ---- grok's turns ----


def queue(made: Session, number: Any, text: str = "") -> list[dict[str, Any]]:
    params = {"sessionId": "s", "runningPromptId": number, "runningText": text}
    return made.vendor("x.ai/queue/changed", params)


def foreign(number: str, text: str = "", running: bool = False) -> dict[str, Any]:
    bracket: dict[str, Any] = {"id": number}
    if text:
        bracket["text"] = text
    if running:
        bracket["running"] = True
    return {"type": "foreign_turn", "foreignTurn": bracket}


def test_a_running_prompt_that_is_not_ours() -> None:
    made = session(providers.PROVIDERS["grok"])
    assert queue(made, "p1", "wake") == [foreign("p1", "wake", True)]
    assert queue(made, "p1") == []
    done = {"update": {"sessionUpdate": "turn_completed", "prompt_id": "p1"}}
    assert made.vendor("x.ai/session_notification", done) == [foreign("p1")]
    assert made.vendor("x.ai/session_notification", done) == []
    assert queue(made, "p1") == []  # told late


def test_b16_a_foreign_turn_whose_end_was_lost_ends_with_the_next_thing_that_runs() -> None:
    made = session(providers.PROVIDERS["grok"])
    queue(made, "p1")
    assert queue(made, "p2") == [foreign("p1"), foreign("p2", running=True)]
    assert queue(made, None) == [foreign("p2")]


def test_our_own_prompt_is_not_foreign() -> None:
    made = session(providers.PROVIDERS["grok"])
    made.turns.begin()
    assert queue(made, "p1") == []
    assert made.turns.ours("p1")
    assert not made.turns.ours("p0")
    assert queue(made, "p2") == [foreign("p2", running=True)]
    made.turns.end()
    assert queue(made, "p1") == [foreign("p2")]


def test_a_fallback_is_never_ours() -> None:
    made = session(providers.PROVIDERS["grok"])
    made.turns.begin()
    assert queue(made, "interject-fallback-1") == [foreign("interject-fallback-1", running=True)]
    assert not made.turns.ours("interject-fallback-1")


def test_the_twin_of_an_ended_turn_ends_nothing() -> None:
    made = session(providers.PROVIDERS["grok"])
    made.turns.begin()
    made.turns.end("p1")
    made.turns.begin()
    assert not made.turns.ours("p1")
    made.turns.twin("p2")
    assert not made.turns.ours("p2")
    assert not made.turns.ours("")
    assert made.turns.ours("p3")


def test_an_interjection_without_words_or_twice() -> None:
    made = session(providers.PROVIDERS["grok"])
    said = {"text": "x", "interjectionId": "i"}
    assert len(made.vendor("x.ai/session/interjection", said)) == 1
    assert made.vendor("x.ai/session/interjection", said) == []
    assert made.vendor("x.ai/session/interjection", {"text": ""}) == []
    assert made.vendor("x.ai/other", {}) == []


# ---- anything at all ----

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["toolCallId", "content", "type", "text", "title", "status", "options", "id", "value",
             "entries", "configOptions", "locations", "path", "rawInput", "rawOutput", "_meta",
             "update", "availableCommands", "name", "subagent_id", "category", "currentValue"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None)
@given(
    st.sampled_from(
        ["agent_message_chunk", "user_message_chunk", "tool_call", "tool_call_update", "plan",
         "available_commands_update", "current_mode_update", "session_info_update",
         "config_option_update", "subagent_spawned", "subagent_finished", "turn_completed"]
    ),
    st.dictionaries(
        st.sampled_from(
            ["toolCallId", "content", "title", "status", "kind", "entries", "configOptions",
             "locations", "rawInput", "rawOutput", "_meta", "availableCommands", "currentModeId",
             "messageId", "subagent_id", "child_session_id", "tokens_used", "name"]
        ),
        _JSON,
        max_size=6,
    ),
)  # fmt: skip
def test_no_update_breaks_anything(kind: str, members: dict[str, Any]) -> None:
    made = session(providers.PROVIDERS["grok"])
    made.update({"sessionId": "s", "update": {**members, "sessionUpdate": kind}})
    update = {**members, "sessionUpdate": kind}
    made.vendor("x.ai/session_notification", {"update": update})
