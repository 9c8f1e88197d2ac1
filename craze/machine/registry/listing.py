"""A host's own place on the machine: its lock, its socket and its registry entry, and their end."""

import os
import time
from collections.abc import Mapping
from typing import Any

from gevent import socket

from craze.machine import files, locks, runtime, sockets, trees
from craze.machine.errors import MachineError, reason
from craze.machine.paths import Paths

from . import entries


class Listing:
    """What a listed host holds from `bind` to `unbind`.

    `listener` is its listening socket, `socket` the path of it, `entry` what the registry says.
    """

    __slots__ = ("_bound", "_lock", "_paths", "_written", "entry", "listener", "socket")

    def __init__(
        self, paths: Paths, lock: locks.Lock, listener: socket.socket, entry: entries.Entry
    ) -> None:
        self.listener = listener
        self.socket = entry.socket
        self.entry = entry
        self._paths = paths
        self._lock = lock
        self._bound = files.named(self.socket)
        self._written: files.Identity | None = _write(paths, entry)

    def update(self, **members: Any) -> None:
        """Rewrite the entry with other members (`crazeSessionId=…, ready=True`).

        Raises OSError; the entry then is as it was. An entry that was unlisted stays so.
        """
        entry = self.entry._replace(**members)
        if self._written is not None:
            self._written = _write(self._paths, entry)
        self.entry = entry

    def lost(self) -> str:
        """Why the host cannot be found any more (`its control socket P is gone`); "" if it can."""
        places = [("control socket", self.socket, self._bound)]
        if self._written is not None:
            path = self._paths.entry(self.entry.hostId)
            places.append(("registry entry", path, self._written))
        for what, path, which in places:
            there = files.named(path)
            if there != which:
                how = "is gone" if there is None else "is another file now"
                return f"its {what} {path} {how}"
        return ""

    def unlist(self) -> None:
        """Leave the registry, and serve on. Raises OSError."""
        which, self._written = self._written, None
        if which is not None:
            files.remove(self._paths.entry(self.entry.hostId), which)

    def unbind(self) -> None:
        """Give up the place: listener, entry, socket, then the lock; a second call does nothing.

        Only files that are still ours are removed. Raises OSError after all was tried.
        """
        failures = []
        for step in (self.listener.close, self.unlist, self._unlink_socket, self._unlock):
            try:
                step()
            except OSError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def _unlink_socket(self) -> None:
        which, self._bound = self._bound, None
        if which is not None:
            files.remove(self.socket, which)

    def _unlock(self) -> None:
        self._lock.release(unlink=True)


def bind(
    paths: Paths,
    host_id: str,
    members: Mapping[str, Any],
    *,
    sleep: locks.Sleep = time.sleep,
) -> Listing:
    """Take a host's lock, bind its socket and list it.

    `members` are the entry's, but for its first (protocol, hostId) and `socket`: `startedAt`, a
    wire time, at least; `pid` is this process unless given. Raises MachineError, and leaves
    nothing behind then.
    """
    directory = runtime.socket_directory(paths)
    trees.cache(paths, paths.hosts)
    path = os.path.join(directory, host_id + ".sock")
    known = {"protocol": 1, "hostId": host_id, "pid": os.getpid(), **members, "socket": path}
    entry = entries.Entry(**known)
    lock = listener = None
    try:
        lock = locks.take(paths.host_lock(host_id), sleep=sleep)
        os.utime(lock.path)
        lock.write(f"{entry.pid} {host_id}")
        listener = sockets.bind(path)
        return Listing(paths, lock, listener, entry)
    except BaseException as failure:
        if listener is not None:
            listener.close()
            files.remove(path)
        if lock is not None:
            lock.release(unlink=True)
        if isinstance(failure, OSError | locks.Held):
            raise MachineError(f"{path}: {reason(failure)}") from None
        raise


def _write(paths: Paths, entry: entries.Entry) -> files.Identity:
    # Not durable: an entry means nothing after its process, so nothing after a power cut.
    return files.replace(paths.entry(entry.hostId), entries.encode(entry), durable=False)
