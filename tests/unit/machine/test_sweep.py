"""What a hub asks of the registry besides the live hosts: whether any lives, and what was left."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from craze.clock import Clock, ManualClock
from craze.machine import locks, registry, runtime, sockets
from craze.machine.errors import MachineError
from craze.machine.paths import Paths
from craze.machine.registry import Listing, Swept

A, B, C = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only there a refusal proves it")


def listed(paths: Paths, host: str) -> Listing:
    return registry.bind(paths, host, {"startedAt": "2026-01-01T00:00:00Z"})


@pytest.fixture
def host(paths: Paths) -> Iterator[Listing]:
    listing = listed(paths, A)
    yield listing
    listing.unbind()


@pytest.fixture
def later() -> Clock:
    """A clock by which everything that is there now is old."""
    return ManualClock(time.time_ns() + 601 * 1_000_000_000)


def kill(listing: Listing) -> None:
    """Let go of a host's place as a kill does: lock and listener gone, every file left."""
    listing.listener.close()
    listing._lock.release()
    assert listing._written is not None
    listing._written.close()
    listing._bound.close()


# ---- whether any host lives ----


def test_nobody_lives_where_nobody_ever_did(paths: Paths) -> None:
    assert not registry.any_live(paths)
    assert not os.path.exists(paths.cache)


def test_a_host_lives(paths: Paths, host: Listing) -> None:
    assert registry.any_live(paths)
    host.update(stopping=True)
    assert registry.any_live(paths)


def test_a_host_whose_entry_cannot_be_read_lives(paths: Paths, host: Listing) -> None:
    Path(paths.entry(A)).write_text("{")
    assert registry.any_live(paths)


def test_a_host_of_which_it_cannot_be_told_may_live(paths: Paths, host: Listing) -> None:
    os.unlink(paths.host_lock(A))
    os.mkdir(paths.host_lock(A))
    assert registry.any_live(paths)
    os.rmdir(paths.host_lock(A))


def test_a_dead_host_does_not_and_is_left_to_whoever_lists(paths: Paths, host: Listing) -> None:
    host.unlist()
    dead = listed(paths, B)
    kill(dead)
    assert not registry.any_live(paths)
    assert os.path.exists(paths.entry(B))
    locks.take(paths.host_lock(B)).release()  # nothing of the look is left
    registry.scan(paths)
    os.unlink(dead.socket)


def test_b27_a_pid_that_lives_is_no_life(paths: Paths, host: Listing) -> None:
    host.unlist()
    kill(listed(paths, B))  # whose pid is ours
    assert not registry.any_live(paths)


def test_a_look_goes_no_further_than_the_first_that_lives(
    paths: Paths, host: Listing, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [listed(paths, id) for id in (B, C)]
    probe, looked = locks.probe, []

    def counted(path: str) -> object:
        looked.append(path)
        return probe(path)

    monkeypatch.setattr(locks, "probe", counted)
    assert registry.any_live(paths)
    assert looked == [paths.host_lock(A)]
    for other in others:
        other.unbind()


def test_a_registry_that_cannot_be_read_says_nothing(paths: Paths, host: Listing) -> None:
    os.chmod(paths.hosts, 0o755)
    for look in (registry.any_live, lambda paths: registry.sweep(paths, Clock())):
        with pytest.raises(MachineError, match="0700 is required"):
            look(paths)
    os.chmod(paths.hosts, 0o700)


# ---- what was left ----


def test_nothing_is_swept_where_nothing_is(paths: Paths, later: Clock) -> None:
    assert registry.sweep(paths, later) == Swept(0, 0, 0)
    assert not os.path.exists(paths.cache)


def test_a_lock_without_an_entry_goes_once_it_is_old(
    paths: Paths, host: Listing, later: Clock
) -> None:
    orphan = Path(paths.host_lock(B))
    orphan.write_text(f"{os.getpid()} {B}\n")
    assert registry.sweep(paths, Clock()) == Swept(0, 0, 0)
    assert orphan.exists()
    assert registry.sweep(paths, later) == Swept(1, 0, 0)
    assert sorted(os.listdir(paths.hosts)) == [f"{A}.json", f"{A}.lock"]


def test_a_lock_that_is_held_stays_however_old(paths: Paths, host: Listing, later: Clock) -> None:
    host.unlist()  # it serves on
    assert registry.sweep(paths, later) == Swept(0, 0, 0)
    assert os.path.exists(paths.host_lock(A)) and os.path.exists(host.socket)


def test_a_dead_hosts_entry_is_not_the_sweeps(paths: Paths, host: Listing, later: Clock) -> None:
    dead = listed(paths, B)
    kill(dead)
    os.unlink(dead.socket)
    assert registry.sweep(paths, later) == Swept(0, 0, 0)
    assert os.path.exists(paths.entry(B)) and os.path.exists(paths.host_lock(B))


def test_temporary_files_go_once_they_are_old(paths: Paths, host: Listing, later: Clock) -> None:
    for name in (f".{A}.json.7", f".{C}.json.12", "other", ".other.json.7"):
        Path(paths.hosts, name).touch()
    assert registry.sweep(paths, Clock()) == Swept(0, 0, 0)
    assert registry.sweep(paths, later) == Swept(0, 2, 0)
    assert sorted(os.listdir(paths.hosts)) == [
        ".other.json.7", f"{A}.json", f"{A}.lock", "other"
    ]  # fmt: skip


@LINUX
def test_a_socket_that_refuses_goes_once_it_is_old(
    paths: Paths, host: Listing, later: Clock
) -> None:
    dead = listed(paths, B)
    kill(dead)
    registry.scan(paths)  # which clears the rest away
    assert registry.sweep(paths, Clock()) == Swept(0, 0, 0)
    assert os.path.exists(dead.socket)
    assert registry.sweep(paths, later) == Swept(0, 0, 1)
    assert not os.path.exists(dead.socket) and os.path.exists(host.socket)


@LINUX
def test_b29_a_socket_that_somebody_listens_on_stays(
    paths: Paths, host: Listing, later: Clock
) -> None:
    directory = runtime.socket_directory(paths)
    alive = os.path.join(directory, f"{B}.sock")
    with sockets.bind(alive):
        assert registry.sweep(paths, later) == Swept(0, 0, 0)
        assert os.path.exists(alive)
    os.unlink(alive)


@LINUX
def test_b28_a_full_backlog_is_no_refusal(paths: Paths, host: Listing, later: Clock) -> None:
    busy = os.path.join(runtime.socket_directory(paths), f"{B}.sock")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(busy)
        listener.listen(0)
        client.connect(busy)
        assert registry.sweep(paths, later) == Swept(0, 0, 0)
    os.unlink(busy)


@LINUX
def test_a_socket_that_refuses_stays_while_its_hosts_lock_is_held(
    paths: Paths, host: Listing, later: Clock
) -> None:
    host.listener.close()
    assert registry.sweep(paths, later) == Swept(0, 0, 0)
    assert os.path.exists(host.socket)


@LINUX
def test_other_names_and_other_namespaces_are_not_looked_at(
    paths: Paths, host: Listing, later: Clock, environ: dict[str, str], root: Path
) -> None:
    other = Paths.of(environ | {"CRAZE_HOME": str(root / "other")})
    left = [
        os.path.join(runtime.socket_directory(paths), "hub.sock"),
        os.path.join(runtime.socket_directory(other), f"{B}.sock"),
    ]
    for path in left:
        sockets.bind(path).close()
    os.mkdir(os.path.join(runtime.socket_directory(paths), f"{C}.sock"))
    assert registry.sweep(paths, later) == Swept(0, 0, 0)
    assert all(map(os.path.exists, left))


LEAVE = """
import os, sys
from craze.machine import registry
from craze.machine.paths import Paths
for host in sys.argv[1:]:
    registry.bind(Paths.of(os.environ), host, {"startedAt": "2026-01-01T00:00:00Z"})
os.kill(os.getpid(), 9)
"""


@LINUX
def test_b33_nothing_of_killed_hosts_stays(
    environ: dict[str, str], paths: Paths, later: Clock
) -> None:
    hosts = [f"{number:012x}" for number in range(20)]
    subprocess.run([sys.executable, "-c", LEAVE, *hosts], env=os.environ | environ, check=False)
    for host in hosts[::2]:
        os.unlink(paths.entry(host))
    assert registry.scan(paths) == ([], [])
    assert registry.sweep(paths, later) == Swept(10, 0, 20)
    assert os.listdir(paths.hosts) == os.listdir(runtime.socket_directory(paths)) == []
