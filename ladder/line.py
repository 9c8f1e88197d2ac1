"""The line that finds craze on a machine and runs it there.

Nine places are tried in order, by the machine's own POSIX shell, with no login profile read. What
is found runs with those places in front of its PATH: a session over ssh or a desktop's own often
has next to none, and an agent installed beside craze would not be found. The line runs nothing
else, and sets nothing that craze or its children could see but that PATH.

Whatever shell reads the line first, it is to read the same: so it is one physical line, with no
backslash inside single quotes (fish takes some of them for escapes) and no `!` there (csh takes it
for its history).
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

SHELL = "/bin/sh"
NOT_FOUND = 127
NOT_FOUND_TEXT = "craze: command not found"

# What craze is run with, for each use.
BRIDGE = ("bridge", "--hub")
BRIDGE_NO_START = ("bridge", "--hub", "--no-start")
PROBE = ("providers", "--hub", "--json")


class Rung(NamedTuple):
    """A folder to look for craze in, in the shell's words; only where the variable `given` is
    set and not empty."""

    folder: str
    given: str = ""


# The shell's own search; its answer counts only where it is absolute (bash always makes it so).
ON_PATH = Rung("")

# craze_home is HOME where that is absolute, else empty.
RUNGS = (
    Rung("$craze_home/.local/bin", "craze_home"),
    ON_PATH,
    Rung("/opt/homebrew/bin"),
    Rung("/usr/local/bin"),
    Rung("/home/linuxbrew/.linuxbrew/bin"),
    Rung("/usr/bin"),
    Rung("$craze_home/.nix-profile/bin", "craze_home"),
    Rung("/etc/profiles/per-user/$USER/bin", "USER"),
    Rung("/run/current-system/sw/bin"),
)

_JAIL = RUNGS[:2]

# A value set beforehand would be exported, and what is put in its place with it.
_FRESH = "unset craze_home craze_path craze_bin"
_HOME = "case $HOME in /*) craze_home=$HOME;; esac"
_HIT = 'case $craze_bin in /*) [ -f "$craze_bin" ] && [ -x "$craze_bin" ];; *) false;; esac'

_PLAIN = re.compile(r"[A-Za-z-]+")
_NOT_ONE_LINE = re.compile(r"[\0\n\r]")
_OUTSIDE_QUOTES = re.compile(r"['\\!]+")
_HOST_ID = re.compile(r"[0-9a-f]{12}")


def line(arguments: Iterable[str], *, jailed: bool = False) -> str:
    """The sh line that runs craze with `arguments`, or says `craze: command not found` on stderr
    and exits 127 (cli and machine 8).

    `jailed` tries only the first two places and leaves PATH as it is, for tests that must not
    find what is installed. Raises ValueError for an argument that is not one line.
    """
    run = " ".join(['exec "$craze_bin"', *map(_word, arguments)])
    path = []
    if not jailed:
        # For the exec alone, and from a variable that is not exported.
        path = [f'craze_path="{_exec_path()}"']
        run = f'PATH="$craze_path" {run}'
    search = f"{_each(jailed)}; do if {_HIT}; then {run}; fi; done"
    missing = (f'echo "{NOT_FOUND_TEXT}" >&2', f"exit {NOT_FOUND}")
    return "; ".join((_FRESH, _HOME, *path, search, *missing))


def where(*, jailed: bool = False) -> str:
    """The sh line that prints the places where `line` looks on a machine, in order, each with
    what is there."""
    found, missing = 'echo "craze     $craze_bin"', 'echo "no craze  ${craze_bin:-on PATH}"'
    search = f"{_each(jailed)}; do if {_HIT}; then {found}; else {missing}; fi; done"
    return "; ".join((_FRESH, _HOME, search))


def attach(host_id: str) -> tuple[str, str, str]:
    """What craze is run with to join a session in a terminal. Raises ValueError for what is no
    host id."""
    if not _HOST_ID.fullmatch(host_id):
        raise ValueError(f'not a craze host id (twelve lowercase hex digits): "{host_id}"')
    return ("attach", "--session", host_id)


def argv(script: str) -> list[str]:
    """The program that runs an sh line on this machine."""
    return [SHELL, "-c", script]


def remote(script: str) -> str:
    """An sh line as the one string that ssh gives to whatever login shell there is.

    Raises ValueError for a script of more than one line.
    """
    return " ".join(map(_quoted, ("sh", "-c", script)))


def _word(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    """`text` as one word of any shell: in single quotes, but for what some shell reads there."""
    if _NOT_ONE_LINE.search(text):
        raise ValueError(f"expected one line for a shell, got {text!r}")
    return "'" + _OUTSIDE_QUOTES.sub(_escaped, text) + "'"


def _escaped(found: re.Match[str]) -> str:
    return "'" + "".join(f"\\{char}" for char in found.group()) + "'"


def _each(jailed: bool) -> str:
    """The loop's head: a candidate whose variable is empty is no word of it at all."""
    return f"for craze_bin in {' '.join(map(_candidate, _JAIL if jailed else RUNGS))}"


def _candidate(rung: Rung) -> str:
    if rung is ON_PATH:
        return '"$(command -v craze 2>/dev/null)"'
    path = f"{rung.folder}/craze"
    return f'${{{rung.given}:+"{path}"}}' if rung.given else path


def _exec_path() -> str:
    """The folders in order and the PATH as it was, never with an empty element of ours."""
    folders = [
        f"${{{rung.given}:+{rung.folder}:}}" if rung.given else f"{rung.folder}:"
        for rung in RUNGS
        if rung is not ON_PATH
    ]
    return "".join(folders).removesuffix(":") + "${PATH:+:$PATH}"
