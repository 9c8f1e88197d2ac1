"""Bytes both ways, whatever stdin and stdout are, and every way it can end."""

import contextlib
import fcntl
import os
import pty
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.machine import registry

from .conftest import HOST

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
MIB = 1024 * 1024
WAIT = 20

Start = Callable[..., "subprocess.Popen[bytes]"]


class Served:
    """The host's end of one bridge, on a plain blocking socket."""

    def __init__(self, listing: registry.Listing) -> None:
        self._listener = socket.socket(fileno=os.dup(listing.listener.fileno()))
        self._listener.settimeout(WAIT)
        self.sock: socket.socket

    def accept(self) -> socket.socket:
        self.sock, _ = self._listener.accept()
        self.sock.settimeout(WAIT)
        return self.sock

    def close(self) -> None:
        self._listener.close()
        if hasattr(self, "sock"):
            self.sock.close()


@pytest.fixture
def served(listed: Callable[..., registry.Listing]) -> Any:
    served = Served(listed(HOST, "s-1"))
    yield served
    served.close()


def take(stream: Any, size: int) -> bytes:
    """Exactly `size` bytes of a socket or descriptor."""
    parts = []
    while size:
        part = os.read(stream, size) if isinstance(stream, int) else stream.recv(size)
        assert part, f"{size} bytes short"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@contextlib.contextmanager
def sending(sock: socket.socket, data: bytes) -> Iterator[None]:
    """Send more than buffers hold while the block reads it at the other end."""
    thread = threading.Thread(target=sock.sendall, args=(data,))
    thread.start()
    yield
    thread.join()


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Its exit code and its stderr, without touching its other streams."""
    code = process.wait(WAIT)
    assert process.stderr is not None
    return code, process.stderr.read().decode()


def nonblocking(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)


# ---- the ordinary course ----


def test_b68_bytes_pass_both_ways_unchanged(served: Served, bridge: Start) -> None:
    process = bridge()
    host = served.accept()
    blob = random.Random(1).randbytes(300_000) + "é🎉\n".encode() * 1000
    for at in range(64):
        os.write(process.stdin.fileno(), blob[at : at + 1])
        assert take(host, 1) == blob[at : at + 1]
    assert process.stdin.write(blob) == len(blob)
    process.stdin.flush()
    assert take(host, len(blob)) == blob
    with sending(host, blob):
        assert take(process.stdout.fileno(), len(blob)) == blob
    host.close()
    assert ended(process) == (0, "")


def test_the_hosts_end_ends_it_whatever_stdin_does(served: Served, bridge: Start) -> None:
    process = bridge("--session", HOST)
    host = served.accept()
    host.sendall(b"last words\n")
    host.close()
    assert ended(process) == (0, "")
    assert process.stdout.read() == b"last words\n"


def test_stdins_end_is_a_half_close_and_answers_still_come(served: Served, bridge: Start) -> None:
    process = bridge("--session=s-1")
    host = served.accept()
    process.stdin.write(b"question, without a newline")
    process.stdin.close()
    assert take(host, 27) == b"question, without a newline"
    assert host.recv(1) == b""
    time.sleep(1.2)  # past the first looks at stdout
    host.sendall(b"answer\n")
    assert take(process.stdout.fileno(), 7) == b"answer\n"
    assert process.poll() is None
    host.close()
    assert ended(process) == (0, "")


def test_the_hosts_half_close_ends_it_as_its_close_does(served: Served, bridge: Start) -> None:
    process = bridge()
    host = served.accept()
    host.shutdown(socket.SHUT_WR)
    assert ended(process) == (0, "")


# ---- what stdin and stdout are ----


@pytest.mark.parametrize("given", [False, True], ids=["blocking", "made-nonblocking-by-others"])
@pytest.mark.parametrize("kind", ["pipes", "socketpair", "tcp"])
def test_b54_a_slow_reader_of_a_long_line(
    served: Served, bridge: Start, kind: str, given: bool
) -> None:
    with contextlib.ExitStack() as stack:
        if kind == "pipes":
            theirs_in, ours_in = os.pipe()
            ours_out, theirs_out = os.pipe()
        else:
            if kind == "tcp":
                listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                ours = socket.create_connection(listener.getsockname())
                theirs, _ = listener.accept()
            else:
                ours, theirs = socket.socketpair()
            theirs_in, theirs_out = os.dup(theirs.fileno()), theirs.detach()
            ours_in, ours_out = os.dup(ours.fileno()), ours.detach()
        for fd in (theirs_in, theirs_out, ours_in, ours_out):
            stack.callback(os.close, fd)
        os.set_blocking(theirs_in, not given)
        os.set_blocking(theirs_out, not given)
        process = bridge(stdin=theirs_in, stdout=theirs_out)
        host = served.accept()
        line = b"x" * (16 * MIB) + b"\n"
        with sending(host, line):
            # Nobody reads yet, and still what is typed reaches the host.
            for number in range(3):
                os.write(ours_in, b"typed %d\n" % number)
                assert take(host, 8) == b"typed %d\n" % number
            got = 0
            while got < len(line):
                part = os.read(ours_out, 1 * MIB)
                assert part
                got += len(part)
                if got < 64 * 1024:
                    time.sleep(0.005)
        assert nonblocking(theirs_in) == nonblocking(theirs_out) == given
        host.shutdown(socket.SHUT_RDWR)
        assert ended(process) == (0, "")
        assert nonblocking(theirs_in) == nonblocking(theirs_out) == given


@pytest.mark.parametrize("out", ["file", "null"])
def test_files_as_stdin_and_stdout(served: Served, bridge: Start, out: str) -> None:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(b"q" * 200_000)
        source.seek(0)
        process = bridge(stdin=source, stdout=target if out == "file" else subprocess.DEVNULL)
        host = served.accept()
        assert take(host, 200_000) == b"q" * 200_000
        assert host.recv(1) == b""
        with sending(host, b"a" * 200_000):
            pass
        host.close()
        assert ended(process) == (0, "")
        target.seek(0)
        assert target.read() == (b"a" * 200_000 if out == "file" else b"")


def test_b54_a_terminal_stays_as_it_was_and_may_be_stopped(served: Served, bridge: Start) -> None:
    leader, terminal = pty.openpty()
    try:
        before = fcntl.fcntl(terminal, fcntl.F_GETFL)
        process = bridge(stdin=terminal, stdout=terminal)
        host = served.accept()
        os.write(leader, b"typed\n")
        assert take(host, 6) == b"typed\n"
        assert fcntl.fcntl(terminal, fcntl.F_GETFL) == before
        # Far more than a terminal holds, read by nobody: typing still gets through.
        host.sendall(b"y" * 100_000)
        os.write(leader, b"again\n")
        assert take(host, 6) == b"again\n"
        shown = 0
        while shown < 100_000:
            shown += os.read(leader, 65536).count(b"y")
        host.close()
        assert ended(process) == (0, "")
        assert fcntl.fcntl(terminal, fcntl.F_GETFL) == before
    finally:
        os.close(leader)
        os.close(terminal)


# ---- how it breaks ----


def test_b23_a_reader_that_is_gone_is_noticed_at_the_next_write(
    served: Served, bridge: Start
) -> None:
    process = bridge()
    host = served.accept()
    process.stdout.close()
    host.sendall(b"x")
    assert ended(process) == (1, "craze bridge: write stdout: broken pipe\n")


@pytest.mark.parametrize("kind", ["pipes", "socketpair"])
def test_b23_a_client_that_is_gone_is_noticed_though_the_host_is_quiet(
    served: Served, bridge: Start, kind: str
) -> None:
    if kind == "pipes":
        process = bridge()
        served.accept()
        process.stdin.close()
        process.stdout.close()
    else:
        ours, theirs = socket.socketpair()
        with theirs:
            process = bridge(stdin=theirs, stdout=theirs)
        served.accept()
        ours.close()
    assert ended(process) == (1, "craze bridge: its reader went away (stdout closed)\n")


def test_b23_a_reader_that_goes_after_stdins_end(served: Served, bridge: Start) -> None:
    process = bridge()
    host = served.accept()
    process.stdin.close()
    assert host.recv(1) == b""
    host.sendall(b"x")
    assert take(process.stdout.fileno(), 1) == b"x"
    process.stdout.close()
    assert ended(process) == (1, "craze bridge: its reader went away (stdout closed)\n")


def test_a_host_that_is_killed(served: Served, bridge: Start) -> None:
    process = bridge()
    host = served.accept()
    process.stdin.write(b"unread")
    process.stdin.flush()
    while not host.recv(1, socket.MSG_PEEK):
        pass
    host.close()  # with bytes unread: a reset, as when its process is killed
    line = "craze bridge: read the session socket: connection reset by peer\n"
    assert ended(process) == (1, line)


def test_a_host_that_reads_no_more(served: Served, bridge: Start) -> None:
    process = bridge()
    host = served.accept()
    host.sendall(b"first")
    assert take(process.stdout.fileno(), 5) == b"first"
    host.shutdown(socket.SHUT_RD)
    process.stdin.write(b"x")
    process.stdin.flush()
    assert ended(process) == (1, "craze bridge: write to the session socket: broken pipe\n")


def test_what_a_host_said_before_it_went_is_not_lost_to_a_write_that_failed(
    served: Served, bridge: Start
) -> None:
    process = bridge()
    host = served.accept()
    process.send_signal(signal.SIGSTOP)
    host.sendall(b"z" * 150_000)
    host.close()
    process.stdin.write(b"too late")
    process.stdin.flush()
    process.send_signal(signal.SIGCONT)
    assert process.stdout.read() == b"z" * 150_000
    assert ended(process) == (0, "")


def test_stdin_that_cannot_be_read(served: Served, bridge: Start) -> None:
    with open("/proc/self/mem", "rb") as unreadable:
        process = bridge(stdin=unreadable)
        assert ended(process) == (1, "craze bridge: read stdin: input/output error\n")


@pytest.mark.parametrize(
    ("closed", "line"),
    [(0, "read stdin: bad file descriptor"), (1, "write stdout: bad file descriptor")],
)
def test_a_closed_stdin_or_stdout_is_no_place_for_the_socket(
    served: Served, bridge: Start, closed: int, line: str
) -> None:
    process = bridge(preexec_fn=lambda: os.close(closed))
    host = served.accept()
    if closed == 1:
        host.sendall(b"x")
    assert ended(process) == (1, f"craze bridge: {line}\n")


def test_a_closed_stderr_is_no_matter(served: Served, bridge: Start) -> None:
    process = bridge("--session=nope", preexec_fn=lambda: os.close(2))
    assert ended(process) == (1, "")


def test_an_interrupt_ends_it_without_a_word(served: Served, bridge: Start) -> None:
    process = bridge()
    served.accept().sendall(b"x")
    assert take(process.stdout.fileno(), 1) == b"x"
    process.send_signal(signal.SIGINT)
    assert ended(process) == (-signal.SIGINT, "")


STRANGER = """
import os, socket, sys
os.setuid(65534)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
listener.listen()
print("listening", flush=True)
sock, _ = listener.accept()
print(repr(sock.recv(1)), flush=True)
"""


@AS_ROOT
def test_b33_not_a_byte_is_written_to_a_stranger(
    listed: Callable[..., registry.Listing], bridge: Start
) -> None:
    listing = listed(HOST, "s-1")
    with tempfile.TemporaryDirectory(prefix="craze-", dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        command = [sys.executable, "-c", STRANGER, f"{folder}/s"]
        stranger = subprocess.Popen(command, stdout=subprocess.PIPE)
        with stranger.stdout as out:
            assert out.readline() == b"listening\n"
            listing.update(socket=f"{folder}/s")
            process = bridge()
            process.stdin.write(b"secret")
            process.stdin.close()
            line = "session s-1 is unreachable: its peer runs as uid 65534, not as uid 0"
            assert ended(process) == (1, f"craze bridge: {line}\n")
            assert out.readline() == b"b''\n"
        stranger.wait()
    assert process.stdout.read() == b""


# ---- what it costs ----

HEAVY = ("typer", "click", "rich", "ujson", "hashlib", "_hashlib", "uuid", "tempfile", "secrets",
         "dataclasses", "inspect", "subprocess", "ctypes", "ssl", "random")  # fmt: skip

LOADED = """
import sys
before = set(sys.modules)
import craze.__main__
sys.argv = ["craze", "bridge"]
try:
    craze.__main__.main()
finally:
    loaded = set(sys.modules) - before
    print(*sorted(loaded), file=sys.stderr)
"""


@pytest.mark.parametrize("out", [subprocess.PIPE, subprocess.DEVNULL])
def test_a_bridge_loads_nothing_heavy(served: Served, environ: dict[str, str], out: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LOADED], env=environ, stdin=subprocess.DEVNULL,
        stdout=out, stderr=subprocess.PIPE,
    )  # fmt: skip
    served.accept().sendall(b"x")
    served.sock.close()
    _, err = process.communicate()
    loaded = err.decode().split()
    assert process.returncode == 0
    assert "gevent.socket" in loaded and "setproctitle" in loaded
    assert [name for name in loaded if name in HEAVY] == []
    ours = {name.split(".")[1] for name in loaded if name.startswith("craze.")}
    entry = {"__main__", "bridge", "cli", "terminal"}
    assert ours == entry | {"clock", "greenlets", "machine", "wire"}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_bridge_stays_small(served: Served, bridge: Start) -> None:
    process = bridge()
    host = served.accept()
    with sending(host, b"x" * 4 * MIB):
        take(process.stdout.fileno(), 4 * MIB)
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert int(status.split("VmRSS:")[1].split()[0]) <= 20 * 1024
    host.close()
    assert ended(process) == (0, "")
