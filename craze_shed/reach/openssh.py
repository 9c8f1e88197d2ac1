"""What OpenSSH's own configuration says of a machine, as `ssh -G` tells it.

The ssh program reads it, as a child, so that Include, Match exec and all else mean what they mean
to ssh. What it says is read here, not judged.
"""

import fnmatch
import os
import pwd
import re
import shutil
from collections.abc import Mapping
from typing import NamedTuple

from craze_shed.reach import limits
from craze_shed.reach.child import output
from craze_shed.reach.errors import ReachError
from craze_shed.reach.known_hosts import SSH_PORT
from ladder.outcome import plain

_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
_ENVIRONMENT_S = "SSH_AUTH_SOCK"
_TOKEN = re.compile(r"%(.)")

ALGORITHMS = ("kexalgorithms", "ciphers", "macs", "hostkeyalgorithms")

_UNVERIFIED = "Host key verification failed."  # all that ssh says, where it may not ask

# What would have to be done and cannot be, where it says anything but this.
_CANNOT = {
    "addressfamily": ("any",),
    "bindaddress": (),
    "bindinterface": (),
    "proxyusefdpass": ("no",),
    "pubkeyauthentication": ("yes", "true", "unbound", "host-bound"),
    "revokedhostkeys": (),
}


def checked(destination: str) -> str:
    """A destination as ssh takes one (`host`, `user@host`, a name of the user's configuration).

    Raises ReachError for one that ssh would take for an option, or for nothing.
    """
    if not destination or destination.startswith("-"):
        raise ReachError(f'not a destination for ssh: "{destination}"')
    return destination


def told(label: str, why: str, stderr: bytes) -> ReachError:
    """Why a machine was not reached, with the last that ssh said about it."""
    text = f"{label}: {why}"
    if said := plain(stderr):
        text += f": {said}"
    if _UNVERIFIED in said:
        text += "; run ssh there in a terminal once, and accept its key if that is the right one"
    return ReachError(text)


class Config(NamedTuple):
    """What is configured for one destination. Paths are complete; what says nothing is empty."""

    destination: str
    host: str
    port: int
    user: str
    key_name: str = ""  # what its host key is filed under, where that is not its name
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent: str = ""  # the socket
    known_hosts: tuple[str, ...] = ()
    proxy_command: str = ""
    proxy_jump: tuple[str, ...] = ()
    sent: Mapping[str, str] = {}
    algorithms: Mapping[str, tuple[str, ...]] = {}


def hop(text: str) -> tuple[str, int]:
    """A machine of a ProxyJump, as a destination and its port, 0 where it has none."""
    text = text.removeprefix("ssh://")
    user, at, host = text.rpartition("@")
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit() or (":" in name and not name.startswith("[")):
        name, port = host, "0"
    return f"{user}{at}{name.strip('[]')}", int(port)


def read(
    destination: str,
    *,
    port: int = 0,
    config: str | None = None,
    program: str = "ssh",
    env: Mapping[str, str],
) -> Config:
    """What is configured for `destination`; without an ssh program what ssh would do by itself.

    Raises ReachError where the configuration cannot be read, or asks for what cannot be done.
    """
    if shutil.which(program, path=env.get("PATH", os.defpath)) is None:
        if config is not None:
            raise ReachError(f"{destination}: {config} is read by {program}, which is not there")
        return _unconfigured(destination, port, env)
    argv = [
        program,
        "-GT",
        *(("-F", config) if config is not None else ()),
        *(("-p", str(port)) if port not in (0, SSH_PORT) else ()),
        "--",
        destination,
    ]
    found = output(argv, env, timeout=limits.CONFIG, most=limits.CONFIG_BYTES)
    if found.exit != 0:
        raise told(destination, "ssh could not read its configuration", found.stderr)
    values: dict[str, list[str]] = {}
    for line in found.stdout.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(" ")
        values.setdefault(name, []).append(value)
    return _config(destination, values, env)


def _unconfigured(destination: str, port: int, env: Mapping[str, str]) -> Config:
    home = env.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir
    user, _, host = destination.rpartition("@")
    return Config(
        destination,
        host,
        port or SSH_PORT,
        user or pwd.getpwuid(os.geteuid()).pw_name,
        identity_files=tuple(f"{home}/.ssh/{name}" for name in _DEFAULT_KEYS),
        agent=env.get("SSH_AUTH_SOCK", ""),
        known_hosts=(f"{home}/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"),
    )


def _config(destination: str, values: Mapping[str, list[str]], env: Mapping[str, str]) -> Config:
    def one(name: str) -> str:
        value = values.get(name, [""])[0]
        return "" if value == "none" else value

    for name, fine in _CANNOT.items():
        if one(name) not in ("", *fine):
            raise ReachError(
                f"{destination}: its ssh configuration says `{name} {one(name)}`,"
                " and that cannot be done without the ssh program"
            )
    user = one("user")
    host, port = one("hostname"), int(one("port"))
    ourselves = pwd.getpwuid(os.geteuid())
    home = ourselves.pw_dir  # to ssh it is that, whatever HOME says
    tokens = {
        "%": "%",
        "d": home,
        "h": host,
        "k": one("hostkeyalias") or host,
        "n": destination.rpartition("@")[2],
        "p": str(port),
        "r": user,
        "u": ourselves.pw_name,
    }

    def full(text: str) -> str:
        text = home + text[1:] if text.startswith("~/") else text
        return _TOKEN.sub(lambda found: tokens.get(found[1], found[0]), text)

    known = f"{one('userknownhostsfile')} {one('globalknownhostsfile')}"
    return Config(
        destination,
        host,
        port,
        user,
        key_name=one("hostkeyalias"),
        identity_files=tuple(
            full(file) for file in values.get("identityfile", []) if file != "none"
        ),
        identities_only=one("identitiesonly") == "yes",
        agent=full(_agent(values.get("identityagent", [_ENVIRONMENT_S])[0], env)),
        known_hosts=tuple(map(full, known.split())),
        proxy_command=full(one("proxycommand")),
        proxy_jump=tuple(hop for hop in one("proxyjump").split(",") if hop),
        sent=_sent(values.get("sendenv", []), values.get("setenv", []), env),
        algorithms={name: tuple(one(name).split(",")) for name in ALGORITHMS if one(name)},
    )


def _agent(named: str, env: Mapping[str, str]) -> str:
    """The socket of the agent that a configuration names."""
    if named == _ENVIRONMENT_S or named.startswith("$"):
        return env.get(named.removeprefix("$").strip("{}"), "")
    return "" if named == "none" else named


def _sent(patterns: list[str], given: list[str], env: Mapping[str, str]) -> dict[str, str]:
    """The environment that ssh would send along."""
    wanted = [pattern for line in patterns for pattern in line.split()]
    sent = {
        name: value
        for name, value in env.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)
    }
    for setting in given:
        name, _, value = setting.partition("=")
        sent[name] = value
    return sent
