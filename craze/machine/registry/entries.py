"""A host's registry entry and its file (protocol tables 17.1)."""

import json
import os
from typing import Any, NamedTuple

from craze.machine import files
from craze.machine.errors import MachineError, reason
from craze.machine.paths import Paths

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
    os.fsencode(known.get("socket", ""))  # half a surrogate pair names no file
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
