import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from craze.machine import pgids, processes

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")


def test_b27_who_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["sleep", "60"])
    assert not processes.dead(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.dead(child.pid)  # not reaped yet
    child.wait()
    assert processes.dead(child.pid)
    assert not processes.dead(1) and not processes.dead(os.getpid())
    assert processes.dead(0) and processes.dead(-1) and processes.dead(2**31)

    def forbidden(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(processes.os, "kill", forbidden)
    assert not processes.dead(os.getppid())  # another user's process is alive


def test_a_process_is_told_from_a_later_one_by_its_start() -> None:
    child = subprocess.Popen(["sleep", "60"])
    started = processes.start_time(child.pid)
    assert started is not None and started == processes.start_time(child.pid)
    token = processes.start_token(child.pid)
    assert token.startswith("st1/") and token.endswith(f"/{started}")
    child.kill()
    child.wait()
    assert processes.start_time(child.pid) is None
    assert processes.start_token(child.pid) == ""


@LINUX
def test_a_token_names_boot_and_pid_namespace() -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    space = os.readlink("/proc/self/ns/pid")
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    assert processes.start_token(os.getpid()) == f"st1/{boot}/{space}/{ticks}"


@LINUX
def test_a_program_may_be_called_anything(root: Path) -> None:
    program = root / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(program), "60"])
    assert not processes.dead(child.pid)
    assert (processes.start_time(child.pid) or 0) >= (processes.start_time(os.getpid()) or 0)
    child.kill()
    child.wait()


@LINUX
def test_processor_time_moves_with_work_alone() -> None:
    idle = subprocess.Popen(["sleep", "60"])
    before = processes.cpu_time(os.getpid())
    assert before is not None
    until = time.monotonic() + 10
    while processes.cpu_time(os.getpid()) == before:
        assert time.monotonic() < until
    while (first := processes.cpu_time(idle.pid)) is not None:
        time.sleep(0.05)
        if processes.cpu_time(idle.pid) == first:
            break  # it has started, and sleeps
        assert time.monotonic() < until
    idle.kill()
    idle.wait()
    assert processes.cpu_time(idle.pid) is None


# ---- process groups ----


def test_b20_a_recorded_group_is_killed_whole(root: Path) -> None:
    path = str(root / "pgids")
    script = "sleep 60 & echo $!; wait"
    wrapper = subprocess.Popen(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    assert wrapper.stdout is not None
    with wrapper.stdout as out:
        sleeper = int(out.readline())
        pgids.record(path, wrapper.pid)
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert pgids.kill_recorded(path) == [wrapper.pid]
        out.read()  # until nobody of the group holds it
    wrapper.wait()
    until = time.monotonic() + 5
    while not processes.dead(sleeper):  # it lets go of its files before it ends
        assert time.monotonic() < until


def test_b27_a_group_whose_number_is_anothers_by_now_is_left_alone(root: Path) -> None:
    path = root / "pgids"
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    started = processes.start_time(child.pid)
    assert started is not None
    path.write_text(
        f"{child.pid} {started - 1}\n{child.pid}\n{child.pid} x\n1 {processes.start_time(1)}\n"
        f"0 0\n-1 5\n{os.getpgrp()} {processes.start_time(os.getpgrp())}\nrubbish\n"
    )
    assert pgids.kill_recorded(str(path)) == []
    assert child.poll() is None
    child.kill()
    child.wait()


def test_only_a_thousand_lines_are_taken(root: Path) -> None:
    path = root / "pgids"
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    line = f"{child.pid} {processes.start_time(child.pid)}\n"
    path.write_text("9 9\n" * 1000 + line)
    assert pgids.kill_recorded(str(path)) == []
    path.write_text("9 9\n" * 999 + line)
    assert pgids.kill_recorded(str(path)) == [child.pid]
    child.wait()


def test_no_file_holds_no_groups(root: Path) -> None:
    assert pgids.kill_recorded(str(root / "pgids")) == []
