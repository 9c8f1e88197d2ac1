"""Command lines in the manner of GNU, for the two commands that load no command-line library.

`--name=value`, `--name value`, `-n value`, `-nvalue`, switches in one cluster, `--` before what is
no flag. The last of a repeated flag counts. A flag's own rules are its command's to check.
"""

from collections.abc import Iterable
from typing import NamedTuple

_TRUE = ("1", "t", "T", "true", "True", "TRUE")
_FALSE = ("0", "f", "F", "false", "False", "FALSE")


class Flag(NamedTuple):
    """A flag; `value` is what its value is called in the help, "" for a switch."""

    name: str
    value: str = ""
    help: str = ""
    short: str = ""
    hidden: bool = False


HELP = Flag("help", help="Print this page.", short="h")


class BadFlag(Exception):
    """An unknown flag, or one without the value it needs; `name` as a flag's name, undashed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


Given = dict[str, "str | bool"]


def parse(flags: Iterable[Flag], arguments: list[str]) -> tuple[Given, list[str]]:
    """The flags given, by name, and the arguments that are none. Raises BadFlag."""
    by_name = {flag.name: flag for flag in (*flags, HELP)}
    by_short = {flag.short: flag for flag in by_name.values() if flag.short}
    given: Given = {}
    others: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            others.extend(rest)
        elif word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            flag = by_name.get(name)
            if flag is None:
                raise BadFlag(name)
            if flag.value:
                given[name] = value if equals else _next(rest, flag)
            else:
                given[name] = _switch(value, flag) if equals else True
        elif word.startswith("-") and word != "-":
            _cluster(word[1:], by_short, rest, given)
        else:
            others.append(word)
    return given, others


def _cluster(letters: str, by_short: dict[str, Flag], rest: Iterable[str], given: Given) -> None:
    while letters:
        flag = by_short.get(letters[0])
        if flag is None:
            raise BadFlag(letters[0])
        letters = letters[1:]
        if flag.value:
            given[flag.name] = letters.removeprefix("=") if letters else _next(rest, flag)
            return
        if letters.startswith("="):
            given[flag.name] = _switch(letters[1:], flag)
            return
        given[flag.name] = True


def _next(rest: Iterable[str], flag: Flag) -> str:
    for value in rest:
        return value
    raise BadFlag(flag.name)


def _switch(value: str, flag: Flag) -> bool:
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise BadFlag(flag.name)
