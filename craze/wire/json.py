"""JSON on the wire: written by the rules of codecs 1.1, read strictly at the door, fast inside.

What a client sends goes through `parse` and `members`: the standard library's scanner, which
refuses what is not JSON and tells where a value begins and ends. What we write, and what our own
peers wrote, goes through ujson, which this module alone imports.
"""

import json as _json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import ujson

T = TypeVar("T")
Scan = Callable[[str, int], tuple[Any, int]]

ABSENT: Final = object()  # what a member that was not sent reads as

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_NEXT = re.compile(r"[ \t\n\r]*([,}])[ \t\n\r]*")  # what follows a member


class NotJSON(ValueError):
    """The text is not JSON, or is JSON past what this program will read."""


class Repeated(dict[str, Any]):
    """An object that gave a member twice; `member` is its name. The last value won."""

    __slots__ = ("member",)
    member: str


def dumps(value: Any) -> bytes:
    """`value` as compact JSON in UTF-8 (codecs 1.1).

    A lone surrogate, which is no character, is written as `\\ufffd`. Raises ValueError for NaN,
    infinities and nesting without end, TypeError for what JSON has no form for.
    """
    global _plain
    try:
        if _plain:
            text = ujson.dumps(value, True, *_OPTIONS)
            if "\\" not in text or "\\u" not in text:  # the first is far quicker to look for
                return text.encode("ascii")
        text = ujson.dumps(value, False, *_OPTIONS)
    except OverflowError as failure:
        raise ValueError(str(failure)) from None
    _plain = text.isascii()
    if _plain:
        return text.encode("ascii")
    if "\u2028" in text or "\u2029" in text:
        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(r"\\ufffd", text).encode()


# encode_html_chars, escape_forward_slashes, sort_keys, indent, allow_nan: by position, since their
# names cost as much as the encoding of an event.
_OPTIONS: Final = (False, False, False, 0, False)

# ujson writes ASCII twice as fast when it may escape the rest. What is asked of it next is mostly
# of the kind that came last, so that is tried first; the bytes are the same either way.
_plain = True


def loads(data: bytes) -> Any:
    """The value of what a peer of ours wrote, fast and forgiving; lone surrogates read as U+FFFD.

    Every failure is a ValueError. A number past a double's range reads as infinity, which `dumps`
    refuses.
    """
    text = data.decode()
    # One character is looked for far faster than a word that is hardly ever there.
    if ("N" in text and "NaN" in text) or ("I" in text and "Infinity" in text):
        return parse(data)  # ujson takes them for numbers
    try:
        value = ujson.loads(data if text.isascii() else text)
        if "\\" in text and _may_hold_surrogates(text):
            return _scrubbed(value)
        return value
    except (RecursionError, OverflowError) as failure:
        raise ValueError(str(failure)) from None


def parse(data: bytes, *, duplicates: bool = False) -> Any:
    """The value of `data`, read strictly (protocol tables 2.4, check 3). Raises NotJSON.

    Refused besides what is no JSON at all: invalid UTF-8, a number past a double's range, an
    integer of thousands of digits, nesting past the interpreter's depth. A member given twice
    keeps its last value; with `duplicates` its object comes as a `Repeated`.
    """
    return _refusing(_whole, decode(data), _REPEATING if duplicates else _PLAIN)


def decode(data: bytes) -> str:
    """`data` as text. Raises NotJSON where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as failure:
        raise NotJSON(str(failure)) from None


def members(text: str) -> list[tuple[str, Any, int, int]] | None:
    """The top-level object's members in order: name, value, where the value begins and ends.

    A name given twice is there twice. None if `text` does not begin an object. Raises NotJSON.
    """
    return _refusing(_outline, text)


def elements(text: str) -> list[tuple[Any, int, int]] | None:
    """The elements of the array that `text` is: value, where it begins and ends.

    None if `text` does not begin an array. Raises NotJSON.
    """
    return _refusing(_row, text)


def _refusing(read: Callable[..., T], *args: Any) -> T:
    """What `read` gives; every failure of the scanner's as NotJSON."""
    try:
        return read(*args)
    except StopIteration:
        raise NotJSON("a value was expected") from None
    except (ValueError, RecursionError) as failure:
        raise NotJSON(str(failure)) from None


def _whole(text: str, scan: Scan) -> Any:
    value, end = scan(text, _after_space(text, 0))
    if _after_space(text, end) != len(text):
        raise NotJSON("text after the value")
    return _scrubbed(value) if _may_hold_surrogates(text) else value


def _outline(text: str) -> list[tuple[str, Any, int, int]] | None:
    at = _after_space(text, 0)
    if text[at : at + 1] != "{":
        return None
    found, end = _steps(text, _after_space(text, at + 1))
    if end != len(text):
        raise NotJSON("text after the value")
    if _may_hold_surrogates(text):
        return [(_scrubbed(name), _scrubbed(value), *place) for name, value, *place in found]
    return found


def _steps(text: str, at: int) -> tuple[list[tuple[str, Any, int, int]], int]:
    """The members from `at`, just past an object's opening brace, and where its text ends."""
    found: list[tuple[str, Any, int, int]] = []
    if text[at : at + 1] == "}":
        return found, _after_space(text, at + 1)
    while True:
        if text[at : at + 1] != '"':
            raise NotJSON("a member's name was expected")
        name, at = _PLAIN(text, at)
        colon = _COLON.match(text, at)
        if colon is None:
            raise NotJSON("a colon was expected")
        begin = colon.end()
        value, end = _PLAIN(text, begin)
        found.append((name, value, begin, end))
        mark = _NEXT.match(text, end)
        if mark is None:
            raise NotJSON("a comma or a closing brace was expected")
        at = mark.end()
        if mark[1] == "}":
            return found, at


def _row(text: str) -> list[tuple[Any, int, int]] | None:
    at = _after_space(text, 0)
    if text[at : at + 1] != "[":
        return None
    found: list[tuple[Any, int, int]] = []
    at = _after_space(text, at + 1)
    mark = text[at : at + 1]
    while mark != "]":
        value, end = _PLAIN(text, at)
        found.append((_scrubbed(value), at, end))
        at = _after_space(text, end)
        mark = text[at : at + 1]
        if mark == ",":
            at = _after_space(text, at + 1)
        elif mark != "]":
            raise NotJSON("a comma or a closing bracket was expected")
    if _after_space(text, at + 1) != len(text):
        raise NotJSON("text after the value")
    return found


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # the pattern matches nothing, too
    return found.end()


def _refuse(constant: str) -> NoReturn:
    raise NotJSON(f"{constant} is not JSON")


def _finite(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        raise NotJSON("a number is past a double's range")
    return number


def _noting_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    repeated = Repeated(made)
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            repeated.member = name
            break
        seen.add(name)
    return repeated


def _strict(**hooks: Any) -> Scan:
    decoder = _json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, **hooks)
    return decoder.scan_once  # type: ignore[attr-defined, no-any-return]


_PLAIN = _strict()
_REPEATING = _strict(object_pairs_hook=_noting_repeats)


def _may_hold_surrogates(text: str) -> bool:
    # Only an escape can bring one in: UTF-8 has none.
    return "\\ud" in text or "\\uD" in text


def _scrubbed(value: Any) -> Any:
    """`value` with lone surrogates replaced by U+FFFD."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_scrubbed(item) for item in value]
    if isinstance(value, dict):
        made = {_scrubbed(name): _scrubbed(item) for name, item in value.items()}
        if isinstance(value, Repeated):
            kept = Repeated(made)
            kept.member = _scrubbed(value.member)
            return kept
        return made
    return value
