"""What every way to a machine must do. An implementation's tests subclass `ReachSuite` and give it
a fixture `machine`; each command is both an sh line and, for a machine that is played, a function.
"""

import contextlib
import os
import socket as names
from collections.abc import Callable

import gevent
import pytest
from gevent import socket

from craze_shed.reach import Reach, ReachError, Running
from craze_shed.reach.scripted import Peer

PATIENCE = 30.0  # for what must happen; a test that passes never waits for it
MIB = 1024 * 1024
PLAYS: dict[str, Callable[[Peer], int | None]] = {}


def play(line: str, peer: Peer) -> int | None:
    """The player of a scripted machine that the suite is tried on."""
    return PLAYS[line](peer)


def command(line: str) -> Callable[[Callable[[Peer], int | None]], str]:
    """Register how a scripted machine plays an sh line; the line."""

    def register(player: Callable[[Peer], int | None]) -> str:
        PLAYS[line] = player
        return line

    return register


@command("cat")
def CAT(peer: Peer) -> int:
    while data := peer.recv(65536):
        peer.sendall(data)
    return 0


@command("echo out; echo err >&2; exit 7")
def SPEAKS(peer: Peer) -> int:
    peer.say(b"err\n")
    peer.sendall(b"out\n")
    return 7


@command(":")
def NOTHING(peer: Peer) -> int:
    return 0


@command("exit 127")
def NOT_FOUND(peer: Peer) -> int:
    return 127


@command("printf 'one\\ntwo\\nha'; cat; printf 'lf'; exit 3")
def HALF_LINES(peer: Peer) -> int:
    peer.sendall(b"one\ntwo\nha")
    while peer.recv(100):
        pass
    peer.sendall(b"lf")
    return 3


@command("echo up; sleep 600")
def CLOGGED(peer: Peer) -> int:
    peer.sendall(b"up\n")
    gevent.sleep(600)
    return 0


@command(f"head -c {8 * MIB} /dev/zero | tr '\\0' x >&2; echo done; echo end >&2; exit 4")
def FLOOD(peer: Peer) -> int:
    for _ in range(128):
        peer.say(b"x" * 65536)
        gevent.sleep(0)
    peer.sendall(b"done\n")
    peer.say(b"end\n")
    return 4


@command(f"head -c {8 * MIB} /dev/zero | tr '\\0' y")
def TORRENT(peer: Peer) -> int:
    for _ in range(128):
        peer.sendall(b"y" * 65536)
    return 0


@command("trap '' TERM HUP PIPE; echo up; while :; do sleep 1; done")
def STUBBORN(peer: Peer) -> int:
    peer.sendall(b"up\n")
    while True:
        gevent.sleep(1)


@command("sleep 600 >/dev/null </dev/null & echo left")
def LEAVES_STDERR_OPEN(peer: Peer) -> int:
    peer.sendall(b"left\n")
    return 0


def all_of(running: Running) -> bytes:
    data = b""
    while more := running.recv(65536):
        data += more
    return data


def line_of(running: Running) -> bytes:
    """Read up to the end of a line."""
    data = b""
    while not data.endswith(b"\n"):
        more = running.recv(1)
        assert more, data
        data += more
    return data


class ReachSuite:
    """The suite. `machine` is a fresh way to a machine, closed by the fixture after the test."""

    @pytest.fixture(autouse=True)
    def _nothing_hangs(self):
        with gevent.Timeout(PATIENCE * 2, AssertionError("it hangs")):
            yield

    def test_what_it_is_given_and_what_it_says(self, machine: Reach) -> None:
        with machine.run(CAT) as running:
            running.sendall(b"hello\n")
            assert line_of(running) == b"hello\n"
            running.sendall(b"more")
            running.half_close()
            running.half_close()
            assert all_of(running) == b"more"
            assert running.recv(1) == b""
            assert running.exit(PATIENCE) == 0

    def test_its_streams_and_its_exit_code(self, machine: Reach) -> None:
        with machine.run(SPEAKS) as running:
            assert all_of(running) == b"out\n"
            assert running.exit(PATIENCE) == 7
            assert running.stderr == b"err\n"
            assert running.exit(0) == 7

    def test_the_exit_code_of_what_is_not_there(self, machine: Reach) -> None:
        with machine.run(NOT_FOUND) as running:
            assert all_of(running) == b""
            assert running.exit(PATIENCE) == 127

    def test_b40_it_says_nothing_of_its_own(self, machine: Reach) -> None:
        with machine.run(NOTHING) as running:
            running.half_close()
            assert all_of(running) == b""
            assert running.exit(PATIENCE) == 0
            assert running.stderr == b""

    def test_half_lines_pass_as_they_come(self, machine: Reach) -> None:
        with machine.run(HALF_LINES) as running:
            data = b""
            while not data.endswith(b"ha"):
                data += running.recv(100)
            assert data == b"one\ntwo\nha"
            running.half_close()
            assert all_of(running) == b"lf"
            assert running.exit(PATIENCE) == 3

    def test_a_small_read_takes_no_more(self, machine: Reach) -> None:
        with machine.run(CAT) as running:
            running.sendall(b"abcdef")
            assert running.recv(2) == b"ab"
            rest = running.recv(100)
            while len(rest) < 4:
                rest += running.recv(100)
            assert rest == b"cdef"

    def test_b48_a_flood_on_stderr_holds_nothing_up(self, machine: Reach) -> None:
        with machine.run(FLOOD) as running:
            assert all_of(running) == b"done\n"
            assert running.exit(PATIENCE) == 4
            assert running.stderr == b"x" * 4092 + b"end\n"

    def test_much_output_arrives_whole(self, machine: Reach) -> None:
        with machine.run(TORRENT) as running:
            assert all_of(running) == b"y" * (8 * MIB)
            assert running.exit(PATIENCE) == 0

    def test_much_goes_both_ways(self, machine: Reach) -> None:
        with machine.run(CAT) as running:
            got: list[bytes] = []
            reader = gevent.spawn(lambda: got.append(all_of(running)))
            running.sendall(b"z" * (4 * MIB))
            running.half_close()
            reader.get()
            assert got[0] == b"z" * (4 * MIB)

    def test_a_clogged_stream_holds_up_nobody_else(self, machine: Reach) -> None:
        with machine.run(CLOGGED) as clogged, machine.run(CAT) as other:
            assert line_of(clogged) == b"up\n"
            writer = gevent.spawn(clogged.sendall, b"x" * (16 * MIB))
            other.sendall(b"hello\n")
            assert line_of(other) == b"hello\n"
            assert not writer.ready()
            assert clogged.exit(0) is None
            clogged.close()
            with pytest.raises(ReachError):
                writer.get()
            other.sendall(b"still\n")
            assert line_of(other) == b"still\n"

    def test_unread_output_holds_up_nobody_else(self, machine: Reach) -> None:
        with machine.run(TORRENT), machine.run(CAT) as other:
            other.sendall(b"hello\n")
            assert line_of(other) == b"hello\n"

    def test_writing_to_what_has_ended_fails(self, machine: Reach) -> None:
        with machine.run(NOTHING) as running:
            assert running.exit(PATIENCE) == 0
            with pytest.raises(ReachError):
                while True:
                    running.sendall(b"x" * 65536)

    def test_close_wakes_who_reads_and_who_writes(self, machine: Reach) -> None:
        running = machine.run(CLOGGED)
        assert line_of(running) == b"up\n"
        reader = gevent.spawn(running.recv, 1)
        writer = gevent.spawn(running.sendall, b"x" * (16 * MIB))
        gevent.sleep(0.05)
        assert not reader.ready() and not writer.ready()
        running.close()
        running.close()
        assert reader.get() == b""
        with pytest.raises(ReachError):
            writer.get()
        assert running.recv(1) == b""
        with pytest.raises(ReachError):
            running.sendall(b"x")
        assert "closed" in repr(running)

    def test_what_does_not_want_to_end_is_closed_all_the_same(self, machine: Reach) -> None:
        running = machine.run(STUBBORN)
        assert line_of(running) == b"up\n"
        running.close()
        assert running.recv(1) == b""

    def test_b57_a_timeout_leaves_no_close_half_done(self, machine: Reach) -> None:
        running = machine.run(STUBBORN)
        assert line_of(running) == b"up\n"
        with contextlib.suppress(gevent.Timeout), gevent.Timeout(0):
            running.close()
        running.close()
        assert running.recv(1) == b""

    def test_b36_a_stderr_that_stays_open_holds_up_no_close(self, machine: Reach) -> None:
        running = machine.run(LEAVES_STDERR_OPEN)
        assert line_of(running) == b"left\n"
        running.close()

    def test_many_at_once(self, machine: Reach) -> None:
        many = [machine.run(CAT) for _ in range(6)]
        for number, running in enumerate(many):
            running.sendall(b"%d\n" % number)
        assert [line_of(running) for running in many] == [b"%d\n" % n for n in range(6)]
        many[0].close()
        many[1].sendall(b"again\n")
        assert line_of(many[1]) == b"again\n"
        for running in many:
            running.close()

    def test_nothing_starts_while_all_is_closed(self, machine: Reach) -> None:
        with machine.run(CAT):  # a connection is there
            starting = [gevent.spawn(machine.run, CAT) for _ in range(3)]
            gevent.sleep(0)
            closing = gevent.spawn(machine.close)
            gevent.sleep(0)
            with pytest.raises(ReachError, match="closed"):
                machine.run(CAT)
            closing.get()
            assert not machine._running
            for one in starting:
                one.join()  # started and closed, or refused
        assert not machine._running

    def test_a_way_is_closed_with_all_that_runs(self, machine: Reach) -> None:
        running = machine.run(CAT)
        reader = gevent.spawn(running.recv, 1)
        gevent.sleep(0.05)
        machine.close()
        machine.close()
        assert reader.get() == b""
        with pytest.raises(ReachError, match="closed"):
            machine.run(CAT)
        with pytest.raises(ReachError, match="closed"):
            machine.forward(1)
        assert repr(machine).endswith("closed>")

    def test_it_has_a_label(self, machine: Reach) -> None:
        assert machine.label
        assert machine.label in repr(machine)


class ForwardSuite:
    """What every way to another machine must do with its ports. `echoing` is a port there at which
    bytes come back until their end, and `refusing` one at which nothing listens."""

    @pytest.fixture(autouse=True)
    def _nothing_hangs(self):
        with gevent.Timeout(PATIENCE * 2, AssertionError("it hangs")):
            yield

    def test_bytes_go_both_ways_to_the_end(self, machine: Reach, echoing: int) -> None:
        with machine.forward(echoing) as share, dialled(share.port) as sock:
            assert share.port != echoing
            sock.sendall(b"hello")
            assert sock.recv(5) == b"hello"
            reader = gevent.spawn(received, sock)
            sock.sendall(b"x" * MIB)
            sock.shutdown(names.SHUT_WR)
            assert reader.get() == b"x" * MIB

    def test_a_forward_is_shared_and_ends_with_its_last_share(
        self, machine: Reach, echoing: int
    ) -> None:
        first, second = machine.forward(echoing), machine.forward(echoing)
        assert first.port == second.port
        with dialled(first.port) as sock:
            sock.sendall(b"a")
            assert sock.recv(1) == b"a"
            first.release()
            first.release()
            assert repr(first).endswith("released>")
            sock.sendall(b"b")
            assert sock.recv(1) == b"b"
            second.release()
            assert sock.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            dialled(first.port)
        with machine.forward(echoing) as again, dialled(again.port) as sock:
            sock.sendall(b"c")
            assert sock.recv(1) == b"c"

    def test_many_connections_at_once(self, machine: Reach, echoing: int) -> None:
        with machine.forward(echoing) as share:
            socks = [dialled(share.port) for _ in range(8)]
            for number, sock in enumerate(socks):
                sock.sendall(b"%d" % number)
            assert [sock.recv(1) for sock in socks] == [b"%d" % n for n in range(8)]
            for sock in socks:
                sock.close()

    def test_a_port_where_nothing_listens(self, machine: Reach, refusing: int) -> None:
        with machine.forward(refusing) as share, dialled(share.port) as sock:
            assert sock.recv(1) == b""

    def test_forwards_end_with_the_way(self, machine: Reach, echoing: int) -> None:
        share = machine.forward(echoing)
        with dialled(share.port) as sock:
            sock.sendall(b"a")
            assert sock.recv(1) == b"a"
            machine.close()
            assert sock.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            dialled(share.port)
        share.release()


def dialled(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def received(sock: socket.socket) -> bytes:
    data = b""
    while more := sock.recv(65536):
        data += more
    return data


class Echoing:
    """A server on a loopback port that gives back what it gets, to the end."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self.port: int = self._listener.getsockname()[1]
        self._work = [gevent.spawn(self._accept)]

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            self._work.append(gevent.spawn(self._echo, sock))

    @staticmethod
    def _echo(sock: socket.socket) -> None:
        with sock:
            try:
                while data := sock.recv(65536):
                    sock.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        gevent.killall(self._work)
        self._listener.close()


def unused_port() -> int:
    with names.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def children() -> set[str]:
    """This process's children, ended ones that nobody reaped included."""
    with open(f"/proc/self/task/{os.getpid()}/children") as listed:
        return set(listed.read().split())


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
