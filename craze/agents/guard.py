"""Ends an agent whose host was killed: a shell that outlives the host by one command.

A host ends its agent itself. One that is killed outright cannot, and an agent need not leave when
its stdin ends, least of all one behind a wrapper. The guard is started before the agent, is told
its process group, and waits on a pipe that nobody but the host holds: when that ends without a
word, it ends the group and whatever the agent runs besides, TERM first and then KILL.
"""

import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

# What the agent runs outside its group is found by descent, while there is one to descend from.
_SCRIPT = r"""
read -r group || exit 0
case $group in '' | 0* | 1 | *[!0-9]*) exit 0 ;; esac
read -r word && exit 0
below=$(cat /proc/[0-9]*/stat | awk -v top="$group" '
    { pid = $1; sub(/^.*\) . /, ""); parent[pid] = $1 }
    END {
        for (pid in parent) {
            for (up = pid; up != top && up in parent;) up = parent[up]
            if (up == top) print pid
        }
    }')
kill -s TERM -- "-$group"
for tenth in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -s 0 -- "-$group" || break
    sleep 0.1
done
kill -s KILL -- "-$group" $below
"""
_STEP = 0.005
_PATIENCE = 1.0


class Guard:
    """One guard; `popen` is the standard Popen. Raises OSError when it cannot be started."""

    def __init__(self, popen: Callable[..., Any] = subprocess.Popen) -> None:
        self._child = popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            bufsize=0,
        )
        self.pid: int = self._child.pid

    def watch(self, group: int) -> None:
        """From now on, the death of this process is the group's."""
        self._say(b"%d\n" % group)

    def dismiss(self, sleep: Callable[[float], object] = time.sleep) -> None:
        """The agent has ended: so does the guard. Waits for it; a second call does nothing."""
        if self._child.stdin.closed:
            return
        self._say(b"done\n")
        self._child.stdin.close()
        left = _PATIENCE
        while self._child.poll() is None:
            if left <= 0:
                self._child.kill()
            sleep(_STEP)
            left -= _STEP

    def _say(self, word: bytes) -> None:
        try:
            os.write(self._child.stdin.fileno(), word)
        except OSError:
            return  # somebody killed it: the agent then only has its host's own care
