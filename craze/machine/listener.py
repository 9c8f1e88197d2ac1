"""Binding a Unix socket that nobody else can reach, and knowing it again later.

Nothing is probed or unlinked first: a name that is taken is an error, never ours to clear.
"""

import contextlib
import os
import socket as names

from gevent import socket

from . import files
from .runtime import check_length

_BACKLOG = 128


class Listener:
    """A listening 0600 socket at `path`; `which` is the file it made there."""

    __slots__ = ("path", "socket", "which")

    def __init__(self, path: str, sock: socket.socket, which: files.Identity) -> None:
        self.path = path
        self.socket = sock
        self.which = which

    def unlink(self) -> None:
        """Remove the name if it is still ours. Raises OSError."""
        files.remove(self.path, self.which)

    def close(self) -> None:
        self.socket.close()


def bind(path: str) -> Listener:
    """Listen at `path`. Raises MachineError for one that is too long, OSError for one taken."""
    check_length(path)
    sock = socket.socket(names.AF_UNIX, names.SOCK_STREAM)
    try:
        with contextlib.suppress(OSError):  # macOS has no such thing; its directory is 0700
            os.fchmod(sock.fileno(), 0o600)  # Linux: what bind gives the name, less the umask
        sock.bind(path)
        which = files.identity(os.lstat(path))
        try:
            os.chmod(path, 0o600)
            sock.listen(_BACKLOG)
        except BaseException:
            files.remove(path, which)
            raise
    except BaseException:
        sock.close()
        raise
    return Listener(path, sock, which)
