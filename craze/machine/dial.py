"""Connecting to a Unix socket of ours: a connect that waits its turn, then the peer check."""

import errno
import os
import socket as names

import gevent
from gevent import socket

from . import peer

_REDIAL = 0.010


def dial(path: str, timeout: float) -> socket.socket:
    """A connection to the socket at `path`, its peer checked, within `timeout` seconds.

    A full backlog is dialled again until then: a busy server is not a missing one. Raises
    OSError (a path that is too long among them), TimeoutError, peer.Stranger.
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
