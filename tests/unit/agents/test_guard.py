"""The guard of an agent's process group, against real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from craze.agents.guard import Guard

_HOST = """
import subprocess, sys, time
from craze.agents.guard import Guard
guard = Guard()
agent = subprocess.Popen(
    ["/bin/sh", "-c", "trap '' TERM HUP; sleep 60 & setsid sleep 61 & sleep 60"],
    start_new_session=True,
)
guard.watch(agent.pid)
print(agent.pid, guard.pid, flush=True)
time.sleep(60)
"""


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _child_of(parent: int, word: str) -> int:
    """The child that has `word` on its command line, once it runs."""
    while True:
        for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            if word in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                return int(pid)
        time.sleep(0.01)


def _wait_gone(group: int) -> bool:
    deadline = time.monotonic() + 5
    while _alive(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_b20_b21_a_killed_host_leaves_no_agent_behind_a_wrapper() -> None:
    host = subprocess.Popen([sys.executable, "-c", _HOST], stdout=subprocess.PIPE)
    assert host.stdout is not None
    with host.stdout:
        group, guard = map(int, host.stdout.readline().split())
        assert _alive(group)
        apart = _child_of(group, "61")
        host.send_signal(signal.SIGKILL)
        host.wait()
        assert _wait_gone(group)
        assert _wait_gone(guard)
        assert _wait_gone(apart)


def test_a_dismissed_guard_touches_nothing() -> None:
    agent = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        guard = Guard()
        guard.watch(agent.pid)
        guard.dismiss()
        guard.dismiss()
        assert agent.poll() is None
        assert not _alive(guard.pid)
    finally:
        agent.kill()
        agent.wait()


def test_a_guard_that_was_told_of_no_group_just_ends() -> None:
    guard = Guard()
    guard.dismiss()
    assert not _alive(guard.pid)


@pytest.mark.parametrize("word", [b"done\n", b"\n", b"0\n", b"1\n", b"-1\n", b"12x\n", b"012\n"])
def test_a_guard_kills_nothing_that_is_no_group(word: bytes) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        guard = Guard()
        guard._say(word)
        guard._child.stdin.close()
        assert guard._child.wait(5) == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_guard_that_was_killed_fails_nobody() -> None:
    guard = Guard()
    os.kill(guard.pid, signal.SIGKILL)
    time.sleep(0.05)
    guard.watch(1 << 22)
    guard.dismiss()
