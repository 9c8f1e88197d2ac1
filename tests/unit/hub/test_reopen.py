"""session.reopen: who has a session, and each thing a hub does about it, within each bound."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.hub import reopen, spawn, start
from craze.machine import locks, reexec
from craze.machine.locks import Lock
from craze.wire import limits
from craze.wire.codes import Refusal
from craze.wire.limits import CREATES_IN_FLIGHT
from tests.unit.hub.hosts import (
    CLOSING,
    HUB_PID,
    NO_SESSION,
    NOT_STARTED,
    SESSION,
    Machine,
    Played,
    machines,
    refusal,
    result,
    told,
    until,
)
from tests.unit.hub.stand_in import VERSION, refused, row

A, B, C, D = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc", "dddddddddddd"
ANOTHER = "another-session"
SHORT = 0.1
ANOTHERS_ROW = {"result": {"sessions": [row(ANOTHER)]}}
ITS_ROW = {"result": {"sessions": [row(SESSION)]}}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    for machine in machines(monkeypatch):
        machine.index()
        yield machine


def reopened(machine: Machine, id: str = SESSION) -> dict[str, Any]:
    return result("session.reopen", machine.reopens.reopen({"id": id}))


def asking(machine: Machine, id: str = SESSION) -> gevent.Greenlet:
    return machine.asking(machine.reopens.reopen, {"id": id})


def answer(greenlet: gevent.Greenlet) -> dict[str, Any]:
    got = greenlet.get()
    assert not isinstance(got, Refusal), told(got)
    return result("session.reopen", got)


def failed(machine: Machine, id: str = SESSION) -> Refusal:
    return refusal(machine.reopens.reopen, {"id": id})


def spawned(machine: Machine, said: dict[str, Any]) -> bool:
    """Whether the answer is the last host that was started."""
    assert said["joined"] is False
    return bool(said["session"]["hostId"] == machine.starts[-1].given["host-id"])


def polls(count: int = 3) -> None:
    """Let a reopen that waits look again a few times."""
    gevent.sleep(count * limits.REOPEN_POLL)


def held_by(host: str, pid: Any, moving: bool = False) -> tuple[str, str, str]:
    why = "is still moving to another session" if moving else "has not finished stopping"
    words = f"that session is held by host {host} (pid {pid}), which {why}; try again"
    return "unavailable", "busy", words


def test_the_bounds() -> None:
    assert (limits.REOPEN_TIME, limits.REOPEN_HOLDERS, limits.REOPEN_START) == (180, 20, 150)
    assert (limits.REOPEN_SPAWNS, limits.REOPEN_CHANGES, limits.REOPEN_POLL) == (3, 3, 0.02)
    assert (limits.REOPEN_DIAL, limits.READY_LINE_WAIT) == (5, 10)


# ---- which session ----


def test_an_id_that_no_row_has(machine: Machine) -> None:
    for id in ("none", "grok:none", "cursor:p-1", "p-1"):
        assert told(failed(machine, id)) == ("unknown_session",) * 2 + (f"no session {id}",)
    os.unlink(machine.paths.index)
    assert failed(machine).code == "unknown_session"
    assert not machine.starts


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        (
            {"provider": "claude"},
            'that session\'s provider "claude" is not one this craze can resume',
        ),
        ({"cwd": "relative"}, "that session's index row is malformed"),
        ({"createdAt": "yesterday"}, "that session's index row is malformed"),
        ({"updatedAt": "9999-12-31T23:59:59-01:00"}, "that session's index row is malformed"),
    ],
)
def test_a_newest_row_that_cannot_be_resumed_is_never_replaced_by_an_older_one(
    machine: Machine, newest: dict[str, Any], words: str
) -> None:
    at = {"updatedAt": "2026-10-13T10:00:00Z"}
    machine.index({"sessionId": "p-0"}, {**at, "sessionId": "p-1", **newest})
    caught = failed(machine)
    assert told(caught) == ("not_accepting", "not_resumable", words)
    assert caught.rpc == -32000 and not machine.starts


def test_a_malformed_row_is_refused_before_any_host_is_looked_for(machine: Machine) -> None:
    machine.index({"cwd": "relative"})
    host = machine.host()
    assert failed(machine).reason == "not_resumable"
    assert not host.requests


def test_an_index_that_cannot_be_read(machine: Machine) -> None:
    Path(machine.paths.index).write_text("{\n")
    words = "the session index cannot be read"
    assert told(failed(machine)) == ("not_accepting", "not_resumable", words)


def test_the_row_of_a_craze_id_is_its_newest(machine: Machine) -> None:
    machine.index(
        {"sessionId": "p-0", "cwd": "/none"},
        {"sessionId": "p-1", "updatedAt": "2026-10-12T10:00:01Z"},
        {"sessionId": "p-2", "cwd": "/none", "updatedAt": "2026-10-11T10:00:00Z"},
    )
    assert spawned(machine, reopened(machine))
    assert machine.starts[0].told["cwd"] == str(machine.work)


@pytest.mark.parametrize("what", ["registry", "entry"])
def test_a_registry_that_cannot_be_read(machine: Machine, what: str) -> None:
    with locks.take(machine.paths.host_lock(A)):
        if what == "registry":
            os.chmod(machine.paths.hosts, 0o755)
            words = "the registry of session hosts cannot be read"
        else:
            Path(machine.paths.entry(A)).write_text("{")
            words = "the registry entry of a live session host cannot be read"
        words += ", so whether a host serves that session cannot be known"
        assert told(failed(machine)) == ("unavailable", "host_unreachable", words)
        assert not machine.starts
    os.chmod(machine.paths.hosts, 0o700)
    assert spawned(machine, reopened(machine))


# ---- a host that serves it ----


def test_a_host_that_serves_it_is_joined(machine: Machine) -> None:
    host = machine.host(A, provider="grok", workspace="/elsewhere")
    said = reopened(machine)
    assert list(said) == ["session", "joined"]
    assert said["joined"] is True
    session = said["session"]
    assert (session["hostId"], session["sessionId"], session["row"]) == (A, SESSION, row(SESSION))
    assert session["approximate"] is False
    until(lambda: host.methods.count("end") == 2)
    assert host.methods == [
        "hello", "session.attach", "session.detach", "end", "hello", "sessions.list", "end",
    ]  # fmt: skip
    assert host.requests[1][1]["when"] == "ready" and host.requests[1][1]["sessionId"] == SESSION
    assert not machine.starts
    ((entry, version, seen),) = machine.seen
    assert (entry, version, json.loads(seen)) == (host.entry, VERSION, row(SESSION))


def test_a_host_of_another_craze_directory_is_joined(machine: Machine) -> None:
    machine.elsewhere(A, SESSION)
    assert reopened(machine)["session"]["hostId"] == A


@pytest.mark.parametrize("id", ["grok:p-1", SESSION])
def test_a_host_is_known_by_its_provider_session_too(machine: Machine, id: str) -> None:
    """Its craze session id may be another craze directory's."""
    if id != SESSION:
        machine.index({"crazeId": ""})
    machine.host(A, session=ANOTHER, provider="grok", providerSessionId="p-1")
    said = reopened(machine, id)
    assert (said["joined"], said["session"]["sessionId"]) == (True, ANOTHER)


def test_a_host_of_another_session_is_not_joined(machine: Machine) -> None:
    host = machine.host(A, session=ANOTHER, provider="grok", providerSessionId="p-2")
    machine.host(B, session="", provider="cursor", providerSessionId="p-1")
    assert spawned(machine, reopened(machine))
    assert not host.requests


def test_a_legacy_id_whose_row_has_a_craze_id_by_now_is_that_sessions(machine: Machine) -> None:
    machine.host(A)
    assert reopened(machine, "grok:p-1")["session"]["hostId"] == A


def test_a_start_that_runs_still_is_waited_for(machine: Machine) -> None:
    host = machine.host(A, answers={"session.attach": [lambda _: later()]})

    def later() -> Any:
        gevent.sleep(2 * SHORT)
        return {"result": {"subscription": "s-1"}}

    assert reopened(machine)["joined"] is True
    assert host.methods.count("session.attach") == 1


def test_a_joined_host_whose_directory_has_gone_is_joined_all_the_same(machine: Machine) -> None:
    machine.work.rmdir()
    machine.host(A)
    assert reopened(machine)["joined"] is True


def test_a_row_that_is_not_read_is_made_of_the_registry(machine: Machine) -> None:
    host = machine.host(A, answers={"sessions.list": "close"})
    said = reopened(machine)
    assert said["joined"] is True and said["session"]["hostId"] == host.id
    assert said["session"]["approximate"] is True and "row" not in said["session"]
    assert not machine.seen


def test_b43_a_joined_start_that_failed_is_told_and_its_host_left_alone(machine: Machine) -> None:
    host = machine.host(A, answers={"session.attach": NOT_STARTED})
    caught = failed(machine)
    words = "the session did not start: no key"
    assert told(caught) == ("not_accepting", "start_failed", words)
    assert caught.cause == "no key"
    assert [method for method in host.methods if method != "end"] == ["hello", "session.attach"]
    assert not machine.starts


def test_a_joined_start_past_its_bound_is_told_and_its_host_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopen, "REOPEN_START", SHORT)
    host = machine.host(A, answers={"session.attach": "silent"})
    caught = failed(machine)
    assert caught.reason == "start_failed"
    assert caught.message == caught.cause == "the session did not start within 0s"
    assert "session.stop" not in host.methods and not machine.starts


def test_what_a_start_past_its_bound_is_called(machine: Machine) -> None:
    """The bound is told as it is, however much of it was left."""
    reopening = reopen._Reopen(machine.reopens, SESSION)
    reopening._until = reopening._owner.clock.monotonic() + SHORT
    host = machine.host(A, answers={"session.attach": "silent"})
    with start.reach(host.listing.socket, 1) as link, pytest.raises(Refusal) as caught:
        reopening._wait_start(link, SESSION, machine.clock.monotonic())
    assert caught.value.cause == "the session did not start within 2m30s"


@pytest.mark.parametrize(
    "answers",
    [
        {"hello": "close"},
        {"hello": refused("bad_request", "protocol_version")},
        {"session.attach": "close"},
        {"session.attach": refused("unavailable", "attach_raced")},
    ],
)
def test_a_host_that_cannot_be_reached_and_does_not_leave(
    machine: Machine, answers: dict[str, Any]
) -> None:
    host = machine.host(A, answers=answers)
    words = f"the host {A} that serves that session cannot be reached"
    assert told(failed(machine)) == ("unavailable", "host_unreachable", words)
    assert "session.stop" not in host.methods and not machine.starts


def test_a_host_that_says_no_hello_in_time_cannot_be_reached(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopen, "REOPEN_DIAL", SHORT)
    machine.host(A, answers={"hello": "silent"})
    assert failed(machine).reason == "host_unreachable"


def test_a_host_whose_socket_has_gone_cannot_be_reached(machine: Machine) -> None:
    host = machine.host(A)
    os.unlink(host.listing.socket)
    assert failed(machine).reason == "host_unreachable"
    assert not machine.starts


# ---- a host that serves another session by now ----


def moves(host: Played) -> Callable[[dict[str, Any]], Any]:
    """An answer to the attach after which the entry names another session."""

    def attached(params: dict[str, Any]) -> Any:
        host.listing.update(crazeSessionId=ANOTHER)
        return {"result": {"subscription": "s-1"}}

    return attached


def test_a_host_whose_entry_names_another_session_is_not_the_answer(machine: Machine) -> None:
    host = machine.host(A)
    host.answer(session_attach=moves(host), sessions_list=ANOTHERS_ROW)
    assert spawned(machine, reopened(machine))


@pytest.mark.parametrize(
    "answers", [{"session.attach": NO_SESSION}, {"sessions.list": ANOTHERS_ROW}]
)
@pytest.mark.parametrize("then", ["it changes", "it is unlisted", "its process goes"])
def test_a_host_that_was_looked_past_is_waited_for_and_not_joined_on_the_same_entry(
    machine: Machine, answers: dict[str, Any], then: str
) -> None:
    host = machine.host(A, answers=answers)
    waiting = asking(machine)
    until(lambda: "end" in host.methods and machine.admission.running)
    polls()
    joins = host.methods.count("session.attach")
    assert joins == 1 and not waiting.ready() and not machine.starts
    if then == "it changes":
        host.listing.update(crazeSessionId=ANOTHER)
    elif then == "it is unlisted":
        host.listing.unlist()
        polls()
        assert not waiting.ready() and not machine.starts
        host.let_go()
    else:
        host.close()
    assert spawned(machine, answer(waiting))
    assert host.methods.count("session.attach") == 1


def test_a_host_that_was_looked_past_is_joined_once_its_entry_has_changed(
    machine: Machine,
) -> None:
    host = machine.host(A, answers={"session.attach": NO_SESSION})
    waiting = asking(machine)
    until(lambda: "session.attach" in host.methods)
    polls()
    host.answer()
    host.listing.update(incarnation="i-2")
    assert answer(waiting)["session"]["hostId"] == A
    assert not machine.starts


def test_a_host_that_is_still_moving_when_the_waiting_is_spent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopen, "REOPEN_HOLDERS", SHORT)
    machine.host(A, answers={"sessions.list": ANOTHERS_ROW})
    assert told(failed(machine)) == held_by(A, os.getpid(), moving=True)


def test_a_fourth_host_that_serves_another_session_is_one_too_many(machine: Machine) -> None:
    ids = [A, B, C, D]
    hosts = [machine.host(id, answers={"session.attach": NO_SESSION}) for id in ids]
    words = "that session changed hands 4 times while the hub reopened it; try again"
    assert told(failed(machine)) == ("unavailable", "busy", words)
    assert [host.methods.count("session.attach") for host in hosts] == [1, 1, 1, 1]


def test_a_host_that_changes_is_counted_once_however_often_it_is_found(machine: Machine) -> None:
    host = machine.host(A)
    changes = iter(range(6))

    def attached(params: dict[str, Any]) -> Any:
        change = next(changes, None)
        if change is None:
            return {"result": {"subscription": "s-1"}}
        host.listing.update(incarnation=f"i-{change}")
        return NO_SESSION

    host.answer(session_attach=attached)
    assert reopened(machine)["session"]["hostId"] == A
    assert host.methods.count("session.attach") == 7


# ---- a host on its way out ----


def test_a_host_that_is_stopping_is_waited_for_until_its_process_has_gone(
    machine: Machine,
) -> None:
    """Neither its mark nor its entry's absence says that the session can be loaded."""
    host = machine.host(A, stopping=True)
    host.claim()
    waiting = asking(machine)
    for step in (lambda: None, host.listing.unlist, host.listing.unbind):
        step()
        polls()
        assert not waiting.ready() and not machine.starts
    assert not host.requests
    host.let_go()
    assert spawned(machine, answer(waiting))


def test_a_stopping_host_without_a_claim_is_waited_for_by_its_own_lock(machine: Machine) -> None:
    host = machine.host(A, stopping=True)
    waiting = asking(machine)
    polls()
    host.listing.unlist()
    polls()
    assert not waiting.ready() and not machine.starts
    host.let_go()
    assert spawned(machine, answer(waiting))


def test_b27_a_pid_that_is_dead_is_not_waited_for(machine: Machine) -> None:
    """A lock that a child of the host still holds keeps nobody waiting."""
    child = subprocess.Popen(["true"])
    child.wait()
    host = machine.host(A, pid=child.pid, stopping=True)
    waiting = asking(machine)
    polls()
    host.listing.unlist()
    assert spawned(machine, answer(waiting))


def test_b27_a_pid_that_lives_keeps_nobody_waiting_by_itself(machine: Machine) -> None:
    host = machine.host(A, pid=1, stopping=True)
    host.claim()
    waiting = asking(machine)
    polls()
    host.let_go()
    assert spawned(machine, answer(waiting))


def test_a_host_that_is_stopping_for_too_long(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopen, "REOPEN_HOLDERS", SHORT)
    machine.host(A, pid=1, stopping=True)
    assert told(failed(machine)) == held_by(A, 1)
    assert not machine.starts


def test_a_host_that_comes_while_another_leaves_is_joined(machine: Machine) -> None:
    leaving = machine.host(A, stopping=True)
    leaving.claim()
    waiting = asking(machine)
    polls()
    leaving.listing.unlist()
    polls()
    machine.host(B)
    assert answer(waiting)["session"]["hostId"] == B


def test_a_refusal_of_a_host_that_stays_after_all(machine: Machine) -> None:
    """What an idle check refuses is tried again a poll later."""
    host = machine.host(A, answers={"session.attach": [CLOSING, CLOSING, {"result": {}}]})
    assert reopened(machine)["session"]["hostId"] == A
    assert host.methods.count("session.attach") == 3 and not machine.starts


@pytest.mark.parametrize("at", ["hello", "session.attach"])
@pytest.mark.parametrize(
    "answer_", [CLOSING, refused("not_accepting", message="the session has closed")]
)
def test_a_host_that_refuses_as_closing_and_then_goes(
    machine: Machine, at: str, answer_: Any
) -> None:
    host = machine.host(A, answers={at: answer_})
    host.claim()
    waiting = asking(machine)
    until(lambda: host.methods.count(at) >= 2)
    host.listing.unlist()
    polls()
    asked = len(host.requests)
    polls()
    assert len(host.requests) == asked and not waiting.ready() and not machine.starts
    host.let_go()
    assert spawned(machine, answer(waiting))


def test_a_host_that_refused_as_closing_is_never_unreachable(machine: Machine) -> None:
    """One from before the mark closes its socket before it unlinks its entry."""
    host = machine.host(A, answers={"session.attach": CLOSING})
    host.claim()
    waiting = asking(machine)
    until(lambda: "session.attach" in host.methods)
    host.hang_up()
    polls(20)
    assert not waiting.ready() and not machine.starts
    host.listing.unlist()
    polls()
    assert not machine.starts
    host.let_go()
    assert spawned(machine, answer(waiting))


@pytest.mark.parametrize("method", ["hello", "session.attach"])
def test_a_host_that_refused_as_closing_and_loses_its_connections_is_never_unreachable(
    machine: Machine, method: str
) -> None:
    host = machine.host(A, answers={method: [CLOSING, "close"]})
    waiting = asking(machine)
    until(lambda: host.methods.count(method) >= 20)
    host.answer()
    assert answer(waiting)["session"]["hostId"] == A
    assert not machine.starts


def test_a_host_that_closes_for_too_long(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reopen, "REOPEN_HOLDERS", SHORT)
    machine.host(A, answers={"session.attach": CLOSING})
    assert told(failed(machine)) == held_by(A, os.getpid())


@pytest.mark.parametrize("how", ["its entry goes", "its entry is marked"])
@pytest.mark.parametrize("answers", [{"session.attach": "close"}, {"hello": "close"}])
def test_a_host_whose_connection_is_lost_as_it_leaves_is_waited_for(
    machine: Machine, how: str, answers: dict[str, Any]
) -> None:
    host = machine.host(A)
    host.claim()

    def lost(params: dict[str, Any]) -> Any:
        if how == "its entry goes":
            host.listing.unlist()
        else:
            host.listing.update(stopping=True)
        return "close"

    host.answer(**{method.replace(".", "_"): lost for method in answers})
    waiting = asking(machine)
    until(lambda: host.methods)
    polls(2 * reopen._LOOKS)
    assert not waiting.ready() and not machine.starts
    host.let_go()
    assert spawned(machine, answer(waiting))


def test_a_host_whose_connection_is_lost_as_it_moves_is_looked_past(machine: Machine) -> None:
    host = machine.host(A)

    def lost(params: dict[str, Any]) -> Any:
        host.listing.update(crazeSessionId=ANOTHER)
        return "close"

    host.answer(session_attach=lost)
    assert spawned(machine, reopened(machine))


def test_a_joined_host_is_not_signalled(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when its start takes too long, either; it is another's, and it lives on."""
    machine.script({"answers": {"session.attach": [{"result": {}}, "silent"]}})
    assert spawned(machine, reopened(machine))
    monkeypatch.setattr(reopen, "REOPEN_START", SHORT)
    assert failed(machine).reason == "start_failed"
    polls()
    (started,) = machine.starts
    assert not started.ended and "session.stop" not in started.methods


# ---- several hosts ----


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ({}, {"startedAt": "2026-01-01T00:00:01Z"}, B),
        ({"startedAt": "2026-01-01T00:00:01Z"}, {}, A),
        ({"startedAt": "2026-01-01T00:00:00.5Z"}, {"startedAt": "2026-01-01T00:00:00Z"}, A),
        ({"startedAt": "2026-01-01T00:00:00Z"}, {"startedAt": "2026-01-01T01:00:00.5+02:00"}, A),
        ({"startedAt": "x"}, {}, B),
        ({"stopping": True, "startedAt": "2026-02-01T00:00:00Z"}, {}, B),
    ],
)
def test_of_several_hosts_a_serving_one_is_joined_and_the_newest_of_those(
    machine: Machine, first: dict[str, Any], second: dict[str, Any], chosen: str
) -> None:
    machine.host(A, **first)
    machine.host(B, **second)
    assert reopened(machine)["session"]["hostId"] == chosen


def test_a_host_that_was_looked_past_is_waited_for_only_when_there_is_no_other(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = {"startedAt": "2026-02-01T00:00:00Z"}
    past = machine.host(A, answers={"session.attach": NO_SESSION}, **newest)
    machine.host(B)
    assert reopened(machine)["session"]["hostId"] == B
    assert past.methods.count("session.attach") == 1
    machine.host(C, stopping=True)
    monkeypatch.setattr(reopen, "REOPEN_HOLDERS", SHORT)
    machine._played[1].close()
    assert told(failed(machine)) == held_by(C, os.getpid())
    machine._played[2].close()
    assert told(failed(machine)) == held_by(A, os.getpid(), moving=True)


# ---- a host of the hub's own ----


def test_a_session_that_nobody_serves_is_loaded(machine: Machine) -> None:
    said = reopened(machine)
    assert spawned(machine, said)
    (started,) = machine.starts
    host_id = started.given["host-id"]
    assert started.flags == [
        f"--host-id={host_id}", f"--log={started.given['log']}", f"--load={SESSION}",
        "--no-host-status", f"--hub-pid={HUB_PID}",
    ]  # fmt: skip
    assert started.told["cwd"] == str(machine.work)
    assert said["session"]["sessionId"] == SESSION and said["session"]["row"] == row(SESSION)
    assert started.methods == [
        "hello", "session.attach", "session.detach", "hello", "sessions.list",
    ]  # fmt: skip
    assert not started.ended
    assert [(entry.hostId, version) for entry, version, _ in machine.seen] == [(host_id, VERSION)]


@pytest.mark.parametrize(
    ("recorded", "flags"),
    [
        ({}, set()),
        ({"mode": "ask", "permissionMode": "prompt"}, {"--ask", "--no-force"}),
        (
            {"mode": "plan", "permissionMode": "bypass", "model": "m", "effort": "high"},
            {"--plan", "--model=m", "--effort=high"},
        ),
        ({"mode": 7, "model": None}, set()),
    ],
)
def test_an_unattended_session_is_loaded_as_it_was_recorded(
    machine: Machine, recorded: dict[str, Any], flags: set[str]
) -> None:
    machine.index({"unattended": True, "title": "T", **recorded})
    reopened(machine)
    own = {"host-id", "log", "hub-pid"}
    (started,) = machine.starts
    given = {flag for flag in started.flags if flag[2:].partition("=")[0] not in own}
    assert given == {f"--load={SESSION}", "--no-host-status", "--unattended", *flags}


@pytest.mark.parametrize("unattended", [False, None, "true", 1])
def test_a_persons_session_has_the_plain_defaults(machine: Machine, unattended: Any) -> None:
    recorded = {"mode": "ask", "permissionMode": "prompt", "model": "m", "effort": "high"}
    machine.index({"unattended": unattended, **recorded})
    reopened(machine)
    assert machine.starts[0].given.keys() == {"host-id", "log", "load", "no-host-status", "hub-pid"}


def test_a_session_from_before_craze_ids_gets_one(machine: Machine) -> None:
    machine.index({"crazeId": ""})
    machine.script({"session": "minted"})
    said = reopened(machine, "grok:p-1")
    assert machine.starts[0].given["load"] == "grok:p-1"
    assert said["session"]["sessionId"] == "minted" and said["joined"] is False


def test_a_directory_that_has_gone(machine: Machine) -> None:
    machine.work.rmdir()
    words = f"that session ran in {machine.work}, which is no longer a directory"
    assert told(failed(machine)) == ("not_accepting", "not_resumable", words)
    machine.work.touch()
    assert told(failed(machine)) == ("not_accepting", "not_resumable", words)
    assert not machine.starts


@pytest.mark.parametrize(
    ("ready", "refused_with"),
    [
        (
            {"error": "craze: the session index is busy — try again", "refused": True},
            ("unavailable", "busy", "the session index is busy — try again"),
        ),
        (
            {"error": "craze: the session index changed — try again", "refused": True},
            ("unavailable", "busy", "the session index changed — try again"),
        ),
        (
            {"error": "craze serve: no session x", "refused": True},
            ("not_accepting", "not_resumable", "no session x"),
        ),
        (
            {"error": "craze: the session index is busy — try again"},
            (
                "unavailable",
                "spawn_failed",
                "the session host could not start: the session index is busy — try again",
            ),
        ),
    ],
)
def test_a_host_that_does_not_take_the_session(
    machine: Machine, ready: dict[str, Any], refused_with: tuple[str, str, str]
) -> None:
    machine.script({"ready": {"ok": False, **ready}})
    assert told(failed(machine)) == refused_with
    assert len(machine.starts) == 1 and machine.starts[0].ended


def test_a_host_that_does_not_come_up(machine: Machine) -> None:
    for act, words in (
        ({"ready": None, "exit": 3}, "the session host exited before it was ready (exit status 3)"),
        ({"answers": {"hello": "close"}}, "the session host cannot be reached"),
        (
            {"answers": {"session.attach": "die"}},
            "the session host went before its session started",
        ),
        (
            {"answers": {"session.attach": CLOSING}},
            "the session host went before its session started",
        ),
    ):
        machine.script(act)
        assert told(failed(machine)) == ("unavailable", "spawn_failed", words)
        assert machine.starts[-1].ended


def test_b79_a_hub_whose_program_has_gone_joins_and_cannot_start(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = f"{machine.root}/craze"
    monkeypatch.setattr(reexec, "_prefix", [gone])
    words = (
        f"this hub's craze ({gone}) was replaced by an upgrade: stop this hub with kill {HUB_PID}"
        " (no session ends) and run this again"
    )
    assert told(failed(machine)) == ("unavailable", "spawn_failed", words)
    machine.host(A)
    assert reopened(machine)["joined"] is True


def test_b43_a_start_of_its_own_that_failed_is_told_and_its_host_ended(machine: Machine) -> None:
    machine.script({"answers": {"session.attach": NOT_STARTED}})
    caught = failed(machine)
    assert told(caught)[1:] == ("start_failed", "the session did not start: no key")
    assert caught.cause == "no key"
    (started,) = machine.starts
    assert started.methods[-2:] == ["hello", "session.stop"] and started.ended


def test_a_start_of_its_own_past_its_bound_is_told_and_its_host_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopen, "REOPEN_START", SHORT)
    machine.script({"answers": {"session.attach": "silent"}})
    assert failed(machine).reason == "start_failed"
    assert "session.stop" in machine.starts[0].methods and machine.starts[0].ended


def test_a_host_of_its_own_whose_row_names_another_session_is_ended(machine: Machine) -> None:
    machine.script({"answers": {"sessions.list": ANOTHERS_ROW}}, {})
    assert spawned(machine, reopened(machine))
    first, second = machine.starts
    assert first.ended and first.methods[-1] == "session.stop" and not second.ended


def test_a_host_of_its_own_that_never_serves_it_is_tried_three_times(machine: Machine) -> None:
    machine.script({"answers": {"sessions.list": ANOTHERS_ROW}})
    words = "that session changed hands 3 times while the hub reopened it; try again"
    assert told(failed(machine)) == ("unavailable", "busy", words)
    assert len(machine.starts) == 3 and all(started.ended for started in machine.starts)


# ---- another that loads it ----


def claimed(machine: Machine, line: str) -> Lock:
    lock = locks.take(machine.paths.claim(SESSION))
    lock.write(line)
    return lock


def test_a_session_that_another_loads_is_joined_once_it_is_served(machine: Machine) -> None:
    host = machine.host(A, session="")
    lock = claimed(machine, f"{os.getpid()} {A}")
    waiting = asking(machine)
    until(lambda: machine.starts and machine.starts[0].ended)
    polls()
    assert not waiting.ready() and not host.requests
    host.listing.update(crazeSessionId=SESSION)
    host.session = SESSION
    host.answer()
    assert answer(waiting)["session"]["hostId"] == A
    assert len(machine.starts) == 1 and "session.stop" not in host.methods
    lock.release()


@pytest.mark.parametrize("line", [f"{os.getpid()} {A}", f"1 {A}"])
def test_a_session_whose_holder_goes_is_loaded_after_all(machine: Machine, line: str) -> None:
    lock = claimed(machine, line)
    waiting = asking(machine)
    until(lambda: machine.starts and machine.starts[0].ended)
    polls()
    assert not waiting.ready() and len(machine.starts) == 1
    lock.release()
    assert spawned(machine, answer(waiting))
    assert len(machine.starts) == 2


@pytest.mark.parametrize(
    "held", [{}, {"hostId": A}, {"hostId": "../x"}], ids=["nobody", "a host", "no host id"]
)
def test_a_holder_that_is_not_named_is_waited_for_and_joined(
    machine: Machine, held: dict[str, Any]
) -> None:
    said = {"ok": False, "error": "held", "held": {**held, "crazeSessionId": SESSION}}
    machine.script({"ready": said})
    with claimed(machine, ""):
        waiting = asking(machine)
        until(lambda: machine.starts and machine.starts[0].ended)
        polls()
        assert not waiting.ready()
        machine.host(B)
        assert answer(waiting)["session"]["hostId"] == B
    assert len(machine.starts) == 1


def test_a_holder_that_serves_nothing_for_too_long(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopen, "REOPEN_HOLDERS", SHORT)
    with claimed(machine, f"1 {A}"):
        assert told(failed(machine)) == held_by(A, 1)
    said = {"ok": False, "error": "held", "held": {"crazeSessionId": SESSION}}
    machine.script({"ready": said})
    with claimed(machine, ""):
        assert told(failed(machine)) == held_by("?", "?")


def test_a_fourth_start_is_one_too_many(machine: Machine) -> None:
    """Held each time, by one who has gone when it is looked for."""
    said = {"ok": False, "error": "held", "held": {"crazeSessionId": SESSION}}
    machine.script({"ready": said})
    words = "that session changed hands 3 times while the hub reopened it; try again"
    assert told(failed(machine)) == ("unavailable", "busy", words)
    assert len(machine.starts) == 3


def test_a_legacy_session_is_joined_under_the_craze_id_its_holder_gave_it(
    machine: Machine,
) -> None:
    machine.index({"crazeId": ""})
    held = {"hostId": A, "crazeSessionId": "minted"}
    machine.script({"ready": {"ok": False, "error": "held", "held": held}})
    lock = locks.take(machine.paths.claim("minted"))
    lock.write(f"{os.getpid()} {A}")
    waiting = asking(machine, "grok:p-1")
    until(lambda: machine.starts and machine.starts[0].ended)
    machine.host(A, session="minted")
    said = answer(waiting)
    assert (said["session"]["sessionId"], said["joined"]) == ("minted", True)
    lock.release()


def test_two_reopens_at_once_end_on_one_host(machine: Machine) -> None:
    """The loser's host is told that the session is held, and the loser joins the winner."""
    both = [answer(greenlet) for greenlet in [asking(machine), asking(machine, "grok:p-1")]]
    first, second = both
    assert first["session"]["hostId"] == second["session"]["hostId"]
    assert sorted([first["joined"], second["joined"]]) == [False, True]
    assert sum(not started.ended for started in machine.starts) == 1


def test_b24_b31_a_session_whose_host_was_killed_is_loaded_at_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its agent lives on: nothing of the host's is held by it."""
    monkeypatch.setattr(reopen, "REOPEN_HOLDERS", 0.0)
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST, *(getattr(machine.paths, name)(id) for name, id in _FILES)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert host.stdout is not None
    agent = int(host.stdout.readline())
    try:
        entry = machine.host(B).entry
        machine._played.pop().close()
        named = {"hostId": A, "pid": host.pid, "socket": f"{machine.root}/none.sock"}
        Path(machine.paths.entry(A)).write_text(json.dumps({**entry._asdict(), **named}))
        host.kill()
        host.wait()
        os.kill(agent, 0)
        assert spawned(machine, reopened(machine))
    finally:
        host.stdout.close()
        os.kill(agent, signal.SIGKILL)


_FILES = (("host_lock", A), ("claim", SESSION))
_HOST = """
import fcntl, os, subprocess, sys
for path in sys.argv[1:]:
    fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
os.read(os.pipe()[0], 1)
"""


@pytest.mark.parametrize("round", range(5))
def test_b24_a_host_that_is_killed_while_it_is_joined_is_loaded_anew(
    machine: Machine, round: int
) -> None:
    """Its connection is lost before its locks are."""
    machine.script({"answers": {"session.attach": [{"result": {}}, "die"]}}, {})
    assert spawned(machine, reopened(machine))
    assert spawned(machine, reopened(machine))
    assert len(machine.starts) == 2


# ---- the bounds ----


def late(machine: Machine, answer: Any) -> Callable[[dict[str, Any]], Any]:
    """An answer after which the whole of a reopen has passed."""

    def answered(params: dict[str, Any]) -> Any:
        machine.clock.late += limits.REOPEN_TIME
        return answer

    return answered


def ended(machine: Machine) -> bool:
    """Whether the one host that was started has ended, however far it had come."""
    (line,) = machine.log
    return " ended: " in line


WHOLE = (
    "unavailable",
    "busy",
    "that session was not running within the reopen's 3m0s; try again",
)


@pytest.mark.parametrize(
    "answers",
    [
        {"session.attach": "close"},
        {"session.attach": CLOSING},
        {"session.attach": NO_SESSION},
        {"session.attach": NOT_STARTED},
        {"hello": refused("bad_request")},
    ],
)
def test_the_whole_has_passed_while_a_host_was_joined(
    machine: Machine, answers: dict[str, Any]
) -> None:
    given = {method: late(machine, said) for method, said in answers.items()}
    host = machine.host(A, answers=given)
    assert told(failed(machine)) == WHOLE
    assert not machine.starts and "session.stop" not in host.methods


def test_a_session_that_runs_when_the_whole_has_passed_is_answered(machine: Machine) -> None:
    machine.host(A, answers={"session.attach": late(machine, {"result": {}})})
    assert reopened(machine)["joined"] is True


def test_the_whole_passes_while_a_start_is_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that was started for it is ended; one that was joined is left alone."""
    monkeypatch.setattr(reopen, "REOPEN_TIME", 3 * SHORT)
    host = machine.host(A, answers={"session.attach": "silent"})
    words = "that session was not running within the reopen's 0s; try again"
    assert told(failed(machine)) == ("unavailable", "busy", words)
    assert "session.stop" not in host.methods
    host.close()
    monkeypatch.setattr(reopen, "REOPEN_TIME", 3.0)
    machine.script({"answers": {"session.attach": "silent"}})
    assert failed(machine).reason == "busy"
    assert ended(machine)


@pytest.mark.parametrize("act", [{"hang": True}, {"answers": {"hello": "silent"}}])
def test_the_whole_passes_while_a_host_comes_up(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, act: dict[str, Any]
) -> None:
    monkeypatch.setattr(reopen, "REOPEN_TIME", 1.0)
    machine.script(act)
    words = "that session was not running within the reopen's 1s; try again"
    assert told(failed(machine)) == ("unavailable", "busy", words)
    assert ended(machine)


def test_the_whole_passes_while_a_holder_is_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopen, "REOPEN_HOLDERS", 2 * limits.REOPEN_TIME)
    machine.host(A, stopping=True)
    waiting = asking(machine)
    polls()
    machine.clock.late += limits.REOPEN_TIME - 1
    polls()
    machine.clock.late += 1
    assert told(waiting.get()) == WHOLE


def test_only_waiting_counts_as_waiting(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a join's time nor a start's is taken from it."""
    monkeypatch.setattr(reopen, "REOPEN_HOLDERS", 2.0)

    def slow(params: dict[str, Any]) -> Any:
        machine.clock.late += 100
        return NO_SESSION

    host = machine.host(A, answers={"session.attach": slow})
    waiting = asking(machine)
    until(lambda: "session.attach" in host.methods)
    polls()
    assert not waiting.ready()
    host.close()
    assert spawned(machine, answer(waiting))


def test_waits_for_several_holders_count_together(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = gevent.sleep

    def counted(seconds: float) -> None:
        if seconds == limits.REOPEN_POLL:
            machine.clock.late += 0.5
        sleep(seconds)

    monkeypatch.setattr(reopen.gevent, "sleep", counted)
    first = machine.host(A, stopping=True)
    first.claim()
    waiting = asking(machine)
    until(lambda: machine.clock.late > 5)
    second = machine.host(B, stopping=True, startedAt="2026-02-01T00:00:00Z")
    first.close()
    assert told(waiting.get()) == held_by(second.id, os.getpid())
    assert machine.clock.late <= limits.REOPEN_HOLDERS + 1


def test_each_part_is_cut_to_what_is_left(machine: Machine) -> None:
    reopening = reopen._Reopen(machine.reopens, SESSION)
    assert reopening._at_most(limits.REOPEN_START) == limits.REOPEN_START
    machine.clock.late += 100
    assert 79 < reopening._at_most(limits.REOPEN_START) <= 80
    assert reopening._at_most(limits.REOPEN_DIAL) == 5
    machine.clock.late += 100
    assert 0 < reopening._at_most(limits.REOPEN_DIAL) < 0.1


def test_a_start_is_bounded_from_its_dial(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hello that takes long leaves the start less."""

    def slow(params: dict[str, Any]) -> Any:
        machine.clock.late += 149.9
        return {"result": {"endpoint": {"crazeVersion": "1"}}}

    machine.host(A, answers={"hello": slow, "session.attach": "silent"})
    assert failed(machine).cause == "the session did not start within 2m30s"


# ---- admission ----


def test_a_waiter_that_leaves_does_not_cancel(machine: Machine) -> None:
    machine.script({"answers": {"session.attach": {"result": {}}}})
    leaving = asking(machine)
    gevent.sleep(0)
    leaving.kill()
    assert machine.admission.running == 1
    machine.admission.wait()
    assert len(machine.starts) == 1 and not machine.starts[0].ended


def test_the_seventeenth_in_flight_is_refused(machine: Machine) -> None:
    host = machine.host(A, answers={"session.attach": "silent"})
    for _ in range(CREATES_IN_FLIGHT):
        asking(machine)
    until(lambda: host.methods.count("session.attach") == CREATES_IN_FLIGHT)
    assert told(failed(machine))[:2] == ("unavailable", "busy")
    assert told(failed(machine, "none"))[:2] == ("unavailable", "busy")


def test_a_fault_of_ours_is_an_answer_and_gives_its_place_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn.Spawner, "start", None)
    for _ in range(CREATES_IN_FLIGHT + 1):
        words = "the reopen failed inside this hub"
        assert told(failed(machine)) == ("failed", "failed", words)
    machine.faults.clear()
