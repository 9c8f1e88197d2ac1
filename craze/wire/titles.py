"""A session's title, made safe to show on one line (protocol tables 10.2)."""

import re

from craze.wire.limits import TITLE_RUNES
from craze.wire.plain import plain


def normalize(title: str) -> str:
    """`title` on one line, cleaned, of at most 120 characters; "" when nothing is left of it.

    Normalizing twice changes nothing more.
    """
    return re.sub(r"\s+", " ", plain(title))[:TITLE_RUNES].strip()
