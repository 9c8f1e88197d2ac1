"""The registry of live hosts: one entry a host, read by whoever looks for a session.

A host lives while it holds its lock; an entry whose lock can be had is a dead host's and is cleared
away by whoever finds it. Sockets are never touched here: only their host knows whose they are.
Protocol tables 17.1.
"""

import json
import os
from typing import Any, NamedTuple

from . import files, locks, trees
from .errors import MachineError, reason
from .ids import is_host_id
from .paths import Paths

ENTRY_BYTES = 64 * 1024


class Entry(NamedTuple):
    """A host's registry entry, members in their order on disk."""

    protocol: int
    hostId: str
    pid: int
    startedAt: str
    socket: str
    crazeSessionId: str = ""
    providerSessionId: str = ""
    incarnation: str = ""
    provider: str = ""
    workspace: str = ""
    ready: bool = False
    requestId: str = ""
    requestHash: str = ""
    stopping: bool = False

    @property
    def id(self) -> str:
        """What the entry's session is called to people: its craze session id, else the host's."""
        return self.crazeSessionId or self.hostId


_TYPES = Entry.__annotations__
_OMITTED = ("requestId", "requestHash", "stopping")  # when empty or false


class Scan(NamedTuple):
    """The live hosts in host-id order, and the ids of those whose entry could not be read."""

    entries: list[Entry]
    unreadable: list[str]


def encode(entry: Entry) -> bytes:
    """The bytes of an entry's file."""
    members = {
        name: value for name, value in entry._asdict().items() if value or name not in _OMITTED
    }
    return json.dumps(members, indent=2).encode() + b"\n"


def decode(data: bytes, host_id: str) -> Entry:
    """The entry of `host_id` in its file's bytes, unknown members ignored. Raises ValueError."""
    try:
        members = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(members, dict):
        raise ValueError("not a JSON object")
    known: dict[str, Any] = {}
    for name, kind in _TYPES.items():
        if name not in members:
            continue
        if type(members[name]) is not kind:
            raise ValueError(f"{name} is no {kind.__name__}")
        known[name] = members[name]
    if known.get("hostId") != host_id:
        raise ValueError("its hostId is another host's")
    try:
        return Entry(**known)
    except TypeError:
        raise ValueError("a required member is missing") from None


def read(paths: Paths, host_id: str) -> Entry:
    """A host's entry as it stands, whether the host lives or not.

    Raises FileNotFoundError when there is none, else MachineError when it cannot be read.
    """
    path = paths.entry(host_id)
    try:
        return decode(files.read(path, ENTRY_BYTES), host_id)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as failure:
        raise MachineError(f"{path}: {reason(failure)}") from None


def scan(paths: Paths) -> Scan:
    """Find every live host of this user, clearing dead ones away.

    Raises MachineError when the registry itself cannot be read.
    """
    found = Scan([], [])
    if not trees.cache_exists(paths, paths.hosts):
        return found
    try:
        names = sorted(os.listdir(paths.hosts))
    except OSError as failure:
        raise MachineError(f"{paths.hosts}: {reason(failure)}") from None
    for name in names:
        host_id, extension = os.path.splitext(name)
        if extension == ".json" and is_host_id(host_id):
            _look(paths, host_id, found, names)
    return found


def _look(paths: Paths, host_id: str, found: Scan, names: list[str]) -> None:
    try:
        held = locks.probe(paths.host_lock(host_id))
    except OSError:
        found.unreadable.append(host_id)  # whether it lives cannot be known
        return
    if isinstance(held, locks.Lock):
        _clear(paths, host_id, held, names)
    elif held:
        try:
            found.entries.append(read(paths, host_id))
        except FileNotFoundError:
            pass  # it unlisted itself meanwhile
        except MachineError:
            found.unreadable.append(host_id)


def _clear(paths: Paths, host_id: str, lock: locks.Lock, names: list[str]) -> None:
    """Remove what a dead host left in the registry, its lock last and while it is held."""
    entry = paths.entry(host_id)
    leftovers = files.temporaries(entry)
    try:
        files.remove(entry)
        for name in names:
            if name.startswith(leftovers):
                files.remove(os.path.join(paths.hosts, name))
        lock.release(unlink=True)
    except OSError:
        lock.release()  # the next look tries again
