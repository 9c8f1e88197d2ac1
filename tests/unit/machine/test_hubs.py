"""A hub's place: what taking it makes, what keeps it from being taken, what leaving it removes."""

import json
import os
import signal
import socket as names
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from craze.machine import files, hubs, locks, processes, runtime, sockets, trees
from craze.machine.errors import MachineError
from craze.machine.paths import Paths

HUB, OTHER = "0123456789ab", "ffffffffffff"

TAKE = """
import os, sys, time
from craze.machine import hubs
from craze.machine.paths import Paths
try:
    place = hubs.take(Paths.of(os.environ), sys.argv[1], version="1", started_at="t")
except hubs.Held as held:
    print("held", held.pid, held.hub, flush=True)
else:
    print("taken", flush=True)
    sys.stdin.read()
    place.leave()
"""


def taken(paths: Paths, hub: str = HUB, **more: Any) -> hubs.Place:
    return hubs.take(paths, hub, version="1.2", started_at="2026-01-01T00:00:00Z", **more)


class Process:
    """A hub's place taken, or not, in a process of its own."""

    def __init__(self, environ: dict[str, str], hub: str = OTHER) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", TAKE, hub]
        env = os.environ | environ
        self.process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe)

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def end(self, number: int = 0) -> None:
        if number:
            self.process.send_signal(number)
        self.process.communicate()


def listing(path: str) -> list[str]:
    return sorted(os.listdir(path))


def is_free(paths: Paths) -> bool:
    """Whether the hub's lock can be had."""
    lock = locks.probe(paths.hub_lock)
    if isinstance(lock, locks.Lock):
        lock.release()
    return lock is not True


# ---- taking and leaving ----


def test_a_place_is_taken_and_left(paths: Paths, umask: int) -> None:
    place = taken(paths)
    assert place.record == (
        *(1, HUB, paths.namespace, os.getpid(), processes.start_token(os.getpid())),
        *(f"{runtime.socket_directory(paths)}/hub.sock", "1.2", "2026-01-01T00:00:00Z"),
    )
    assert hubs.read(paths) == (place.record, files.named(paths.hub_record))
    assert Path(paths.hub_lock).read_text() == f"{os.getpid()} {HUB}\n"
    assert not is_free(paths)
    for path in (paths.hub_record, paths.hub_lock, place.record.socket):
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    for path in (paths.cache, paths.hubs, os.path.dirname(place.record.socket)):
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o700
    with sockets.dial(place.record.socket, 1):
        place.listener.accept()[0].close()
    assert place.lost() == ""
    place.leave()
    place.leave()
    assert listing(paths.hubs) == [f"{paths.namespace}.lock"]
    assert Path(paths.hub_lock).read_text() == ""
    assert os.listdir(os.path.dirname(place.record.socket)) == []
    assert hubs.read(paths) is None


def test_a_record_on_disk_is_as_the_tables_say(paths: Paths) -> None:
    place = taken(paths)
    text = Path(paths.hub_record).read_text()
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    assert list(json.loads(text)) == [
        *("protocol", "hubId", "ns", "pid"),
        *("startToken", "socket", "crazeVersion", "startedAt"),
    ]
    place.leave()


# ---- who was there before ----


def test_b28_what_a_killed_hub_left_is_cleared(paths: Paths, environ: dict[str, str]) -> None:
    killed = Process(environ)
    assert killed.says() == "taken"
    killed.end(signal.SIGKILL)
    before = hubs.read(paths)
    assert before is not None and os.path.exists(before.record.socket)
    place = taken(paths)
    assert place.record.socket == before.record.socket
    found = hubs.read(paths)
    assert found is not None and found.record == place.record
    place.leave()


def test_b29_a_loser_leaves_the_winners_files(paths: Paths, environ: dict[str, str]) -> None:
    place = taken(paths)
    there = [files.named(path) for path in (paths.hub_record, place.record.socket, paths.hub_lock)]
    losers = [Process(environ) for _ in range(3)]
    assert [loser.says() for loser in losers] == 3 * [f"held {os.getpid()} {HUB}"]
    for loser in losers:
        loser.end()
    slept: list[float] = []
    with pytest.raises(hubs.Held) as held:
        taken(paths, sleep=slept.append)
    assert (held.value.pid, held.value.hub) == (os.getpid(), HUB)
    assert str(held.value) == f"the hub's lock is held (pid {os.getpid()})"
    assert sum(slept) == pytest.approx(locks.PATIENCE)  # a look at the lock is no holder
    assert place.lost() == ""
    assert there == [
        files.named(path) for path in (paths.hub_record, place.record.socket, paths.hub_lock)
    ]
    place.leave()


def test_b29_of_many_over_a_stale_socket_one_wins(paths: Paths, environ: dict[str, str]) -> None:
    killed = Process(environ)
    assert killed.says() == "taken"
    killed.end(signal.SIGKILL)
    starters = [Process(environ, f"{number:012x}") for number in range(6)]
    said = [starter.says() for starter in starters]
    winner = said.index("taken")
    pid = starters[winner].process.pid
    held = f"held {pid} {winner:012x}"
    assert sorted({*said} - {"held 0 ", "taken"}) in ([held], [])  # its line may not be there yet
    found = hubs.read(paths)
    assert found is not None and found.record.pid == pid
    for starter in starters:
        starter.end()
    assert listing(paths.hubs) == [f"{paths.namespace}.lock"]


def test_b28_a_socket_that_somebody_listens_at_is_left_alone(paths: Paths) -> None:
    path = f"{runtime.socket_directory(paths)}/hub.sock"
    with sockets.bind(path) as listener:
        there = files.named(path)
        with pytest.raises(MachineError) as failure:
            taken(paths)
        listener.accept()[0].close()  # it was asked, and told nothing
        assert files.named(path) == there
    assert str(failure.value) == f"{path}: another process listens there"
    assert listing(paths.hubs) == [f"{paths.namespace}.lock"]
    assert Path(paths.hub_lock).read_text() == ""
    taken(paths).leave()


def test_b28_a_full_backlog_is_no_stale_socket(paths: Paths) -> None:
    path = f"{runtime.socket_directory(paths)}/hub.sock"
    with names.socket(names.AF_UNIX) as listener, names.socket(names.AF_UNIX) as queued:
        listener.bind(path)
        listener.listen(0)
        queued.connect(path)
        with pytest.raises(MachineError, match=r"another process listens there$"):
            taken(paths)


@pytest.mark.parametrize(
    "make",
    [os.mkdir, os.mkfifo, lambda path: os.symlink("x", path)],
    ids=["folder", "fifo", "link"],
)
def test_b33_what_is_no_socket_is_left_alone(paths: Paths, make: Any) -> None:
    path = f"{runtime.socket_directory(paths)}/hub.sock"
    make(path)
    there = files.named(path)
    with pytest.raises(MachineError) as failure:
        taken(paths)
    assert str(failure.value) == f"{path} is not a socket (remove it)"
    assert files.named(path) == there and hubs.read(paths) is None


def test_a_socket_replaced_while_it_is_looked_at(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{runtime.socket_directory(paths)}/hub.sock"
    sockets.bind(path).close()
    remove = files.remove

    def late(name: str, which: files.Identity | None = None) -> bool:
        os.rename(path, f"{path}.old")  # kept, so that its number is not given away again
        Path(path).touch()
        return remove(name, which)

    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", late)
        with pytest.raises(MachineError) as failure:
            hubs._clear(path)
    assert str(failure.value) == f"{path} was replaced while it was looked at"
    assert os.path.exists(path)


def test_a_place_that_cannot_be_made_leaves_nothing(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, data: bytes) -> files.Kept:
        raise OSError(28, "No space left on device", path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "put", full)
        with pytest.raises(MachineError) as failure:
            taken(paths)
    assert str(failure.value) == f"{paths.hub_record}: no space left on device"
    assert listing(paths.hubs) == [f"{paths.namespace}.lock"]
    assert os.listdir(runtime.socket_directory(paths)) == []

    def in_use(path: str) -> Any:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(sockets, "bind", in_use)
    with pytest.raises(MachineError, match=r"/hub\.sock: address already in use$"):
        taken(paths)


def test_b26_a_runtime_base_that_is_too_deep(root: Path) -> None:
    (root / "home").mkdir(mode=0o700)
    paths = Paths.of({"HOME": f"{root}/home", "CRAZE_RUNTIME_DIR": f"{root}/" + "é" * 40})
    with pytest.raises(MachineError, match="over the 100-byte limit"):
        taken(paths)
    assert is_free(paths)
    assert os.listdir(root) == ["home"]


def test_a_tree_that_others_can_write_to(paths: Paths) -> None:
    taken(paths).leave()
    os.chmod(paths.hubs, 0o770)
    for use in (taken, hubs.read):
        with pytest.raises(MachineError, match="0700 is required"):
            use(paths)
    os.chmod(paths.hubs, 0o700)


# ---- losing it ----


def test_a_hub_that_cannot_be_found_any_more_knows(paths: Paths) -> None:
    place = taken(paths)
    socket = place.record.socket
    for what, path in (("control socket", socket), ("record", paths.hub_record)):
        os.rename(path, f"{path}.away")
        assert place.lost() == f"its {what} {path} is gone"
        Path(path).touch()
        assert place.lost() == f"its {what} {path} is another file now"
        os.rename(f"{path}.away", path)
        assert place.lost() == ""
    os.rename(paths.hub_lock, f"{paths.hub_lock}.away")
    assert place.lost() == f"its lock {paths.hub_lock} is another file now"
    place.leave()


def test_b29_leaving_removes_only_what_is_its_own(paths: Paths) -> None:
    place = taken(paths)
    for path in (place.record.socket, paths.hub_record):
        os.rename(path, f"{path}.away")
        Path(path).write_text("another's")
    place.leave()
    for path in (place.record.socket, paths.hub_record):
        assert Path(path).read_text() == "another's"


def test_leaving_goes_on_past_a_failure(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    place = taken(paths)
    with monkeypatch.context() as patch:

        def denied(path: str, which: files.Identity | None = None) -> bool:
            raise PermissionError(13, "Permission denied", path)

        patch.setattr(files, "remove", denied)
        with pytest.raises(PermissionError) as failure:
            place.leave()
    assert failure.value.filename == place.record.socket
    assert is_free(paths)


# ---- reading ----

NS = "01234567"
GOOD = {
    "protocol": 1, "hubId": HUB, "ns": NS, "pid": 7, "startToken": "st1/b/n/1",
    "socket": "/s", "crazeVersion": "1.2", "startedAt": "t",
}  # fmt: skip


def without(*members: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name not in members}


def test_a_record_comes_back() -> None:
    record = hubs.Record(**GOOD)  # type: ignore[arg-type]
    assert hubs.decode(hubs.encode(record), NS) == record
    assert hubs.decode(json.dumps(GOOD | {"newer": [1]}).encode(), NS) == record
    odd = record._replace(socket="/s/\udcff")
    assert hubs.decode(hubs.encode(odd), NS) == odd
    least = without("protocol", "startToken", "crazeVersion", "startedAt")
    assert hubs.decode(json.dumps(least).encode(), NS) == (0, HUB, NS, 7, "", "/s", "", "")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 30_000,
        b'{"pid":' + b"9" * 5000 + b"}",
        *(
            json.dumps(members).encode()
            for members in (
                GOOD | {"hubId": "0123456789AB"},
                GOOD | {"hubId": "../../etc/x"},
                GOOD | {"hubId": 7},
                GOOD | {"ns": "76543210"},
                GOOD | {"pid": 0},
                GOOD | {"pid": -1},
                GOOD | {"pid": True},
                GOOD | {"pid": 7.0},
                GOOD | {"pid": "7"},
                GOOD | {"socket": "s"},
                GOOD | {"socket": "/\ud800"},
                GOOD | {"startToken": None},
                GOOD | {"protocol": "1"},
                without("hubId"),
                without("ns"),
                without("pid"),
                without("socket"),
            )
        ),
    ],
)
def test_what_is_no_record(paths: Paths, data: bytes) -> None:
    with pytest.raises(ValueError):
        hubs.decode(data, NS)
    trees.cache(paths, paths.hubs)
    Path(paths.hub_record).write_bytes(data)
    assert hubs.read(paths) is None


def test_a_record_of_64_kib_is_read_and_a_longer_one_not(paths: Paths) -> None:
    trees.cache(paths, paths.hubs)
    data = json.dumps(GOOD | {"ns": paths.namespace}).encode()
    Path(paths.hub_record).write_bytes(data.ljust(64 * 1024))
    assert hubs.read(paths) is not None
    Path(paths.hub_record).write_bytes(data.ljust(64 * 1024 + 1))
    assert hubs.read(paths) is None


def test_b33_a_record_that_is_no_file_is_none(paths: Paths) -> None:
    assert hubs.read(paths) is None and not os.path.exists(paths.cache)
    trees.cache(paths, paths.hubs)
    Path(paths.home, "record").write_text(json.dumps(GOOD | {"ns": paths.namespace}))
    for make in (
        lambda path: os.symlink(f"{paths.home}/record", path),
        os.mkfifo,
        os.mkdir,
    ):
        make(paths.hub_record)
        assert hubs.read(paths) is None
        (os.rmdir if os.path.isdir(paths.hub_record) else os.unlink)(paths.hub_record)
