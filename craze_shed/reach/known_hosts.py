"""Which host keys are believed: the known_hosts files as OpenSSH reads them. No I/O but the files.

A line's hosts may be patterns, hashed, or `[host]:port`; a line may revoke its key. A line for a
certificate authority makes none of its keys known: certificates are not judged here, and so not
believed.
"""

import base64
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SSH_PORT = 22
KNOWN, UNKNOWN, CHANGED, REVOKED = "known", "unknown", "changed", "revoked"
_REVOKED = "@revoked"


class PublicKey(NamedTuple):
    """A public key: what its blob says it is, and the blob."""

    type: str
    blob: bytes

    @classmethod
    def read(cls, fields: Sequence[str]) -> "PublicKey | None":
        """A key as it is written, its type and then its blob; None for what is none."""
        try:
            type, body, *_ = fields
            return cls(type, base64.b64decode(body, validate=True))
        except ValueError:  # base64's own is one
            return None

    @property
    def fingerprint(self) -> str:
        """As ssh prints it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"SHA256:{digest}"


class Line(NamedTuple):
    """A line of a file: whose key it is, and where it stands."""

    marker: str
    hosts: str
    key: PublicKey
    place: str


class Verdict(NamedTuple):
    """What the files say of a key, and the place that decided it, where there is one."""

    says: str
    place: str = ""


def name_of(host: str, port: int) -> str:
    """What a host at a port is called in a file."""
    return host if port == SSH_PORT else f"[{host}]:{port}"


def lines(text: str, path: str) -> list[Line]:
    """The lines of a file that can be read; others say nothing."""
    found = []
    for number, written in enumerate(text.splitlines(), 1):
        fields = written.split()
        if not fields or fields[0].startswith("#"):
            continue
        marker = fields.pop(0) if fields[0].startswith("@") else ""
        key = PublicKey.read(fields[1:])
        if key is not None:
            found.append(Line(marker, fields[0], key, f"{path}:{number}"))
    return found


def read(paths: Iterable[str]) -> list[Line]:
    """The lines of those files that are there."""
    found = []
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found += lines(file.read(), path)
        except OSError:
            continue
    return found


def judge(known: Sequence[Line], host: str, port: int, key: PublicKey) -> Verdict:
    """What the lines say of the key that a server shows."""
    for line in known:
        if line.marker == _REVOKED and line.key.blob == key.blob and _of(line, host, port):
            return Verdict(REVOKED, line.place)
    alike = [line for line in known if not line.marker and line.key.type == key.type]
    name = name_of(host, port)
    there = [line for line in alike if matches(line.hosts, name)]
    for line in there:
        if line.key.blob == key.blob:
            return Verdict(KNOWN, line.place)
    if there:
        return Verdict(CHANGED, there[0].place)
    for line in alike:  # as ssh does: the host's own key is believed at any port of it
        if line.key.blob == key.blob and matches(line.hosts, host):
            return Verdict(KNOWN, line.place)
    return Verdict(UNKNOWN)


def types(known: Sequence[Line], host: str, port: int) -> list[str]:
    """The types of the keys that are known of a host, to be asked for first."""
    found = (line.key.type for line in known if not line.marker and _of(line, host, port))
    return list(dict.fromkeys(found))


def _of(line: Line, host: str, port: int) -> bool:
    return matches(line.hosts, name_of(host, port)) or matches(line.hosts, host)


def matches(hosts: str, name: str) -> bool:
    """Whether a line's hosts are those of `name`."""
    if hosts.startswith("|"):
        return _hashed(hosts, name)
    matched = False
    for pattern in hosts.lower().split(","):
        negated = pattern.startswith("!")
        if _pattern(pattern.removeprefix("!"), name.lower()):
            if negated:
                return False
            matched = True
    return matched


def _pattern(pattern: str, name: str) -> bool:
    """`*` and `?` are all there is: a bracket is a bracket."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def _hashed(hosts: str, name: str) -> bool:
    try:
        _, kind, salt, digest = hosts.split("|")
        if kind != "1":
            return False
        made = hmac.digest(base64.b64decode(salt), name.encode(), "sha1")
        return hmac.compare_digest(made, base64.b64decode(digest))
    except ValueError:
        return False
