"""`craze new` with the real hub: sessions created and brought back, also over a killed hub."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from craze.client import Client
from tests.e2e.hubs import Hub, eventually, gated, script, settle, stop
from tests.e2e.machine import Machine

STARTED = re.compile(r"started ([0-9a-f]{8}) in (\S+)\n")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(script("remember", CRAZE_FAKE_SESSION_ID="{dir}-1"))
    yield made
    left = settle(made)
    made.close()
    assert not left


def craze(machine: Machine, *arguments: str) -> "subprocess.Popen[str]":
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return machine.craze(*arguments, **options)  # type: ignore[return-value]


def ran(machine: Machine, *arguments: str) -> tuple[int, str, str]:
    process = craze(machine, *arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_a_session_is_created_with_its_first_prompt(machine: Machine) -> None:
    code, out, err = ran(machine, "new", "--title", "Flaky [test]", "hello", "there")
    assert (code, err) == (0, "")
    found = STARTED.fullmatch(out)
    assert found and found[2] == str(machine.work)
    [host] = Hub(machine).hosts()
    assert host.crazeSessionId.endswith(found[1])
    assert re.fullmatch("new-[0-9a-f]{16}", host.requestId)
    with Client(host.socket) as client:
        [row] = client.request("sessions.list")["sessions"]
    assert (row["title"], row["prompted"]) == ("Flaky [test]", True)


def test_its_json_is_what_a_program_needs_to_go_on(machine: Machine) -> None:
    code, out, err = ran(machine, "new", "--json", "-C", str(machine.home))
    assert (code, err, out.count("\n")) == (0, "", 1)
    made = json.loads(out)
    assert (made["prompt"], made["session"]["host"]["workspace"]) == ("none", str(machine.home))
    [host] = Hub(machine).hosts()
    assert made["session"]["hostId"] == host.hostId
    assert made["session"]["row"]["sessionId"] == host.crazeSessionId


def test_a_start_that_fails_says_why_in_words_and_in_json(machine: Machine) -> None:
    machine.configure(script("exit-two-lines"))
    code, out, err = ran(machine, "new", "--json", "hi")
    assert code == 1 and err.count("\n") == 1
    error = json.loads(out)["error"]
    assert (error["data"]["code"], error["data"]["reason"]) == ("not_accepting", "start_failed")
    assert err == f"craze new: {error['message']}\n"
    assert error["data"]["cause"] in error["message"]


def test_no_default_provider(machine: Machine) -> None:
    machine.configure("")
    said = "craze new: no default provider yet; pass --provider cursor, grok, gx or native\n"
    assert ran(machine, "new") == (1, "", said)


def test_a_saved_session_is_brought_back_and_joined(machine: Machine) -> None:
    assert ran(machine, "new", "one")[0] == 0
    hub = Hub(machine)
    [host] = hub.hosts()
    session = host.crazeSessionId
    eventually(lambda: Path(hub.paths.index).exists())
    stop(host)
    code, out, err = ran(machine, "ps", "--saved", "--json")
    assert (code, err) == (0, "")
    [saved] = json.loads(out)["sessions"]
    assert saved["id"] == session
    line = f"{session[-8:]} in {machine.work}\n"
    assert ran(machine, "new", "--load", session) == (0, f"started {line}", "")
    assert ran(machine, "new", "--load", session) == (0, f"joined {line}", "")
    assert ran(machine, "ps", "--saved") == (0, "no saved sessions\n", "")
    [again] = hub.hosts()
    assert again.crazeSessionId == session and again.hostId != host.hostId


def test_a_saved_session_that_is_not_there(machine: Machine) -> None:
    code, out, err = ran(machine, "new", "--json", "--load", "nothing")
    assert (code, err.count("\n")) == (1, 1)
    assert json.loads(out)["error"]["data"]["code"] == "unknown_session"


def test_b10_a_killed_hub_costs_one_more_try_and_no_second_session(
    machine: Machine, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    machine.configure(gated(gate, "exec craze-fake-agent"))
    hub = Hub(machine)
    process = craze(machine, "new", "hi")
    [host] = eventually(hub.hosts)
    killed = hub.kill()
    eventually(lambda: hub.record.pid != killed)
    gate.touch()
    out, err = process.communicate(timeout=120)
    said = (
        f"started {host.crazeSessionId[-8:]} in {machine.work}; the prompt may not have reached it"
    )
    assert (process.returncode, out, err) == (0, said + "\n", "")
    assert [entry.hostId for entry in hub.hosts()] == [host.hostId]


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
def test_b72_an_interrupt_is_one_line_and_130(machine: Machine) -> None:
    machine.configure(script("bad-new-silent"))
    process = craze(machine, "new", "hi")
    eventually(Hub(machine).hosts)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "craze new: interrupted; the session may start all the same: see craze ps\n"
