"""Text of a session made fit to show, and the bounds it is held to.

Escape sequences and controls are removed, never interpreted; lengths are bytes of UTF-8, and a cut
falls between characters.
"""

import re
from typing import Final
from unicodedata import category

MAX_FEED_MESSAGE_BYTES: Final = 8192
FEED_TRUNC_MARKER: Final = "…[truncated]"
MAX_APPROVAL_TOKEN_BYTES: Final = 128

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\|\Z)|\x1b[@-Z\\-_]")
# All but tab, newline, vertical tab, form feed and carriage return.
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_NO_TOKEN = re.compile("[\x00-\x20\x7f-\x9f]")


def size(text: str) -> int:
    """The bytes of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def cap(text: str, limit: int = MAX_FEED_MESSAGE_BYTES, marker: str = FEED_TRUNC_MARKER) -> str:
    """`text`, or its first `limit` bytes and then `marker` where it has more."""
    if size(text) <= limit:
        return text
    return text.encode(errors="replace")[:limit].decode(errors="ignore") + marker


def sanitize_text(text: str) -> str:
    """`text` of any number of lines, without escape sequences and controls, capped."""
    if not text.replace("\n", "").isprintable():  # what is printable is none of them
        text = _CONTROLS.sub("", _ANSI.sub("", text))
    return cap(text)


def sanitize_token(text: str) -> str:
    """`text` as one word: without escape sequences, controls and spaces."""
    return _NO_TOKEN.sub("", _ANSI.sub("", text))


def sanitize_line(text: str) -> str:
    """`text` on one line: sanitized, every run of white space one space."""
    return " ".join(sanitize_text(text.replace("\v", "").replace("\f", "")).split())


def displayed(text: str) -> str:
    """`text` trimmed and without the format characters that nobody sees."""
    if not text.isascii():
        text = "".join(char for char in text if category(char) != "Cf")
    return text.strip()


def token_count(tokens: int) -> str:
    """A number of tokens in three significant figures: 850, 1.23k, 12.3k, 2M."""
    if tokens < 1000:
        return str(max(0, tokens))
    for unit, letter in ((1_000, "k"), (1_000_000, "M")):
        scaled = tokens / unit
        places = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
        figures = f"{scaled:.{places}f}"
        if letter == "M" or float(figures) < 1000:
            break
    return (figures.rstrip("0").rstrip(".") if places else figures) + letter
