"""The life of a host process, from outside: what it says, what it leaves, and how it ends."""

import json
import os
import random
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.client import Client, Refused
from craze.eventlog import journal
from craze.machine import claims, registry
from craze.machine.paths import Paths
from tests.e2e.machine import BIN, Host, Machine, until

AGENT = f"{BIN / 'craze-fake-agent'}"


def config(*script: str) -> str:
    command = json.dumps([AGENT, *(f"--script={one}" for one in script)])
    return f"[providers.fake]\ncommand = {command}\n"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(config("long-turn"))
    yield made
    left = made.processes()
    made.close()
    assert not left


def paths(machine: Machine) -> Paths:
    return Paths.of(machine.environment)


def journals(machine: Machine) -> list[Path]:
    return sorted((machine.home / ".craze" / "journal").rglob("*.jsonl"))


def end(host: Host, number: int = signal.SIGTERM) -> int:
    host.process.send_signal(number)
    return host.process.wait(20)


def test_a_host_leaves_nothing_but_its_claims_file_its_log_and_its_journal(
    machine: Machine,
) -> None:
    host = machine.serve("--provider=fake")
    with Client(host.socket) as client, client.attach() as notes:
        assert next(notes).method == "synchronized"
    assert end(host) == 0
    assert machine.wait_empty() == {}
    cache = machine.home / ".cache" / "craze"
    files = sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())
    assert files == [f"host-logs/{host.id}.log", f"locks/{host.session}.lock"]
    assert not list(Path(machine.runtime).rglob("*.sock"))
    assert (cache / "locks" / f"{host.session}.lock").read_bytes() == b""


def test_b33_nothing_is_open_to_others_under_any_umask(machine: Machine) -> None:
    before = os.umask(0)
    try:
        host = machine.serve("--provider=fake")
    finally:
        os.umask(before)
    try:
        with Client(host.socket) as client, client.attach() as notes:
            client.command("session.prompt", text="hi", mode="queue")
            next(notes)
            assert until(lambda: journals(machine), 10)
            for top in (machine.home / ".cache" / "craze", Path(machine.runtime)):
                for path in (top, *top.rglob("*")):
                    mode = stat.S_IMODE(path.lstat().st_mode)
                    assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
            assert stat.S_IMODE(journals(machine)[0].stat().st_mode) == 0o600
    finally:
        end(host)
    assert machine.wait_empty() == {}


@pytest.mark.parametrize("seed", range(6))
def test_b20_b31_b73_a_host_killed_at_any_moment_leaves_a_claim_a_journal_and_no_agent(
    machine: Machine, seed: int
) -> None:
    chance = random.Random(seed)
    host = machine.serve("--provider=fake")
    with Client(host.socket) as client, client.attach() as notes:
        next(notes)
        client.command("session.prompt", text="go on and on", mode="queue")
        time.sleep(chance.random() * 0.5)
        host.process.kill()
        host.process.wait()
        claim = claims.claim(paths(machine), host.session, "0" * 12)
        claim.release()
    assert machine.wait_empty() == {}
    for path in journals(machine):
        lines = list(journal.load(str(path)))
        assert lines[0]["type"] == "header"
        seqs = [line["seq"] for line in lines if line["type"] == "event"]
        assert seqs == list(range(1, len(seqs) + 1))
    # What it left behind does not stop the next one, which clears it away.
    again = machine.serve("--provider=fake")
    assert end(again) == 0
    assert machine.wait_empty() == {}
    assert registry.scan(paths(machine)) == ([], [])
    assert not list((machine.home / ".cache" / "craze" / "hosts").iterdir())


def test_b24_a_killed_agent_ends_the_session_with_its_cause(machine: Machine) -> None:
    host = machine.serve("--provider=fake")
    with Client(host.socket) as client, client.attach() as notes:
        client.command("session.prompt", text="long", mode="queue")
        agent = next(pid for pid, line in machine.processes().items() if "craze-fake-agent" in line)
        os.kill(agent, signal.SIGKILL)
        said = list(notes)
    events = [note.params["event"] for note in said if note.method == "event"]
    errors = [event["err"] for event in events if event["type"] == "error"]
    assert [error["class"] for error in errors] == ["agent_exit_status"]
    ended = [event["turn"] for event in events if event["type"] == "turn"][-1]
    assert (ended["phase"], ended["errClass"]) == ("ended", "agent_exit_status")
    assert said[-1].params["reason"] == "session_closed"
    assert host.process.wait(20) == 0
    assert machine.wait_empty() == {}


def test_a_hangup_ends_nothing(machine: Machine) -> None:
    host = machine.serve("--provider=fake")
    with Client(host.socket) as client, client.attach():
        host.process.send_signal(signal.SIGHUP)
        assert client.request("session.sync", sessionId=host.session)["seq"] >= 1
    assert end(host, signal.SIGINT) == 0
    log = (machine.home / ".cache" / "craze" / "host-logs" / f"{host.id}.log").read_text()
    assert "craze serve: hangup ignored; the session runs on" in log
    assert "craze serve: stopping: SIGINT" in log
    assert machine.wait_empty() == {}


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (["/nowhere/agent"], "agent binary not found: /nowhere/agent"),
        (["/bin/sh", "-c", "read line; echo KEYCHAIN LOCKED >&2; exit 1"], "KEYCHAIN LOCKED"),
    ],
)
def test_b39_b43_a_start_that_fails_is_told_and_then_ends(
    machine: Machine, command: list[str], cause: str
) -> None:
    machine.configure(f"[providers.fake]\ncommand = {json.dumps(command)}\n")
    host = machine.serve("--provider=fake")
    with Client(host.socket) as client:

        def row() -> dict[str, Any]:
            return client.request("sessions.list")["sessions"][0]

        assert until(lambda: row()["activity"] == "error", 10)
        assert row()["startFailed"] is True
        assert cause in row()["startErr"]
        with pytest.raises(Refused) as refused, client.attach():
            pass
        assert refused.value.reason == "start_failed"
        assert cause in refused.value.cause
        with client.attach(when="now") as notes:
            assert next(notes).method == "synchronized"
    assert host.process.wait(20) == 0, "it ends once nobody is attached"
    assert machine.wait_empty() == {}


def test_a_held_session_is_refused_with_its_holder(machine: Machine) -> None:
    host = machine.serve("--provider=fake")
    try:
        with Client(host.socket) as client, client.attach() as notes:
            client.command("session.prompt", text="one", mode="queue")
            next(notes)
        index = machine.home / ".craze" / "sessions.jsonl"
        assert until(index.exists, 10)
        row: dict[str, Any] = json.loads(index.read_text())
        assert (row["crazeId"], row["title"]) == (host.session, "one")
        late = machine.craze("serve", f"--load={host.session}", stderr=subprocess.PIPE)
        _, said = late.communicate(timeout=20)
        assert late.returncode == 1
        words = f"craze serve: that session is already running (pid {host.process.pid})\n"
        assert said.decode() == words
    finally:
        end(host)
    assert machine.wait_empty() == {}


def test_b26_a_home_too_long_for_sockets_falls_back_to_a_short_folder(tmp_path: Path) -> None:
    root = tmp_path / ("é" * 60)
    root.mkdir()
    machine = Machine(root)
    try:
        machine.configure(config("echo"))
        del machine.environment["CRAZE_RUNTIME_DIR"]
        host = machine.serve("--provider=fake")
        assert len(os.fsencode(host.socket)) <= 100
        assert end(host) == 0
        assert machine.wait_empty() == {}
    finally:
        machine.close()
