"""The published schema and the code, held against each other both ways."""

import json as stdlib
import math
import re
import socket
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from referencing.exceptions import Unresolvable

from craze.events import build, members
from craze.wire import documents, envelope, params, schema
from craze.wire.codes import CODES, REASONS, Refusal
from craze.wire.methods import METHODS
from tests.unit.wire import test_params

NOTIFICATIONS = {"event", "synchronized", "ready", "reset", "presence", "aside", "roster"}
SHARED = {
    "common", "event", "snapshot", "slash", "info", "row", "rosterRow", "state", "settings",
    "lastTurn", "ask", "error",
}  # fmt: skip

# Where each document of the code stands in the schema.
PLACES = {
    "hostHello": "hello#host",
    "hubHello": "hello#hub",
    "endpoint": "hello#endpoint",
    "hostCapabilities": "hello#hostCapabilities",
    "hubCapabilities": "hello#hubCapabilities",
    "info": "info#info",
    "provider": "info#provider",
    "catalogs": "info#catalogs",
    "mode": "info#mode",
    "capabilities": "info#capabilities",
    "rowFacts": "row",
    "headAsk": "row#headAsk",
    "lastTurn": "lastTurn",
    "state": "state",
    "armed": "state#armed",
    "settings": "settings",
    "refresh": "session.models.refresh#result",
    "cut": "session.attach#result/properties/after",
    "askSummary": "ask#summary",
    "ask": "ask",
    "answer": "ask#answer",
    "aside": "session.aside#result",
    "asideUsage": "session.aside#result/properties/usage",
    "slashRow": "slash#row",
    "slashRun": "slash#run",
    "rosterHost": "rosterRow#host",
    "rosterRow": "rosterRow",
    "createOptions": "sessions.createOptions#result",
    "createProvider": "sessions.createOptions#provider",
    "recentDir": "sessions.createOptions#recentDir",
    "saved": "sessions.saved#result",
    "savedSession": "sessions.saved#savedSession",
    "synchronized": "notify.synchronized",
    "ready": "notify.ready",
    "reset": "notify.reset",
    "presence": "notify.presence",
    "asideNotice": "notify.aside",
}

# What is open on purpose: hello's params, parts that others close, and a forwarded row.
OPEN = {
    "hello#params", "hello#params/client", "hello#params/client/capabilities",
    "hello#params/resume", "info#info", "rosterRow/row", "error/data/result",
}  # fmt: skip


def place(where):
    name, _, path = where.partition("#")
    found = schema.documents()[name]
    if path:
        first, *rest = path.split("/")
        found = found["$defs"][first]
        for step in rest:
            found = found[step]
    return found


def resolved(found, name):
    while "$ref" in found:
        file, _, pointer = found["$ref"].partition("#")
        name = file.removesuffix(".json") or name
        found = schema.documents()[name]
        for step in pointer.split("/")[1:]:
            found = found[step]
    return found


def parts(found):
    """Every schema within a schema."""
    if isinstance(found, dict):
        yield found
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    for item in inner:
        yield from parts(item)


# ---- the files themselves ----


def test_there_is_a_file_for_every_method_notification_and_document():
    notices = {f"notify.{name}" for name in NOTIFICATIONS}
    assert set(schema.documents()) == {*METHODS, *notices, *SHARED}


@pytest.mark.parametrize("name", sorted(schema.documents()))
def test_a_file_is_a_schema_of_the_draft_with_its_own_name(name):
    found = schema.documents()[name]
    Draft202012Validator.check_schema(found)
    assert found["$id"] == f"{schema.BASE}{name}.json"
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["title"] and found["description"]
    for part in parts(found):
        if "$ref" in part and isinstance(part["$ref"], str):
            resolved(part, name)
        pattern = part.get("pattern")
        if isinstance(pattern, str):
            re.compile(pattern)
            assert not re.search(r"\\[dDwWsZb]", pattern), "means another thing in other languages"


def test_what_is_written_is_closed():
    loose = set()

    def look(found, path):
        if isinstance(found, list):
            for item in found:
                look(item, path)
        if not isinstance(found, dict):
            return
        shut = "additionalProperties" in found or "unevaluatedProperties" in found
        if "object" in found.get("type", ()) and not shut:
            loose.add(path)
        for key, inner in found.items():
            if key in ("properties", "$defs"):
                mark = "#" if key == "$defs" else "/"
                for name, item in inner.items():
                    look(item, f"{path}{mark}{name}")
            else:
                look(inner, path)

    for name, found in schema.documents().items():
        look(found, name)
    assert loose == OPEN


# ---- code against schema ----


@pytest.mark.parametrize("name", documents.DOCUMENTS)
def test_a_document_s_members_are_the_schema_s_in_order(name):
    found = place(PLACES[name])
    assert list(found["properties"]) == [item.rstrip("?") for item in documents.DOCUMENTS[name]]
    optional = [item for item in documents.DOCUMENTS[name] if item.endswith("?")]
    assert set(found["properties"]) - set(found.get("required", ())) == {
        item.rstrip("?") for item in optional
    }


def test_the_event_s_members_are_the_schema_s_in_order():
    event = schema.documents()["event"]
    assert tuple(event["properties"]) == members.EVENT
    assert tuple(event["properties"]["type"]["enum"]) == members.TYPES
    for kind, order in members.PAYLOADS.items():
        assert tuple(event["$defs"][kind]["properties"]) == order, kind


def test_the_codes_and_reasons_are_the_schema_s():
    data = schema.documents()["error"]["properties"]["data"]
    pairs = {
        reason: branch["properties"]["code"]["const"]
        for branch in data["oneOf"]
        for reason in branch["properties"]["reason"]["enum"]
    }
    assert pairs == REASONS
    assert len(data["oneOf"]) == len(CODES)


JSON_TYPES = {"string": "string", "bool": "boolean", "int": "integer", "object": "object",
              "list": "array", "map": "object"}  # fmt: skip


def types(found):
    named = found.get("type")
    if named is None:
        return {"string" for value in found["enum"] if isinstance(value, str)}
    return {named} if isinstance(named, str) else set(named)


def hold_together(method, fields, found, name, path):
    assert list(found["properties"]) == [field.name for field in fields], path
    assert set(found.get("required", ())) == {f.name for f in fields if f.required}, path
    assert found.get("additionalProperties") is (None if method.tolerant else False), path
    for field in fields:
        inner = resolved(found["properties"][field.name], name)
        if field.kind == "reserved":
            assert types(inner) == {"null"}
            continue
        null = not field.required and (
            method.tolerant or (field.kind in ("object", "list", "map") and not method.strict)
        )
        assert types(inner) == {JSON_TYPES[field.kind]} | ({"null"} if null else set()), field.name
        if field.kind == "int":
            assert inner["minimum"] >= field.least and inner["maximum"] <= field.most
        if field.kind == "object" and field.fields:
            hold_together(method, field.fields, inner, name, f"{path}.{field.name}")
        if field.kind == "list":
            item = resolved(inner["items"], name)
            assert types(item) == {JSON_TYPES[field.items]}
            if field.fields:
                hold_together(method, field.fields, item, name, f"{path}.{field.name}[]")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_s_params_are_the_schema_s(name):
    hold_together(METHODS[name], METHODS[name].params, place(f"{name}#params"), name, name)
    assert "result" in schema.documents()[name]["$defs"]


# ---- the same verdicts ----


def taken(check, *given):
    try:
        check(*given)
    except (ValidationError, Refusal):
        return False
    return True


def decodes(name, given):
    params.decode(METHODS[name], given)


@pytest.mark.parametrize("name", METHODS)
def test_schema_and_code_take_every_member(name):
    assert taken(schema.check_request, name, test_params.FULL[name])


# What no schema can say: a title with nothing to show, a bound in bytes.
BEYOND = {"params.title is blank", "params.id is longer than 512 bytes"}


@pytest.mark.parametrize("name,given,message", test_params.MESSAGES)
def test_schema_and_code_refuse_the_same(name, given, message):
    assert taken(schema.check_request, name, given) is (message in BEYOND)


values = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([1.0, 0.5, 2**63, 2**64])
    | st.sampled_from(["", "x", "/x", "a\n", "1", "01", "now", "queue", "interject", "bypass", " "])
    | st.sampled_from([[], [1], ["x"], [None], {}, {"x": 1}, {"q": None}, {"q": ["a"]}, {"q": 1}])
)  # fmt: skip


@given(st.sampled_from(sorted(METHODS)), st.data())
def test_schema_and_code_agree_on_params_gone_wrong(name, data):
    full = test_params.FULL[name]
    changed = {key: value for key, value in full.items() if data.draw(st.integers(0, 5))}
    for key in data.draw(st.lists(st.sampled_from([*full, "zz"]), max_size=2)):
        inner = full.get(key)
        if isinstance(inner, dict) and data.draw(st.booleans()):
            changed[key] = {**inner, data.draw(st.sampled_from([*inner, "zz"])): data.draw(values)}
        else:
            changed[key] = data.draw(values)
    assume(changed.get("title") != " ")  # blank: BEYOND
    assert taken(schema.check_request, name, changed) is taken(decodes, name, changed)


# ---- what the code writes ----

EVENTS = [
    build.text("hi"),
    build.thought("hm", "sub-1"),
    build.user("hi", interjection=True),
    build.tool(members.payload("tool", id="t", output={"exitCode": 0}, task={}), "sub-1"),
    build.todos([members.payload("todo", id="1", content="c", status="pending")]),
    build.todos([]),
    build.opening("permission", members.payload("permission", id="perm-1", tool="x")),
    build.opening("question", members.payload("question", id="a", answers={"q": None, "r": []})),
    build.opening("plan", members.payload("plan", id="plan-1", plan="p", accepted=True)),
    build.ending(
        members.payload("ask", id="perm-1", kind="permission", outcome="automatic", by="policy",
                        body={"permission": {"id": "perm-1"}}), "c-1/1"),
    build.done("end_turn"),
    build.error("no"),
    build.meta({"title": "", "config": {}, "commands": {}, "plugins": {}, "sendNow": {}}),
    build.subagent(members.payload("subagent", id="sub-1", toolsUsed=["x"]), "spawned"),
    build.queue(members.payload("queue", id="q-1", text="t"), "queued", 2, "c-1/2"),
    build.command(members.payload("command", pluginCommand={"plugin": "p"}, text="t")),
    build.foreign_turn({"id": "wake-1", "running": True}),
    build.replay("end"),
    build.turn_started("turn-1", "hi", "submit", "c-1/1"),
    build.turn_ended("turn-1", stopReason="end_turn", pending=1, next="turn-2"),
    build.compaction("ended", reason="auto", tokensBefore=9),
    build.replayed(build.text("old")),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event["type"])
def test_every_event_the_code_makes_is_the_schema_s(event):
    notice = {"subscription": "s-1", "seq": 1, "event": {**event, "at": "2026-01-01T00:00:00Z"}}
    schema.check_notification("event", notice)
    for wrong in ({**notice["event"], "zz": 1}, event, {**notice["event"], "type": "other"},
                  {**notice["event"], "text": ""}):  # fmt: skip
        assert not taken(schema.check_notification, "event", {**notice, "event": wrong})
    assert {made["type"] for made in EVENTS} == set(members.TYPES)


@pytest.mark.parametrize("reason", REASONS)
def test_every_refusal_is_the_schema_s(reason):
    line = envelope.error(b'"1"', Refusal(reason, "m", cause="c", result={}))
    schema.check_line(stdlib.loads(line), {})
    error = Refusal(reason, "m").error()
    error["data"]["reason"] = "other"
    assert not taken(schema.validator("error").validate, error)


# ---- fault B63 ----


def test_b63_what_a_pattern_does_not_match_does_not_pass():
    stop = {"sessionId": "s", "commandId": "1"}
    schema.check_request("session.stop", stop)
    for command in ("1\n", "\n1", "１", "1 ", "01"):
        assert not taken(schema.check_request, "session.stop", {**stop, "commandId": command})
    aside = {"sessionId": "s", "asideId": "a\n"}
    assert not taken(schema.check_request, "session.aside.cancel", aside)


def test_b63_numbers_are_what_json_says():
    def synced(seq):
        return taken(schema.check_result, "session.sync", {"seq": seq})

    assert synced(1)
    for seq in (1.0, True, math.nan, math.inf, "1", -1):
        assert not synced(seq)


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_b63_references_resolve_offline_and_unknown_ones_nowhere(no_network):
    for name in METHODS:
        taken(schema.check_request, name, {})
        taken(schema.check_result, name, {})
    for reference in (
        "missing.json",
        f"{schema.BASE}missing.json",
        "https://json.schemastore.org/x",
    ):
        broken = schema.validator("error").evolve(
            schema={"$id": f"{schema.BASE}broken.json", "$ref": reference}
        )
        with pytest.raises(Unresolvable):
            broken.validate({})


def test_a_line_is_a_request_a_notification_or_one_answer():
    asked = {"1": "session.sync", 2: "session.sync"}
    head = {"jsonrpc": "2.0"}
    good = [
        {**head, "id": "1", "method": "sessions.list"},
        {**head, "id": 2, "result": {"seq": 1}},
        {**head, "method": "synchronized", "params": {"subscription": "s-1", "seq": 0}},
        {**head, "id": None, "error": Refusal("line_too_long", "m").error()},
    ]
    for line in good:
        schema.check_line(line, asked)
        assert not taken(schema.check_line, {**line, "zz": 1}, asked)
    for line in ([], {**head, "id": None, "result": {}}, {**head, "id": 2},
                 {**good[1], "error": good[3]["error"]}, {**good[2], "jsonrpc": "1.0"},
                 {**head, "id": [1], "method": "sessions.list"}):  # fmt: skip
        assert not taken(schema.check_line, line, asked)
    for line in ({**good[0], "method": "zz"}, {**good[1], "id": 9}):
        with pytest.raises(KeyError):
            schema.check_line(line, asked)
    with pytest.raises(KeyError):
        schema.validator("hello", "zz")


# ---- recordings of another build ----

RECORDED = Path(__file__).parents[4] / "shared"


def recordings():
    return sorted((RECORDED / "wire").glob("*.ndjson")) + sorted(
        (RECORDED / "lane").glob("*.ndjson")
    )


@pytest.mark.skipif(not recordings(), reason=f"no recordings in {RECORDED}")
def test_recorded_lines_are_judged_as_they_are_marked():
    for path in recordings():
        asked = {}
        for text in path.read_text(encoding="utf-8").splitlines():
            step = stdlib.loads(text.replace('"HUB-ID"', '"0123456789ab"'))
            line, connection = step.get("msg"), step.get("conn")
            if line is None:
                continue
            if "method" in line and "id" in line:
                asked[connection, line["id"]] = line["method"]
            own = {id: method for (conn, id), method in asked.items() if conn == connection}
            try:
                good = taken(schema.check_line, line, own)
            except KeyError:
                good = False
            assert good is not step.get("invalid", False), (path.name, line)
