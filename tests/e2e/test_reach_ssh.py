"""The system's ssh program against a real server."""

import os
import signal
from collections.abc import Callable

import pytest

from craze_shed.reach import SshReach
from tests.e2e.reach_links import (
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
from tests.e2e.sshd import Sshd
from tests.unit.shed.reach_suite import CAT, PATIENCE, all_of

__all__ = ["folder", "machine", "make", "serve", "server"]  # fixtures


@pytest.fixture
def kind() -> type[SshReach]:
    return SshReach


class TestStreams(Streams):
    """The suite."""


class TestPorts(Ports):
    """The ports."""


class TestLinks(Links):
    """The links."""


HOSTILE = """
ControlMaster auto
ControlPath {folder}/mux
ControlPersist yes
ExitOnForwardFailure yes
ForkAfterAuthentication no
LocalCommand echo local
LocalForward 127.0.0.1:{port} 127.0.0.1:1
LogLevel QUIET
PermitLocalCommand yes
RemoteCommand echo remote
RemoteForward 127.0.0.1:{port} 127.0.0.1:1
RequestTTY force
ServerAliveInterval 0
"""


def test_b37_what_is_configured_for_people_does_no_harm(
    make: Making, serve: Callable[..., Sshd]
) -> None:
    server = serve(MaxSessions="2")
    server.configure(HOSTILE.format(folder=server.folder, port=server.port))
    machine = make(server)
    with machine.run(CAT) as one, machine.run(CAT) as two, machine.run(CAT) as three:
        assert echoes(one) and echoes(two) and echoes(three)
        assert len(server.sessions()) == 2
        one.half_close()
        assert all_of(one) == b""
        assert (one.exit(PATIENCE), one.stderr) == (0, b"")
    assert not (server.folder / "mux").exists()


def test_b37_an_ssh_that_goes_to_the_background(make: Making, server: Sshd) -> None:
    server.configure("ForkAfterAuthentication yes\n")
    machine = make(server)
    assert works(machine)
    assert works(machine)
    assert len(server.sessions()) == 1
    machine.close()
    server.until(sessions=0)


def test_one_command_that_is_killed_harms_no_other(make: Making, server: Sshd) -> None:
    machine = make(server)
    with machine.run(CAT) as one, machine.run(CAT) as two:
        assert echoes(one) and echoes(two)
        os.kill(one.pid, signal.SIGKILL)
        assert all_of(one) == b""
        assert one.exit(PATIENCE) == -9
        assert echoes(two)
    assert len(server.sessions()) == 1


def test_a_connection_that_is_killed_ends_its_commands(make: Making, server: Sshd) -> None:
    machine = make(server)
    with machine.run(CAT) as one:
        assert echoes(one)
        os.kill(machine._connections.all[0]._child.pid, signal.SIGKILL)
        assert all_of(one) == b""
        assert one.exit(PATIENCE) == 255
    assert works(machine)


def test_its_folder_may_have_any_name(
    make: Making, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = server.folder / "%h a'b"
    odd.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    server.known_hosts.write_text("")
    machine = make(server, host_key=server.host_key)
    assert works(machine)
    assert len(list(odd.iterdir())) == 1
    machine.close()
    assert list(odd.iterdir()) == []


def test_b47_a_host_key_that_ssh_may_not_ask_about(make: Making, server: Sshd) -> None:
    server.known_hosts.write_text("")
    assert failure(make(server)) == (
        "box: ssh exited 255 before there was a connection: Host key verification failed.;"
        " run ssh there in a terminal once, and accept its key if that is the right one"
    )
