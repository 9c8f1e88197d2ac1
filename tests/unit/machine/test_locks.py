import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import gevent
import pytest

from craze import greenlets
from craze.machine import locks

HOLD = """
import sys, time
from craze.machine import locks
lock = locks.take(sys.argv[1])
lock.write(sys.argv[2])
print("held", flush=True)
time.sleep(60)
"""


def no_sleep(seconds: float) -> None:
    raise AssertionError("nothing to wait for")


def test_a_lock_is_taken_written_and_let_go(root: Path, umask: int) -> None:
    path = str(root / "l")
    lock = locks.take(path, sleep=no_sleep)
    lock.write(f"{os.getpid()} 0123456789ab")
    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert (root / "l").read_text() == f"{os.getpid()} 0123456789ab\n"
    lock.write("1 x")
    assert (root / "l").read_text() == "1 x\n"
    lock.release(truncate=True)
    lock.release(unlink=True)  # does nothing any more
    assert (root / "l").read_text() == ""
    with locks.take(path, sleep=no_sleep) as again:
        assert again.named
    assert locks.take(path, sleep=no_sleep).release(unlink=True) is None
    assert not os.path.exists(path)


def test_a_held_lock_is_believed_after_a_tenth_of_a_second(root: Path) -> None:
    path = str(root / "l")
    slept: list[float] = []
    with locks.take(path) as lock:
        lock.write(f"{os.getpid()} 0123456789ab")
        with pytest.raises(locks.Held) as held:
            locks.take(path, sleep=slept.append)
    assert sum(slept) == pytest.approx(0.1)
    assert held.value.holder == (os.getpid(), "0123456789ab")


def test_a_look_that_holds_it_for_an_instant_is_no_holder(root: Path) -> None:
    path = str(root / "l")
    look = locks.take(path)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            look.release()

    locks.take(path, sleep=sleep).release()
    assert len(slept) == 3


def test_b31_waiting_for_a_lock_leaves_the_loop_running(root: Path) -> None:
    path = str(root / "l")
    ticks = []

    def tick() -> None:
        while True:
            ticks.append(1)
            gevent.sleep(0)

    ticker = greenlets.spawn("tick", tick)
    with locks.take(path), pytest.raises(locks.Held):
        locks.take(path, sleep=gevent.sleep)
    ticker.kill()
    assert len(ticks) > 20


def test_b57_a_timeout_while_waiting_leaves_nothing_held(root: Path) -> None:
    path = str(root / "l")
    with locks.take(path), pytest.raises(gevent.Timeout), gevent.Timeout(0.02):
        locks.take(path, sleep=gevent.sleep)
    locks.take(path, sleep=no_sleep).release()


@pytest.mark.parametrize("options", [{}, {"start_new_session": True}, {"close_fds": False}])
def test_b31_a_child_does_not_keep_the_lock(root: Path, options: dict[str, bool]) -> None:
    path = str(root / "l")
    lock = locks.take(path)
    child = subprocess.Popen(["sleep", "60"], **options)  # type: ignore[call-overload]
    try:
        lock.release()
        locks.take(path, sleep=no_sleep).release()
    finally:
        child.kill()
        child.wait()


def test_b31_b27_a_killed_holder_is_gone_at_once_though_its_pid_is_still_there(root: Path) -> None:
    path = str(root / "l")
    # The line tells of a pid that lives: our own shell's, as it may be after a crash.
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path, f"{os.getpid()} 0123456789ab"], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    with holder.stdout as out:
        assert out.readline() == b"held\n"
        assert locks.probe(path) is True
        holder.send_signal(signal.SIGKILL)
        out.read()
    # Not reaped yet: a zombie holds nothing.
    with locks.take(path, sleep=no_sleep) as lock:
        assert lock.named
    holder.wait()


def test_a_name_that_stands_for_another_file_by_now_is_no_lock(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "l"
    asked = []

    def flock(fd: int, kind: int) -> bool:
        asked.append(kind)
        path.unlink()
        path.touch()
        return True

    monkeypatch.setattr(locks, "_flock", flock)
    with pytest.raises(locks.Held):
        locks.take(str(path), sleep=no_sleep)
    assert len(asked) == 3


def test_a_lock_that_is_cleared_away_while_we_wait_is_made_anew(root: Path) -> None:
    path = str(root / "l")
    first = locks.take(path)
    lock = locks.take(path, sleep=lambda _: first.release(unlink=True))
    assert lock.named
    lock.release()


def test_looking(root: Path) -> None:
    path = str(root / "l")
    assert locks.probe(path) is False
    with locks.take(path):
        assert locks.probe(path) is True
    found = locks.probe(path)
    assert isinstance(found, locks.Lock)
    assert locks.probe(path) is True
    found.release()


def test_two_looks_at_once_do_not_take_each_other_for_life(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "l"
    path.touch()
    flock = locks._flock
    second = []

    def during(fd: int, kind: int) -> bool:
        taken = flock(fd, kind)
        if not second:
            second.append(None)
            second[0] = locks.probe(str(path))
        return taken

    monkeypatch.setattr(locks, "_flock", during)
    first = locks.probe(str(path))
    assert True not in (first, second[0])
    for found in (first, second[0]):
        if isinstance(found, locks.Lock):
            found.release()


def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@pytest.mark.parametrize(
    ("content", "holder"),
    [
        ("{me} 0123456789ab\n", ("{me}", "0123456789ab")),
        ("1 0123456789ab\n", (1, "0123456789ab")),
        ("{me} 0123456789ab", (0, "")),
        ("{dead} 0123456789ab\n", (0, "0123456789ab")),
        ("99999999999 0123456789ab\n", (0, "0123456789ab")),
        ("0 0123456789ab\n", (0, "0123456789ab")),
        ("-1 0123456789ab\n", (0, "")),
        ("12\n", (0, "")),
        ("12 a/b\n", (0, "")),
        ("x y\n", (0, "")),
        ("", (0, "")),
        ("\udcff\n", (0, "")),
        ("x" * 1000 + "\n", (0, "")),
    ],
)
def test_what_a_lock_says_of_its_holder(root: Path, content: str, holder: tuple) -> None:  # type: ignore[type-arg]
    text = content.replace("{me}", str(os.getpid())).replace("{dead}", str(dead_pid()))
    (root / "l").write_bytes(os.fsencode(text))
    pid, name = holder
    assert locks.holder(str(root / "l")) == (os.getpid() if pid == "{me}" else pid, name)


def test_no_file_says_nothing(root: Path) -> None:
    assert locks.holder(str(root / "l")) == (0, "")
    with pytest.raises(FileNotFoundError):
        locks.take(str(root / "l"), create=False)


def test_b33_a_link_is_no_lock(root: Path) -> None:
    (root / "l").symlink_to(root / "elsewhere")
    with pytest.raises(OSError):
        locks.take(str(root / "l"))
    assert not (root / "elsewhere").exists()
