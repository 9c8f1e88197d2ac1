"""Unix sockets of ours: binding one that nobody else can reach, and connecting to one.

Nothing is probed or unlinked before a bind: a name that is taken is an error, never ours to clear.
"""

import contextlib
import errno
import os
import socket as names

import gevent
from gevent import socket

from . import peer
from .runtime import check_length

_BACKLOG = 4096  # the kernel cuts it to what it allows; some peers take a full one for a dead host
_REDIAL = 0.010


def bind(path: str) -> socket.socket:
    """A 0600 socket that listens at `path`.

    Raises MachineError for a path that is too long, OSError for one that is taken.
    """
    check_length(path)
    sock = socket.socket(names.AF_UNIX, names.SOCK_STREAM)
    try:
        with contextlib.suppress(OSError):  # macOS has no such thing; its directory is 0700
            os.fchmod(sock.fileno(), 0o600)  # Linux: what bind gives the name, less the umask
        sock.bind(path)
        try:
            os.chmod(path, 0o600)
            sock.listen(_BACKLOG)
        except BaseException:
            os.unlink(path)
            raise
    except BaseException:
        sock.close()
        raise
    return sock


def dial(path: str, timeout: float) -> socket.socket:
    """A connection to the socket at `path`, its peer checked, within `timeout` seconds.

    A full backlog is dialled again until then: a busy server is not a missing one. Raises
    OSError (a path that is too long and TimeoutError among them) and peer.Stranger.
    """
    # A plain socket: gevent's connect would spin on a full backlog, which polls as writable.
    with names.socket(names.AF_UNIX, names.SOCK_STREAM) as sock:
        sock.setblocking(False)
        with gevent.Timeout(timeout, TimeoutError(f"no answer within {timeout:g}s")):
            while (code := sock.connect_ex(path)) == errno.EAGAIN:
                gevent.sleep(_REDIAL)
        if code:
            raise OSError(code, os.strerror(code))
        peer.check(sock)
        return socket.socket(fileno=sock.detach())
