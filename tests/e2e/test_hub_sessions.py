"""Sessions created and reopened through hubs: however many ask at once, and whatever stands in the
way, a session has one host, and one agent."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze.client import Client
from craze.machine import processes, registry
from craze.machine.registry import Entry
from tests.e2e.hubs import (
    AGENT,
    CRAZE,
    NEVER,
    PATIENCE_S,
    STALL,
    Hub,
    Wire,
    customize,
    eventually,
    gated,
    provider,
    row,
    running,
    script,
    settle,
    stalled,
    stop,
    together,
)
from tests.e2e.machine import END_S, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(script("load"))
    try:
        yield made
        left = settle(made)
        assert not left
    finally:
        made.close()


def started(machine: Machine) -> Hub:
    """A hub that runs, with one saved session."""
    made = Hub(machine)
    made.save(row(machine))
    made.start()
    return made


@pytest.fixture
def hub(machine: Machine) -> Hub:
    return started(machine)


def reopen(hub: Hub, id: str = NEVER) -> dict[str, Any]:
    result: dict[str, Any] = hub.result("session.reopen", id=id)
    return result


def agents(machine: Machine) -> list[int]:
    return running(machine, "craze-fake-agent")


def one_host(hub: Hub) -> Entry:
    """The only host there is, with its only agent."""
    eventually(lambda: len(running(hub.machine, "craze serve")) == 1)
    eventually(lambda: len(agents(hub.machine)) == 1)
    [host] = hub.hosts()
    return host


def child(pid: int, words: str) -> int:
    """The child of a process that has these words in its command line."""
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if words.encode() in Path(f"/proc/{each}/cmdline").read_bytes():
            return int(each)
    raise AssertionError(f"process {pid} has no child {words}")


# ---- reopens at once ----


def test_twenty_reopens_at_once_through_two_hubs_end_on_one_host(machine: Machine) -> None:
    ids = [NEVER, "fake:saved-1"]
    hubs = [Hub(machine), Hub(machine, CRAZE_HOME=str(machine.home / "other"))]
    for hub in hubs:
        hub.configure(script("load"))
        hub.save(row(machine))
        hub.start()
    assert hubs[0].paths.namespace != hubs[1].paths.namespace
    calls = [lambda hub=hub, id=id: reopen(hub, id) for hub in hubs for id in ids] * 5
    results = together(*calls)
    host = one_host(hubs[0])
    assert {result["session"]["hostId"] for result in results} == {host.hostId}
    assert {result["session"]["sessionId"] for result in results} == {NEVER}
    assert [result["joined"] for result in results].count(False) == 1
    # Stopped and opened again, now through the one and now through the other.
    seen = {host.hostId}
    for count in range(20):
        stop_session(host)
        assert reopen(hubs[count % 2], ids[count % 2])["joined"] is False
        host = one_host(hubs[0])
        assert host.crazeSessionId == NEVER
        seen.add(host.hostId)
    assert len(seen) == 21
    for hub in hubs:
        [saved] = hub.index()
        assert (saved["crazeId"], saved["sessionId"]) == (NEVER, "saved-1")


def stop_session(host: Entry) -> None:
    """Stop a session, and do not wait for its host."""
    with Client(host.socket, session=host.crazeSessionId) as client:
        client.command("session.stop")


def test_reopens_at_once_of_a_session_without_a_craze_id_give_it_one(machine: Machine) -> None:
    hub = Hub(machine)
    legacy = row(machine)
    del legacy["crazeId"]
    hub.save(legacy)
    hub.start()
    [saved] = hub.result("sessions.saved")["sessions"]
    assert saved["id"] == "fake:saved-1" and "crazeSessionId" not in saved
    results = together(*[lambda: reopen(hub, "fake:saved-1")] * 8)
    host = one_host(hub)
    assert {result["session"]["hostId"] for result in results} == {host.hostId}
    assert {result["session"]["sessionId"] for result in results} == {host.crazeSessionId}
    [now] = hub.index()
    assert now["crazeId"] == host.crazeSessionId
    # Both ids are the session's from now on.
    for id in ("fake:saved-1", host.crazeSessionId):
        result = reopen(hub, id)
        assert (result["joined"], result["session"]["hostId"]) == (True, host.hostId)
    # Another craze directory's index never heard of that id, and joins it all the same.
    other = Hub(machine, CRAZE_HOME=str(machine.home / "other"))
    other.configure(script("load"))
    other.save(legacy)
    other.start()
    assert other.result("sessions.saved")["sessions"] == []
    result = reopen(other, "fake:saved-1")
    assert (result["joined"], result["session"]["hostId"]) == (True, host.hostId)
    assert one_host(hub) == host


# ---- creates at once ----


def test_twenty_creates_at_once_under_one_request_id_start_one_host(machine: Machine) -> None:
    machine.configure(script("echo"))
    hub = Hub(machine)
    hub.start()
    params = {"cwd": str(machine.work), "prompt": "hi", "requestId": "one"}

    def create() -> bytes:
        with hub.wire() as wire:
            wire.hello()
            return wire.answer(wire.send("session.create", **params))

    answers = together(*[create] * 20)
    host = one_host(hub)
    assert len(set(answers)) == 1
    result = json.loads(answers[0])["result"]
    assert (result["prompt"], result["session"]["hostId"]) == ("accepted", host.hostId)
    assert create() == answers[0]
    assert hub.refusal("session.create", **params | {"prompt": "ho"})["reason"] == (
        "request_conflict"
    )
    # A hub that never heard of it finds the session by what its host's entry says.
    hub.kill(signal.SIGTERM)
    hub.start()
    answers = together(*[create] * 20)
    assert len(set(answers)) == 1
    again = json.loads(answers[0])["result"]
    assert again["session"]["hostId"] == host.hostId
    assert again["prompt"] == "unknown"
    words = "the create was answered by another hub, which this one never heard from"
    assert again["promptError"] == words
    assert one_host(hub).hostId == host.hostId
    with Client(host.socket) as client:
        entries = client.request("session.snapshot")["snapshot"]["main"]["entries"]
    assert [entry["text"] for entry in entries if entry["kind"] == "user"] == ["hi"]


def test_of_seventeen_creates_at_once_one_is_refused_as_busy(machine: Machine) -> None:
    gate = machine.work / "go"
    machine.configure(gated(gate, "exit 1"))
    hub = started(machine)
    with contextlib.ExitStack() as held:
        wires = [held.enter_context(hub.wire()) for _ in range(17)]
        for wire in wires:
            wire.hello()
        ids = [
            wire.send("session.create", cwd=str(machine.work), requestId=f"r-{number}")
            for number, wire in enumerate(wires)
        ]
        reasons: list[str] = []

        def answered(wire: Wire, id: int) -> None:
            reasons.append(json.loads(wire.answer(id))["error"]["data"]["reason"])

        jobs = [greenlets.spawn("answered", answered, *one) for one in zip(wires, ids, strict=True)]
        eventually(lambda: reasons)
        assert reasons == ["busy"]
        assert hub.refusal("session.reopen", id=NEVER)["reason"] == "busy"
        gate.touch()
        gevent.joinall(jobs, timeout=PATIENCE_S, raise_error=True)
    assert sorted(reasons) == ["busy"] + ["start_failed"] * 16
    # What did not come up was ended, and its place is free again.
    assert hub.hosts() == []
    machine.configure(script("echo"))
    assert hub.create()


# ---- what a reopen may find ----


def test_a_running_session_is_joined_even_where_its_directory_is_gone(
    machine: Machine, hub: Hub
) -> None:
    folder = machine.work / "gone"
    folder.mkdir()
    hub.save(row(machine, cwd=str(folder)))
    first = reopen(hub)
    assert first["joined"] is False
    row_of = first["session"]
    assert (row_of["status"], row_of["approximate"]) == ("reachable", False)
    assert (row_of["row"]["title"], row_of["host"]["workspace"]) == ("a title", str(folder))
    folder.rmdir()
    again = reopen(hub)
    assert (again["joined"], again["session"]["hostId"]) == (True, row_of["hostId"])
    stop(one_host(hub))
    said = hub.refusal("session.reopen", id=NEVER)
    assert (said["code"], said["reason"]) == ("not_accepting", "not_resumable")
    assert said["message"] == f"that session ran in {folder}, which is no longer a directory"
    assert hub.hosts() == []


def test_what_cannot_be_resumed_is_refused_and_starts_nothing(machine: Machine, hub: Hub) -> None:
    stamp = "2026-02-02T00:00:00Z"
    hub.save(
        row(machine, "s-1", crazeId="c-1"),
        row(machine, "s-2", crazeId="c-1", provider="nobodys", updatedAt=stamp),
        row(machine, "s-3", crazeId="c-3", cwd="relative"),
    )
    saved = hub.result("sessions.saved")["sessions"]
    assert saved == []
    for id, reason, words in (
        ("c-0", "unknown_session", "no session c-0"),
        ("c-1", "not_resumable",
         'that session\'s provider "nobodys" is not one this craze can resume'),
        ("fake:s-1", "not_resumable",
         'that session\'s provider "nobodys" is not one this craze can resume'),
        ("c-3", "not_resumable", "that session's index row is malformed"),
    ):  # fmt: skip
        said = hub.refusal("session.reopen", id=id)
        assert (said["reason"], said["message"]) == (reason, words)
    Path(hub.paths.index).unlink()
    Path(hub.paths.index).mkdir()
    assert hub.refusal("session.reopen", id="c-1")["reason"] == "not_resumable"
    assert hub.result("sessions.saved") == {"sessions": [], "more": False}
    assert "the session index cannot be read" in hub.log
    assert running(machine, "craze serve") == []


def test_b43_b24_a_reopen_whose_start_fails_says_what_the_agent_said(
    machine: Machine, hub: Hub
) -> None:
    machine.configure(script("exit-two-lines"))
    said = hub.refusal("session.reopen", id=NEVER)
    assert (said["code"], said["reason"]) == ("not_accepting", "start_failed")
    cause = "acp: agent exited: exit status 1: Error: KEYCHAIN LOCKED / Run unlock and retry."
    assert said["cause"] == cause
    assert said["message"] == f"the session did not start: {cause}"
    assert (hub.hosts(), running(machine, "craze serve")) == ([], [])
    # Nothing of it is kept: the next one starts anew.
    machine.configure(script("load"))
    assert reopen(hub)["joined"] is False
    os.kill(agents(machine)[0], signal.SIGKILL)
    eventually(lambda: running(machine, "craze serve") == [])
    assert reopen(hub)["joined"] is False


def by_hand(machine: Machine, *flags: str) -> "subprocess.Popen[bytes]":
    """A `craze serve --load` that no hub started."""
    return subprocess.Popen(
        [CRAZE, "serve", f"--load={NEVER}", *flags],
        cwd=machine.work,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def ended(process: "subprocess.Popen[bytes]", number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    return process.wait(END_S)


def asking(hub: Hub, **params: Any) -> tuple[list[dict[str, Any]], Callable[[], dict[str, Any]]]:
    """A reopen under way: what came of it so far, and how to wait for that."""
    said: list[dict[str, Any]] = []

    def ask() -> None:
        said.append(hub.ask("session.reopen", **params))

    job = greenlets.spawn("asking", ask)

    def wait() -> dict[str, Any]:
        gevent.joinall([job], timeout=PATIENCE_S, raise_error=True)
        result: dict[str, Any] = said[0].get("result") or said[0]["error"]["data"]
        return result

    return said, wait


def test_a_session_that_somebody_else_is_loading_is_joined_once_it_is_up(
    machine: Machine, hub: Hub
) -> None:
    gate = machine.work / "go"
    machine.configure(gated(gate, f"exec {AGENT} --script=load"))
    process = by_hand(machine)
    try:
        [host] = eventually(lambda: [one for one in hub.hosts() if one.crazeSessionId])
        said, wait = asking(hub, id=NEVER)
        gevent.sleep(0.3)
        assert said == []
        gate.touch()
        result = wait()
        assert (result["joined"], result["session"]["hostId"]) == (True, host.hostId)
        assert one_host(hub).pid == process.pid
    finally:
        assert ended(process) == 0


def test_a_claim_that_is_held_without_an_entry_is_waited_for(
    machine: Machine, tmp_path: Path
) -> None:
    customize(machine, STALL)
    machine.environment["LEAVES"] = str(tmp_path)
    hub = started(machine)
    process = stalled(machine, "serve", f"--load={NEVER}")
    try:
        assert hub.hosts() == []
        said, wait = asking(hub, id=NEVER)
        eventually((tmp_path / "serve").exists)  # ours, which found the claim held
        gevent.sleep(0.3)
        assert said == []
        process.send_signal(signal.SIGCONT)
        result = wait()
        assert result["joined"] is True
        assert result["session"]["host"]["pid"] == process.pid
        assert one_host(hub).pid == process.pid
    finally:
        assert ended(process) == 0


def test_a_claim_that_stays_held_is_named_with_its_holder_who_is_left_alone(
    machine: Machine,
) -> None:
    customize(machine, STALL, REOPEN_HOLDERS=0.5)
    hub = started(machine)
    id = "0" * 12
    process = stalled(machine, "serve", f"--load={NEVER}", f"--host-id={id}")
    try:
        said = hub.refusal("session.reopen", id=NEVER)
        assert (said["code"], said["reason"]) == ("unavailable", "busy")
        assert said["message"] == (
            f"that session is held by host {id} (pid {process.pid}), which has not finished"
            " stopping; try again"
        )
        assert running(machine, "craze serve") == [process.pid]
        process.send_signal(signal.SIGCONT)
        eventually(lambda: [one for one in hub.hosts() if one.ready])
        assert reopen(hub)["session"]["hostId"] == id
    finally:
        assert ended(process) == 0


def test_a_claim_whose_holder_is_killed_is_taken(machine: Machine, tmp_path: Path) -> None:
    customize(machine, STALL)
    machine.environment["LEAVES"] = str(tmp_path)
    hub = started(machine)
    process = stalled(machine, "serve", f"--load={NEVER}")
    said, wait = asking(hub, id=NEVER)
    eventually((tmp_path / "serve").exists)
    assert said == []
    assert ended(process, signal.SIGKILL) == -signal.SIGKILL
    result = wait()
    assert result["joined"] is False
    assert one_host(hub).crazeSessionId == NEVER


def test_a_host_that_is_stopping_is_waited_for_however_long_its_agent_takes(
    machine: Machine, hub: Hub
) -> None:
    machine.configure(script("load", CRAZE_FAKE_STUBBORN="1"))
    process = by_hand(machine)
    try:
        [host] = eventually(lambda: [one for one in hub.hosts() if one.ready])
        stop_session(host)
        assert registry.read(hub.paths, host.hostId).stopping
        [saved] = hub.result("sessions.saved")["sessions"]
        assert saved["id"] == NEVER
        assert hub.result("sessions.list")["sessions"] == []
        machine.configure(script("load"))
        result = reopen(hub)
        assert processes.dead(host.pid), "it was not loaded twice"
        assert (result["joined"], result["session"]["sessionId"]) == (False, NEVER)
        assert one_host(hub).hostId == result["session"]["hostId"] != host.hostId
    finally:
        assert process.wait(END_S) == 0


@pytest.mark.parametrize("whose", ["the hub's", "nobody's"])
def test_b31_a_killed_hosts_session_is_reopened_at_once_though_its_agent_lives(
    machine: Machine, hub: Hub, whose: str
) -> None:
    machine.configure(script("load", CRAZE_FAKE_STUBBORN="1"))
    process = None if whose == "the hub's" else by_hand(machine)
    if process is None:
        reopen(hub)
    [host] = eventually(lambda: [one for one in hub.hosts() if one.ready])
    agent, guard = child(host.pid, "craze-fake-agent"), child(host.pid, "read -r group")
    os.kill(guard, signal.SIGKILL)  # it would end the agent in the host's stead
    os.kill(host.pid, signal.SIGKILL)
    if process is not None:
        process.wait(END_S)
    machine.configure(script("load"))
    try:
        result = reopen(hub)
        assert result["joined"] is False
        assert result["session"]["hostId"] != host.hostId
        assert [one.hostId for one in hub.hosts()] == [result["session"]["hostId"]]
        if process is None:
            eventually(lambda: processes.dead(agent))
            assert "left agents behind: 1 groups killed" in hub.log
        else:
            assert not processes.dead(agent), "it is no affair of this hub's"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(agent, signal.SIGKILL)


def test_b28_a_host_that_stands_still_is_not_joined_and_left_alone(
    machine: Machine,
) -> None:
    customize(machine, REOPEN_DIAL=1.0)
    hub = started(machine)
    hostId = reopen(hub)["session"]["hostId"]
    host = one_host(hub)
    os.kill(host.pid, signal.SIGSTOP)
    try:
        said = hub.refusal("session.reopen", id=NEVER)
        assert (said["code"], said["reason"]) == ("unavailable", "host_unreachable")
        [listed] = hub.result("sessions.list")["sessions"]
        assert (listed["hostId"], listed["status"]) == (hostId, "unreachable")
        assert listed["approximate"] is True
    finally:
        os.kill(host.pid, signal.SIGCONT)
    result = reopen(hub)
    assert (result["joined"], result["session"]["hostId"]) == (True, hostId)
    assert one_host(hub) == host


def test_a_registry_that_cannot_be_read_refuses_what_might_run_twice(
    machine: Machine, hub: Hub
) -> None:
    reopen(hub)
    entry = Path(hub.paths.entry(one_host(hub).hostId))
    kept = entry.read_bytes()
    entry.write_bytes(b"{")
    work = str(machine.work)
    for method, params in (
        ("sessions.saved", {}),
        ("session.reopen", {"id": NEVER}),
        ("session.create", {"cwd": work, "requestId": "r"}),
    ):
        said = hub.refusal(method, **params)
        assert (said["code"], said["reason"]) == ("unavailable", "host_unreachable"), method
        assert str(entry) not in said["message"]
    assert hub.create(), "without a request id nothing could run twice"
    entry.write_bytes(kept)
    assert reopen(hub)["joined"] is True


def test_a_create_that_fails_is_ended_and_answered_alike_when_it_is_sent_again(
    machine: Machine, hub: Hub
) -> None:
    machine.configure(provider("/nowhere/agent"))
    params = {"cwd": str(machine.work), "requestId": "r", "title": " a\u202e  b "}
    first = hub.ask("session.create", **params)["error"]
    assert first["data"]["reason"] == "start_failed"
    assert first["data"]["cause"].startswith("agent binary not found: /nowhere/agent")
    assert (hub.hosts(), running(machine, "craze serve")) == ([], [])
    machine.configure(script("echo"))
    again = hub.ask("session.create", **params | {"title": "a b"})["error"]
    assert again == first
    made = hub.create(requestId="s", title=" a\u202e  b ")
    assert made["row"]["title"] == "a b"
    assert made["host"]["provider"] == "fake"
