"""A machine behind paramiko: ssh inside this process, with the user's configuration and keys.

For programs that cannot or will not have an ssh process for each machine. paramiko is made of
threads that block, so the program must have been patched by gevent, all of it and before paramiko
was imported; that is checked when a way is made, and paramiko is not imported before.
"""

import os
import select
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gevent
import gevent.event
import gevent.monkey

import ladder
from craze.wire.limits import CHUNK
from craze_shed.reach import limits, openssh
from craze_shed.reach.connections import Connections
from craze_shed.reach.errors import ReachError, reason
from craze_shed.reach.interface import KEEPALIVE, Keepalive, Reach, Running
from craze_shed.reach.known_hosts import PublicKey
from craze_shed.reach.once import Once, apart

if TYPE_CHECKING:
    from craze_shed.reach.link import Link

_NEEDED = ("socket", "select", "time", "_thread", "threading")
_ADVICE = "put `from gevent import monkey; monkey.patch_all()` first in the program"


def check_patched() -> None:
    """Raise ReachError unless paramiko works in this program."""
    missing = [name for name in _NEEDED if not gevent.monkey.is_module_patched(name)]
    if missing:
        raise ReachError(
            f"paramiko needs a program that gevent has patched, and {', '.join(missing)} is not;"
            f" {_ADVICE}, or use the ssh program"
        )
    early = sys.modules.get("paramiko.proxy")
    if early is not None and early.select is not select.select:
        raise ReachError(f"paramiko was imported before gevent patched the program; {_ADVICE}")


class ParamikoReach(Reach):
    """`destination` is what one gives to ssh; `port` 0 and 22 leave the port to the configuration.

    The configuration is the user's for ssh, or `config`, as the ssh program `ssh` reads it; where
    there is no such program, nothing is configured. `host_key` (`type base64`) is the only host key
    that is believed, where one is given; else those of the known_hosts files, and no other is ever
    accepted. A link that carries nothing any more is noticed within `keepalive.noticed` seconds.

    Raises ReachError in a program that is not patched.
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
        check_patched()
        from craze_shed.reach import link

        self._link = link
        self._destination = openssh.checked(destination)
        self._port = port
        self._config = config
        self._key = None if host_key is None else PublicKey.read(host_key.split())
        if host_key is not None and self._key is None:
            raise ReachError(f"not a host key: {host_key}")
        self._connect_timeout = connect_timeout
        self._keepalive = keepalive
        self._program = program
        self._given_env = env
        self._sent: Mapping[str, str] = {}
        self._connections: Connections[Link] = Connections(self.label, self._login)

    def run(self, line: str) -> Running:
        """Start an sh line there, on a link that has room. Raises ReachError."""
        self._check_open()
        command = ladder.remote(line)
        while True:
            link = self._connections.taken()
            try:
                channel = link.session(command, self._sent)
            except BaseException:
                link.left()
                raise
            if channel is not None:
                return self._started(_Channel(channel, link, self._left))
            if link.refused():
                raise ReachError(f"{self.label}: the server allows no session")

    def _connect(self, port: int) -> Running:
        link = self._connections.taken()
        try:
            channel = link.channel_to("127.0.0.1", port)
        except BaseException:
            link.left()
            raise
        return self._started(_Channel(channel, link, self._left))

    def _login(self) -> "Link":
        env = os.environ if self._given_env is None else self._given_env

        def read(destination: str, port: int) -> openssh.Config:
            return openssh.read(
                destination, port=port, config=self._config, program=self._program, env=env
            )

        way = self._link.Way(
            self.label, read, self._keepalive, self._connect_timeout, env, self._key
        )
        slow = ReachError(f"{self.label}: no connection within {limits.LOGIN:g} s")
        with gevent.Timeout(limits.LOGIN, slow):
            config = read(self._destination, self._port)
            self._sent = config.sent
            return self._link.login(way, config)

    def _left(self, running: "_Channel", link: "Link") -> None:
        self._running.discard(running)
        link.left()
        self._connections.tidy()

    def _end(self) -> None:
        self._connections.close()


class _Channel(Running):
    """A channel of a link, a command's or a connection's.

    Whatever of it sends, for reading does too, is done apart, and never cut short: see
    `craze_shed.reach.link`.
    """

    def __init__(
        self, channel: Any, link: "Link", left: Callable[["_Channel", "Link"], None]
    ) -> None:
        self._channel = channel
        self._link = link
        self._left = left
        self._said = b""
        self._buffer = b""
        self._reading: Any = None
        self._ended = False
        self._close = Once("channel-close", self._closing)
        self._stderr = apart("channel-stderr", self._read_stderr)

    def __repr__(self) -> str:
        state = "closed" if self._close.begun else "open" if self._link.usable else "lost"
        return f"<channel {state}, {self._link!r}>"

    @property
    def stderr(self) -> bytes:
        """What it said, and after that why its link was given up, where it was."""
        if not self._link.fault:
            return self._said
        lines = [*filter(None, [self._said.rstrip(b"\n")]), self._link.fault.encode(), b""]
        return b"\n".join(lines)[-limits.STDERR_TAIL :]

    def recv(self, size: int, /) -> bytes:
        if not self._buffer:
            # What a read that was cut short would have given is given to the next.
            if self._reading is None:
                self._reading = apart("channel-read", self._channel.recv, CHUNK)
            try:
                self._buffer = self._reading.get()
            except Exception as failure:  # paramiko's own, the system's, whatever a lost link makes
                raise ReachError(f"its output cannot be read: {reason(failure)}") from failure
            self._reading = None
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return b"" if self._close.begun else data

    def sendall(self, data: bytes, /) -> None:
        view = memoryview(data)
        while view:
            view = view[self._sent(bytes(view[:CHUNK])) :]

    def _sent(self, data: bytes) -> int:
        """Send what there is room for; how much that was. paramiko says 0 for ever once the end of
        the input was sent."""
        sent, why = 0, "the channel is closed"
        if not self._ended and not self._close.begun:
            try:
                sent = apart("channel-write", self._channel.send, data).get()
            except Exception as failure:
                why = reason(failure)
        if not sent:
            raise ReachError(f"it reads no more input: {why}")
        return sent

    def half_close(self) -> None:
        if not self._ended:
            self._ended = True
            apart("channel-eof", self._channel.shutdown_write).wait()

    def exit(self, timeout: float) -> int | None:
        with gevent.Timeout(timeout, False):
            self._channel.status_event.wait()
            self._stderr.wait()
        known = self._channel.status_event.is_set()
        code: int = self._channel.exit_status if known else -1
        return None if code < 0 else code

    def close(self) -> None:
        self._close()

    def _read_stderr(self) -> None:
        while data := self._channel.recv_stderr(CHUNK):
            self._said = (self._said + data)[-limits.STDERR_TAIL :]

    def _closing(self) -> None:
        apart("channel-close", self._channel.close).wait(limits.CLOSE)
        self._stderr.wait(limits.CLOSE)
        self._left(self, self._link)
