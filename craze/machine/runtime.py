"""The runtime base: the short, private directory under which sockets are bound.

The kernel holds a socket's path in about a hundred bytes, so a candidate whose paths would be
longer is passed over before anything is created. CRAZE_RUNTIME_DIR, once set, is the only one.
"""

import os
import stat
import sys
from collections.abc import Iterator

from craze.wire.limits import SOCKET_PATH

from . import trees
from .errors import MachineError, reason
from .paths import Paths, clean, host_socket

_LONGEST = "0" * 12  # a host id; hub.sock is shorter


def check_length(path: str) -> None:
    """Raise MachineError for a socket path over the limit, counted in bytes."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH:
        raise MachineError(
            f"the socket path {path} is {size} bytes, over the {SOCKET_PATH}-byte limit;"
            f" set CRAZE_RUNTIME_DIR to a shorter absolute path"
        )


def socket_directory(paths: Paths) -> str:
    """The directory of the namespace's sockets, created and checked; its canonical path.

    Raises MachineError: of CRAZE_RUNTIME_DIR when that is set, else naming every candidate tried.
    """
    given, namespace = paths.runtime, paths.namespace
    if given:
        if not given.startswith("/"):
            raise MachineError(f'rundir: CRAZE_RUNTIME_DIR="{given}" is not an absolute path')
        if clean(given) == "/":
            raise MachineError("rundir: CRAZE_RUNTIME_DIR=/ cannot be a craze-owned directory")
        return _use(clean(given), namespace, parents=True)
    tried: dict[str, str] = {}
    for candidate in _candidates(paths.xdg_runtime):
        base = trees.canonical(candidate)
        if base in tried:
            continue
        try:
            return _use(base, namespace, parents=False)
        except MachineError as failure:
            tried[base] = str(failure)
    raise MachineError(
        f"rundir: no usable directory for the control socket ({'; '.join(tried.values())});"
        f" set CRAZE_RUNTIME_DIR to a short absolute path you own"
    )


def _candidates(xdg: str) -> Iterator[str]:
    euid = os.geteuid()
    if xdg.startswith("/"):
        yield clean(os.path.join(xdg, "craze"))
    if sys.platform == "darwin":
        yield f"/private/tmp/craze-{euid}"
        return
    session = f"/run/user/{euid}"
    if _is_private(session):
        yield f"{session}/craze"
    yield f"/tmp/craze-{euid}"


def _is_private(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    mode = status.st_mode
    return stat.S_ISDIR(mode) and status.st_uid == os.geteuid() and stat.S_IMODE(mode) == 0o700


def _use(path: str, namespace: str, *, parents: bool) -> str:
    base = trees.canonical(path)
    check_length(host_socket(base, namespace, _LONGEST))
    directory = os.path.join(base, namespace)
    try:
        if parents:
            trees.home(os.path.dirname(base))
        trees.private(base)
        trees.ancestors(base, own_group=False)
        trees.private(directory, correct=True)
    except OSError as failure:
        raise MachineError(f"{failure.filename or base}: {reason(failure)}") from None
    return directory
