"""Reading with tolerance what comes in, and with none what goes out."""

import dataclasses

import pytest

from craze.wire import json
from craze_shed.contract import (
    answers,
    approvals,
    capabilities,
    creating,
    frames,
    rows,
    sessions,
    settings,
    slash,
)  # fmt: skip
from craze_shed.contract.codec import ContractError, Document

SESSION = {
    "id": "0123456789ab", "title": "t", "cwd": "/w", "activity": "idle", "pending_approvals": 0,
    "approximate": False,
}  # fmt: skip


def refused(read, value):
    with pytest.raises(ContractError) as caught:
        read(value)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def test_an_unknown_field_is_ignored_inbound():
    assert sessions.LaneSession.from_wire({**SESSION, "mood": 3}).to_wire() == SESSION


def test_an_absent_list_is_empty_and_an_absent_option_is_not_written():
    made = settings.LaneSettings.from_wire({})
    assert made == settings.LaneSettings()
    assert json.dumps(made.to_wire()) == b'{"models":[],"modes":[],"options":[]}'


def test_null_is_the_same_as_absent_where_absence_is_allowed():
    given = {**SESSION, "doing": None}
    assert sessions.LaneSession.from_wire(given).doing is None


def test_keys_are_written_in_the_order_of_the_contract():
    full = sessions.LaneSession(
        **SESSION, parent_id="p", last_change_unix_ms=-1, provider="gx", model="m", doing="d",
        head_ask_summary="h", last_reply="r", since_unix_ms=2, attached=3, start_error="e",
        provider_session_id="ps", permission_mode="bypass", tab_id=4,
    )  # fmt: skip
    assert list(full.to_wire()) == [field.name for field in dataclasses.fields(full)]
    assert sessions.LaneSession.from_wire(full.to_wire()) == full


def test_the_default_session_is_empty_and_unknown():
    assert sessions.LaneSession().to_wire() == {
        "id": "", "title": "", "cwd": "", "activity": "unknown", "pending_approvals": 0,
        "approximate": False,
    }  # fmt: skip


@pytest.mark.parametrize("missing", SESSION)
def test_a_session_says_all_that_is_required(missing):
    given = {name: value for name, value in SESSION.items() if name != missing}
    assert refused(sessions.LaneSession.from_wire, given) == f"LaneSession.{missing}: missing"


@pytest.mark.parametrize("name,value,problem", [
    ("title", 3, "expected a string, got an integer"),
    ("title", None, "expected a string, got null"),
    ("approximate", "no", "expected true or false, got a string"),
    ("approximate", 0, "expected true or false, got an integer"),
    ("pending_approvals", True, "expected an integer, got a boolean"),
    ("pending_approvals", 1.0, "expected an integer, got a number"),
    ("pending_approvals", -1, "expected an integer of 0 to 4294967295, got -1"),
    ("pending_approvals", 2**32, "expected an integer of 0 to 4294967295, got 4294967296"),
    ("doing", ["x"], "expected a string, got a list"),
    ("since_unix_ms", {}, "expected an integer, got an object"),
])  # fmt: skip
def test_a_known_field_of_the_wrong_type_is_an_error(name, value, problem):
    given = {**SESSION, name: value}
    assert refused(sessions.LaneSession.from_wire, given) == f"LaneSession.{name}: {problem}"


def test_a_failure_says_where_it_is():
    approval = {
        "id": "a", "session_id": "s", "kind": "question", "status": "pending", "title": "t",
        "request_json": "{}", "questions": [
            {"header": "", "question": "?", "options": [{"id": "1", "label": "l"}, {"id": "2"}]},
        ],
    }  # fmt: skip
    assert refused(approvals.LaneApproval.from_wire, approval) == (
        "LaneApproval.questions[0].options[1].label: missing"
    )


@pytest.mark.parametrize("value,came", [
    (None, "null"), ([], "a list"), ("x", "a string"), (1, "an integer"), (1.5, "a number"),
    (True, "a boolean"),
])  # fmt: skip
def test_what_is_no_object_is_no_document(value, came):
    assert refused(settings.LaneSettings.from_wire, value) == (
        f"LaneSettings: expected an object, got {came}"
    )


def test_a_list_is_not_null():
    assert refused(settings.LaneSettings.from_wire, {"models": None}) == (
        "LaneSettings.models: expected a list, got null"
    )


def test_an_unknown_activity_reads_as_unknown():
    assert sessions.LaneSession.from_wire({**SESSION, "activity": "napping"}).activity == "unknown"


@pytest.mark.parametrize("word", ["working", "needs_input", "needs_approval", "idle", "unknown"])
def test_a_known_activity_is_kept(word):
    assert sessions.LaneSession.from_wire({**SESSION, "activity": word}).activity == word


@pytest.mark.parametrize("value,word", [
    ("ready", "ready"), ("asleep", "asleep"), (3, "3"), (None, "null"), ({"a": [1]}, '{"a":[1]}'),
])  # fmt: skip
def test_a_word_of_an_open_set_is_kept_whatever_it_came_as(value, word):
    provider = creating.LaneProvider.from_wire({"id": "p", "label": "P", "state": value})
    assert provider.state == word


def test_an_older_capability_is_ignored_and_newer_ones_default_to_false():
    given = {
        "kind": "craze", "interject": True, "cancel": True, "approvals": True,
        "history_cursor": True, "create": True,
    }  # fmt: skip
    made = capabilities.LaneCapabilities.from_wire(given)
    assert not made.settings and not made.stop
    assert "create" not in made.to_wire()


def test_a_create_request_is_strict():
    good = {"cwd": "/w", "request_id": "r", "title": "t"}
    assert creating.LaneCreateRequest.from_wire(good).to_wire() == good
    assert refused(creating.LaneCreateRequest.from_wire, {**good, "model": "m"}) == (
        "LaneCreateRequest.model: unknown field"
    )
    assert refused(creating.LaneCreateRequest.from_wire, {"cwd": "/w"}) == (
        "LaneCreateRequest.request_id: missing"
    )


def test_a_strict_document_that_holds_what_it_may_not_is_not_written():
    wrong = creating.LaneCreateRequest(cwd=3, request_id="r")  # type: ignore[arg-type]
    assert refused(lambda _: wrong.to_wire(), None) == (
        "LaneCreateRequest.cwd: expected a string, got an integer"
    )


def test_what_a_create_gives_back():
    created = {"session": SESSION, "prompt": "mislaid", "prompt_error": "why"}
    assert creating.LaneCreated.from_wire(created).to_wire() == created
    saved = {
        "sessions": [{
            "id": "i", "provider": "gx", "provider_session_id": "p", "workspace": "/w",
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z",
        }],
        "more": True,
    }  # fmt: skip
    assert creating.LaneSavedList.from_wire(saved).to_wire() == saved
    reopened = {"session": SESSION, "joined": False}
    assert creating.LaneReopened.from_wire(reopened).to_wire() == reopened
    options = {"providers": [], "recent_dirs": ["/b", "/a"], "reopen": False}
    assert creating.LaneCreateOptions.from_wire(options).to_wire() == options


def test_request_ids():
    minted = {creating.new_request_id() for _ in range(50)}
    assert len(minted) == 50
    for request_id in (*minted, "a", "A.b_c-9", "x" * 64):
        creating.check_request_id(request_id)


@pytest.mark.parametrize("request_id", ["", "x" * 65, "a b", "é", "a\n", "a/b"])
def test_a_request_id_that_craze_would_refuse_is_refused_here(request_id):
    with pytest.raises(Exception) as caught:
        creating.check_request_id(request_id)
    assert caught.value.code == "bad_request"
    assert str(caught.value) == (
        f'request id "{request_id}" is not craze\'s form (1–64 of [A-Za-z0-9._-]); '
        "mint one with new_request_id"
    )


MODULES = (answers, approvals, capabilities, creating, frames, rows, sessions, settings, slash)
DOCUMENTS = {
    one
    for module in MODULES
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Document)
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.__qualname__)
def test_every_document_is_a_frozen_value(document):
    assert document.__dataclass_params__.frozen and "__slots__" in vars(document)
