"""`session.reopen`: make sure that a saved session runs, whoever else is about to do the same.

One process serves a session: the one that holds its claim. A reopen joins it where it serves, waits
for it where it leaves, and starts a host only where there is none; a start that loses the claim to
another waits for the winner. What a reopen joins it never stops and never signals.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import gevent

from craze import greenlets
from craze.client.errors import Refused
from craze.clock import Clock
from craze.hub import saved, start
from craze.hub.admission import Admission, Outcome
from craze.hub.directories import Directories, NoAnswer
from craze.hub.link import Link, Lost
from craze.hub.spawn import Held, SessionRefused, Spawner
from craze.machine import config, index, locks, processes, registry
from craze.machine.durations import format_duration
from craze.machine.errors import MachineError
from craze.machine.ids import is_token
from craze.machine.index import Row, Unattended
from craze.machine.paths import Paths
from craze.machine.registry import Entry
from craze.wire import documents, json
from craze.wire.codes import Refusal
from craze.wire.limits import (
    READY_LINE_WAIT,
    REOPEN_CHANGES,
    REOPEN_DIAL,
    REOPEN_HOLDERS,
    REOPEN_POLL,
    REOPEN_SPAWNS,
    REOPEN_START,
    REOPEN_TIME,
)
from craze.wire.plain import plain_line
from craze.wire.times import format_time, parse_time

Seen = Callable[[Entry, str, bytes], None]

_STOPPING = "which has not finished stopping; try again"
_MOVING = "which is still moving to another session; try again"
_BUSY = frozenset(text.removeprefix("craze: ") for text in (index.BUSY, index.CHANGED))

# What an attach is refused with by a host that is on its way out, or deciding about it.
_LEAVING = ("closing", "not_accepting")

# A process that is killed may lose its socket before its locks: so often its host is looked at
# before it is believed to live, and to answer nobody.
_LOOKS = 5

_INSTANT = 0.001  # a wait of no time at all would be none


class Reopens:
    """The reopens of one hub. `seen` hears of a row that was read on the way."""

    def __init__(
        self,
        paths: Paths,
        environ: Mapping[str, str],
        admission: Admission,
        spawner: Spawner,
        clock: Clock,
        seen: Seen,
        directories: Directories | None = None,
    ) -> None:
        self.directories = directories or Directories()
        self.paths = paths
        self.environ = environ
        self.spawner = spawner
        self.clock = clock
        self.admission = admission
        self.seen = seen

    def reopen(self, args: dict[str, Any]) -> bytes:
        """The result of a reopen with these decoded params, as raw JSON (protocol tables 10.5).
        Raises Refusal."""
        outcome = Outcome()
        self.admission.run("reopen", _Reopen(self, args["id"]).run, outcome)
        return outcome.wait()


class _Reopen:
    """One reopen, from its admission on."""

    def __init__(self, owner: Reopens, id: str) -> None:
        self._owner = owner
        self._id = id
        self._until = owner.clock.monotonic() + REOPEN_TIME
        self._waiting = REOPEN_HOLDERS  # seconds of waiting for holders that are left
        self._spawns = 0
        self._changed: dict[str, Entry] = {}  # hosts that served another session, as listed then
        self._closing: set[str] = set()  # hosts that refused us as ones that may be closing
        self._awaited: Entry | None = None  # who had the session, and may have it still, unlisted

    def run(self) -> bytes:
        with self._owner.admission.place():
            row = self._resolve()
            self._session = row.get("crazeId", "")
            self._key = index.key(row)
            try:
                while True:
                    result = self._look(row)
                    if result is not None:
                        return result
            except Refusal:
                self._check_time()  # once the whole has passed, it is that which is told
                raise

    def _look(self, row: Row) -> bytes | None:
        """Look who has the session now, and take the one step that follows; the result if that
        brought it."""
        self._check_time()
        holder = self._holder()
        if holder is None:
            if self._awaited is None or not self._may_have_it(self._awaited):
                return self._spawn(row)
            self._wait(self._awaited, _STOPPING)
            return None
        self._awaited = holder  # it leaves the registry before it lets go of the session
        if holder.stopping:
            self._wait(holder, _STOPPING)
        elif self._looked_past(holder):
            self._wait(holder, _MOVING)
        else:
            return self._join(holder)
        return None

    # ---- which session, and who has it ----

    def _resolve(self) -> Row:
        owner = self._owner
        try:
            rows = greenlets.on_thread(index.Index(owner.paths).rows)
            settings = greenlets.on_thread(config.load, owner.paths, owner.environ)
        except MachineError:
            raise Refusal("not_resumable", "the session index cannot be read") from None
        row = saved.resolve(rows, self._id)
        if row is None:
            raise Refusal("unknown_session", f"no session {plain_line(self._id)}")
        words = saved.resumable(row, settings)
        if words:
            raise Refusal("not_resumable", words)
        return row

    def _serves(self, entry: Entry) -> bool:
        session = bool(self._session) and entry.crazeSessionId == self._session
        return session or (entry.provider, entry.providerSessionId) == self._key

    def _holder(self) -> Entry | None:
        """The live host to join, or else to wait for. Raises Refusal."""
        try:
            live, unreadable = registry.scan(self._owner.paths)
        except MachineError:
            raise _unknown("the registry of session hosts cannot be read") from None
        if unreadable:
            raise _unknown("the registry entry of a live session host cannot be read")
        mine = [entry for entry in live if self._serves(entry)]
        return max(mine, key=self._preference, default=None)

    def _preference(self, entry: Entry) -> tuple[bool, bool, int]:
        return not self._looked_past(entry), not entry.stopping, _started(entry)

    def _looked_past(self, entry: Entry) -> bool:
        """Whether the host served another session, and its entry has not changed since."""
        return self._changed.get(entry.hostId) == entry

    def _look_past(self, entry: Entry) -> None:
        """The host serves another session by now, and its entry does not say so yet."""
        new = entry.hostId not in self._changed
        if new and len(self._changed) == REOPEN_CHANGES:
            raise _hands(len(self._changed) + 1)
        self._changed[entry.hostId] = entry

    # ---- a host that serves it ----

    def _join(self, entry: Entry) -> bytes | None:
        began = self._owner.clock.monotonic()
        try:
            with start.reach(entry.socket, self._at_most(REOPEN_DIAL)) as link:
                self._wait_start(link, entry.crazeSessionId, began)
        except Refused as refused:
            if refused.code == "unknown_session":
                self._look_past(entry)
            elif refused.reason in _LEAVING:
                self._closing.add(entry.hostId)
                self._wait(entry, _STOPPING)
            else:
                raise _unreachable(entry) from None
            return None
        except Lost:
            self._lost(entry)
            return None
        answer = self._answer(entry, link.version, joined=True)
        if answer is None:
            self._look_past(entry)
        return answer

    def _lost(self, entry: Entry) -> None:
        """The host cannot be reached: it has gone, it is going, or nothing can be said of it."""
        for _ in range(_LOOKS):
            if self._leaves(entry):
                return
            self._wait(entry, _STOPPING)
            if entry.hostId in self._closing:
                return
        raise _unreachable(entry)

    def _leaves(self, entry: Entry) -> bool:
        """Whether a listed host has gone, is going, or has gone over to another session."""
        try:
            again = registry.read(self._owner.paths, entry.hostId)
        except FileNotFoundError:
            return True
        except MachineError:
            return False
        lives = _held(self._owner.paths.host_lock(entry.hostId))
        return again.stopping or not self._serves(again) or not lives

    # ---- a host of our own ----

    def _spawn(self, row: Row) -> bytes | None:
        if self._spawns == REOPEN_SPAWNS:
            raise _hands(self._spawns)
        cwd = row["cwd"]
        try:
            there = self._owner.directories.ask(os.path.isdir, cwd)
        except NoAnswer as failure:
            raise Refusal("busy", f"that session ran in {plain_line(cwd)}: {failure}") from None
        if not there:
            raise Refusal(
                "not_resumable",
                f"that session ran in {plain_line(cwd)}, which is no longer a directory",
            )
        self._spawns += 1
        spawner = self._owner.spawner
        try:
            host = spawner.start(_flags(row), cwd, wait=self._at_most(READY_LINE_WAIT))
        except Held as held:
            # A row from before craze ids has been given one by the holder.
            self._session = self._session or held.session
            self._awaited = Entry(1, held.host_id, held.pid, "", "", held.session)
            return None
        except SessionRefused as refused:
            words = str(refused)
            raise Refusal("busy" if words in _BUSY else "not_resumable", words) from None
        began = self._owner.clock.monotonic()
        with spawner.link(host, self._at_most(REOPEN_DIAL)) as link:
            self._wait_start(link, host.session, began)
        self._session = self._session or host.session
        known = host.entry(row["provider"], cwd, format_time(self._owner.clock.now()))
        answer = self._answer(known, host.version, joined=False)
        if answer is None:
            spawner.end(host)
            self._look_past(known)
        return answer

    # ---- what both come to ----

    def _wait_start(self, link: Link, session: str, dialled: float) -> None:
        """Wait for the start of a session whose host was dialled at `dialled`."""
        passed = self._owner.clock.monotonic() - dialled
        timeout = self._at_most(REOPEN_START - passed)
        subscription = start.up(link, session, timeout, bound=REOPEN_START)
        start.leave(link, session, subscription)

    def _answer(self, known: Entry, version: str, *, joined: bool) -> bytes | None:
        """The result, unless the host serves another session by now."""
        fresh = start.Fresh(self._owner.paths, known, version)
        if not self._serves(fresh.entry) or not fresh.session:
            return None
        if fresh.row:
            self._owner.seen(fresh.entry, fresh.version, fresh.row)
        return documents.encoded([("session", fresh.line), ("joined", json.dumps(joined))])

    # ---- waiting ----

    def _may_have_it(self, entry: Entry) -> bool:
        """Whether the process of a host that had the session, but is not listed with it, may have
        it still: it has not ended, and holds the session's claim, or its own lock."""
        if entry.pid and processes.dead(entry.pid):
            return False
        paths, session = self._owner.paths, entry.crazeSessionId
        if is_token(session) and _held(paths.claim(session)):
            return True
        if not entry.hostId or not _held(paths.host_lock(entry.hostId)):
            return False
        try:
            return self._serves(registry.read(paths, entry.hostId))
        except (FileNotFoundError, MachineError):
            return True

    def _wait(self, entry: Entry, why: str) -> None:
        """Wait one poll's time for a holder. Raises Refusal `busy` when no more may be waited."""
        if self._waiting <= 0:
            host, pid = entry.hostId or "?", entry.pid or "?"
            raise Refusal("busy", f"that session is held by host {host} (pid {pid}), {why}")
        clock = self._owner.clock
        began = clock.monotonic()
        gevent.sleep(REOPEN_POLL)
        self._waiting -= clock.monotonic() - began

    def _at_most(self, bound: float) -> float:
        """`bound` seconds, cut to what is left of the whole."""
        return max(min(bound, self._until - self._owner.clock.monotonic()), _INSTANT)

    def _check_time(self) -> None:
        """Raise Refusal `busy` when the whole has passed."""
        if self._owner.clock.monotonic() >= self._until:
            whole = format_duration(REOPEN_TIME)
            raise Refusal(
                "busy", f"that session was not running within the reopen's {whole}; try again"
            )


def _started(entry: Entry) -> int:
    """When the host of an entry started; 0 where it does not say so."""
    try:
        return parse_time(entry.startedAt)
    except ValueError:
        return 0


def _flags(row: Row) -> dict[str, str | bool]:
    """What a host that loads the row is given; the row says where it runs and as what."""
    flags: dict[str, str | bool] = {"load": saved.id_of(row)}
    recorded = Unattended.read(row)
    if recorded is not None:
        flags |= {
            "unattended": True,
            "ask": recorded.mode == "ask",
            "plan": recorded.mode == "plan",
            "no-force": recorded.permission_mode == "prompt",
            "model": recorded.model,
            "effort": recorded.effort,
        }
    return flags


def _held(path: str) -> bool:
    try:
        found = locks.probe(path)
    except OSError:
        return True  # that nobody holds it cannot be known
    if isinstance(found, locks.Lock):
        found.release()
        return False
    return found


def _unknown(what: str) -> Refusal:
    return Refusal(
        "host_unreachable", f"{what}, so whether a host serves that session cannot be known"
    )


def _unreachable(entry: Entry) -> Refusal:
    return Refusal(
        "host_unreachable", f"the host {entry.hostId} that serves that session cannot be reached"
    )


def _hands(times: int) -> Refusal:
    return Refusal(
        "busy", f"that session changed hands {times} times while the hub reopened it; try again"
    )
