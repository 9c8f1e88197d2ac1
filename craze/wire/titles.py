"""A session's title, made safe to show on one line (protocol tables 10.2)."""

import re

from craze.wire.limits import TITLE_RUNES

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


def normalize(title: str) -> str:
    """`title` on one line, cleaned, of at most 120 characters; "" when nothing is left of it.

    Normalizing twice changes nothing more.
    """
    shown = _DROPPED.sub("", _ESCAPES.sub("", _SURROGATE.sub("\ufffd", title)))
    return re.sub(r"\s+", " ", shown)[:TITLE_RUNES].strip()
