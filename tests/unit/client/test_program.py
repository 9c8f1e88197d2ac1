"""A program's standard streams as a connection, and what is left of the program afterwards."""

import os
import signal
import sys
from typing import Any

import gevent
import pytest

from craze.client import Client, ConnectionLost, Limits, Program
from tests.unit.client.stub import Stub

FAST = Limits(redial_first=0.001, redial_max=0.002, gate_first=0.001, gate_max=0.002)

# What `craze bridge` is, in a few lines: bytes both ways, the end of either carried over.
RELAY = """
import os, socket, sys, threading
sock = socket.socket(socket.AF_UNIX); sock.connect(sys.argv[1])
def inward():
    while data := os.read(0, 65536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
threading.Thread(target=inward, daemon=True).start()
while data := sock.recv(65536):
    os.write(1, data)
os._exit(0)
"""


def run(code: str, *args: str) -> Program:
    return Program([sys.executable, "-c", code, *args])


def gone(program: Program) -> bool:
    try:
        os.kill(program.pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_bytes_both_ways_past_what_a_pipe_holds() -> None:
    program = run("import os, sys\nwhile d := os.read(0, 65536): os.write(1, d)")
    data = os.urandom(1_000_000)
    try:
        writer = gevent.spawn(program.sendall, data)
        echoed = b""
        while len(echoed) < len(data):
            piece = program.recv(65536)
            assert piece
            echoed += piece
        writer.join()
        assert echoed == data
    finally:
        program.close()
    assert gone(program)
    program.close()


def test_a_program_that_ends_is_an_end() -> None:
    program = Program(["/bin/sh", "-c", "printf bye"])
    try:
        assert program.recv(100) == b"bye"
        assert program.recv(100) == b""
        with pytest.raises(BrokenPipeError):
            while True:  # its other stream closes a moment later
                program.sendall(b"x")
                gevent.sleep(0.001)
    finally:
        program.close()
    assert gone(program)


def test_a_program_that_will_not_leave_is_made_to() -> None:
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(1, flush=True)"
    )
    program = run(code + "\nwhile True: time.sleep(9)")
    program.recv(10)
    with gevent.Timeout(0.05, False):  # an outer timeout only hurries it
        program.close()
    assert gone(program)


def test_a_program_that_does_not_exist() -> None:
    with pytest.raises(FileNotFoundError):
        Program(["/nowhere/at/all"])


def test_a_client_over_a_program_redials_with_a_new_one(stub: Stub) -> None:
    started: list[Program] = []

    def dial() -> Program:
        started.append(run(RELAY, stub.path))
        return started[-1]

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.expect("session.cancel")
        os.kill(started[0].pid, 9)
        assert peer.ended()
        again = stub.accept()
        again.hello()
        again.reply(again.expect("session.cancel"), {"outcome": "requested"})

    stub.script(script)
    with Client(dial, session="one", limits=FAST) as client:
        assert client.command("session.cancel") == {"outcome": "requested"}
    assert len(started) == 2
    assert all(map(gone, started))


def test_one_program_cannot_be_dialled_again(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.close()

    stub.script(script)
    program = run(RELAY, stub.path)
    with (
        Client(program, session="one", limits=FAST) as client,
        pytest.raises(ConnectionLost, match="one stream"),
    ):
        client.request("session.models.refresh")
    assert gone(program)


def test_what_a_program_started_goes_with_it() -> None:
    program = Program(["/bin/sh", "-c", "sleep 100 & echo $!; wait"])
    child = int(program.recv(100))
    program.close()
    for _ in range(200):  # its new parent may take a moment to reap it
        try:
            with open(f"/proc/{child}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return
        gevent.sleep(0.01)
    pytest.fail("it lives on")


def test_its_group_is_signalled_only_while_its_number_is_its_own(mocker: Any) -> None:
    signalled = []

    def kill(group: int, number: int) -> None:
        # Fails for a process that is reaped, whose number may be another's by now.
        os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        signalled.append(number)
        killpg(group, number)

    killpg = os.killpg
    mocker.patch("os.killpg", kill)
    Program(["cat"]).close()
    assert signalled == [signal.SIGTERM, signal.SIGKILL]
