"""A host in bad surroundings: nobody reads its stderr, disks are full, paths are no text, signals
come early; it serves or says why not, and nothing of it stays."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from craze.client import Client, ClientError, Refused
from tests.e2e.machine import BIN, Host, Machine, until
from tests.e2e.test_serve import config, end

ROOT_ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="needs root on Linux, for a small disk"
)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(config("echo"))
    yield made
    left = made.processes()
    made.close()
    assert not left


def entry(machine: Machine) -> dict[str, Any]:
    """The registry entry of the machine's one host, once it is ready; it has no ready pipe."""
    hosts = Path(os.fsdecode(machine.environment["HOME"])) / ".cache" / "craze" / "hosts"
    found: dict[str, Any] = {}

    def ready() -> bool:
        for path in hosts.glob("*.json"):
            found.clear()
            found.update(json.loads(path.read_text()))
        return bool(found.get("ready"))

    assert until(ready, 20)
    return found


def by_hand(machine: Machine, *flags: Any, **options: Any) -> subprocess.Popen[bytes]:
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | options
    return machine.craze("serve", "--provider=fake", *flags, **options)


def ended(machine: Machine, process: subprocess.Popen[bytes]) -> str:
    """What a host that is told to stop had to say."""
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 0
    assert machine.wait_empty() == {}
    return said.decode() if said else ""


# ---- stderr ----


def test_a_host_whose_stderr_has_no_reader_any_more_can_be_stopped(machine: Machine) -> None:
    reading, writing = os.pipe()
    process = by_hand(machine, stderr=writing)
    os.close(writing)
    entry(machine)
    os.close(reading)
    ended(machine, process)


def test_a_host_needs_nobody_to_take_what_it_says(machine: Machine) -> None:
    with open("/dev/full", "wb") as full:
        process = by_hand(machine, stderr=full)
    entry(machine)
    ended(machine, process)


def test_what_belongs_on_a_closed_stderr_is_not_said_on_stdout(machine: Machine) -> None:
    command = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", str(BIN / "craze"), "serve"]
    process = subprocess.Popen(
        [*command, "--provider=fake"],
        cwd=machine.work,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    entry(machine)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == b""
    assert process.returncode == 0
    assert machine.wait_empty() == {}


def test_b71_a_log_passes_nothing_on_that_a_terminal_would_run(machine: Machine) -> None:
    evil = machine.work / "a\x1b]52;c;aGk=\x07b\x1b[2J\u202ec\nd"
    evil.mkdir()
    process = by_hand(machine, f"--workspace={evil}", "--title=a\x1b]0;x\x07")
    entry(machine)
    first = ended(machine, process).split("\n")[0]
    assert first.endswith(f"in {machine.work}/abc d")


def test_b71_a_saved_title_that_comes_to_nothing_is_none(machine: Machine) -> None:
    row = {"provider": "fake", "sessionId": "s", "crazeId": "c-1", "cwd": str(machine.work)}
    row |= {"updatedAt": "2026-01-01T00:00:00Z", "title": "\x1b]0;x\x07"}
    index = machine.home / ".craze" / "sessions.jsonl"
    index.write_text(json.dumps(row | {"pinned": True}) + "\n")
    host = machine.serve("--load=c-1")
    with Client(host.socket) as client:
        assert client.request("sessions.list")["sessions"][0].get("title", "") == ""
    assert end(host) == 0
    assert machine.wait_empty() == {}


# ---- paths ----


def test_paths_may_be_any_bytes(machine: Machine) -> None:
    home = os.fsencode(machine.work) + b"/h \xff\xe9\x1b["
    os.makedirs(home + b"/.craze", mode=0o700)
    Path(os.fsdecode(home), ".craze", "config.toml").write_text(config("echo"))
    workspace = os.fsencode(machine.work) + b"/\xff"
    os.mkdir(workspace)
    machine.environment["HOME"] = os.fsdecode(home)
    process = by_hand(machine, b"--workspace=" + workspace)
    with Client(entry(machine)["socket"]) as client, client.attach() as notes:
        assert next(notes).method == "synchronized"
    ended(machine, process)


@pytest.mark.parametrize("home", ["rel/x", "~"])
def test_a_home_that_is_no_place_is_refused(machine: Machine, home: str) -> None:
    machine.environment["HOME"] = home
    process = by_hand(machine)
    words = f"craze serve: HOME='{home}' is not an absolute path\n"
    assert process.communicate(timeout=20)[1].decode() == words
    assert process.returncode == 1


# ---- disks ----


class Disk:
    """A small file system of its own at `path`."""

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700, exist_ok=True)
        self.path = path
        options = "size=24k,mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "x", path], check=True)

    def fill(self) -> None:
        with open(self.path / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 512)
            except OSError:
                return

    def empty(self) -> None:
        (self.path / "filler").unlink()

    def close(self) -> None:
        subprocess.run(["umount", self.path], check=True)


@pytest.fixture
def disk(request: pytest.FixtureRequest, machine: Machine) -> Iterator[Disk]:
    made = Disk(machine.home / request.param)
    yield made
    until(lambda: not machine.processes(), 20)
    made.close()


@ROOT_ON_LINUX
@pytest.mark.parametrize("disk", [".craze"], indirect=True)
def test_b73_a_full_or_read_only_disk_costs_what_is_saved_and_never_the_session(
    machine: Machine, disk: Disk
) -> None:
    machine.configure(config("echo"))
    disk.fill()
    process = by_hand(machine)
    with Client(entry(machine)["socket"]) as client, client.attach() as notes:
        client.command("session.prompt", text="the secret words", mode="queue")
        with pytest.raises(Refused) as refused:
            client.command("session.setTitle", title="x")
        assert refused.value.reason == "index_write"
        assert "no space left on device" in refused.value.message
        said = next(note for note in notes if note.params.get("event", {}).get("type") == "text")
        assert said
    log = ended(machine, process)
    assert "config.toml: no space left on device" in log
    assert "craze serve: journal /" in log and "it is not written any further" in log
    assert "Error" not in log.replace("[Errno", "") and "secret" not in log


@ROOT_ON_LINUX
@pytest.mark.parametrize("disk", [".cache"], indirect=True)
def test_a_registry_on_a_full_disk_is_brought_up_to_date_once_there_is_room(
    machine: Machine, disk: Disk
) -> None:
    machine.configure(config("bad-silent"))
    process = by_hand(machine)
    hosts = machine.home / ".cache" / "craze" / "hosts"
    assert until(lambda: list(hosts.glob("*.json")), 20)
    disk.fill()
    said = ended(machine, process)
    assert "the registry entry could not be marked: no space left on device" in said
    assert list(hosts.iterdir()) == []
    disk.empty()


# ---- descriptors, connections, signals ----


def test_few_descriptors_are_no_end(machine: Machine) -> None:
    command = ["/bin/sh", "-c", 'ulimit -n 32; exec "$@"', "sh", str(BIN / "craze"), "serve"]
    process = subprocess.Popen(
        [*command, "--provider=fake"],
        cwd=machine.work,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    path = entry(machine)["socket"]
    many = [socket.socket(socket.AF_UNIX) for _ in range(60)]
    for one in many:
        one.connect(path)
    time.sleep(0.2)
    for one in many:
        one.close()
    with Client(path) as client, client.attach() as notes:
        client.command("session.prompt", text="the secret words", mode="queue")
        assert next(note for note in notes if note.params.get("event", {}).get("type") == "text")
    said = ended(machine, process)
    assert "Too many open files" in said and "secret" not in said


def test_three_hundred_at_once_and_the_silent_ones_disturb_nobody(machine: Machine) -> None:
    host = machine.serve("--provider=fake")
    many = [socket.socket(socket.AF_UNIX) for _ in range(300)]
    try:
        for one in many:
            one.settimeout(10)  # without blocking: a full backlog would be an error
            one.connect(host.socket)
        for one in many[::2]:
            one.sendall(b"{}\n")
        assert all(one.recv(100).startswith(b'{"jsonrpc"') for one in many[::2])
        with Client(host.socket) as client:
            assert client.request("sessions.list")["sessions"]
    finally:
        for one in many:
            one.close()
        assert end(host) == 0
    assert machine.wait_empty() == {}


@pytest.mark.parametrize("seed", range(8))
def test_a_stop_during_the_start_leaves_nothing(machine: Machine, seed: int) -> None:
    chance = random.Random(seed)
    machine.configure(config(chance.choice(["echo", "bad-silent", "bad-new-silent"])))
    process = by_hand(machine)
    time.sleep(0.05 + chance.random() * 0.5)
    process.send_signal(signal.SIGTERM)
    time.sleep(chance.random() * 0.05)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=20)[1].decode()
    assert process.returncode in (0, -signal.SIGTERM), said
    assert "Traceback" not in said
    assert machine.wait_empty() == {}
    assert not list(Path(machine.runtime).rglob("*.sock"))
    assert not list((machine.home / ".cache").rglob("*.json"))


def test_b14_an_ask_closes_by_its_event_and_the_turn_goes_on_until_the_agent_does(
    machine: Machine,
) -> None:
    machine.configure(config("permission"))
    host = machine.serve("--provider=fake", "--no-force")
    with Client(host.socket) as client, client.attach() as notes:

        def upto(kind: str) -> Any:
            return next(n for n in notes if n.params.get("event", {}).get("type") == kind)

        client.command("session.prompt", text="x", mode="queue")
        ask = upto("permission").params["event"]["permission"]
        agent = next(pid for pid, line in machine.processes().items() if "fake-agent" in line)
        os.kill(agent, signal.SIGSTOP)
        answer = {"optionId": ask["options"][0]["optionId"]}
        client.command("asks.answer", askId=ask["id"], answer=answer)
        closed = upto("ask").params["event"]["ask"]
        assert (closed["id"], closed["outcome"]) == (ask["id"], "answered")
        assert client.request("sessions.list")["sessions"][0]["activity"] == "working"
        os.kill(agent, signal.SIGCONT)
        assert upto("text").params["event"]["text"] == f"decision:{answer['optionId']}"
        assert upto("turn").params["event"]["turn"]["phase"] == "ended"
    assert end(host) == 0
    assert machine.wait_empty() == {}


def test_b21_an_agent_that_is_stopped_in_its_tracks_is_ended_all_the_same(machine: Machine) -> None:
    host = machine.serve("--provider=fake")
    with Client(host.socket) as client, client.attach() as notes:
        next(notes)
        agent = next(pid for pid, line in machine.processes().items() if "fake-agent" in line)
        os.kill(agent, signal.SIGSTOP)
        client.command("session.prompt", text="x", mode="queue")
    assert end(host) == 0
    assert machine.wait_empty() == {}


# ---- what is loaded ----

AUDIT = """
import os, sys
if "serve" in sys.orig_argv:
    _log = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    def _hook(event, args):
        if event == "import":
            os.write(_log, f"import {args[0]}\\n".encode())
        elif event == "open" and "/hosts/." in str(args[0]):
            os.write(_log, b"entry\\n")
    sys.addaudithook(_hook)
"""


@pytest.mark.parametrize("script", ["permission", "bad-noise", "bad-die"])
def test_nothing_is_imported_after_ready(machine: Machine, tmp_path: Path, script: str) -> None:
    """An upgrade may remove the program's files while it runs."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(AUDIT)
    audit = tmp_path / "audit"
    machine.environment |= {"PYTHONPATH": str(tmp_path / "hook"), "AUDIT": str(audit)}
    machine.configure(config(script))
    host = machine.serve("--provider=fake", "--no-force")
    exercise(host)
    host.process.send_signal(signal.SIGHUP)
    host.process.send_signal(signal.SIGTERM)
    assert host.process.wait(20) == 0
    assert machine.wait_empty() == {}
    lines = audit.read_text().splitlines()
    # The entry is written when it is listed, and once more right before the ready line.
    ready = [number for number, line in enumerate(lines) if line == "entry"][1]
    assert len(lines[:ready]) > 100
    assert [line for line in lines[ready:] if line != "entry"] == []


def exercise(host: Host) -> None:
    """A little of everything that a client can ask for, refusals and noise included."""
    for line in (b"\xff\n", b'{"id":1}\n', b'{"jsonrpc":"2.0","id":1,"method":"nope"}\n', b"{"):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(host.socket)
            raw.sendall(line)
            raw.shutdown(socket.SHUT_WR)
            assert raw.recv(1000)
    with Client(host.socket) as client, client.attach() as notes:
        next(notes)
        scoped = {"sessionId": host.session}
        for command, params in (
            ("session.prompt", {"text": "hi", "mode": "queue"}),
            ("session.setTitle", {"title": "x"}),
            ("session.cancel", {}),
            ("session.set", {"setting": {"kind": "mode", "value": "plan"}}),
            ("asks.answer", {"askId": "perm-1", "answer": {"cancel": True}}),
        ):
            with suppress(ClientError):
                client.command(command, **params)
        for method in ("session.state", "session.snapshot", "session.sync", "asks.list"):
            with suppress(ClientError):
                client.request(method, **scoped)


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
def test_a_host_is_small_before_its_agent(machine: Machine) -> None:
    machine.configure('[providers.fake]\ncommand = ["/nowhere"]\n')
    host = machine.serve("--provider=fake")
    with Client(host.socket) as client:
        assert client.request("sessions.list")["sessions"]
        resident = Path(f"/proc/{host.process.pid}/statm").read_text().split()[1]
    assert int(resident) * os.sysconf("SC_PAGE_SIZE") <= 36 << 20
    end(host)
    assert machine.wait_empty() == {}


def test_development_mode_finds_nothing_to_warn_of(machine: Machine) -> None:
    strict = [sys.executable, "-X", "dev", "-W", "error", "-m", "craze"]
    options: dict[str, Any] = {"cwd": machine.work, "env": machine.environment}
    host = subprocess.Popen(
        [*strict, "serve", "--provider=fake"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        **options,
    )
    entry(machine)
    with tempfile.TemporaryFile() as file:
        ours, theirs = socket.socketpair()
        for out in (subprocess.PIPE, subprocess.DEVNULL, file, theirs):
            bridge = subprocess.run(
                [*strict, "bridge"], input=b"{}\n", stdout=out, stderr=subprocess.PIPE, **options
            )
            assert (bridge.returncode, bridge.stderr) == (0, b"")
        ours.close()
        theirs.close()
    said = ended(machine, host).splitlines()
    assert len(said) == 2 and said[1] == "craze serve: stopping: SIGTERM"
