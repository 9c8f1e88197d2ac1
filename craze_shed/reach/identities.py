"""Logging in with the keys that are configured: those of the agent, and those in files.

Only keys, and nothing that asks a user. What paramiko does by itself is not used for this: it would
try every key of the agent first, and a server hangs up after a handful.
"""

import socket as names
from collections.abc import Iterator
from contextlib import closing

import paramiko
from paramiko.agent import AgentSSH

from craze_shed.reach import limits
from craze_shed.reach.errors import ReachError, reason
from craze_shed.reach.known_hosts import PublicKey
from craze_shed.reach.openssh import Config


class Agent(AgentSSH):  # type: ignore[misc]
    """The agent at a socket. paramiko's own knows only the one that the environment names."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.why_not = ""
        if not path:
            return
        sock = names.socket(names.AF_UNIX)
        sock.settimeout(limits.AGENT)
        try:
            sock.connect(path)
            self._connect(sock)
        except (OSError, paramiko.SSHException) as failure:
            sock.close()
            self.why_not = f"agent {path}: {reason(failure)}"

    def close(self) -> None:
        """Let go of it."""
        self._close()


class Keys:
    """The keys to try, in order: those of the configured files, through the agent where it has
    them; then what else the agent has, unless only the configured ones are wanted."""

    def __init__(self, config: Config, agent: Agent) -> None:
        self.notes: list[str] = [agent.why_not] if agent.why_not else []
        self._config = config
        self._held = {key.asbytes(): key for key in agent.get_keys()}

    def __iter__(self) -> Iterator[paramiko.PKey]:
        for path in self._config.identity_files:
            held = self._held.pop(_public(path), None)
            key = held if held is not None else self._load(path)
            if key is not None:
                self._held.pop(key.asbytes(), None)
                yield key
        if not self._config.identities_only:
            yield from self._held.values()

    def _load(self, path: str) -> paramiko.PKey | None:
        try:
            return paramiko.PKey.from_path(path)
        except FileNotFoundError:
            return None  # ssh names some that need not be there
        except Exception as failure:  # three libraries' own, for a passphrase as for nonsense
            self.notes.append(f"{path}: {reason(failure)}")
            return None


def log_in(transport: paramiko.Transport, config: Config) -> None:
    """Log in as the configured user. Raises ReachError, and what paramiko raises."""
    try:
        if not transport.auth_none(config.user):
            return
        wanted = []
    except paramiko.BadAuthenticationType as refused:
        wanted = refused.allowed_types
    if "publickey" not in wanted:
        raise ReachError(f"the server takes no key, but {', '.join(wanted) or 'nothing'}")
    with closing(Agent(config.agent)) as agent:
        keys = Keys(config, agent)
        tried = 0
        for key in keys:
            tried += 1
            try:
                more = transport.auth_publickey(config.user, key)
            except paramiko.AuthenticationException:
                if not transport.is_active():
                    raise ReachError(
                        f"the server hung up after {tried} keys;"
                        " name the right one with IdentityFile, and set IdentitiesOnly"
                    ) from None
                continue
            if more:
                raise ReachError(f"the server wants more than a key: {', '.join(more)}")
            return
    notes = f" ({'; '.join(keys.notes)})" if keys.notes else ""
    raise ReachError(f"the server took none of {tried} keys for {config.user}{notes}")


def _public(path: str) -> bytes:
    """The public half of a key file, where it is written beside it, or is all there is."""
    for name in (f"{path}.pub", path):
        try:
            with open(name, encoding="utf-8", errors="replace") as file:
                key = PublicKey.read(file.readline().split())
        except OSError:
            continue
        if key is not None:
            return key.blob
    return b""
