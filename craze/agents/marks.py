"""The mark in the environment of an agent, and so of everything that it starts.

An agent may run its commands in sessions and groups of their own, which the end of its group does
not reach. They still have its environment, and are found by the mark in it, also once the agent
that started them is gone. Only what runs as this user can be looked at, and only where there is a
/proc: elsewhere the group is all.
"""

import os
import signal

from craze.machine import environment

NAME = environment.AGENT_MARK
_BYTES = 16


def fresh() -> str:
    """A value for NAME that no other agent has."""
    return os.urandom(_BYTES).hex()


def carriers(mark: str) -> list[int]:
    """The processes that carry `mark`; one that has ended and waits to be reaped carries none.

    Raises ValueError for what is no mark: it must never match a process that has none.
    """
    if len(mark) != 2 * _BYTES:
        raise ValueError(f"{mark!r} is no mark")
    wanted = f"{NAME}={mark}".encode()
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as environ:
                if wanted in environ.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue  # it has just gone, or is somebody else's
    return found


def kill(mark: str) -> bool:
    """SIGKILL what carries `mark`; whether there was anything, and so may be more."""
    found = carriers(mark)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return bool(found)
