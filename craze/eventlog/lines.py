"""The journal's lines: their shapes, written and read (codecs 4.5). No I/O.

Every line is one JSON object that begins with `ts`, the time the line was accepted, and `type`. An
event's body is the record's own bytes, in and out.
"""

import re
from typing import Any, Final

from craze.eventlog.record import Record
from craze.wire import json, limits

HEADER_TEXT_BYTES: Final = 4096
NOTE_TEXT_BYTES: Final = 64 * limits.KIB

# The header's members with what stands for one that was not given; all are written.
HEADER: Final[dict[str, Any]] = {
    "incarnation": "",
    "crazeVersion": "",
    "os": "",
    "arch": "",
    "provider": "",
    "agentBinary": "",
    "cwd": "",
    "force": False,
    "interactive": False,
    "mode": "",
    "pid": 0,
}

# The other lines that are no event, likewise; a member of None is left out while it is unset.
NOTES: Final[dict[str, dict[str, Any]]] = {
    "session": {"providerSessionId": "", "loadedFrom": None, "agentBinary": None},
    "prompt": {"attempt": "", "text": "", "kind": ""},
    "prompt_end": {
        "attempt": "",
        "stopReason": None,
        "errClass": None,
        "errMessage": None,
        "durationMs": 0,
    },
    "diag": {"kind": "", "fields": {}},
}

_EVENT = re.compile(
    rb'\{"ts":"[^"\\]*","type":"event","seq":([0-9]{1,19}),(?:"at":"([^"\\]*)",)?'
    rb'"eventType":"([^"\\]*)",(?:"event"|("omitted")):'
)


class Gap:
    """Entries that found the queue full, from one accepted line to the next."""

    __slots__ = ("_at", "events", "first", "notes", "seq")
    size: Final = 0  # a gap is no burden on the queue

    def __init__(self, at: str) -> None:
        self._at = at
        self.first = 0
        self.seq = 0  # the last event's; 0 while only notes were dropped
        self.events = 0
        self.notes = 0

    def add(self, seq: int) -> None:
        """Count an event dropped, or a note, whose seq is 0."""
        if seq:
            self.first = self.first or seq
            self.seq = seq
            self.events += 1
        else:
            self.notes += 1

    def line(self) -> bytes:
        members: dict[str, Any] = {"ts": self._at, "type": "gap"}
        if self.seq:
            members |= {"fromSeq": self.first, "toSeq": self.seq}
        members |= {"droppedEvents": self.events, "droppedNotes": self.notes}
        members["error"] = "journal queue full"
        return json.dumps(members) + b"\n"


def header(at: str, members: dict[str, Any]) -> bytes:
    """The first line. Raises KeyError for a member that a header does not have."""
    line = {"ts": at, "type": "header", "format": 1, "eventCodec": 1, **_ordered(HEADER, members)}
    return json.dumps(_capped(line, HEADER_TEXT_BYTES)[0]) + b"\n"


def note(at: str, kind: str, members: dict[str, Any]) -> bytes:
    """A line of one of NOTES; texts past NOTE_TEXT_BYTES are cut and the line says so.

    Raises KeyError for another kind, or a member that the kind does not have.
    """
    line, cut = _capped(_ordered(NOTES[kind], members), NOTE_TEXT_BYTES)
    if cut:
        line["truncated"] = True
    return json.dumps({"ts": at, "type": kind, **line}) + b"\n"


def event(record: Record) -> bytes:
    """The line of a record; it is accepted when it is committed, so `ts` and `at` are one time."""
    at = record.at.encode()
    kind = _kinds.get(record.type)
    if kind is None:
        kind = _kinds[record.type] = json.dumps(record.type)
    if record.omitted is None and at:
        return b'{"ts":"%b","type":"event","seq":%d,"at":"%b","eventType":%b,"event":%b}\n' % (
            at, record.seq, at, kind, record.body,
        )  # fmt: skip
    body = b'"event":' + record.body
    if record.omitted is not None:
        body = b'"omitted":' + json.dumps(record.omitted)
    return b'{"ts":"%b","type":"event","seq":%d,%b"eventType":%b,%b}\n' % (
        at, record.seq, b'"at":"%b",' % at if at else b"", kind, body,
    )  # fmt: skip


_kinds: dict[str, bytes] = {}  # event types as JSON; there are some twenty


def seq_of(line: bytes) -> int:
    """The seq of an event's line, 0 for any other."""
    head = _EVENT.match(line)
    return int(head[1]) if head else 0


def read_event(line: bytes) -> Record:
    """The record of an event's line. Raises ValueError when it is malformed."""
    head = _EVENT.match(line)
    if head is None or not line.endswith(b"}"):
        raise ValueError("a malformed event line")
    seq, at, kind = int(head[1]), (head[2] or b"").decode(), head[3].decode()
    body = line[head.end() : -1]
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError(f"the body of record {seq} is no object")
    if head[4]:
        return Record(seq, kind, at, b"", value)
    if value.get("type") != kind:
        raise ValueError(f"the body of record {seq} is no {kind} event")
    return Record(seq, kind, at, body)


def read_other(line: bytes) -> dict[str, Any]:
    """The members of any line. Raises ValueError when it is no object with a type."""
    members = json.loads(line)
    if not isinstance(members, dict) or not isinstance(members.get("type"), str):
        raise ValueError("a line that is no object with a type")
    return members


def _ordered(shape: dict[str, Any], members: dict[str, Any]) -> dict[str, Any]:
    unknown = members.keys() - shape.keys()
    if unknown:
        raise KeyError(f"no such member: {sorted(unknown)[0]}")
    given = {name: members.get(name, unset) for name, unset in shape.items()}
    return {name: value for name, value in given.items() if value or shape[name] is not None}


def _capped(members: dict[str, Any], size: int) -> tuple[dict[str, Any], bool]:
    made = {}
    cut = False
    for name, value in members.items():
        if isinstance(value, str) and len(value) * 4 > size:
            data = value.encode(errors="replace")
            if len(data) > size:
                value, cut = data[:size].decode(errors="ignore"), True
        elif isinstance(value, dict):
            value, inner = _capped(value, size)
            cut = cut or inner
        made[name] = value
    return made, cut
