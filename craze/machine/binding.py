"""A host's own place on the machine: its lock, its socket and its registry entry, and their end."""

import os
import time
from collections.abc import Mapping
from typing import Any

from . import files, listener, locks, registry, runtime, trees
from .errors import MachineError, reason
from .paths import Paths


class Binding:
    """What a host holds between `bind` and `unbind`."""

    __slots__ = ("_lock", "_written", "entry", "listener", "paths")

    def __init__(
        self, paths: Paths, lock: locks.Lock, bound: listener.Listener, entry: registry.Entry
    ) -> None:
        self.paths = paths
        self.listener = bound
        self.entry = entry
        self._lock = lock
        self._written: files.Identity | None = _write(paths, entry)

    def update(self, **members: Any) -> None:
        """Rewrite the entry with other members (`crazeSessionId=…, ready=True`).

        Raises OSError; the entry then is as it was. An entry that was unlisted stays so.
        """
        entry = self.entry._replace(**members)
        if self._written is not None:
            self._written = _write(self.paths, entry)
        self.entry = entry

    def lost(self) -> str:
        """Why the host cannot be found any more (`its control socket P is gone`); "" if it can."""
        places = [("control socket", self.listener.path, self.listener.which)]
        if self._written is not None:
            path = self.paths.entry(self.entry.hostId)
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
            files.remove(self.paths.entry(self.entry.hostId), which)

    def unbind(self) -> None:
        """Give up the place: listener, entry, socket, then the lock; a second call does nothing.

        Only files that are still ours are removed. Raises OSError after all was tried.
        """
        failures = []
        for step in (
            self.listener.close,
            self.unlist,
            self.listener.unlink,
            lambda: self._lock.release(unlink=True),
        ):
            try:
                step()
            except OSError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]


def bind(
    paths: Paths,
    environ: Mapping[str, str],
    host_id: str,
    *,
    started_at: str,
    sleep: locks.Sleep = time.sleep,
    pid: int | None = None,
    **members: Any,
) -> Binding:
    """Take a host's lock, bind its socket and list it, its session's identity still empty.

    `members` are further members of the entry (workspace, provider, requestId, requestHash).
    Raises MachineError; nothing is left behind.
    """
    directory = runtime.socket_directory(environ, paths.namespace)
    trees.cache(paths, paths.hosts)
    path = os.path.join(directory, host_id + ".sock")
    pid = os.getpid() if pid is None else pid
    entry = registry.Entry(1, host_id, pid, started_at, path, **members)
    lock = bound = None
    try:
        lock = locks.take(paths.host_lock(host_id), sleep=sleep)
        os.utime(lock.path)
        lock.write(f"{pid} {host_id}")
        bound = listener.bind(path)
        return Binding(paths, lock, bound, entry)
    except BaseException as failure:
        if bound is not None:
            bound.close()
            bound.unlink()
        if lock is not None:
            lock.release(unlink=True)
        if isinstance(failure, OSError | locks.Held):
            raise MachineError(f"{path}: {reason(failure)}") from None
        raise


def _write(paths: Paths, entry: registry.Entry) -> files.Identity:
    # Not durable: an entry means nothing after its process, so nothing after a power cut.
    return files.replace(paths.entry(entry.hostId), registry.encode(entry), durable=False)
