"""Reading events and their payloads as a peer sent them (codecs 1.1 to 1.5).

Writing needs no code of its own: an event is a plain dict in wire order and `craze.wire.json`
writes it. Reading is where the rules are: unknown members are ignored, an unknown type is kept,
a value of the wrong type is refused, and what is left is in wire order with its zero members gone,
so that an event read and written again is the same bytes.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from craze.events.members import EVENT, PAYLOADS, SECTIONS
from craze.wire.times import format_time, parse_time

Event = dict[str, Any]
Read = Callable[[Any], Any]

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"
# A time as this codec writes it needs no rewriting. (A 30th of February passes; it does no harm.)
_WRITTEN_TIME: Final = re.compile(
    r"(?!0001-01-01T00:00:00Z)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{0,8}[1-9])?Z"
)


class Shape:
    """How one kind of object is read: `order` names its members in wire order.

    `reads` says how the members that are not strings are read. `always` are the members that are
    always written, with what they are when they were not sent; `pointers` those whose zero value
    says something when it is there.
    """

    __slots__ = ("_always", "_kind", "_members", "_pointers")

    def __init__(
        self,
        kind: str,
        order: tuple[str, ...],
        reads: Mapping[str, Read] | None = None,
        *,
        always: Mapping[str, Any] | None = None,
        pointers: tuple[str, ...] = (),
    ) -> None:
        self._kind = kind
        self._members = {name: (reads or {}).get(name, string) for name in order}
        self._always = always or {}
        self._pointers = frozenset((*pointers, *self._always))

    def __call__(self, value: object) -> dict[str, Any]:
        """The object in `value`. Raises ValueError, which names the member at fault."""
        if not isinstance(value, Mapping):
            raise ValueError(f"expected an object, got {_kind_of(value)}")
        made: dict[str, Any] = {}
        for name, read in self._members.items():
            given = value.get(name)
            if given is None:
                if name in self._always:
                    made[name] = self._always[name]
                continue
            try:
                member = read(given)
            except ValueError as failure:
                raise ValueError(f"{self._kind}.{name}: {failure}") from None
            if member or isinstance(member, dict) or name in self._pointers:
                made[name] = member
        return made


def check(value: object) -> Event:
    """The event in `value`, as this build understands it. Raises ValueError for what is none."""
    event = SHAPES["event"](value)
    if not event.get("type"):
        raise ValueError("an event without a type")
    return event


def slash(value: object) -> dict[str, Any]:
    """The slash section in `value`: malformed rows are dropped alone, and never an error."""
    items = value.get("items") if isinstance(value, Mapping) else None
    if not isinstance(items, list):
        return {}
    rows = []
    for item in items:
        try:
            row = SHAPES["slashRow"](item)
        except ValueError:
            continue
        if _is_token(row.get("name", "")):
            rows.append(row)
    return {"items": rows} if rows else {}


def string(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"expected a string, got {_kind_of(value)}")


def integer(value: object) -> int:
    if type(value) is int:
        return value
    raise ValueError(f"expected an integer, got {_kind_of(value)}")


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"expected true or false, got {_kind_of(value)}")


def time(value: object) -> str:
    """A time as it is written; "" for the zero time."""
    words = string(value)
    if not words or _WRITTEN_TIME.fullmatch(words):
        return words
    try:
        instant = format_time(parse_time(words))
    except OverflowError as failure:
        raise ValueError(str(failure)) from None
    return "" if instant == _ZERO_TIME else instant


def many(read: Read) -> Read:
    """How a list is read whose items `read` reads."""

    def read_list(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {_kind_of(value)}")
        return [read(item) for item in value]

    return read_list


def one(kind: str) -> Read:
    """How an object of a kind in `SHAPES` is read."""
    return lambda value: SHAPES[kind](value)


def _answers(value: object) -> dict[str, list[str] | None] | None:
    """By sub-question: null and [] are different answers. An empty map is as good as none."""
    if not isinstance(value, Mapping):
        raise ValueError(f"expected an object, got {_kind_of(value)}")
    picked = {name: value[name] for name in sorted(value)}
    return {name: None if it is None else strings(it) for name, it in picked.items()} or None


def _is_token(name: str) -> bool:
    return bool(name) and name.split() == [name] and name.isprintable()


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds = ((str, "a string"), (int, "an integer"), (float, "a number"), (list, "a list"))
    return next((words for kind, words in kinds if isinstance(value, kind)), "an object")


strings = many(string)

# Members that are not strings.
_READS: Final[dict[str, dict[str, Read]]] = {
    "event": {
        "tool": one("tool"),
        "todos": many(one("todo")),
        "permission": one("permission"),
        "question": one("question"),
        "plan": one("plan"),
        "subagent": one("subagent"),
        "queue": one("queue"),
        "queuePos": integer,
        "command": one("command"),
        "interjection": boolean,
        "foreignTurn": one("foreignTurn"),
        "turn": one("turn"),
        "ask": one("ask"),
        "state": one("state"),
        "replay": one("replay"),
        "replayed": boolean,
        "compaction": one("compaction"),
        "err": one("err"),
        "at": time,
    },
    "tool": {
        "locations": strings,
        "output": one("output"),
        "diffs": many(one("diff")),
        "task": one("task"),
        "at": time,
    },
    "output": {"exitCode": integer, "truncated": boolean},
    "diff": {"added": integer, "removed": integer, "truncated": boolean},
    "task": {"durationMs": integer, "receipt": boolean, "background": boolean},
    "permission": {"options": many(one("permissionOption"))},
    "question": {"questions": many(one("subQuestion")), "auto": boolean, "answers": _answers},
    "subQuestion": {"options": many(one("questionOption")), "allowMultiple": boolean},
    "plan": {"todos": many(one("todo")), "auto": boolean, "accepted": boolean},
    "ask": {
        "answers": _answers,
        "skip": boolean,
        "accepted": boolean,
        "body": one("askBody"),
    },
    "askBody": {
        "permission": one("permission"),
        "question": one("question"),
        "plan": one("plan"),
    },
    "subagent": {
        "startedAt": time,
        "endedAt": time,
        "durationMs": integer,
        "toolCalls": integer,
        "turns": integer,
        "tokensUsed": integer,
        "toolsUsed": strings,
        "transcript": boolean,
        "background": boolean,
    },
    "queue": {"queuedAt": time, "version": integer},
    "command": {"pluginCommand": one("pluginCommand")},
    "foreignTurn": {"running": boolean},
    "turn": {"synthetic": boolean, "pending": integer},
    "compaction": {"tokensBefore": integer, "tokensAfter": integer},
    "state": {
        "config": one("config"),
        "commands": one("commands"),
        "plugins": one("plugins"),
        "sendNow": one("sendNow"),
        "usage": one("usage"),
        "catalog": one("catalog"),
        "slash": slash,
    },
    "err": {"code": integer},
    "config": {"options": many(one("option"))},
    "option": {"selectValues": many(one("selectValue"))},
    "commands": {"commands": many(one("agentCommand"))},
    "plugins": {"plugins": many(one("pluginCommand"))},
    "sendNow": {"armed": boolean},
    "usage": {
        "contextTokens": integer,
        "contextWindow": integer,
        "turn": one("spending"),
        "session": one("spending"),
    },
    "spending": {
        "input": integer,
        "output": integer,
        "reasoning": integer,
        "cacheRead": integer,
        "cacheCreation": integer,
        "costPicoUsd": integer,
        "unpriced": boolean,
    },
    "catalog": {"models": many(one("model")), "revision": integer},
    "model": {"recent": integer, "efforts": strings},
    "slashRow": {"whileWorking": boolean, "run": one("slashRun")},
    "slashRun": {"setting": one("slashSetting")},
}

_SPENT_NOTHING: Final = {name: False if name == "unpriced" else 0 for name in SECTIONS["spending"]}

# Members that are always written, and what they are when they were not sent.
_ALWAYS: Final[dict[str, dict[str, Any]]] = {
    "err": {"message": "", "class": "", "code": 0},
    "usage": {
        "contextTokens": 0,
        "contextWindow": 0,
        "turn": _SPENT_NOTHING,
        "session": _SPENT_NOTHING,
    },
    "spending": _SPENT_NOTHING,
    "catalog": {"revision": 0},
    "model": {"id": "", "name": ""},
}

# Members whose zero value says something, but which may be absent.
_POINTERS: Final[dict[str, tuple[str, ...]]] = {
    "output": ("exitCode",),
    "state": ("title", "mode", "model"),
    "slashRow": ("description", "source"),
}

SHAPES: Final[dict[str, Shape]] = {
    kind: Shape(
        kind,
        order,
        _READS.get(kind),
        always=_ALWAYS.get(kind),
        pointers=_POINTERS.get(kind, ()),
    )
    for kind, order in {"event": EVENT, **PAYLOADS, **SECTIONS}.items()
}
