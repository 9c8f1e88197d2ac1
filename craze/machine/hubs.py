"""The hub's own place on the machine: its lock, its socket and its record, and their end.

One hub runs in a namespace: whoever holds its lock. The record says where it listens and who it
is; a record without its lock held is what a hub that was killed left behind.
"""

import contextlib
import errno
import json
import os
import socket as names
import stat
import time
from typing import Any, NamedTuple

from gevent import socket

from . import files, locks, processes, runtime, sockets, trees
from .errors import MachineError, reason
from .ids import is_host_id
from .paths import Paths, hub_socket

_RECORD_BYTES = 64 * 1024


class Record(NamedTuple):
    """A hub's record, members in their order on disk."""

    protocol: int
    hubId: str
    ns: str
    pid: int
    startToken: str
    socket: str
    crazeVersion: str
    startedAt: str


class Found(NamedTuple):
    """A record as it was read, and which file it was read from."""

    record: Record
    file: files.Identity


class Held(Exception):
    """Another process is the namespace's hub, or is becoming it; unknown parts are 0 and ""."""

    def __init__(self, holder: locks.Holder) -> None:
        super().__init__(f"the hub's lock is held (pid {holder.pid or '?'})")
        self.pid = holder.pid
        self.hub = holder.id


class Place:
    """What a hub holds from `take` to `leave`."""

    __slots__ = ("_lock", "_record", "_socket", "listener", "record")

    def __init__(
        self,
        lock: locks.Lock,
        listener: socket.socket,
        bound: files.Kept,
        record: Record,
        written: files.Kept,
    ) -> None:
        self.listener = listener
        self.record = record
        self._lock = lock
        self._socket = bound
        self._record = written

    def lost(self) -> str:
        """Why the hub cannot be found any more (`its record P is gone`); "" if it can."""
        for what, kept in (("control socket", self._socket), ("record", self._record)):
            if kept.lost:
                return f"its {what} {kept.path} {kept.lost}"
        return "" if self._lock.named else f"its lock {self._lock.path} is another file now"

    def leave(self) -> None:
        """Give up the place: socket, record, then the lock; a second call does nothing.

        Only files that are still ours are removed. Raises OSError after all was tried.
        """
        failures = []
        for step in (self.listener.close, self._socket.remove, self._record.remove, self._unlock):
            try:
                step()
            except OSError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def _unlock(self) -> None:
        # Never unlinked: a name that comes and goes would let two hubs lock two files under it.
        self._lock.release(truncate=True)


def take(
    paths: Paths,
    hub_id: str,
    *,
    version: str,
    started_at: str,
    sleep: locks.Sleep = time.sleep,
) -> Place:
    """Become the namespace's hub: its lock, its socket, its record.

    Raises Held, and MachineError; nothing is left behind then.
    """
    trees.cache(paths, paths.hubs)
    path = paths.hub_lock
    try:
        with contextlib.ExitStack() as undo:
            lock = locks.take(paths.hub_lock, sleep=sleep)
            undo.callback(lock.release, truncate=True)
            lock.write(f"{os.getpid()} {hub_id}")
            path = hub_socket(runtime.socket_directory(paths))
            _clear(path)
            listener = sockets.bind(path)
            undo.callback(listener.close)
            bound = files.Kept.socket(path)
            undo.callback(bound.remove)
            record = Record(
                protocol=1,
                hubId=hub_id,
                ns=paths.namespace,
                pid=os.getpid(),
                startToken=processes.start_token(os.getpid()),
                socket=path,
                crazeVersion=version,
                startedAt=started_at,
            )
            # Not durable: a record means nothing after its process, so nothing after a power cut.
            written = files.put(paths.hub_record, encode(record))
            place = Place(lock, listener, bound, record, written)
            undo.pop_all()
            return place
    except locks.Held as held:
        raise Held(held.holder) from None
    except OSError as failure:
        raise MachineError(f"{failure.filename or path}: {reason(failure)}") from None


def read(paths: Paths) -> Found | None:
    """The namespace's record as it stands, whether its hub lives or not; None where there is none
    that names a hub. Raises MachineError for a tree that others can write to."""
    if not trees.cache_exists(paths, paths.hubs):
        return None
    try:
        which = files.named(paths.hub_record)
        record = decode(files.read(paths.hub_record, _RECORD_BYTES), paths.namespace)
    except (OSError, ValueError):
        return None
    return None if which is None else Found(record, which)


def encode(record: Record) -> bytes:
    """The bytes of a record's file."""
    return json.dumps(record._asdict(), indent=2).encode() + b"\n"


def decode(data: bytes, namespace: str) -> Record:
    """The record in its file's bytes, unknown members ignored and absent ones empty.

    Raises ValueError for one that does not say which hub of the namespace is where.
    """
    try:
        members = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(members, dict):
        raise ValueError("not a JSON object")
    known: dict[str, Any] = {}
    for name, kind in Record.__annotations__.items():
        value = members.get(name, kind())
        if type(value) is not kind:
            raise ValueError(f"{name} is no {kind.__name__}")
        known[name] = value
    record = Record(**known)
    os.fsencode(record.socket)  # half a surrogate pair names no file
    if not is_host_id(record.hubId) or record.pid <= 0 or record.ns != namespace:
        raise ValueError("it names no hub of this namespace")
    if not record.socket.startswith("/"):
        raise ValueError("it names no socket")
    return record


def _clear(path: str) -> None:
    """Remove the socket that a killed hub left at `path`. We hold its lock; a connection that is
    refused is the proof that nobody listens. Raises MachineError for anything else that is there.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise MachineError(f"{path} is not a socket (remove it)")
    with names.socket(names.AF_UNIX, names.SOCK_STREAM) as probe:
        probe.setblocking(False)
        code = probe.connect_ex(path)
    if code not in (errno.ECONNREFUSED, errno.ENOENT):
        raise MachineError(f"{path}: another process listens there")
    if code and not files.remove(path, files.identity(status)) and files.named(path):
        raise MachineError(f"{path} was replaced while it was looked at")
