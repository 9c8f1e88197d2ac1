"""Text from a peer made harmless: nothing in it acts on a terminal or turns its reading around."""

import re

# Whole escape sequences, 7-bit and 8-bit: strings (OSC, DCS, SOS, PM, APC) to their terminator or
# the text's end, CSI to its final byte, and the two-character ones with their intermediates.
_ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:[\x07\x18\x1a\x9c]|\x1b\\|(?=\x1b)|\Z)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
# Controls but newline and tab; invisible spaces and joins; what turns the reading direction. The
# joiners and marks U+200C to U+200F stay: scripts and emoji need them.
_DROPPED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def plain(text: str) -> str:
    """`text` without escape sequences, invisible and reordering characters, and controls other
    than newline and tab; lone surrogates become U+FFFD."""
    return _DROPPED.sub("", _ESCAPES.sub("", _SURROGATE.sub("\ufffd", text)))


def plain_line(text: str) -> str:
    """`text` made plain and put on one line, its newlines and tabs as spaces."""
    return plain(text).replace("\n", " ").replace("\t", " ")
