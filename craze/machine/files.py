"""Small files that are replaced, never edited: readers see the old or the new one, whole.

Every file is 0600 from its first instant, whatever the umask.
"""

import os
from typing import NamedTuple


class Identity(NamedTuple):
    """Which file a name stood for, so that only that file is removed later."""

    device: int
    inode: int


def identity(status: os.stat_result) -> Identity:
    return Identity(status.st_dev, status.st_ino)


def named(path: str) -> Identity | None:
    """The file that `path` names now, not following a link; None when there is none."""
    try:
        return identity(os.lstat(path))
    except FileNotFoundError:
        return None


def create(path: str, flags: int = os.O_WRONLY) -> int:
    """A descriptor of a new 0600 file at `path`. Raises FileExistsError for one that is there."""
    fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)  # a strict umask may have taken the owner's own bits
    return fd


def temporaries(path: str) -> str:
    """What the names of the temporary files of `path` begin with, in its directory."""
    return f".{os.path.basename(path)}."


def replace(path: str, data: bytes, *, durable: bool) -> Identity:
    """Put `data` at `path` in one step; `durable` waits for the disk. Blocks. Raises OSError."""
    directory = os.path.dirname(path)
    suffix = int.from_bytes(os.urandom(5))
    temporary = os.path.join(directory, f"{temporaries(path)}{suffix}")
    fd = create(temporary)
    try:
        try:
            write(fd, data)
            if durable:
                os.fsync(fd)
            which = identity(os.fstat(fd))
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        remove(temporary)
        raise
    if durable:
        _sync_directory(directory)
    return which


def write(fd: int, data: bytes) -> None:
    """Write all of `data` to a file. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read(path: str, limit: int) -> bytes:
    """The whole of a file of at most `limit` bytes. Raises OSError, and ValueError for a longer."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        parts = []
        left = limit + 1
        while left and (part := os.read(fd, left)):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(fd)
    if not left:
        raise ValueError(f"longer than {limit} bytes")
    return b"".join(parts)


def remove(path: str, which: Identity | None = None) -> bool:
    """Unlink `path` if it is there, and with `which` only if it still names that file."""
    if which is not None and named(path) != which:
        return False
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def _sync_directory(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
