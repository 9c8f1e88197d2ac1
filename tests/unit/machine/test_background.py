"""A craze process in the background: its ready line, its exit, its end, and what it is given."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze.machine import background, descriptors, environment, reexec
from craze.machine.background import Background

LIMIT = 64

# A program that runs its one argument, with what it may need for that.
PROGRAM = """
import json, os, signal, sys, time
fd = int(os.environ["CRAZE_READY_FD"])
def say(text):
    os.write(fd, text.encode())
exec(sys.argv[1])
"""


@pytest.fixture
def start(
    root: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Background]]:
    """Starts a process that runs a piece of Python; each is ended and reaped at the end."""
    (root / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(reexec, "_prefix", [sys.executable, f"{root}/program.py"])
    started: list[Background] = []

    def run(code: str, **more: Any) -> Background:
        options = {"environ": environ, "cwd": str(root), "child": environment.HUB_CHILD} | more
        started.append(background.start([code], **options))
        return started[-1]

    yield run
    for process in started:
        process.hang_up()
        process.signal(signal.SIGKILL, group=True)
        assert process.exited.wait(10)


# ---- the ready line ----


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("say('ready\\n')", b"ready"),
        ("say('ready\\nand more'); time.sleep(60)", b"ready"),
        ("say('re'); time.sleep(0.1); say('ady\\n'); time.sleep(60)", b"ready"),
        (f"say('x' * {LIMIT} + '\\n')", b"x" * LIMIT),
        ("say('\\n')", b""),
        ("say('rea')", b""),
        ("pass", b""),
        ("os.close(fd); time.sleep(60)", b""),
    ],
)
def test_the_ready_line_is_whole_or_none(
    start: Callable[..., Background], code: str, line: bytes
) -> None:
    assert start(code).line(20, LIMIT) == line


@pytest.mark.parametrize("code", [f"say('x' * {LIMIT + 2})", f"say('x' * {LIMIT + 1} + '\\n')"])
def test_a_line_that_is_too_long(start: Callable[..., Background], code: str) -> None:
    with pytest.raises(ValueError, match=f"^longer than {LIMIT} bytes$"):
        start(code + "; time.sleep(60)").line(20, LIMIT)


def test_a_line_that_does_not_come(start: Callable[..., Background]) -> None:
    process = start("say('rea'); time.sleep(60)")
    with pytest.raises(TimeoutError, match=r"^no ready line within 0\.2s$"):
        process.line(0.2, LIMIT)
    assert process.status == ""


def test_whoever_waits_for_the_line_can_be_killed(start: Callable[..., Background]) -> None:
    process = start("time.sleep(60)")
    waiting = greenlets.spawn("wait", process.line, 20, LIMIT)
    gevent.sleep(0.05)
    waiting.kill()
    assert waiting.dead and process.status == ""


def test_a_process_whose_starter_waits_no_more_hears_of_it(
    start: Callable[..., Background],
) -> None:
    # As it does when it writes: the pipe has no other reader.
    process = start("sys.stdin.read(); time.sleep(0.3); say('x'); time.sleep(60)")
    process.hang_up()
    process.hang_up()
    assert process.exited.wait(20)
    assert process.status == "exit status 1"  # BrokenPipeError


# ---- its exit and its end ----


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", "exit status 0"),
        ("sys.exit(3)", "exit status 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal: killed"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "signal: terminated"),
    ],
)
@pytest.mark.parametrize("watched", [True, False], ids=["pidfd", "polled"])
def test_how_it_ended(
    start: Callable[..., Background],
    code: str,
    status: str,
    watched: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not watched:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    heard: list[Background] = []
    process = start(code, on_exit=heard.append)
    assert process.exited.wait(20)
    gevent.sleep(0)
    assert process.status == status and heard == [process]
    assert repr(process) == f"<Background {process.pid} {status}>"
    assert not os.path.exists(f"/proc/{process.pid}")  # reaped
    process.signal(signal.SIGKILL, group=True)  # nobody's any more: nothing is sent
    assert process.end(0.1)


def test_its_end_is_asked_for(start: Callable[..., Background]) -> None:
    process = start("say('up\\n'); time.sleep(60)")
    process.line(20, LIMIT)
    assert repr(process) == f"<Background {process.pid} running>"
    assert process.end(20)
    assert process.status == "signal: terminated"


def test_b21_who_does_not_listen_is_killed_with_all_of_its_group(
    start: Callable[..., Background],
) -> None:
    process = start(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); child = os.fork();"
        "child and say(f'{child}\\n'); time.sleep(60)"
    )
    child = int(process.line(20, LIMIT))
    assert process.end(0.2)
    assert process.status == "signal: killed"
    end = time.monotonic() + 20
    while Path(f"/proc/{child}").exists() and "\nState:\tZ" not in _status(child):
        assert time.monotonic() < end
        gevent.sleep(0.01)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "\nState:\tZ"


# ---- what it is given ----

SHOW = """
told = {
    "fds": sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")),
    "std": [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)],
    "ids": [os.getpid(), os.getpgid(0), os.getsid(0)],
    "cwd": os.getcwd(), "environ": dict(os.environ), "argv": sys.argv[2:],
    "pipe": signal.getsignal(signal.SIGPIPE).name,
}
say(json.dumps(told) + "\\n")
"""  # noqa: E501


def test_it_has_nothing_of_its_starter_but_the_pipe(
    start: Callable[..., Background], root: Path, environ: dict[str, str]
) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)  # even what any other child would inherit
    environ |= {"KEPT": "1", "TMUX": "x", "CRAZE_HOST_CHILD": "1", "CRAZE_HOME": "rel"}
    process = start(SHOW)
    told = json.loads(process.line(20, 65536))
    os.close(reading)
    os.close(writing)
    pid = process.pid
    ready = int(told["environ"]["CRAZE_READY_FD"])
    assert told["fds"] == sorted({0, 1, 2, ready})
    assert told["std"] == 3 * ["/dev/null"]
    assert told["ids"] == [pid, pid, pid]
    assert told["cwd"] == str(root)
    given = told["environ"]
    assert given.pop("CRAZE_HUB_CHILD") == "1" and given.pop("CRAZE_READY_FD")
    given.pop("LC_CTYPE", None)  # an interpreter's own
    assert given == {
        "HOME": environ["HOME"],
        "CRAZE_RUNTIME_DIR": environ["CRAZE_RUNTIME_DIR"],
        "KEPT": "1",
        "CRAZE_HOME": f"{os.getcwd()}/rel",
    }


def test_a_starter_whose_folder_is_gone_starts_one_all_the_same(
    start: Callable[..., Background], root: Path, environ: dict[str, str], monkeypatch: Any
) -> None:
    (root / "gone").mkdir()
    monkeypatch.chdir(root / "gone")
    (root / "gone").rmdir()
    environ["CRAZE_HOME"] = "rel"
    process = start("say(os.environ['CRAZE_HOME'] + '\\n')")
    assert process.line(20, LIMIT) == b"/rel"
    monkeypatch.chdir("/")


def test_it_may_hold_as_many_descriptors_as_we_were_given(
    start: Callable[..., Background], monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(descriptors, "_given", [])
    try:
        descriptors.raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        code = (
            "import resource; say(json.dumps(resource.getrlimit(resource.RLIMIT_NOFILE)) + '\\n')"
        )
        assert json.loads(start(code).line(20, LIMIT)) == list(before)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# ---- what cannot be started ----


def test_b79_a_program_that_is_not_there_any_more(
    start: Callable[..., Background], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "program.py").unlink()
    with pytest.raises(background.Gone) as gone:
        start("pass")
    assert gone.value.path == f"{root}/program.py"
    assert str(gone.value) == f"{root}/program.py is not there any more"
    # One that goes in the very moment, or whose interpreter did.
    (root / "script").write_text("#!/nowhere/python\n")
    (root / "script").chmod(0o700)
    monkeypatch.setattr(reexec, "_prefix", [f"{root}/script"])
    with pytest.raises(background.Gone) as gone:
        start("pass")
    assert gone.value.path == f"{root}/script"


def test_a_folder_that_is_not_there_is_not_the_programs_fault(
    start: Callable[..., Background], root: Path
) -> None:
    with pytest.raises(FileNotFoundError) as failure:
        start("pass", cwd=f"{root}/nowhere")
    assert failure.value.filename == f"{root}/nowhere"


def test_a_program_that_cannot_be_run(
    start: Callable[..., Background], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reexec, "_prefix", [f"{root}/program.py"])  # not executable
    with pytest.raises(PermissionError):
        start("pass")
