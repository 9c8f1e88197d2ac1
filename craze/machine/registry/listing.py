"""A host's own place on the machine: its lock, its socket and its registry entry, and their end."""

import contextlib
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
        self,
        paths: Paths,
        lock: locks.Lock,
        listener: socket.socket,
        bound: files.Kept,
        entry: entries.Entry,
    ) -> None:
        self.listener = listener
        self.socket = entry.socket
        self.entry = entry
        self._paths = paths
        self._lock = lock
        self._bound = bound
        self._written: files.Kept | None = _write(paths, entry)

    def update(self, **members: Any) -> None:
        """Rewrite the entry with other members (`crazeSessionId=…, ready=True`).

        Raises OSError; the entry then is as it was. An entry that was unlisted stays so.
        """
        entry = self.entry._replace(**members)
        if self._written is not None:
            written = _write(self._paths, entry)
            self._written.close()
            self._written = written
        self.entry = entry

    def lost(self) -> str:
        """Why the host cannot be found any more (`its control socket P is gone`); "" if it can."""
        for what, kept in (("control socket", self._bound), ("registry entry", self._written)):
            if kept is not None and kept.lost:
                return f"its {what} {kept.path} {kept.lost}"
        return ""

    def unlist(self) -> None:
        """Leave the registry, and serve on. Raises OSError."""
        written, self._written = self._written, None
        if written is not None:
            written.remove()

    def unbind(self) -> None:
        """Give up the place: listener, entry, socket, then the lock; a second call does nothing.

        Only files that are still ours are removed. Raises OSError after all was tried.
        """
        failures = []
        for step in (self.listener.close, self.unlist, self._bound.remove, self._unlock):
            try:
                step()
            except OSError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

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
    try:
        with contextlib.ExitStack() as undo:
            lock = locks.take(paths.host_lock(host_id), sleep=sleep)
            undo.callback(lock.release, unlink=True)
            os.utime(lock.path)
            lock.write(f"{entry.pid} {host_id}")
            listener = sockets.bind(path)
            undo.callback(listener.close)
            bound = files.Kept.socket(path)
            undo.callback(bound.remove)
            listing = Listing(paths, lock, listener, bound, entry)
            undo.pop_all()
            return listing
    except (OSError, locks.Held) as failure:
        raise MachineError(f"{path}: {reason(failure)}") from None


def _write(paths: Paths, entry: entries.Entry) -> files.Kept:
    # Not durable: an entry means nothing after its process, so nothing after a power cut.
    return files.put(paths.entry(entry.hostId), entries.encode(entry))
