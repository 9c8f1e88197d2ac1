"""The commands of `craze-shed` as one program: its help, its failures, its exit codes.

Every command ends in one of five ways: done, failed, a wrong command line, interrupted, or with
nobody knowing whether it was done. The last is never told as a failure.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

import gevent
import typer

import craze
from craze.terminal import commands
from craze.terminal.commands import More
from craze.terminal.flags import Flag
from craze.terminal.manual import Page
from craze_shed.cli import lanes, machines, output
from craze_shed.cli.output import Ending
from craze_shed.contract import errors

NAME = "craze-shed"

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Every command with its line in the help: first those of a machine, then those of one session.
COMMANDS = {
    "machines": "list the machines, and what craze does there",
    "sessions": "list the sessions of a machine",
    "options": "say what can be created there",
    "new": "create a session",
    "saved": "list the sessions that could run again",
    "resume": "run a saved session again",
    "history": "print the transcript of a session",
    "watch": "follow a session",
    "send": "send a prompt",
    "interject": "say something into the turn that runs",
    "cancel": "cancel the turn that runs",
    "approvals": "list what the session asks",
    "answer": "answer one of them",
    "settings": "list what can be set",
    "set": "change a setting",
    "rename": "give a session another title",
    "stop": "end a session",
}

_HELP = Page(
    NAME,
    "the coding sessions of any machine, from this one",
    [f"{NAME} COMMAND [FLAG...] [ARGUMENT...]", f"{NAME} --version"],
    """
    Lists the sessions that craze runs on a machine, creates them, and drives one of them. Each
    command but "machines" says by --machine which one it is about: this one if not given.

    A session is named by its id, or by at least four characters of its beginning or its end.
    """,
    [Flag("version", help="Print the version.", short="v")],
    [
        ("COMMANDS", [f"{name:<10} {summary}" for name, summary in COMMANDS.items()]),
        (
            "MACHINES",
            """
            `local` is this machine. `ssh:HOST` is reached by the ssh program, and HOST is whatever
            that takes: its configuration holds. `paramiko:HOST` is reached without that program.
            Any other word is a name of machines.toml.
            """,
        ),
        (
            "EXIT STATUS",
            """
            0 for success; 1 for a failure; 2 for a usage error; 4 when nobody knows whether it was
            done, because the answer was lost; 130 when it was interrupted.
            """,
        ),
        (
            "FILES",
            [
                "~/.config/craze-shed/machines.toml, or what CRAZE_SHED_CONFIG names:",
                "",
                "    [machines]",
                '    build = "ssh:me@build.example.org"',
            ],
        ),
    ],
)


class Group(commands.Group):
    """`craze-shed` itself."""

    page = _HELP


class Command(commands.Command):
    """A command, whose failures end it with a line and a code; with --json also with an object."""

    summaries = COMMANDS

    def more(self) -> Mapping[str, More]:
        from craze_shed.cli.pages import PAGES

        return PAGES

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except errors.Failure as failure:
            if ctx.params.get("as_json"):
                output.show_json({"error": {"code": failure.code, "message": failure.message}})
            unknown = failure.code == errors.OUTCOME_UNKNOWN
            code = output.OUTCOME_UNKNOWN if unknown else output.FAILURE
            raise Ending(failure.message, code) from None
        except KeyboardInterrupt:
            raise Ending(code=output.INTERRUPTED) from None


app = typer.Typer(
    name=NAME,
    cls=Group,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        output.show(craze.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", "-v", is_eager=True, callback=_print_version),
) -> None:
    if ctx.invoked_subcommand is None:
        output.show(ctx.get_help())


for _module in (machines, lanes):
    for _command in _module.COMMANDS:
        _name = _command.__name__.rstrip("_")
        app.command(_name, cls=Command, short_help=COMMANDS[_name])(_command)


def main(arguments: list[str]) -> int:
    """Run `craze-shed` with these arguments; its exit code. Raises NeedsPatching."""
    with _interruptible() as came:
        code = _run(arguments)
    return 128 + came[0] if came and code == output.INTERRUPTED else code


def _run(arguments: list[str]) -> int:
    name = f"{NAME} {arguments[0]}" if arguments and arguments[0] in COMMANDS else NAME
    try:
        unknown = commands.unknown_command(NAME, arguments, COMMANDS)
        if unknown is not None:
            output.report(unknown)
            return output.USAGE
        code = app(arguments, prog_name=NAME, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # the help, which the library prints
    except Ending as ending:
        if ending.line:
            output.report(f"{name}: {ending.line}")
        return ending.code
    except commands.UsageError as failure:
        output.report(commands.usage(NAME, failure))
        return output.USAGE
    except OSError as failure:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter tries again as it ends
        if not isinstance(failure, BrokenPipeError):
            output.report(f"{name}: write stdout: {(failure.strerror or str(failure)).lower()}")
        return output.FAILURE
    except typer.Abort:
        return output.FAILURE
    return code if isinstance(code, int) else 0


@contextlib.contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Have the signals that end a program interrupt the command itself, whichever greenlet runs
    when one comes: what it has started elsewhere would not end by itself. A second one ends the
    program there and then; one that is ignored stays so. Yields a list of those that came."""
    command = gevent.getcurrent()
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    caught = [number for number, does in before.items() if does is not signal.SIG_IGN]

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        for one in caught:
            signal.signal(one, signal.SIG_DFL)
        if gevent.getcurrent() is command:
            raise KeyboardInterrupt
        gevent.get_hub().loop.run_callback(command.throw, KeyboardInterrupt)

    for number in caught:
        signal.signal(number, interrupt)
    try:
        yield came
    finally:
        for number in caught:
            signal.signal(number, before[number])
