"""The commands that may take their time to start, and what `craze` says of itself.

`bridge`, `serve` and `hub` never get here: they parse their own flags, and are listed for the help
and for completion alone.
"""

import difflib
import os
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

import craze

from . import completion, failures, new, providers, ps
from .failures import Failure
from .flags import Flag
from .manual import Page, render

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


class Group(TyperGroup):
    """`craze` itself."""

    def get_help(self, ctx: Any) -> str:
        return render(_HELP).rstrip("\n")


class Command(TyperCommand):
    """A command whose help is a page, and which does not run where CRAZE_CONFIG is set."""

    def get_help(self, ctx: Any) -> str:
        from .pages import PAGES, More

        flags = [_flag(option) for option in self.params if option.param_type_name == "option"]
        arguments = "[FLAG...]" if flags else "[--help]"
        more = PAGES.get(ctx.info_name, More())
        page = Page(
            ctx.command_path,
            COMMANDS[ctx.info_name],
            [f"{ctx.command_path} {one}" for one in more.arguments or (arguments,)],
            self.help or "",
            flags,
            more.sections,
        )
        return render(page).rstrip("\n")

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().parse_args(ctx, args)
        except _UsageError as failure:
            failure.ctx = failure.ctx or ctx  # a flag's value that is wrong or not there has none
            raise

    def invoke(self, ctx: Any) -> Any:
        failures.refuse_config(os.environ)
        return super().invoke(ctx)


def _flag(option: Any) -> Flag:
    """A command's option as its page lists it."""
    long, *_ = (name[2:] for name in option.opts if name.startswith("--"))
    short = "".join(name[1:] for name in option.opts if not name.startswith("--"))
    return Flag(long, "" if option.is_flag else option.metavar, option.help or "", short)


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
        _check_command(arguments)
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
    except _UsageError as failure:
        failures.report(_usage(failure))
        return failures.USAGE
    except typer.Abort:
        return failures.RUNTIME
    return code if isinstance(code, int) else 0


def _check_command(arguments: list[str]) -> None:
    """Raise Failure for a first word that is no command, without repeating what was typed."""
    word = arguments[0] if arguments else ""
    if not word or word.startswith("-") or word in COMMANDS:
        return
    near = difflib.get_close_matches(word, COMMANDS, 1)
    hint = f' (did you mean "{near[0]}"?)' if near else ""
    raise Failure(f"craze: unknown command; see craze --help{hint}", failures.USAGE)


def _usage(failure: Any) -> str:
    path = failure.ctx.command_path if failure.ctx is not None else "craze"
    if type(failure).__name__ in _FLAG_ERRORS:
        return f"{path}: unknown or malformed flag; see {path} --help"
    for parameter in failure.ctx.command.params if failure.ctx is not None else ():
        if parameter.param_type_name == "argument":
            return f"{path}: takes one argument at most ({parameter.metavar}); see {path} --help"
    return f"{path}: takes no arguments; see {path} --help"
