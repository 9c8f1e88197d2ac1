"""Hosts that the hub starts: their flags, their ready lines, their end and what they leave."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.cli import serve
from craze.hub import spawn
from craze.hub.spawn import Held, SessionRefused, Spawned
from craze.machine import processes, reexec
from craze.machine.ids import is_host_id
from craze.terminal.flags import parse
from craze.wire.codes import Refusal
from tests.unit.hub.hosts import HUB_PID, PATIENCE, Machine, machines, until
from tests.unit.hub.stand_in import VERSION

GRACE = 0.2


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setattr(spawn, "SPAWN_GRACE", PATIENCE)
    yield from machines(monkeypatch)


def start(machine: Machine, flags: dict[str, Any] | None = None, **options: Any) -> Spawned:
    return machine.spawner.start(flags or {}, str(machine.work), **options)


def failure(machine: Machine, *acts: dict[str, Any], **options: Any) -> str:
    """The words in which a start fails, its process ended and reaped by then."""
    if acts:
        machine.script(*acts)
    with pytest.raises(Refusal) as caught:
        start(machine, **options)
    assert (caught.value.code, caught.value.reason) == ("unavailable", "spawn_failed")
    assert all(not _there(started.pid) for started in machine.starts)
    return caught.value.message


def _there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


# ---- what a host is given ----


def test_flags_stand_in_their_one_order_with_the_hubs_own_among_them(machine: Machine) -> None:
    host = start(
        machine,
        {
            "unattended": True, "title": "A <title> =", "request-hash": "sha256:0", "load": "",
            "request-id": "r-1", "plan": True, "ask": False, "no-force": True, "no-fast": True,
            "fast": False, "effort": "high", "model": "m 1", "provider": "grok", "workspace": "/w",
        },
    )  # fmt: skip
    assert is_host_id(host.host_id)
    log = f"{machine.paths.host_logs}/{host.host_id}.log"
    assert machine.starts[0].told["arguments"] == [
        "serve", f"--host-id={host.host_id}", f"--log={log}", "--workspace=/w", "--provider=grok",
        "--model=m 1", "--effort=high", "--no-fast", "--no-force", "--plan", "--no-host-status",
        "--request-id=r-1", "--request-hash=sha256:0", f"--hub-pid={HUB_PID}",
        "--title=A <title> =", "--unattended",
    ]  # fmt: skip


def test_a_host_takes_every_flag_that_it_is_given(machine: Machine) -> None:
    values: dict[str, Any] = {
        "load": "grok:x", "workspace": str(machine.work), "provider": "grok", "model": "m",
        "effort": "e", "title": "T", "request-id": "r", "request-hash": "sha256:0",
    }  # fmt: skip
    for switches in ({"fast": True, "ask": True}, {"no-fast": True, "plan": True}):
        start(machine, {**values, **switches, "no-force": True, "unattended": True})
        given, others = parse(serve.FLAGS, machine.starts[-1].flags)
        assert not others
        options = serve.settle(given, machine.environ, str(machine.work))
        assert (options["title"], options["hub_pid"], options["force"]) == ("T", HUB_PID, False)
        assert options["fast"] is switches.get("fast", False)
        assert options["mode"] == ("ask" if "ask" in switches else "plan")
        assert options["unattended"] and not options["host_status"]


def test_a_host_has_its_sessions_directory_and_a_session_and_environment_of_its_own(
    machine: Machine,
) -> None:
    machine.environ.update(
        CRAZE_PROVIDER="cursor", CRAZE_AGENT_BIN="/x", TMUX="t", HERDR_X="1", CRAZE_HOME="~/c",
        XAI_API_KEY="k",
    )  # fmt: skip
    host = start(machine)
    told = machine.starts[0].told
    assert told["cwd"] == str(machine.work)
    environ = told["environment"]
    assert not environ.keys() & {"CRAZE_PROVIDER", "CRAZE_AGENT_BIN", "TMUX", "HERDR_X"}
    assert environ["CRAZE_HOME"] == f"{machine.root}/home/c"
    assert environ["XAI_API_KEY"] == "k" and environ["CRAZE_HOST_CHILD"] == "1"
    assert os.getsid(host.child.pid) == host.child.pid
    targets = {fd: os.readlink(f"/proc/{host.child.pid}/fd/{fd}") for fd in (0, 1, 2)}
    assert set(targets.values()) == {"/dev/null"}


# ---- its ready line ----


def test_a_host_that_is_ready_is_told_as_its_line_says(machine: Machine) -> None:
    machine.script({"session": "s-9"})
    host = start(machine)
    assert (host.session, host.version) == ("s-9", VERSION)
    assert host.child.pid == machine.starts[0].pid and not machine.starts[0].ended
    assert host.socket == f"{machine.sockets}/{host.host_id}.sock"
    entry = host.entry("grok", "/w", "2026-01-01T00:00:00Z")
    assert entry == (
        1, host.host_id, host.child.pid, "2026-01-01T00:00:00Z", host.socket, "s-9", "", "",
        "grok", "/w", True, "", "", False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("craze serve: the control socket: no room", "the control socket: no room"),
        ("craze: the session index is busy", "the session index is busy"),
        ("first\nsecond", "first"),
        ("no prefix", "no prefix"),
    ],
)
def test_a_host_that_could_not_start_is_told_in_its_first_line(
    machine: Machine, line: str, words: str
) -> None:
    said = failure(machine, {"ready": {"ok": False, "error": line}})
    assert said == f"the session host could not start: {words}"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"hostId": "0123456789ab", "pid": 7}, ("0123456789ab", 7)),
        ({"hostId": "0123456789ab"}, ("0123456789ab", 0)),
        ({"hostId": "../../../x"}, ("", 0)),
        ({}, ("", 0)),
    ],
)
def test_a_host_whose_session_is_held_names_the_holder(
    machine: Machine, said: dict[str, Any], told: tuple[str, int]
) -> None:
    held = {**said, "crazeSessionId": "s-1"}
    machine.script({"ready": {"ok": False, "error": "craze: held\n", "held": held}})
    with pytest.raises(Held, match=r"^held$") as caught:
        start(machine)
    assert (caught.value.host_id, caught.value.pid, caught.value.session) == (*told, "s-1")
    assert not _there(machine.starts[0].pid)


def test_a_refused_session_is_no_failed_host(machine: Machine) -> None:
    line = {"ok": False, "error": "craze serve: no session s-1", "refused": True}
    machine.script({"ready": line})
    with pytest.raises(SessionRefused, match=r"^no session s-1$"):
        start(machine)
    assert not _there(machine.starts[0].pid)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense\n",
        "{}\n",
        "[1]\n",
        '{"ok":true}\n',
        '{"ok":false}\n',
        '{"ok":false,"error":"x","held":{}}\n',
        "[" * 50_000 + "\n",
        "\n",
    ],
)
def test_a_ready_line_that_says_nothing(machine: Machine, line: str) -> None:
    if line == "\n":
        assert "exited before it was ready" in failure(machine, {"ready": line})
    else:
        said = failure(machine, {"ready": line})
        assert said.startswith("the session host's ready line cannot be read: ")


def test_a_ready_line_that_is_too_long(machine: Machine) -> None:
    said = failure(machine, {"ready": "x" * 65536 + "y\n"})
    assert said == "the session host's ready line is longer than 65536 bytes"


def test_a_ready_line_for_another_host(machine: Machine) -> None:
    said = failure(machine, {"ready": {"hostId": "ffffffffffff"}})
    assert said == "the session host answered for another host"


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_host_that_ends_without_a_line_is_told_by_how_it_ended(
    machine: Machine, code: int
) -> None:
    said = failure(machine, {"ready": None, "exit": code})
    assert said == f"the session host exited before it was ready (exit status {code})"


def test_a_host_that_is_killed_before_it_is_ready(machine: Machine) -> None:
    machine.script({"hang": True})

    def kill() -> None:
        until(lambda: machine.starts)
        os.kill(machine.starts[0].pid, signal.SIGKILL)

    killer = gevent.spawn(kill)
    assert failure(machine) == "the session host exited before it was ready (signal: killed)"
    killer.join()


def test_a_host_that_closes_its_pipe_and_stays_is_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "SPAWN_GRACE", GRACE)
    said = failure(machine, {"close": True})
    ended = ("signal: terminated", "signal: killed")
    assert said in [f"the session host exited before it was ready ({how})" for how in ended]


def test_a_host_that_is_not_ready_in_time_is_ended(machine: Machine) -> None:
    assert failure(machine, {"hang": True}, wait=GRACE) == (
        "the session host was not ready within 0.2s"
    )
    assert spawn.READY_LINE_WAIT == 10.0 and f"{10.0:g}s" == "10s"


def test_a_host_that_ignores_sigterm_is_killed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "SPAWN_GRACE", GRACE)
    failure(machine, {"ready": "nonsense\n", "deaf": True, "stay": True})
    assert machine.log[-1].endswith(f"(pid {machine.starts[0].pid}) ended: signal: killed")


def test_a_start_that_is_given_up_leaves_no_host_behind(machine: Machine) -> None:
    machine.script({"hang": True})
    starting = gevent.spawn(start, machine)
    until(lambda: machine.starts)
    starting.kill()
    until(lambda: not _there(machine.starts[0].pid))


# ---- what cannot be started ----


def test_a_directory_that_has_gone(machine: Machine) -> None:
    machine.work.rmdir()
    said = failure(machine)
    assert said == "the session host cannot be started: no such file or directory"


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_an_argument_that_no_command_line_can_hold(machine: Machine, value: str) -> None:
    with pytest.raises(Refusal) as caught:
        start(machine, {"model": value})
    assert caught.value.message.startswith("the session host cannot be started: ")
    assert not machine.starts


def _upgraded(path: str) -> str:
    return (
        f"this hub's craze ({path}) was replaced by an upgrade: stop this hub with kill {HUB_PID}"
        " (no session ends) and run this again"
    )


def test_b79_the_program_is_gone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = str(machine.root / "craze")
    monkeypatch.setattr(reexec, "_prefix", [gone])
    assert failure(machine) == _upgraded(gone)


def test_b79_the_interpreter_of_the_program_is_gone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = machine.root / "craze"
    program.write_text(f"#!{machine.root}/python\n")
    program.chmod(0o700)
    monkeypatch.setattr(reexec, "_prefix", [str(program)])
    assert failure(machine) == _upgraded(str(program))


def test_b79_the_program_goes_while_the_host_starts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = machine.root / "craze.py"
    program.write_bytes(Path(reexec.prefix()[-1]).read_bytes())
    monkeypatch.setattr(reexec, "_prefix", [sys.executable, "-SE", str(program)])
    said = failure(machine, {"remove": str(program), "ready": None})
    assert said == _upgraded(str(program))


# ---- its end ----


def _agents(machine: Machine, host: Spawned) -> list[int]:
    text = Path(machine.paths.pgids(host.host_id)).read_text()
    return [int(line.split()[0]) for line in text.splitlines()]


def test_b20_b31_what_a_killed_hosts_agents_left_is_killed_once(machine: Machine) -> None:
    """The agent is a shell around another program: the whole group goes, and then its file."""
    machine.script({"agents": [["sh", "-c", "sleep 600 & wait"]]})
    host = start(machine)
    (group,) = _agents(machine, host)
    until(lambda: len(_group(group)) == 2)
    os.kill(host.child.pid, signal.SIGKILL)
    until(lambda: not os.path.exists(machine.paths.pgids(host.host_id)))
    until(lambda: not _group(group))
    assert machine.log == [
        f"host {host.host_id} (pid {host.child.pid}) ended: signal: killed",
        f"host {host.host_id} left agents behind: 1 groups killed",
    ]


def test_b27_a_recorded_group_that_is_another_program_by_now_lives_on(machine: Machine) -> None:
    host = start(machine)
    other = os.posix_spawn("/bin/sleep", ["sleep", "600"], {}, setsid=True)
    try:
        started = processes.start_time(other)
        assert started is not None
        Path(machine.paths.pgids(host.host_id)).write_text(f"{other} {started - 1}\n1 1\nx\n")
        os.kill(host.child.pid, signal.SIGTERM)
        until(lambda: not os.path.exists(machine.paths.pgids(host.host_id)))
        assert machine.log == [
            f"host {host.host_id} (pid {host.child.pid}) ended: signal: terminated"
        ]
        assert not processes.dead(other)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


def test_a_record_of_groups_that_cannot_be_read_is_said(machine: Machine) -> None:
    host = start(machine)
    path = machine.paths.pgids(host.host_id)
    os.mkdir(path)
    os.kill(host.child.pid, signal.SIGKILL)
    until(lambda: len(machine.log) == 2)
    assert machine.log[1] == f"host {host.host_id}: {path}: is a directory"


def test_a_host_that_ends_by_itself_is_reaped(machine: Machine) -> None:
    machine.script({"exit": 0})
    host = start(machine)
    until(lambda: machine.log)
    assert machine.log == [f"host {host.host_id} (pid {host.child.pid}) ended: exit status 0"]
    assert not _there(host.child.pid)


def test_a_host_is_asked_to_stop_before_it_is_made_to(machine: Machine) -> None:
    machine.script({"session": "s-2", "answers": {"session.stop": "die"}})
    host = start(machine)
    machine.spawner.end(host)
    assert not _there(host.child.pid)
    (started,) = machine.starts
    hello, stop = started.requests
    assert hello[1]["client"] == {"kind": "hub", "name": "craze hub create"}
    assert stop == ("session.stop", {"sessionId": "s-2", "commandId": "1"})
    assert "ended: signal: killed" in machine.log[0]


@pytest.mark.parametrize("method", ["hello", "session.stop"])
@pytest.mark.parametrize("answer", ["silent", "close", {"error": {"code": -1, "message": "no"}}])
def test_a_host_that_does_not_stop_when_asked_is_terminated(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, method: str, answer: Any
) -> None:
    monkeypatch.setattr("craze.hub.start.SPAWN_STOP", GRACE)
    machine.script({"answers": {method: answer}})
    host = start(machine)
    machine.spawner.end(host)
    assert not _there(host.child.pid)
    assert "ended: signal: terminated" in machine.log[0]


def test_a_host_that_neither_hears_nor_heeds_is_killed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("craze.hub.start.SPAWN_STOP", GRACE)
    monkeypatch.setattr(spawn, "SPAWN_GRACE", GRACE)
    machine.script({"deaf": True, "answers": {"hello": "silent"}})
    host = start(machine)
    machine.spawner.end(host)
    assert not _there(host.child.pid)
    assert "ended: signal: killed" in machine.log[0]


def test_a_host_that_has_ended_is_ended_again_without_harm(machine: Machine) -> None:
    host = start(machine)
    machine.spawner.end(host)
    machine.spawner.end(host)
    assert len(machine.log) == 1


# ---- the link to it ----


def test_a_link_that_is_done_with_leaves_the_host_alone(machine: Machine) -> None:
    host = start(machine)
    with machine.spawner.link(host, PATIENCE) as link:
        assert link.version == VERSION
    assert machine.starts[0].methods == ["hello"]
    assert not machine.starts[0].ended


@pytest.mark.parametrize("answer", ["silent", "close"])
def test_a_host_that_says_no_hello_cannot_be_reached(machine: Machine, answer: str) -> None:
    machine.script({"answers": {"hello": [answer, {"result": {}}]}})
    host = start(machine)
    with pytest.raises(Refusal, match=r"^the session host cannot be reached$") as caught:
        machine.spawner.link(host, GRACE).__enter__()
    assert caught.value.reason == "spawn_failed"
    assert not _there(host.child.pid)


def test_a_host_that_does_not_listen_cannot_be_reached(machine: Machine) -> None:
    machine.script({"unbound": True})
    host = start(machine)
    with pytest.raises(Refusal, match=r"cannot be reached$"):
        machine.spawner.link(host, GRACE).__enter__()
    assert not _there(host.child.pid)


def test_whatever_fails_on_the_link_ends_the_host(machine: Machine) -> None:
    host = start(machine)
    with pytest.raises(ZeroDivisionError), machine.spawner.link(host, PATIENCE):
        raise ZeroDivisionError
    assert not _there(host.child.pid)


def _group(group: int) -> list[int]:
    """The live processes of a process group."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getpgid(int(name)) == group and not processes.dead(int(name)):
                found.append(int(name))
        except ProcessLookupError:
            continue
    return found
