"""How a command ends in failure: one line on stderr, and a code."""

import os
from collections.abc import Mapping

from craze.machine.errors import reason

RUNTIME = 1
USAGE = 2

_CONFIG_REFUSED = (
    "CRAZE_CONFIG is no longer supported; unset it and set CRAZE_HOME to the directory that holds"
    " config.toml instead (it defaults to ~/.craze)"
)


class Failure(Exception):
    """The end of a command: `line` as it is written, and the exit code."""

    def __init__(self, line: str, code: int = RUNTIME) -> None:
        super().__init__(line)
        self.line = line
        self.code = code


def named(path: str, text: str) -> str:
    """`text` as the line of the command `path`, which stands in front of it exactly once."""
    return f"{path}: {text.removeprefix('craze: ').removeprefix(path + ': ')}"


def refuse_config(environ: Mapping[str, str]) -> None:
    """Raise Failure when the environment names a configuration file, as long ago it could."""
    if environ.get("CRAZE_CONFIG", "").strip():
        raise Failure(f"craze: {_CONFIG_REFUSED}", USAGE)


def unknown_flag(path: str, name: str = "") -> Failure:
    """The refusal of a flag; it is named only to a program that started us."""
    flag = f" --{name}" if name else ""
    return Failure(f"{path}: unknown or malformed flag{flag}; see {path} --help", USAGE)


def no_arguments(path: str) -> Failure:
    return Failure(f"{path}: takes no arguments; see {path} --help", USAGE)


def show(path: str, text: str) -> None:
    """Write the text that the command `path` was asked for to stdout. Raises Failure."""
    data = text.encode()
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError as failure:
        raise unwritten(path, failure) from None


def unwritten(path: str, failure: OSError) -> Failure:
    """The end of a command whose stdout takes nothing."""
    return Failure(f"{path}: write stdout: {reason(failure)}")


def report(line: str) -> None:
    """Write one line to stderr, whatever it is made of and whether or not anyone reads it."""
    from craze.machine.stderr import say  # its patterns cost a bridge that does not fail too much

    say(line)
