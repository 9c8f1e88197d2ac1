"""The log of a host or hub: a 0600 file of stamped lines, rotated once; and the end of old ones."""

import os
import stat

from craze.clock import Clock
from craze.wire.plain import plain_line
from craze.wire.times import format_time

from . import files, locks
from .ids import is_host_id
from .paths import Paths

ROTATE_BYTES = 4 * 1024 * 1024
KEPT_SECONDS = 7 * 24 * 3600


class LogFile:
    """Lines `<time> <name>: <message>` at `path`; past `limit` bytes the file becomes `.1`.

    A line that cannot be written is lost: nothing fails for want of a log.
    """

    __slots__ = ("_clock", "_fd", "_limit", "_name", "_path")

    def __init__(self, path: str, name: str, clock: Clock, limit: int = ROTATE_BYTES) -> None:
        """Raises OSError when the log cannot be opened."""
        self._path = path
        self._name = name
        self._clock = clock
        self._limit = limit
        self._fd = _open(path)

    def write(self, message: str) -> None:
        """Append one line, made of whatever text: what would act on a terminal is left out."""
        if self._fd < 0:
            return
        line = f"{format_time(self._clock.now())} {self._name}: {plain_line(message)}\n"
        try:
            if os.fstat(self._fd).st_size >= self._limit:
                self._rotate()
            files.write(self._fd, line.encode("utf-8", "replace"))
        except OSError:
            return

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _rotate(self) -> None:
        os.rename(self._path, self._path + ".1")
        fd = _open(self._path)
        os.close(self._fd)
        self._fd = fd


def sweep(paths: Paths, clock: Clock) -> int:
    """Remove the logs and process-group files of hosts that have gone, a week after their last
    line; how many were removed. Never fails."""
    removed = 0
    try:
        names = os.listdir(paths.host_logs)
    except OSError:
        return 0
    oldest = clock.now() - KEPT_SECONDS * 1_000_000_000
    for name in names:
        host, _, kind = name.partition(".")
        if not is_host_id(host) or kind not in ("log", "log.1", "pgids"):
            continue
        path = os.path.join(paths.host_logs, name)
        try:
            if os.lstat(path).st_mtime_ns < oldest and not _lives(paths, host):
                removed += files.remove(path)
        except OSError:
            continue
    return removed


def _lives(paths: Paths, host: str) -> bool:
    held = locks.probe(paths.host_lock(host))
    if isinstance(held, locks.Lock):
        held.release()  # whoever scans the registry clears it away
        return False
    return held


def _open(path: str) -> int:
    # A log may be named: a pipe that nobody reads must not be waited for, and /dev/null is no
    # file of ours to close to others.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        os.fchmod(fd, 0o600)
    return fd
