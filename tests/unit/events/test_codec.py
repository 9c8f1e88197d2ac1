"""Reading events (codecs 1.1 to 1.5) and making them."""

from typing import Any

import pytest

from craze.events import build, codec
from craze.events.members import EVENT, PAYLOADS, SECTIONS, TYPES, payload
from craze.wire import json, schema


def check(event: dict[str, Any]) -> dict[str, Any]:
    """What is read, having been written and checked to be read as the very same bytes again."""
    made = codec.check(event)
    assert json.dumps(codec.check(json.loads(json.dumps(made)))) == json.dumps(made)
    return made


@pytest.mark.parametrize("event", [{}, {"type": ""}, {"type": None}, {"text": "x"}])
def test_an_event_has_a_type(event: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="without a type"):
        codec.check(event)


@pytest.mark.parametrize("event", [None, [], "text", 5, True, 1.5])
def test_an_event_is_an_object(event: Any) -> None:
    with pytest.raises(ValueError, match="expected an object"):
        codec.check(event)


def test_unknown_members_are_ignored_and_an_unknown_type_is_kept() -> None:
    event = {"type": "novelty", "of": 1, "text": "x", "tool": {"id": "t", "new": [1]}}
    assert check(event) == {"type": "novelty", "text": "x", "tool": {"id": "t"}}


def test_members_come_in_wire_order_whatever_order_they_had() -> None:
    event = {
        "at": "2026-01-01T00:00:00Z",
        "turn": {"phase": "started", "id": "turn-1"},
        "type": "turn",
    }
    assert json.dumps(check(event)) == (
        b'{"type":"turn","turn":{"id":"turn-1","phase":"started"},"at":"2026-01-01T00:00:00Z"}'
    )


def test_zero_members_and_nulls_are_none() -> None:
    event = {
        "type": "tool",
        "text": "",
        "replayed": False,
        "queuePos": 0,
        "todos": [],
        "plan": None,
        "at": "0001-01-01T00:00:00Z",
        "tool": {"id": "", "locations": [], "diffs": None},
    }
    assert check(event) == {"type": "tool", "tool": {}}


def test_an_object_that_is_there_and_empty_stays() -> None:
    event = {"type": "tool", "tool": {"task": {}, "output": {"exitCode": 0}}}
    assert check(event) == event


def test_null_and_an_empty_list_are_different_answers() -> None:
    answers = {"b": [], "a": None, "c": ["x"]}
    read = check({"type": "ask", "ask": {"answers": answers}})["ask"]["answers"]
    assert list(read.items()) == [("a", None), ("b", []), ("c", ["x"])]
    assert check({"type": "ask", "ask": {"answers": {}}}) == {"type": "ask", "ask": {}}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.123Z"),
        ("2026-01-01T00:00:00.100Z", "2026-01-01T00:00:00.1Z"),
        ("2026-01-01T02:00:00.000000001+02:00", "2026-01-01T00:00:00.000000001Z"),
        ("", None),
    ],
)
def test_a_time_is_read_to_the_same_instant(given: str, read: str | None) -> None:
    assert check({"type": "text", "at": given}).get("at") == read


@pytest.mark.parametrize("given", ["noon", "2026-13-01T00:00:00Z", 5])
def test_what_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"event\.at"):
        codec.check({"type": "text", "at": given})


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"text": 5}, "event.text: expected a string, got an integer"),
        ({"replayed": "yes"}, "event.replayed: expected true or false, got a string"),
        ({"queuePos": True}, "event.queuePos: expected an integer, got a boolean"),
        ({"queuePos": 1.0}, "event.queuePos: expected an integer, got a number"),
        ({"todos": {}}, "event.todos: expected a list, got an object"),
        ({"todos": [None]}, "event.todos: expected an object, got null"),
        ({"tool": {"output": {"exitCode": "0"}}}, "event.tool: tool.output: output.exitCode: "),
        ({"ask": {"answers": []}}, "event.ask: ask.answers: expected an object, got a list"),
    ],
)
def test_a_wrong_type_is_refused_by_name(event: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as failure:
        codec.check({"type": "text", **event})
    assert words in str(failure.value)


def test_objects_that_always_write_every_member_do() -> None:
    assert check({"type": "error", "err": {"message": "m"}})["err"] == {
        "message": "m",
        "class": "",
        "code": 0,
    }
    state = check(
        {"type": "meta", "state": {"usage": {"turn": {"input": 3}}, "catalog": {"models": [{}]}}}
    )["state"]
    assert state["catalog"] == {"models": [{"id": "", "name": ""}], "revision": 0}
    assert list(state["usage"]) == list(SECTIONS["usage"])
    assert list(state["usage"]["session"]) == list(SECTIONS["spending"])
    assert state["usage"]["turn"]["input"] == 3
    assert state["usage"]["turn"]["unpriced"] is False


def test_a_cleared_title_is_told_from_an_untouched_one() -> None:
    state = {"title": "", "mode": "", "model": "", "config": {}, "slash": {}}
    assert check({"type": "meta", "state": {**state, "reason": ""}})["state"] == state


def test_a_malformed_slash_section_never_refuses_the_event() -> None:
    good = {"name": "a", "description": "", "source": "agent", "run": {"kind": "prompt"}}
    rows = [good, 5, {"name": "two words"}, {"name": "b", "run": 5}, {"name": "\x07"}]
    state = {"commands": {}, "slash": {"items": [*rows, {**good, "novel": 1}]}}
    assert check({"type": "meta", "state": state})["state"] == {
        "commands": {},
        "slash": {"items": [good, good]},
    }
    assert check({"type": "meta", "state": {"slash": 5}})["state"] == {"slash": {}}


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"turn","turn":{"id":"turn-3","phase":"ended","err":"no","synthetic":true,'
        '"next":"turn-4","pending":2},"cause":"c-2/7","at":"2026-03-04T05:06:07.89Z"}',
        '{"type":"queue","queue":{"id":"q-4","text":"x","queuedAt":"2026-03-04T05:06:07Z",'
        '"version":2},"queueChange":"edited","queuePos":1,"cause":"c-2/8"}',
        '{"type":"foreign_turn","foreignTurn":{"id":"wake-2","reason":"job_wake","running":true}}',
        '{"type":"user","text":"\\u2028 <b> & \\ufffd","interjection":true,"replayed":true}',
        '{"type":"compaction","agent":"sub-1","compaction":{"phase":"ended","tokensBefore":9}}',
        '{"type":"subagent","subagent":{"id":"s","status":"running","toolsUsed":["a"],'
        '"background":true},"subagentChange":"progress"}',
    ],
)
def test_what_is_read_is_written_as_it_was(text: str) -> None:
    # U+FFFD as an escape is what a bad byte became; the character itself is written raw.
    written = json.dumps(codec.check(json.loads(text.encode())))
    assert written.decode() == text.replace("\\ufffd", "\ufffd")


# ---- making events ----


def test_a_constructors_members_stand_in_wire_order() -> None:
    event = build.replayed({**build.text("x", "sub-1"), "at": "2026-01-01T00:00:00Z"})
    assert list(event) == ["type", "text", "agent", "replayed", "at"]


def test_a_payload_has_its_members_in_order_and_no_zeros() -> None:
    made = payload("tool", kind="read", id="t", title="", locations=[], output={}, task=None)
    assert list(made.items()) == [("id", "t"), ("kind", "read"), ("output", {})]
    assert payload("output", exitCode=0, stdout="") == {"exitCode": 0}
    with pytest.raises(KeyError):
        payload("tool", novelty=1)


@pytest.mark.parametrize(
    "event",
    [
        build.text("a"),
        build.text("a", "sub-1"),
        build.thought("a"),
        build.user("a", interjection=True),
        build.tool(payload("tool", id="t", output={"exitCode": 0})),
        build.todos([{"id": "1", "content": "x", "status": "pending"}]),
        build.opening("permission", payload("permission", id="perm-1", tool="rm")),
        build.opening("question", payload("question", id="ask-1", title="T")),
        build.opening("plan", payload("plan", id="plan-1", auto=True)),
        build.ending(payload("ask", id="a", kind="plan", outcome="cancelled", by="call"), "c-1/2"),
        build.done("end_turn"),
        build.error("no", "rpc", -32000),
        build.meta({"title": ""}, cause="c-1/3"),
        build.subagent(payload("subagent", id="sub-1", status="running"), "spawned"),
        build.queue(
            payload("queue", id="q-1", text="x", queuedAt="2026-01-01T00:00:00Z"), "queued", 1
        ),
        build.command({"pluginCommand": payload("pluginCommand", qualified="a:b"), "text": "x"}),
        build.foreign_turn(payload("foreignTurn", id="wake-1", running=True)),
        build.replay("start"),
        build.turn_started("turn-1", "hi", "submit", "c-1/1"),
        build.turn_ended("turn-1", stopReason="end_turn"),
        build.compaction("started", reason="auto"),
    ],
    ids=lambda event: event["type"],
)
def test_every_event_made_is_one_the_schema_knows_and_reads_as_written(
    event: dict[str, Any],
) -> None:
    event = {**event, "at": "2026-01-01T00:00:00Z"}
    schema.validator("event").validate(event)
    assert json.dumps(codec.check(event)) == json.dumps(event)


def test_the_tables_name_every_type_and_each_member_once() -> None:
    assert len(TYPES) == len(set(TYPES)) == 19
    for order in (EVENT, *PAYLOADS.values(), *SECTIONS.values()):
        assert len(order) == len(set(order))
    assert not PAYLOADS.keys() & SECTIONS.keys()
