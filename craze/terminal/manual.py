"""A command's `--help`: a page in the manner of a manual, for a terminal of any kind."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from craze.terminal.flags import HELP, Flag

_WIDTH = 80
_INDENT = " " * 7


class Page(NamedTuple):
    """A manual page: `sections` are further pairs of a heading and a text to be filled, or lines to
    be kept."""

    name: str  # the command path
    summary: str
    synopsis: Sequence[str]
    description: str
    flags: Sequence[Flag] = ()
    sections: Sequence[tuple[str, str | list[str]]] = ()


def render(page: Page) -> str:
    """The page as text, ending with a newline."""
    parts = [
        _section("NAME", [f"{page.name} - {page.summary}"]),
        _section("SYNOPSIS", page.synopsis),
        _section("DESCRIPTION", _paragraphs(page.description)),
        _section("OPTIONS", _options((*page.flags, HELP))),
        *(
            _section(heading, _paragraphs(text) if isinstance(text, str) else text)
            for heading, text in page.sections
        ),
    ]
    return "\n".join(parts)


def _section(heading: str, lines: Iterable[str]) -> str:
    body = "".join(f"{_INDENT}{line}\n" if line else "\n" for line in lines)
    return f"{heading}\n{body}"


def _paragraphs(text: str) -> Iterable[str]:
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ""
        yield from _fill(" ".join(paragraph.split()))


def _options(flags: Iterable[Flag]) -> Iterable[str]:
    first = True
    for flag in flags:
        if flag.hidden:
            continue
        if not first:
            yield ""
        first = False
        dashed = f"--{flag.name}" + (f"={flag.value}" if flag.value else "")
        yield f"-{flag.short}, {dashed}" if flag.short else dashed
        for line in _fill(flag.help, len(_INDENT)):
            yield f"{_INDENT}{line}"


def _fill(text: str, less: int = 0) -> list[str]:
    width = _WIDTH - len(_INDENT) - less
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
