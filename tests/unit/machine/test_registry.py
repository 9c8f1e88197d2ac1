import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from craze.machine import locks, registry, sockets
from craze.machine.errors import MachineError
from craze.machine.paths import Paths
from craze.machine.registry import Entry

HOST = "0123456789ab"
MEMBERS = {"startedAt": "2026-01-01T00:00:00Z", "provider": "grok", "workspace": "/w/é"}

SERVE = """
import os, sys, time
from craze.machine import registry
from craze.machine.paths import Paths
registry.bind(Paths.of(os.environ), sys.argv[1], {"startedAt": "2026-01-01T00:00:00Z"})
print("listed", flush=True)
time.sleep(60)
"""


def listed(paths: Paths, host: str = HOST, **more: Any) -> registry.Listing:
    return registry.bind(paths, host, MEMBERS | more)


def killed(environ: dict[str, str], host: str = HOST) -> None:
    """List a host in a process of its own, and kill that."""
    command = [sys.executable, "-c", SERVE, host]
    process = subprocess.Popen(command, env=os.environ | environ, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as out:
        assert out.readline() == b"listed\n"
    process.kill()
    process.wait()


# ---- the entry ----


def test_an_entry_on_disk_is_as_the_tables_say(paths: Paths) -> None:
    listing = listed(paths, requestId="r-1", requestHash="sha256:00")
    path = Path(paths.entry(HOST))
    text = path.read_text()
    assert text.startswith('{\n  "protocol": 1,\n  "hostId": "0123456789ab",\n  "pid": ')
    assert text.endswith("\n}\n")
    assert list(json.loads(text)) == [
        *("protocol", "hostId", "pid", "startedAt", "socket", "crazeSessionId"),
        *("providerSessionId", "incarnation", "provider", "workspace", "ready"),
        *("requestId", "requestHash"),
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    listing.update(crazeSessionId="s-1", providerSessionId="p-1", incarnation="i", ready=True)
    listing.update(stopping=True)
    assert json.loads(path.read_text()) == {
        "protocol": 1, "hostId": HOST, "pid": os.getpid(), **MEMBERS, "socket": listing.socket,
        "crazeSessionId": "s-1", "providerSessionId": "p-1", "incarnation": "i", "ready": True,
        "requestId": "r-1", "requestHash": "sha256:00", "stopping": True,
    }  # fmt: skip
    assert registry.read(paths, HOST) == listing.entry
    assert sorted(os.listdir(paths.hosts)) == [f"{HOST}.json", f"{HOST}.lock"]
    listing.unbind()


def test_a_path_that_is_no_utf8_comes_back(paths: Paths) -> None:
    entry = Entry(1, HOST, 1, "", "/s/\udcff", workspace="/w/\udcfe")
    assert registry.decode(registry.encode(entry), HOST) == entry


GOOD = {"protocol": 1, "hostId": HOST, "pid": 1, "startedAt": "t", "socket": "/s"}


def test_unknown_members_are_ignored_and_absent_ones_empty() -> None:
    entry = registry.decode(json.dumps(GOOD | {"newer": [1], "ready": True}).encode(), HOST)
    assert entry == Entry(1, HOST, 1, "t", "/s", ready=True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 30_000,
        json.dumps(GOOD | {"hostId": "aaaaaaaaaaaa"}).encode(),
        json.dumps(GOOD | {"pid": "1"}).encode(),
        json.dumps(GOOD | {"pid": True}).encode(),
        json.dumps(GOOD | {"ready": 1}).encode(),
        json.dumps(GOOD | {"socket": "/\ud800"}).encode(),
        json.dumps({key: GOOD[key] for key in ("protocol", "hostId", "pid")}).encode(),
        b'{"pid":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_entry(data: bytes) -> None:
    with pytest.raises(ValueError):
        registry.decode(data, HOST)


# ---- looking ----


def test_no_tree_is_no_hosts(paths: Paths) -> None:
    assert registry.scan(paths) == ([], [])
    assert not os.path.exists(paths.cache)


def test_a_tree_that_others_can_reach_is_refused(paths: Paths) -> None:
    listing = listed(paths)
    os.chmod(paths.hosts, 0o755)
    with pytest.raises(MachineError, match="0700 is required"):
        registry.scan(paths)
    os.chmod(paths.hosts, 0o700)
    listing.unbind()


def test_live_hosts_are_found_in_order_of_their_ids(paths: Paths) -> None:
    hosts = [listed(paths, host) for host in ("bbbbbbbbbbbb", "aaaaaaaaaaaa")]
    hosts[0].update(stopping=True)
    found = registry.scan(paths)
    assert found == ([hosts[1].entry, hosts[0].entry], [])
    for host in hosts:
        host.unbind()
    assert registry.scan(paths) == ([], [])


def test_other_files_are_no_hosts(paths: Paths) -> None:
    listing = listed(paths)
    for name in ("x.json", "0123456789AB.json", "ffffffffffff.txt", ".ffffffffffff.json.1"):
        Path(paths.hosts, name).write_text("{}")
    Path(paths.hosts, "eeeeeeeeeeee.json").write_text("{}")  # no lock
    assert registry.scan(paths) == ([listing.entry], [])
    listing.unbind()


@pytest.mark.parametrize("wrong", ["garbage", "long", "folder", "other host"])
def test_a_live_host_whose_entry_cannot_be_read_is_told_apart(paths: Paths, wrong: str) -> None:
    listing = listed(paths)
    entry = Path(paths.entry(HOST))
    entry.unlink()
    if wrong == "folder":
        entry.mkdir()
    else:
        entry.write_bytes({
            "garbage": b"{",
            "long": registry.encode(listing.entry) + b" " * 64 * 1024,
            "other host": registry.encode(listing.entry._replace(hostId="a" * 12)),
        }[wrong])  # fmt: skip
    assert registry.scan(paths) == ([], [HOST])
    with pytest.raises(MachineError, match=r"0123456789ab\.json: "):
        registry.read(paths, HOST)
    assert listing.lost() == f"its registry entry {entry} is another file now"
    listing.unbind()


def test_a_dead_host_is_cleared_away_but_its_socket_is_not_touched(
    environ: dict[str, str], paths: Paths
) -> None:
    killed(environ)
    Path(paths.hosts, f".{HOST}.json.12").touch()
    Path(paths.hosts, ".ffffffffffff.json.12").touch()
    socket = registry.read(paths, HOST).socket
    assert os.path.exists(paths.host_lock(HOST))
    assert registry.scan(paths) == ([], [])
    assert os.listdir(paths.hosts) == [".ffffffffffff.json.12"]
    assert os.path.exists(socket)


def test_a_look_does_not_take_longer_with_the_square_of_the_dead(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(paths).unbind()
    looked = 0

    class Counted(str):
        __slots__ = ()

        def startswith(self, *args: Any) -> bool:
            nonlocal looked
            looked += 1
            return super().startswith(*args)

    for number in range(50):
        host = f"{number:012x}"
        Path(paths.entry(host)).touch()
        Path(paths.host_lock(host)).touch()
        Path(paths.hosts, f".{host}.json.7").touch()
    names = [Counted(name) for name in os.listdir(paths.hosts)]
    monkeypatch.setattr(os, "listdir", lambda _: names)
    assert registry.scan(paths) == ([], [])
    monkeypatch.undo()
    assert looked <= len(names)
    assert os.listdir(paths.hosts) == []


@pytest.mark.parametrize("pid", [1, os.getpid(), os.getppid()])
def test_b27_an_entry_whose_pid_is_somebody_elses_by_now_is_dead(
    environ: dict[str, str], paths: Paths, pid: int
) -> None:
    killed(environ)
    entry = registry.read(paths, HOST)._replace(pid=pid)
    Path(paths.entry(HOST)).write_bytes(registry.encode(entry))
    Path(paths.host_lock(HOST)).write_text(f"{pid} {HOST}\n")
    assert registry.scan(paths) == ([], [])
    assert os.listdir(paths.hosts) == []


def test_b27_a_host_whose_pid_reads_as_dead_lives_while_it_holds_its_lock(paths: Paths) -> None:
    listing = listed(paths, pid=2**22 + 1)
    assert registry.scan(paths) == ([listing.entry], [])
    listing.unbind()


def test_a_host_that_goes_while_it_is_looked_at_is_skipped(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = listed(paths)
    probe = locks.probe

    def going(path: str) -> object:
        held = probe(path)
        listing.unbind()
        return held

    monkeypatch.setattr(locks, "probe", going)
    assert registry.scan(paths) == ([], [])


# ---- being listed ----


def test_everything_is_private_under_any_umask(paths: Paths, umask: int) -> None:
    listing = listed(paths)
    for path in (listing.socket, paths.entry(HOST), paths.host_lock(HOST)):
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert Path(paths.host_lock(HOST)).read_text() == f"{os.getpid()} {HOST}\n"
    listing.unbind()


def test_nothing_of_a_host_stays(paths: Paths) -> None:
    listing = listed(paths)
    listing.unbind()
    listing.unbind()
    assert os.listdir(paths.hosts) == os.listdir(os.path.dirname(listing.socket)) == []


def test_b29_a_host_removes_only_what_is_its_own(paths: Paths) -> None:
    listing = listed(paths)
    for path in (listing.socket, paths.entry(HOST)):
        os.unlink(path)
        Path(path).write_text("another's")
    assert listing.lost() == f"its control socket {listing.socket} is another file now"
    listing.unbind()
    assert Path(listing.socket).read_text() == "another's"
    assert os.listdir(paths.hosts) == [f"{HOST}.json"]


def test_a_host_that_lost_its_place_can_tell(paths: Paths) -> None:
    listing = listed(paths)
    assert listing.lost() == ""
    listing.update(ready=True)
    assert listing.lost() == ""
    os.unlink(paths.entry(HOST))
    assert listing.lost() == f"its registry entry {paths.entry(HOST)} is gone"
    os.unlink(listing.socket)
    assert listing.lost() == f"its control socket {listing.socket} is gone"
    listing.unbind()


def test_a_host_can_leave_the_registry_and_serve_on(paths: Paths) -> None:
    listing = listed(paths)
    listing.unlist()
    listing.update(stopping=True)
    assert registry.scan(paths) == ([], [])
    assert listing.lost() == ""
    with sockets.dial(listing.socket, 1):
        pass
    listing.unbind()


def test_one_host_id_serves_once(paths: Paths) -> None:
    listing = listed(paths)
    with pytest.raises(MachineError, match="is held"):
        registry.bind(paths, HOST, MEMBERS, sleep=lambda _: None)
    assert registry.scan(paths) == ([listing.entry], [])
    listing.unbind()


def test_b29_a_socket_that_is_in_the_way_is_an_error_and_stays(paths: Paths) -> None:
    listing = listed(paths)
    socket = listing.socket
    listing.unbind()
    Path(socket).touch()
    with pytest.raises(MachineError, match=r"0123456789ab\.sock: address already in use"):
        listed(paths)
    assert os.path.exists(socket)
    assert os.listdir(paths.hosts) == []


def test_an_entry_that_cannot_be_written_leaves_nothing(paths: Paths) -> None:
    listing = listed(paths)
    listing.unbind()
    os.mkdir(paths.entry(HOST))
    with pytest.raises(MachineError, match="is a directory"):
        listed(paths)
    assert os.listdir(paths.hosts) == [f"{HOST}.json"]
    assert os.listdir(os.path.dirname(listing.socket)) == []


def test_b26_a_path_that_is_too_long_makes_nothing(environ: dict[str, str], root: Path) -> None:
    paths = Paths.of(environ | {"CRAZE_RUNTIME_DIR": f"{root}/" + "é" * 52})
    with pytest.raises(MachineError, match="over the 100-byte limit"):
        listed(paths)
    assert os.listdir(root / "home") == []


@pytest.mark.parametrize("home", ["h" * 90, "é" * 60])
def test_b26_a_long_home_is_no_matter(root: Path, home: str) -> None:
    (root / home).mkdir(mode=0o700)
    paths = Paths.of({"HOME": f"{root}/{home}", "CRAZE_RUNTIME_DIR": f"{root}/run"})
    listing = listed(paths)
    assert registry.scan(paths) == ([listing.entry], [])
    listing.unbind()
