"""Where a connection's bytes come from: a Unix socket, or a program's standard streams.

A socket's peer is checked before a byte is exchanged: whoever may create a socket at a path could
otherwise pose as the session's host.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import gevent
from gevent import os as cooperative

from craze.client.errors import ConnectionLost
from craze.machine import peer, processes, sockets
from craze.wire.limits import HANDSHAKE_TIMEOUT

PROGRAM_LEAVES = 1.0  # seconds a program has to end once its streams are closed and it was asked
POLL = 0.005  # seconds between looks at whether it has


def dial(path: str | os.PathLike[str], timeout: float = HANDSHAKE_TIMEOUT) -> Any:
    """A gevent socket connected to the Unix socket at `path`, its peer checked.

    Raises OSError where nothing listens or nothing answers within `timeout` seconds,
    ConnectionLost where the socket is another user's.
    """
    try:
        return sockets.dial(os.fspath(path), timeout)
    except peer.Stranger as stranger:
        raise ConnectionLost(f"{os.fspath(path)}: {stranger}") from None


class Program:
    """A running program as a stream: what it prints is received, what is sent it reads.

    `argv` and `env` are as subprocess takes them; its stderr is this process's. This is how a
    client talks through `craze bridge`, here or on the far side of an ssh.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        read, out = os.pipe()
        into, self._write = os.pipe()
        self._read = read
        try:
            self._process = subprocess.Popen(
                list(argv), stdin=into, stdout=out, env=env, start_new_session=True
            )
        except BaseException:
            os.close(read)
            os.close(self._write)
            raise
        finally:
            os.close(into)
            os.close(out)
        # Ours alone: the program's ends are descriptions of their own, and stay blocking.
        cooperative.make_nonblocking(self._read)
        cooperative.make_nonblocking(self._write)
        self.pid = self._process.pid

    def recv(self, size: int) -> bytes:
        """At most `size` bytes of its output; none at the end."""
        return bytes(cooperative.nb_read(self._read, size))

    def sendall(self, data: bytes) -> None:
        """Write all of `data` to its input."""
        view = memoryview(data)
        while view:
            view = view[cooperative.nb_write(self._write, view) :]

    def close(self) -> None:
        """Close both streams, end the program and what it started, and reap it."""
        if self._read < 0:
            return
        read, self._read = self._read, -1
        write, self._write = self._write, -1
        os.close(write)
        os.close(read)
        try:
            self._signal(signal.SIGTERM)
            with gevent.Timeout(PROGRAM_LEAVES, False):
                while not processes.dead(self.pid):
                    gevent.sleep(POLL)
        finally:
            # Its group may hold more than itself: what it started goes with it. Before it is
            # reaped, for afterwards the group's number may be another's.
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all gone; macOS says so
            os.killpg(self.pid, number)
