"""A machine behind the system's ssh program, with the user's own configuration, keys and agent.

One ssh process of ours holds a connection, and every command is another that goes through it. The
configuration is ssh's business: it reads what the user has written, and only what would harm a
connection without a user is set here (no prompts, no forwards, no commands of its own, no process
in the background). A connection that shares one the user has, or outlives us, is never made.

A server lets only so many sessions through one connection. Left to itself, ssh would then quietly
log in once more for each further command; so it is kept from that, and a second connection of ours
is opened, which the next commands share. The first is not touched.
"""

import contextlib
import os
import shutil
import socket as names
import tempfile
from collections.abc import Mapping, Sequence

import gevent

import ladder
from craze.wire.limits import SOCKET_PATH
from craze_shed.reach import limits, openssh
from craze_shed.reach.child import Child, Program, output
from craze_shed.reach.connections import Connection, Connections
from craze_shed.reach.errors import ReachError, reason
from craze_shed.reach.interface import KEEPALIVE, Keepalive, Reach
from craze_shed.reach.known_hosts import SSH_PORT

_FAILED = 255  # the exit code of ssh's own failures
_REFUSED = b"session request failed"  # by the server, for there are too many
_TEMPORARY = 17  # bytes that ssh adds to the name of its socket while it makes it

_KNOWN_HOSTS = "known_hosts"

_QUIET = (
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
)
# It stays in the foreground, and says why it failed.
_MASTER = ("ControlMaster=yes", "ControlPersist=no", "LogLevel=INFO")
# A connection of its own would go through this, and fail.
_SESSION = ("ControlMaster=no", "LogLevel=ERROR", "ProxyCommand=false")


class SshReach(Reach):
    """`destination` is what one gives to ssh; `port` 0 and 22 leave the port to the configuration.

    `config` is read instead of the user's ssh configuration. `host_key` (`type base64`) is the only
    host key that is believed, where one is given. `connect_timeout` is ssh's own, for each attempt
    to connect; a link that carries nothing any more is noticed within `keepalive.noticed` seconds.
    `env` is the environment of the ssh processes, by default that of this one.
    """

    def __init__(
        self,
        destination: str,
        *,
        port: int = 0,
        config: str | None = None,
        host_key: str | None = None,
        connect_timeout: int = limits.CONNECT,
        keepalive: Keepalive = KEEPALIVE,
        program: str = "ssh",
        env: Mapping[str, str] | None = None,
        label: str | None = None,
    ) -> None:
        super().__init__(label or destination, self._connect)
        self._destination = openssh.checked(destination)
        self._where = [
            program,
            *(("-F", config) if config is not None else ()),
            *(("-p", str(port)) if port not in (0, SSH_PORT) else ()),
        ]
        self._host_key = host_key
        self._alive = (
            f"ConnectTimeout={connect_timeout}",
            f"ServerAliveInterval={keepalive.interval}",
            f"ServerAliveCountMax={keepalive.missed}",
        )
        self._given_env = env
        self._folder: str | None = None
        self._made = 0
        self._connections = Connections(self.label, self._login)

    def run(self, line: str) -> Program:
        """Start an sh line there, through a connection that has room. Raises ReachError where none
        can be made; what befalls the command after that, its exit code and stderr tell."""
        self._check_open()
        return self._started(_Through(self, command=ladder.remote(line)))

    def _connect(self, port: int) -> Program:
        return self._started(_Through(self, port=port))

    def _login(self) -> "_Master":
        """A new connection. Raises ReachError."""
        folder = self._scratch()
        self._made += 1
        path = f"{folder}/{self._made}"
        options = [*_QUIET, *_MASTER, *self._alive]
        if self._host_key is not None:
            options += (
                "StrictHostKeyChecking=yes",
                f'UserKnownHostsFile="{_literal(folder)}/{_KNOWN_HOSTS}"',
                "GlobalKnownHostsFile=/dev/null",
            )
        argv = [
            *self._where,
            "-NT",
            "-S",
            _literal(path),
            *_given(options),
            "--",
            self._destination,
        ]
        # Its words are read before there is a session, in no language but this; and it must not
        # ask in a window either.
        env = {**self._env(), "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}
        goodbye = [*self._where, "-N", "-S", _literal(path), "-O", "exit", "--", self._destination]
        try:
            master = _Master(argv, env, path, goodbye)
        except ReachError as failure:
            raise ReachError(f"{self.label}: {failure}") from failure
        try:
            master.wait(self.label)
        except BaseException:
            master.end()
            raise
        return master

    def _argv(self, master: "_Master", command: str | None, port: int) -> list[str]:
        """An ssh that goes through `master`, to run a command or to reach a port.

        It keeps the environment it is given: where the user has ssh send parts of that, a command
        there gets the user's, and not what suits us here.
        """
        argv = [*self._where, "-T", "-S", _literal(master.path), *_given((*_QUIET, *_SESSION))]
        if command is None:
            return [*argv, "-W", f"127.0.0.1:{port}", self._destination]
        return [*argv, self._destination, "--", command]

    def _env(self) -> Mapping[str, str]:
        return os.environ if self._given_env is None else self._given_env

    def _scratch(self) -> str:
        """A folder of ours alone, whose name leaves room for a socket's; the host key is in it."""
        if self._folder is None:
            room = SOCKET_PATH - _TEMPORARY - len("/craze-01234567/999")
            fits = len(os.fsencode(tempfile.gettempdir())) <= room
            try:
                self._folder = tempfile.mkdtemp(prefix="craze-", dir=None if fits else "/tmp")
                with open(f"{self._folder}/{_KNOWN_HOSTS}", "w") as known:
                    known.write(f"* {self._host_key}\n" if self._host_key is not None else "")
            except OSError as failure:
                raise ReachError(f"{self.label}: no folder: {reason(failure)}") from failure
        return self._folder

    def _end(self) -> None:
        self._connections.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Through(Program):
    """An ssh that goes through one of the connections, or, where that has no room, the next."""

    def __init__(self, reach: SshReach, *, command: str | None = None, port: int = 0) -> None:
        self._reach = reach
        self._command = command
        self._port = port
        argv = self._seated()
        try:
            super().__init__(argv, reach._env(), again=self._elsewhere, closed=self._left)
        except ReachError:
            self._master.left()
            raise

    @property
    def stderr(self) -> bytes:
        """Its own, and after it what its connection said, once that is gone."""
        said = super().stderr
        return said if self._master.usable else (said + self._master.stderr)[-limits.STDERR_TAIL :]

    def exit(self, timeout: float) -> int | None:
        """As of any command. Where it may have ended with its connection, that is seen too."""
        code = super().exit(timeout)
        if code == _FAILED:
            self._master.gone(min(timeout, limits.SETTLE))
        return code

    def _seated(self) -> list[str]:
        self._master = self._reach._connections.taken()
        self._seat = True
        return self._reach._argv(self._master, self._command, self._port)

    def _elsewhere(self, child: Child) -> list[str] | None:
        """The same on another connection, if the server refused it on this one: then nothing of it
        has run, and nothing of its input was read."""
        if child.returncode != _FAILED or _REFUSED not in child.stderr:
            return None
        self._seat = False
        return None if self._master.refused() else self._seated()

    def _left(self, _: Program) -> None:
        self._reach._running.discard(self)
        if self._seat:
            self._master.left()
        self._reach._connections.tidy()


class _Master(Connection):
    """An ssh that holds a connection, and serves the others through its socket."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], path: str, goodbye: Sequence[str]
    ) -> None:
        super().__init__(path)
        self.path = path
        self._env = env
        self._goodbye = goodbye
        self._child = Child(argv, env=env, may_fork=True)

    def __repr__(self) -> str:
        state = "ready" if self.ready else "not ready"
        return f"<ssh connection {state}, {self.users} users, {self._child!r}>"

    @property
    def stderr(self) -> bytes:
        return self._child.stderr

    @property
    def ready(self) -> bool:
        """Whether it has logged in: its socket is made after that."""
        return os.path.exists(self.path)

    @property
    def usable(self) -> bool:
        """Whether it is there."""
        if self.end.begun:
            return False
        return not self._child.exited.is_set() or self._answers()

    def _answers(self) -> bool:
        """Whether it went on in the background: some ssh does, whatever it is told."""
        if self._child.returncode != 0:
            return False
        with names.socket(names.AF_UNIX) as sock:
            return sock.connect_ex(self.path) == 0

    def gone(self, timeout: float) -> bool:
        """Whether it ends within `timeout` seconds."""
        return bool(self._child.exited.wait(timeout))

    def wait(self, label: str) -> None:
        """Wait until it is ready. Raises ReachError where it ends instead, or takes too long."""
        with gevent.Timeout(limits.LOGIN, False):
            while not self.ready and not self._child.exited.wait(limits.POLL):
                pass
        if not self._child.exited.is_set():
            if self.ready:
                return
            why = f"no connection within {limits.LOGIN:g} s"
        elif self._answers():
            return
        else:
            why = f"ssh exited {self._child.returncode} before there was a connection"
        raise openssh.told(label, why, self.stderr)

    def _end(self) -> None:
        if self.ready:
            with contextlib.suppress(ReachError):
                output(self._goodbye, self._env, timeout=limits.CONTROL)
        self._child.end()


def _literal(path: str) -> str:
    """A path in which ssh finds nothing to expand."""
    return path.replace("%", "%%")


def _given(options: Sequence[str]) -> list[str]:
    return [word for option in options for word in ("-o", option)]
