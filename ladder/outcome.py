"""What a connection that gave no usable hello says about craze on a machine, from what came back.

Exit code and stderr decide, by the tables below, first match first; nothing is guessed from
anything else. The values are plain: who asked knows what each means for it.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

STDERR_TAIL = 4096  # bytes of stderr that are kept for these texts
NOISE_LINES = 16
NOISE_BYTES = 4096  # line ends not counted


class Kind:
    """The kinds of outcome."""

    NOT_INSTALLED = "not_installed"
    TOO_OLD = "too_old"
    NO_HUB = "no_hub"  # craze is there, and no hub runs
    OLD_BRIDGE = "old_bridge"  # craze knows no --no-start: probe first, then do without
    HUB = "hub"  # the probe found one
    UNREACHABLE = "unreachable"


class Outcome(NamedTuple):
    """A `Kind`, and what to tell about it."""

    kind: str
    text: str


class _Sign(NamedTuple):
    """What tells a kind: an exit code where one is named, and words on stderr where there are."""

    exit: int | None
    words: str
    kind: str


_ANY = (
    _Sign(127, "", Kind.NOT_INSTALLED),  # wins over every text
    _Sign(None, "unknown flag: --hub", Kind.TOO_OLD),
)
_DIALLED_NO_START = (
    *_ANY,
    _Sign(3, "craze bridge: no hub is running", Kind.NO_HUB),
    _Sign(None, "craze bridge: unknown or malformed flag", Kind.OLD_BRIDGE),
)
_PROBED = (*_ANY, _Sign(None, "no hub is running", Kind.NO_HUB))

_TEXTS = {
    Kind.NOT_INSTALLED: "craze is not installed on this machine ({said})",
    Kind.TOO_OLD: 'craze on this machine is too old for shed (it says "{said}"); update craze',
    Kind.NO_HUB: "{said}",
    Kind.OLD_BRIDGE: "{said}",
}

_ESCAPES = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]?")


def dialled(
    why: str,
    *,
    exit: int | None,
    stderr: bytes = b"",
    noise: Sequence[bytes] = (),
    no_start: bool = False,
) -> Outcome:
    """What a `bridge --hub` that ended before its hello was answered says (lane contract 6.2).

    `why` is the connection's own account of its end, `exit` the exit code or None where none came,
    `stderr` its last part, `noise` the lines that came before anything of craze's; `no_start` when
    it was given that flag.
    """
    said = plain(stderr)
    kind = _kind(_DIALLED_NO_START if no_start else _ANY, exit, said)
    if kind:
        return _outcome(kind, exit, said)
    printed = [text for line in noise if (text := plain(line))]
    text = why
    if said:
        text += f"; craze said: {said}"
    if printed:  # the last is the nearest to what went wrong
        text += f"; before it, the login shell printed: {printed[-1]}"
    return Outcome(Kind.UNREACHABLE, text)


def probed(*, exit: int | None, stdout: bytes, stderr: bytes = b"") -> Outcome:
    """What a `providers --hub --json` found (lane contract 6.3)."""
    said = plain(stderr)
    kind = _kind(_PROBED, exit, said)
    if kind:
        return _outcome(kind, exit, said)
    if exit == 0 and _is_object(stdout.strip().rpartition(b"\n")[2]):
        return Outcome(Kind.HUB, "")
    ended = "gave no exit code" if exit is None else f"exited {exit}"
    return Outcome(
        Kind.UNREACHABLE, f"craze providers --hub {ended}" + (f": {said}" if said else "")
    )


def no_hub_on(label: str) -> str:
    """Why nothing was dialled on a machine without a hub, where dialling would have started one."""
    return f"no craze hub is running on {label}; shed starts one there only when you ask it to"


class Noise:
    """The lines that a login shell prints before craze's first reply.

    Only so many, and of only so many bytes: what goes on for longer is no login shell.
    """

    __slots__ = ("_bytes", "lines")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._bytes = 0

    def keep(self, line: bytes) -> bool:
        """Keep a line that is no reply, given without its end; false where that is one too many.

        A blank line counts, and so does any JSON that is no object.
        """
        if len(self.lines) == NOISE_LINES or self._bytes + len(line) > NOISE_BYTES:
            return False
        self.lines.append(line)
        self._bytes += len(line)
        return True


def plain(data: bytes) -> str:
    """What a program printed, on one line and with nothing in it that a terminal would obey."""
    text = _ESCAPES.sub("", data.decode("utf-8", "replace"))
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _kind(signs: Sequence[_Sign], exit: int | None, said: str) -> str:
    for sign in signs:
        if sign.exit in (None, exit) and sign.words in said:
            return sign.kind
    return ""


def _outcome(kind: str, exit: int | None, said: str) -> Outcome:
    return Outcome(kind, _TEXTS[kind].format(said=said or f"exit {exit}"))


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
