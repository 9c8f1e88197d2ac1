"""The hub's life from outside: how it is found, started, killed, stopped and replaced, and that no
session ever ends with it."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket as names
import stat
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze.client import Client, Program, splice
from craze.machine import processes, registry
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
    row,
    running,
    script,
    settle,
    stalled,
    stop,
)
from tests.e2e.machine import BIN, END_S, Machine, until

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give things to another user")
STRANGER = 12345  # nobody's uid


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(script("echo"))
    try:
        yield made
        left = settle(made)
        assert not left
    finally:
        made.close()


def speak(hub: Hub, *flags: str, **options: Any) -> "subprocess.Popen[bytes]":
    """A bridge that is to say hello and list, and gets its stdin's end after that."""
    hello = {"protocols": [1], "client": {"kind": "test", "name": "e2e"}}
    lines = [("hello", hello), ("sessions.list", {})]
    requests = [
        {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        for id, (method, params) in enumerate(lines, 1)
    ]
    process = subprocess.Popen(
        [CRAZE, "bridge", "--hub", *flags],
        env=hub.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps(one) + "\n" for one in requests).encode())
    process.stdin.flush()
    return process


def heard(bridge: "subprocess.Popen[bytes]") -> tuple[dict[str, Any], dict[str, Any]]:
    """What such a bridge was served: the results of hello and list."""
    said, failed = bridge.communicate(timeout=PATIENCE_S)
    assert (bridge.returncode, failed) == (0, b"")
    hello, listed = (json.loads(line)["result"] for line in said.splitlines())
    return hello, listed


def refused(bridge: "subprocess.Popen[bytes]") -> str:
    """Why such a bridge was not served."""
    said, failed = bridge.communicate(timeout=PATIENCE_S)
    assert (bridge.returncode, said) == (1, b"")
    return failed.decode()


def hubs_of(machine: Machine) -> list[int]:
    return running(machine, "craze hub")


# ---- who becomes the hub ----


def test_b28_b29_thirty_bridges_over_a_killed_hubs_socket_get_one_hub(machine: Machine) -> None:
    hub = Hub(machine)
    hub.start()
    hub.kill()
    assert Path(hub.record.socket).is_socket(), "it left what a killed hub leaves"
    bridges = [speak(hub) for _ in range(30)]
    served = [heard(bridge) for bridge in bridges]
    assert {hello["endpoint"]["hostId"] for hello, _ in served} == {hub.record.hubId}
    assert {listed["epoch"] for _, listed in served} == {hub.record.hubId}
    assert eventually(lambda: hubs_of(machine) == [hub.record.pid])
    # The losers have gone, and took nothing of the winner's with them.
    assert heard(speak(hub, "--no-start"))[0]["endpoint"]["pid"] == hub.record.pid
    assert hub.log.count("serving namespace") == 2


def test_b27_a_record_whose_pid_is_another_programs_now_is_no_hub(machine: Machine) -> None:
    hub = Hub(machine)
    hub.start()
    hub.kill()
    stale = json.loads(Path(hub.paths.hub_record).read_text())
    for pid in (1, os.getpid()):
        Path(hub.paths.hub_record).write_text(json.dumps(stale | {"pid": pid}))
        none = speak(hub, "--no-start")
        said = none.communicate(timeout=PATIENCE_S)
        assert (none.returncode, said) == (3, (b"", b"craze bridge: no hub is running\n"))
    assert heard(speak(hub))[0]["endpoint"]["pid"] == hub.record.pid
    hub.kill(signal.SIGTERM)


def test_b27_b28_what_is_not_certainly_the_hub_is_neither_signalled_nor_unlinked(
    machine: Machine,
) -> None:
    customize(machine, HUB_FIND=6)
    hub = Hub(machine)
    hub.start()
    hub.kill()
    path = hub.record.socket
    stale = json.loads(Path(hub.paths.hub_record).read_text())
    os.unlink(path)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        with names.socket(names.AF_UNIX) as silent:
            silent.bind(path)
            silent.listen(64)
            for token, words in (
                (stale["startToken"], f"craze hub could not start: {path}: another process listens"
                 " there"),
                ("", f"the hub (pid {bystander.pid}) does not answer, and its record carries no"
                 " start token to tell it from another process by, so it is not replaced"),
            ):  # fmt: skip
                told = stale | {"pid": bystander.pid, "startToken": token}
                Path(hub.paths.hub_record).write_text(json.dumps(told))
                before = os.stat(path)
                assert refused(speak(hub)) == f"craze bridge: no hub: {words}\n"
                assert os.path.samestat(os.stat(path), before)
                assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait(END_S)


@LINUX
def test_a_hub_killed_between_its_lock_and_its_record_is_followed_by_another(
    machine: Machine, tmp_path: Path
) -> None:
    customize(machine, STALL)
    machine.environment["LEAVES"] = str(tmp_path)
    hub = Hub(machine)
    first = stalled(machine, "hub")
    assert not Path(hub.paths.hub_record).exists()
    waiting = speak(hub)
    eventually((tmp_path / "hub").exists)  # its own, which found the lock held
    first.kill()
    assert first.wait(END_S) == -signal.SIGKILL
    assert heard(waiting)[0]["endpoint"]["pid"] == hub.record.pid != first.pid


# ---- a hub that is killed ----


def test_a_killed_hubs_sessions_are_listed_by_the_next_at_once(machine: Machine) -> None:
    hub = Hub(machine)
    hub.start()
    host = hub.create()["hostId"]
    hub.kill()
    hello, listed = heard(speak(hub))
    assert hello["endpoint"]["hostId"] == listed["epoch"] == hub.record.hubId
    assert [(one["hostId"], one["status"]) for one in listed["sessions"]] == [(host, "reachable")]


def test_b01_b42_a_client_of_a_session_misses_nothing_when_hubs_are_killed_under_it(
    machine: Machine,
) -> None:
    machine.configure(script("long-turn"))
    hub = Hub(machine)
    hub.start()
    made = hub.create()
    [host] = hub.hosts()
    seen: list[tuple[int, Any]] = []
    truth: list[tuple[int, Any]] = []

    def watch(client: Client, into: list[tuple[int, Any]]) -> None:
        with client.attach() as notes:
            for note in notes:
                if note.method == "event":
                    event = note.params["event"]
                    into.append((note.params["seq"], event))
                    if event.get("turn", {}).get("phase") == "ended":
                        return
                else:
                    assert note.method in ("synchronized", "presence"), note

    def more() -> None:
        count = len(seen)
        eventually(lambda: len(seen) > count + 3)

    with hub.client(made["sessionId"]) as client, Client(host.socket) as undisturbed:
        identity = client.identity
        watching = [
            greenlets.spawn("watch", watch, client, seen),
            greenlets.spawn("watch", watch, undisturbed, truth),
        ]
        eventually(lambda: all(watcher.started for watcher in watching))
        client.command("session.prompt", text="go on", mode="queue")
        killed = set()
        for _ in range(3):
            more()
            killed.add(hub.kill())
            eventually(lambda: hub.record.pid not in killed)
        more()
        client.command("session.cancel")
        gevent.joinall(watching, timeout=PATIENCE_S, raise_error=True)
        assert client.identity is not None and identity is not None
        assert client.identity[:3] == identity[:3], "the host knew it again each time"
        assert client.hello["resumed"] is True
    assert len(killed) == 3
    assert [seq for seq, _ in seen] == list(range(seen[0][0], seen[-1][0] + 1))
    assert seen == truth[-len(seen) :]
    assert hub.hosts() == [host]


def test_b13_an_ask_that_was_open_is_answered_through_the_next_hub(machine: Machine) -> None:
    machine.configure(script("permission"))
    hub = Hub(machine)
    hub.start()
    made = hub.create(prompt="x", permissionMode="prompt")
    with hub.client(made["sessionId"]) as client, client.attach() as notes:
        [ask] = eventually(lambda: client.request("asks.list")["asks"])
        old = hub.kill()
        answer = {"optionId": "opt-once"}
        client.command("asks.answer", askId=ask["id"], answer=answer, timeout=PATIENCE_S)
        words = ""
        for note in notes:
            event = note.params.get("event", {})
            words += event.get("text", "") if event.get("type") == "text" else ""
            if event.get("turn", {}).get("phase") == "ended":
                break
        assert words == "decision:opt-once"
        assert client.request("asks.list")["asks"] == []
    assert hub.record.pid != old


def _insist(hub: Hub, method: str, **params: Any) -> dict[str, Any]:
    """What a request comes to that is sent again, on a new connection, until a hub says."""
    reply: dict[str, Any] = {}

    def settled() -> bool:
        try:
            with Wire(hub.bridge()) as wire:
                wire.hello()
                reply.update(wire.ask(method, **params))
        except OSError:
            return False
        # A host that saw its hub die before it was ready is on its way out.
        again = reply.pop("error", {}).get("data", {}).get("reason") == "host_unreachable"
        return not again

    eventually(settled)
    result: dict[str, Any] = reply["result"]
    return result


@pytest.mark.parametrize("seed", range(4))
def test_b10_a_hub_killed_during_a_create_makes_no_second_session(
    machine: Machine, seed: int
) -> None:
    hub = Hub(machine)
    hub.start()
    params = {"cwd": str(machine.work), "requestId": f"again-{seed}"}
    with hub.wire() as wire:
        wire.hello()
        wire.send("session.create", **params)
        gevent.sleep(random.Random(seed).random() * 0.4)
        hub.kill()
    made = _insist(hub, "session.create", **params)["session"]
    assert _insist(hub, "session.create", **params)["session"]["hostId"] == made["hostId"]
    eventually(lambda: len(running(machine, "craze serve")) == 1)
    [host] = hub.hosts()
    assert (host.hostId, host.crazeSessionId) == (made["hostId"], made["sessionId"])
    eventually(lambda: len(running(machine, "craze-fake-agent")) == 1)


def test_a_hub_killed_during_a_create_leaves_a_session_that_the_next_joins(
    machine: Machine,
) -> None:
    gate = machine.work / "go"
    machine.configure(gated(gate, f"exec {AGENT}"))
    hub = Hub(machine)
    hub.start()
    params = {"cwd": str(machine.work), "prompt": "x", "requestId": "one"}
    with hub.wire() as wire:
        wire.hello()
        wire.send("session.create", **params)
        [host] = eventually(hub.hosts)
        eventually(lambda: registry.read(hub.paths, host.hostId).crazeSessionId)
        hub.kill()
    hub.start()
    with hub.wire() as wire:
        wire.hello()
        id = wire.send("session.create", **params)
        gevent.sleep(0.2)
        gate.touch()
        result = json.loads(wire.answer(id))["result"]
    assert (result["session"]["hostId"], result["prompt"]) == (host.hostId, "unknown")
    words = "the create was answered by another hub, which this one never heard from"
    assert result["promptError"] == words
    assert hub.refusal("session.create", **params | {"prompt": "y"})["reason"] == "request_conflict"
    assert len(hub.hosts()) == 1


def test_a_hub_killed_during_a_reopen_leaves_a_session_that_the_next_joins(
    machine: Machine,
) -> None:
    gate = machine.work / "go"
    machine.configure(gated(gate, f"exec {AGENT} --script=load"))
    hub = Hub(machine)
    hub.save(row(machine))
    hub.start()
    with hub.wire() as wire:
        wire.hello()
        wire.send("session.reopen", id=NEVER)
        [host] = eventually(hub.hosts)
        eventually(lambda: registry.read(hub.paths, host.hostId).crazeSessionId)
        hub.kill()
    hub.start()
    with hub.wire() as wire:
        wire.hello()
        id = wire.send("session.reopen", id=NEVER)
        gevent.sleep(0.2)
        gate.touch()
        result = json.loads(wire.answer(id))["result"]
    assert (result["session"]["hostId"], result["joined"]) == (host.hostId, True)


# ---- a hub that does not answer ----


def test_b28_a_hub_that_stands_still_is_replaced_and_its_sessions_live_on(
    machine: Machine,
) -> None:
    customize(machine, HUB_GRACE=0.5)
    hub = Hub(machine)
    old = hub.start()
    made = hub.create()
    [host] = hub.hosts()
    os.kill(old, signal.SIGSTOP)
    hello, listed = heard(speak(hub))
    assert hello["endpoint"]["pid"] == hub.record.pid != old
    assert processes.dead(old)
    assert [one["hostId"] for one in listed["sessions"]] == [made["hostId"]]
    assert hub.hosts() == [host]


SPIN = """
import os, signal, sys
if sys.orig_argv[2:] == ["hub"]:
    def _spin(*_):
        while not os.path.exists(os.environ["CALM"]):
            pass
    signal.signal(signal.SIGUSR1, _spin)
"""


@LINUX
def test_b28_a_busy_hub_is_waited_for_and_is_neither_ended_nor_unlinked(
    machine: Machine, tmp_path: Path
) -> None:
    customize(machine, SPIN, HUB_FIND=4.0)
    calm = tmp_path / "calm"
    machine.environment["CALM"] = str(calm)
    hub = Hub(machine)
    pid = hub.start()
    record, before = hub.record, os.stat(hub.record.socket)
    spent = processes.cpu_time(pid)
    os.kill(pid, signal.SIGUSR1)
    eventually(lambda: (processes.cpu_time(pid) or 0) > (spent or 0) + 5)
    try:
        patient, finder = speak(hub), speak(hub, "--no-start")
        silent = f"craze bridge: no hub: the hub (pid {pid}) does not answer"
        assert refused(finder) == f"{silent}\n"
        said = refused(patient)
        assert said.startswith(f"{silent}, and it ") and said.endswith("so it is not replaced\n")
        last = speak(hub)
        gevent.sleep(2.5)  # more than both of its hellos
    finally:
        calm.touch()
    assert heard(last)[0]["endpoint"]["pid"] == pid
    after = os.stat(record.socket)
    assert (hub.record, after.st_ino, after.st_ctime) == (record, before.st_ino, before.st_ctime)
    assert hubs_of(machine) == [pid]


# ---- a hub that is done ----


def fake_host(machine: Machine) -> Any:
    """A listed craze-fake-host, and how it is told an op."""
    process = subprocess.Popen(
        [str(BIN / "craze-fake-host"), "--registry", str(machine.home), "--ack"],
        env=machine.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline()

    def tell(**op: Any) -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(op).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()
        if op["name"] == "quit":
            process.stdin.close()
            process.stdout.close()
            assert process.wait(END_S) == 0

    return tell


def test_an_idle_hub_goes_but_not_from_a_client_a_splice_or_a_host(tmp_path: Path) -> None:
    with contextlib.ExitStack() as held:
        hubs = []
        for name in ("client", "splice", "host", "nobody"):
            machine = Machine(tmp_path / name)
            held.callback(machine.close)
            hubs.append(Hub(machine, CRAZE_HUB_IDLE="1s"))
        client, spliced, host, _ = hubs  # the last has nothing to keep it
        wire = held.enter_context(Wire(client.bridge()))
        wire.hello()
        ops = [fake_host(hub.machine) for hub in (spliced, host)]
        through = held.enter_context(Client(splice(spliced.bridge, "session-fake-1")))
        ops[0](name="unlist")  # so that it is the splice that keeps the hub
        pids = [hub.start() for hub in hubs]
        assert until(lambda: processes.dead(pids[3]), END_S)
        gevent.sleep(1.5)
        assert [processes.dead(pid) for pid in pids] == [False, False, False, True]
        assert "result" in wire.ask("sessions.list")
        assert through.request("sessions.list")["sessions"]
        wire.close()
        through.close()
        for tell in ops:
            tell(name="quit")
        for hub in hubs:
            assert hub.machine.wait_empty() == {}
            assert "stopping: idle for 1s" in hub.log
            cache = Path(hub.paths.cache)
            left = {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}
            ours = hub.paths.namespace
            assert left == {f"hubs/{ours}.lock", f"host-logs/hub-{ours}.log"}
            assert not list(Path(hub.machine.runtime).rglob("*.sock"))


def test_a_stopped_hub_answers_its_create_tells_everybody_and_ends_no_session(
    machine: Machine,
) -> None:
    gate = machine.work / "go"
    hub = Hub(machine)
    pid = hub.start()
    first = hub.create()
    machine.configure(gated(gate, f"exec {AGENT}"))
    with (
        Wire(hub.bridge()) as subscriber,
        hub.wire() as creator,
        hub.wire() as splice,
        hub.wire() as idle,
    ):
        for wire in (subscriber, creator, splice, idle):
            wire.hello()
        subscription = subscriber.ask("sessions.subscribe")["result"]["subscription"]
        assert splice.ask("session.connect", sessionId=first["hostId"])["result"] == {}
        splice.hello()
        creating = creator.send("session.create", cwd=str(machine.work))
        eventually(lambda: len(hub.hosts()) == 2)
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: "stopping: SIGTERM" in hub.log)
        late = idle.ask("sessions.list")["error"]
        assert (late["data"]["reason"], late["message"]) == ("closing", "the hub is closing")
        with hub.wire() as newcomer:
            client = {"kind": "test", "name": "late"}
            said = newcomer.ask("hello", protocols=[1], client=client)["error"]["data"]
            assert (said["code"], said["reason"]) == ("unavailable", "closing")
            assert newcomer.line() == b""
        # The splice carries on until the very end.
        assert splice.ask("sessions.list")["result"]["sessions"]
        gate.touch()
        made = json.loads(creator.answer(creating))["result"]
        assert made["prompt"] == "none"
        *_, last = subscriber.lines()
        assert last["method"] == "reset"
        assert last["params"] == {"subscription": subscription, "reason": "hub_closing"}
        assert list(splice.lines()) == []
        assert idle.line() == creator.line() == b""
    assert until(lambda: processes.dead(pid), END_S)
    assert not Path(hub.paths.hub_record).exists()
    assert not list(Path(machine.runtime).rglob("hub.sock"))
    live = {host.hostId for host in hub.hosts()}
    assert live == {first["hostId"], made["session"]["hostId"]}
    _, listed = heard(speak(hub))
    assert {(one["hostId"], one["status"]) for one in listed["sessions"]} == {
        (host, "reachable") for host in live
    }


def test_a_client_that_leaves_cancels_no_create_nor_does_a_stopped_hub(machine: Machine) -> None:
    gate = machine.work / "go"
    machine.configure(gated(gate, f"exec {AGENT}"))
    hub = Hub(machine)
    pid = hub.start()
    with hub.wire() as wire:
        wire.hello()
        wire.send("session.create", cwd=str(machine.work), prompt="hi")
        [host] = eventually(hub.hosts)
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: "stopping: SIGTERM" in hub.log)
    gate.touch()
    with Client(host.socket) as client:

        def said() -> bool:
            main = client.request("session.snapshot")["snapshot"]["main"]
            return "echo: hi" in [entry.get("text") for entry in main.get("entries", [])]

        eventually(said)
    assert until(lambda: processes.dead(pid), END_S)


def test_a_stopped_hub_waits_so_long_for_a_create_and_leaves_its_host_to_the_next(
    machine: Machine,
) -> None:
    customize(machine, HUB_TEARDOWN=1.0)
    gate = machine.work / "go"
    machine.configure(gated(gate, f"exec {AGENT}"))
    hub = Hub(machine)
    hub.start()
    params = {"cwd": str(machine.work), "requestId": "one"}
    with hub.wire() as wire:
        wire.hello()
        wire.send("session.create", **params)
        [host] = eventually(hub.hosts)
        eventually(lambda: registry.read(hub.paths, host.hostId).crazeSessionId)
        hub.kill(signal.SIGTERM)
        assert wire.line() == b""
    hub.start()
    gate.touch()
    made = hub.result("session.create", **params)
    assert (made["session"]["hostId"], made["prompt"]) == (host.hostId, "unknown")
    assert [one.hostId for one in hub.hosts()] == [host.hostId]


# ---- a hub whose program is replaced under it ----


def _installed(folder: Path) -> Path:
    """An installation of craze of its own in `folder`: what it takes to remove one. Its program."""
    venv.EnvBuilder(symlinks=True).create(folder)
    [own] = (folder / "lib").glob("*/site-packages")
    ours = Path(gevent.__file__).parents[1]
    for path in ours.iterdir():
        if "__editable__" not in path.name and path.suffix != ".pth":
            (own / path.name).symlink_to(path)
    (own / "craze").symlink_to(Path(processes.__file__).parents[1])
    program = folder / "bin" / "craze"
    program.write_text(
        f"#!{folder}/bin/python\nimport sys\nfrom craze.__main__ import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    return program


def test_b79_a_hub_whose_program_is_removed_goes_on_and_says_why_it_starts_nothing(
    machine: Machine, tmp_path: Path
) -> None:
    program = _installed(tmp_path / "venv")
    machine.configure(script("load"))
    hub = Hub(machine)
    hub.save(row(machine), row(machine, "saved-2", crazeId=NEVER[:-1] + "2"))
    with Wire(Program([str(program), "bridge", "--hub"], hub.environment)) as bridge:
        pid = bridge.hello()["endpoint"]["pid"]
    assert running(machine, f"{program} hub") == [pid]
    opened = hub.result("session.reopen", id=NEVER)["session"]

    def replaced(missing: Path) -> None:
        words = (
            f"this hub's craze ({missing}) was replaced by an upgrade: stop this hub with"
            f" kill {pid} (no session ends) and run this again"
        )
        for method, params in (
            ("session.create", {"cwd": str(machine.work)}),
            ("session.reopen", {"id": NEVER[:-1] + "2"}),
        ):
            said = hub.refusal(method, **params)
            assert (said["code"], said["reason"]) == ("unavailable", "spawn_failed")
            assert said["message"] == words

    python, aside = tmp_path / "venv" / "bin" / "python", tmp_path / "aside"
    python.rename(aside)
    replaced(program)
    aside.rename(python)
    [package] = (tmp_path / "venv" / "lib").glob("*/site-packages/craze")
    package.rename(aside)
    replaced(package / "__main__.py")
    aside.rename(package)
    shutil.rmtree(tmp_path / "venv")
    replaced(program)

    [listed] = hub.result("sessions.list")["sessions"]
    assert (listed["hostId"], listed["status"]) == (opened["hostId"], "reachable")
    [saved] = hub.result("sessions.saved")["sessions"]
    assert saved["id"] == NEVER[:-1] + "2"
    assert hub.result("sessions.createOptions")["defaultProvider"] == "fake"
    again = hub.result("session.reopen", id=NEVER)
    assert (again["joined"], again["session"]["hostId"]) == (True, opened["hostId"])
    with hub.wire() as wire:
        wire.hello()
        assert wire.ask("session.connect", sessionId=NEVER)["result"] == {}
        assert wire.hello()["endpoint"]["hostId"] == opened["hostId"]
    assert hub.record.pid == pid
    # The remedy: the next craze's hub starts what this one could not.
    assert hub.kill(signal.SIGTERM) == pid
    hub.start()
    assert hub.result("session.reopen", id=NEVER[:-1] + "2")["joined"] is False


AUDIT = """
import os, sys
if sys.orig_argv[2:] == ["hub"]:
    _log = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    def _hook(event, args):
        if event == "import":
            os.write(_log, f"import {args[0]}\\n".encode())
        elif event == "open" and "/host-logs/hub-" in str(args[0]):
            os.write(_log, b"log\\n")
    sys.addaudithook(_hook)
"""


def test_b79_a_hub_imports_nothing_once_it_has_opened_its_log(
    machine: Machine, tmp_path: Path
) -> None:
    customize(machine, AUDIT)
    audit = tmp_path / "audit"
    machine.environment["AUDIT"] = str(audit)
    hub = Hub(machine)
    pid = hub.start()
    with hub.wire() as wire:
        wire.hello()
        wire.ask("sessions.subscribe")
        _exercise(hub)
        os.kill(pid, signal.SIGHUP)
        eventually(lambda: "hangup ignored" in hub.log)
        host = hub.hosts()[0]
        with hub.wire() as splice:
            splice.hello()
            splice.ask("session.connect", sessionId=host.hostId)
            hub.kill(signal.SIGTERM)
            assert list(splice.lines()) == []
        assert list(wire.lines())[-1]["params"]["reason"] == "hub_closing"
    lines = audit.read_text().splitlines()
    ready = lines.index("log")
    assert len(lines[:ready]) > 100
    assert lines[ready:] == ["log"]


def _exercise(hub: Hub) -> None:
    """A little of everything that a client can ask for, refusals and noise included."""
    for line in (b"\xff\n", b'{"id":1}\n', b'{"jsonrpc":"2.0","id":1,"method":"nope"}\n', b"{"):
        with hub.dial() as raw:
            raw.sendall(line)
            raw.shutdown(names.SHUT_WR)
            assert raw.recv(1000)
    machine, work = hub.machine, str(hub.machine.work)
    made = hub.create(prompt="hi", title="x", model="composer", effort="low", fast=True)
    [host] = hub.hosts()
    for method, params in (
        ("sessions.list", {}),
        ("sessions.saved", {"limit": 1, "workspace": work}),
        ("sessions.createOptions", {}),
        ("session.reopen", {"id": made["sessionId"]}),
        ("session.reopen", {"id": "fake:fake-session-1"}),
        ("session.reopen", {"id": "nope"}),
        ("session.create", {"cwd": work, "title": "\u202e"}),
        ("session.create", {"cwd": "/nowhere"}),
        ("session.create", {"cwd": work, "provider": "nope"}),
        ("session.connect", {"sessionId": "nope"}),
        ("session.prompt", {"sessionId": host.crazeSessionId, "text": "x", "mode": "queue"}),
        ("session.aside", {}),
    ):
        hub.ask(method, **params)
    stop(host)
    machine.configure(script("load"))
    again = hub.result("session.reopen", id=made["sessionId"])["session"]
    os.kill(again["host"]["pid"], signal.SIGKILL)
    eventually(lambda: f"host {again['hostId']} (pid" in hub.log)
    machine.configure(script("exit-two-lines"))
    assert hub.refusal("session.create", cwd=work)["reason"] == "start_failed"
    machine.configure("provider = [")
    assert hub.refusal("session.create", cwd=work)["reason"] == "bad_request"
    machine.configure(script("echo"))
    Path(hub.paths.index).write_text("{\n")
    assert hub.result("sessions.saved")["sessions"] == []
    assert hub.refusal("session.reopen", id=NEVER)["reason"] == "not_resumable"
    assert hub.result("session.create", cwd=work, requestId="r", prompt="hi")["session"]
    hub.ask("session.create", cwd=work, requestId="r", prompt="hi")
    hub.ask("session.create", cwd=work, requestId="r")


# ---- places ----


@pytest.mark.parametrize("name", ["é" * 60, "x" * 90], ids=["two-byte", "long"])
def test_b26_a_home_too_long_for_sockets_has_its_hub_in_a_short_folder(
    tmp_path: Path, name: str
) -> None:
    root = tmp_path / name
    root.mkdir()
    machine = Machine(root)
    del machine.environment["CRAZE_RUNTIME_DIR"]
    machine.environment["XDG_RUNTIME_DIR"] = str(machine.home)  # too long as well
    hub = Hub(machine)
    try:
        machine.configure(script("echo"))
        hello, _ = heard(speak(hub))
        assert hello["endpoint"]["pid"] == hub.record.pid
        assert len(os.fsencode(hub.record.socket)) <= 100
        made = hub.create()
        assert hub.hosts()[0].hostId == made["hostId"]
        path = hub.record.socket
        assert settle(machine) == {}
        assert not os.path.exists(path)
    finally:
        machine.close()


def test_b33_a_hub_and_its_hosts_are_closed_to_others_under_any_umask(machine: Machine) -> None:
    hub = Hub(machine)
    heard(speak(hub, umask=0))
    hub.create(prompt="hi")
    eventually(Path(hub.paths.index).exists)
    for top in (machine.home / ".cache", Path(machine.runtime)):
        for path in (top, *top.rglob("*")):
            mode = stat.S_IMODE(path.lstat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
    assert stat.S_IMODE(os.stat(hub.paths.index).st_mode) == 0o600


@pytest.mark.parametrize("place", ["runtime", "namespace", "cache", "hubs"])
@pytest.mark.parametrize("how", ["symlink", pytest.param("foreign", marks=ROOT)])
def test_b33_a_place_that_somebody_else_has_taken_is_refused(
    machine: Machine, tmp_path: Path, place: str, how: str
) -> None:
    hub = Hub(machine)
    path = {
        "runtime": Path(machine.runtime) / "r",
        "namespace": Path(machine.runtime) / hub.paths.namespace,
        "cache": Path(hub.paths.cache),
        "hubs": Path(hub.paths.hubs),
    }[place]
    if place == "runtime":
        hub.environment["CRAZE_RUNTIME_DIR"] = str(path)
    elsewhere = tmp_path / "elsewhere"
    made = elsewhere if how == "symlink" else path
    made.mkdir(mode=0o700, parents=True)
    for parent in path.parents:
        if parent.is_relative_to(machine.home):
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            parent.chmod(0o700)
    if how == "symlink":
        path.symlink_to(elsewhere)
    else:
        os.chown(path, STRANGER, STRANGER)
    said = refused(speak(hub))
    assert said.startswith("craze bridge: no hub: ")
    assert str(path) in said
    assert list(made.iterdir()) == []
    assert machine.wait_empty() == {}


STRANGE = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(20)
sock.connect(sys.argv[2])
try:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"sessions.list"}\\n')
    print(sock.recv(1000))
except ConnectionError:
    print(b"")
"""


@LINUX
@ROOT
def test_b33_another_user_is_not_read(machine: Machine) -> None:
    hub = Hub(machine)
    hub.start()
    path = hub.record.socket
    for opened in (machine.runtime, os.path.dirname(path), path):
        os.chmod(opened, 0o777)
    arguments = [sys.executable, "-c", STRANGE, str(STRANGER), path]
    # Only its own folder and the socket are open to it: not that of the interpreter.
    said = subprocess.run(arguments, stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True)
    assert said.stdout == b"b''\n"
    assert "accept: Stranger" in hub.log


# ---- what a hub hands on ----


def test_hosts_and_agents_get_the_hubs_environment_without_what_was_one_terminals(
    machine: Machine, tmp_path: Path
) -> None:
    gone = (
        "CRAZE_PROVIDER", "CRAZE_DETACH", "CRAZE_CONTROL_SOCKET", "CRAZE_AGENT_BIN", "TMUX",
        "TMUX_PANE", "STY", "HERDR_PANE", "ROOST_TAB", "CRAZE_READY_FD", "CRAZE_HOST_CHILD",
        "CRAZE_HUB_CHILD",
    )  # fmt: skip
    kept = ("SSH_AUTH_SOCK", "SOME_API_KEY", "CRAZE_FAKE_LATE_CATALOG", "XDG_CONFIG_HOME")
    folder = tmp_path / "elsewhere"
    (folder / "rel").mkdir(parents=True, mode=0o700)
    (folder / "rel" / "config.toml").write_text(script("env"))
    given = {name: "x" for name in (*gone, *kept) if not name.endswith(("_CHILD", "_FD"))}
    hub = Hub(machine, CRAZE_HOME=str(folder / "rel"), **given)
    environment = hub.environment | {"CRAZE_HOME": "rel"}
    bridge = subprocess.Popen(
        [CRAZE, "bridge", "--hub"],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    assert bridge.wait(PATIENCE_S) == 0
    made = hub.create(prompt=" ".join((*gone, *kept, "CRAZE_HOME", "HOME")))
    with hub.client(made["sessionId"]) as client:

        def reply() -> str:
            shot = client.request("session.snapshot")["snapshot"]["main"]["entries"]
            return str(shot[-1].get("text", "")) if shot[-1]["kind"] == "assistant" else ""

        said = dict(line.split("=", 1) for line in eventually(reply).splitlines())
    assert [name for name in gone if said[name]] == []
    assert [said[name] for name in kept] == ["x"] * len(kept)
    assert (said["CRAZE_HOME"], said["HOME"]) == (str(folder / "rel"), str(machine.home))
    for words in ("craze hub", "craze serve"):
        [pid] = running(machine, words)
        variables = _environ(pid)
        assert not {name for name in gone if name in given} & variables.keys()
        assert variables["CRAZE_HOME"] == str(folder / "rel")


def _environ(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return dict(line.split("=", 1) for line in text.split("\0") if line)


@LINUX
def test_b31_no_descriptor_reaches_a_process_that_was_started_but_its_own(
    machine: Machine,
) -> None:
    hub = Hub(machine)
    with Wire(hub.bridge()) as wire:
        wire.hello()
        wire.ask("sessions.subscribe")
        work = str(machine.work)
        with contextlib.ExitStack() as held:
            creators = [held.enter_context(hub.wire()) for _ in range(4)]
            for one in creators:
                one.hello()
            ids = [one.send("session.create", cwd=work) for one in creators]
            for one, id in zip(creators, ids, strict=True):
                assert "result" in json.loads(one.answer(id))
        open_in = {
            pid: _targets(pid)
            for words in ("craze hub", "craze serve", "craze-fake-agent")
            for pid in running(machine, words)
        }
        agents = running(machine, "craze-fake-agent")
        assert (len(open_in), len(agents)) == (9, 4)
        for pid in agents:
            assert sorted(open_in[pid]) == [0, 1, 2]
        for pid, targets in open_in.items():
            for other, others in open_in.items():
                shared = set(targets.values()) & set(others.values())
                if pid != other and shared:
                    # A host and its own agent: the ends of three pipes.
                    assert {pid, other} & set(agents)
                    assert shared == set(open_in[({pid, other} & set(agents)).pop()].values())


def _targets(pid: int) -> dict[int, str]:
    """What a process has open: what can be one process's alone."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(link)
        if target != "/dev/null" and not target.startswith("anon_inode"):
            found[int(link.name)] = target
    return found
