"""Writing TOML, which the standard library only reads: enough to give back any document it read."""

import re
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def dumps(document: dict[str, Any]) -> str:
    """The document's TOML, its keys in their order. Raises TypeError for what TOML cannot say."""
    return "".join(line + "\n" for line in _table(document, ())).lstrip("\n")


def _table(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    # A table's own values come before its sub-tables, which would swallow them.
    for key, value in table.items():
        if not _is_section(value):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if not _is_section(value):
            continue
        name = ".".join(map(_key, (*path, key)))
        if isinstance(value, dict):
            yield ""
            yield f"[{name}]"
            yield from _table(value, (*path, key))
            continue
        for item in value:
            yield ""
            yield f"[[{name}]]"
            yield from _table(item, (*path, key))


def _is_section(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    return isinstance(value, dict)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case float():
            return repr(value)  # inf and nan are TOML's words too
        case int():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case dict():
            pairs = (f"{_key(key)} = {_value(item)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _string(text: str) -> str:
    return '"' + "".join(map(_spelt, text)) + '"'


def _spelt(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return f"\\u{ord(char):04x}" if char < " " or char == "\x7f" else char
