"""Text as the fold bounds and shows it: byte sizes, cuts on character boundaries, one-line words.

Sizes are UTF-8 bytes. A lone surrogate counts three, as the U+FFFD it is written as does.
"""

import re
from typing import Final

ELLIPSIS: Final = "…"
_ELLIPSIS_BYTES: Final = 3

# CSI, then OSC/DCS/SOS/PM/APC up to their terminator, then the two-character rest; 7 and 8 bit.
_ANSI: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS: Final[dict[int, str | None]] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0))),
    **dict.fromkeys(map(ord, "\n\r\t"), " "),
}
_CONTEXT_BEGINS: Final = '<shell_context>\n<command exit="'
_CONTEXT_ENDS: Final = "\n</shell_context>"


def size(text: str) -> int:
    """The bytes of `text`."""
    return len(text) if text.isascii() else len(_encoded(text))


def head(text: str, cap: int) -> str:
    """The beginning of `text` in at most `cap` bytes."""
    if len(text) <= cap // 4 or size(text) <= cap:
        return text
    data = _encoded(text[: cap + 1])
    end = cap
    while _inside(data[end]):
        end -= 1
    return _decoded(data[:end])


def head_marked(text: str, cap: int) -> str:
    """`head`, but a cut ends with `…`, which counts toward `cap`."""
    kept = head(text, cap)
    return kept if kept is text else head(text, cap - _ELLIPSIS_BYTES) + ELLIPSIS


def tail_marked(text: str, cap: int) -> str:
    """The end of `text` in at most `cap` bytes; a cut begins with `…`, which counts toward it."""
    if len(text) <= cap // 4 or size(text) <= cap:
        return text
    return ELLIPSIS + tail(text, cap - _ELLIPSIS_BYTES)


def tail(text: str, cap: int) -> str:
    """The end of `text` in at most `cap` bytes."""
    data = _encoded(text[-cap:])
    begin = max(0, len(data) - cap)
    while begin < len(data) and _inside(data[begin]):
        begin += 1
    return _decoded(data[begin:])


def one_line(text: str) -> str:
    """`text` on one line: no escape sequences, no controls, white space collapsed and trimmed."""
    return " ".join(_ANSI.sub("", text).translate(_CONTROLS).split())


def without_shell_context(text: str) -> str:
    """`text` without the shell context that a client may have put before a prompt's own words."""
    if not text.startswith(_CONTEXT_BEGINS):
        return text
    end = text.find(_CONTEXT_ENDS + "\n")
    if end < 0:
        return "" if text.endswith(_CONTEXT_ENDS) else text
    return text[end + len(_CONTEXT_ENDS) + 1 :].removeprefix("\n")


def _inside(byte: int) -> bool:
    """Whether a character does not begin at this byte."""
    return byte & 0xC0 == 0x80


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
