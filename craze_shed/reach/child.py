"""A child process on this machine, and its standard streams: started cleanly, ended completely.

It has a session and a group of its own, inherits nothing but its three streams, and is started by
the standard `subprocess`, whatever the program has patched. Its exit is learned from a pidfd on the
loop, or by polling where there is none: no SIGCHLD, and any thread will do; only in a program that
patched is it left to the loop, which reaps every child there. When it ends its whole group is
killed, so that a wrapper leaves nothing behind; what left the group is on its own.

Its stderr is read all the time, and its end kept. That is not waited for: a program that it left
behind may hold the other side open for as long as it likes.
"""

import contextlib
import importlib.util
import os
import signal
import subprocess
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import gevent
import gevent.event
import gevent.monkey
from gevent.fileobject import FileObjectPosix

from craze import greenlets
from craze.wire.limits import CHUNK
from craze_shed.reach import limits
from craze_shed.reach.errors import ReachError, reason
from craze_shed.reach.interface import Running
from craze_shed.reach.once import Once

_READ = 1


class Child:
    """A running child. `stdin` and `stdout` are descriptors, which stay the caller's; without one
    it gets nothing to read, and its output is thrown away. With `may_fork` it may go on in the
    background: its group is not killed when it ends by itself. Raises ReachError where it cannot
    be started."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        may_fork: bool = False,
    ) -> None:
        self.exited = gevent.event.Event()  # it is reaped, and what it said on stderr is read
        self.returncode: int | None = None  # negative for a signal; None also where it was lost
        self.stderr = b""
        self._reaped = False
        self.end = Once(f"child-end {argv[0]}", self._end)
        if _loop_reaps():
            # Before there is a child: the exit of a short one would come to nobody.
            gevent.get_hub().loop.install_sigchld()
        try:
            self._popen = _popen()(
                list(argv),
                env=dict(env),
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as failure:
            # A failure names what was not there, which is not always the program.
            what = getattr(failure, "filename", None) or argv[0]
            raise ReachError(f"{what}: {reason(failure)}") from failure
        self.pid: int = self._popen.pid
        # One that goes on in the background is for an instant in the group still.
        rest = (lambda: None) if may_fork else (lambda: self._signal(signal.SIGKILL))
        self._exit = _exit_of(self.pid, rest)
        os.set_blocking(self._popen.stderr.fileno(), False)
        self._reader = greenlets.spawn(f"child-stderr {self.pid}", self._read)
        self._watcher = greenlets.spawn(f"child-exit {self.pid}", self._watch)

    def __repr__(self) -> str:
        state = f"exited {self.returncode}" if self.exited.is_set() else "running"
        return f"<child {self.pid} {state}>"

    def _read(self) -> None:
        fd = self._popen.stderr.fileno()
        watcher = gevent.get_hub().loop.io(fd, _READ)
        try:
            while True:
                gevent.get_hub().wait(watcher)  # each time, or a flood would hold the loop
                if self._take(fd) == 0:
                    return
        finally:
            watcher.close()

    def _take(self, fd: int) -> int | None:
        """Read once; how much there was, 0 at the end, None where nothing is there."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return None
        self.stderr = (self.stderr + data)[-limits.STDERR_TAIL :]
        return len(data)

    def _watch(self) -> None:
        self.returncode = self._exit()
        self._reaped = True
        self._popen.returncode = self.returncode or 0  # it must not look for itself
        self._reader.kill()
        left = limits.LEFT_BEHIND
        while left > 0 and (size := self._take(self._popen.stderr.fileno())):
            left -= size
        self._popen.stderr.close()
        self.exited.set()

    def say(self, words: str) -> None:
        """Add words of ours to what it said."""
        before = b"\n" if self.stderr and not self.stderr.endswith(b"\n") else b""
        self.stderr = (self.stderr + before + words.encode() + b"\n")[-limits.STDERR_TAIL :]

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all gone; macOS says so
            os.killpg(self.pid, number)

    def _end(self) -> None:
        for number, patience in (
            (signal.SIGTERM, limits.TERM_WAIT),
            (signal.SIGKILL, limits.KILL_WAIT),
        ):
            if not self._reaped:  # its number may be another's after that
                self._signal(number)
            if self.exited.wait(patience):
                break
        self._watcher.join(limits.POLL)


class Program(Running):
    """A child as a command that runs: its standard streams are the stream.

    `again(child)` is asked when the child ended with not a byte of output: it may name another
    program, which is then started on the very same streams, so that nothing given to the first,
    which never read it, is lost. It raises ReachError where that fails. `closed(self)` hears of
    the end.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        again: Callable[[Child], Sequence[str] | None] | None = None,
        closed: Callable[["Program"], None] = lambda _: None,
    ) -> None:
        self._env = env
        self._again = again
        self._closed = closed
        self._over = gevent.event.Event()
        self._close = Once(f"close {argv[0]}", self._closing)
        into, ours_to, ours_from, out = _two_pipes(argv[0])
        self._theirs = [into, out]  # for as long as another child may be started on them
        # Only ours are made non-blocking: nobody else has them.
        self._to: Any = FileObjectPosix(ours_to, "wb", 0)
        self._from: Any = FileObjectPosix(ours_from, "rb", 0)
        try:
            self._start(argv)
        except ReachError:
            again = None
            self._to.close()
            self._from.close()
            raise
        finally:
            if again is None:
                self._let_go()
        self._minder = greenlets.spawn(f"program {self.pid}", self._mind)

    def __repr__(self) -> str:
        return f"<program {'closed' if self._close.begun else 'open'}, {self.child!r}>"

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def stderr(self) -> bytes:
        return self.child.stderr

    def recv(self, size: int, /) -> bytes:
        try:
            data: bytes = b"" if self._close.begun else self._from.read(size)
        except (OSError, ValueError) as failure:
            if self._close.begun:
                return b""
            raise ReachError(f"its output cannot be read: {reason(failure)}") from failure
        if data:
            self._let_go()
        return data

    def sendall(self, data: bytes, /) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._to.write(view) :]
        except (OSError, ValueError) as failure:
            raise ReachError(f"it reads no more input: {reason(failure)}") from failure

    def half_close(self) -> None:
        self._to.close()

    def exit(self, timeout: float) -> int | None:
        self._over.wait(timeout)
        return self.child.returncode if self._over.is_set() else None

    def close(self) -> None:
        self._close()

    def _start(self, argv: Sequence[str]) -> None:
        into, out = self._theirs
        self.child = Child(argv, env=self._env, stdin=into, stdout=out)

    def _mind(self) -> None:
        self.child.exited.wait()
        try:
            while self._again and self._theirs and (argv := self._again(self.child)):
                self._start(argv)
                self.child.exited.wait()
        except ReachError as failure:
            self.child.say(str(failure))
        finally:
            self._let_go()
            self._over.set()

    def _let_go(self) -> None:
        """It runs, or has ended, and is not started again: its end is seen on the streams now."""
        while self._theirs:
            close_fd(self._theirs.pop())

    def _closing(self) -> None:
        self._to.close()
        self._from.close()
        self._minder.kill()
        self._let_go()
        self.child.end()
        self._over.set()
        self._closed(self)


def _two_pipes(name: str) -> list[int]:
    """The ends of two pipes, each the one to read and the one to write. Raises ReachError."""
    ends: list[int] = []
    try:
        ends += os.pipe()
        ends += os.pipe()
    except OSError as failure:
        for end in ends:
            close_fd(end)
        raise ReachError(f"{name}: {reason(failure)}") from failure
    return ends


class Output(NamedTuple):
    """What became of a program that was run to its end."""

    exit: int | None
    stdout: bytes
    stderr: bytes


def output(
    argv: Sequence[str], env: Mapping[str, str], *, timeout: float, most: int = CHUNK
) -> Output:
    """Run a program with nothing to read. Raises ReachError where it cannot be started, takes
    longer than `timeout` seconds or prints more than `most` bytes."""
    data = b""
    with (
        Program(argv, env) as program,
        gevent.Timeout(timeout, ReachError(f"{argv[0]}: not done within {timeout:g} s")),
    ):
        program.half_close()
        while more := program.recv(CHUNK):
            data += more
            if len(data) > most:
                raise ReachError(f"{argv[0]}: printed more than {most} bytes")
        code = program.exit(timeout)
    return Output(code, data, program.stderr)


def _exit_of(pid: int, gone: Callable[[], None]) -> Callable[[], int | None]:
    """A function that waits for the exit of `pid`, calls `gone`, and gives the exit code, or None
    where that was lost. Where that is possible, it calls while `pid` is not reaped yet."""
    if _loop_reaps():
        # The program's own children are reaped by the loop, and ours with them.
        return _reaped_by_the_loop(pid, gone)
    try:
        pidfd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        pidfd = -1

    def wait() -> int | None:
        if pidfd >= 0:
            watcher = gevent.get_hub().loop.io(pidfd, _READ)
            try:
                gevent.get_hub().wait(watcher)
            finally:
                watcher.close()
                close_fd(pidfd)
            gone()
        try:
            while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
                gevent.sleep(limits.POLL)
        except ChildProcessError:
            return None  # somebody waits for every child of the program
        finally:
            if pidfd < 0:
                gone()
        return os.waitstatus_to_exitcode(ended[1])

    return wait


def _reaped_by_the_loop(pid: int, gone: Callable[[], None]) -> Callable[[], int | None]:
    watcher = gevent.get_hub().loop.child(pid)
    ended = gevent.event.Event()
    watcher.start(ended.set)  # before the loop runs again, or its exit could be missed

    def wait() -> int:
        try:
            ended.wait()
            gone()
            return os.waitstatus_to_exitcode(watcher.rstatus)
        finally:
            watcher.stop()
            watcher.close()

    return wait


def close_fd(fd: int) -> None:
    """Close a descriptor that nothing waits on. gevent's own close, in a program that patched, is
    put off until the loop has something else to do."""
    gevent.monkey.get_original("os", "close")(fd)


def _loop_reaps() -> bool:
    patched: bool = gevent.monkey.is_module_patched("subprocess")
    return patched and bool(gevent.get_hub().loop.default)


def _popen() -> Any:
    """The standard Popen. gevent replaces what it is made of: a program that patched gets a copy
    of it on the functions as they were, for this alone."""
    return _copied() if gevent.monkey.is_module_patched("subprocess") else subprocess.Popen


@cache
def _copied() -> Any:
    spec = importlib.util.find_spec("subprocess")
    assert spec is not None and spec.loader is not None
    copy: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    names = list(vars(os))
    copy.os = types.ModuleType("os")
    vars(copy.os).update(zip(names, gevent.monkey.get_original("os", names), strict=True))
    return copy.Popen
