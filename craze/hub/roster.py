"""The roster: what the hub says of every host on the machine, and how far that has come.

Rows are kept as the bytes they are sent as; whatever changes a row's bytes moves the cursor, which
never goes back. Nothing here reads a socket, a file or a clock.
"""

from typing import NamedTuple

from craze.machine.ids import is_host_id, is_token
from craze.machine.registry import Entry
from craze.wire import documents
from craze.wire.limits import (
    ROSTER_FRESH,
    ROSTER_HOST_ROW,
    ROSTER_PROVIDER_CHARS,
    ROSTER_ROW,
    ROSTER_ROWS,
    ROSTER_VERSION_CHARS,
    ROSTER_WORKSPACE_CHARS,
)

CONNECTING, REACHABLE, UNREACHABLE = "connecting", "reachable", "unreachable"
_STARTED_CHARS = 64
_MOST = 2**31 - 1  # a pid's, on any machine


class View(NamedTuple):
    """The roster at a cursor: its rows by host id, in that order, as raw JSON."""

    cursor: int
    rows: dict[str, bytes]
    truncated: bool


class Change(NamedTuple):
    """What leads from one view to a later one."""

    upserts: list[bytes]
    removes: list[str]


class _Listed:
    """A host in the roster; `read_at` is when its row was last read, None for never."""

    __slots__ = ("_facts", "entry", "line", "read_at", "row", "status", "version")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.version = ""
        self.status = CONNECTING
        self.row = b""
        self.read_at: float | None = None
        self.line = b""  # the row as it is sent
        self._facts: tuple[object, ...] = ()  # what it was made of

    def renew(self, oldest: float) -> bool:
        """Make the line of what is known now, exact if read no earlier than `oldest`; whether it
        reads otherwise than before."""
        fresh = self.read_at is not None and self.read_at >= oldest
        facts = (self.entry, self.version, self.status, self.row, fresh)
        if facts == self._facts:
            return False
        before, self._facts = self.line, facts
        self.line = encode(self.entry, self.version, self.status, self.row, exact=fresh)
        return self.line != before


class Roster:
    """Every host that is listed. Times are seconds of the caller's monotonic clock; a row is exact
    for `fresh` seconds after it was read."""

    __slots__ = ("_fresh", "_hosts", "cursor")

    def __init__(self, fresh: float = ROSTER_FRESH) -> None:
        self.cursor = 0
        self._fresh = fresh
        self._hosts: dict[str, _Listed] = {}

    def __contains__(self, host_id: str) -> bool:
        return host_id in self._hosts

    @property
    def hosts(self) -> list[str]:
        return list(self._hosts)

    def reachable(self, host_id: str) -> bool:
        """Whether the last attempt at the host read its row."""
        listed = self._hosts.get(host_id)
        return listed is not None and listed.status == REACHABLE

    def listed(self, entry: Entry, now: float) -> None:
        """The registry has this host, which `listable` accepts."""
        self._renew(self._known(entry), now)

    def read(self, entry: Entry, version: str, row: bytes, now: float) -> None:
        """The host answered with its row; `entry` is what the registry says after that."""
        known = self._known(entry)
        known.status, known.version, known.row, known.read_at = REACHABLE, version, row, now
        self._renew(known, now)

    def failed(self, host_id: str, now: float) -> None:
        """The last attempt at the host failed; what it said before stays."""
        known = self._hosts.get(host_id)
        if known is not None:
            known.status = UNREACHABLE
            self._renew(known, now)

    def drop(self, host_id: str) -> None:
        """The host is not listed any more."""
        if self._hosts.pop(host_id, None) is not None:
            self.cursor += 1

    def age(self, now: float) -> None:
        """Mark what has not been read for too long."""
        for known in self._hosts.values():
            self._renew(known, now)

    def view(self) -> View:
        """The roster as it stands, at most as many rows as one line can hold."""
        ids = sorted(self._hosts)
        rows = {host_id: self._hosts[host_id].line for host_id in ids[:ROSTER_ROWS]}
        return View(self.cursor, rows, len(ids) > ROSTER_ROWS)

    def _known(self, entry: Entry) -> _Listed:
        known = self._hosts.get(entry.hostId)
        if known is None:
            known = self._hosts[entry.hostId] = _Listed(entry)
        known.entry = entry
        return known

    def _renew(self, known: _Listed, now: float) -> None:
        if known.renew(now - self._fresh):
            self.cursor += 1


def listable(entry: Entry) -> bool:
    """Whether a live host belongs in the roster (protocol tables 5.4)."""
    return (
        not entry.stopping
        and 1 <= entry.protocol <= _MOST
        and 0 < entry.pid <= _MOST
        and is_host_id(entry.hostId)
        and is_token(entry.crazeSessionId)
    )


def encode(entry: Entry, version: str, status: str, row: bytes, *, exact: bool = True) -> bytes:
    """A roster row within its bounds; `row` is the host's own. Not `exact`, and whatever is cut or
    dropped here, makes it approximate."""
    cut = {
        "crazeVersion": version[:ROSTER_VERSION_CHARS],
        "provider": entry.provider[:ROSTER_PROVIDER_CHARS],
        "workspace": entry.workspace[:ROSTER_WORKSPACE_CHARS],
        "startedAt": entry.startedAt[:_STARTED_CHARS],
    }
    whole = (version, entry.provider, entry.workspace, entry.startedAt)
    exact = exact and status == REACHABLE and bool(row) and tuple(cut.values()) == whole
    host = documents.build(
        "rosterHost", pid=entry.pid, protocol=entry.protocol, ready=entry.ready, **cut
    )

    def made(row: bytes, exact: bool) -> bytes:
        return documents.roster_row(
            host_id=entry.hostId,
            session_id=entry.crazeSessionId,
            host=host,
            status=status,
            approximate=not exact,
            row=row,
        )

    if len(row) > ROSTER_HOST_ROW:
        return made(b"", False)
    line = made(row, exact)
    return line if len(line) <= ROSTER_ROW else made(b"", False)


def change(before: View, after: View) -> Change:
    """The net change from one view to the other, in host-id order; views of one completeness."""
    upserts = [row for host_id, row in after.rows.items() if before.rows.get(host_id) != row]
    return Change(upserts, [host_id for host_id in before.rows if host_id not in after.rows])
