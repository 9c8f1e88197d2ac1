"""Another craze process, started in the background: its ready line, its exit, its end.

It has a session of its own, nothing for stdin, stdout and stderr, and the writing end of a pipe on
which it says once what came of it. It outlives whoever started it. Its exit is learned from a
pidfd on the loop, or by polling where there is none, and never from SIGCHLD.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

import gevent
from gevent.event import Event
from gevent.socket import wait_read

from craze import greenlets

from . import descriptors, environment, reexec

_POLL = 0.020
_CHUNK = 4096


class Gone(Exception):
    """This craze's own program is not there any more; `path` is what is missing."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is not there any more")
        self.path = path


class Background:
    """A process that was started. `on_exit(self)` is called once it has ended and is reaped."""

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        pipe: int,
        on_exit: Callable[["Background"], None],
    ) -> None:
        self.pid: int = child.pid
        self.exited = Event()
        self._child = child
        self._pipe = pipe
        self._on_exit = on_exit
        self._watcher = greenlets.spawn(f"child {self.pid}", self._watch)

    def __repr__(self) -> str:
        return f"<Background {self.pid} {self.status or 'running'}>"

    @property
    def status(self) -> str:
        """How it ended (`exit status 1`, `signal: killed`); "" while it runs."""
        code = self._child.returncode
        if code is None:
            return ""
        if code >= 0:
            return f"exit status {code}"
        return f"signal: {(signal.strsignal(-code) or str(-code)).lower()}"

    def line(self, timeout: float, limit: int) -> bytes:
        """The ready line, without its newline; the pipe is closed after it.

        b"" when it ended without a whole one. Raises TimeoutError, ValueError for one longer than
        `limit`.
        """
        said = b""
        try:
            with gevent.Timeout(timeout, TimeoutError(f"no ready line within {timeout:g}s")):
                while b"\n" not in said:
                    wait_read(self._pipe)
                    piece = os.read(self._pipe, _CHUNK)
                    if not piece:
                        return b""
                    said += piece
                    if len(said) > limit + 1:
                        raise ValueError(f"longer than {limit} bytes")
        finally:
            self.hang_up()
        return said.partition(b"\n")[0]

    def hang_up(self) -> None:
        """Wait for its ready line no more: a process that is not ready yet then ends by itself."""
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)

    def end(self, grace: float) -> bool:
        """End it: SIGTERM, `grace` seconds, SIGKILL to its group, as long again; whether it did."""
        self.signal(signal.SIGTERM)
        if self.exited.wait(grace):
            return True
        self.signal(signal.SIGKILL, group=True)
        return bool(self.exited.wait(grace))

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal, unless it has been reaped: until then its number is its own."""
        if self._child.returncode is None:
            try:
                (os.killpg if group else os.kill)(self.pid, number)
            except (ProcessLookupError, PermissionError):
                return

    def _watch(self) -> None:
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            fd = -1
        if fd >= 0:
            try:
                wait_read(fd)
            finally:
                os.close(fd)
        while self._child.poll() is None:
            gevent.sleep(_POLL)
        self.exited.set()
        self._on_exit(self)


def start(
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: str,
    child: str,
    on_exit: Callable[[Background], None] = lambda _: None,
) -> Background:
    """Start this very craze with `arguments` in the directory `cwd`.

    `environ` is ours, of which the child gets what is to be handed on; `child` is its kind
    (`environment.HUB_CHILD`, `HOST_CHILD`). Raises Gone, and OSError for everything else that keeps
    it from starting.
    """
    missing = reexec.missing()
    if missing:
        raise Gone(missing)
    reading, writing = os.pipe()
    try:
        with descriptors.as_given():
            process = subprocess.Popen(
                [*reexec.prefix(), *arguments],
                cwd=cwd,
                env=environment.handed_on(environ, _here(), child=child, ready=writing),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                start_new_session=True,
            )
    except BaseException as failure:
        os.close(reading)
        if isinstance(failure, FileNotFoundError) and os.path.isdir(cwd):
            raise Gone(reexec.prefix()[0]) from None
        raise
    finally:
        os.close(writing)
    os.set_blocking(reading, False)
    return Background(process, reading, on_exit)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"  # it was removed: nothing relative can be meant
