"""An agent's process, with real children: how it starts, how it ends, what it leaves (nothing)."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import gevent.event
import pytest

from craze.agents import limits
from craze.agents.process import Process, SpawnError

PATIENCE = 20.0


class Watched:
    """A process and what it wrote."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: str, **options: Any) -> None:
        self.data = b""
        self.exits = 0
        self.process = Process(
            argv,
            cwd=cwd,
            env={"PATH": os.environ["PATH"], **env},
            on_data=self._data,
            on_exit=self._exit,
            **options,
        )

    def _data(self, data: bytes) -> None:
        self.data += data

    def _exit(self) -> None:
        self.exits += 1

    def until(self, done: Callable[[], Any]) -> Any:
        with gevent.Timeout(PATIENCE):
            while not (found := done()):
                gevent.sleep(0.002)
        return found


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def start(*argv: str, env: dict[str, str] | None = None, **options: Any) -> Watched:
        made.append(Watched(list(argv), env or {}, str(tmp_path), **options))
        return made[-1]

    yield start
    for watched in made:
        watched.process.stop()


def sh(line: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", line)


def test_both_ways_and_out(run: Any) -> None:
    watched = run("cat")
    watched.process.send(b"one\n")
    watched.process.send(b"two\n")
    watched.until(lambda: watched.data == b"one\ntwo\n")
    watched.process.stop()
    assert (watched.process.returncode, watched.exits) == (0, 1)
    assert repr(watched.process).endswith("exited 0>")


def test_it_leads_a_session_of_its_own(run: Any, tmp_path: Path) -> None:
    recorded: list[int] = []
    watched = run("cat", on_spawn=recorded.append)
    pid = watched.process.pid
    assert os.getpgid(pid) == os.getsid(pid) == pid
    assert recorded == [pid]


def test_its_environment_and_directory_are_the_given_ones(run: Any, tmp_path: Path) -> None:
    watched = run(*sh("pwd; env | sort"), env={"ONE": "1"})
    watched.until(lambda: watched.exits)
    lines = watched.data.decode().splitlines()
    assert lines[0] == str(tmp_path)
    assert {
        line
        for line in lines[1:]
        if not line.startswith(("_=", "PWD=", "SHLVL=", "OLDPWD=", "CRAZE_AGENT_MARK="))
    } == {
        "ONE=1",
        f"PATH={os.environ['PATH']}",
    }


def test_b31_no_descriptor_of_ours_is_in_the_child(run: Any, tmp_path: Path) -> None:
    held = [os.open(tmp_path, os.O_RDONLY), *os.pipe()]
    try:
        os.set_inheritable(held[0], True)
        watched = run(*sh("ls /proc/self/fd | wc -w"))
        watched.until(lambda: watched.exits)
        assert watched.data.split() == [b"4"]  # the three, and the listing's own
    finally:
        for fd in held:
            os.close(fd)


def test_b54_the_childs_ends_stay_blocking(run: Any) -> None:
    line = (
        "import fcntl,os; print([fcntl.fcntl(n, fcntl.F_GETFL) & os.O_NONBLOCK for n in (0,1,2)])"
    )
    watched = run(sys.executable, "-c", line)
    watched.until(lambda: watched.exits)
    assert watched.data == b"[0, 0, 0]\n"
    assert fcntl.fcntl(0, fcntl.F_GETFL) & os.O_NONBLOCK == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/nowhere/agent"], "/nowhere/agent: No such file or directory"),
        (["/tmp"], "/tmp: Permission denied"),
        (["a\0b"], "a\0b: embedded null byte"),
    ],
)
def test_programs_that_cannot_be_started(run: Any, argv: list[str], words: str) -> None:
    with pytest.raises(SpawnError) as raised:
        run(*argv)
    assert str(raised.value) == words


def test_a_directory_that_is_not_there() -> None:
    with pytest.raises(SpawnError, match=r"^/nowhere: No such file or directory$"):
        Watched(["/bin/true"], {}, "/nowhere")


def test_a_group_that_cannot_be_recorded_does_not_run(run: Any, marked: Any) -> None:
    def fail(pgid: int) -> None:
        raise OSError(28, "disk full")

    with pytest.raises(SpawnError, match="disk full"):
        run("cat", env={"MARK": "unrecorded-7"}, on_spawn=fail)
    assert marked("unrecorded-7") == []


# ---- how it ends ----


@pytest.mark.parametrize("pidfd", [True, False])
@pytest.mark.parametrize(
    ("line", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill $$", -15)]
)
def test_how_it_ended_is_known(run: Any, line: str, status: int, pidfd: bool) -> None:
    watched = run(*sh(f"echo last; {line}"), pidfd=pidfd)
    watched.until(lambda: watched.exits)
    assert watched.process.returncode == status
    assert watched.data == b"last\n"  # all it wrote came first


def test_one_that_minds_its_input_is_not_signalled(run: Any) -> None:
    watched = run(*sh("trap 'echo TERM; exit 1' TERM; cat; echo bye; exit 0"))
    watched.process.send(b"hello\n")
    watched.until(lambda: watched.data)
    watched.process.stop()
    assert watched.data == b"hello\nbye\n"
    assert watched.process.returncode == 0


def test_one_that_waits_for_a_signal_gets_it(run: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "EOF_WAIT", 0.05)
    watched = run(*sh("trap 'echo TERM; exit 3' TERM; echo up; while :; do sleep 0.01; done"))
    watched.until(lambda: watched.data)
    watched.process.stop()
    assert watched.data == b"up\nTERM\n"
    assert watched.process.returncode == 3


def test_b21_one_that_ignores_everything_is_killed(run: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "EOF_WAIT", 0.05)
    mocker.patch.object(limits, "TERM_WAIT", 0.05)
    watched = run(*sh("trap '' TERM INT HUP; echo up; while :; do sleep 0.05; done"))
    watched.until(lambda: watched.data)
    watched.process.stop()
    assert watched.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("pidfd", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        "sleep 60 & echo up; wait",  # ends at TERM, its child does not hear of it
        "(trap '' TERM HUP; while :; do sleep 0.05; done) & echo up; wait",
        "sleep 60 & echo up; cat",  # ends at the end of its input
        "sleep 60 & echo up; exit 0",  # gone before anybody asks
    ],
)
def test_b20_wrapper_agent_leaves_no_process(
    run: Any, mocker: Any, marked: Any, line: str, pidfd: bool
) -> None:
    mocker.patch.object(limits, "EOF_WAIT", 0.1)
    mocker.patch.object(limits, "TERM_WAIT", 0.1)
    word = f"wrapper-{os.getpid()}-{abs(hash(line))}"
    watched = run(*sh(line), env={"MARK": word}, pidfd=pidfd)
    watched.until(lambda: watched.data)
    watched.process.stop()
    watched.until(lambda: marked(word) == [])


@pytest.mark.skipif(sys.platform != "linux", reason="as /proc tells it")
@pytest.mark.parametrize("line", ["wait", "trap '' TERM; wait; wait; sleep 60", "cat"])
def test_b20_what_runs_outside_the_group_is_ended_too(
    run: Any, mocker: Any, marked: Any, line: str
) -> None:
    mocker.patch.object(limits, "EOF_WAIT", 0.1)
    mocker.patch.object(limits, "TERM_WAIT", 0.1)
    word = f"apart-{os.getpid()}-{abs(hash(line))}"
    apart = "setsid sh -c 'setsid sleep 60 & echo up; wait' &"
    watched = run(*sh(f"{apart} {line}"), env={"MARK": word, "PATH": os.environ["PATH"]})
    watched.until(lambda: watched.data)
    watched.until(lambda: len(marked(word)) >= 3)
    watched.process.stop()
    watched.until(lambda: marked(word) == [])


def test_b20_the_fake_agent_behind_a_wrapper(drive: Any, marked: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "EOF_WAIT", 0.1)
    mocker.patch.object(limits, "TERM_WAIT", 0.1)
    word = f"wrapped-{os.getpid()}"
    driven = drive("bad-wrapper", env={"MARK": word}).start()
    driven.turn()
    assert len(marked(word)) == 2
    os.kill(driven.process.pid, signal.SIGKILL)  # the wrapper alone
    driven.until(lambda: driven.process.exited.is_set())
    driven.agent.close()
    assert marked(word) == []


def test_a_grandchild_that_holds_the_pipes_delays_nothing_for_ever(run: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "DRAIN_WAIT", 0.1)
    line = "import os,time,sys\nif os.fork() == 0:\n os.setsid(); time.sleep(3); sys.exit()\n"
    watched = run(sys.executable, "-c", line)
    watched.until(lambda: watched.exits)
    assert watched.process.returncode == 0


def test_a_second_stop_joins_the_first(run: Any) -> None:
    watched = run("cat")
    stops = [gevent.spawn(watched.process.stop) for _ in range(3)]
    gevent.joinall(stops, raise_error=True)
    assert (watched.process.returncode, watched.exits) == (0, 1)


def test_b57_a_timeout_does_not_leave_a_stop_half_done(run: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "EOF_WAIT", 0.1)
    mocker.patch.object(limits, "TERM_WAIT", 0.1)
    watched = run(*sh("trap '' TERM; echo up; sleep 60"))
    watched.until(lambda: watched.data)
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.01):
        watched.process.stop()
    watched.until(lambda: watched.exits)


def test_b56_a_status_that_somebody_else_took(run: Any) -> None:
    watched = run(*sh("exit 5"), pidfd=False)
    os.waitpid(watched.process.pid, 0)
    watched.until(lambda: watched.exits)
    assert watched.process.returncode == 1


def test_b56_works_beside_gevents_own_children(run: Any) -> None:
    line = (
        "import gevent.monkey; gevent.monkey.patch_all()\n"
        "import os, subprocess, gevent\n"
        "from craze.agents.process import Process\n"
        "done = []\n"
        "p = Process(['/bin/sh','-c','cat; exit 4'], cwd='/', env=dict(os.environ),\n"
        "            on_data=print, on_exit=lambda: done.append(1))\n"
        "subprocess.run(['true'], check=True)\n"
        "p.stop()\n"
        "print(type(p._child).__module__, done)\n"
    )
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stdout == "subprocess [1]\n", done.stderr


def test_stderr_is_kept_by_its_end(run: Any) -> None:
    watched = run(sys.executable, "-c", "import sys; sys.stderr.write('x' * 300000 + 'end')")
    watched.until(lambda: watched.exits)
    assert watched.process.stderr == b"x" * (limits.STDERR_TAIL - 3) + b"end"


# ---- writing ----


def test_lines_go_out_whole_and_in_order_past_a_full_pipe(run: Any) -> None:
    watched = run("cat")
    lines = [b"%d " % n + b"x" * 50_000 + b"\n" for n in range(20)]
    written: list[int] = []
    for number, line in enumerate(lines):
        watched.process.send(line, lambda number=number: written.append(number))
    watched.until(lambda: watched.data == b"".join(lines))
    assert written == list(range(20))


def test_a_line_can_be_taken_back_until_it_is_begun(run: Any) -> None:
    watched = run(*sh("sleep 60"))
    first = watched.process.send(b"x" * 1_000_000)
    second = watched.process.send(b"y\n")
    assert watched.process.withdraw(second)
    assert not watched.process.withdraw(second)
    watched.until(lambda: first.begun)
    assert not watched.process.withdraw(first)
    assert not watched.process.flush(0.01)


def test_flush_waits_for_what_is_queued(run: Any) -> None:
    watched = run("cat")
    assert watched.process.flush(1)
    seen: list[int] = []
    watched.process.send(b"a\n", lambda: seen.append(1))
    assert watched.process.flush(PATIENCE)
    assert seen == [1]


def test_what_is_sent_to_one_that_has_gone_is_dropped(run: Any) -> None:
    watched = run(*sh("exec 0<&-; echo closed; sleep 60"))
    watched.until(lambda: watched.data)
    watched.process.send(b"x\n")
    watched.until(lambda: not watched.process._stdin_open)
    written: list[int] = []
    watched.process.send(b"y\n", lambda: written.append(1))
    os.killpg(watched.process.pid, signal.SIGKILL)
    watched.process.stop()
    watched.process.send(b"z\n", lambda: written.append(2))
    assert (written, watched.process._queued) == ([], 0)


def test_one_that_reads_nothing_is_given_up(run: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "OUTBOX", 200_000)
    watched = run(*sh("sleep 60"))
    for _ in range(10):
        watched.process.send(b"x" * 50_000)
    watched.until(lambda: watched.exits)
    assert watched.process.fault == "agent does not read its input"


def test_a_busy_agent_does_not_hold_the_loop(run: Any) -> None:
    watched = run(*sh("yes"))
    ticks = 0
    watched.until(lambda: watched.data)
    for _ in range(50):
        gevent.sleep(0)
        ticks += 1
    assert ticks == 50
