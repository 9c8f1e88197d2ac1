"""A session that is coming up, as the hub sees it: reached, started, prompted, read, stopped."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest

from craze.client.errors import Refused
from craze.hub import start
from craze.hub.link import Link, Lost, NoAnswer
from craze.wire import params, schema
from craze.wire.codes import Refusal
from craze.wire.methods import METHODS
from tests.unit.hub.hosts import (
    CLOSING,
    NO_SESSION,
    NOT_STARTED,
    PATIENCE,
    SESSION,
    Machine,
    Played,
    machines,
    until,
)
from tests.unit.hub.stand_in import VERSION, refused, row

SHORT = 0.1
HELLO = {"result": {"endpoint": {"crazeVersion": "1"}}}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    yield from machines(monkeypatch)


def reached(host: Played) -> Link:
    return start.reach(host.listing.socket, PATIENCE)


def slow(answer: Any, seconds: float = SHORT) -> Callable[[dict[str, Any]], Any]:
    def answered(params: dict[str, Any]) -> Any:
        gevent.sleep(seconds)
        return answer

    return answered


def test_what_is_asked_is_what_a_host_takes(machine: Machine) -> None:
    host = machine.host()
    with reached(host) as link:
        assert start.up(link, SESSION, PATIENCE, bound=60) == "s-7"
        start.prompt(link, SESSION, "s-7", "go")
    start.stop(host.listing.socket, SESSION)
    start.Fresh(machine.paths, host.entry, "")
    until(lambda: host.methods.count("end") == 3)
    asked = [request for request in host.requests if request[0] != "end"]
    for method, given in asked:
        params.decode(METHODS[method], given)
        schema.check_request(method, given)
    hello = ("hello", {"protocols": [1], "client": {"kind": "hub", "name": "craze hub create"}})
    command = {"sessionId": SESSION, "commandId": "1"}
    assert asked == [
        hello,
        (
            "session.attach",
            {"sessionId": SESSION, "when": "ready", "budget": {"snapshotBytes": 65536}},
        ),
        ("session.prompt", {**command, "text": "go", "mode": "queue"}),
        ("session.detach", {"sessionId": SESSION, "subscription": "s-7"}),
        hello,
        ("session.stop", command),
        hello,
        ("sessions.list", {}),
    ]


# ---- reach ----


def test_a_host_is_reached_with_its_version(machine: Machine) -> None:
    with reached(machine.host()) as link:
        assert link.version == VERSION


def test_nothing_listens(machine: Machine) -> None:
    with pytest.raises(Lost):
        start.reach(str(machine.root / "none.sock"), PATIENCE)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [("silent", NoAnswer), ("close", Lost), ({"result": 1}, Lost), (CLOSING, Refused)],
)
def test_a_host_that_says_no_hello(machine: Machine, answer: Any, kind: type[Exception]) -> None:
    host = machine.host(answers={"hello": answer})
    with pytest.raises(kind):
        start.reach(host.listing.socket, SHORT if answer == "silent" else PATIENCE)
    if answer != "close":
        until(lambda: host.methods == ["hello", "end"])


# ---- the start ----


def test_a_start_that_is_answered_late_is_waited_for(machine: Machine) -> None:
    host = machine.host(answers={"session.attach": slow({"result": {"subscription": "s-9"}})})
    with reached(host) as link:
        assert start.up(link, SESSION, PATIENCE, bound=60) == "s-9"


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (NOT_STARTED, "no key"),
        (refused("not_accepting", "start_failed", "the words"), "the words"),
        (
            refused(
                "not_accepting",
                "start_failed",
                "the session failed to start: x",
                cause="acp: agent exited: exit status 1: Error: Your macOS login keychain is"
                " locked. / Run security unlock-keychain and try again.",
            ),
            "acp: agent exited: exit status 1: Error: Your macOS login keychain is locked. / Run"
            " security unlock-keychain and try again.",
        ),
    ],
)
def test_b43_a_start_that_failed_is_told_with_its_cause(
    machine: Machine, answer: Any, cause: str
) -> None:
    host = machine.host(answers={"session.attach": answer})
    with reached(host) as link, pytest.raises(Refusal) as caught:
        start.up(link, SESSION, PATIENCE, bound=60)
    assert caught.value.error() == {
        "code": -32000,
        "message": f"the session did not start: {cause}",
        "data": {"code": "not_accepting", "reason": "start_failed", "cause": cause},
    }


@pytest.mark.parametrize(("bound", "words"), [(60.0, "1m0s"), (150.0, "2m30s")])
def test_b43_a_start_that_does_not_end_is_told_with_its_bound(
    machine: Machine, bound: float, words: str
) -> None:
    host = machine.host(answers={"session.attach": "silent"})
    with reached(host) as link, pytest.raises(Refusal) as caught:
        start.up(link, SESSION, SHORT, bound=bound)
    message = f"the session did not start within {words}"
    assert caught.value.error()["message"] == message
    assert (caught.value.reason, caught.value.cause) == ("start_failed", message)


def test_a_session_too_large_to_tell_is_up(machine: Machine) -> None:
    host = machine.host(answers={"session.attach": refused("failed", "snapshot_too_large")})
    with reached(host) as link:
        assert start.up(link, SESSION, PATIENCE, bound=60) == ""
        start.leave(link, SESSION, "")
    assert "session.detach" not in host.methods


@pytest.mark.parametrize(
    ("answer", "kind"), [(CLOSING, Refused), (NO_SESSION, Refused), ("close", Lost)]
)
def test_a_host_that_goes_before_the_start_is_no_failed_start(
    machine: Machine, answer: Any, kind: type[Exception]
) -> None:
    host = machine.host(answers={"session.attach": answer})
    with reached(host) as link, pytest.raises(kind):
        start.up(link, SESSION, PATIENCE, bound=60)


# ---- the first prompt ----


def prompted(machine: Machine, answer: Any, text: str = "go") -> tuple[tuple[str, str], list[str]]:
    """What became of a prompt, and what the host was asked."""
    host = machine.host(answers={"session.prompt": answer})
    with reached(host) as link:
        outcome = start.prompt(link, SESSION, "s-7", text)
    until(lambda: answer == "close" or host.methods[-1] == "end")
    return outcome, host.methods


def test_an_accepted_prompt(machine: Machine) -> None:
    outcome, asked = prompted(machine, {"result": {}})
    assert outcome == ("accepted", "")
    assert asked == ["hello", "session.prompt", "session.detach", "end"]


def test_no_prompt(machine: Machine) -> None:
    outcome, asked = prompted(machine, "silent", "")
    assert outcome == ("none", "")
    assert asked == ["hello", "session.detach", "end"]


def test_a_refused_prompt(machine: Machine) -> None:
    answer = refused("queue_full", message="agent: queue is full")
    outcome, asked = prompted(machine, answer)
    assert outcome == ("refused", "agent: queue is full")
    assert asked == ["hello", "session.prompt", "session.detach", "end"]


def test_b10_a_prompt_without_an_answer_is_unknown_and_never_sent_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "CREATE_PROMPT", SHORT)
    outcome, asked = prompted(machine, "silent")
    assert outcome == ("unknown", "no answer to the prompt within 0.1s")
    assert asked == ["hello", "session.prompt", "end"]  # closed at once, with no detach


def test_the_words_of_a_late_prompt() -> None:
    assert f"no answer to the prompt within {start.CREATE_PROMPT:g}s".endswith("within 15s")


def test_b09_a_prompt_whose_answer_was_lost_is_unknown_and_never_sent_again(
    machine: Machine,
) -> None:
    outcome, asked = prompted(machine, "close")
    assert outcome[0] == "unknown"
    assert outcome[1].startswith("the answer to the prompt was lost: ")
    assert asked == ["hello", "session.prompt"]


@pytest.mark.parametrize("answer", ["silent", "close", refused("bad_request")])
def test_a_detach_that_goes_wrong_harms_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setattr(start, "CREATE_DETACH", SHORT)
    host = machine.host(answers={"session.detach": answer})
    with reached(host) as link:
        assert start.prompt(link, SESSION, "s-7", "go") == ("accepted", "")


# ---- the stop ----


def test_dial_hello_and_stop_have_one_bound_together(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "SPAWN_STOP", 5 * SHORT)
    ended: list[str] = []

    def stopped(params: dict[str, Any]) -> Any:
        gevent.sleep(4 * SHORT)
        ended.append("stop")
        return {"result": {}}

    host = machine.host(answers={"hello": slow(HELLO, 4 * SHORT), "session.stop": stopped})
    start.stop(host.listing.socket, SESSION)
    assert not ended


def test_a_host_that_is_not_there_is_not_stopped(machine: Machine) -> None:
    start.stop(str(machine.root / "none.sock"), SESSION)


# ---- the row ----


def fresh(machine: Machine, host: Played) -> tuple[start.Fresh, dict[str, Any]]:
    known = host.entry
    read = start.Fresh(machine.paths, known, "known")
    return read, json.loads(read.line)


def test_a_row_is_read_as_its_host_wrote_it(machine: Machine) -> None:
    own = row(SESSION, title="<é>", cost=1.50)
    host = machine.host(
        answers={"sessions.list": {"result": {"sessions": [own]}}},
        provider="grok",
        workspace="/w",
    )
    read, line = fresh(machine, host)
    assert line == {
        "hostId": host.id,
        "sessionId": SESSION,
        "host": {
            "pid": os.getpid(), "protocol": 1, "crazeVersion": VERSION, "provider": "grok",
            "workspace": "/w", "startedAt": "2026-01-01T00:00:00Z", "ready": True,
        },
        "status": "reachable",
        "approximate": False,
        "row": own,
    }  # fmt: skip
    assert json.loads(read.row) == own
    assert (read.session, read.version, read.entry) == (SESSION, VERSION, host.entry)


@pytest.mark.parametrize(
    "answer",
    [
        "silent",
        "close",
        refused("unavailable", "busy"),
        {"result": {}},
        {"result": {"sessions": []}},
        {"result": {"sessions": [row(SESSION), row("another")]}},
        {"result": {"sessions": [1]}},
    ],
)
def test_a_row_that_is_not_read_is_made_of_the_registry(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    if answer == "silent":
        monkeypatch.setattr(start, "CREATE_ROW", SHORT)
    read, line = fresh(machine, machine.host(answers={"sessions.list": answer}))
    assert (line["sessionId"], line["approximate"]) == (SESSION, True)
    assert "row" not in line and read.row == b""
    assert read.session == SESSION


def test_a_host_that_cannot_be_reached_has_the_row_of_what_is_known(machine: Machine) -> None:
    host = machine.host(provider="grok")
    known = host.entry._replace(workspace="/known")
    host.close()
    read = start.Fresh(machine.paths, known, "1.2")
    line = json.loads(read.line)
    assert (line["host"]["workspace"], line["host"]["crazeVersion"]) == ("/known", "1.2")
    assert line["status"] == "unreachable" and line["approximate"]
    assert (read.entry, read.session) == (known, SESSION)


def test_the_registry_is_read_after_the_host(machine: Machine) -> None:
    host = machine.host()
    known = host.entry

    def answered(params: dict[str, Any]) -> Any:
        host.listing.update(workspace="/later")
        return {"result": {"sessions": [row(SESSION)]}}

    host.answer(sessions_list=answered)
    read = start.Fresh(machine.paths, known, "")
    assert json.loads(read.line)["host"]["workspace"] == "/later"


def test_host_and_registry_that_name_two_sessions_name_none(machine: Machine) -> None:
    host = machine.host(answers={"sessions.list": {"result": {"sessions": [row("another")]}}})
    assert start.Fresh(machine.paths, host.entry, "").session == ""
    host.listing.update(crazeSessionId="another")
    assert start.Fresh(machine.paths, host.entry, "").session == "another"


@pytest.mark.parametrize("named", [{}, {"sessionId": 7}])
def test_a_row_that_names_no_session_is_no_other_sessions(
    machine: Machine, named: dict[str, Any]
) -> None:
    host = machine.host(answers={"sessions.list": {"result": {"sessions": [named]}}})
    assert start.Fresh(machine.paths, host.entry, "").session == SESSION


def test_dial_hello_and_row_have_one_bound_together(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "CREATE_ROW", 5 * SHORT)
    rows = slow({"result": {"sessions": [row(SESSION)]}}, 4 * SHORT)
    host = machine.host(answers={"hello": slow(HELLO, 4 * SHORT), "sessions.list": rows})
    assert start.Fresh(machine.paths, host.entry, "").row == b""
