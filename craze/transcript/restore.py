"""Restoring a session from its snapshot (codecs 2.7), to fold the events after it.

What the snapshot left out for its budget stays as ledger records: they count toward the bounds as
the entries they stand for would, so that the restored fold drops what the original drops.
"""

import re
from typing import Any, Final

from craze.events import codec
from craze.events.codec import Shape, boolean, integer, many, one
from craze.transcript import text
from craze.transcript.entries import Entry, Record, Run, Transcript, plan_size, tool_size
from craze.transcript.model import Model
from craze.transcript.state import BOUNDS, CAPPED_SECTIONS, SECTIONS, Agent, Ask, Bounds
from craze.wire import limits

VERSION: Final = 1

_ID: Final = re.compile(r"(?!0+\.0+$)[0-9]+\.[0-9]+")
_STREAMS: Final = ("user", "assistant", "thought")


def restore(
    data: dict[str, Any],
    *,
    ask_cards: bool = True,
    plan_cards: bool = True,
    bounds: Bounds = BOUNDS,
) -> Model:
    """The session a snapshot document describes. Raises ValueError for what is no snapshot."""
    version = data.get("version") or 0
    if version != VERSION:
        raise ValueError(
            f"transcript: decode snapshot: version {version}, this build reads {VERSION}"
        )
    held = _SNAPSHOT(data)
    model = Model(
        held.get("incarnation", ""), ask_cards=ask_cards, plan_cards=plan_cards, bounds=bounds
    )
    model.seq = held.get("seq", 0)
    model.names.local = held.get("local", 0)
    model.finish_seq = held.get("finishSeq", 0)
    for row in held.get("agents", ()):
        info = row["info"]
        model.agents[info.get("id", "")] = Agent(
            info, row.get("finish", 0), row.get("truncated", False)
        )
    model.todos = held.get("todos", [])
    model.todos_truncated = held.get("todosTruncated", False)
    for ask in held.get("asks", ()):
        _restore_ask(model, ask)
    model.ended = {record["id"]: record for record in held.get("ended", ()) if "id" in record}
    _restore_turn(model, held.get("turn", {}))
    model.replaying = held.get("replaying", False)
    settings = held.get("settings", {})
    model.settings = {name: settings[name] for name in SECTIONS if settings.get(name)}
    model.cut_sections = set(settings.get("truncated", ()))
    model.queue = held.get("queue", [])
    model.cut_rows = set(held.get("truncatedQueue", ()))
    _restore_transcript(model.main, held["main"])
    for sub in held.get("subs", ()):
        _restore_transcript(model.child(sub["id"]), sub)
    return model


def _restore_ask(model: Model, held: dict[str, Any]) -> None:
    ident, kind = held.get("id", ""), held.get("kind", "")
    body = held.get("body", {}).get(kind)
    if ident and body is not None:
        model.asks[ident] = Ask(ident, kind, body, held.get("at", ""), held.get("truncated", False))


def _restore_turn(model: Model, held: dict[str, Any]) -> None:
    turn = model.turn
    turn.id = held.get("id", "")
    turn.text = held.get("text", "")
    turn.origin = held.get("origin", "")
    turn.at = held.get("at", "")
    turn.foreign = held.get("foreign")
    turn.truncated = held.get("truncated", False)


def _restore_transcript(transcript: Transcript, held: dict[str, Any]) -> None:
    transcript.trimmed = held.get("trimmed", False)
    transcript.windowed = held.get("windowed", False)
    transcript.dropped = held.get("dropped", 0)
    transcript.todo_planned = held.get("todoPlanned", 0)
    transcript.todo_done = held.get("todoDone", False)
    transcript.compacting = held.get("compacting")
    for record in held.get("omitted", ()):
        transcript.adopt_record(record)
    documents = held.get("entries", [])
    open_last = held.get("streamOpen", False)
    seen: set[str] = set()
    for index, document in enumerate(documents):
        ident = document.get("id", "")
        if not _ID.fullmatch(ident) or ident in seen:
            continue
        seen.add(ident)
        growing = open_last and index == len(documents) - 1 and document.get("streaming", False)
        if growing and document.get("kind") in _STREAMS:
            _restore_run(transcript, document, held.get("tailCut", False))
        else:
            transcript.adopt(_closed(document))
    kind = held.get("omittedRun", "")
    if open_last and kind and not transcript.entries and transcript.ledger:
        transcript.run = Run(kind, None)


def _restore_run(transcript: Transcript, document: dict[str, Any], tail_cut: bool) -> None:
    words = document.get("text", "")
    entry = Entry(id=document["id"], kind=document["kind"], text="")
    for name in ("at", "end"):
        if name in document:
            entry[name] = document[name]
    run = Run(entry["kind"], entry)
    if tail_cut:
        words = words.removeprefix(text.ELLIPSIS)
    run.add(words)
    if tail_cut or document.get("cut"):
        run.length = max(run.length, limits.STREAM_TEXT + 1)
    entry.size = min(run.length, limits.STREAM_TEXT)
    transcript.adopt(entry)
    transcript.run = run


def _closed(document: dict[str, Any]) -> Entry:
    """A restored entry that grows no more; a stray mark of growing goes."""
    entry = Entry(document)
    entry.pop("streaming", None)
    entry.pop("open", None)
    length = text.size(entry.get("text", ""))
    if length > limits.STREAM_TEXT:
        entry.pop("cut", None)
    if entry.get("cut"):
        entry.size = limits.STREAM_TEXT
    else:
        entry.size = length + tool_size(entry.get("tool", {})) + plan_size(entry.get("plan", {}))
    return entry


def _record(value: object) -> Record:
    if not isinstance(value, list) or len(value) not in (1, 2):
        raise ValueError("expected a ledger record")
    integer(value[0])
    if len(value) == 2:
        codec.string(value[1])
    return list(value)


_ENTRY_ERR = Shape("err", ("class", "code"), {"code": integer}, always={"class": "", "code": 0})
_ENTRY = Shape(
    "entry",
    (
        "id", "kind", "text", "tool", "plan", "err", "at", "end", "open", "interject",
        "streaming", "cut",
    ),
    {
        "tool": one("tool"),
        "plan": one("plan"),
        "err": _ENTRY_ERR,
        "at": codec.time,
        "end": codec.time,
        "open": boolean,
        "interject": boolean,
        "streaming": boolean,
        "cut": boolean,
    },
)  # fmt: skip
_COMPACTING = Shape("compacting", ("since", "reason"), {"since": codec.time})
_TRANSCRIPT = Shape(
    "transcript",
    (
        "id", "trimmed", "windowed", "dropped", "streamOpen", "tailCut", "todoPlanned",
        "todoDone", "omittedRun", "compacting", "omitted", "entries",
    ),
    {
        "trimmed": boolean,
        "windowed": boolean,
        "dropped": integer,
        "streamOpen": boolean,
        "tailCut": boolean,
        "todoPlanned": integer,
        "todoDone": boolean,
        "compacting": _COMPACTING,
        "omitted": many(_record),
        "entries": many(_ENTRY),
    },
    pointers=("id",),
)  # fmt: skip
_AGENT = Shape(
    "agent",
    ("info", "finish", "truncated"),
    {"info": one("subagent"), "finish": integer, "truncated": boolean},
    always={"info": {}},
)
_ASK = Shape(
    "ask",
    ("id", "kind", "body", "at", "truncated"),
    {"body": one("askBody"), "at": codec.time, "truncated": boolean},
)
_ENDED = Shape("ended", ("id", "kind", "outcome", "by", "at"), {"at": codec.time})
_TURN = Shape(
    "turn",
    ("id", "text", "origin", "at", "foreign", "truncated"),
    {"at": codec.time, "foreign": one("foreignTurn"), "truncated": boolean},
)
_SETTINGS = Shape(
    "settings",
    (*SECTIONS, "truncated"),
    {
        **{
            name: one(name)
            for name in ("config", "commands", "plugins", "sendNow", "usage", "catalog")
        },
        "slash": codec.slash,
        "truncated": Shape("truncated", CAPPED_SECTIONS, dict.fromkeys(CAPPED_SECTIONS, boolean)),
    },
)
_SNAPSHOT = Shape(
    "snapshot",
    (
        "incarnation", "seq", "local", "finishSeq", "agents", "todos", "todosTruncated", "asks",
        "ended", "turn", "replaying", "settings", "queue", "truncatedQueue", "main", "subs",
    ),
    {
        "seq": integer,
        "local": integer,
        "finishSeq": integer,
        "agents": many(_AGENT),
        "todos": many(one("todo")),
        "todosTruncated": boolean,
        "asks": many(_ASK),
        "ended": many(_ENDED),
        "turn": _TURN,
        "replaying": boolean,
        "settings": _SETTINGS,
        "queue": many(one("queue")),
        "truncatedQueue": codec.strings,
        "main": _TRANSCRIPT,
        "subs": many(_TRANSCRIPT),
    },
    always={"main": {}},
)  # fmt: skip
