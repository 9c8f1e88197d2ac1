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
from craze.hub.link import Link, Lost, NoAnswer
from craze.hub.spawn import Held, SessionRefused, Spawned, Spawner
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

Seen = Callable[[Entry, str, bytes], None]

_STOPPING = "which has not finished stopping; try again"
_MOVING = "which is still moving to another session; try again"
_BUSY = frozenset(text.removeprefix("craze: ") for text in (index.BUSY, index.CHANGED))


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
    ) -> None:
        self.paths = paths
        self.environ = environ
        self.spawner = spawner
        self.clock = clock
        self.seen = seen
        self._admission = admission

    def reopen(self, args: dict[str, Any]) -> bytes:
        """The result of a reopen with these decoded params, as raw JSON (protocol tables 10.5).
        Raises Refusal."""
        outcome = Outcome()
        self._admission.run("reopen", _Reopen(self, args["id"]).run, outcome)
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

    def run(self) -> bytes:
        row = self._resolve()
        self._session = row.get("crazeId", "")
        self._key = index.key(row)
        while True:
            holder = self._holder()
            result = self._spawn(row) if holder is None else self._take(holder)
            if result is not None:
                return result

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
            raise Refusal("unknown_session", f"no session {self._id}")
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

    def _preference(self, entry: Entry) -> tuple[bool, bool, str]:
        looked_past = self._changed.get(entry.hostId) == entry
        return not looked_past, not entry.stopping, entry.startedAt

    # ---- a host that serves it ----

    def _take(self, holder: Entry) -> bytes | None:
        if holder.stopping:
            self._wait_gone(holder)
        elif self._changed.get(holder.hostId) == holder:
            self._wait_changed(holder)
        else:
            return self._join(holder)
        return None

    def _join(self, entry: Entry) -> bytes | None:
        try:
            with Link(entry.socket, min(REOPEN_DIAL, self._left())) as link:
                link.hello(start.NAME, min(REOPEN_DIAL, self._left()))
                version = self._wait_start(link, entry.crazeSessionId)
        except Refused as refused:
            if refused.code == "unknown_session":
                self._look_past(entry)
            elif refused.reason == "closing":
                self._closing.add(entry.hostId)
                self._wait(entry, _STOPPING)
            else:
                raise _unreachable(entry) from None
        except NoAnswer:
            raise _unreachable(entry) from None
        except Lost:
            self._lost(entry)
        else:
            return self._answer(entry, version, joined=True)
        return None

    def _lost(self, entry: Entry) -> None:
        """The host cannot be reached: it has gone, it is going, or nothing can be said of it."""
        try:
            again = registry.read(self._owner.paths, entry.hostId)
        except FileNotFoundError:
            self._wait_gone(entry)
            return
        except MachineError:
            raise _unreachable(entry) from None
        if again.stopping or not self._lives(entry):
            self._wait_gone(entry)
        elif entry.hostId in self._closing:
            self._wait(entry, _STOPPING)
        else:
            raise _unreachable(entry)

    def _look_past(self, entry: Entry) -> None:
        """The host serves another session by now, and its entry does not say so yet."""
        new = entry.hostId not in self._changed
        if new and len(self._changed) == REOPEN_CHANGES:
            raise _hands(len(self._changed) + 1)
        self._changed[entry.hostId] = entry

    # ---- a host of our own ----

    def _spawn(self, row: Row) -> bytes | None:
        if self._spawns == REOPEN_SPAWNS:
            raise _hands(self._spawns)
        cwd = row["cwd"]
        if not greenlets.on_thread(os.path.isdir, cwd):
            raise Refusal(
                "not_resumable", f"that session ran in {cwd}, which is no longer a directory"
            )
        self._spawns += 1
        wait = min(READY_LINE_WAIT, self._left())
        try:
            host = self._owner.spawner.start(_flags(row), cwd, wait=wait)
        except Held as held:
            self._wait_holder(held)
            return None
        except SessionRefused as refused:
            words = str(refused)
            reason = "busy" if words in _BUSY else "not_resumable"
            raise Refusal(reason, words) from None
        try:
            answer = self._up(host, row)
        except BaseException:
            self._owner.spawner.end(host)
            raise
        if answer is None:
            self._owner.spawner.end(host)
        return answer

    def _up(self, host: Spawned, row: Row) -> bytes | None:
        try:
            with Link(host.socket, min(REOPEN_DIAL, self._left())) as link:
                link.hello(start.NAME, min(REOPEN_DIAL, self._left()))
                version = self._wait_start(link, host.session)
        except (Lost, Refused):
            raise Refusal(
                "spawn_failed", "the session host went before its session started"
            ) from None
        self._session = self._session or host.session  # a row from before craze ids has one now
        known = Entry(
            protocol=1,
            hostId=host.host_id,
            pid=host.child.pid,
            startedAt=row["updatedAt"],
            socket=host.socket,
            crazeSessionId=host.session,
            provider=row["provider"],
            workspace=row["cwd"],
            ready=True,
        )
        return self._answer(known, version, joined=False)

    # ---- what both come to ----

    def _wait_start(self, link: Link, session: str) -> str:
        """Wait for the start; the host's version."""
        left = self._left()
        try:
            subscription = start.wait(link, session, min(REOPEN_START, left), bound=REOPEN_START)
        except Refusal:
            self._left()  # it may be the whole that has passed
            raise
        start.leave(link, session, subscription)
        return link.version

    def _answer(self, known: Entry, version: str, *, joined: bool) -> bytes | None:
        """The result, unless the host serves another session by now."""
        fresh = start.Fresh(self._owner.paths, known, version, self._owner.clock)
        if not self._serves(fresh.entry) or not fresh.session:
            self._look_past(known)
            return None
        if fresh.row:
            self._owner.seen(fresh.entry, fresh.version, fresh.row)
        return documents.encoded([("session", fresh.line), ("joined", json.dumps(joined))])

    # ---- waiting ----

    def _wait_gone(self, entry: Entry) -> None:
        while self._lives(entry):
            self._wait(entry, _STOPPING)

    def _wait_changed(self, entry: Entry) -> None:
        while self._lives(entry):
            try:
                if registry.read(self._owner.paths, entry.hostId) != entry:
                    return
            except FileNotFoundError:
                self._wait_gone(entry)
                return
            except MachineError:
                pass  # it is being looked at again in a moment
            self._wait(entry, _MOVING)

    def _wait_holder(self, held: Held) -> None:
        """Until the holder of the claim serves the session, or has gone."""
        # A row from before craze ids has been given one by the holder.
        self._session = self._session or held.session
        holder = Entry(1, held.host_id, held.pid, "", "", held.session)
        while self._lives(holder):
            try:
                entry = registry.read(self._owner.paths, held.host_id)
                if self._serves(entry) and not entry.stopping:
                    return
            except (FileNotFoundError, MachineError):
                pass  # it has not listed itself yet, or does no more
            self._wait(holder, _STOPPING)

    def _lives(self, entry: Entry) -> bool:
        """Whether the process of a host may still have the session: it holds the session's claim,
        or its own lock, and has not ended."""
        if entry.pid and processes.dead(entry.pid):
            return False
        paths, session = self._owner.paths, entry.crazeSessionId
        claimed = is_token(session) and _held(paths.claim(session))
        return claimed or (bool(entry.hostId) and _held(paths.host_lock(entry.hostId)))

    def _wait(self, entry: Entry, why: str) -> None:
        """Wait one poll's time for a holder. Raises Refusal `busy` when no more may be waited."""
        self._left()
        if self._waiting <= 0:
            raise Refusal(
                "busy",
                f"that session is held by host {entry.hostId or '?'} (pid {entry.pid or '?'}), "
                + why,
            )
        self._waiting -= REOPEN_POLL
        gevent.sleep(REOPEN_POLL)

    def _left(self) -> float:
        """The seconds that are left of the whole. Raises Refusal `busy` when there are none."""
        left = self._until - self._owner.clock.monotonic()
        if left <= 0:
            whole = format_duration(REOPEN_TIME)
            raise Refusal(
                "busy", f"that session was not running within the reopen's {whole}; try again"
            )
        return left


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
