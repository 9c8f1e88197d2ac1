"""A client of protocol 1 that outlives its connection.

A Client is what a program holds on to: it dials, says hello, matches answers to calls, and, when
the connection is lost, takes its client id back, goes on with its subscription from where that
stood, and sends again what may be sent again. All of that is bounded (protocol tables 1.8); past
a bound it says what is known of each call and stops.

One greenlet, the keeper, makes every connection but the first and opens every subscription, so
none of the two is ever done twice at once.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gevent
from gevent.event import AsyncResult, Event

from craze import greenlets
from craze.client.aside import Aside
from craze.client.bounds import MARGIN, Episode, Limits
from craze.client.connection import COMMAND, ONCE, READ, Call, Connection, Stream
from craze.client.errors import (
    ConnectionLost,
    OutcomeUnknown,
    PeerFault,
    Refused,
)
from craze.client.feed import ENDED, LIVE, WANTED, Attachment, Cursor, Feed, Roster
from craze.client.stream import dial
from craze.clock import Clock
from craze.wire.limits import ASIDE_TIME
from craze.wire.methods import METHODS

Where = str | os.PathLike[str] | Stream | Callable[[], Stream]

# What a subscription or a splice is opened with: never through `request`.
_OWN = frozenset(("hello", "session.attach", "session.detach", "sessions.subscribe",
                  "session.connect", "session.aside"))  # fmt: skip

# Reads, which a new connection may repeat. The hub's two that start something are not here.
_READS = frozenset(("sessions.list", "session.state", "session.snapshot", "session.sync",
                    "asks.list", "asks.get", "sessions.createOptions", "sessions.saved",
                    "session.models.refresh"))  # fmt: skip


class Identity(NamedTuple):
    """Who a client is to a host: what `Client(resume=...)` needs to be it again.

    `token` is a secret between the two: keep it out of logs. `commands` is the last command id
    used; ids are never reused.
    """

    host_id: str
    client_id: str
    token: str
    commands: int


class _Self:
    """The identity in use; another object is another identity, whatever its client id reads."""

    __slots__ = ("client_id", "commands", "host_id", "token")

    def __init__(self, host_id: str, client_id: str, token: str, commands: int) -> None:
        self.host_id = host_id
        self.client_id = client_id
        self.token = token
        self.commands = commands


class Client:
    """A connection to a session's host, or to a hub, kept over losses.

    `where`: the path of a Unix socket, a callable that returns a new stream for every dial, or one
    stream (which cannot be dialled again). `session`: the craze session id calls are about; by
    default the host's own. `resume`: an Identity to take back. `kind`, `name` and `version` are
    what hello says of this program. Dials at once. Raises OSError where nothing listens, Refused
    where hello is refused, ConnectionLost where there is no answer.

        with Client("/run/user/1000/craze/0123456789ab.sock") as client, client.attach() as events:
            client.command("session.prompt", text="hello", mode="queue")
            for note in events:
                print(note.method, note.params)

    Calls may be made from any number of greenlets at once.
    """

    def __init__(
        self,
        where: Where,
        *,
        session: str = "",
        resume: Identity | None = None,
        kind: str = "client",
        name: str = "",
        version: str = "",
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._dial = _dialler(where)
        self._session = session
        self._me = _Self(*resume) if resume else None
        self._about = {"kind": kind, "name": name, "version": version}
        self._limits = limits or Limits()
        self._clock = clock or Clock()
        self._connection: Connection | None = None
        self._waiting: list[Call] = []  # for the next connection
        self._feed: Feed | None = None
        self._opening: Call | None = None
        self._asides: dict[str, Aside] = {}
        self._aside_ids = 0
        self._tries = 0  # re-attaches since the stream was last whole
        self._refusal: Refused | None = None
        self._episode: Episode | None = None
        self._why: BaseException | None = None  # the last loss
        self._over: ConnectionLost | None = None
        self._wake = Event()
        self.hello: dict[str, Any] = {}
        self._connection = self._open(self._limits.handshake)
        self._keeper = greenlets.spawn("client keeper", self._keep, on_error=self._crashed)

    def __repr__(self) -> str:
        state = "over" if self._over else "connected" if self._connection else "reconnecting"
        who = self._me.client_id if self._me else "no client id"
        return f"<Client {state}, {who}>"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def identity(self) -> Identity | None:
        """Who this client is to its host, for a later `resume`; None at a hub."""
        me = self._me
        return Identity(me.host_id, me.client_id, me.token, me.commands) if me else None

    @property
    def session(self) -> str:
        """The craze session id calls are about; asked of the host the first time."""
        if not self._session:
            rows = self.request("sessions.list").get("sessions")
            row = rows[0] if isinstance(rows, list) and len(rows) == 1 else None
            if not isinstance(row, dict) or "sessionId" not in row:
                raise ValueError("the endpoint serves no single session: name one")
            self._session = row["sessionId"]
        return self._session

    def request(self, method: str, /, *, timeout: float | None = None, **params: Any) -> Any:
        """Call a method that has no command id and return its result, a dict.

        `sessionId` is added where the method has one. `timeout` is in seconds. Raises Refused;
        ConnectionLost where the connection went and the call was not repeated (reads are);
        OutcomeUnknown (`no_answer`) at the deadline; ValueError for a call that is no plain
        request, or longer than the endpoint reads.
        """
        known = METHODS.get(method)
        if method in _OWN or (known is not None and known.mutating):
            raise ValueError(f"{method} is no plain request: use the method made for it")
        if known is not None and known.scoped:
            params = {"sessionId": self.session, **params}
        call = Call(method, params, READ if method in _READS else ONCE)
        return self._made(call, self._limits.answer if timeout is None else timeout)

    def command(self, method: str, /, *, timeout: float | None = None, **params: Any) -> Any:
        """Run a mutating method of a session, exactly once, and return its result, a dict.

        `sessionId` and `commandId` are added. Where the connection is lost it is sent again under
        the same id if, and only if, the host takes this client back; a gate without room is
        tried again. Raises Refused; OutcomeUnknown where it may have run and nobody can say
        (read the state before anything else); ConnectionLost where it certainly did not run;
        ValueError for a method that is no command (protocol tables 4, 11.2).
        """
        from craze.client.retry import through_gates  # costs megabytes; a hub never sends any

        known = METHODS.get(method)
        if known is None or not known.mutating:
            raise ValueError(f"{method} is not a command")
        if self._me is None:
            raise ValueError("a hub runs no commands: connect to the session's host")
        time = self._limits.answer if timeout is None else timeout
        until = self._clock.monotonic() + time
        call = Call(method, {"sessionId": self.session, "commandId": "", **params}, COMMAND)

        def attempt() -> Any:
            call.reply = AsyncResult()
            return self._made(call, max(0.0, until - self._clock.monotonic()))

        return through_gates(attempt, self._limits, min(time, self._limits.gate_deadline))

    def attach(
        self,
        *,
        cursor: Cursor | None = None,
        when: str = "ready",
        budget: dict[str, int] | None = None,
        timeout: float | None = None,
    ) -> Attachment:
        """Subscribe to the session's events and return them as an iterator (protocol tables 8).

        `cursor`: go on after this place instead of starting from a snapshot. `when`: `ready`
        waits for the session's start, minutes if it must; `now` watches it. `budget`: `maxItems`,
        `maxBytes`, `snapshotBytes`. One subscription at a time. Raises Refused, ConnectionLost.
        """
        feed = Attachment(self._close_feed, self._limits.buffer, self.session, cursor, when, budget)
        self._begin(feed, self._limits.attach if timeout is None else timeout)
        return feed

    def subscribe(self, *, timeout: float | None = None) -> Roster:
        """Subscribe to a hub's roster and return its changes as an iterator (protocol tables 5.4).

        Raises as `attach` does.
        """
        feed = Roster(self._close_feed, self._limits.buffer)
        self._begin(feed, self._limits.answer if timeout is None else timeout)
        return feed

    def aside(
        self, question: str, *, prior: Sequence[dict[str, str]] = (), timeout: float | None = None
    ) -> Aside:
        """Ask a side question (protocol tables 10.6); `prior` holds the earlier pairs of
        `question` and `answer`. Returns at once; the answer is read from what is returned."""
        self._aside_ids += 1
        id = f"a-{self._aside_ids}"
        params: dict[str, Any] = {"sessionId": self.session, "asideId": id, "question": question}
        if prior:
            params["prior"] = list(prior)
        call = Call("session.aside", params)
        time = ASIDE_TIME + MARGIN if timeout is None else timeout
        aside = Aside(id, call, time, self._limits.aside_pending, self._cancel_aside)
        self._asides[id] = aside
        call.reply.rawlink(lambda _: self._asides.pop(id, None))
        self._submit(call)
        return aside

    def close(self) -> None:
        """Close the connection and let everything that waits on it fail. The session runs on."""
        if self._over is None:
            self._finish(ConnectionLost("the client was closed"))
        self._keeper.kill()
        connection = self._connection
        if connection is not None:
            connection.end()
            connection.join()

    # Calls.

    def _made(self, call: Call, timeout: float) -> Any:
        try:
            self._submit(call)
            result = call.result(timeout)
            if self._feed is None or self._feed.state is ENDED:
                self._tries = 0  # with no stream to be whole again, an answer says it
            return result
        finally:
            # Also when a kill or an outer timeout takes the caller away: what has not left by
            # now never will.
            if call in self._waiting:
                self._waiting.remove(call)
            if self._connection is not None:
                self._connection.forget(call)

    def _submit(self, call: Call) -> None:
        if self._over is not None:
            self._fail(call, self._over)
        elif self._connection is None:
            self._waiting.append(call)
        else:
            self._place(call, self._connection)

    def _place(self, call: Call, connection: Connection) -> None:
        """Put `call` on `connection`, a command under the id it has or, if it never left, gets."""
        if call.kind is COMMAND and call.owner is not self._me:
            if call.sent:
                lost = "the host does not know this client any more"
                call.fail(OutcomeUnknown("resume_lost", f"{call.method}: {lost}"))
                return
            assert self._me is not None  # only a host's clients make commands
            self._me.commands += 1
            call.owner = self._me
            call.params["commandId"] = str(self._me.commands)
        try:
            connection.send(call)
        except (ValueError, ConnectionLost) as failure:
            call.fail(failure)

    def _cancel_aside(self, id: str) -> None:
        self.request("session.aside.cancel", asideId=id)

    # Subscriptions.

    def _begin(self, feed: Feed, timeout: float) -> None:
        if self._over is not None:
            raise ConnectionLost(str(self._over))
        if self._feed is not None and self._feed.state is not ENDED:
            raise ValueError(f"one subscription at a time: {self._feed!r}")
        feed.changed = self._wake.set
        self._feed = feed
        self._tries = 0
        self._refusal = None
        self._wake.set()
        try:
            if not feed.opened.wait(timeout):
                raise ConnectionLost(f"{feed.method}: no answer in {timeout:g} s")
            if not feed.began:
                raise feed.failure or ConnectionLost(f"{feed.method}: closed")
        except BaseException:
            feed.close()
            raise

    def _close_feed(self, feed: Feed) -> None:
        if self._feed is not feed:
            return
        self._feed = None
        connection = self._connection
        if connection is None or feed.state is ENDED:
            return
        if feed.subscription and isinstance(feed, Attachment):
            self._detach(feed, connection)
        elif feed.tried:
            connection.end()  # there is no other way to take an opening back

    def _detach(self, feed: Feed, connection: Connection) -> None:
        params = {"sessionId": self.session, "subscription": feed.subscription}
        feed.subscription = ""
        try:
            connection.ask("session.detach", params, self._limits.handshake)
        except (Refused, ConnectionLost):
            pass  # it is gone already
        except OutcomeUnknown:
            connection.end()
        except BaseException:
            connection.end()  # nobody waits for the answer, and the next attach may not precede it
            raise

    def _notified(self, method: str, params: dict[str, Any], size: int) -> None:
        if method == "aside":
            aside = self._asides.get(params.get("asideId", ""))
            if aside is not None:
                aside.piece(params.get("text"))
            return
        feed = self._feed
        if feed is None or not feed.subscription:
            return
        if params.get("subscription") != feed.subscription:
            return
        feed.notice(method, params, size)
        if method == "synchronized":
            self._tries = 0
            self._refusal = None
        elif method == "reset":
            if params.get("reason") in ("session_replaced", "hub_closing"):
                # The endpoint is about to close; an attach before that would be wasted.
                assert self._connection is not None
                self._connection.end()
            self._wake.set()

    # The keeper.

    def _keep(self) -> None:
        while self._over is None:
            feed = self._feed
            if self._connection is None:
                self._redial()
            elif feed is not None and feed.state is WANTED:
                self._reopen(feed, self._connection)
            else:
                self._episode = None  # whole: the next loss begins its own
                self._wake.clear()
                self._wake.wait()

    def _redial(self) -> None:
        if self._feed is not None and self._feed.over:
            self._finish(ConnectionLost("the session has ended"))
            return
        episode = self._episode = self._episode or Episode(self._clock, self._limits.window)
        episode.run()
        if episode.dials:
            backoff = self._limits.redial_first * 2 ** (episode.dials - 1)
            gevent.sleep(min(backoff, self._limits.redial_max, episode.left()))
        if episode.dials >= self._limits.redials or not episode.left():
            self._finish(ConnectionLost(f"no connection after {episode.dials} dials: {self._why}"))
            return
        episode.dials += 1
        try:
            connection = self._open(min(episode.left(), self._limits.handshake))
        except Refused as refusal:
            self._why = refusal
            if refusal.code != "unavailable":
                self._finish(ConnectionLost(f"hello was refused: {refusal}"))
            return
        except (Exception, gevent.Timeout) as failure:  # whatever a caller's own dialling raises
            self._why = failure
            return
        self._adopt(connection)

    def _adopt(self, connection: Connection) -> None:
        if connection.over:
            return
        feed = self._feed
        if feed is None or feed.state is ENDED:
            self._tries += 1
            if self._tries > self._limits.reattaches:
                connection.end()
                self._finish(ConnectionLost(f"lost {self._tries} times in a row: {self._why}"))
                return
        self._connection = connection
        # The stream first, so that what a command causes is seen before its answer.
        if feed is not None and feed.state is WANTED:
            self._opening = self._ask_to_open(feed, connection)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._place(call, connection)

    def _ask_to_open(self, feed: Feed, connection: Connection) -> Call | None:
        if feed.tried:
            self._tries += 1
            if self._tries > self._limits.reattaches:
                gave_up = ConnectionLost(f"gave up after {self._limits.reattaches} re-attaches")
                feed.finish(self._refusal or gave_up)
                return None
        feed.tried = True
        call = Call(feed.method, feed.request(), take=feed.accept)
        connection.send(call)
        return call

    def _reopen(self, feed: Feed, connection: Connection) -> None:
        if feed.subscription:  # cut off, but still open at the endpoint
            if isinstance(feed, Attachment):
                self._detach(feed, connection)
            else:
                connection.end()
            return
        call, self._opening = self._opening, None
        if call is None:
            call = self._ask_to_open(feed, connection)
        if call is None:
            return
        episode = self._episode
        time = self._limits.attach if feed.patient else self._limits.answer
        if episode is not None and feed.patient:
            episode.pause()
        try:
            call.result(time)
        except Refused as refusal:
            self._refused(feed, refusal)
        except OutcomeUnknown as failure:
            connection.end(failure)
        except ConnectionLost:
            pass  # the next turn of the loop dials
        finally:
            connection.forget(call)
            if episode is not None:
                episode.run()

    def _refused(self, feed: Feed, refusal: Refused) -> None:
        self._refusal = refusal
        if refusal.code == "unavailable":
            backoff = self._limits.gate_first * 2 ** min(self._tries, 10)
            gevent.sleep(min(backoff, self._limits.gate_max))
        elif feed.began and refusal.code == refusal.reason == "not_accepting":
            assert isinstance(feed, Attachment)  # a hub has no session that could have closed
            feed.closed()
        else:
            feed.finish(refusal)

    def _ended(self, connection: Connection) -> None:
        calls = list(connection.calls.values())
        connection.calls.clear()
        why = f": {connection.failure}" if connection.failure is not None else ""
        lost = ConnectionLost(f"the connection was lost{why}")
        adopted = connection is self._connection
        for call in calls:
            if adopted and (call.kind is not ONCE or not (call.sent or call.take)):
                self._waiting.append(call)
            else:
                call.fail(lost)
        if not adopted:
            return
        self._connection, self._opening, self._why = None, None, connection.failure or lost
        if self._feed is not None:
            self._feed.subscription = ""
            if self._feed.state is LIVE:
                self._feed.state = WANTED
        if self._over is not None:
            self._fail_waiting(self._over)
        self._wake.set()

    def _finish(self, failure: ConnectionLost) -> None:
        """Give up for good: every call hears what is known of it."""
        self._over = failure
        self._fail_waiting(failure)
        feed = self._feed
        if feed is not None:
            if feed.ending and isinstance(feed, Attachment):
                feed.closed()
            else:
                feed.finish(failure)
        self._wake.set()

    def _fail_waiting(self, failure: ConnectionLost) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._fail(call, failure)

    def _fail(self, call: Call, failure: ConnectionLost) -> None:
        text = f"{call.method}: {failure}"
        unknown = call.kind is COMMAND and call.sent
        call.fail(OutcomeUnknown("disconnected", text) if unknown else ConnectionLost(text))

    def _crashed(self, failure: BaseException) -> None:
        self._finish(ConnectionLost(f"the client failed: {failure!r}"))
        raise failure  # a fault of ours: let the loop report it

    # Connections.

    def _open(self, time: float) -> Connection:
        """Dial and shake hands within `time` seconds."""
        timer = gevent.Timeout.start_new(time)
        try:
            connection = Connection(
                self._dial(), self._notified, self._ended, line=self._limits.line
            )
            try:
                self._shake(connection, time)
            except PeerFault as fault:
                connection.end(fault)
                raise ConnectionLost(f"hello was answered with {fault}") from fault
            except BaseException:
                connection.end()
                raise
        except gevent.Timeout as fired:
            if fired is not timer:
                raise
            raise ConnectionLost(f"no connection within {time:g} s") from None
        finally:
            timer.close()
        return connection

    def _shake(self, connection: Connection, time: float) -> None:
        about = {name: value for name, value in self._about.items() if value}
        params: dict[str, Any] = {"protocols": [1], "client": about}
        if self._me is not None:
            params["resume"] = {"clientId": self._me.client_id, "token": self._me.token}
        wait = self._limits.gate_first
        while True:
            try:
                hello = connection.ask("hello", params, time)
                break
            except Refused as refusal:
                if refusal.reason == "bad_token" and "resume" in params:
                    del params["resume"]  # it is not ours any more: be somebody new
                elif refusal.reason == "not_ready":
                    gevent.sleep(wait)
                    wait = min(2 * wait, self._limits.gate_max)
                else:
                    raise
        self._identify(hello)
        limits = hello.get("limits")
        if isinstance(limits, dict) and isinstance(limits.get("inboundLine"), int):
            connection.outbound = limits["inboundLine"]
        self.hello = hello

    def _identify(self, hello: dict[str, Any]) -> None:
        """Whether the endpoint took us back; if it did not, who we are now."""
        endpoint = hello.get("endpoint")
        if not isinstance(endpoint, dict):
            raise PeerFault("a hello without its endpoint")
        if endpoint.get("kind") == "hub":
            if self._me is not None:
                raise PeerFault("a hub's hello where a session's host was")
            return
        host_id, client_id, token = (
            endpoint.get("hostId"), hello.get("clientId"), hello.get("token")
        )  # fmt: skip
        if not (isinstance(host_id, str) and isinstance(client_id, str) and isinstance(token, str)):
            raise PeerFault("a host's hello without an identity")
        me = self._me
        if (
            me is None
            or hello.get("resumed") is not True
            or (me.host_id, me.client_id, me.token) != (host_id, client_id, token)
        ):
            self._me = _Self(host_id, client_id, token, 0)


def splice(where: Where, session: str, *, kind: str = "client", timeout: float = 30.0
           ) -> Callable[[], Stream]:  # fmt: skip
    """How to dial `session` through the hub at `where`: pass it to Client as `where`.

    Each dial says hello to the hub and has it connect the stream to the session's host
    (protocol tables 15). A dial raises what `Client` raises.
    """
    to_hub = _dialler(where)

    def through() -> Stream:
        connection = Connection(to_hub(), lambda *_: None, _abandon)
        try:
            about = {"protocols": [1], "client": {"kind": kind}}
            connection.ask("hello", about, timeout)
            connection.ask("session.connect", {"sessionId": session}, timeout)
        except BaseException:
            connection.end()
            raise
        return connection.release()

    return through


def _abandon(connection: Connection) -> None:
    for call in connection.calls.values():
        call.fail(ConnectionLost(f"the hub closed the connection: {connection.failure}"))


def _dialler(where: Where) -> Callable[[], Stream]:
    if isinstance(where, str | os.PathLike):
        return lambda: dial(where)
    if not hasattr(where, "recv"):
        return where
    once: list[Any] = [where]

    def given() -> Stream:
        if not once:
            raise ConnectionLost("it was given one stream, which cannot be dialled again")
        stream: Stream = once.pop()
        return stream

    return given
