"""Who is at the other end of a Unix socket: only this very user may be, root not excepted."""

import os
import socket
import struct
import sys

_UCRED = struct.Struct("iII")  # pid, uid, gid
_XUCRED = struct.Struct("II")  # macOS: version, uid; more follows
_LOCAL_PEERCRED = 1


class Stranger(Exception):
    """The peer is another user, or who it is cannot be known."""


def uid(sock: socket.socket) -> int:
    """The effective uid of the process at the other end. Raises OSError."""
    if sys.platform == "darwin":
        data = sock.getsockopt(0, _LOCAL_PEERCRED, 76)
        return int(_XUCRED.unpack_from(data)[1])
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return int(_UCRED.unpack(data)[1])


def check(sock: socket.socket) -> None:
    """Raise Stranger unless the peer runs as our own effective user.

    For both ends, before a byte is read or written.
    """
    try:
        theirs = uid(sock)
    except (OSError, struct.error) as failure:
        raise Stranger(f"its peer's user cannot be known: {failure}") from None
    if theirs != os.geteuid():
        raise Stranger(f"its peer runs as uid {theirs}, not as uid {os.geteuid()}")
