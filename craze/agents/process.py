"""An agent's process: its own session and group, three pipes, and an end that leaves nothing.

It is started through the standard `subprocess`, whatever the program has patched; its exit is
learned from a pidfd on the loop, or by polling where there is none, and never from SIGCHLD. Once
the leader is gone the rest of its group is killed, before the leader is reaped, so that the group's
number cannot be anybody else's: a wrapper (`sh -c`, `npx`) leaves no agent behind. What the agent
ran outside its group is known by its mark (`craze.agents.marks`), and killed too.

Only our ends of the pipes are made non-blocking. Nobody shares them, so nobody else's descriptor
changes.
"""

import importlib.util
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gevent
import gevent.event
import gevent.monkey

from craze import greenlets
from craze.agents import limits, marks
from craze.agents.guard import Guard
from craze.wire.limits import CHUNK

_READ, _WRITE = 1, 2


class SpawnError(Exception):
    """The agent could not be started, or its group could not be recorded."""


class Outgoing:
    """One line on its way to the agent; `written` is called once all of it is in the pipe."""

    __slots__ = ("begun", "data", "written")

    def __init__(self, data: bytes, written: Callable[[], None] | None) -> None:
        self.data = data
        self.written = written
        self.begun = False


class Process:
    """A running agent. `on_data(bytes)` gets its stdout in order, from one greenlet, and must not
    wait; `on_exit()` is called once, when it has ended and all its output was handed over.

    `on_spawn(pgid)` records the group before anything else happens; its failure ends
    the agent. Raises SpawnError.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        on_data: Callable[[bytes], None],
        on_exit: Callable[[], None],
        on_spawn: Callable[[int], None] | None = None,
        pidfd: bool = True,
    ) -> None:
        self.returncode: int | None = None  # negative for a signal
        self.exited = gevent.event.Event()
        self.fault = ""  # why it was ended, where it did not end by itself
        self.stderr = b""
        self._on_data = on_data
        self._on_exit = on_exit
        self._waiting: deque[Outgoing] = deque()
        self._queued = 0
        self._to_write = gevent.event.Event()
        self._stdin_open = True
        self._stopping: gevent.Greenlet | None = None
        self._gone = gevent.event.Event()  # reaped, its last output perhaps not read yet
        self._mark = marks.fresh()
        popen = _popen()
        try:
            self._guard = Guard(popen)
        except OSError as failure:
            raise SpawnError(_words(failure, "its guard")) from failure
        try:
            self._child = popen(
                list(argv),
                cwd=cwd,
                env={**env, marks.NAME: self._mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as failure:
            self._guard.dismiss(gevent.sleep)
            raise SpawnError(_words(failure, argv[0])) from failure
        self.pid: int = self._child.pid
        self._guard.watch(self.pid)
        self._pidfd = _open_pidfd(self.pid) if pidfd else -1
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            os.set_blocking(pipe.fileno(), False)
        self._threads = [
            greenlets.spawn(f"agent-{name} {self.pid}", work, on_error=self.broken)
            for name, work in (
                ("stdin", self._write),
                ("stdout", self._read_stdout),
                ("stderr", self._read_stderr),
            )
        ]
        self._threads[0].rawlink(lambda _: self._child.stdin.close())
        self._watcher = greenlets.spawn(f"agent-exit {self.pid}", self._watch)
        if on_spawn is not None:
            try:
                on_spawn(self.pid)
            except OSError as failure:
                self._on_exit = lambda: None
                self._signal(signal.SIGKILL)
                self.stop()
                raise SpawnError(f"its process group was not recorded: {failure}") from failure

    def __repr__(self) -> str:
        state = "running" if self.returncode is None else f"exited {self.returncode}"
        return f"<agent process {self.pid} {state}>"

    # ---- writing ----

    def send(self, data: bytes, written: Callable[[], None] | None = None) -> Outgoing:
        """Queue `data` whole, after what is queued. Never waits; a line for an agent that has
        closed its stdin, or that reads nothing any more, is dropped and the agent ended."""
        entry = Outgoing(data, written)
        if not self._stdin_open:
            return entry
        if self._queued + len(data) > limits.OUTBOX:
            self.abandon("agent does not read its input")
            return entry
        self._waiting.append(entry)
        self._queued += len(data)
        self._to_write.set()
        return entry

    def withdraw(self, entry: Outgoing) -> bool:
        """Take back a line of which no byte was written. False when it is too late for that."""
        if entry.begun or entry not in self._waiting:
            return False
        self._waiting.remove(entry)
        self._queued -= len(entry.data)
        return True

    def flush(self, timeout: float) -> bool:
        """Wait until everything queued is in the pipe; whether it is."""
        written = gevent.event.Event()
        if not self._queued:
            return True
        self._waiting[-1].written = _both(self._waiting[-1].written, written.set)
        return bool(written.wait(timeout))

    def _write(self) -> None:
        fd = self._child.stdin.fileno()
        watcher = gevent.get_hub().loop.io(fd, _WRITE)
        try:
            while True:
                while self._waiting:
                    self._write_line(fd, watcher, self._waiting[0])
                if not self._stdin_open:
                    return
                self._to_write.clear()
                self._to_write.wait()
        except OSError:
            pass  # it reads no more: its exit, or the end of its output, says the rest
        finally:
            watcher.close()
            self._stdin_open = False
            self._waiting.clear()
            self._queued = 0

    def _write_line(self, fd: int, watcher: object, entry: Outgoing) -> None:
        entry.begun = True
        rest = memoryview(entry.data)
        while rest:
            try:
                rest = rest[os.write(fd, rest[:CHUNK]) :]
            except BlockingIOError:
                gevent.get_hub().wait(watcher)
        self._waiting.popleft()
        self._queued -= len(entry.data)
        if entry.written is not None:
            entry.written()

    def close_stdin(self) -> None:
        """End the agent's input; what is queued and not yet written is dropped."""
        if self._stdin_open:
            self._stdin_open = False
            self._threads[0].kill(block=False)

    # ---- reading ----

    def _read_stdout(self) -> None:
        self._read(self._child.stdout, self._on_data)
        if not self._gone.wait(limits.CLOSED_WAIT):
            self.abandon("agent closed its output")

    def _read_stderr(self) -> None:
        def keep(data: bytes) -> None:
            self.stderr = (self.stderr + data)[-limits.STDERR_TAIL :]

        self._read(self._child.stderr, keep)

    @staticmethod
    def _read(pipe: object, take: Callable[[bytes], None]) -> None:
        fd = pipe.fileno()  # type: ignore[attr-defined]
        hub = gevent.get_hub()
        watcher = hub.loop.io(fd, _READ)
        try:
            while True:
                hub.wait(watcher)  # each time, so that a busy agent does not hold the loop
                try:
                    data = os.read(fd, CHUNK)
                except BlockingIOError:
                    continue
                except OSError:
                    return
                if not data:
                    return
                take(data)
        finally:
            watcher.close()

    # ---- the end ----

    def abandon(self, fault: str) -> None:
        """Begin to end an agent that cannot be served any more; `fault` says why."""
        if self.returncode is None and not self.fault:
            self.fault = fault
        self.stop(wait=False)

    def broken(self, failure: BaseException) -> None:
        """A fault of our own: the agent is ended for it."""
        self.abandon(f"craze failed: {failure!r}")

    def _watch(self) -> None:
        if self._pidfd >= 0:
            watcher = gevent.get_hub().loop.io(self._pidfd, _READ)
            try:
                gevent.get_hub().wait(watcher)
            finally:
                watcher.close()
                os.close(self._pidfd)
            self._signal(signal.SIGKILL)  # the leader is a zombie: the group is still its own
        while not self._reap():
            gevent.sleep(limits.POLL)
        if self._pidfd < 0:
            self._signal_group(signal.SIGKILL)
        self._sweep()
        self._guard.dismiss(gevent.sleep)
        self._gone.set()
        gevent.joinall(self._threads[1:], timeout=limits.DRAIN_WAIT)
        gevent.killall(self._threads)
        for pipe in (self._child.stdout, self._child.stderr):
            pipe.close()
        self.exited.set()
        self._on_exit()

    def _sweep(self) -> None:
        """Kill what the agent ran outside its group, and what that starts meanwhile."""
        for _ in range(limits.SWEEPS):
            if not marks.kill(self._mark):
                break
            gevent.sleep(limits.GROUP_POLL)

    def _reap(self) -> bool:
        """Whether the leader is reaped by now. Where another part of the program waits for every
        child, its status is lost, and reads as exit status 1."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self.pid, 1 << 8
        if pid == 0:
            return False
        self.returncode = self._child.returncode = os.waitstatus_to_exitcode(status)
        return True

    def _signal(self, number: int) -> None:
        if self.returncode is None:
            self._signal_group(number)

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def stop(self, wait: bool = True) -> None:
        """End the agent and its whole group: stdin closed, then TERM, then KILL, then reaped.

        The work runs in a greenlet of its own: a timeout that hits the caller does not leave it
        half done, and a second call joins the first. With `wait` false it only begins.
        """
        if self._stopping is None:
            self._stopping = greenlets.spawn(f"agent-stop {self.pid}", self._stop)
        if wait:
            self._stopping.join()

    def _stop(self) -> None:
        self.close_stdin()
        for number, patience in (
            (0, limits.EOF_WAIT),
            (signal.SIGTERM, limits.TERM_WAIT),
            (signal.SIGKILL, limits.KILL_WAIT),
        ):
            self._signal(number)
            if self.exited.wait(patience):
                break
        self._watcher.join(limits.DRAIN_WAIT)
        tries = round(limits.GROUP_WAIT / limits.GROUP_POLL)
        while tries and self.returncode is not None and self._signal_group(0):
            tries -= 1
            gevent.sleep(limits.GROUP_POLL)


def _popen() -> Any:
    """The standard Popen. gevent patches the module that it lives in so deeply that the class it
    replaced works no more; a program that patched gets a copy of the module, for this alone."""
    if not gevent.monkey.is_module_patched("subprocess"):
        return subprocess.Popen
    spec = importlib.util.find_spec("subprocess")
    assert spec is not None and spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy.Popen


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _both(first: Callable[[], None] | None, second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        if first is not None:
            first()
        second()

    return call


def _words(failure: OSError | ValueError, program: str) -> str:
    """A failure to start in words: what was not there may be the directory."""
    what = getattr(failure, "filename", None) or program
    return f"{what}: {getattr(failure, 'strerror', None) or failure}"
