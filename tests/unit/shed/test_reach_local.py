"""This machine: children that are started cleanly and ended completely."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from craze.machine import processes
from craze_shed.reach import LocalReach, ReachError
from craze_shed.reach.child import Child, output
from tests.unit.shed.reach_suite import (
    PATIENCE,
    Echoing,
    ReachSuite,
    all_of,
    children,
    descriptors,
    dialled,
    line_of,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture
def machine() -> Iterator[LocalReach]:
    with LocalReach() as machine:
        yield machine


class TestLocal(ReachSuite):
    """The suite."""


def gone(pid: int) -> None:
    """Wait until a process is no more."""
    with gevent.Timeout(PATIENCE):
        while not processes.dead(pid):
            gevent.sleep(0.01)


def test_b20_what_a_command_started_is_ended_with_it(machine: LocalReach) -> None:
    with machine.run("sleep 600 & echo $!; wait") as running:
        pid = int(line_of(running))
    gone(pid)


def test_b20_what_a_command_left_in_its_group_is_ended_when_it_ends(machine: LocalReach) -> None:
    with machine.run("sleep 600 >/dev/null 2>&1 </dev/null & echo $!") as running:
        pid = int(all_of(running))
        assert running.exit(PATIENCE) == 0
        gone(pid)


KEEPER = "setsid sh -c 'echo $$; exec sleep 600 >/dev/null' </dev/null & exec cat >&2"


def test_b36_a_stderr_that_somebody_keeps_is_not_waited_for(machine: LocalReach) -> None:
    with machine.run(KEEPER) as running:
        pid = int(line_of(running))
        running.sendall(b"said\n")
        running.half_close()
        assert running.exit(PATIENCE) == 0
        assert running.stderr == b"said\n"
        assert not processes.dead(pid)  # it left the group: it is on its own
        os.kill(pid, 9)


def test_b36_output_may_end_while_the_command_runs(machine: LocalReach) -> None:
    with machine.run("exec 1>&-; echo on >&2; sleep 600") as running:
        assert all_of(running) == b""
        assert running.exit(0) is None


def test_nothing_is_inherited_but_the_three_streams(machine: LocalReach) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        with machine.run("cat"), machine.run("exec ls /proc/self/fd") as running:
            assert all_of(running).split() == [b"0", b"1", b"2", b"3"]  # the last is the listing
    finally:
        os.close(read)
        os.close(write)


def test_it_has_a_session_of_its_own(machine: LocalReach) -> None:
    with machine.run("cut -d' ' -f1,5,6,7 /proc/self/stat; echo $$") as running:
        _, group, session, tty, shell = all_of(running).split()
        assert group == session == shell
        assert tty == b"0"


def test_its_environment_is_this_one_or_exactly_the_one_given(
    machine: LocalReach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAZE_TEST", "here")
    with machine.run('echo "$CRAZE_TEST"') as running:
        assert all_of(running) == b"here\n"
    with LocalReach(env={"ONLY": "this"}) as bare, bare.run("exec /usr/bin/env") as running:
        assert b"ONLY=this" in all_of(running)
    with LocalReach(env={}) as bare, bare.run('echo "${PATH:+set}${CRAZE_TEST-}"') as running:
        assert b"here" not in all_of(running)


def test_the_exit_code_of_a_signal(machine: LocalReach) -> None:
    with machine.run("kill -9 $$") as running:
        assert running.exit(PATIENCE) == -9


def test_a_port_of_this_machine_is_its_own_forward(machine: LocalReach) -> None:
    echoing = Echoing()
    try:
        with machine.forward(echoing.port) as share, dialled(share.port) as sock:
            assert share.port == echoing.port
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
    finally:
        echoing.close()


def test_what_cannot_be_started() -> None:
    with pytest.raises(ReachError, match=r"^/no/such/program: No such file or directory$"):
        Child(["/no/such/program"], env={})
    with pytest.raises(ReachError, match="not done within"):
        output(["/bin/sleep", "600"], {}, timeout=0.05)
    with pytest.raises(ReachError, match="more than 10 bytes"):
        output(["/bin/echo", "x" * 100], {}, timeout=PATIENCE, most=10)


def test_without_a_pidfd(machine: LocalReach, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with machine.run("sleep 600 >/dev/null 2>&1 </dev/null & echo $!; exit 5") as running:
        pid = int(all_of(running))
        assert running.exit(PATIENCE) == 5
        gone(pid)
    with machine.run("sleep 600") as running:
        pass


def test_b56_a_status_that_somebody_else_took_is_none(
    machine: LocalReach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with machine.run("exit 5") as running:
        os.waitpid(running.pid, 0)
        assert running.exit(PATIENCE) is None


def test_two_hundred_runs_leave_nothing(machine: LocalReach) -> None:
    machine.run(":").close()
    before = descriptors()
    for _ in range(200):
        with machine.run("exit 3") as running:
            assert running.exit(PATIENCE) == 3
    gevent.sleep(0)
    assert (children(), descriptors()) == (set(), before)


PATCHED = """
import gevent.monkey; gevent.monkey.patch_all()
import gevent, os, subprocess, sys
from craze_shed.reach import LocalReach

subprocess.run(["true"], check=True)  # from here on the loop reaps every child
with LocalReach() as machine:
    for _ in range(100):
        with machine.run("echo $$; exit 3") as running:
            assert running.recv(100).strip() == b"%d" % running.pid
            assert running.recv(100) == b""
            assert running.exit(30) == 3
    with machine.run("exec 1>&-; sleep 600") as running:
        assert running.recv(1) == b""  # also while the loop has nothing else to do
    running = machine.run("trap '' TERM; echo up; sleep 600 & wait")
    running.recv(3)
    running.close()
    subprocess.run(["true"], check=True)
with open(f"/proc/self/task/{os.getpid()}/children") as listed:
    assert listed.read() == ""
print("fine", "paramiko" in sys.modules)
"""


def test_b56_it_works_in_a_program_that_patched() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PATCHED], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("fine False\n", 0), done.stderr


def test_a_first_child_that_is_over_at_once_is_noticed_in_a_patched_program() -> None:
    code = """
from gevent import monkey; monkey.patch_all()
import time
from craze_shed.reach import child
exit_of = child._exit_of
def late(*args):
    monkey.get_original("time", "sleep")(0.5)  # as on a busy machine
    return exit_of(*args)
child._exit_of = late
made = child.Child(["true"], env={})
print(made.exited.wait(30), made.returncode)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("True 0\n", "")
