"""One connection to a machine through paramiko: reached, its host key verified, logged in, watched.

paramiko needs a hand here and there; all of that is in this file and in `identities`:

- A transport is a thread that shares its socket with whoever sends. A greenlet that is killed in
  the middle of a packet would break the connection for everybody: so whatever sends does so in a
  greenlet of ours, which nobody kills (`apart`).
- Its own keepalive expects no answer, so a link that is dead looks alive. `_watch` asks for one.
- It keeps a refusal in one place for the whole connection: sessions are opened one at a time.
- It wakes ten times a second to see whether it was closed. A close wakes whoever receives here, so
  `Wire` lets it sleep longer: fifty quiet connections would cost more than one percent of a core.
- Its ProxyCommand neither reaps nor closes; the configured command is a child of ours on a socket.
- Its configuration reader runs commands and knows no Include; `openssh` asks ssh instead.
- A handshake that fails leaves a timer behind, and a traceback on stderr where nobody has set
  logging up.
"""

import logging
import os
import socket as names
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import gevent
import paramiko
from gevent import socket
from gevent.event import AsyncResult
from gevent.lock import BoundedSemaphore

from craze import greenlets
from craze_shed.reach import identities, known_hosts, limits, openssh
from craze_shed.reach.child import Child, close_fd
from craze_shed.reach.connections import Connection
from craze_shed.reach.errors import ReachError, reason
from craze_shed.reach.interface import Keepalive
from craze_shed.reach.known_hosts import PublicKey
from craze_shed.reach.once import apart
from craze_shed.reach.openssh import Config
from ladder.line import SHELL

KEEPALIVE = "keepalive@openssh.com"
_DEPTH = 8  # machines on the way to one
_HERE = ("127.0.0.1", 0)
_LOOK = 2.0  # seconds between the looks of a quiet transport at its timers

# What a configuration names, and what paramiko calls it.
_ALGORITHMS = {
    "kexalgorithms": "kex",
    "ciphers": "ciphers",
    "macs": "digests",
    "hostkeyalgorithms": "key_types",
}

# Why a host key is not believed, and what to do.
_NOT_BELIEVED = {
    known_hosts.UNKNOWN: "its host key is not known: {key}; if that is the right one, run"
    " `ssh {destination}` once and accept it, or add it to {file}",
    known_hosts.CHANGED: "its host key is not the one at {place}, but {key}; if it was changed on"
    " purpose, run `ssh-keygen -R '{name}'` and accept it anew",
    known_hosts.REVOKED: "its host key {key} is revoked, at {place}",
}

logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Wire:
    """What a transport talks through: a socket, or a channel of another link; and what has to be
    ended with it. `heard` is when the last came."""

    def __init__(self, sock: Any, *ends: Callable[[], None]) -> None:
        self._sock = sock
        self._ends = ends
        self._closed = False  # looked at by paramiko, as a socket's
        self.heard = time.monotonic()

    def recv(self, size: int) -> bytes:
        data: bytes = self._sock.recv(size)
        self.heard = time.monotonic()
        return data

    def send(self, data: bytes) -> int:
        sent: int = self._sock.send(data)
        return sent

    def settimeout(self, timeout: float | None) -> None:
        self._sock.settimeout(timeout and max(timeout, _LOOK))

    def close(self) -> None:
        self._closed = True
        self._sock.close()

    def end(self) -> None:
        """Close it, and end what it went through."""
        self.close()
        for end in self._ends:
            end()


class Link(Connection):
    """A connection that is logged in. `fault` is why it was given up, where it was."""

    def __init__(
        self, label: str, transport: paramiko.Transport, wire: Wire, keepalive: Keepalive
    ) -> None:
        super().__init__(label)
        self.fault = ""
        self._label = label
        self._transport = transport
        self._wire = wire
        self._keepalive = keepalive
        self._opening = BoundedSemaphore(1)
        self._watcher = greenlets.spawn(f"keepalive {label}", self._watch)

    def __repr__(self) -> str:
        state = "up" if self.usable else f"down {self.fault}".strip()
        return f"<paramiko link {state}, {self.users} users>"

    @property
    def usable(self) -> bool:
        return not self.end.begun and bool(self._transport.is_active())

    def session(self, command: str, sent: Mapping[str, str]) -> paramiko.Channel | None:
        """A channel on which `command` runs, with the environment that is `sent` along; None where
        the server refuses one more. Raises ReachError."""
        channel = self._opened("session")
        if channel is None:
            return None

        def start() -> None:
            for name, value in sent.items():
                channel.set_environment_variable(name, value)
            channel.exec_command(command)

        try:
            self._within("start", apart(f"exec {self._label}", start))
        except BaseException:
            apart("channel-close", channel.close)
            raise
        return channel

    def channel_to(self, host: str, port: int) -> paramiko.Channel:
        """A connection from there to a port. Raises ReachError."""
        channel = self._opened("direct-tcpip", (host, port))
        if channel is None:
            raise ReachError(f"{self._label}: {host}:{port} cannot be reached from there")
        return channel

    def _opened(self, kind: str, to: tuple[str, int] | None = None) -> paramiko.Channel | None:
        wanted = [True]

        def attempt() -> paramiko.Channel | None:
            try:
                with self._opening:
                    channel = self._transport.open_channel(kind, to, _HERE, timeout=limits.OPEN)
            except paramiko.ChannelException:
                return None
            if not wanted:
                channel.close()  # whoever asked has gone
            return channel

        try:
            return self._within("open a channel", apart(f"open {self._label}", attempt))
        except BaseException:
            wanted.clear()
            raise

    def _within(self, what: str, done: AsyncResult) -> Any:
        """The outcome of what was started, within the time that is allowed. Raises ReachError."""
        with translated(self._label):
            done.wait(limits.OPEN)
            if not done.ready():
                raise ReachError(f"{self._label}: could not {what} within {limits.OPEN:g} s")
            return done.get()

    def _watch(self) -> None:
        """Ask for a word whenever none came for a while, and end what gives none."""
        interval, missed = self._keepalive
        if not interval:
            return
        asking = AsyncResult()
        asking.set()
        while True:
            gevent.sleep(max(0, self._wire.heard + interval - time.monotonic()))
            heard = self._wire.heard
            if time.monotonic() - heard < interval:
                continue
            if asking.ready():
                asking = apart("keepalive", self._transport.global_request, KEEPALIVE)
            for _ in range(missed):
                gevent.sleep(interval)
                if self._wire.heard != heard:
                    break
            else:
                self.fault = f"nothing was heard for {self._keepalive.noticed} s"
                self.end(wait=False)
                return

    def _end(self) -> None:
        self._watcher.kill()
        finish(self._transport, self._wire)


class Way(NamedTuple):
    """How links to a machine are made: what is configured for a name and a port (0 for none), and
    the one host key to believe, where there is one."""

    label: str
    read: Callable[[str, int], Config]
    keepalive: Keepalive
    connect_timeout: int
    env: Mapping[str, str]
    host_key: PublicKey | None


def login(way: Way, config: Config, via: tuple[str, ...] | None = None, depth: int = 0) -> Link:
    """A new link to what `config` is about: through `via`, or else as it says itself. Raises
    ReachError; killed, it leaves nothing."""
    through = f"{way.label}: through {config.destination}" if depth else way.label
    with translated(through):
        wire = _wire(way, config, via, depth)
        transport = None
        try:
            transport = paramiko.Transport(wire)
            known = known_hosts.read(config.known_hosts)
            _prefer(transport, config, known, None if depth else way.host_key)
            transport.auth_timeout = limits.AGENT
            transport.start_client(timeout=limits.LOGIN)
            if not transport.initial_kex_done:
                raise ReachError(f"no key exchange within {limits.LOGIN:g} s")
            _verify(transport, config, known, None if depth else way.host_key)
            identities.log_in(transport, config)
            return Link(through, transport, wire, way.keepalive)
        except BaseException:
            # Not cut short, whatever cut this short.
            apart("link-end", finish, transport, wire).wait()
            raise


def _wire(way: Way, config: Config, via: tuple[str, ...] | None, depth: int) -> Wire:
    hops = config.proxy_jump if via is None else via
    if hops:
        if depth == _DEPTH:
            raise ReachError(f"more than {_DEPTH} machines on the way: does ProxyJump end?")
        before = hops[:-1] or None
        link = login(way, way.read(*openssh.hop(hops[-1])), before, depth + 1)
        try:
            return Wire(link.channel_to(config.host, config.port), link.end)
        except BaseException:
            link.end()
            raise
    if config.proxy_command:
        return _proxied(config, way.env)
    sock = socket.create_connection((config.host, config.port), way.connect_timeout)
    sock.setsockopt(names.IPPROTO_TCP, names.TCP_NODELAY, 1)
    return Wire(sock)


def _proxied(config: Config, env: Mapping[str, str]) -> Wire:
    """Through the configured command, a child on one end of a pair of sockets."""
    ours, theirs = names.socketpair()
    try:
        fd = theirs.fileno()
        os.set_blocking(fd, True)  # programs do not expect anything else
        argv = [SHELL, "-c", f"exec {config.proxy_command}"]
        child = Child(argv, env=env, stdin=fd, stdout=fd)
    except ReachError:
        ours.close()
        raise
    finally:
        close_fd(theirs.detach())
    return Wire(ours, child.end)


def _prefer(
    transport: paramiko.Transport,
    config: Config,
    known: Sequence[known_hosts.Line],
    only: PublicKey | None,
) -> None:
    """Allow the algorithms that are configured, and ask for the kinds of host key that are known
    first: a server that has several shows one."""
    options = transport.get_security_options()
    for name, attribute in _ALGORITHMS.items():
        if name in config.algorithms:
            able = getattr(options, attribute)
            common = tuple(a for a in config.algorithms[name] if a in able)
            if not common:
                raise ReachError(f"none of the configured {name} can be done without ssh")
            setattr(options, attribute, common)
    key_name, port = _filed(config)
    kinds = [only.type] if only else known_hosts.types(known, key_name, port)
    first = [a for kind in kinds for a in options.key_types if _of_kind(a, kind)]
    options.key_types = tuple(dict.fromkeys((*first, *options.key_types)))


def _of_kind(algorithm: str, kind: str) -> bool:
    return algorithm == kind or (kind == "ssh-rsa" and algorithm.startswith("rsa-sha2-"))


def _filed(config: Config) -> tuple[str, int]:
    """What the host key of a machine is filed under."""
    if config.key_name:
        return config.key_name, known_hosts.SSH_PORT
    return config.host, config.port


def _verify(
    transport: paramiko.Transport,
    config: Config,
    known: Sequence[known_hosts.Line],
    only: PublicKey | None,
) -> None:
    """Raise ReachError unless the server's host key is believed."""
    shown = transport.get_remote_server_key()
    key = PublicKey(shown.get_name(), shown.asbytes())
    name = f"{key.type} {key.fingerprint}"
    if only is not None:
        if key != only:
            raise ReachError(f"its host key is not the one that it must have, but {name}")
        return
    host, port = _filed(config)
    verdict = known_hosts.judge(known, host, port, key)
    if verdict.says != known_hosts.KNOWN:
        raise ReachError(
            _NOT_BELIEVED[verdict.says].format(
                key=name,
                place=verdict.place,
                name=known_hosts.name_of(host, port),
                destination=config.destination,
                file=config.known_hosts[0] if config.known_hosts else "a known_hosts file",
            )
        )


def finish(transport: paramiko.Transport | None, wire: Wire) -> None:
    """End a transport, however far it got, and what it went through. Bounded in time."""
    # First, for whoever sends or receives gets out; it may be a channel of a link that is stuck.
    apart("wire-close", wire.close).wait(limits.CLOSE)
    if transport is not None:
        transport.packetizer.complete_handshake()  # or its timer goes on
        with gevent.Timeout(limits.CLOSE, False):
            transport.close()
            if transport.ident is not None:
                transport.join()
    wire.end()


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Make what paramiko and the system raise a ReachError about `label`."""
    try:
        yield
    except ReachError as failure:
        text = str(failure)
        raise (failure if text.startswith(label) else ReachError(f"{label}: {text}")) from None
    except (paramiko.SSHException, EOFError, OSError) as failure:
        raise ReachError(f"{label}: {reason(failure)}") from failure
