"""One client's connection to the hub: requests answered strictly in order, one at a time.

The next line is read once the answer to the one before is written. Beside the answers there is at
most one subscription, whose notifications share the connection's writing lock; a line that bears
the roster's cursor is composed under that lock. A `session.connect` that comes first turns the
whole connection into a splice.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import gevent
from gevent import socket
from gevent.lock import BoundedSemaphore

from craze import greenlets
from craze.hub.splice import Splice
from craze.hub.subscription import Subscription
from craze.wire import documents, envelope, json, params
from craze.wire.codes import Refusal
from craze.wire.framing import Line, LineDecoder, TooLong
from craze.wire.limits import (
    CHUNK,
    INBOUND_LINE,
    OUTBOUND_LINE,
)
from craze.wire.methods import METHODS, Method, before_hello, not_served

_CLOSING = "the hub is closing"
_OWN = frozenset(("hello", "sessions.list", "sessions.subscribe", "session.connect"))


class _Over(Exception):
    """Nothing more is read from the client, and nothing more is said."""


class Connection:
    """`hub` is the `craze.hub.server.Hub`."""

    def __init__(self, hub: Any, sock: socket.socket) -> None:
        self.hub = hub
        self.greeted = False  # it said hello
        self.serving = False  # a request is being answered
        self._sock = sock
        self._hello_wait: gevent.Timeout | None = None
        self._writing = BoundedSemaphore()
        self._answered = 0  # lines since hello
        self._subscription: Subscription | None = None
        self._subscriptions = 1  # the next one's number
        self._splice: Splice | None = None
        self._worker = greenlets.spawn("hub connection", self._run, on_error=self._broken)
        self._worker.rawlink(lambda _: hub.gone(self))

    def __repr__(self) -> str:
        state = "spliced" if self._splice else "greeted" if self.greeted else "new"
        return f"<Connection {state} {self._subscription}>"

    # ---- lines in ----

    def _run(self) -> None:
        wait = self._hello_wait = gevent.Timeout.start_new(self.hub.bounds.hello)
        try:
            self._read()
        except gevent.Timeout as fired:
            if fired is not wait:
                raise
        except _Over:
            pass
        finally:
            wait.close()
            try:
                self._unsubscribe()
            finally:
                self._sock.close()

    def _read(self) -> None:
        decoder = LineDecoder(INBOUND_LINE)
        while data := self._sock.recv(CHUNK):
            begin = 0
            while end := data.find(b"\n", begin) + 1:
                (line,) = decoder.feed(data[begin:end])
                begin = end
                host = self._line(line)
                if host is not None:
                    self._splice = Splice(self._sock, host, data[begin:])
                    self._splice.run()
                    return
                gevent.sleep(0)  # everybody else has a turn
            decoder.feed(data[begin:])
            gevent.sleep(0)  # also while a line that has no end is coming
        for line in decoder.finish():
            self._line(line)

    def _line(self, line: Line) -> socket.socket | None:
        """Answer a line; the host's end where it is a connect that succeeded."""
        if not isinstance(line, TooLong) and envelope.blank(line):
            return None
        self.serving = True
        try:
            return self._answer(line)
        finally:
            self.serving = False
            self._answered += 1

    def _answer(self, line: Line) -> socket.socket | None:
        id, host = envelope.NO_ID, None
        try:
            if isinstance(line, TooLong):
                raise envelope.BadLine(envelope.NO_ID, envelope.too_long("hub"))
            request = envelope.parse(line)
            id = request.id
            method = METHODS[request.method]
            args = self._decode(method, request.params)
            if method.name in ("sessions.list", "sessions.subscribe"):
                self._tell_roster(id, method.name == "sessions.subscribe")
            elif method.name == "session.connect":
                host = self._connect(id, args)
            elif method.name == "hello":
                self._send(envelope.result(id, json.dumps(self._hello(args))))
            else:
                self._send(_fitting(envelope.result(id, self.hub.handlers[method.name](args))))
        except envelope.BadLine as bad:
            self._send(envelope.error(bad.id, bad.refusal))
        except Refusal as refusal:
            self._send(envelope.error(id, refusal))
            if refusal.reason == "closing" and not self.greeted:
                raise _Over from None
        except _Over:
            raise
        except Exception as failure:
            # Ours, not the peer's: it is told, the hub goes on, the log says where.
            self.hub.report("request", failure)
            self._send(envelope.error(id, Refusal("failed", "it failed inside this hub")))
        return host

    def _decode(self, method: Method, given: Any) -> dict[str, Any]:
        if method.name != "hello" and not self.greeted:
            raise before_hello(method.name)
        if method.name not in _OWN and method.name not in self.hub.handlers:
            if method.name == "session.create":
                raise Refusal(
                    "unsupported",
                    "session.create is not served by this hub: "
                    "it has no way to start a session's host",
                )
            raise not_served(method, "hub")
        args = params.decode(method, given, without=self.hub.not_taken)
        if self.hub.closing:
            raise Refusal("closing", _CLOSING)
        return args

    # ---- what the hub answers by itself ----

    def _hello(self, args: dict[str, Any]) -> dict[str, Any]:
        if self.greeted:
            raise Refusal("bad_request", "hello was already answered on this connection")
        params.agree(args["protocols"], "hub")
        self.greeted = True
        self._answered = -1  # its own answer does not count
        assert self._hello_wait is not None
        self._hello_wait.close()
        hello: dict[str, Any] = self.hub.hello()
        return hello

    def _connect(self, id: bytes, args: dict[str, Any]) -> socket.socket:
        if self._answered:
            raise Refusal(
                "connect_not_first",
                "session.connect must be the connection's first request after hello, with no"
                " roster subscription: the splice takes the whole connection",
            )
        host: socket.socket = self.hub.dial(args["sessionId"])
        try:
            self._send(envelope.result(id, b"{}"))
        except BaseException:
            host.close()
            raise
        return host

    def _tell_roster(self, id: bytes, subscribe: bool) -> None:
        """Answer with the roster, as a subscription's beginning or by itself."""
        hub, held = self.hub, self._subscription
        if subscribe and held is not None:
            raise Refusal(
                "already_subscribed",
                f"this connection holds roster subscription {held.id} already",
            )
        name = f"r-{self._subscriptions}" if subscribe else ""
        with hub.poll.wanted():
            hub.poll.wait()
            with self._writing:
                view = hub.roster.view()
                body = documents.list_result(
                    hub.id,
                    view.cursor,
                    view.rows.values(),
                    truncated=view.truncated,
                    subscription=name,
                )
                line = _fitting(envelope.result(id, body))
                if subscribe:
                    self._subscriptions += 1
                    hub.poll.want()
                    self._subscription = Subscription(
                        name,
                        hub.id,
                        hub.roster,
                        view,
                        tell=self._tell,
                        ended=self._unsubscribe,
                        failed=self._broken,
                        flush=hub.bounds.flush,
                    )
                elif self._subscription is not None:
                    self._subscription.told(view)
                self._write_or_end(line)

    # ---- lines out ----

    def _send(self, line: bytes) -> None:
        with self._writing:
            self._write_or_end(line)

    def _write_or_end(self, line: bytes) -> None:
        if self._write(line):
            raise _Over

    def _write(self, line: bytes | memoryview) -> memoryview:
        """Write a line; what is left of it when the client took nothing for too long. Raises _Over
        where the client takes nothing any more."""
        view = memoryview(line)
        try:
            while view:
                with gevent.Timeout(self.hub.bounds.write, TimeoutError()):
                    view = view[self._sock.send(view) :]
        except TimeoutError:
            pass
        except OSError:
            raise _Over from None
        return view

    def _tell(self, compose: Callable[[], bytes], reset: bytes) -> bool:
        """Write what `compose` returns; false where the client fell behind and heard `reset`, or
        not even that, in which case the connection is over."""
        with self._writing:
            rest = self._write(compose())
            if not rest:
                return True
            if self._write(rest) or self._write(reset):
                self.hang_up()
            return False

    # ---- the end ----

    def moved(self) -> None:
        """The roster may have changed."""
        if self._subscription is not None:
            self._subscription.moved()

    def shut_down(self) -> None:
        """The hub is going: say so where it matters, and close."""
        if self._splice is not None:
            self._splice.shut_down()
        with contextlib.suppress(_Over), gevent.Timeout(self.hub.bounds.farewell, False):
            self._say_farewell()
        self.hang_up()

    def _say_farewell(self) -> None:
        with self._writing:  # no line is left half written
            subscription = self._subscription
            if subscription is not None:
                subscription.close()
                self._write(subscription.reset("hub_closing"))

    def hang_up(self) -> None:
        """Close at once."""
        self._worker.kill(block=False)

    def join(self) -> None:
        self._worker.join()

    def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self.hub.poll.unwant()
            subscription.close()

    def _broken(self, failure: BaseException) -> None:
        if not isinstance(failure, OSError | _Over):
            self.hub.report("connection", failure)
        self.hang_up()


def _fitting(line: bytes) -> bytes:
    if len(line) - 1 > OUTBOUND_LINE:
        raise Refusal(
            "response_too_large", f"the reply would be over the {OUTBOUND_LINE}-byte line limit"
        )
    return line
