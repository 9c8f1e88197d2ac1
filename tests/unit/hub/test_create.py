"""session.create: what it starts, what it refuses in which order, and what a repeat is answered."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.clock import Clock
from craze.hub import create, start
from craze.hub.create import Creates
from craze.hub.hash import request_hash
from craze.machine import locks, registry
from craze.wire import params
from craze.wire.codes import Refusal
from craze.wire.limits import CREATE_ANSWERS, CREATE_ANSWERS_AGE, CREATES_IN_FLIGHT
from craze.wire.methods import METHODS
from tests.unit.hub.hosts import (
    CLOSING,
    HUB_PID,
    NO_SESSION,
    NOT_STARTED,
    Machine,
    Start,
    machines,
    refusal,
    result,
    told,
    until,
)
from tests.unit.hub.stand_in import VERSION, refused, row

SHORT = 0.1
ANOTHER_HUB = "the create was answered by another hub, which this one never heard from"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    yield from machines(monkeypatch)


@pytest.fixture
def creates(machine: Machine) -> Creates:
    return machine.creates()


def args(machine: Machine, **given: Any) -> dict[str, Any]:
    """The decoded params of a create of grok in the machine's directory; None takes one away."""
    whole = {"cwd": str(machine.work), "provider": "grok", **given}
    whole = {name: value for name, value in whole.items() if value is not None}
    return params.decode(METHODS["session.create"], whole)


def created(machine: Machine, creates: Creates, **given: Any) -> dict[str, Any]:
    return result("session.create", creates.create(args(machine, **given)))


def refused_create(machine: Machine, creates: Creates, **given: Any) -> Refusal:
    return refusal(creates.create, args(machine, **given))


# ---- a session that starts ----


def test_a_create_answers_with_the_row_its_host_gave(machine: Machine, creates: Creates) -> None:
    own = row("session-0", activity="working", title="é")
    machine.script({"answers": {"sessions.list": {"result": {"sessions": [own]}}}})
    answer = created(machine, creates, prompt="go", requestId="r-1")
    (started,) = machine.starts
    host_id = started.given["host-id"]
    assert answer == {
        "session": {
            "hostId": host_id,
            "sessionId": "session-0",
            "host": {
                "pid": started.pid, "protocol": 1, "crazeVersion": VERSION, "provider": "grok",
                "workspace": str(machine.work), "startedAt": "2026-01-01T00:00:00Z", "ready": True,
            },
            "status": "reachable",
            "approximate": False,
            "row": own,
        },
        "prompt": "accepted",
    }  # fmt: skip
    assert list(answer) == ["session", "prompt"]
    # The row is read on a connection of its own.
    assert started.methods == [
        "hello", "session.attach", "session.prompt", "session.detach", "hello", "sessions.list",
    ]  # fmt: skip
    assert started.requests[1] == (
        "session.attach",
        {"sessionId": "session-0", "when": "ready", "budget": {"snapshotBytes": 65536}},
    )
    assert started.requests[2] == (
        "session.prompt",
        {"sessionId": "session-0", "commandId": "1", "text": "go", "mode": "queue"},
    )
    ((entry, version, seen),) = machine.seen
    assert (entry.hostId, entry.requestId, version) == (host_id, "r-1", VERSION)
    assert json.loads(seen) == own
    assert not started.ended


def test_a_host_is_given_what_the_create_says(machine: Machine, creates: Creates) -> None:
    given = {
        "prompt": "--not a flag", "model": "m", "effort": "high", "fast": True,
        "permissionMode": "prompt", "requestId": "r-1", "title": " A\tlong \x1b[2J title\u202e ",
    }  # fmt: skip
    created(machine, creates, cwd=f"{machine.work}/./", **given)
    (started,) = machine.starts
    hash = request_hash(args(machine, **given))
    assert started.flags == [
        f"--host-id={started.given['host-id']}", f"--log={started.given['log']}",
        f"--workspace={machine.work}", "--provider=grok", "--model=m", "--effort=high", "--fast",
        "--no-force", "--no-host-status", "--request-id=r-1", f"--request-hash={hash}",
        f"--hub-pid={HUB_PID}", "--title=A long title",
    ]  # fmt: skip
    assert started.told["cwd"] == str(machine.work)


def test_a_host_is_given_nothing_that_the_create_does_not_say(
    machine: Machine, creates: Creates
) -> None:
    assert created(machine, creates)["prompt"] == "none"
    (started,) = machine.starts
    assert started.given.keys() == {
        "host-id", "log", "workspace", "provider", "no-host-status", "hub-pid",
    }  # fmt: skip
    assert "session.prompt" not in started.methods


@pytest.mark.parametrize(("fast", "flags"), [(True, {"fast"}), (False, {"no-fast"}), (None, set())])
def test_fast_is_three_things(
    machine: Machine, creates: Creates, fast: bool | None, flags: set[str]
) -> None:
    created(machine, creates, fast=fast, permissionMode="bypass")
    assert machine.starts[0].given.keys() & {"fast", "no-fast", "no-force", "force"} == flags


def test_the_default_provider_is_read_at_each_create(machine: Machine, creates: Creates) -> None:
    for provider in ("grok", "cursor"):
        machine.config(f'provider = "{provider}"\n')
        created(machine, creates, provider=None)
        assert machine.starts[-1].given["provider"] == provider


def test_a_start_that_takes_its_time_is_waited_for(machine: Machine, creates: Creates) -> None:
    machine.script({"answers": {"session.attach": "silent"}})
    asking = machine.asking(creates.create, args(machine))
    until(lambda: machine.starts and "session.attach" in machine.starts[0].methods)
    assert not asking.ready()


# ---- the first prompt ----


def test_a_prompt_that_is_refused_leaves_the_session_running(
    machine: Machine, creates: Creates
) -> None:
    answer = refused("text_too_long", message="agent: message too long")
    machine.script({"answers": {"session.prompt": answer}})
    said = created(machine, creates, prompt="go")
    assert (said["prompt"], said["promptError"]) == ("refused", "agent: message too long")
    assert list(said) == ["session", "prompt", "promptError"]
    assert not machine.starts[0].ended and "session.detach" in machine.starts[0].methods


def test_b10_a_prompt_without_an_answer_leaves_the_session_running(
    machine: Machine, creates: Creates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "CREATE_PROMPT", SHORT)
    machine.script({"answers": {"session.prompt": "silent"}})
    said = created(machine, creates, prompt="go", requestId="r-1")
    assert (said["prompt"], said["promptError"]) == (
        "unknown",
        "no answer to the prompt within 0.1s",
    )
    assert created(machine, creates, prompt="go", requestId="r-1") == said
    (started,) = machine.starts
    # The connection was closed at once, with no detach.
    assert sorted(started.methods) == [
        "hello", "hello", "session.attach", "session.prompt", "sessions.list",
    ]  # fmt: skip
    assert not started.ended


def test_b09_a_prompt_whose_answer_is_lost_is_not_sent_again(
    machine: Machine, creates: Creates
) -> None:
    machine.script({"answers": {"session.prompt": "close"}})
    said = created(machine, creates, prompt="go", requestId="r-1")
    assert said["prompt"] == "unknown"
    assert said["promptError"].startswith("the answer to the prompt was lost: ")
    assert created(machine, creates, prompt="go", requestId="r-1") == said
    assert machine.starts[0].methods.count("session.prompt") == 1


# ---- the row that cannot be read ----


@pytest.mark.parametrize("answer", ["silent", "close", refused("unavailable", "busy")])
def test_a_row_that_is_not_read_is_made_of_the_registry(
    machine: Machine, creates: Creates, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setattr(start, "CREATE_ROW", SHORT if answer == "silent" else start.CREATE_ROW)
    entry = {"startedAt": "2026-02-02T00:00:00Z"}
    machine.script({"answers": {"sessions.list": answer}, "entry": entry})
    said = created(machine, creates, prompt="go")
    assert said["prompt"] == "accepted"
    session = said["session"]
    assert session["sessionId"] == "session-0" and session["approximate"] is True
    assert "row" not in session and session["host"]["startedAt"] == "2026-02-02T00:00:00Z"
    assert not machine.seen and not machine.starts[0].ended


def test_a_host_that_goes_after_its_start_is_told_as_what_was_known(
    machine: Machine, creates: Creates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Clock, "now", lambda self: 1_700_000_000_000_000_000)
    machine.script({"entry": None, "answers": {"session.prompt": "die"}})
    said = created(machine, creates, prompt="go")
    assert said["prompt"] == "unknown"
    assert said["session"]["approximate"] is True and "row" not in said["session"]
    assert said["session"]["host"] == {
        "pid": machine.starts[0].pid, "protocol": 1, "crazeVersion": VERSION, "provider": "grok",
        "workspace": str(machine.work), "startedAt": "2023-11-14T22:13:20Z", "ready": True,
    }  # fmt: skip


# ---- refusals, in their order ----


def test_a_directory_that_is_none(machine: Machine, creates: Creates) -> None:
    file = machine.root / "file"
    file.touch()
    for cwd, words in (
        (f"{machine.root}/no <é>", "does not exist"),
        (str(file), "is not a directory"),
    ):
        caught = refused_create(machine, creates, cwd=cwd)
        assert told(caught) == ("bad_request", "bad_request", f"params.cwd {cwd} {words}")
        assert caught.rpc == -32000
    caught = refused_create(machine, creates, cwd="/" + "x" * 4000)
    assert told(caught)[:2] == ("bad_request", "bad_request")
    assert not machine.starts


def test_a_provider_that_is_none(machine: Machine, creates: Creates) -> None:
    for provider, config, words in (
        (
            None,
            "",
            "params.provider is required: this hub has no default provider (config.toml's"
            " provider)",
        ),
        ("x", "", 'params.provider "x" is not a provider this craze can start'),
        (
            None,
            'provider = "x"\n',
            'the default provider "x" (config.toml\'s provider) is not one this craze can start',
        ),
    ):
        machine.config(config)
        caught = refused_create(machine, creates, provider=provider)
        assert (told(caught), caught.rpc) == (("bad_request", "bad_request", words), -32000)
    assert not machine.starts


def test_refusals_come_in_their_order(machine: Machine, creates: Creates) -> None:
    """What a create under a known id has wrong otherwise is not looked at; then the registry, the
    directory, the provider, a place; each before the next."""
    created(machine, creates, requestId="r-1")
    wrong = {"cwd": f"{machine.root}/none", "provider": "x"}
    places = [machine.admission.place() for _ in range(CREATES_IN_FLIGHT)]
    for place in places:
        place.__enter__()
    try:
        caught = refused_create(machine, creates, requestId="r-1", **wrong)
        assert caught.reason == "request_conflict"
        os.chmod(machine.paths.hosts, 0o755)  # which no craze reads
        caught = refused_create(machine, creates, requestId="r-2", **wrong)
        assert caught.reason == "host_unreachable"
        os.chmod(machine.paths.hosts, 0o700)
        caught = refused_create(machine, creates, requestId="r-2", **wrong)
        assert "does not exist" in caught.message
        caught = refused_create(machine, creates, requestId="r-2", provider="x")
        assert 'provider "x"' in caught.message
        caught = refused_create(machine, creates, requestId="r-2")
        assert told(caught)[:2] == ("unavailable", "busy")
    finally:
        for place in places:
            place.__exit__(None, None, None)
    created(machine, creates, requestId="r-2")


def test_a_create_without_an_id_does_not_ask_the_registry(
    machine: Machine, creates: Creates
) -> None:
    os.chmod(machine.paths.hosts, 0o755)
    assert created(machine, creates)["prompt"] == "none"
    os.chmod(machine.paths.hosts, 0o700)


def test_the_seventeenth_in_flight_is_refused_and_may_try_again(
    machine: Machine, creates: Creates
) -> None:
    machine.script({"hang": True})
    first = [machine.asking(creates.create, args(machine)) for _ in range(CREATES_IN_FLIGHT)]
    until(lambda: len(machine.starts) == CREATES_IN_FLIGHT)
    caught = refused_create(machine, creates, requestId="r-1")
    assert told(caught)[:2] == ("unavailable", "busy")
    os.kill(machine.starts[0].pid, signal.SIGKILL)
    until(lambda: any(asking.ready() for asking in first))
    machine.script({})
    created(machine, creates, requestId="r-1")


# ---- failures ----


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ({"ready": None, "exit": 3}, "the session host exited before it was ready (exit status 3)"),
        ({"ready": "x\n"}, None),
        (
            {"ready": {"ok": False, "error": "craze serve: the control socket: x"}},
            "the session host could not start: the control socket: x",
        ),
        (
            {"ready": {"ok": False, "error": "craze serve: /w is no directory", "refused": True}},
            "the session host could not start: /w is no directory",
        ),
        (
            {"ready": {"ok": False, "error": "x", "held": {"crazeSessionId": "s"}}},
            "the session host could not start: x",
        ),
        ({"answers": {"hello": "close"}}, "the session host cannot be reached"),
        (
            {"answers": {"session.attach": "close"}},
            "the session host went before its session started",
        ),
        (
            {"answers": {"session.attach": "die"}},
            "the session host went before its session started",
        ),
        (
            {"answers": {"session.attach": NO_SESSION}},
            "the session host went before its session started",
        ),
        (
            {"answers": {"session.attach": CLOSING}},
            "the session host went before its session started",
        ),
    ],
)
def test_a_host_that_does_not_come_up_is_ended(
    machine: Machine, creates: Creates, act: dict[str, Any], words: str | None
) -> None:
    machine.script(act)
    caught = refused_create(machine, creates)
    assert told(caught)[:2] == ("unavailable", "spawn_failed")
    assert words is None or caught.message == words
    assert machine.starts[0].ended


def test_b43_a_start_that_fails_is_told_and_its_host_stopped(
    machine: Machine, creates: Creates
) -> None:
    machine.script({"answers": {"session.attach": NOT_STARTED}})
    caught = refused_create(machine, creates, prompt="go")
    assert told(caught) == (
        "not_accepting",
        "start_failed",
        "the session did not start: no key",
    )
    assert caught.cause == "no key"
    (started,) = machine.starts
    assert started.methods == ["hello", "session.attach", "hello", "session.stop"]
    assert started.ended


def test_b43_a_start_that_does_not_end_is_told_and_its_host_stopped(
    machine: Machine, creates: Creates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create, "CREATE_START", SHORT)
    machine.script({"answers": {"session.attach": "silent"}})
    caught = refused_create(machine, creates)
    assert told(caught)[:2] == ("not_accepting", "start_failed")
    assert caught.message == caught.cause == "the session did not start within 0s"
    assert sorted(machine.starts[0].methods) == [
        "hello", "hello", "session.attach", "session.stop",
    ]  # fmt: skip
    assert machine.starts[0].ended


def test_a_fault_of_ours_before_the_start_leaves_no_host(
    machine: Machine, creates: Creates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "up", None)
    caught = refused_create(machine, creates, requestId="r-1")
    assert told(caught) == ("failed", "failed", "the create failed inside this hub")
    assert machine.starts[0].ended
    assert len(machine.faults) == 1
    machine.faults.clear()
    monkeypatch.undo()


# ---- a repeat ----


def test_a_repeat_is_answered_byte_for_byte(machine: Machine, creates: Creates) -> None:
    whole = args(machine, prompt="go", requestId="r-1", title="T")
    first = creates.create(whole)
    assert creates.create(whole) == first
    assert creates.create(args(machine, prompt="go", requestId="r-1", title=" T ")) == first
    assert len(machine.starts) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"prompt": None},
        {"prompt": "go on"},
        {"title": "T"},
        {"model": "m"},
        {"fast": False},
        {"permissionMode": "prompt"},
        {"provider": None},
    ],
)
def test_a_repeat_with_other_params_is_a_conflict(
    machine: Machine, creates: Creates, other: dict[str, Any]
) -> None:
    created(machine, creates, prompt="go", requestId="r-1")
    caught = refused_create(machine, creates, **{"prompt": "go", "requestId": "r-1", **other})
    words = "requestId r-1 was used already for a create with other params"
    assert (told(caught), caught.rpc) == (("bad_request", "request_conflict", words), -32000)
    assert len(machine.starts) == 1


def test_a_settled_permission_mode_is_no_other_params(machine: Machine, creates: Creates) -> None:
    said = created(machine, creates, requestId="r-1")
    assert created(machine, creates, requestId="r-1", permissionMode="bypass") == said


def test_a_repeat_looks_at_neither_directory_nor_provider(
    machine: Machine, creates: Creates
) -> None:
    machine.config('provider = "grok"\n')
    given = {"provider": None, "requestId": "r-1"}
    said = created(machine, creates, **given)
    machine.config('provider = "x"\n')
    machine.work.rmdir()
    assert created(machine, creates, **given) == said
    assert created(machine, machine.creates(), **given)["prompt"] == "unknown"


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ({"ready": None}, "spawn_failed"),
        ({"answers": {"session.attach": NOT_STARTED}}, "start_failed"),
    ],
)
def test_a_failure_is_kept(
    machine: Machine, creates: Creates, act: dict[str, Any], reason: str
) -> None:
    machine.script(act, {})
    first = refused_create(machine, creates, requestId="r-1")
    assert first.reason == reason
    assert refused_create(machine, creates, requestId="r-1").error() == first.error()
    assert len(machine.starts) == 1
    assert refused_create(machine, creates, requestId="r-1", model="m").reason == "request_conflict"


def test_a_refusal_before_a_start_is_not_kept(machine: Machine, creates: Creates) -> None:
    machine.work.rmdir()
    assert refused_create(machine, creates, requestId="r-1").reason == "bad_request"
    machine.work.mkdir()
    assert refused_create(machine, creates, requestId="r-1", provider="x").reason == "bad_request"
    created(machine, creates, requestId="r-1")


def test_an_answer_is_kept_for_ten_minutes(machine: Machine, creates: Creates) -> None:
    """Then the registry remembers the create for as long as its session runs."""
    assert CREATE_ANSWERS_AGE == 600
    first = creates.create(args(machine, requestId="r-1"))
    machine.clock.late = 599
    assert creates.create(args(machine, requestId="r-1")) == first
    machine.clock.late = 601
    assert created(machine, creates, requestId="r-1")["prompt"] == "unknown"
    assert len(machine.starts) == 1


def test_a_failure_is_forgotten_after_ten_minutes(machine: Machine, creates: Creates) -> None:
    machine.script({"ready": None}, {})
    refused_create(machine, creates, requestId="r-1")
    machine.clock.late = 601
    created(machine, creates, requestId="r-1")


def test_the_newest_256_answers_are_kept(
    machine: Machine, creates: Creates, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CREATE_ANSWERS == 256
    monkeypatch.setattr(create, "CREATE_ANSWERS", 2)
    machine.script({"ready": None})
    for name in ("r-1", "r-2", "r-3"):
        refused_create(machine, creates, requestId=name)
    for name in ("r-2", "r-3"):
        refused_create(machine, creates, requestId=name)
    assert len(machine.starts) == 3
    refused_create(machine, creates, requestId="r-1")
    assert len(machine.starts) == 4


def test_a_create_in_flight_is_never_forgotten(
    machine: Machine, creates: Creates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create, "CREATE_ANSWERS", 0)
    machine.script({"hang": True})
    asking = machine.asking(creates.create, args(machine, requestId="r-1"))
    until(lambda: machine.starts)
    machine.clock.late = 10_000
    joining = machine.asking(creates.create, args(machine, requestId="r-1"))
    caught = refused_create(machine, creates, requestId="r-1", model="m")
    assert caught.reason == "request_conflict"
    os.kill(machine.starts[0].pid, signal.SIGKILL)
    assert asking.get() is joining.get()
    assert len(machine.starts) == 1


def test_a_repeat_joins_a_create_in_flight(machine: Machine, creates: Creates) -> None:
    whole = args(machine, requestId="r-1", prompt="go")
    asking = [machine.asking(creates.create, whole) for _ in range(3)]
    first, *others = (greenlet.get() for greenlet in asking)
    assert others == [first, first]
    assert len(machine.starts) == 1


@pytest.mark.parametrize("at", ["at once", "while it starts"])
def test_a_waiter_that_leaves_does_not_cancel(machine: Machine, creates: Creates, at: str) -> None:
    whole = args(machine, requestId="r-1")
    leaving = machine.asking(creates.create, whole)
    if at == "at once":
        gevent.sleep(0)
    else:
        until(lambda: machine.starts)
    leaving.kill()
    said = result("session.create", creates.create(whole))
    assert said["prompt"] == "none" and len(machine.starts) == 1


def test_creates_without_an_id_are_each_their_own(machine: Machine, creates: Creates) -> None:
    first, second = created(machine, creates), created(machine, creates)
    assert first["session"]["hostId"] != second["session"]["hostId"]


# ---- a hub that does not remember ----


def joined(machine: Machine, act: dict[str, Any] | None = None, **given: Any) -> tuple[Any, Start]:
    """What a hub that never heard of a create answers to its repeat, and the first one's host."""
    given = {"requestId": "r-1", "prompt": "go", **given}
    machine.script(act or {})
    created(machine, machine.creates(), **given)
    answer = machine.asking(machine.creates().create, args(machine, **given)).get()
    (started,) = machine.starts
    return answer, started


def test_a_session_that_another_hub_started_is_joined(machine: Machine) -> None:
    answer, started = joined(machine)
    said = result("session.create", answer)
    assert (said["prompt"], said["promptError"]) == ("unknown", ANOTHER_HUB)
    assert said["session"]["hostId"] == started.given["host-id"]
    assert said["session"]["row"] == row("session-0") and not said["session"]["approximate"]
    assert started.methods[-5:] == [
        "hello", "session.attach", "session.detach", "hello", "sessions.list",
    ]  # fmt: skip
    assert started.methods.count("session.prompt") == 1
    assert not started.ended


def test_the_answer_of_a_join_is_kept(machine: Machine) -> None:
    joined(machine)
    creates = machine.creates()
    first = creates.create(args(machine, requestId="r-1", prompt="go"))
    assert creates.create(args(machine, requestId="r-1", prompt="go")) == first
    assert len(machine.seen) == 3


def test_a_start_that_is_running_still_is_waited_for(machine: Machine) -> None:
    host = machine.host(
        session="s-1",
        answers={"session.attach": ["silent"]},
        requestId="r-1",
        requestHash=request_hash(args(machine)),
    )
    asking = machine.asking(machine.creates().create, args(machine, requestId="r-1"))
    until(lambda: "session.attach" in host.methods)
    assert not asking.ready() and not machine.starts


def test_a_joined_start_that_fails_is_told_and_its_host_asked_to_stop(machine: Machine) -> None:
    hash = request_hash(args(machine))
    answers = {"session.attach": NOT_STARTED}
    host = machine.host(session="s-1", answers=answers, requestId="r-1", requestHash=hash)
    creates = machine.creates()
    caught = refused_create(machine, creates, requestId="r-1")
    assert told(caught) == ("not_accepting", "start_failed", "the session did not start: no key")
    until(lambda: host.methods[-1] == "end")
    assert host.methods[-3:] == ["hello", "session.stop", "end"]
    host.answer()
    assert refused_create(machine, creates, requestId="r-1").error() == caught.error()


def test_a_joined_start_has_sixty_seconds_from_the_join(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert create.CREATE_START == 60
    monkeypatch.setattr(create, "CREATE_START", SHORT)
    hash = request_hash(args(machine))
    answers = {"session.attach": "silent"}
    host = machine.host(session="s-1", answers=answers, requestId="r-1", requestHash=hash)
    caught = refused_create(machine, machine.creates(), requestId="r-1")
    assert caught.reason == "start_failed"
    assert caught.message == caught.cause == "the session did not start within 0s"
    assert "session.stop" in host.methods


def test_other_params_than_another_hub_had_are_a_conflict(machine: Machine) -> None:
    host = machine.host(session="s-1", requestId="r-1", requestHash="sha256:0")
    caught = refused_create(machine, machine.creates(), requestId="r-1", cwd="/none")
    words = "requestId r-1 was used already for a create with other params"
    assert told(caught) == ("bad_request", "request_conflict", words)
    assert not host.requests


def test_another_craze_directorys_session_is_neither_joined_nor_a_conflict(
    machine: Machine,
) -> None:
    host = machine.elsewhere("0123456789ab", "s-1", requestId="r-1", requestHash="sha256:0")
    assert created(machine, machine.creates(), requestId="r-1")["prompt"] == "none"
    assert not host.requests and len(machine.starts) == 1


def test_a_session_that_has_ended_is_created_again(machine: Machine) -> None:
    _, started = joined(machine)
    os.kill(started.pid, signal.SIGKILL)
    until(lambda: started.ended)
    said = created(machine, machine.creates(), requestId="r-1", prompt="go")
    assert said["prompt"] == "accepted" and len(machine.starts) == 2


def test_a_session_that_is_stopping_has_ended(machine: Machine) -> None:
    host = machine.host(session="s-1", requestId="r-1", requestHash="sha256:0", stopping=True)
    assert created(machine, machine.creates(), requestId="r-1")["prompt"] == "none"
    assert not host.requests


@pytest.mark.parametrize("answer", ["close", CLOSING, NO_SESSION])
def test_a_joined_host_that_cannot_be_reached_is_looked_for_again(
    machine: Machine, answer: Any
) -> None:
    hash = request_hash(args(machine))
    answers = {"session.attach": answer}
    host = machine.host(session="s-1", answers=answers, requestId="r-1", requestHash=hash)
    creates = machine.creates()
    caught = refused_create(machine, creates, requestId="r-1")
    words = "the session a create of requestId r-1 started cannot be reached"
    assert told(caught) == ("unavailable", "host_unreachable", words)
    assert "session.stop" not in host.methods
    host.close()
    assert created(machine, creates, requestId="r-1")["prompt"] == "none"


def test_a_registry_that_cannot_be_read_proves_nothing(machine: Machine) -> None:
    os.chmod(machine.paths.hosts, 0o755)
    creates = machine.creates()
    caught = refused_create(machine, creates, requestId="r-1")
    words = (
        "the registry of session hosts cannot be read, so whether a create of requestId r-1 started"
        " a session already cannot be known: try again"
    )
    assert told(caught) == ("unavailable", "host_unreachable", words)
    os.chmod(machine.paths.hosts, 0o700)
    created(machine, creates, requestId="r-1")


def test_a_live_hosts_entry_that_cannot_be_read_proves_nothing(machine: Machine) -> None:
    Path(machine.paths.entry("ffffffffffff")).write_text("{")
    with locks.take(machine.paths.host_lock("ffffffffffff")) as lock:
        caught = refused_create(machine, machine.creates(), requestId="r-1")
        words = (
            "the registry entry of a live session host cannot be read, so whether a create of"
            " requestId r-1 started a session already cannot be known: try again"
        )
        assert told(caught) == ("unavailable", "host_unreachable", words)
        hash = request_hash(args(machine))
        host = machine.host("aaaaaaaaaaaa", session="s-1", requestId="r-1", requestHash=hash)
        assert created(machine, machine.creates(), requestId="r-1")["prompt"] == "unknown"
        host.close()
        lock.release(unlink=True)
    created(machine, machine.creates(), requestId="r-1")  # a dead host's entry is nobody's
    assert "ffffffffffff" not in [e.hostId for e in registry.scan(machine.paths).entries]
