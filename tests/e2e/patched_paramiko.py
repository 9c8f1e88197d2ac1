"""paramiko against a real server, in a program that is patched: `test_reach_paramiko` runs this."""

import os
import threading
from collections.abc import Iterator

import gevent
import gevent.monkey
import pytest

from craze_shed.reach import ParamikoReach, ReachError, openssh
from craze_shed.reach.paramiko import check_patched
from tests.e2e.reach_links import (
    CONNECT,
    Links,
    Making,
    Ports,
    Streams,
    echoes,
    failure,
    folder,
    machine,
    make,
    serve,
    server,
    works,
)
from tests.e2e.sshd import Agent, Sshd, keygen
from tests.unit.shed.reach_suite import CAT, PATIENCE, children, descriptors

__all__ = ["folder", "machine", "make", "serve", "server"]  # fixtures


@pytest.fixture
def kind() -> type[ParamikoReach]:
    return ParamikoReach


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    with gevent.Timeout(PATIENCE, AssertionError(f"left running: {threading.enumerate()}")):
        while any("Transport" in repr(t) or "Timer" in repr(t) for t in threading.enumerate()):
            gevent.sleep(0.02)


class TestStreams(Streams):
    """The suite."""


class TestPorts(Ports):
    """The ports."""


class TestLinks(Links):
    """The links."""


class TestParamiko:
    """What is paramiko's own."""

    def test_b53_this_program_is_patched(self) -> None:
        check_patched()
        assert gevent.monkey.is_module_patched("threading")

    def test_what_is_no_host_key(self) -> None:
        for nonsense in ("nonsense", "", "ssh-ed25519 !"):
            with pytest.raises(ReachError, match="not a host key"):
                ParamikoReach("box", host_key=nonsense)

    def test_b57_a_reader_that_is_interrupted_loses_nothing(
        self, make: Making, server: Sshd
    ) -> None:
        with make(server).run(CAT) as running:
            for number in range(20):
                with pytest.raises(gevent.Timeout), gevent.Timeout(0.005):
                    running.recv(100)
                assert echoes(running, b"%d\n" % number)

    def test_b57_a_writer_that_is_killed_breaks_nobody_else(
        self, make: Making, server: Sshd
    ) -> None:
        machine = make(server)
        with machine.run(CAT) as other:
            for _ in range(20):
                running = machine.run("cat >/dev/null")
                writer = gevent.spawn(running.sendall, b"x" * (8 << 20))
                gevent.sleep(0.005)
                writer.kill()
                running.close()
                assert echoes(other)
        assert len(server.sessions()) == 1

    def test_a_link_at_rest_wakes_seldom(
        self, make: Making, server: Sshd, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from craze_shed.reach.link import Wire

        with make(server).run(CAT) as running:
            assert echoes(running)
            looks = []
            recv = Wire.recv
            monkeypatch.setattr(Wire, "recv", lambda *a: (looks.append(a), recv(*a))[1])
            gevent.sleep(3)
            assert len(looks) <= 2
            assert echoes(running)

    def test_b50_two_hundred_proxy_commands_leave_nothing(self, make: Making, server: Sshd) -> None:
        from craze_shed.reach import link

        config = openssh.Config("box", "host", 22, "me", proxy_command="cat")
        gevent.get_hub().threadpool.apply(lambda: None)
        link._proxied(config, os.environ).end()
        before, there = descriptors(), children()
        for _ in range(200):
            wire = link._proxied(config, os.environ)
            wire.send(b"x")
            assert wire.recv(1) == b"x"
            wire.end()
        server.configure(f"ProxyCommand {CONNECT} %h %p\n")
        for _ in range(5):
            machine = make(server)
            assert works(machine)
            machine.close()
        with gevent.Timeout(PATIENCE):
            while descriptors() > before or children() - there:
                gevent.sleep(0.02)

    def test_b47_what_to_do_about_a_host_key(self, make: Making, server: Sshd) -> None:
        from craze_shed.reach.known_hosts import PublicKey

        shown = PublicKey.read(server.host_key.split())
        name = f"ssh-ed25519 {shown.fingerprint}"
        server.known_hosts.write_text("")
        assert failure(make(server)) == (
            f"box: its host key is not known: {name}; if that is the right one, run `ssh box` once"
            f" and accept it, or add it to {server.known_hosts}"
        )
        other = keygen(server.folder / "other")
        server.known_hosts.write_text(f"\n[{server.host}]:{server.port} {other}\n")
        assert failure(make(server)) == (
            f"box: its host key is not the one at {server.known_hosts}:2, but {name}; if it was"
            f" changed on purpose, run `ssh-keygen -R '[{server.host}]:{server.port}'` and accept"
            " it anew"
        )
        server.known_hosts.write_text(f"@revoked * {server.host_key}\n")
        assert failure(make(server)) == (
            f"box: its host key {name} is revoked, at {server.known_hosts}:1"
        )
        assert failure(make(server, host_key=other)) == (
            f"box: its host key is not the one that it must have, but {name}"
        )

    def test_b51_too_many_keys(self, make: Making, server: Sshd) -> None:
        agent = Agent(server.folder)
        try:
            for number in range(8):
                keygen(server.folder / f"other{number}")
                agent.add(server.folder / f"other{number}")
            server.authorize(keygen(server.folder / "another"))
            server.configure(f"IdentityAgent {agent.path}\nIdentitiesOnly no\n")
            assert failure(make(server)) == (
                "box: the server hung up after 6 keys;"
                " name the right one with IdentityFile, and set IdentitiesOnly"
            )
        finally:
            agent.stop()

    def test_a_key_that_cannot_be_read_is_told_of(self, make: Making, server: Sshd) -> None:
        server.identity.unlink()
        keygen(server.identity, "-N", "secret")
        server.identity.with_name("identity.pub").unlink()
        text = failure(make(server))
        assert text.startswith(f"box: the server took none of 0 keys for {server.user} (")
        assert str(server.identity) in text

    def test_b46_what_cannot_be_done_is_said(self, make: Making, server: Sshd) -> None:
        for option in ("RevokedHostKeys /dev/null", "AddressFamily inet6", "BindAddress 127.0.0.9"):
            server.configure(f"{option}\n")
            name = option.split()[0].lower()
            assert f"its ssh configuration says `{name} " in failure(make(server))
        server.configure("Host box\nProxyJump box\n")
        assert "does ProxyJump end?" in failure(make(server))

    def test_the_algorithms_are_the_configured_ones(self, make: Making, server: Sshd) -> None:
        server.configure("Ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com\n")
        machine = make(server)
        assert works(machine)
        transport = machine._connections.all[0]._transport
        assert transport.local_cipher == "aes256-gcm@openssh.com"
        server.configure("Ciphers chacha20-poly1305@openssh.com\n")
        assert failure(make(server)) == (
            "box: none of the configured ciphers can be done without ssh"
        )

    def test_without_an_ssh_program_what_is_given_is_all(self, server: Sshd) -> None:
        home = server.folder / "home"
        (home / ".ssh").mkdir(parents=True)
        server.identity.rename(home / ".ssh/id_ed25519")
        (home / ".ssh/known_hosts").write_text(server.known_hosts.read_text())
        with ParamikoReach(
            f"{server.user}@{server.host}",
            port=server.port,
            program="no-such-ssh",
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
        ) as machine:
            assert works(machine)

    def test_b53_nothing_is_said_on_stderr_about_a_failure(
        self, make: Making, server: Sshd, capfd: pytest.CaptureFixture[str]
    ) -> None:
        server.configure(port=1)
        failure(make(server))
        server.configure("ProxyCommand echo no ssh here\n")
        assert failure(make(server)).startswith("box: ")
        assert capfd.readouterr() == ("", "")
