"""`craze ps` with the real hub, and without one: what sessions do is what it says."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from craze.client import Client
from tests.e2e.hubs import Hub, eventually, script, settle, stop
from tests.e2e.machine import Machine
from tests.e2e.test_new import ran


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    left = settle(made)
    made.close()
    assert not left


def states(machine: Machine, *flags: str) -> dict[str, str]:
    """The state of each session by the end of its id."""
    code, out, _ = ran(machine, "ps", *flags)
    assert code == 0
    heading, *lines = out.splitlines()
    if not lines:
        assert heading == "no sessions running"
        return {}
    at, end = heading.index("STATE"), heading.index("PROVIDER")
    return {line.split()[0]: line[at:end].strip() for line in lines}


def test_with_nothing_running_it_starts_a_hub_and_says_so(machine: Machine) -> None:
    assert ran(machine, "ps") == (0, "no sessions running\n", "")
    hub = Hub(machine)
    pid = hub.record.pid
    assert ran(machine, "ps", "--json") == (
        0, f'{{"epoch":"{hub.record.hubId}","cursor":0,"sessions":[]}}\n', "",
    )  # fmt: skip
    assert hub.record.pid == pid


@pytest.mark.parametrize(
    ("agent", "flags", "state"),
    [
        ("echo", (), "idle"),
        ("long-turn", (), "working"),
        ("hang", (), "working"),
        ("permission", ("--no-force",), "needs you"),
        ("turnfail", (), "failed"),
    ],
)
def test_the_state_of_a_session(
    machine: Machine, agent: str, flags: tuple[str, ...], state: str
) -> None:
    machine.configure(script(agent))
    code, out, err = ran(machine, "new", *flags, "hello")
    assert (code, err) == (0, "")
    id = out.split()[1]
    eventually(lambda: states(machine) == {id: state})
    assert states(machine, "--no-hub") == {id: state}


def test_the_hub_and_the_hosts_say_the_same(machine: Machine) -> None:
    machine.configure(script("hang"))
    for _ in range(3):
        assert ran(machine, "new", "hello")[0] == 0
    code, by_hub, err = ran(machine, "ps", "--json")
    assert (code, err) == (0, "")
    code, direct, err = ran(machine, "ps", "--json", "--no-hub")
    assert (code, err) == (0, "craze ps: --no-hub: reading each session's host directly\n")
    of_hub, of_hosts = json.loads(by_hub), json.loads(direct)
    assert len(of_hosts["sessions"]) == 3
    assert of_hosts == {**of_hub, "epoch": "", "cursor": 0}


def test_a_stopped_session_is_gone_at_once(machine: Machine) -> None:
    machine.configure(script("echo"))
    assert ran(machine, "new")[0] == 0
    [host] = Hub(machine).hosts()
    with Client(host.socket, session=host.crazeSessionId) as client:
        client.command("session.stop")
    assert states(machine, "--no-hub") == {}
    assert states(machine) == {}


def test_a_killed_host_is_gone_at_once(machine: Machine) -> None:
    machine.configure(script("echo"))
    assert ran(machine, "new")[0] == 0
    [host] = Hub(machine).hosts()
    os.kill(host.pid, 9)
    eventually(lambda: states(machine) == {})
    assert states(machine, "--no-hub") == {}


def test_without_a_hub_to_be_had_the_hosts_are_asked(machine: Machine) -> None:
    machine.configure(script("echo"))
    host = machine.serve("--title=Here")
    machine.environment["CRAZE_RUNTIME_DIR"] = "relative"
    code, out, err = ran(machine, "ps")
    machine.environment["CRAZE_RUNTIME_DIR"] = machine.runtime
    host.process.terminate()
    host.process.wait(20)
    assert code == 0
    assert out.splitlines()[1].split()[0] == host.session[-8:]
    assert out.splitlines()[1].endswith("  Here")
    assert err.startswith("craze ps: the hub is not available (craze hub could not start: rundir: ")
    assert err.endswith("); reading each session's host directly\n") and err.count("\n") == 1


def test_a_saved_session(machine: Machine) -> None:
    machine.configure(script("remember"))
    assert ran(machine, "new", "--title=Kept", "hello")[0] == 0
    hub = Hub(machine)
    [host] = hub.hosts()
    eventually(lambda: Path(hub.paths.index).exists())
    assert ran(machine, "ps", "--saved") == (0, "no saved sessions\n", "")
    stop(host)
    for flags in ((), ("--no-hub",)):
        code, out, err = ran(machine, "ps", "--saved", *flags)
        assert code == 0 and bool(err) == bool(flags)
        line = out.splitlines()[1].split()
        assert (line[:2], line[-1]) == ([host.crazeSessionId, "fake"], "Kept")
