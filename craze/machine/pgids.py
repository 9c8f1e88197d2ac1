"""The process groups of a host's agents, on disk, so that whoever finds the host gone can end them.

A recorded group is only ever killed when its leader is the very process that was recorded: a number
alone may be another program's by now.
"""

import os
import signal

from . import files, processes

_LINES = 1000
_BYTES = 64 * _LINES


def record(path: str, pgid: int) -> None:
    """Add a group to the file of its host. Raises OSError: an agent that cannot be recorded must
    not run."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        os.fchmod(fd, 0o600)
        started = processes.start_time(pgid)
        files.write(fd, f"{pgid} {0 if started is None else started}\n".encode())
    finally:
        os.close(fd)


def kill_recorded(path: str) -> list[int]:
    """SIGKILL every group in the file whose leader is still the one recorded; those killed.

    For whoever knows that the host has gone; a file that is not there holds none. Raises OSError,
    and ValueError for a file that is too long.
    """
    try:
        lines = files.read(path, _BYTES).splitlines()
    except FileNotFoundError:
        return []
    killed = []
    for line in lines[:_LINES]:
        pgid, _, started = line.partition(b" ")
        if not pgid.isdigit() or not started.isdigit():
            continue
        group = int(pgid)
        if group <= 1 or group == os.getpgrp() or processes.start_time(group) != int(started):
            continue
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
        killed.append(group)
    return killed
