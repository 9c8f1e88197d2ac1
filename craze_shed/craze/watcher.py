"""One subscription to a session: its seed, its silent resumes, its reseeds, and its end.

A watcher owns one connection at a time and folds what comes over it, in order, each event once.
When the connection is lost it says so, joins again, and asks to go on from where it stood; only
where the host cannot do that does it begin anew, bracketed by Reset and Ready. Every wait is
bounded, and past a bound the lane goes down with the reason. Nothing here sends a verb.
"""

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import gevent

from craze.client.errors import Refused
from craze.clock import Clock
from craze_shed import backoff
from craze_shed.contract import frames, rows
from craze_shed.contract.approvals import LaneApproval
from craze_shed.contract.frames import LaneFrame
from craze_shed.contract.publisher import SEED_ROWS, Lagged, Publisher, ReceiverGone
from craze_shed.contract.rows import FeedMessage, Ring
from craze_shed.contract.sessions import LaneSession
from craze_shed.contract.settings import LaneSettingChange
from craze_shed.craze import limits, roster_rows
from craze_shed.craze.connection import Backlog, Connection, Deadline, Ended, Notice
from craze_shed.craze.dial import CLOSED, NotReached
from craze_shed.craze.fold import COMPACTING, OMITTED, Fold, NoSnapshot
from craze_shed.craze.joining import (
    ConnectRefused,
    Joined,
    NoSession,
    WrongHost,
    open_asks,
)
from craze_shed.craze.limits import Bounds
from craze_shed.craze.values import filled, members, text, whole
from ladder.outcome import Kind

RECONNECTING = "reconnecting"
SERVER_RESET = "server_reset:"  # and the reason of the reset


class _Over(Exception):
    """The lane goes down; `str()` is the reason."""


class _Fault(Exception):
    """The host said what no host says: begin anew on another connection."""


class _Replaced(Exception):
    """The host serves another session now: join it, and begin anew."""


class Cursor(NamedTuple):
    """Where a stream stands."""

    incarnation: str
    seq: int


class Watched(ABC):
    """What a lane's watchers share of it, and tell it. The lane is the one that implements this."""

    host_id: str
    numbered: int  # the last row that any of its watchers has numbered

    @abstractmethod
    def join(self, timeout: float, *, first: bool) -> Joined:
        """A new connection to the session's host; `first` while nothing has been shown yet."""

    @abstractmethod
    def attached(self, connection: Connection, session: str) -> None:
        """The verbs may use this connection from now on."""

    @abstractmethod
    def detached(self, connection: Connection) -> None:
        """… and no more."""

    @abstractmethod
    def saw(self, row: LaneSession) -> None:
        """The session's row as it was last told."""

    @abstractmethod
    def ending(self, reason: str) -> None:
        """The lane is about to go down."""


class Watcher:
    """A watcher of `session` into `publisher`; `run` returns when it is over."""

    def __init__(
        self,
        session: Watched,
        publisher: Publisher[LaneFrame],
        *,
        cursor_given: bool = False,
        bounds: Bounds = Bounds(),  # noqa: B008 a value
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.seeded = False  # a seed is complete, and its fold can be asked
        self.fold = Fold(session.host_id)
        self._session = session
        self._publisher = publisher
        self._bounds = bounds
        self._clock = clock or Clock()
        self._chance = chance
        self._ring = Ring(after=session.numbered)
        self._generation = 0
        self._reason = "connect:cursor-ignored" if cursor_given else "connect"
        self._cursor: Cursor | None = None  # None: begin anew
        self._row: dict[str, Any] = {}
        self._info: dict[str, Any] = {}
        self._craze_session = ""
        self._presence: int | None = None
        self._burst = 0
        self._sent: dict[str, Any] = {}  # what was last told, in this generation
        self._approvals: dict[str, LaneApproval] = {}  # … of each ask
        self._confirmed: deque[tuple[LaneSettingChange, str]] = deque(maxlen=limits.CONFIRMATIONS)
        self._stale = False
        self._unconfirmed = False  # an `omitted` whose new attach has not been answered
        self._fence = 0  # the seq through which a seed or a resume is complete
        self._synchronized = False
        self._settled = False
        self._attaches = -1  # in this episode; the subscription's first does not count
        self._refusals = 0
        self._delay = bounds.backoff_first
        self._worked = False  # an attach did, on the connection that was lost
        self._outage: float | None = self._clock.monotonic()
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"<Watcher of {self._session.host_id}, generation {self._generation}>"

    # ---- from the lane ----

    def confirm(self, change: LaneSettingChange, value: str) -> None:
        """A setting was changed, and no event will say so."""
        self._confirmed.append((change, value))
        if self._connection is not None:
            self._connection.wake()

    # ---- the whole ----

    def run(self) -> None:
        """Watch until the lane goes down or nobody receives any more."""
        try:
            self._watch()
        except _Over as over:
            reason = str(over)
            self._let_go(reason)  # nothing is held while the client takes its time
            self._session.ending(reason)
            try:
                for row in self.fold.flush():
                    self._publisher.publish_waiting(frames.Message(self._kept(row)))
                self._publisher.publish_final(frames.Down(reason))
            except ReceiverGone:
                return
        except ReceiverGone:
            return
        finally:
            self._publisher.close()
            self._let_go("the watcher ended")

    def _watch(self) -> None:
        while True:
            try:
                self._attempt()
            except (Lagged, Backlog):
                self._lag()
            self._pause()

    def _attempt(self) -> None:
        """One connection, and what its loss comes to. Raises Lagged and Backlog."""
        try:
            self._once()
        except Backlog:
            raise
        except _Fault as fault:
            self._let_go(str(fault))
            self._begin_anew("protocol")
            self._lose()
        except (Ended, Deadline):
            self._let_go("it was lost")
            reset_inside_a_seed = self._reason.startswith(SERVER_RESET)
            if not self.seeded and (self._cursor is not None or reset_inside_a_seed):
                self._begin_anew("reconnect")
            self._lose()
        except _Replaced as replaced:
            self._let_go(str(replaced))
            self._begin_anew(f"{SERVER_RESET}session_replaced")
            self._lose()

    def _once(self) -> None:
        """One connection, from its dial to its loss, which is raised."""
        joined = self._join()
        self._connection = connection = joined.connection
        self._take_row(joined)
        while True:
            reply = self._attach(connection)
            if reply is not None:
                self._session.attached(connection, self._craze_session)
                self._begin(reply, self._registry(connection))
                self._follow(connection, text(reply.get("subscription")))

    # ---- joining ----

    def _join(self) -> Joined:
        self._check_outage()
        try:
            joined = self._session.join(
                min(self._bounds.dial, self._left()), first=self._generation == 0
            )
        except NoSession as gone:
            raise self._no_session(str(gone)) from None
        except WrongHost as wrong:
            raise _Over(f"protocol: {wrong}") from None
        except ConnectRefused as refused:
            self._refusals += 1
            if self._refusals >= self._bounds.refusals:
                raise _Over(f"connect refused: {refused}") from None
            raise Ended(str(refused)) from None
        except NotReached as failure:
            if failure.kind in (Kind.NOT_INSTALLED, Kind.TOO_OLD):
                raise _Over(f"craze unavailable: {failure}") from None
            if failure.kind == CLOSED:
                raise _Over(frames.HOST_REMOVED) from None
            self._check_outage()
            raise Ended(str(failure)) from None
        except (Ended, Deadline):
            self._check_outage()
            raise
        return joined

    def _no_session(self, reason: str) -> _Over:
        # What was left out may have been the session's last words.
        return _Over(frames.SESSION_CLOSED if self._unconfirmed else reason)

    def _check_outage(self) -> None:
        if self._left() <= 0:
            raise _Over("unreachable")

    def _left(self) -> float:
        """Seconds until the outage has lasted too long."""
        return self._outage_since() + self._bounds.outage - self._clock.monotonic()

    def _outage_since(self) -> float:
        if self._outage is None:
            self._outage = self._clock.monotonic()
        return self._outage

    def _take_row(self, joined: Joined) -> None:
        self._row = joined.row
        if self._craze_session not in ("", joined.session) and self._cursor is not None:
            self._begin_anew(f"{SERVER_RESET}session_replaced")
        self._craze_session = joined.session
        self._presence = None
        self.fold.activity = ""

    def _attach(self, connection: Connection) -> dict[str, Any] | None:
        """The attach's reply; None where it is to be tried again."""
        self._attaches += 1
        if self._attaches > self._bounds.reattaches:
            raise _Over("re-attach bound")
        params: dict[str, Any] = {"sessionId": self._craze_session}
        if self._cursor is not None:
            params["cursor"] = self._cursor._asdict()
        try:
            # A host answers once the session has started; until then it is silent.
            reply = connection.ask("session.attach", params, self._bounds.silence)
        except Refused as refused:
            self._attach_refused(refused)
            return None
        self._refusals = 0
        self._unconfirmed = False
        self._worked = True
        if "snapshot" in reply:
            self._confirmed.clear()  # those so far are in it
        return reply

    def _attach_refused(self, refused: Refused) -> None:
        if refused.code == "unknown_session":
            raise self._no_session(frames.UNKNOWN_SESSION)
        if refused.code == "not_accepting":
            failed = refused.reason == "start_failed"
            cause = refused.cause.strip() or refused.message
            raise _Over(frames.start_failed(cause) if failed else frames.SESSION_CLOSED)
        if refused.code not in ("unavailable", "in_progress"):
            raise _Fault(f"attach was refused: {refused}")
        gevent.sleep(backoff.jittered(self._bounds.gate, self._chance()))

    def _registry(self, connection: Connection) -> list[dict[str, Any]]:
        """The engine's open asks; the seq through which events complete them is the fence."""
        try:
            records = open_asks(connection, self._craze_session)
            about = {"sessionId": self._craze_session}
            seq = whole(connection.ask("session.sync", about, limits.ASK).get("seq"))
        except Refused as refused:
            if refused.code in ("not_accepting", "unknown_session"):
                return self._closed_registry()
            raise _Fault(f"the asks could not be read: {refused}") from None
        except Ended:
            if not any(_is_close(notice) for notice in connection.notices):
                raise
            return self._closed_registry()
        if seq is None:
            raise _Fault("a sync without its seq")
        self._fence = seq
        return records

    def _closed_registry(self) -> list[dict[str, Any]]:
        """The session has closed, every ask with it: the stream, which is here, says how."""
        self._fence = 0
        return []

    # ---- the seed, and the resume ----

    def _begin(self, reply: dict[str, Any], records: list[dict[str, Any]]) -> None:
        after = _cursor(reply.get("after"))
        if after is None:
            raise _Fault("an attach without its place")
        self._info = members(reply.get("session"))
        self._synchronized = self._settled = False
        if "snapshot" in reply:
            if self._cursor is not None:
                reason = text(reply.get("reset"))
                self._reason = f"cursor_lost:{reason}" if reason else "cursor_lost"
            self._seed(reply["snapshot"], after, records)
        elif self._cursor != after:
            raise _Fault("an attach that goes on from another place")
        else:
            self.fold.adopt_info(self._info)
            self.fold.adopt_registry(records)
            self._tell_changes()

    def _seed(self, snapshot: Any, after: Cursor, records: list[dict[str, Any]]) -> None:
        said = members(snapshot)
        if (said.get("incarnation"), said.get("seq", 0)) != tuple(after):
            raise _Fault("a snapshot of another place")
        fold = Fold(self._session.host_id)
        fold.adopt_info(self._info)
        try:
            seeded = fold.restore(snapshot)
        except NoSnapshot as failure:
            raise _Fault(str(failure)) from None
        fold.adopt_registry(records)
        self._publish_rows(self.fold.flush())
        self.fold = fold
        self.seeded = False
        self._cursor = after
        self._generation += 1
        self._sent.clear()
        self._approvals.clear()
        self._publish(frames.Reset(self._reason, self._generation))
        self._publish_rows(_newest(seeded))
        self._tell_session()
        self._tell_settings()
        self._tell_approvals()

    # ---- following ----

    def _follow(self, connection: Connection, subscription: str) -> None:
        """Fold what comes, until the attachment ends and another is to be made on the same
        connection. Raises Ended and _Fault where that is over, too."""
        quiet_since = grew_at = self._clock.monotonic()
        held = self.fold.open_bytes
        while True:
            now = self._clock.monotonic()
            waits = []
            if not self._settled:
                waits.append(quiet_since + self._bounds.silence - now)
            if held:
                waits.append(grew_at + self._bounds.flush - now)
            notice = connection.next(max(min(waits), 0.0) if waits else None)
            now = self._clock.monotonic()
            self._take_confirmed()
            if notice is not None:
                quiet_since = now
                if self._notice(notice, subscription):
                    return
            elif not self._settled and now - quiet_since >= self._bounds.silence:
                raise Ended("craze said nothing for too long")
            if self.fold.open_bytes != held:
                held, grew_at = self.fold.open_bytes, now
            elif held and now - grew_at >= self._bounds.flush:
                self._publish_rows(self.fold.flush())
                held = self.fold.open_bytes

    def _notice(self, notice: Notice, subscription: str) -> bool:
        """Take a notification; whether the attachment ended with it."""
        take = self._NOTICES.get(notice.method)
        if take is None:
            return False
        if notice.params.get("subscription") != subscription:
            raise _Fault(f"a {notice.method} of another subscription")
        take(self, notice.params)
        return notice.method == "reset"

    def _event(self, params: dict[str, Any]) -> None:
        assert self._cursor is not None  # there was a seed
        seq = whole(params.get("seq"))
        if seq != self._cursor.seq + 1:
            raise _Fault(f"event {seq} after {self._cursor.seq}")
        made = self.fold.event(params.get("event"))
        self._cursor = self._cursor._replace(seq=seq)
        self._publish_rows(made)
        self._tell_changes()
        self._settle()

    def _take_synchronized(self, params: dict[str, Any]) -> None:
        assert self._cursor is not None
        if self._synchronized or params.get("seq") != self._cursor.seq:
            raise _Fault("a synchronized out of its place")
        self._synchronized = True
        self._attaches = 0
        self._outage = None
        self._settle()

    def _take_ready(self, params: dict[str, Any]) -> None:
        if params.get("startFailed") is True:
            raise _Over(frames.start_failed(text(params.get("err")).strip()))
        if isinstance(params.get("session"), dict):
            self._info = params["session"]
            self.fold.adopt_info(self._info)
        self._tell_changes()

    def _take_presence(self, params: dict[str, Any]) -> None:
        self._presence = roster_rows.attached(params.get("attached"))
        self._tell_session()

    def _take_reset(self, params: dict[str, Any]) -> None:
        """How to go on after a reset."""
        reason = text(params.get("reason"))
        if reason == "session_closed":
            raise _Over(frames.SESSION_CLOSED)
        if reason == "session_replaced":
            self._craze_session = ""
            raise _Replaced("the session was replaced")
        self._unconfirmed = reason == "omitted"
        if reason != "slow_consumer" or not self.seeded:
            self._begin_anew(SERVER_RESET + reason)

    _NOTICES: ClassVar[dict[str, Callable[["Watcher", dict[str, Any]], None]]] = {
        "event": _event,
        "synchronized": _take_synchronized,
        "ready": _take_ready,
        "presence": _take_presence,
        "reset": _take_reset,
    }

    def _settle(self) -> None:
        """Say Ready once the seed or the resume is complete."""
        if self._settled or not self._synchronized or self._cursor is None:
            return
        if self._cursor.seq < self._fence:
            return
        self._settled = True
        if self.seeded:  # a resume
            self._tell_session()
            self._tell_settings(restate=True)
            if self._stale:
                self._publish(frames.Ready(self._generation))
        else:
            self.seeded = True
            self._publish(frames.Ready(self._generation))
        self._stale = False

    def _take_confirmed(self) -> None:
        while self._confirmed:
            self.fold.settings.confirm(*self._confirmed.popleft())
            self._tell_settings()

    # ---- telling ----

    def _publish(self, frame: LaneFrame) -> None:
        self._burst += 1
        if self._burst % limits.BURST == 0:
            gevent.sleep(0)
        self._publisher.publish(frame)

    def _kept(self, row: FeedMessage) -> FeedMessage:
        kept = self._ring.append(row, self._clock.now() // 1_000_000)
        self._session.numbered = max(self._session.numbered, kept.seq)
        return kept

    def _publish_rows(self, made: Iterable[FeedMessage]) -> None:
        for row in made:
            self._publish(frames.Message(self._kept(row)))

    def _tell_changes(self) -> None:
        self._tell_session()
        self._tell_approvals()
        self._tell_settings()

    def _tell_approvals(self) -> None:
        book = self.fold.book
        if self._sent.get("asks") == book.changes:
            return
        self._sent["asks"] = book.changes
        told, self._approvals = self._approvals, book.approvals()
        for id, approval in self._approvals.items():
            if told.get(id) != approval and (id in told or approval.pending):
                self._publish(frames.Approval(approval))

    def _tell_session(self) -> None:
        fold = self.fold
        made_of = (
            *(fold.activity, fold.title, fold.compacting, fold.book.changes, fold.settings.changes),
            *(self._presence, self._row, self._info),
        )
        if self._sent.get("made of") == made_of:
            return  # most events move nothing of it
        self._sent["made of"] = made_of
        row = self.row()
        if self._sent.get("session") != row:
            self._sent["session"] = row
            self._session.saw(row)
            self._publish(frames.Session(row))

    def _tell_settings(self, *, restate: bool = False) -> None:
        folded = self.fold.settings
        if self._sent.get("changes") == folded.changes and not restate:
            return
        self._sent["changes"] = folded.changes
        capabilities = folded.capabilities()
        if self._sent.get("capabilities") != capabilities:
            self._sent["capabilities"] = capabilities
            self._publish(frames.Capabilities(capabilities))
        settings = folded.settings() if capabilities.settings else None
        if settings is not None and (restate or self._sent.get("settings") != settings):
            self._publish(frames.Settings(settings))
        self._sent["settings"] = settings
        if folded.slash is not None:
            slash = frames.SlashCatalog(folded.slash, aside=folded.can.get("aside", False))
            if self._sent.get("slash") != slash:
                self._sent["slash"] = slash
                self._publish(slash)

    def row(self) -> LaneSession:
        """The session's row as it stands."""
        fold = self.fold
        listed = roster_rows.of_host(self._session.host_id, {}, self._row)
        pending = fold.book.pending
        activity = fold.activity or roster_rows.work(self._row)
        title = listed.title if fold.title is None else filled(fold.title)
        return replace(
            listed,
            title=title or roster_rows.title_of(listed.cwd),
            activity=rows.NEEDS_APPROVAL if pending else activity,
            pending_approvals=pending,
            # The list's may be older than the change that the transcript shows.
            model=filled(fold.settings.model) or listed.model,
            doing=COMPACTING if fold.compacting else listed.doing,
            attached=listed.attached if self._presence is None else self._presence,
            provider_session_id=filled(self._info.get("providerSessionId"))
            or listed.provider_session_id,
            permission_mode=filled(self._info.get("permissionMode")) or listed.permission_mode,
        )

    # ---- losing a connection ----

    def _begin_anew(self, reason: str) -> None:
        self._cursor = None
        self._reason = reason

    def _lose(self) -> None:
        """Say, once in an outage, that what is shown is not live."""
        self._outage_since()
        if not self._stale:
            self._stale = True
            self._publish_rows(self.fold.flush())
            self._publish(frames.Stale(RECONNECTING))

    def _lag(self) -> None:
        """The client has fallen behind: wait for it, with nothing held, to tell it all anew."""
        self._let_go("the client fell behind")
        self._publisher.wait_drained()
        self._outage = self._clock.monotonic()
        self._attaches = 0
        self._stale = False
        self._worked = False  # this is a failure like any other
        self._begin_anew("lagged")

    def _let_go(self, why: str) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._session.detached(connection)
            connection.close(why)

    def _pause(self) -> None:
        base, most = self._bounds.backoff_first, self._bounds.backoff_most
        self._delay = backoff.next_delay(self._delay, base, most, worked=self._worked)
        self._worked = False
        gevent.sleep(backoff.jittered(self._delay, self._chance()))
        if self._publisher.is_closed():
            raise ReceiverGone


def _cursor(said: Any) -> Cursor | None:
    place = members(said)
    incarnation, seq = place.get("incarnation"), whole(place.get("seq"))
    return Cursor(incarnation, seq) if isinstance(incarnation, str) and seq is not None else None


def _is_close(notice: Notice) -> bool:
    return notice.method == "reset" and notice.params.get("reason") == frames.SESSION_CLOSED


def _newest(seeded: list[FeedMessage]) -> list[FeedMessage]:
    """As many of the newest rows as a seed holds, one of them saying that there were others."""
    if len(seeded) <= SEED_ROWS:
        return seeded
    cut = len(seeded) - SEED_ROWS + 1
    lead = FeedMessage(ts=seeded[0].ts, role=rows.SYSTEM, type=rows.STATUS, text=OMITTED)
    return [lead, *seeded[cut:]]
