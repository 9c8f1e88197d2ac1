"""The ready line: how a process started in the background tells its starter what came of it.

One JSON line on an inherited pipe, then its end. An end without a line means that the process went.
"""

import contextlib
import json
import os
import select
import stat
from collections.abc import MutableMapping
from typing import Any

from craze.wire.limits import READY_LINE

from . import environment
from .ids import is_host_id, is_token

_PID_MAX = 2**31 - 1


class ReadyPipe:
    """Where the line goes: at most one is written, after which the pipe is closed. One without a
    descriptor is nobody's, and takes every line."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int = -1) -> None:
        if fd >= 0:
            os.set_inheritable(fd, False)
        self._fd = fd

    @property
    def gone(self) -> bool:
        """Whether the starter has gone without its line."""
        if self._fd < 0:
            return False
        poll = select.poll()
        poll.register(self._fd, 0)
        return bool(poll.poll(0))

    def ok(self, host: str, socket: str, session: str, version: str) -> bool:
        """The host can be reached. False when nobody is there to take the line."""
        return self._say(
            {
                "ok": True,
                "hostId": host,
                "socket": socket,
                "crazeSessionId": session,
                "crazeVersion": version,
            }
        )

    def held(self, error: str, session: str, host: str = "", pid: int = 0) -> bool:
        """Another process has the session."""
        held: dict[str, Any] = {"hostId": host} if host else {}
        if host and pid:
            held["pid"] = pid
        return self._say({"ok": False, "error": error, "held": held | {"crazeSessionId": session}})

    def refused(self, error: str) -> bool:
        """The session that was asked for is the problem."""
        return self._say({"ok": False, "error": error, "refused": True})

    def failed(self, error: str) -> bool:
        return self._say({"ok": False, "error": error})

    def hub_ok(self, hub: str, namespace: str, socket: str) -> bool:
        """The hub can be reached. False when nobody is there to take the line."""
        return self._say({"ok": True, "hubId": hub, "ns": namespace, "socket": socket})

    def hub_held(self, pid: int, hub: str) -> bool:
        """Another process is the hub, or becomes it."""
        held: dict[str, Any] = {"pid": pid} if pid else {}
        return self._say({"ok": False, "held": held | ({"hubId": hub} if hub else {})})

    def close(self) -> None:
        """End the pipe unwritten."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _say(self, line: dict[str, Any]) -> bool:
        if self._fd < 0:
            return True
        data = json.dumps(line, separators=(",", ":")).encode()[: READY_LINE - 1] + b"\n"
        try:
            with contextlib.closing(self):
                # An empty pipe takes PIPE_BUF at once, and nothing longer is ever said in practice.
                while data:
                    data = data[os.write(self._fd, data) :]
        except OSError:
            return False
        return True


def inherit(
    environ: MutableMapping[str, str], child: str = environment.HOST_CHILD
) -> ReadyPipe | None:
    """Take the pipe that the starter passed, and its variables out of the environment.

    None when there is none. Raises ValueError for a descriptor that is no pipe.
    """
    environ.pop(child, None)
    given = environ.pop(environment.READY_FD, None)
    if given is None:
        return None
    try:
        fd = int(given) if given.isascii() and given.isdigit() else -1
        if fd < 3 or not stat.S_ISFIFO(os.fstat(fd).st_mode):
            raise OSError
    except (OSError, OverflowError):
        raise ValueError(f"{environment.READY_FD} is not the descriptor of a pipe") from None
    return ReadyPipe(fd)


def parse(line: bytes) -> dict[str, Any]:
    """A host's ready line as its starter takes it, unknown members ignored. Raises ValueError."""
    try:
        said = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(said, dict) or type(said.get("ok")) is not bool:
        raise ValueError("no ready line")
    if not said["ok"]:
        if not _text(said, "error"):
            raise ValueError("a failure without its error")
        if "held" in said:
            _check_held(said["held"])
        return said
    if (
        not is_host_id(_text(said, "hostId"))
        or not _text(said, "socket").startswith("/")
        or not is_token(_text(said, "crazeSessionId"))
        or not _text(said, "crazeVersion")
        or not said.keys().isdisjoint(("error", "held", "refused"))
    ):
        raise ValueError("an incomplete ready line")
    return said


def _check_held(held: Any) -> None:
    if not isinstance(held, dict) or not is_token(_text(held, "crazeSessionId")):
        raise ValueError("held names no session")
    pid = held.get("pid", 0)
    if type(pid) is not int or not 0 <= pid <= _PID_MAX:
        raise ValueError("held names no pid")
    if pid and not is_host_id(_text(held, "hostId")):
        raise ValueError("held names a pid without its host")


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name, "")
    return value if isinstance(value, str) else ""
