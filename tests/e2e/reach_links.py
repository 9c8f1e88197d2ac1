"""What both ways over ssh must do with a real server, and with one that fails. A test module gives
a fixture `kind`, the class that is tried."""

import contextlib
import socket as names
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

import ladder
from craze_shed.reach import Keepalive, Reach, ReachError, Running, limits
from tests.e2e.sshd import Agent, Blackhole, Sshd, keygen, program
from tests.unit.shed.reach_suite import (
    CAT,
    NOTHING,
    PATIENCE,
    Echoing,
    ForwardSuite,
    ReachSuite,
    all_of,
    children,
    descriptors,
    line_of,
    unused_port,
)

BRISK = Keepalive(interval=1, missed=1)
CONNECT = f"{sys.executable} {Path(__file__).with_name('connect.py')}"
Making = Callable[..., Reach]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name."""
    with tempfile.TemporaryDirectory(prefix="craze-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Sshd]]:
    """Starts servers, with options."""
    started: list[Sshd] = []

    def start(**options: str) -> Sshd:
        place = folder / str(len(started))
        place.mkdir()
        server = Sshd(place, **options)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()
        server.sweep()


@pytest.fixture
def server(serve: Callable[..., Sshd]) -> Sshd:
    return serve()


@pytest.fixture
def make(kind: Any) -> Iterator[Making]:
    """Makes ways to the `box` of a server, with options; closed after the test."""
    made: list[Reach] = []

    def one(server: Sshd, destination: str = "box", **options: Any) -> Reach:
        machine: Reach = kind(destination, config=str(server.config), **options)
        made.append(machine)
        return machine

    yield one
    for machine in made:
        machine.close()


@pytest.fixture
def machine(make: Making, server: Sshd) -> Reach:
    return make(server)


class Streams(ReachSuite):
    """The suite that every way passes."""


class Ports(ForwardSuite):
    """The suite that every way to another machine passes."""

    @pytest.fixture
    def echoing(self) -> Iterator[int]:
        echoing = Echoing()
        yield echoing.port
        echoing.close()

    @pytest.fixture
    def refusing(self) -> int:
        return unused_port()


def echoes(running: Running, words: bytes = b"hello\n") -> bool:
    running.sendall(words)
    return line_of(running) == words


def works(machine: Reach) -> bool:
    with machine.run(CAT) as running:
        return echoes(running)


def failure(machine: Reach) -> str:
    """Why nothing can be run there, as it is told one way or the other."""
    try:
        with machine.run(NOTHING) as running:
            assert all_of(running) == b""
            assert running.exit(PATIENCE) not in (0, 127)
            return running.stderr.decode()
    except ReachError as failure:
        return str(failure)


class Links:
    """Connections, their keys and their failures."""

    @pytest.fixture(autouse=True)
    def _nothing_hangs(self) -> Iterator[None]:
        with gevent.Timeout(PATIENCE * 4, AssertionError("it hangs")):
            yield

    # ---- connections ----

    def test_all_commands_share_one_connection(self, make: Making, server: Sshd) -> None:
        machine = make(server)
        running: list[Running] = []
        starts = [gevent.spawn(lambda: running.append(machine.run(CAT))) for _ in range(6)]
        gevent.joinall(starts, raise_error=True)
        assert all(echoes(one) for one in running)
        assert len(server.sessions()) == 1

    def test_b38_what_the_server_refuses_goes_through_another_connection(
        self, make: Making, serve: Callable[..., Sshd]
    ) -> None:
        server = serve(MaxSessions="4")
        machine = make(server)
        roster = machine.run(CAT)
        assert echoes(roster)
        starts = [gevent.spawn(machine.run, CAT) for _ in range(12)]
        lanes = [start.get() for start in starts]
        for number, lane in enumerate(lanes):
            lane.sendall(b"%d\n" % number)
        for number, lane in enumerate(lanes):
            assert line_of(lane) == b"%d\n" % number
        assert len(server.sessions()) == 4
        assert echoes(roster)
        for lane in lanes:
            lane.close()
        server.until(sessions=1)
        assert echoes(roster)
        assert works(machine)
        assert len(server.sessions()) == 1

    def test_b38_input_that_was_given_before_the_refusal_is_not_lost(
        self, make: Making, serve: Callable[..., Sshd]
    ) -> None:
        machine = make(serve(MaxSessions="1"))
        with machine.run(CAT) as first, machine.run(CAT) as second:
            second.sendall(b"x" * 50_000)
            second.half_close()
            assert all_of(second) == b"x" * 50_000
            assert echoes(first)

    def test_b38_a_server_that_allows_none(self, make: Making, serve: Callable[..., Sshd]) -> None:
        server = serve(MaxSessions="0")
        assert "session" in failure(make(server)).lower()

    def test_a_lost_connection_is_seen_and_the_next_command_makes_another(
        self, make: Making, server: Sshd
    ) -> None:
        machine = make(server)
        with machine.run(CAT) as running:
            assert echoes(running)
            server.drop()
            assert all_of(running) == b""
            assert running.exit(PATIENCE) != 0
        assert works(machine)

    def test_b41_a_link_that_carries_nothing_any_more_is_given_up(
        self, make: Making, server: Sshd
    ) -> None:
        hole = Blackhole(server.port)
        try:
            server.configure(port=hole.port)
            server.known_hosts.write_text(f"[{server.host}]:{hole.port} {server.host_key}\n")
            machine = make(server, keepalive=BRISK)
            assert BRISK.noticed == 2
            idle, busy = machine.run(CAT), machine.run(CAT)
            assert echoes(idle) and echoes(busy)
            gevent.sleep(BRISK.noticed + 0.5)  # quiet is not dead
            assert echoes(idle)
            hole.swallow()
            writer = gevent.spawn(busy.sendall, b"x" * (16 << 20))
            assert idle.recv(1) == b""
            assert busy.recv(1) == b""
            with pytest.raises(ReachError):
                writer.get()
            assert idle.exit(PATIENCE) != 0
            said = idle.stderr.decode()
            assert "not responding" in said or "nothing was heard for 2 s" in said
            assert works(machine)
        finally:
            hole.close()

    def test_b41_closing_does_not_wait_for_a_link_that_is_dead(
        self, make: Making, server: Sshd
    ) -> None:
        hole = Blackhole(server.port)
        try:
            server.configure(port=hole.port)
            server.known_hosts.write_text(f"[{server.host}]:{hole.port} {server.host_key}\n")
            machine = make(server)
            running = machine.run(CAT)
            assert echoes(running)
            hole.swallow()
            writer = gevent.spawn(running.sendall, b"x" * (16 << 20))
            gevent.sleep(0.1)
            running.close()
            machine.close()
            with pytest.raises(ReachError):
                writer.get()
        finally:
            hole.close()

    def test_b49_an_end_of_output_without_an_exit_code(self, machine: Reach) -> None:
        running = machine.run("exec 1>&- 2>&-; sleep 600")
        assert running.exit(0.2) is None
        running.close()
        with machine.run("kill -9 $$") as running:
            assert all_of(running) == b""
            assert running.exit(PATIENCE) in (None, 255)

    def test_two_hundred_redials_leave_nothing(self, make: Making, server: Sshd) -> None:
        machine = make(server)
        assert works(machine)
        before, there = descriptors(), children()
        for _ in range(200):
            with machine.run("exit 3") as running:
                assert running.exit(PATIENCE) == 3
        assert len(server.sessions()) == 1
        for _ in range(10):
            server.drop()
            server.until(sessions=0)
            with contextlib.suppress(ReachError):
                machine.run(NOTHING).close()  # it may not have heard yet
            assert works(machine)
        with gevent.Timeout(PATIENCE):
            while descriptors() > before or len(children()) > len(there):
                gevent.sleep(0.02)

    # ---- logging in ----

    def test_nobody_listens(self, make: Making, server: Sshd) -> None:
        server.configure(port=unused_port())
        assert failure(make(server, label="the box")).startswith("the box: ")
        assert "refused" in failure(make(server))

    def test_a_server_that_says_nothing(
        self, make: Making, server: Sshd, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "LOGIN", 0.5)
        with names.socket() as silent:
            silent.bind((server.host, 0))
            silent.listen()
            server.configure(port=silent.getsockname()[1])
            assert "no connection within 0.5 s" in failure(make(server))

    def test_whoever_waits_for_a_login_that_fails_hears_of_it(
        self, make: Making, server: Sshd
    ) -> None:
        server.authorize(keygen(server.folder / "another"))
        machine = make(server)
        texts = [gevent.spawn(failure, machine) for _ in range(4)]
        gevent.joinall(texts, raise_error=True)
        assert len({text.get() for text in texts}) == 1

    def test_b57_a_timeout_in_a_login_leaves_it_to_the_next(
        self, make: Making, server: Sshd
    ) -> None:
        machine = make(server)
        with pytest.raises(gevent.Timeout), gevent.Timeout(0.001):
            machine.run(CAT)
        assert works(machine)
        assert len(server.sessions()) == 1

    def test_b57_closing_ends_a_login(self, make: Making, server: Sshd) -> None:
        machine = make(server)
        login = gevent.spawn(failure, machine)
        gevent.sleep(0.01)
        machine.close()
        assert "closed" in login.get()
        server.until(sessions=0)

    @pytest.mark.parametrize("destination", ["-oProxyCommand=touch /tmp/x", "-", ""])
    def test_what_is_no_destination(self, make: Making, server: Sshd, destination: str) -> None:
        with pytest.raises(ReachError, match="not a destination for ssh"):
            make(server, destination)

    def test_a_key_that_is_not_let_in(self, make: Making, server: Sshd) -> None:
        server.authorize(keygen(server.folder / "another"))
        text = failure(make(server))
        assert text.startswith("box: ")
        assert "publickey" in text or "took none of 1 keys" in text

    def test_b51_the_right_key_among_many(self, make: Making, server: Sshd) -> None:
        agent = Agent(server.folder)
        try:
            for number in range(8):
                keygen(server.folder / f"other{number}")
                agent.add(server.folder / f"other{number}")
            server.configure(f"IdentityAgent {agent.path}\n")
            assert works(make(server))
        finally:
            agent.stop()

    @pytest.mark.parametrize("only", ["yes", "no"])
    def test_a_key_that_the_agent_has(self, make: Making, server: Sshd, only: str) -> None:
        agent = Agent(server.folder)
        try:
            agent.add(server.identity)
            server.identity.write_text("not a key\n")
            server.configure(f"IdentityAgent {agent.path}\nIdentitiesOnly {only}\n")
            assert works(make(server))
        finally:
            agent.stop()

    # ---- host keys ----

    def test_b47_a_host_key_that_is_not_known(self, make: Making, server: Sshd) -> None:
        server.known_hosts.write_text("")
        assert "accept" in failure(make(server))
        assert server.known_hosts.read_text() == ""

    def test_b47_a_host_key_that_changed(self, make: Making, server: Sshd) -> None:
        other = keygen(server.folder / "other")
        server.known_hosts.write_text(f"[{server.host}]:{server.port} {other}\n")
        text = failure(make(server))
        assert str(server.known_hosts) in text

    def test_b47_a_hashed_entry_with_a_port(self, make: Making, server: Sshd) -> None:
        keygen = program("ssh-keygen", "openssh-client")
        command = [keygen, "-H", "-f", str(server.known_hosts)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        assert server.known_hosts.read_text().startswith("|1|")
        assert works(make(server))

    def test_b47_a_server_with_keys_of_several_types(
        self, make: Making, serve: Callable[..., Sshd], folder: Path
    ) -> None:
        ecdsa = keygen(folder / "ecdsa", kind="ecdsa")
        server = serve(HostKey=f"{folder}/0/host_key\nHostKey {folder}/ecdsa")
        assert works(make(server))
        server.known_hosts.write_text(f"[{server.host}]:{server.port} {ecdsa}\n")
        assert works(make(server))

    def test_b47_a_revoked_key_is_not_believed(self, make: Making, server: Sshd) -> None:
        known = server.known_hosts.read_text()
        server.known_hosts.write_text(f"{known}@revoked * {server.host_key}\n")
        assert "revoked" in failure(make(server)).lower()

    def test_b47_an_authority_s_own_key_is_no_host_key(self, make: Making, server: Sshd) -> None:
        server.known_hosts.write_text(f"@cert-authority * {server.host_key}\n")
        assert "accept" in failure(make(server))

    def test_a_host_key_that_is_named(self, make: Making, server: Sshd) -> None:
        server.known_hosts.write_text("")
        other = keygen(server.folder / "other")
        assert works(make(server, host_key=server.host_key))
        assert "host key" in failure(make(server, host_key=other)).lower()

    # ---- what the user has configured ----

    def test_b44_b46_the_configuration_means_what_it_means_to_ssh(
        self, make: Making, server: Sshd
    ) -> None:
        more, ran = server.folder / "more", server.folder / "ran"
        here = f"HostName {server.host}\nPort {server.port} # and so\nUser {server.user}\n"
        more.write_text(f"Host aliased\n{here}")
        server.configure(
            f"Include {more}\n"
            f'Match originalhost nowhere exec "touch {ran}"\nPort 1\n'
            f'Match originalhost elsewhere exec "echo hi"\n{here}'
        )
        assert works(make(server, "aliased"))
        assert works(make(server, "elsewhere"))
        assert works(make(server))
        assert not ran.exists()

    def test_a_proxy_command(self, make: Making, server: Sshd) -> None:
        server.configure(f"ProxyCommand {CONNECT} %h %p\n")
        machine = make(server)
        assert works(machine)
        assert len(children()) > 1
        machine.close()

    def test_a_proxy_command_that_fails(self, make: Making, server: Sshd) -> None:
        server.configure("ProxyCommand exit 3\n")
        assert failure(make(server)).startswith("box: ")

    def test_a_jump(self, make: Making, serve: Callable[..., Sshd]) -> None:
        first, second, third = serve(), serve(), serve()
        hops = "".join(
            f"Host {name}\nHostName {at.host}\nPort {at.port}\nUser {at.user}\n"
            f"IdentityFile {at.identity}\nUserKnownHostsFile {at.known_hosts}\n"
            for name, at in (("first", first), ("second", second))
        )
        third.configure(f"Host box\nProxyJump first,{second.user}@second\n{hops}")
        machine = make(third)
        assert works(machine)
        assert [len(at.sessions()) for at in (first, second, third)] == [1, 1, 1]
        machine.close()
        for at in (first, second, third):
            at.until(sessions=0)

    def test_the_environment_that_is_sent_is_the_user_s(
        self, make: Making, serve: Callable[..., Sshd], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LC_ALL", "en_GB.UTF-8")
        monkeypatch.setenv("CRAZE_SENT", "this")
        server = serve(AcceptEnv="LC_* CRAZE_*")
        server.configure("SendEnv LC_* CRAZE_SENT\nSetEnv CRAZE_SET=that\n")
        with make(server).run('echo "$LC_ALL $CRAZE_SENT $CRAZE_SET"') as running:
            assert all_of(running) == b"en_GB.UTF-8 this that\n"

    # ---- craze ----

    def test_b39_craze_is_found_and_run(
        self, make: Making, serve: Callable[..., Sshd], folder: Path
    ) -> None:
        server = serve(SetEnv=f"HOME={folder} PATH=/usr/bin:/bin SHLVL=9")
        machine = make(server)
        with machine.run(ladder.line(ladder.PROBE, jailed=True)) as running:
            found = ladder.probed(
                exit=running.exit(PATIENCE), stdout=all_of(running), stderr=running.stderr
            )
        assert found == (
            ladder.Kind.NOT_INSTALLED,
            "craze is not installed on this machine (craze: command not found)",
        )
        craze = folder / ".local/bin/craze"
        craze.parent.mkdir(parents=True)
        craze.write_text('#!/bin/sh\necho "$@"; cat\n')
        craze.chmod(0o755)
        with machine.run(ladder.line(ladder.BRIDGE)) as running:
            assert line_of(running) == b"bridge --hub\n"
            assert echoes(running)
