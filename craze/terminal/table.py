"""What a command prints of a session or a machine: a table, or one line of JSON.

Whatever the texts are made of, nothing in what is printed acts on a terminal, and nothing of it is
markup.
"""

import json as escapes
from collections.abc import Sequence
from typing import Any

from craze.wire import json
from craze.wire.cells import width
from craze.wire.plain import plain_line

_GAP = "  "


def columns(rows: Sequence[Sequence[str]]) -> str:
    """The rows as lines, the first one the headings: columns two spaces apart, nothing trailing, a
    dash for a cell in which nothing shows."""
    cells = [[plain_line(cell).strip() or "-" for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    return "".join(
        _GAP.join(
            cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)
        ).rstrip()
        + "\n"
        for row in cells
    )


def json_line(value: Any) -> str:
    """`value` as one line of JSON, members in their order; what does not show is escaped."""
    return raw_line(json.dumps(value))


def raw_line(data: bytes) -> str:
    """JSON as it came, on one line; what does not show is escaped."""
    text = data.decode().replace("\t", " ").replace("\r", " ")  # between tokens: strings have none
    if not text.isprintable():
        text = "".join(c if c.isprintable() else escapes.dumps(c)[1:-1] for c in text)
    return text + "\n"
