"""The commands that may take their time to start, and what `craze` says of itself.

`bridge`, `serve` and `hub` never get here: they parse their own flags, and are listed for the help
and for completion alone.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

import typer

import craze
from craze.terminal import commands
from craze.terminal.commands import More
from craze.terminal.flags import Flag
from craze.terminal.manual import Page

from . import completion, failures, new, providers, ps
from .failures import Failure

# Every command with its line in the help. `hub` has none: whoever needs one starts it.
COMMANDS = {
    "bridge": "be one session's socket on stdin and stdout",
    "completion": "print the completion script of a shell",
    "new": "create a session, or bring a saved one back",
    "providers": "list the agents, and whether each can be started",
    "ps": "list the sessions that run",
    "serve": "serve one session until it is stopped or left alone",
    "version": "print the version",
}

# The library's usage errors, by their public ancestor: where it keeps them has changed.
_UsageError: Any = typer.BadParameter.__mro__[1]
_FLAG_ERRORS = ("NoSuchOption", "BadOptionUsage", "BadParameter", "MissingParameter")

_HELP = Page(
    "craze",
    "coding sessions that stay alive, for any number of clients",
    ["craze COMMAND [ARGUMENT...]", "craze --version"],
    """
    Keeps coding-agent sessions alive on this machine and serves each one to any number of clients:
    at this machine directly, from others over ssh.
    """,
    [Flag("version", help="Print the version.", short="v")],
    [
        ("COMMANDS", [f"{name:<10} {summary}" for name, summary in COMMANDS.items()]),
        ("EXIT STATUS", "0 for success, 1 for a failure, 2 for a usage error."),
        (
            "ENVIRONMENT",
            """
            HOME locates the sessions of this user; CRAZE_HOME the settings and saved sessions, and
            with them which sessions belong together (~/.craze). CRAZE_CONFIG is refused.
            """,
        ),
    ],
)


class Group(commands.Group):
    """`craze` itself."""

    page = _HELP


class Command(commands.Command):
    """A command, which does not run where CRAZE_CONFIG is set."""

    summaries = COMMANDS

    def more(self) -> Mapping[str, More]:
        from .pages import PAGES

        return PAGES

    def invoke(self, ctx: Any) -> Any:
        failures.refuse_config(os.environ)
        return super().invoke(ctx)


app = typer.Typer(
    name="craze",
    cls=Group,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(craze.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", "-v", is_eager=True, callback=_print_version),
) -> None:
    if ctx.invoked_subcommand is not None:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("craze: refusing to start TUI on a non-tty", failures.USAGE)
    print(ctx.get_help())


def version() -> None:
    """Prints the version of this craze, and nothing else."""
    print(craze.__version__)


for _command in (completion.completion, new.new, providers.providers, ps.ps, version):
    app.command(cls=Command, short_help=COMMANDS[_command.__name__])(_command)


def _register_stand_ins() -> None:
    """List the commands that are not run from here, with their flags."""
    from craze.bridge import command as bridge

    from . import serve

    for name, flags in (("bridge", bridge.FLAGS), ("serve", serve.FLAGS), ("hub", ())):
        hidden = name not in COMMANDS
        app.command(name, short_help=COMMANDS.get(name), hidden=hidden)(completion.stand_in(flags))


def main(arguments: list[str]) -> int:
    """Run `craze` with these arguments; its exit code."""
    if completion.VARIABLE in os.environ:
        _register_stand_ins()
        completion.prepare()
    try:
        unknown = commands.unknown_command("craze", arguments, COMMANDS)
        if unknown is not None:
            raise Failure(unknown, failures.USAGE)
        code = app(arguments, prog_name="craze", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as failure:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter tries again as it ends
        failures.report(failures.unwritten("craze", failure).line)
        return failures.RUNTIME
    except Failure as failure:
        failures.report(failure.line)
        return failure.code
    except commands.UsageError as failure:
        failures.report(commands.usage("craze", failure))
        return failures.USAGE
    except typer.Abort:
        return failures.RUNTIME
    return code if isinstance(code, int) else 0
