import os
import socket as plain
import stat
from pathlib import Path

import gevent
import pytest

from craze import greenlets
from craze.machine import peer, sockets
from craze.machine.errors import MachineError


def test_a_socket_is_private_under_any_umask(root: Path, umask: int) -> None:
    path = str(root / "s")
    with sockets.bind(path):
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="how Linux makes a socket's name")
def test_b33_a_socket_is_private_before_it_is_chmodded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(root / "s")
    seen = []
    monkeypatch.setattr(sockets.os, "chmod", lambda name, _: seen.append(os.lstat(name).st_mode))
    before = os.umask(0)
    sockets.bind(path).close()
    os.umask(before)
    assert [stat.S_IMODE(mode) for mode in seen] == [0o600]


def test_b29_a_name_that_is_taken_is_left_alone(root: Path) -> None:
    path = str(root / "s")
    with sockets.bind(path) as first:
        for _ in range(2):
            with pytest.raises(OSError, match="Address already in use"):
                sockets.bind(path)
            first_still = os.lstat(path)
        assert stat.S_ISSOCK(first_still.st_mode)
        with sockets.dial(path, 1) as client:
            accepted, _ = first.accept()
            accepted.close()
            assert client.recv(1) == b""
    with pytest.raises(OSError, match="Address already in use"):
        sockets.bind(path)  # a stale socket is not ours to clear either


def test_b26_a_path_that_is_too_long(root: Path) -> None:
    long = f"{root}/" + "é" * 52
    with pytest.raises(MachineError, match="over the 100-byte limit"):
        sockets.bind(long)
    with pytest.raises(OSError, match="AF_UNIX path too long"):
        sockets.dial(long, 1)
    assert os.listdir(root) == []


def test_dialling_nobody(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sockets.dial(f"{root}/s", 1)
    sockets.bind(f"{root}/s").close()
    with pytest.raises(ConnectionRefusedError):
        sockets.dial(f"{root}/s", 1)


def test_b28_a_full_backlog_is_waited_out(root: Path) -> None:
    path = f"{root}/s"
    with plain.socket(plain.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        queued = sockets.dial(path, 1)
        with pytest.raises(TimeoutError, match=r"no answer within 0\.05s"):
            sockets.dial(path, 0.05)
        dialled: list[object] = []
        dialling = greenlets.spawn("dial", lambda: dialled.append(sockets.dial(path, 5)))
        gevent.sleep(0.03)
        assert not dialled
        taken = [listener.accept()[0]]
        dialling.join(5)
        taken.append(listener.accept()[0])
        for sock in (*taken, queued, *dialled):
            sock.close()  # type: ignore[attr-defined]
        assert len(dialled) == 1


def test_an_outer_timeout_leaves_nothing_open(root: Path) -> None:
    path = f"{root}/s"
    with plain.socket(plain.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        queued = sockets.dial(path, 1)
        with pytest.raises(gevent.Timeout), gevent.Timeout(0.02):
            sockets.dial(path, 5)
        queued.close()


def test_a_stranger_is_never_spoken_to(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "uid", lambda _: os.geteuid() + 1)
    with sockets.bind(f"{root}/s"), pytest.raises(peer.Stranger):
        sockets.dial(f"{root}/s", 1)
