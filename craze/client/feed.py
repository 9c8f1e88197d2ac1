"""Subscriptions as iterators: a session's events, and a hub's roster.

A feed is filled by the reader of whatever connection the client holds at the time and drained by
the caller, in any order of the two. It knows where the stream stands, so that the client can open
it again after a loss; it never touches a socket itself. The buffer between the two is bounded: a
caller who falls that far behind is cut off as a slow consumer would be, and the stream goes on
from the last thing queued once the rest has been taken.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gevent.event import Event

from craze.client.errors import ConnectionLost, PeerFault

# A feed's states.
WANTED = "wanted"  # to be opened as soon as there is a connection
LIVE = "live"
LAGGING = "lagging"  # cut off; wanted again once the buffer is empty
ENDED = "ended"


class Notification(NamedTuple):
    """One thing a feed says: a notification's `method` and its `params` as the endpoint sent them.

    An attachment's methods: `event` (`seq`, `event`), `synchronized` (`seq`), `ready` (`session`,
    `startFailed`, `err`), `presence` (`attached`), `reset`. A `reset` with a `snapshot` means:
    drop what you folded, start from the snapshot, go on from `after`. One with `reason`
    `session_closed` is the last: the session is over.

    A roster's: `roster` (`upserts`, `removes`, `cursor`) and `reset`, which carries the whole
    roster again (`sessions`, `epoch`, `cursor`).
    """

    method: str
    params: dict[str, Any]


class Cursor(NamedTuple):
    """A place in a session's event log: everything up to and including `seq` is known."""

    incarnation: str
    seq: int


class Feed:
    """What the two subscriptions share. Made by a Client; iterate over it, and close it."""

    method = ""  # opens it

    def __init__(self, close: Callable[["Feed"], None], limit: int) -> None:
        self._close = close
        self._limit = limit
        self._buffer: deque[tuple[Notification, int]] = deque()
        self._buffered = 0
        self._arrived = Event()
        self.failure: Exception | None = None
        self.subscription = ""
        self.opened = Event()  # open for the first time, or ended before that
        self.began = False  # has been open
        self.tried = False  # has been asked for
        self.over = False  # what it is a feed of has ended
        self.state = WANTED
        self.changed: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        at = f"{self.subscription or 'no subscription'}, {len(self._buffer)} buffered"
        return f"<{type(self).__name__} {self.state}: {at}>"

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Notification]:
        return self

    def __next__(self) -> Notification:
        """The next notification, waiting for it. Ends where the subscription ended for good;
        raises ConnectionLost or Refused where it was lost and could not be opened again."""
        note = self.next()
        if note is None:
            raise StopIteration
        return note

    def next(self, timeout: float | None = None) -> Notification | None:
        """As iteration does, but None at the end, and after `timeout` seconds with nothing new."""
        while not self._buffer:
            if self.state is ENDED:
                if self.failure is not None:
                    raise self.failure
                return None
            if self.state is LAGGING:
                self.state = WANTED
                self.changed()
            self._arrived.clear()
            if not self._arrived.wait(timeout):
                return None
        note, size = self._buffer.popleft()
        self._buffered -= size
        self.folded(note)
        return note

    def close(self) -> None:
        """Give the subscription up. What is buffered is dropped and iteration ends."""
        self._buffer.clear()
        self._buffered = 0
        try:
            self._close(self)
        finally:
            self.finish()

    # For the client.

    @property
    def patient(self) -> bool:
        """Whether opening it may wait for a session's start."""
        return False

    @property
    def ending(self) -> bool:
        """Whether what was heard last may have been the end."""
        return False

    def request(self) -> dict[str, Any]:
        """The params that open it, from where it stands."""
        raise NotImplementedError

    def accept(self, result: dict[str, Any]) -> None:
        """Take the opening's result; runs in the reader, before any of its notifications."""
        raise NotImplementedError

    def notice(self, method: str, params: dict[str, Any], size: int) -> None:
        """Take one notification of this subscription; runs in the reader. `size` is in bytes."""
        raise NotImplementedError

    def folded(self, note: Notification) -> None:
        """`note` is being handed to the caller."""

    def finish(self, failure: Exception | None = None) -> None:
        """End it: iteration stops once the buffer is empty, with `failure` if there is one."""
        if self.state is not ENDED:
            self.state = ENDED
            self.subscription = ""
            self.failure = failure
            self._arrived.set()
            self.opened.set()

    def full(self, size: int) -> bool:
        """Whether `size` more bytes are past the bound; an empty buffer takes anything."""
        return bool(self._buffer) and self._buffered + size > self._limit

    def put(self, note: Notification, size: int = 0) -> None:
        """Queue `note`, which the bound of the buffer charges with `size` bytes."""
        self._buffer.append((note, size))
        self._buffered += size
        self._arrived.set()

    def live(self, subscription: str) -> None:
        """The endpoint has opened it under this id."""
        self.subscription = subscription
        self.state = LIVE
        self.began = True
        self.opened.set()


class Attachment(Feed):
    """A session's event stream (protocol tables 8), kept over lost connections.

    `session` is the info document as last told, `ready` whether the session has started,
    `snapshot` and `after` (a Cursor) what the first attach answered, `reset` why a cursor that
    was given was refused ("" if it was not). After a loss the stream goes on from the last event
    received, in order and without a gap; where the host no longer has the events between, a
    `reset` with a new snapshot says so.

    `cursor` is the place after the last notification handed out: pass it to `attach` on another
    connection to go on from there.
    """

    method = "session.attach"

    def __init__(
        self,
        close: Callable[[Feed], None],
        limit: int,
        session_id: str,
        cursor: Cursor | None,
        when: str,
        budget: dict[str, int] | None,
    ) -> None:
        super().__init__(close, limit)
        self._session_id = session_id
        self._when = when
        self._budget = budget
        self._queued = cursor  # where the next opening goes on: the last event in the buffer
        self._lost = ""  # why there is no cursor to go on from
        self.synchronized = False
        self.cursor = cursor
        self.session: dict[str, Any] = {}
        self.ready = False
        self.after = cursor
        self.snapshot: dict[str, Any] | None = None
        self.reset = ""

    def __enter__(self) -> "Attachment":
        return self

    @property
    def patient(self) -> bool:
        return self._when == "ready"

    def request(self) -> dict[str, Any]:
        params: dict[str, Any] = {"sessionId": self._session_id}
        if self._queued is not None:
            params["cursor"] = self._queued._asdict()
        if self._when != "ready":
            params["when"] = self._when
        if self._budget:
            params["budget"] = self._budget
        return params

    def accept(self, result: dict[str, Any]) -> None:
        subscription = _subscription(result)
        after = result.get("after")
        if not isinstance(after, dict) or not isinstance(after.get("incarnation"), str):
            raise PeerFault(f"an attach reply without its place: {after!r}")
        session, snapshot = result.get("session"), result.get("snapshot")
        place = Cursor(after["incarnation"], _seq(after))
        if snapshot is None and place != self._queued:
            raise PeerFault(f"an attach reply at {place} without a snapshot, asked {self._queued}")
        first = not self.began
        self.session = session if isinstance(session, dict) else {}
        self.ready = result.get("ready") is True
        self.synchronized = False
        reason = result.get("reset", "")
        if first:
            self.snapshot, self.after, self.reset = snapshot, place, reason
            self.cursor = place
        elif snapshot is not None:
            restart = {
                "reason": reason or self._lost,
                "session": self.session,
                "after": after,
                "snapshot": snapshot,
            }
            self.put(Notification("reset", restart))
        self._queued, self._lost = place, ""
        self.live(subscription)

    def notice(self, method: str, params: dict[str, Any], size: int) -> None:
        if method == "reset":
            self._reset(params.get("reason"))
        elif self.state is not LIVE:
            return  # cut off: what it still sends comes again
        elif method == "event":
            self._event(params, size)
        elif method == "synchronized":
            self.synchronized = True
            self.put(Notification(method, params), size)
        elif method == "ready":
            self.ready = True
            session = params.get("session")
            if isinstance(session, dict):
                self.session = session
            self.put(Notification(method, params), size)
        elif method == "presence" and not self.full(size):
            self.put(Notification(method, params), size)

    def folded(self, note: Notification) -> None:
        if note.method == "event" and self.cursor is not None:
            self.cursor = self.cursor._replace(seq=note.params["seq"])
        elif note.method == "reset" and "after" in note.params:
            after = note.params["after"]
            self.cursor = Cursor(after["incarnation"], after["seq"])

    def _event(self, params: dict[str, Any], size: int) -> None:
        seq = _seq(params)
        place = self._queued
        if place is None or seq != place.seq + 1:
            raise PeerFault(f"event {seq} after {place.seq if place else 'nothing'}")
        if not isinstance(params.get("event"), dict):
            raise PeerFault(f"event {seq} is no object")
        if self.full(size):
            self.state = LAGGING
            return
        self.put(Notification("event", params), size)
        self._queued = place._replace(seq=seq)

    def _reset(self, reason: Any) -> None:
        self.subscription = ""
        if reason == "session_closed":
            self.closed()
            return
        if self.state is LIVE:
            self.state = WANTED
        # A client that keeps up is owed the events between; one cut off while the session was
        # starting takes the start as a snapshot instead. Whatever else happened, and whatever a
        # later host may say, the cursor is void.
        if reason == "slow_consumer" and not self.ready:
            self._when = "ready"
        if reason != "slow_consumer" or not self.ready:
            self._queued = None
            self._lost = reason if isinstance(reason, str) else ""

    @property
    def ending(self) -> bool:
        # A closing record too large to be delivered comes as `omitted`.
        return self._lost == "omitted"

    def closed(self) -> None:
        """The session is over."""
        self.over = True
        if self.state is LAGGING:
            self.finish(ConnectionLost("the session ended before its last events were taken"))
            return
        self.put(Notification("reset", {"reason": "session_closed"}))
        self.finish()


class Roster(Feed):
    """A hub's roster as a subscription (protocol tables 5.4): `sessions`, `epoch`, `cursor` and
    `truncated` as the first reply gave them, then what changes."""

    method = "sessions.subscribe"

    def __init__(self, close: Callable[[Feed], None], limit: int) -> None:
        super().__init__(close, limit)
        self._reason = "disconnected"
        self.sessions: list[Any] = []
        self.epoch = ""
        self.cursor = 0
        self.truncated = False

    def __enter__(self) -> "Roster":
        return self

    def request(self) -> dict[str, Any]:
        return {}

    def accept(self, result: dict[str, Any]) -> None:
        subscription = _subscription(result)
        if not isinstance(result.get("sessions"), list):
            raise PeerFault("a roster without its sessions")
        if not self.began:
            self.sessions, self.epoch = result["sessions"], result.get("epoch", "")
            self.cursor, self.truncated = result.get("cursor", 0), result.get("truncated") is True
        else:
            self.put(Notification("reset", {"reason": self._reason, **result}))
        self._reason = "disconnected"
        self.live(subscription)

    def notice(self, method: str, params: dict[str, Any], size: int) -> None:
        if method == "reset":
            self.subscription, self._reason = "", str(params.get("reason", ""))
            if self.state is LIVE:
                self.state = WANTED
        elif method == "roster" and self.state is LIVE:
            if self.full(size):
                self.state, self._reason = LAGGING, "slow_consumer"
            else:
                self.put(Notification(method, params), size)


def _subscription(result: dict[str, Any]) -> str:
    subscription = result.get("subscription")
    if not isinstance(subscription, str) or not subscription:
        raise PeerFault(f"a subscription without an id: {subscription!r}")
    return subscription


def _seq(params: dict[str, Any]) -> int:
    seq = params.get("seq")
    if not isinstance(seq, int) or isinstance(seq, bool):
        raise PeerFault(f"no seq: {seq!r}")
    return seq
