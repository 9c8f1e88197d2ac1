"""What no peer may do to a host or a bridge: fill its memory, stall it, or end it."""

import contextlib
import io
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

MIB = 1 << 20
GIB = 1 << 30
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocols":[1],"client":{"kind":"t"}}}\n'
)
ATTACH = (
    b'{"jsonrpc":"2.0","id":2,"method":"session.attach","params":{"sessionId":"session-fake-1"}}\n'
)
# A host's own bounds above what it takes at rest: one inbound line, the writer's queue, a
# subscription's budget, the ring, and what Python needs to move them.
HOST_CEILING = 160 * MIB
BRIDGE_CEILING = 40 * MIB


class FakeHost:
    """A craze-fake-host process."""

    def __init__(self, *where: str, environ: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "craze.fakes.host", "--ack", *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
        )
        self.path = self.read()["socket"]

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def op(self, **op: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(op).encode() + b"\n")
        self.process.stdin.flush()
        self.read()

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(self.path)
        return sock

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    made = FakeHost("--socket", str(tmp_path / "host.sock"))
    yield made
    made.close()


def peak(pid: int) -> int:
    """The most memory the process ever had resident, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def lines(sock: socket.socket) -> Iterator[dict[str, Any]]:
    buffer = bytearray()
    while data := sock.recv(1 << 20):
        buffer += data
        while (end := buffer.find(b"\n")) >= 0:
            yield json.loads(bytes(buffer[:end]))
            del buffer[: end + 1]


def test_b65_a_host_answers_a_gibibyte_without_a_newline(host: FakeHost) -> None:
    with host.connect() as sock:
        chunk = b"x" * MIB
        for _ in range(GIB // MIB):
            sock.sendall(chunk)
        sock.sendall(b"\n" + HELLO)
        answers = lines(sock)
        refused = next(answers)["error"]
        assert isinstance(refused, dict)
        assert refused["data"] == {"code": "bad_request", "reason": "line_too_long"}
        assert "result" in next(answers)
    assert peak(host.process.pid) < HOST_CEILING


def test_b66_b68_a_host_reads_a_line_a_byte_at_a_time(host: FakeHost) -> None:
    with host.connect() as sock:
        title = "naïve 日本 👩‍👩‍👧 e\u0301".encode()
        rename = (
            b'{"jsonrpc":"2.0","id":2,"method":"session.setTitle","params":'
            b'{"sessionId":"session-fake-1","commandId":"1","title":"%b"}}\n' % title
        )
        read = b'{"jsonrpc":"2.0","id":3,"method":"sessions.list"}\n'
        for byte in HELLO + rename + read:
            sock.send(bytes([byte]))
        answers = lines(sock)
        next(answers)
        assert next(answers)["result"] == {}
        row = next(answers)["result"]["sessions"][0]
        assert row["title"] == title.decode()


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":2,"method":"session.state","params":{"sessionId":"session-fake-1"}}\n',
        '{"jsonrpc":"2.0","id":2,"method":"no.such"}\n',
        "\n",
        "no newline",
    ],
    ids=["requests", "refusals", "blank lines", "no line"],
)
def test_a_peer_that_never_stops_talking_keeps_nobody_else_waiting(
    host: FakeHost, line: str
) -> None:
    flood = subprocess.Popen(
        [sys.executable, "-c", _FLOOD, host.path, line], stdout=subprocess.PIPE
    )
    assert flood.stdout is not None
    try:
        assert flood.stdout.readline() == b"full\n"
        for _ in range(10):
            with host.connect() as sock:
                sock.sendall(HELLO)
                assert "result" in next(lines(sock))
    finally:
        flood.kill()
        flood.wait()
        flood.stdout.close()


# Says the same line for ever, and takes what is said to it. It has told that the socket is full.
_FLOOD = """
import os, socket, sys, threading
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"hello","params":'
             b'{"protocols":[1],"client":{"kind":"t"}}}\\n')
threading.Thread(target=lambda: all(iter(lambda: sock.recv(1 << 20), b"")), daemon=True).start()
said = sys.argv[2].encode() * 1000
sock.sendall(said * 20)
print("full", flush=True)
while True:
    sock.sendall(said)
"""


def test_b76_a_reader_that_stops_costs_bounded_memory_and_disturbs_nobody(host: FakeHost) -> None:
    with host.connect() as stalled, host.connect() as lively:
        stalled.sendall(HELLO + ATTACH)
        lively.sendall(HELLO + ATTACH)
        heard = lines(lively)
        for _ in range(3):
            next(heard)
        for number in range(100):
            host.op(name="text", bytes=MIB)
            event = next(heard)
            assert event["params"]["seq"] == number + 2
        assert peak(host.process.pid) < HOST_CEILING
        said = list(_until_quiet(stalled))
        assert [line.get("method") for line in said[:3]] == [None, None, "synchronized"]
        assert said[-1]["method"] == "reset"
        assert said[-1]["params"]["reason"] == "slow_consumer"
        seqs = [line["params"]["seq"] for line in said[3:-1]]
        assert seqs == list(range(2, 2 + len(seqs)))
        # The connection lives on, and the cursor is still good: what it missed is in reach.
        cursor = {"incarnation": said[1]["result"]["after"]["incarnation"], "seq": seqs[-1]}
        attach = {"sessionId": "session-fake-1", "cursor": cursor}
        request = {"jsonrpc": "2.0", "id": 3, "method": "session.attach", "params": attach}
        stalled.sendall(json.dumps(request).encode() + b"\n")
        reply = next(lines(stalled))["result"]
        assert reply["subscription"] == "s-2"


def _until_quiet(sock: socket.socket) -> Iterator[dict[str, Any]]:
    buffer = bytearray()
    while select.select([sock], [], [], 1)[0]:
        buffer += sock.recv(1 << 20)
        while (end := buffer.find(b"\n")) >= 0:
            yield json.loads(bytes(buffer[:end]))
            del buffer[: end + 1]


def test_b04_a_client_that_slept_catches_up_by_its_cursor(host: FakeHost) -> None:
    sleeper = subprocess.Popen(
        [sys.executable, "-c", _SLEEPER, host.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert sleeper.stdin is not None and sleeper.stdout is not None
    try:
        assert sleeper.stdout.readline() == b"attached\n"
        os.kill(sleeper.pid, signal.SIGSTOP)
        for _ in range(60):
            host.op(name="text", bytes=MIB)
        os.kill(sleeper.pid, signal.SIGCONT)
        sleeper.stdin.close()
        method, seq = sleeper.stdout.read().split()
        assert (method in (b"event", b"reset"), seq) == (True, b"61")
        assert sleeper.wait(30) == 0
    finally:
        sleeper.kill()
        sleeper.wait()
        with contextlib.suppress(OSError):
            sleeper.stdin.close()
        sleeper.stdout.close()


# Attaches, and once its stdin ends reads on. It follows the stream as a client must: each event is
# the next one, but for a reset that brings a snapshot and says where that ends.
_SLEEPER = """
import sys
from craze.client import Client
with Client(sys.argv[1]) as client, client.attach() as notes:
    seq, slept = 1, False
    for note in notes:
        if note.method == "synchronized" and not slept:
            slept = True
            print("attached", flush=True)
            sys.stdin.read()
        if note.method == "event":
            assert note.params["seq"] == seq + 1, note
            seq += 1
        if note.method == "reset":
            seq = note.params["after"]["seq"]
        if seq == 61:
            break
    print(note.method, seq, flush=True)
"""


def test_b65_b76_a_bridge_passes_a_gibibyte_on_in_bounded_memory(tmp_path: Path) -> None:
    runtime = tempfile.mkdtemp(prefix="craze-", dir="/tmp")
    environ = {"HOME": str(tmp_path), "CRAZE_RUNTIME_DIR": runtime, "PATH": os.environ["PATH"]}
    host = FakeHost("--registry", str(tmp_path), environ=environ)
    command = [sys.executable, "-m", "craze", "bridge"]
    bridge = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, bufsize=0
    )
    assert bridge.stdin is not None and bridge.stdout is not None
    try:
        chunk = memoryview(b"x" * MIB)
        for _ in range(GIB // MIB):
            _write(bridge.stdin, chunk)
        _write(bridge.stdin, memoryview(b"\n" + HELLO))
        answers = io.BufferedReader(bridge.stdout)  # type: ignore[type-var]
        refused = json.loads(answers.readline())
        assert refused["error"]["data"]["reason"] == "line_too_long"
        assert "result" in json.loads(answers.readline())
        assert peak(bridge.pid) < BRIDGE_CEILING
        bridge.stdin.close()
        assert bridge.wait(5) == 0
    finally:
        bridge.kill()
        bridge.wait()
        bridge.stdin.close()
        bridge.stdout.close()
        host.close()
        shutil.rmtree(runtime)


def _write(pipe: IO[bytes], data: memoryview) -> None:
    while data:
        data = data[pipe.write(data) :]
