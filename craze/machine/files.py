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


class Kept:
    """A file of ours at `path`, known again for as long as it is kept.

    It is held open meanwhile: a file system may give the number of a file that was removed to the
    very next one that is made, in its place.
    """

    __slots__ = ("_fd", "_which", "path")

    def __init__(self, path: str, fd: int, which: Identity) -> None:
        self.path = path
        self._fd = fd
        self._which: Identity | None = which

    @classmethod
    def socket(cls, path: str) -> "Kept":
        """Keep the socket that is at `path`. Raises OSError."""
        # Linux alone can open a socket's name, and there alone are numbers used again.
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW) if hasattr(os, "O_PATH") else -1
        return cls(path, fd, identity(os.lstat(path) if fd < 0 else os.fstat(fd)))

    @property
    def lost(self) -> str:
        """How the name no longer stands for it (`is gone`); "" while it does."""
        there = named(self.path)
        if there == self._which:
            return ""
        return "is gone" if there is None else "is another file now"

    def close(self) -> None:
        """Keep it no longer, and leave the name."""
        fd, self._fd, self._which = self._fd, -1, None
        if fd >= 0:
            os.close(fd)

    def remove(self) -> None:
        """Unlink the name if it still stands for it; a second call does nothing. Raises OSError."""
        try:
            if self._which is not None:
                remove(self.path, self._which)
        finally:
            self.close()


def replace(path: str, data: bytes) -> None:
    """Put `data` at `path` in one step and on the disk. Blocks. Raises OSError."""
    fd = _put(path, data, durable=True)
    os.close(fd)
    _sync_directory(os.path.dirname(path))


def put(path: str, data: bytes) -> Kept:
    """Put `data` at `path` in one step, not waiting for the disk, and keep it. Raises OSError."""
    fd = _put(path, data, durable=False)
    return Kept(path, fd, identity(os.fstat(fd)))


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


def _put(path: str, data: bytes, *, durable: bool) -> int:
    """A descriptor of the file that is at `path` now."""
    suffix = int.from_bytes(os.urandom(5))
    temporary = os.path.join(os.path.dirname(path), f"{temporaries(path)}{suffix}")
    fd = create(temporary)
    try:
        write(fd, data)
        if durable:
            os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        os.close(fd)
        remove(temporary)
        raise
    return fd


def _sync_directory(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
