import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from craze.machine import peer

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

DIAL = """
import os, socket, sys
os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.sendall(b"x")
sock.recv(1)
"""


def test_ourselves() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer.uid(one) == os.geteuid()
        peer.check(one)


def test_a_failed_look_up_refuses() -> None:
    with socket.socket() as sock, pytest.raises(peer.Stranger):
        peer.check(sock)


@AS_ROOT
def test_b33_a_foreign_uid_is_refused_though_we_are_root(root: Path) -> None:
    root.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{root}/s")
        os.chmod(f"{root}/s", 0o666)
        listener.listen()
        child = subprocess.Popen([sys.executable, "-c", DIAL, f"{root}/s"])
        accepted, _ = listener.accept()
        with accepted, pytest.raises(peer.Stranger) as stranger:
            peer.check(accepted)
        child.wait()
    assert str(stranger.value) == "its peer runs as uid 65534, not as uid 0"
