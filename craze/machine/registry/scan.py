"""Finding the live hosts: whoever looks clears the dead ones away.

A host lives while it holds its lock; an entry whose lock can be had is a dead host's. Sockets are
never touched here: only their host knows whose they are.
"""

import os
from typing import NamedTuple

from craze.machine import files, locks, trees
from craze.machine.errors import MachineError, reason
from craze.machine.ids import is_host_id
from craze.machine.paths import Paths

from .entries import Entry, read


class Scan(NamedTuple):
    """The live hosts in host-id order, and the ids of those whose entry could not be read."""

    entries: list[Entry]
    unreadable: list[str]


def scan(paths: Paths) -> Scan:
    """Find every live host of this user, clearing dead ones away.

    Raises MachineError when the registry itself cannot be read.
    """
    found = Scan([], [])
    names = _names(paths)
    unfinished: dict[str, list[str]] = {}
    for name in names:
        unfinished.setdefault(name[: name.rfind(".") + 1], []).append(name)
    for name in names:
        host_id, extension = os.path.splitext(name)
        if extension == ".json" and is_host_id(host_id):
            _look(paths, host_id, found, unfinished)
    return found


def any_live(paths: Paths) -> bool:
    """Whether any host of this user lives, or cannot be told from one that does; it looks no
    further than the first.

    Raises MachineError when the registry itself cannot be read.
    """
    for host_id in _registered(paths):
        try:
            held = locks.probe(paths.host_lock(host_id))
        except OSError:
            return True
        if held is True:
            return True
        if isinstance(held, locks.Lock):
            held.release()  # whoever lists the hosts clears it away
    return False


def _registered(paths: Paths) -> list[str]:
    return [
        name.removesuffix(".json")
        for name in _names(paths)
        if name.endswith(".json") and is_host_id(name.removesuffix(".json"))
    ]


def _names(paths: Paths) -> list[str]:
    """What lies in the registry, in order. Raises MachineError."""
    if not trees.cache_exists(paths, paths.hosts):
        return []
    try:
        return sorted(os.listdir(paths.hosts))
    except OSError as failure:
        raise MachineError(f"{paths.hosts}: {reason(failure)}") from None


def _look(paths: Paths, host_id: str, found: Scan, unfinished: dict[str, list[str]]) -> None:
    try:
        held = locks.probe(paths.host_lock(host_id))
    except OSError:
        found.unreadable.append(host_id)  # whether it lives cannot be known
        return
    if isinstance(held, locks.Lock):
        _clear(paths, host_id, held, unfinished)
    elif held:
        try:
            found.entries.append(read(paths, host_id))
        except FileNotFoundError:
            pass  # it unlisted itself meanwhile
        except MachineError:
            found.unreadable.append(host_id)


def _clear(paths: Paths, host_id: str, lock: locks.Lock, unfinished: dict[str, list[str]]) -> None:
    """Remove what a dead host left in the registry, its lock last and while it is held.

    `unfinished` are the directory's names by all but their last part: a temporary file's is the
    same for every one of its entry.
    """
    entry = paths.entry(host_id)
    try:
        files.remove(entry)
        for name in unfinished.get(files.temporaries(entry), ()):
            files.remove(os.path.join(paths.hosts, name))
        lock.release(unlink=True)
    except OSError:
        lock.release()  # the next look tries again
