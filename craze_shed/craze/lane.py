"""One craze session as a lane: its verbs, its reads, and the watchers of its stream.

A verb is sent once, on the connection that a watcher holds, and never again by itself: it was not
sent, or craze answered, or nobody knows, and the three are told apart. Watchers are independent;
the lane keeps what they have in common.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import gevent
from gevent.event import Event

from craze import greenlets
from craze.client.errors import Refused
from craze.clock import Clock
from craze_shed.contract import answers, errors, frames
from craze_shed.contract.answers import LaneAnswer
from craze_shed.contract.approvals import LaneApproval
from craze_shed.contract.errors import LaneError
from craze_shed.contract.frames import LaneFrame
from craze_shed.contract.interfaces import AgentLane
from craze_shed.contract.publisher import Publisher, Subscription, channel
from craze_shed.contract.rows import Ring
from craze_shed.contract.sessions import LaneHistory, LaneSession
from craze_shed.contract.settings import (
    LaneSettingChange,
    LaneSettings,
    SetConfig,
)
from craze_shed.craze import asks, limits
from craze_shed.craze.connection import Connection, Deadline, Ended, refusal
from craze_shed.craze.dial import Dialer, Hub, NotReached
from craze_shed.craze.fold import Fold, NoSnapshot
from craze_shed.craze.joining import (
    ConnectRefused,
    Joined,
    NoSession,
    WrongHost,
    ask_record,
    join,
    open_asks,
)
from craze_shed.craze.limits import Bounds
from craze_shed.craze.settings import KIND
from craze_shed.craze.values import members, text
from craze_shed.craze.watcher import Watched, Watcher
from craze_shed.reach.errors import closed

T = TypeVar("T")


class CrazeLane(AgentLane, Watched):
    """The lane of a host. `row` is what the session list says of it, where it is known; `ended`
    hears once that the session is over; `spare(timeout)` gives a connection that is there already,
    if any is."""

    agent = KIND

    def __init__(
        self,
        dialer: Dialer,
        host_id: str,
        *,
        row: LaneSession | None = None,
        ended: Callable[[], None] = lambda: None,
        spare: Callable[[float], Hub | None] = lambda timeout: None,
        bounds: Bounds = Bounds(),  # noqa: B008 a value
        clock: Clock | None = None,
        connected_wait: float = limits.CONNECTED,
    ) -> None:
        self.host_id = host_id
        self.numbered = 0
        self._dialer = dialer
        self._row = row
        self._tell_ended: Callable[[], None] | None = ended
        self._spare = spare
        self._bounds = bounds
        self._clock = clock or Clock()
        self._connected_wait = connected_wait
        self._watchers: list[Watcher] = []
        self._live: dict[Connection, str] = {}  # and the craze session id; the newest last
        self._connected = Event()
        self._commands = 0
        self._stopping = False  # a stop's receipt was taken

    def __repr__(self) -> str:
        state = "connected" if self._live else "not connected"
        return f"<CrazeLane {self.host_id}, {state}, {len(self._watchers)} watchers>"

    # ---- the stream ----

    def session_id(self) -> str:
        return self.host_id

    def session(self) -> LaneSession:
        if self._row is None:
            raise LaneError(errors.UNKNOWN_SESSION)
        return self._row

    def subscribe(self, cursor: str | None = None) -> Subscription[LaneFrame]:
        publisher: Publisher[LaneFrame]
        subscription: Subscription[LaneFrame]
        publisher, subscription = channel()
        watcher = Watcher(
            self,
            publisher,
            cursor_given=cursor is not None,
            bounds=self._bounds,
            clock=self._clock,
        )
        self._watchers.append(watcher)
        worker = greenlets.spawn(f"watcher {self.host_id}", watcher.run)
        worker.rawlink(lambda _: self._left(watcher))
        publisher.on_close(lambda: worker.kill(block=False))
        return subscription

    # ---- what watchers tell ----

    def join(self, timeout: float, *, first: bool) -> Joined:
        until = self._clock.monotonic() + timeout
        spare = self._spare(timeout) if first else None
        left = max(until - self._clock.monotonic(), 0.0)
        return join(self._dialer, self.host_id, timeout=left, spare=spare)

    def attached(self, connection: Connection, session: str) -> None:
        self._live[connection] = session
        self._connected.set()

    def detached(self, connection: Connection) -> None:
        self._live.pop(connection, None)
        if not self._live:
            self._connected.clear()

    def saw(self, row: LaneSession) -> None:
        self._row = row

    def ending(self, reason: str) -> None:
        closed = reason in (frames.SESSION_CLOSED, frames.UNKNOWN_SESSION)
        if closed or frames.why_start_failed(reason) is not None:
            self._over()

    def _left(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)
        if self._stopping and not self._watchers:
            self._over()

    def _over(self) -> None:
        tell, self._tell_ended = self._tell_ended, None
        if tell is not None:
            tell()

    # ---- verbs ----

    def send(self, text: str, mode: str = answers.QUEUE) -> None:
        answers.send_mode(mode)
        watcher = self._seeded() if mode == answers.INTERJECT else None
        if watcher is not None and not watcher.fold.settings.capabilities().interject:
            raise LaneError(errors.NOT_ACCEPTING)
        self._command("prompt", "session.prompt", text=text, mode=mode)

    def cancel(self) -> None:
        self._command("cancel", "session.cancel")

    def answer(self, approval_id: str, answer: LaneAnswer) -> None:
        connection, session = self._connection("answer")
        body = asks.body(self._approval(connection, session, approval_id), answer)
        self._command("answer", "asks.answer", askId=approval_id, answer=body)

    def set(self, change: LaneSettingChange) -> None:
        setting: dict[str, Any] = {"kind": change.kind, "value": change.id}
        if isinstance(change, SetConfig):
            setting = {"kind": "config", "id": change.id, "value": change.value}
            model = change.for_model or self._shown_model()
            if model:
                setting["forModel"] = model
        result = self._command("set", "session.set", setting=setting)
        value = result.get("value")
        if result.get("rev") == 0 and isinstance(value, str):
            for watcher in list(self._watchers):
                watcher.confirm(change, value)

    def set_title(self, title: str) -> str | None:
        try:
            self._command("rename", "session.setTitle", title=title)
        except _IndexWrite as unrecorded:
            return str(unrecorded)
        return None

    def stop(self) -> None:
        self._command("stop", "session.stop")
        self._stopping = True
        if not self._watchers:
            self._over()

    def _command(self, what: str, method: str, **params: Any) -> dict[str, Any]:
        """Send a mutating request, once. Raises LaneError."""
        connection, session = self._connection(what)
        self._commands += 1
        about = {"sessionId": session, "commandId": str(self._commands), **params}
        try:
            pending = connection.send(method, about)
        except ValueError as failure:
            raise errors.bad_request(str(failure)) from None
        try:
            return pending.result(limits.ASK)
        except Refused as refused:
            if refused.code == "index_write" and method == "session.setTitle":
                raise _IndexWrite(refused.message) from None
            raise refusal(refused) from None
        except (Ended, Deadline) as failure:
            late = isinstance(failure, Deadline)
            if late:
                connection.close(str(failure))  # which has the watcher connect anew
            why = str(failure) if late else "the connection to craze dropped"
            if not pending.sent:
                raise _not_sent(why, what) from None
            raise errors.outcome_unknown(f"{why}; check the transcript") from None

    def _connection(self, what: str) -> tuple[Connection, str]:
        """A connection that a watcher holds, waited for. Raises LaneError: nothing was sent
        then."""
        with gevent.Timeout(self._connected_wait, False):
            while True:
                for connection, session in reversed(self._live.copy().items()):
                    if connection.over is None:
                        return connection, session
                    self.detached(connection)  # its watcher will notice, too
                if self._dialer.reach.closed:
                    raise _not_sent(str(closed(self._dialer.reach.label)), what)
                self._connected.wait()
        raise _not_sent(f"not connected to craze within {self._connected_wait:g}s", what)

    def _shown_model(self) -> str:
        """The current model, once the lane knows the settings. Raises LaneError."""
        with gevent.Timeout(limits.SETTINGS, False):
            while (watcher := self._seeded()) is None:
                gevent.sleep(0.05)
            return watcher.fold.settings.model
        raise errors.unavailable(
            f"the session's settings did not arrive within {limits.SETTINGS:g}s;"
            " the change was not sent — try again"
        )

    def _seeded(self) -> Watcher | None:
        return next((watcher for watcher in self._watchers if watcher.seeded), None)

    def _approval(self, connection: Connection, session: str, id: str) -> LaneApproval:
        watcher = self._seeded()
        if watcher is not None:
            held = watcher.fold.book.approvals().get(id)
            if held is not None:
                return held
        try:
            record = ask_record(connection, session, id)
        except Refused as refused:
            raise refusal(refused) from None
        except (Ended, Deadline) as failure:
            raise _not_sent(str(failure), "answer") from None
        kind = text(record.get("kind"))
        read = Fold(self.host_id)
        # Whoever answers an ask need not have it shown.
        read.book.expose({"askCards": True, "planCards": True})
        ask = read.book.read(kind, members(record.get("body")).get(kind), record.get("openedAt"))
        if ask is None:
            raise asks.not_answerable(id)
        return ask.approval

    # ---- reads ----

    def approvals(self) -> tuple[LaneApproval, ...]:
        watcher = self._seeded()
        if watcher is not None:
            return _pending(watcher.fold)
        return self._read(self._registry)

    def settings(self) -> LaneSettings:
        watcher = self._seeded()
        if watcher is not None:
            return watcher.fold.settings.settings()
        return self._read(lambda joined: self._snapshot(joined)[0].settings.settings())

    def history(self, cursor: str | None = None, limit: int = 0) -> LaneHistory:
        return self._read(lambda joined: self._history(joined, limit))

    def _history(self, joined: Joined, limit: int) -> LaneHistory:
        fold, made = self._snapshot(joined)
        ring = Ring()
        for row in (*made, *fold.flush()):
            ring.append(row, self._clock.now() // 1_000_000)
        page, cut = ring.page(limit)
        return LaneHistory(page, cut or fold.truncated)

    def _snapshot(self, joined: Joined) -> tuple[Fold, list[Any]]:
        reply = joined.connection.ask("session.snapshot", {"sessionId": joined.session}, limits.ASK)
        fold = Fold(self.host_id)
        fold.adopt_info(joined.row)
        try:
            return fold, fold.restore(reply.get("snapshot"))
        except NoSnapshot as failure:
            raise errors.failed(f"protocol: {failure}") from None

    def _registry(self, joined: Joined) -> tuple[LaneApproval, ...]:
        fold = Fold(self.host_id)
        fold.adopt_info(joined.row)
        fold.adopt_registry(open_asks(joined.connection, joined.session))
        return _pending(fold)

    def _read(self, read: Callable[[Joined], T]) -> T:
        """What `read` gives of a connection of its own, for a moment. Raises LaneError."""
        try:
            joined = join(self._dialer, self.host_id)
        except NotReached as failure:
            raise failure.error() from None
        except NoSession:
            raise LaneError(errors.UNKNOWN_SESSION) from None
        except ConnectRefused as failure:
            raise refusal(failure.refused) from None
        except WrongHost as failure:
            raise errors.failed(f"protocol: {failure}") from None
        except (Ended, Deadline) as failure:
            raise errors.unavailable(str(failure)) from None
        try:
            return read(joined)
        except Refused as refused:
            raise refusal(refused) from None
        except (Ended, Deadline) as failure:
            raise errors.unavailable(str(failure)) from None
        finally:
            joined.connection.close("it was read")


class _IndexWrite(Exception):
    """A rename that was made and could not be recorded."""


def _pending(fold: Fold) -> tuple[LaneApproval, ...]:
    pending = (one for one in fold.book.approvals().values() if one.pending)
    return tuple(sorted(pending, key=lambda one: (one.created_at_unix_ms or 0, one.id)))


def _not_sent(why: str, what: str) -> LaneError:
    return errors.unavailable(f"{why}; the {what} was not sent — try again")
