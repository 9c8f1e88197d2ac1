"""Directories that only this user can reach, created so and checked before each use.

A directory of craze's own is exactly 0700 (the setgid bit aside), owned by the effective user, no
symbolic link; one that is not is an error that says what to do, and is left as it is. Above it,
no other user may be able to put something else in its place.
"""

import os
import stat
from collections.abc import Iterator

from .errors import MachineError, reason
from .paths import Paths

_MODE = 0o7777
_SETGID = stat.S_ISGID


def canonical(path: str) -> str:
    """`path` with the symbolic links above its last part resolved."""
    parent, name = os.path.split(path)
    return os.path.join(os.path.realpath(parent), name)


def private(path: str, *, create: bool = True, correct: bool = False) -> None:
    """Require that `path` is a directory of ours, creating it where it is missing.

    `correct` sets the mode of one that we own (a socket directory); else a wrong one is an error.
    Raises MachineError, and FileNotFoundError when it is missing and `create` is false.
    """
    if create:
        _make(path)
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise MachineError(f"{path} is a symbolic link, and craze follows none there (remove it)")
    if not stat.S_ISDIR(status.st_mode):
        raise MachineError(f"{path} is not a directory (remove it)")
    if status.st_uid != os.geteuid():
        raise MachineError(
            f"{path} is owned by uid {status.st_uid}, and uid {os.geteuid()} is required"
        )
    mode = status.st_mode & _MODE
    if mode & ~_SETGID == 0o700:
        return
    if correct:
        os.chmod(path, 0o700 | mode & _SETGID)
        return
    raise MachineError(
        f"{path} has mode {mode:04o}, and 0700 is required;"
        f" craze never changes it (chmod 700 it or remove it)"
    )


def ancestors(path: str, *, own_group: bool) -> None:
    """Require that nobody else can replace what lies at `path`, a canonical path.

    `own_group` accepts a directory that its group may write when we own it. Raises MachineError.
    """
    euid = os.geteuid()
    for ancestor in _above(path):
        try:
            status = os.lstat(ancestor)
        except OSError as failure:
            raise MachineError(f"ancestor {ancestor}: {reason(failure)}") from None
        if not stat.S_ISDIR(status.st_mode):
            raise MachineError(f"ancestor {ancestor} is not a directory")
        if status.st_uid not in (0, euid):
            raise MachineError(
                f"ancestor {ancestor} is owned by uid {status.st_uid},"
                f" and root or uid {euid} is required"
            )
        mode = status.st_mode & _MODE
        writers = mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not writers or mode & stat.S_ISVTX:
            continue
        if own_group and writers == stat.S_IWGRP and status.st_uid == euid:
            continue
        who = "go" if writers & stat.S_IWOTH else "g"
        raise MachineError(
            f"ancestor {ancestor} is group- or world-writable without the sticky bit"
            f" (mode {mode:04o}), so another user could replace what craze puts under it;"
            f" if nobody else should write to it, run: chmod {who}-w {ancestor}"
        )


def cache(paths: Paths, directory: str) -> None:
    """Create what is missing of the cache tree down to `directory`, and check it.

    Raises MachineError.
    """
    try:
        _make(os.path.dirname(paths.cache))
        _check_cache(paths, directory, create=True)
    except OSError as failure:
        raise MachineError(f"{failure.filename or paths.cache}: {reason(failure)}") from None


def cache_exists(paths: Paths, directory: str) -> bool:
    """Check the cache tree down to `directory` as it stands; false when there is none yet.

    Raises MachineError when it is not ours alone.
    """
    try:
        _check_cache(paths, directory, create=False)
    except FileNotFoundError:
        return False
    except OSError as failure:
        raise MachineError(f"{failure.filename or paths.cache}: {reason(failure)}") from None
    return True


def home(directory: str) -> None:
    """Create the craze directory, or one below it, 0700 where it is missing. Raises OSError."""
    missing = []
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(missing):
        _make(path)


def _check_cache(paths: Paths, directory: str, *, create: bool) -> None:
    private(paths.cache, create=create)
    ancestors(canonical(paths.cache), own_group=True)
    private(directory, create=create)


def _make(path: str) -> None:
    """Make the directory `path`, 0700, unless something is there."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    mode = os.lstat(path).st_mode & _MODE
    if mode & 0o700 != 0o700:
        os.chmod(path, mode | 0o700)  # a strict umask took the owner's own bits


def _above(path: str) -> Iterator[str]:
    """The ancestors of `path`, nearest first, the root last."""
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent
