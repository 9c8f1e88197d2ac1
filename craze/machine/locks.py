"""Lifetime locks: a lock that is held is the one proof that its owner lives.

Locks are flocks, gone with their process however it ends. They are asked for without blocking (a
blocking flock stops the whole loop), for about a tenth of a second before "held" is believed: a
look at a lock may hold it for an instant. No descriptor reaches a child, which would keep the lock.
"""

import fcntl
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from . import files, processes
from .ids import is_token

PATIENCE = 0.100
_STEP = 0.005
_RENAMES = 3  # how often the name may come to stand for another file while we ask
_LINE_BYTES = 256
_PID_MAX = 2**31 - 1

Sleep = Callable[[float], object]


class Holder(NamedTuple):
    """Who wrote a lock's line; an unknown or dead pid is 0, an unknown id is ""."""

    pid: int
    id: str


class Held(Exception):
    """Somebody else holds the lock."""

    def __init__(self, path: str, holder: Holder) -> None:
        super().__init__(f"{path} is held (pid {holder.pid or '?'}, {holder.id or '?'})")
        self.path = path
        self.holder = holder


class Lock:
    """A lock held until `release`, or the end of the process."""

    __slots__ = ("_fd", "path", "which")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self.which = files.identity(os.fstat(fd))

    @property
    def named(self) -> bool:
        """Whether the name still stands for the file that is locked."""
        return files.named(self.path) == self.which

    def write(self, line: str) -> None:
        """Make `line` the file's content. Raises OSError."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, line.encode() + b"\n", 0)

    def release(self, *, unlink: bool = False, truncate: bool = False) -> None:
        """Let go, first emptying or unlinking the file; a second call does nothing."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            if truncate:
                os.ftruncate(fd, 0)
            if unlink:
                files.remove(self.path, self.which)
        finally:
            os.close(fd)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take(
    path: str, *, sleep: Sleep = time.sleep, patience: float = PATIENCE, create: bool = True
) -> Lock:
    """Take the lock at `path`, trying for `patience` seconds with `sleep` between the tries.

    Raises Held, FileNotFoundError (without `create`), OSError.
    """
    left = round(patience / _STEP)
    renames = 0
    while True:
        fd = _open(path, create)
        try:
            if _flock(fd, fcntl.LOCK_EX):
                lock = Lock(path, fd)
                if lock.named:
                    fd = -1
                    return lock
                renames += 1
                if renames == _RENAMES:
                    raise Held(path, Holder(0, ""))
                continue
        finally:
            if fd >= 0:
                os.close(fd)
        if not left:
            raise Held(path, holder(path))
        sleep(_STEP)
        left -= 1


def probe(path: str) -> Lock | bool:
    """Whether somebody holds the lock at `path`: True, or False, or the lock itself, now ours.

    A look is shared first, so that two looks at a dead host's lock do not take each other for its
    life. False: there is no such file, or somebody else is clearing it away. Raises OSError.
    """
    try:
        fd = _open(path, create=False)
    except FileNotFoundError:
        return False
    try:
        if not _flock(fd, fcntl.LOCK_SH):
            return True
        if not _flock(fd, fcntl.LOCK_EX):
            return False
        lock = Lock(path, fd)
        if not lock.named:
            return False
        fd = -1
        return lock
    finally:
        if fd >= 0:
            os.close(fd)


def holder(path: str) -> Holder:
    """Who a lock's file says holds it; unknown parts are 0 and ""."""
    try:
        line, newline, _ = files.read(path, _LINE_BYTES).partition(b"\n")
        pid, space, name = line.decode("ascii").partition(" ")
    except (OSError, ValueError):
        return Holder(0, "")
    if not newline or not space or not pid.isdigit() or not is_token(name):
        return Holder(0, "")
    number = int(pid)
    if not 0 < number <= _PID_MAX or processes.dead(number):
        return Holder(0, name)
    return Holder(number, name)


def _open(path: str, create: bool) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            if not create:
                raise
        try:
            return files.create(path, os.O_RDWR)
        except FileExistsError:
            continue  # another process created it first


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
