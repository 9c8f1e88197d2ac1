"""The ssh program as it is called, and programs called ssh that misbehave."""

import json
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze_shed.reach import Keepalive, ReachError, SshReach, limits
from tests.unit.shed.reach_suite import CAT, PATIENCE, all_of, children, line_of

STUB = Path(__file__).with_name("stub_ssh.py")


class Stub:
    """Makes ways through the stub, and reads its log."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "ssh"
        self.program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S {STUB} "$@"\n')
        self.program.chmod(0o755)
        self._log = folder / "log"
        self.made: list[SshReach] = []

    def reach(self, how: str = "fine", destination: str = "box", **options: Any) -> SshReach:
        env = {**os.environ, "STUB": how, "STUB_LOG": str(self._log), **options.pop("env", {})}
        made = SshReach(destination, program=str(self.program), env=env, **options)
        self.made.append(made)
        return made

    def notes(self, name: str) -> list[Any]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [found[name] for line in lines if name in (found := json.loads(line))]

    def masters(self) -> list[list[str]]:
        return [argv for argv in self.notes("argv") if "-NT" in argv]


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    stub = Stub(tmp_path)
    with gevent.Timeout(PATIENCE * 2, AssertionError("it hangs")):
        yield stub
        for made in stub.made:
            made.close()
    for pid in stub.notes("left"):
        os.kill(pid, 9)


def options(argv: list[str]) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == "-o"]


# ---- how it is called ----


def test_what_a_connection_is_made_with(stub: Stub) -> None:
    machine = stub.reach(destination="me@box", connect_timeout=7, keepalive=Keepalive(3, 4))
    with machine.run("echo 'a b'; exit 3") as running:
        assert (all_of(running), running.exit(PATIENCE)) == (b"a b\n", 3)
    master, session = stub.notes("argv")
    path = master[master.index("-S") + 1]
    assert master[:3] == ["-NT", "-S", path]
    assert master[-2:] == ["--", "me@box"]
    assert options(master) == [
        "BatchMode=yes",
        "ClearAllForwardings=yes",
        "ForwardX11=no",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        "ControlMaster=yes",
        "ControlPersist=no",
        "LogLevel=INFO",
        "ConnectTimeout=7",
        "ServerAliveInterval=3",
        "ServerAliveCountMax=4",
    ]
    assert session[:3] == ["-T", "-S", path]
    assert session[-3:-1] == ["me@box", "--"]
    assert session[-1].startswith("'sh' '-c' '")
    assert options(session)[5:] == ["ControlMaster=no", "LogLevel=ERROR", "ProxyCommand=false"]
    assert "-F" not in master + session
    assert "-p" not in master + session
    assert "-t" not in master + session


def test_its_environment(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "en_GB.UTF-8")
    with stub.reach().run("exit 3") as running:
        assert running.exit(PATIENCE) == 3
    assert stub.notes("env") == [
        {"LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"},
        {"LC_ALL": "en_GB.UTF-8"},
    ]


@pytest.mark.parametrize(("port", "given"), [(0, []), (22, []), (2222, ["-p", "2222"])])
def test_a_port_is_named_where_it_is_not_the_usual_one(
    stub: Stub, port: int, given: list[str]
) -> None:
    stub.reach(port=port, config="/some/config").run(CAT).close()
    for argv in stub.notes("argv"):
        assert argv[: 2 + len(given)] == ["-F", "/some/config", *given]


def test_a_host_key_that_is_named_is_the_only_one(stub: Stub) -> None:
    stub.reach(host_key="ssh-ed25519 AAAA").run(CAT).close()
    (master,) = stub.masters()
    strict, file, others = options(master)[-3:]
    assert (strict, others) == ("StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null")
    file = file.removeprefix("UserKnownHostsFile=").strip('"')
    assert Path(file).read_text() == "* ssh-ed25519 AAAA\n"


def test_its_folder_is_ours_alone_and_goes(stub: Stub) -> None:
    machine = stub.reach()
    machine.run(CAT).close()
    (master,) = stub.masters()
    folder = Path(master[master.index("-S") + 1]).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    machine.close()
    assert not folder.exists()


def test_b26_the_socket_s_name_is_short(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("é" * 40)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    stub.reach().run(CAT).close()
    (master,) = stub.masters()
    path = master[master.index("-S") + 1]
    assert len(os.fsencode(path)) + len(".0123456789abcdef") < 104


def test_its_folder_may_have_any_name(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = Path(tempfile.mkdtemp(prefix="craze-%h ", dir="/tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    try:
        machine = stub.reach(host_key="ssh-ed25519 AAAA")
        machine.run(CAT).close()
        assert stub.masters()[0][2].startswith(str(odd).replace("%", "%%"))
        machine.close()
    finally:
        odd.rmdir()


@pytest.mark.parametrize("destination", ["-oProxyCommand=x", "-", ""])
def test_what_is_no_destination(stub: Stub, destination: str) -> None:
    with pytest.raises(ReachError) as refused:
        stub.reach(destination=destination)
    assert str(refused.value) == f'not a destination for ssh: "{destination}"'


def test_goodbye_is_said(stub: Stub) -> None:
    machine = stub.reach()
    machine.run(CAT).close()
    machine.close()
    goodbye = stub.notes("argv")[-1]
    assert goodbye[goodbye.index("-O") + 1] == "exit"


# ---- what goes wrong ----


def told(call: Callable[[], Any]) -> str:
    with pytest.raises(ReachError) as failure:
        call()
    return str(failure.value)


def test_there_is_no_ssh() -> None:
    with SshReach("box", program="no-such-ssh") as machine:
        assert told(lambda: machine.run(CAT)) == "box: no-such-ssh: No such file or directory"


def test_why_there_is_no_connection(stub: Stub) -> None:
    machine = stub.reach("fails", label="the box")
    assert told(lambda: machine.run(CAT)) == (
        "the box: ssh exited 255 before there was a connection: stub: no route to host"
    )


def test_b37_an_ssh_that_ends_at_once_and_says_nothing(stub: Stub) -> None:
    machine = stub.reach("exits")
    assert told(lambda: machine.run(CAT)) == ("box: ssh exited 0 before there was a connection")
    assert children() == set()


def test_b37_an_ssh_that_goes_on_in_the_background(stub: Stub) -> None:
    machine = stub.reach("background")
    for _ in range(2):
        with machine.run(CAT) as running:
            running.sendall(b"hello\n")
            assert line_of(running) == b"hello\n"
    assert len(stub.masters()) == 1
    path = Path(stub.masters()[0][2])
    assert path.exists()
    machine.close()
    assert not path.exists()


def test_b36_a_process_that_keeps_stderr_is_waited_for_by_nobody(stub: Stub) -> None:
    machine = stub.reach("keeps stderr")
    with machine.run("echo out; echo err >&2; exit 3") as running:
        assert all_of(running) == b"out\n"
        assert running.exit(PATIENCE) == 3
        assert running.stderr == b"err\n"
    machine.close()
    assert len(stub.notes("left")) == 2
    for pid in stub.notes("left"):
        os.kill(pid, 0)  # still there


def test_a_login_that_takes_too_long(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOGIN", 0.3)
    machine = stub.reach("hangs")
    assert told(lambda: machine.run(CAT)) == "box: no connection within 0.3 s"
    assert children() == set()


def test_b38_a_server_that_refuses_everything_is_not_asked_for_ever(stub: Stub) -> None:
    with stub.reach("full").run(CAT) as running:
        assert all_of(running) == b""
        assert running.exit(PATIENCE) == 255
        assert b"session request failed: Refused" in running.stderr
    assert len(stub.masters()) == 1


def test_a_connection_that_went_is_made_anew(stub: Stub) -> None:
    machine = stub.reach("dies")
    machine.run(CAT).close()
    with gevent.Timeout(PATIENCE):
        while machine._connections.all[0].usable:
            gevent.sleep(0.02)
    assert "exited 255" in repr(machine._connections.all[0])
    machine.run(CAT).close()
    assert len(stub.masters()) == 2


def test_whoever_comes_during_a_login_waits_for_the_same(stub: Stub) -> None:
    machine = stub.reach()
    starts = [gevent.spawn(machine.run, CAT) for _ in range(4)]
    for start in starts:
        start.get().close()
    assert len(stub.masters()) == 1


def test_b57_a_login_outlives_whoever_asked_for_it(stub: Stub) -> None:
    machine = stub.reach()
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.001):
        machine.run(CAT)
    machine.run(CAT).close()
    assert len(stub.masters()) == 1


def test_closing_ends_a_login(stub: Stub) -> None:
    machine = stub.reach("hangs")
    login = gevent.spawn(told, lambda: machine.run(CAT))
    with gevent.Timeout(PATIENCE):
        while not stub.masters():
            gevent.sleep(0.02)
    machine.close()
    assert login.get() == "box: this way to it is closed"
    assert children() == set()


def test_what_it_looks_like(stub: Stub) -> None:
    machine = stub.reach(label="the box")
    assert repr(machine) == "<SshReach the box, 0 running>"
    running = machine.run(CAT)
    assert repr(machine) == "<SshReach the box, 1 running>"
    assert repr(running).startswith("<program open, <child ")
    assert repr(machine._connections.all[0]).startswith("<ssh connection ready, 1 users, <child ")
    machine.close()
    assert repr(machine) == "<SshReach the box, closed>"
    assert repr(running).startswith("<program closed, <child ")
