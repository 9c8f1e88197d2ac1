"""A program of several commands, without its library's markup: help is a manual page, and a usage
error is one line that does not repeat what was typed.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from craze.terminal.flags import Flag
from craze.terminal.manual import Page, render

# The library's usage errors, by their public ancestor: where it keeps them has changed.
UsageError: Any = typer.BadParameter.__mro__[1]
_FLAG_ERRORS = ("NoSuchOption", "BadOptionUsage", "BadParameter", "MissingParameter")
_COUNTS = {1: "one argument", 2: "two arguments", 3: "three arguments"}


class More(NamedTuple):
    """What a command's page says besides its options, which are those it is parsed by: what follows
    the name in each line of the SYNOPSIS, and the sections after the OPTIONS."""

    arguments: Sequence[str] = ()
    sections: Sequence[tuple[str, str | list[str]]] = ()


class Group(TyperGroup):
    """The program itself."""

    page: ClassVar[Page]

    def get_help(self, ctx: Any) -> str:
        return render(self.page).rstrip("\n")


class Command(TyperCommand):
    """A command whose help is a page. `summaries` has a line for every command."""

    summaries: ClassVar[Mapping[str, str]]

    def more(self) -> Mapping[str, More]:
        """The pages, which are only loaded when one is shown."""
        return {}

    def get_help(self, ctx: Any) -> str:
        flags = [_flag(option) for option in self.params if option.param_type_name == "option"]
        arguments = "[FLAG...]" if flags else "[--help]"
        more = self.more().get(ctx.info_name, More())
        page = Page(
            ctx.command_path,
            self.summaries[ctx.info_name],
            [f"{ctx.command_path} {one}" for one in more.arguments or (arguments,)],
            self.help or "",
            flags,
            more.sections,
        )
        return render(page).rstrip("\n")

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().parse_args(ctx, args)
        except UsageError as failure:
            failure.ctx = failure.ctx or ctx  # a flag's value that is wrong or not there has none
            raise


def _flag(option: Any) -> Flag:
    """A command's option as its page lists it."""
    long, *_ = (name[2:] for name in option.opts if name.startswith("--"))
    short = "".join(name[1:] for name in option.opts if not name.startswith("--"))
    return Flag(long, "" if option.is_flag else option.metavar, option.help or "", short)


def unknown_command(program: str, arguments: Sequence[str], commands: Iterable[str]) -> str | None:
    """What is said of a first word that is no command, without repeating it; None where it is
    one, or a flag, or there is none."""
    word, known = arguments[0] if arguments else "", list(commands)
    if not word or word.startswith("-") or word in known:
        return None
    near = difflib.get_close_matches(word, known, 1)
    hint = f' (did you mean "{near[0]}"?)' if near else ""
    return f"{program}: unknown command; see {program} --help{hint}"


def usage(program: str, failure: Any) -> str:
    """What is said of a usage error."""
    path = failure.ctx.command_path if failure.ctx is not None else program
    missing = getattr(failure, "param", None)
    if type(failure).__name__ in _FLAG_ERRORS:
        if missing is not None and missing.param_type_name == "argument":
            return f"{path}: no {missing.metavar}; see {path} --help"
        return f"{path}: unknown or malformed flag; see {path} --help"
    parameters = failure.ctx.command.params if failure.ctx is not None else ()
    taken = [one.metavar for one in parameters if one.param_type_name == "argument"]
    most = f"{_COUNTS[len(taken)]} at most ({', '.join(taken)})" if taken else "no arguments"
    return f"{path}: takes {most}; see {path} --help"
