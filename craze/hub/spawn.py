"""The hosts that this hub starts: `craze serve`, its ready line, its end, and what it left.

A host is its hub's until the hub lets go of it: one that does not come up is ended and reaped. What
a host's agents left behind is killed once the host has exited, whichever way that was.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from craze.client.errors import Refused
from craze.hub import start
from craze.hub.link import Link, Lost
from craze.machine import background, environment, files, pgids, ready, reexec
from craze.machine.background import Background
from craze.machine.errors import reason
from craze.machine.ids import host_id as new_host_id
from craze.machine.ids import is_host_id
from craze.machine.paths import Paths
from craze.machine.registry import Entry
from craze.wire.codes import Refusal
from craze.wire.limits import READY_LINE, READY_LINE_WAIT, SPAWN_GRACE

# The flags of a host in the order they are given; a switch's value is whether it stands.
_FLAGS = (
    "host-id", "log", "workspace", "provider", "model", "effort", "fast", "no-fast", "no-force",
    "ask", "plan", "load", "no-host-status", "request-id", "request-hash", "hub-pid", "title",
    "unattended",
)  # fmt: skip

Flags = Mapping[str, "str | bool"]


class Held(Exception):
    """Another process has the session's claim; unknown parts are 0 and ""."""

    def __init__(self, words: str, held: dict[str, Any]) -> None:
        super().__init__(words)
        host_id = str(held.get("hostId", ""))
        self.host_id = host_id if is_host_id(host_id) else ""
        self.pid: int = held.get("pid", 0)
        self.session: str = held["crazeSessionId"]


class SessionRefused(Exception):
    """The host came up, and the session that was asked for is the problem; `str()` says how."""


class Spawned(NamedTuple):
    """A host that said it is ready."""

    child: Background
    host_id: str
    socket: str
    session: str
    version: str

    def entry(self, provider: str, workspace: str, started_at: str) -> Entry:
        """What is known of the host, should the registry say nothing more."""
        return Entry(
            protocol=1,
            hostId=self.host_id,
            pid=self.child.pid,
            startedAt=started_at,
            socket=self.socket,
            crazeSessionId=self.session,
            provider=provider,
            workspace=workspace,
            ready=True,
        )


class Spawner:
    """Starts hosts in `environ`. `say(line)` is the hub's log."""

    def __init__(
        self, paths: Paths, environ: Mapping[str, str], *, pid: int, say: Callable[[str], None]
    ) -> None:
        self._paths = paths
        self._environ = environ
        self._pid = pid
        self._say = say

    def start(self, flags: Flags, cwd: str, *, wait: float = READY_LINE_WAIT) -> Spawned:
        """Start a host in the directory `cwd` and wait for its ready line, `wait` seconds.

        Raises Held, SessionRefused, and Refusal `spawn_failed`; the host has ended then.
        """
        id = new_host_id()
        own: dict[str, str | bool] = {
            "host-id": id,
            "log": self._paths.host_log(id),
            "no-host-status": True,
            "hub-pid": str(self._pid),
        }
        try:
            child = background.start(
                ["serve", *_arguments({**flags, **own})],
                environ=self._environ,
                cwd=cwd,
                child=environment.HOST_CHILD,
                on_exit=lambda child: self._exited(child, id),
            )
        except background.Gone as gone:
            raise self._replaced(gone.path) from None
        except (OSError, ValueError) as failure:  # an argument may be what no command line can hold
            raise _failed(f"the session host cannot be started: {reason(failure)}") from None
        try:
            return self._ready(child, id, wait)
        except BaseException:
            child.end(SPAWN_GRACE)
            raise

    @contextlib.contextmanager
    def link(self, host: Spawned, timeout: float) -> Iterator[Link]:
        """A link to a host that this hub started, dialled within `timeout` seconds; the host is
        ended where anything fails meanwhile. Raises Refusal."""
        words = "the session host cannot be reached"
        try:
            with start.reach(host.socket, timeout) as link:
                words = "the session host went before its session started"
                yield link
        except BaseException as failure:
            self.end(host)
            if isinstance(failure, Lost | Refused):
                raise _failed(words) from None
            raise

    def end(self, host: Spawned) -> None:
        """End a host that this hub started: asked first, then made to."""
        start.stop(host.socket, host.session)
        host.child.end(SPAWN_GRACE)

    def _ready(self, child: Background, id: str, wait: float) -> Spawned:
        try:
            line = child.line(wait, READY_LINE)
        except TimeoutError:
            raise _failed(f"the session host was not ready within {wait:g}s") from None
        except ValueError:
            raise _failed(
                f"the session host's ready line is longer than {READY_LINE} bytes"
            ) from None
        if not line:
            raise self._silent(child)
        try:
            said = ready.parse(line)
        except ValueError as failure:
            raise _failed(f"the session host's ready line cannot be read: {failure}") from None
        if not said["ok"]:
            words = _plain(said["error"])
            if "held" in said:
                raise Held(words, said["held"])
            if said.get("refused") is True:
                raise SessionRefused(words)
            raise _failed(f"the session host could not start: {words}")
        if said["hostId"] != id:
            raise _failed("the session host answered for another host")
        return Spawned(child, id, said["socket"], said["crazeSessionId"], said["crazeVersion"])

    def _silent(self, child: Background) -> Refusal:
        child.exited.wait(SPAWN_GRACE)  # undisturbed, so that how it ended says why
        child.end(SPAWN_GRACE)
        missing = reexec.missing()  # it began, and found half of itself gone
        if missing:
            return self._replaced(missing)
        return _failed(f"the session host exited before it was ready ({child.status})")

    def _replaced(self, path: str) -> Refusal:
        return _failed(
            f"this hub's craze ({path}) was replaced by an upgrade: stop this hub with"
            f" kill {self._pid} (no session ends) and run this again"
        )

    def _exited(self, child: Background, id: str) -> None:
        self._say(f"host {id} (pid {child.pid}) ended: {child.status}")
        groups = self._paths.pgids(id)
        try:
            if killed := pgids.kill_recorded(groups):
                self._say(f"host {id} left agents behind: {len(killed)} groups killed")
            files.remove(groups)
        except (OSError, ValueError) as failure:
            self._say(f"host {id}: {groups}: {reason(failure)}")


def _arguments(flags: Flags) -> list[str]:
    given = [(name, flags[name]) for name in _FLAGS if flags.get(name)]
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in given]


def _plain(error: str) -> str:
    """The first line of a host's error, without the name of its command."""
    words, _, _ = error.partition("\n")
    return words.removeprefix("craze serve: ").removeprefix("craze: ")


def _failed(message: str) -> Refusal:
    return Refusal("spawn_failed", message)
