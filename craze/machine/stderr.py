"""Saying a line on stderr, whether or not anybody reads it: nothing fails for want of a reader."""

import os

from craze.wire.plain import plain_line


def say(line: str) -> None:
    """Write one line, made of whatever text: what would act on a terminal is left out."""
    data = plain_line(line).encode("utf-8", "replace") + b"\n"
    try:
        while data:
            data = data[os.write(2, data) :]
    except OSError:
        return
