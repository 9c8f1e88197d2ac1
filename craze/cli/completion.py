"""Completion at a shell's TAB: the script that `craze completion` prints, and the answers to it.

The script runs `craze` with `_CRAZE_COMPLETE` set, which the command-line library answers. bridge,
serve and hub never load that library; there, and only there, it is shown stand-ins for them, made
from their own tables of flags.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import typer

from craze.machine import config
from craze.machine.errors import MachineError
from craze.machine.paths import Paths
from craze.terminal.flags import Flag

from . import failures
from .failures import Failure

NAME = "craze completion"
VARIABLE = "_CRAZE_COMPLETE"

_WORDS, _WORD = "COMP_WORDS", "COMP_CWORD"  # bash's: the words, one a line, and the one that is at


def shells(incomplete: str) -> list[str]:
    return ["bash", "zsh", "fish"]


def providers(incomplete: str) -> list[str]:
    """The providers that a flag may name."""
    try:
        return list(config.load(Paths.of(os.environ), os.environ).known_providers)
    except MachineError:
        return list(config.BUILT_IN)


_VALUES = {"provider": providers}  # what completes a flag's value, else the shell's file names


def completion(
    shell: str = typer.Argument("", metavar="bash, zsh or fish", autocompletion=shells),
) -> None:
    """
    Prints a script that has a shell complete the commands of craze, their flags, and the names of
    providers. The shell runs craze at each TAB, so that what is offered is what this craze has.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in shells(""):
        wrong = "unknown shell" if shell else "no shell"
        raise Failure(
            f"{NAME}: {wrong} (want bash, zsh, or fish); see {NAME} --help", failures.USAGE
        )
    script = get_completion_script(prog_name="craze", complete_var=VARIABLE, shell=shell)
    failures.show(NAME, script + "\n")


def prepare() -> None:
    """Make ready to answer a shell."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    # With it, the help shown beside a flag would be wrapped, and read as markup.
    sys.modules["rich"] = None  # type: ignore[assignment]
    words = os.environ.get(_WORDS, "").split("\n")
    word = os.environ.get(_WORD, "")
    if "=" in words and word.isdigit():
        # To bash `--flag=value` is three words, to everybody else `--flag value` is two.
        os.environ[_WORD] = str(int(word) - words[: int(word)].count("="))
        os.environ[_WORDS] = "\n".join(one for one in words if one != "=")


def stand_in(flags: Iterable[Flag]) -> Callable[..., None]:
    """A command with these flags, for the library to look at and nobody to run."""

    def command(**given: Any) -> None:
        raise NotImplementedError

    parameters = [
        inspect.Parameter(
            f"flag_{number}",
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option(
                "" if flag.value else False,
                f"--{flag.name}",
                *([f"-{flag.short}"] if flag.short else []),
                help=flag.help,
                hidden=flag.hidden,
                autocompletion=_VALUES.get(flag.name),
            ),
            annotation=str if flag.value else bool,
        )
        for number, flag in enumerate(flags)
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command
