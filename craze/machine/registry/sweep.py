"""What killed hosts left behind and no look at the registry finds: locks without an entry,
temporary files, and sockets that refuse.

Only what has lain for ten minutes is touched: a host that is just coming up has made some of its
files and not yet the others.
"""

import errno
import functools
import os
import socket
import stat
import sys
from collections.abc import Callable
from typing import NamedTuple

from craze.clock import Clock
from craze.machine import files, locks, runtime, trees
from craze.machine.errors import MachineError, reason
from craze.machine.ids import is_host_id
from craze.machine.paths import Paths

_OLD = 600 * 1_000_000_000


class Swept(NamedTuple):
    """How many of each were removed."""

    locks: int
    temporaries: int
    sockets: int


def sweep(paths: Paths, clock: Clock) -> Swept:
    """Remove what is left behind. Raises MachineError when the registry cannot be read."""
    before = clock.now() - _OLD
    if not trees.cache_exists(paths, paths.hosts):
        return Swept(0, 0, 0)
    try:
        names = os.listdir(paths.hosts)
    except OSError as failure:
        raise MachineError(f"{paths.hosts}: {reason(failure)}") from None
    present = set(names)
    orphans = temporaries = 0
    for name in names:
        path = os.path.join(paths.hosts, name)
        host_id, extension = os.path.splitext(name)
        if extension == ".lock" and is_host_id(host_id) and host_id + ".json" not in present:
            orphans += _removed(path, before, _unlocked)
        elif name.startswith(".") and is_host_id(name[1:13]):
            temporaries += _removed(path, before, files.remove)
    return Swept(orphans, temporaries, _sockets(paths, before))


def _sockets(paths: Paths, before: int) -> int:
    """The sockets of this namespace whose host is gone, where a refusal proves that."""
    if sys.platform != "linux":
        return 0
    try:
        directory = runtime.socket_directory(paths)
        names = os.listdir(directory)
    except (MachineError, OSError):
        return 0
    removed = 0
    for name in names:
        host_id, extension = os.path.splitext(name)
        if extension == ".sock" and is_host_id(host_id):
            refused = functools.partial(_refused, paths, host_id)
            removed += _removed(os.path.join(directory, name), before, refused)
    return removed


def _removed(path: str, before: int, remove: Callable[[str], bool]) -> bool:
    try:
        status = os.lstat(path)
        # A socket's times of change are those of its binding; a lock's its last owner's.
        stamp = status.st_ctime_ns if stat.S_ISSOCK(status.st_mode) else status.st_mtime_ns
        return stamp < before and remove(path)
    except OSError:
        return False


def _unlocked(path: str) -> bool:
    lock = locks.probe(path)
    if not isinstance(lock, locks.Lock):
        return False
    lock.release(unlink=True)
    return True


def _refused(paths: Paths, host_id: str, path: str) -> bool:
    held = locks.probe(paths.host_lock(host_id))
    if isinstance(held, locks.Lock):
        held.release()
    elif held:
        return False
    which = files.named(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            return False
    return files.remove(path, which)
