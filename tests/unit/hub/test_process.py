"""The life of `craze hub` as a process: its place, its ready line, and what ends it."""

import json
import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.machine import hubs, locks
from craze.machine.paths import Paths
from craze.wire.limits import MIB
from tests.unit.hub.hosting import PATIENCE, A, Client, Host, until

Start = Callable[..., "Process"]


class Process:
    """A `craze hub`; `said` is its ready line."""

    def __init__(self, environ: dict[str, str], *, listen: bool = True) -> None:
        kept = {name: value for name, value in os.environ.items() if name[:6] != "CRAZE_"}
        reading, writing = os.pipe()
        self.child = subprocess.Popen(
            [sys.executable, "-m", "craze", "hub"],
            env=kept | environ | {"CRAZE_READY_FD": str(writing), "CRAZE_HUB_CHILD": "1"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(writing,),
        )
        os.close(writing)
        self.said: dict[str, Any] = {}
        with os.fdopen(reading, "rb") as pipe:
            if listen and select.select([pipe], [], [], PATIENCE)[0]:
                self.said = json.loads(pipe.readline() or b"{}")

    def client(self) -> Client:
        client = Client(self.said["socket"])
        client.hello()
        return client

    def ended(self) -> int:
        """Wait for its end; its exit status."""
        until(lambda: self.child.poll() is not None)
        return int(self.child.returncode)

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        assert self.child.stderr is not None
        self.child.stderr.close()


@pytest.fixture
def start(environ: dict[str, str]) -> Iterator[Start]:
    """Starts a hub; what it is given are more variables."""
    started: list[Process] = []

    def begin(*, listen: bool = True, **variables: str) -> Process:
        started.append(Process(environ | variables, listen=listen))
        return started[-1]

    yield begin
    for process in started:
        process.close()


def log(paths: Paths) -> str:
    return Path(paths.hub_log).read_text()


def left(paths: Paths, *sockets: str) -> list[str]:
    """What there is of a hub's place."""
    return sorted(os.listdir(paths.hubs)) + [path for path in sockets if os.path.lexists(path)]


# ---- its place ----


def test_a_hub_says_who_it_is_and_where(start: Start, paths: Paths) -> None:
    hub = start()
    found = hubs.read(paths)
    assert found is not None
    assert hub.said == {
        "ok": True,
        "hubId": found.record.hubId,
        "ns": paths.namespace,
        "socket": found.record.socket,
    }
    assert found.record.pid == hub.child.pid
    assert stat.S_IMODE(os.lstat(hub.said["socket"]).st_mode) == 0o600
    client = hub.client()
    assert client.call("sessions.list") == {
        "epoch": found.record.hubId,
        "cursor": 0,
        "sessions": [],
    }
    client.sock.close()
    assert f"hub {found.record.hubId} serving namespace {paths.namespace}" in log(paths)


def test_b29_a_second_hub_is_held_and_takes_nothing_of_the_first(
    start: Start, paths: Paths
) -> None:
    first = start()
    second = start()
    assert second.said == {
        "ok": False,
        "held": {"pid": first.child.pid, "hubId": first.said["hubId"]},
    }
    assert second.ended() == 0
    assert second.child.stderr is not None
    assert second.child.stderr.read().decode() == (
        f"craze hub: another hub runs already (pid {first.child.pid})\n"
    )
    first.client().sock.close()
    assert left(paths) == [f"{paths.namespace}.json", f"{paths.namespace}.lock"]


def test_another_craze_directory_has_a_hub_of_its_own(start: Start, root: Path) -> None:
    one, other = start(), start(CRAZE_HOME=str(root / "other"))
    assert one.said["ok"] and other.said["ok"]
    assert one.said["ns"] != other.said["ns"]
    for hub in (one, other):
        hub.client().sock.close()


def test_b28_b29_a_killed_hubs_socket_is_cleared_by_the_next(start: Start, paths: Paths) -> None:
    killed = start()
    killed.child.kill()
    killed.child.wait()
    assert len(left(paths, killed.said["socket"])) == 3
    hub = start()
    assert hub.said["ok"] and hub.said["socket"] == killed.said["socket"]
    assert hub.said["hubId"] != killed.said["hubId"]
    hub.client().sock.close()


def test_a_launcher_that_went_has_its_hub_end(start: Start, paths: Paths) -> None:
    hub = start(listen=False)
    assert hub.ended() == 0
    assert "stopping: its launcher went before it was ready" in log(paths)
    assert left(paths) == [f"{paths.namespace}.lock"]


# ---- what ends it ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_hub_leaves_its_lock_file_alone(
    start: Start, paths: Paths, number: signal.Signals
) -> None:
    hub = start()
    client = hub.client()
    client.call("sessions.subscribe")
    hub.child.send_signal(number)
    assert client.read()["params"] == {"subscription": "r-1", "reason": "hub_closing"}
    assert client.ended()
    client.sock.close()
    assert hub.ended() == 0
    assert left(paths, hub.said["socket"]) == [f"{paths.namespace}.lock"]
    assert Path(paths.hub_lock).read_text() == ""
    locks.take(paths.hub_lock).release()  # which nobody holds
    assert f"stopping: {number.name}" in log(paths)


def test_a_hangup_is_ignored(start: Start, paths: Paths) -> None:
    hub = start()
    hub.child.send_signal(signal.SIGHUP)
    until(lambda: "hangup ignored; the hub runs on" in log(paths))
    hub.client().sock.close()


@pytest.mark.parametrize("what", ["record", "control socket", "lock"])
@pytest.mark.parametrize("how", ["gone", "another's"])
def test_b29_a_hub_that_lost_its_place_ends_and_removes_nobody_elses(
    start: Start, paths: Paths, what: str, how: str
) -> None:
    hub = start()
    path = {
        "record": paths.hub_record,
        "control socket": hub.said["socket"],
        "lock": paths.hub_lock,
    }[what]
    os.unlink(path)
    if how != "gone":
        Path(path).write_text("another's")
    assert hub.ended() == 0
    assert f"stopping: its {what} {path} is " in log(paths)
    expected = [f"{paths.namespace}.lock", hub.said["socket"], f"{paths.namespace}.json"]
    there = left(paths, hub.said["socket"])
    if how == "gone":
        assert there == ([] if what == "lock" else expected[:1])
    else:
        assert Path(path).read_text() == "another's"
        assert len(there) == (1 if what == "lock" else 2)


# ---- idleness ----


def test_a_hub_that_nobody_needs_goes(start: Start, paths: Paths) -> None:
    hub = start(CRAZE_HUB_IDLE="0")  # a second is left to whoever started it
    assert hub.ended() == 0
    assert "stopping: idle for 1s" in log(paths)
    assert left(paths, hub.said["socket"]) == [f"{paths.namespace}.lock"]


def test_a_hub_stays_for_a_client_and_for_a_host(
    start: Start, paths: Paths, listed: Callable[..., Host]
) -> None:
    hub = start(CRAZE_HUB_IDLE="100ms")
    client = hub.client()
    gevent.sleep(2.5)  # some of its looks
    assert client.call("sessions.list")["sessions"] == []
    host = listed(A)
    client.sock.close()
    gevent.sleep(2.5)
    assert hub.child.poll() is None
    assert host.asked == 0  # it was needed, and not asked
    host.listing.unlist()
    assert hub.ended() == 0


@pytest.mark.parametrize("given", ["soon", "-1s", "10"])
def test_an_idle_time_that_is_none_is_said(start: Start, paths: Paths, given: str) -> None:
    hub = start(CRAZE_HUB_IDLE=given)
    hub.client().sock.close()
    assert "CRAZE_HUB_IDLE is no duration: 1m0s holds" in log(paths)


# ---- what it keeps clean, and how much it takes ----


def test_a_hub_sweeps_at_its_start(start: Start, paths: Paths, listed: Callable[..., Host]) -> None:
    listed(A)
    old = [Path(paths.hosts, name) for name in ("ffffffffffff.lock", ".ffffffffffff.json.12")]
    new = Path(paths.hosts, "eeeeeeeeeeee.lock")
    for path in (*old, new):
        path.touch()
    for path in old:
        os.utime(path, (0, 0))
    start()
    until(lambda: "orphan sweep" in log(paths))
    assert (
        "orphan sweep: 1 orphan locks, 1 registry temporaries and 0 refused sockets removed"
        in log(paths)
    )
    assert sorted(os.listdir(paths.hosts)) == [f"{A}.json", f"{A}.lock", new.name]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="memory is read from /proc")
def test_b65_a_line_without_an_end_takes_no_memory(start: Start) -> None:
    hub = start()
    client, other = hub.client(), hub.client()
    for _ in range(256):
        client.sock.sendall(b"x" * MIB)
    assert other.call("session.bogus")["reason"] == "unknown_method"
    client.sock.sendall(b"\n")
    assert client.read()["error"]["data"]["reason"] == "line_too_long"
    for each in (client, other):
        each.sock.close()
    status = Path(f"/proc/{hub.child.pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(peak) * 1024 < 64 * MIB
