"""Params: what each method takes, in the order and with the words of the tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire import json, limits, params
from craze.wire.codes import Refusal
from craze.wire.methods import METHODS

S = {"sessionId": "s"}
C = {"sessionId": "s", "commandId": "1"}

# One request of each method with every member it can have, and what it decodes to where that
# differs.
FULL = {
    "hello": {
        "protocols": [1, 2],
        "client": {"kind": "test", "name": "n", "version": "v", "capabilities": {}},
        "auth": None, "via": None,
        "resume": {"clientId": "c-1", "token": "t"},
    },
    "sessions.list": {},
    "session.attach": {
        **S, "cursor": {"incarnation": "i", "seq": 0}, "when": "now",
        "budget": {"maxItems": 1, "maxBytes": 1, "snapshotBytes": 1},
    },
    "session.detach": {**S, "subscription": "s-1"},
    "session.state": S,
    "session.snapshot": {**S, "agentId": "", "budget": {"snapshotBytes": 9}},
    "session.sync": S,
    "session.prompt": {**C, "text": "hi", "fromRow": "q-1", "mode": "queue"},
    "session.cancel": {**C, "turnId": "turn-1"},
    "session.disarm": C,
    "session.queue.add": {**C, "text": ""},
    "session.queue.edit": {**C, "rowId": "q-1", "text": "t", "expectedVersion": 0},
    "session.queue.remove": {**C, "rowId": "q-1"},
    "session.queue.clear": C,
    "session.set": {**C, "setting": {"kind": "config", "id": "e", "value": "", "forModel": "m"}},
    "session.setTitle": {**C, "title": "Title"},
    "session.subagent.cancel": {**C, "agentId": "a"},
    "session.stop": C,
    "session.models.refresh": {**S, "nativeDir": "/n"},
    "session.aside": {
        **S, "asideId": "a-1", "question": "why", "prior": [{"question": "q", "answer": "a"}],
    },
    "session.aside.cancel": {**S, "asideId": "a.b_c-1"},
    "asks.list": S,
    "asks.get": {**S, "askId": "perm-1"},
    "asks.answer": {
        **C, "askId": "ask-1",
        "answer": {
            "optionId": "o", "cancel": True, "answers": {"q": ["o"], "r": [], "s": None},
            "skip": False, "accept": True, "reject": False,
        },
    },
    "sessions.subscribe": {},
    "session.connect": {"sessionId": "s"},
    "session.create": {
        "cwd": "/a", "prompt": "p", "provider": "cursor", "model": "m", "effort": "low",
        "fast": False, "permissionMode": "prompt", "requestId": "r.1_-", "title": "Title",
    },
    "sessions.createOptions": {},
    "sessions.saved": {"workspace": "/w", "limit": 200, "subagents": True},
    "session.reopen": {"id": "cursor:x"},
}  # fmt: skip


def decode(name, given, **options):
    return params.decode(METHODS[name], given, **options)


def refused(name, given, **options):
    with pytest.raises(Refusal) as caught:
        decode(name, given, **options)
    assert (caught.value.rpc, caught.value.code) == (-32602, "bad_request")
    return caught.value.reason, caught.value.message


def test_every_method_takes_all_its_members():
    assert set(FULL) == set(METHODS)
    for name, full in FULL.items():
        expected = {key: value for key, value in full.items() if value is not None}
        assert decode(name, full) == expected


@pytest.mark.parametrize("name", METHODS)
def test_what_is_not_required_may_be_absent(name):
    required = {field.name for field in METHODS[name].params if field.required}
    given = {key: value for key, value in FULL[name].items() if key in required}
    assert decode(name, given) == given
    if not required:
        assert decode(name, json.ABSENT) == {}


@pytest.mark.parametrize("name", METHODS)
def test_what_is_required_is_missed(name):
    for field in METHODS[name].params:
        if not field.required:
            continue
        given = {key: value for key, value in FULL[name].items() if key != field.name}
        reason, message = refused(name, given)
        assert reason == "bad_request"
        assert " is required" in message and message.startswith(f"params.{field.name}")


@pytest.mark.parametrize("name", METHODS)
def test_an_unknown_member_is_refused_at_any_depth_but_in_hello(name):
    given = {**FULL[name], "zz": 1, "unheard": 2}
    if name == "hello":
        assert decode(name, {**given, "client": {"kind": "x", "new": 1}})["client"] == {"kind": "x"}
        return
    assert refused(name, given) == ("unknown_field", "unknown field params.unheard")
    for field in METHODS[name].params:
        if not field.fields:
            continue
        value = FULL[name][field.name]
        if field.kind == "list":
            inner, path = [{**value[0], "zz": 1}], f"params.{field.name}[0].zz"
        else:
            inner, path = {**value, "zz": 1}, f"params.{field.name}.zz"
        assert refused(name, {**FULL[name], field.name: inner}) == (
            "unknown_field", f"unknown field {path}",
        )  # fmt: skip


OTHERS = {"string": "x", "bool": True, "int": 3, "object": {}, "list": [], "map": {}}


@pytest.mark.parametrize("name", METHODS)
def test_a_member_of_another_type_is_refused(name):
    for field in METHODS[name].params:
        if field.kind == "reserved":
            continue
        same = {
            field.kind,
            "object" if field.kind == "map" else "",
            "map" if field.kind == "object" else "",
        }
        for kind, value in OTHERS.items():
            if kind not in same:
                message = refused(name, {**FULL[name], field.name: value})[1]
                assert message.startswith(f"params.{field.name} must be ")


@pytest.mark.parametrize("name", METHODS)
def test_null_is_absent_for_optional_objects_and_lists_alone(name):
    method = METHODS[name]
    for field in method.params:
        given = {**FULL[name], field.name: None}
        optional = not field.required and field.kind in ("object", "list", "map", "reserved")
        if optional and not method.strict:
            assert field.name not in decode(name, given)
        elif name == "hello":
            assert " is required" in refused(name, given)[1]
        else:
            assert refused(name, given)[1] == f"params.{field.name} must not be null"


def test_params_are_an_object():
    for value, said in ((None, "null"), ([], "an array"), ("x", "a string"), (1, "a number"),
                        (1.5, "a number"), (False, "a boolean")):  # fmt: skip
        assert refused("session.state", value) == (
            "bad_request", f"params must be an object, not {said}",
        )  # fmt: skip


MESSAGES = [
    ("hello", {}, "params.protocols is required: every protocol version the client speaks"),
    ("hello", {"protocols": []},
     "params.client.kind is required"),
    ("hello", {"protocols": [], "client": {"kind": "x"}},
     "params.protocols is required: every protocol version the client speaks"),
    ("hello", {"protocols": [1]}, "params.client.kind is required"),
    ("hello", {"protocols": [1], "client": {}}, "params.client.kind is required"),
    ("hello", {"protocols": [1], "client": {"kind": ""}}, "params.client.kind is required"),
    ("hello", {"protocols": [1.0], "client": {"kind": "x"}},
     "params.protocols[0] must be an integer"),
    ("hello", {"protocols": [0], "client": {"kind": "x"}}, "params.protocols[0] is out of range"),
    ("hello", {"protocols": [1], "client": {"kind": "x"}, "auth": False},
     "params.auth is reserved and must be absent or null in protocol 1"),
    ("hello", {"protocols": [1], "client": {"kind": "x"}, "via": {}},
     "params.via is reserved and must be absent or null in protocol 1"),
    ("hello", {"protocols": [1], "client": {"kind": "x"}, "resume": {"clientId": "c-1"}},
     "params.resume.token is required"),
    ("session.prompt", {**C, "commandId": "01", "mode": "x"},
     'params.commandId "01" is not a canonical positive decimal'),
    ("session.prompt", {**C, "mode": "x"}, 'params.mode "x" is none of queue, send_now, interject'),
    ("session.prompt", {**C, "mode": "interject", "fromRow": "q-1"},
     "params.fromRow cannot go with mode interject: an interjection takes text"),
    ("session.attach", {**S, "when": "la\nter"}, 'params.when "la\\nter" is neither ready nor now'),
    ("session.attach", {**S, "budget": {"maxItems": 0}},
     "params.budget's members must be positive"),
    ("session.attach", {**S, "budget": {"maxBytes": -1}},
     "params.budget's members must be positive"),
    ("session.attach", {**S, "cursor": {"incarnation": "i", "seq": -1}},
     "params.cursor.seq is out of range"),
    ("session.attach", {**S, "cursor": {"incarnation": "i", "seq": 1.0}},
     "params.cursor.seq must be an integer"),
    ("session.attach", {**S, "cursor": {"incarnation": "i", "seq": True}},
     "params.cursor.seq must be an integer"),
    ("session.attach", {**S, "cursor": {"seq": 1}}, "params.cursor.incarnation is required"),
    ("session.snapshot", {**S, "budget": {"snapshotBytes": 0}},
     "params.budget.snapshotBytes must be positive"),
    ("session.snapshot", {**S, "budget": {"maxItems": 1}}, "unknown field params.budget.maxItems"),
    ("session.set", {**C, "setting": {"kind": "x", "value": ""}},
     'params.setting.kind "x" is none of model, mode, config'),
    ("session.set", {**C, "setting": {"kind": "mode"}}, "params.setting.value is required"),
    ("session.setTitle", {**C, "title": " \x1b[31m\n"}, "params.title is blank"),
    ("session.queue.edit", {**C, "rowId": "q", "text": "", "expectedVersion": -1},
     "params.expectedVersion is out of range"),
    ("session.models.refresh", {**S, "nativeDir": ""}, "params.nativeDir must not be empty"),
    ("session.models.refresh", {**S, "nativeDir": "a/b"},
     'params.nativeDir "a/b" is not an absolute path'),
    ("session.models.refresh", {**S, "nativeDir": "/" + "x" * 4096},
     "params.nativeDir is longer than 4096 characters"),
    ("session.aside", {**S, "asideId": "a b", "question": "q"},
     "params.asideId must be 1-64 of [A-Za-z0-9._-]"),
    ("session.aside", {**S, "asideId": "a\n", "question": "q"},
     "params.asideId must be 1-64 of [A-Za-z0-9._-]"),
    ("session.aside", {**S, "asideId": "a", "question": ""}, "params.question must not be empty"),
    ("session.aside", {**S, "asideId": "a", "question": "q",
                       "prior": [{"question": "q", "answer": "a"}] * 21},
     "params.prior holds more than 20 pairs"),
    ("session.aside", {**S, "asideId": "a", "question": "q", "prior": [1]},
     "params.prior[0] must be an object"),
    ("session.aside.cancel", {**S, "asideId": ""}, "params.asideId must be 1-64 of [A-Za-z0-9._-]"),
    ("asks.answer", {**C, "askId": "a", "answer": {"answers": {"q": "x"}}},
     "params.answer.answers.q must be an array"),
    ("asks.answer", {**C, "askId": "a", "answer": {"answers": {"q": [1]}}},
     "params.answer.answers.q must hold strings"),
    ("asks.answer", {**C, "askId": "a", "answer": None}, "params.answer must not be null"),
    ("session.connect", {}, "params.sessionId is required: the session to connect to"),
    ("session.connect", {"sessionId": 1}, "params.sessionId must be a string"),
    ("session.connect", {"sessionId": ""}, "params.sessionId must not be empty"),
    ("session.create", {}, "params.cwd is required: the session's directory"),
    ("session.create", {"cwd": ""}, "params.cwd must not be empty"),
    ("session.create", {"cwd": "/" + "x" * 4096}, "params.cwd is longer than 4096 characters"),
    ("session.create", {"cwd": "a"}, 'params.cwd "a" is not an absolute path'),
    ("session.create", {"cwd": "/a\x85"}, "params.cwd holds a control character"),
    ("session.create", {"cwd": "/a", "model": "m\n"}, "params.model holds a control character"),
    ("session.create", {"cwd": "/a", "prompt": ""}, "params.prompt must not be empty"),
    ("session.create", {"cwd": "/a", "prompt": " \n"},
     "params.prompt is blank: send none instead"),
    ("session.create", {"cwd": "/a", "provider": "x" * 65},
     "params.provider is longer than 64 characters"),
    ("session.create", {"cwd": "/a", "model": "x" * 257},
     "params.model is longer than 256 characters"),
    ("session.create", {"cwd": "/a", "effort": "x" * 65},
     "params.effort is longer than 64 characters"),
    ("session.create", {"cwd": "/a", "fast": 1}, "params.fast must be true or false"),
    ("session.create", {"cwd": "/a", "permissionMode": "x"},
     "params.permissionMode must be bypass or prompt"),
    ("session.create", {"cwd": "/a", "requestId": "x" * 65},
     "params.requestId must be 1-64 of [A-Za-z0-9._-]"),
    ("session.create", {"cwd": "/a", "title": "\u200b"}, "params.title is blank"),
    ("sessions.saved", {"workspace": ""}, "params.workspace must not be empty"),
    ("sessions.saved", {"workspace": "w"}, 'params.workspace "w" is not an absolute path'),
    ("sessions.saved", {"limit": 0}, "params.limit must be 1 to 200"),
    ("sessions.saved", {"limit": 201}, "params.limit must be 1 to 200"),
    ("sessions.saved", {"limit": 5e1}, "params.limit must be an integer"),
    ("sessions.saved", {"limit": "5"}, "params.limit must be an integer"),
    ("session.reopen", {"id": ""}, "params.id must not be empty"),
    ("session.reopen", {"id": "é" * 257}, "params.id is longer than 512 bytes"),
]  # fmt: skip


@pytest.mark.parametrize("name,given,message", MESSAGES)
def test_refusals_in_their_own_words(name, given, message):
    reason, said = refused(name, given)
    assert said == message
    assert reason == ("unknown_field" if message.startswith("unknown field") else "bad_request")


@pytest.mark.parametrize("command,good", [
    ("1", True), ("18446744073709551615", True), ("18446744073709551616", False), ("0", False),
    ("", False), ("01", False), ("+1", False), (" 1", False), ("1\n", False), ("1.0", False),
    ("１", False), ("1" * 21, False),
])  # fmt: skip
def test_b63_a_command_id_is_canonical(command, good):
    assert params.canonical(command) is good


def test_a_title_comes_normalized_and_a_directory_cleaned():
    assert decode("session.setTitle", {**C, "title": " a\n\tb "})["title"] == "a b"
    args = decode("session.create", {"cwd": "//a/./b/../c/", "title": "\x1b[1mX"})
    assert args == {"cwd": "/a/c", "title": "X"}


def test_b61_a_member_given_twice():
    twice = json.parse(b'{"id":"a","id":"b"}', duplicates=True)
    assert refused("session.reopen", twice) == ("bad_request", "params.id is given twice")


def test_a_method_s_own_rules_can_wait_and_members_be_left_out():
    given = {**S, "nativeDir": ""}
    assert decode("session.models.refresh", given, rules=False) == given
    assert refused("session.models.refresh", {**S, "nativeDir": 1}, rules=False)
    given = {"cwd": "/a", "title": "t"}
    assert refused("session.create", given, without=("title",)) == (
        "unknown_field", "unknown field params.title",
    )  # fmt: skip


def test_protocol_versions_are_agreed_or_refused():
    assert params.agree([3, 1], "host") == 1
    with pytest.raises(Refusal) as caught:
        params.agree([2], "hub")
    assert (caught.value.rpc, caught.value.reason) == (-32000, "protocol_version")
    assert caught.value.result == {"supported": [1]}
    assert caught.value.message == "no protocol version in common: this hub speaks [1]"


def test_the_texts_of_a_side_question_are_bounded_in_bytes():
    at = {"question": "é" * (limits.ASIDE_QUESTION // 2),
          "prior": [{"question": "q", "answer": "a" * limits.ASIDE_ANSWER}]}  # fmt: skip
    params.aside_bounds(at)
    for over in (
        {"question": at["question"] + "x"},
        {"question": "q", "prior": [{"question": at["question"] + "x", "answer": ""}]},
        {"question": "q", "prior": [{"question": "", "answer": "a" * (limits.ASIDE_ANSWER + 1)}]},
    ):
        with pytest.raises(Refusal) as caught:
            params.aside_bounds(over)
        assert caught.value.code == "text_too_long"


def digest(name, **given):
    return params.payload_hash(name, {**C, **given})


def test_the_payload_hash_sees_the_payload_and_nothing_else():
    add = digest("session.queue.add", text="x")
    assert digest("session.queue.add", text="x", commandId="9", sessionId="t") == add
    assert digest("session.queue.add", text="y") != add
    assert digest("session.queue.remove", text="x") != add
    assert digest("session.cancel") == digest("session.cancel", turnId="")
    edit = {"rowId": "q", "text": "t"}
    assert digest("session.queue.edit", **edit) != digest(
        "session.queue.edit", expectedVersion=0, **edit
    )
    big = "x" * 100_000
    assert len(digest("session.queue.add", text=big)) == 64
    assert digest("session.queue.add", text=big) != digest("session.queue.add", text=big + "x")


def test_the_payload_hash_of_answers():
    def answered(**answer):
        return digest("asks.answer", askId="ask-1", answer=answer)

    one = answered(answers={"a": ["x"], "b": None})
    assert one == answered(answers={"b": [], "a": ["x"]}, skip=False)
    assert one != answered(answers={"a": ["x"]})
    assert answered(answers={"a": ["x", "y"]}) != answered(answers={"a": ["y", "x"]})
    assert answered(optionId='a","b') != answered(optionId="a", cancel=True)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["kind", "seq", "answers", "value"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(METHODS)), st.data())
def test_nothing_but_a_refusal_comes_of_any_params(name, data):
    given = dict(FULL[name])
    for key in data.draw(st.lists(st.sampled_from([*given, "other"]), max_size=3)):
        given[key] = data.draw(values)
    try:
        args = decode(name, given)
    except Refusal as refusal:
        assert refusal.rpc == -32602 and refusal.code == "bad_request"
    else:
        assert args.keys() <= {field.name for field in METHODS[name].params}
        assert isinstance(params.payload_hash(name, args), str)
        assert decode(name, args) == args
