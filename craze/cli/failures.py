"""How a command ends in failure: one line on stderr, and a code."""

import os
from collections.abc import Mapping

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


def report(line: str) -> None:
    """Write one line to stderr, whatever it is made of and whether or not anyone reads it."""
    from craze.wire.plain import plain_line

    data = plain_line(line).encode("utf-8", "replace") + b"\n"
    try:
        while data:
            data = data[os.write(2, data) :]
    except OSError:
        return
