"""Text cut to terminal cells: how the row facts show a title or a reply (protocol tables 5.2).

A grapheme (a letter with its marks, an emoji sequence, a flag) is never cut apart. The rules are
those of Unicode's text segmentation as far as `unicodedata` can tell them, without a table.
"""

import re
from collections.abc import Iterator
from unicodedata import category, combining, east_asian_width

from craze.wire.limits import ROW_TEXT_CELLS

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_TAB = " " * 4
_ZWJ = "\u200d"
_EMOJI_STYLE = "\ufe0f"


def one_line(text: str, cells: int = ROW_TEXT_CELLS) -> str:
    """The first line of `text` that shows anything, trimmed and without control characters, in at
    most `cells` terminal cells; one that was cut ends with `…`. "" where nothing shows."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = _CONTROL.sub("", text[start:end].replace("\t", _TAB)).strip()
        if line:
            return _cut(line, cells)
        start = end + 1
    return ""


def width(text: str) -> int:
    """The terminal cells that `text` takes."""
    return len(text) if _plain(text) else sum(map(_width, graphemes(text)))


def graphemes(text: str) -> Iterator[str]:
    """`text` in pieces that are each shown as one character."""
    start = 0
    for at in range(1, len(text)):
        if not _joined(text, start, at):
            yield text[start:at]
            start = at
    if text:
        yield text[start:]


def _cut(line: str, cells: int) -> str:
    if _plain(line):
        return line if len(line) <= cells else line[: cells - 1] + "…"
    used = end = 0  # `end`: where the text that leaves a cell for the `…` ends
    at = 0
    for piece in graphemes(line):
        used += _width(piece)
        if used > cells:
            return line[:end] + "…"
        at += len(piece)
        if used < cells:
            end = at
    return line


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _joined(text: str, start: int, at: int) -> bool:
    """Whether the character at `at` belongs to the grapheme that began at `start`."""
    before, char = text[at - 1], text[at]
    if char < "\u0300":
        return False
    if _extends(char):
        return not _CONTROL.match(before)
    if before == _ZWJ:
        return _pictograph(char) and _pictograph(text[start])
    if _flag_half(char):
        return at - start == 1 and _flag_half(before)
    return _hangul_joined(before, char)


def _extends(char: str) -> bool:
    return (
        combining(char) != 0
        or category(char) in ("Mn", "Mc", "Me")
        or char in ("\u200c", _ZWJ)
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags, of a region's flag
    )


def _pictograph(char: str) -> bool:
    return char in "©®‼⁉" or (char >= "\u2100" and category(char) in ("So", "Sm", "Po", "Cn"))


def _flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _hangul_joined(before: str, char: str) -> bool:
    vowel = "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6"
    final = "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb"
    lead = "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c"
    syllable = "\uac00" <= char <= "\ud7a3"
    if "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c":
        return vowel or lead or syllable
    if "\uac00" <= before <= "\ud7a3":
        return final or (vowel and (ord(before) - 0xAC00) % 28 == 0)
    if "\u1160" <= before <= "\u11a7" or "\ud7b0" <= before <= "\ud7c6":
        return vowel or final
    return final and ("\u11a8" <= before <= "\u11ff" or "\ud7cb" <= before <= "\ud7fb")


def _width(piece: str) -> int:
    first = piece[0]
    if east_asian_width(first) in ("W", "F"):
        return 2
    if category(first) in ("Mn", "Me", "Cf", "Cc"):
        return 0
    if _flag_half(first):
        return 2
    return 2 if _EMOJI_STYLE in piece else 1
