"""What the event log's tests share: a log with readers, and journals written by hand."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from craze.clock import ManualClock
from craze.eventlog import EventLog, Record, Subscription, lines
from craze.wire import json

START = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
AT = "2026-01-01T00:00:00Z"
INCARNATION = "I-1"


def text(words: str = "x") -> dict[str, Any]:
    return {"type": "text", "text": words}


def body(words: str = "x") -> bytes:
    return json.dumps({**text(words), "at": AT})


def record(seq: int, words: str = "x") -> Record:
    return Record(seq, "text", AT, body(words))


def make_log(**options: Any) -> EventLog:
    options.setdefault("observer", lambda seq, event: None)
    return EventLog(INCARNATION, options.pop("clock", None) or ManualClock(START), **options)


def fill(log: EventLog, count: int, words: str = "x") -> None:
    for _ in range(count):
        log.commit(text(words))


def drain(subscription: Subscription) -> list[int]:
    """The seqs there are to take."""
    found = []
    while (taken := subscription.take()) is not None:
        found.append(taken.seq)
    return found


def header(**members: Any) -> bytes:
    return lines.header(AT, {"incarnation": INCARNATION, "cwd": "/w", **members})


def events(seqs: Iterable[int], words: str = "x") -> bytes:
    return b"".join(lines.event(record(seq, words)) for seq in seqs)


def gap(first: int, last: int) -> bytes:
    made = lines.Gap(AT)
    for seq in range(first, last + 1):
        made.add(seq)
    return made.line()


def write(path: Path, *parts: bytes) -> str:
    path.write_bytes(b"".join(parts))
    return str(path)
