"""What of an environment reaches a hub, a host, and through it an agent.

A hub or host outlives the terminal that started it: what belonged to that one launch or to that
terminal goes, and directories are made absolute, so that a child reads them as its parent did.
"""

from collections.abc import Mapping

from .errors import MachineError
from .paths import absolute

READY_FD = "CRAZE_READY_FD"
HOST_CHILD = "CRAZE_HOST_CHILD"
HUB_CHILD = "CRAZE_HUB_CHILD"
AGENT_MARK = "CRAZE_AGENT_MARK"

_DIRECTORIES = ("CRAZE_HOME", "CRAZE_CONFIG")
_DROPPED = frozenset(
    (
        *(READY_FD, HOST_CHILD, HUB_CHILD),
        *("CRAZE_PROVIDER", "CRAZE_DETACH", "CRAZE_CONTROL_SOCKET", "CRAZE_AGENT_BIN"),
        AGENT_MARK,  # of an agent that had a hub or host started: they are to outlive it
        *("TMUX", "TMUX_PANE", "STY"),
    )
)
_DROPPED_PREFIXES = ("HERDR_", "ROOST_")


def handed_on(
    environ: Mapping[str, str], cwd: str, *, child: str = "", ready: int = 3
) -> dict[str, str]:
    """The environment of a hub or host started from `environ` in `cwd`, in the same order.

    `child` is HOST_CHILD or HUB_CHILD for a process that reports ready on the descriptor `ready`.
    """
    kept = {}
    for name, value in environ.items():
        if name in _DROPPED or name.startswith(_DROPPED_PREFIXES):
            continue
        kept[name] = _absolute(value, environ, cwd) if name in _DIRECTORIES else value
    if child:
        kept[READY_FD] = str(ready)
        kept[child] = "1"
    return kept


def _absolute(value: str, environ: Mapping[str, str], cwd: str) -> str:
    if not value.strip():
        return value
    try:
        return absolute(value, environ, cwd)
    except MachineError:
        return value  # a `~` with no home to stand for
