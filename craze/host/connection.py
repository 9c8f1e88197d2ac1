"""One client's connection to a host: lines in, requests admitted, replies out.

Sixteen requests are admitted at a time; each keeps its slot until its reply is on the socket, and
nothing more is read meanwhile. Requests begin in the order they came and are answered as they
finish: those that may wait run in greenlets of their own. A peer that half-closes still gets what
it is owed; one that is gone is noticed within about a second, however quiet the session is.
"""

import select
from typing import Any

from gevent import sleep, socket
from gevent.lock import BoundedSemaphore

from craze import greenlets
from craze.engine import port
from craze.host.attachment import Attachment
from craze.host.bindings import Binding
from craze.host.methods import HANDLERS, OPTIONAL, WAITING, Gone
from craze.host.outbox import Outbox
from craze.host.presence import Teller
from craze.wire import documents, envelope, json, params
from craze.wire.codes import Refusal
from craze.wire.documents import Piece
from craze.wire.framing import TOO_LONG, LineDecoder
from craze.wire.limits import CHUNK, INBOUND_LINE, OUTBOUND_LINE, REQUESTS_PER_CONNECTION
from craze.wire.methods import METHODS, Method, before_hello, not_served
from craze.wire.words import quote

_HANG_UP = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Connection:
    """`server` is the host's `craze.host.server.Server`."""

    def __init__(self, server: Any, sock: socket.socket) -> None:
        self.server = server
        self.binding: Binding | None = None
        self.attachment: Attachment | None = None
        self.half_closed = False
        self.closed = False
        self.outbox = Outbox(sock, self._outbox_ended)
        self._sock = sock
        self._slots = BoundedSemaphore(REQUESTS_PER_CONNECTION)
        self._subscriptions = 1  # the next one's number
        self._finishing = False
        self._receiving = False
        self._teller: Teller | None = None
        self._owed_ready: Attachment | None = None
        self._reader = greenlets.spawn("connection", self._read, on_error=self._broken)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "half-closed" if self.half_closed else "open"
        return f"<Connection {self.binding} {self.attachment} {state}>"

    # ---- lines in ----

    def _read(self) -> None:
        decoder = LineDecoder(INBOUND_LINE)
        while data := self._receive():
            for line in decoder.feed(data):
                self._line(line)
                sleep(0)  # what it asked begins before the next, and everybody else has a turn
            sleep(0)  # for want of lines, too
        for line in decoder.finish():
            self._line(line)
        self._half_close()

    def _receive(self) -> bytes:
        self._receiving = True
        try:
            data: bytes = self._sock.recv(CHUNK)
            return data
        finally:
            self._receiving = False

    def _line(self, line: Any) -> None:
        if self._finishing or (line is not TOO_LONG and envelope.blank(line)):
            return
        self._slots.acquire()
        try:
            if line is TOO_LONG:
                raise envelope.BadLine(envelope.NO_ID, envelope.too_long("host"))
            request = envelope.parse(line)
        except envelope.BadLine as bad:
            self.refuse(bad.id, bad.refusal)
            return
        method = METHODS[request.method]
        if method.name in WAITING:
            greenlets.spawn(method.name, self._serve, request, method)
        else:
            self._serve(request, method)

    def _serve(self, request: envelope.Request, method: Method) -> None:
        try:
            args = self._decode(request, method)
            HANDLERS[method.name](self, request.id, args)
        except Refusal as refusal:
            self.refuse(request.id, refusal)
        except Gone:
            self._slots.release()
        except Exception as failure:
            # Ours, not the peer's: it is told, the host goes on, the log says where.
            self.server.report(method.name, failure)
            self.refuse(request.id, Refusal("failed", f"{method.name} failed inside this host"))

    def _decode(self, request: envelope.Request, method: Method) -> dict[str, Any]:
        if method.name != "hello" and self.binding is None:
            raise before_hello(method.name)
        if not method.host:
            raise not_served(method, "host")
        session = self.server.session
        capability = OPTIONAL.get(method.name)
        served = capability is None or session.facts.capabilities.get(capability, False)
        decoded = params.decode(method, request.params, rules=served)
        if method.scoped and decoded["sessionId"] != session.facts.session_id:
            raise Refusal(
                "unknown_session", f"this host serves no session {quote(decoded['sessionId'])}"
            )
        return decoded

    # ---- replies out ----

    def reply(self, request: bytes, body: dict[str, Any] | bytes | list[Piece]) -> None:
        """Queue the result of a request, which keeps its slot until that is on the socket. Raises
        Refusal `response_too_large`."""
        if isinstance(body, dict):
            body = json.dumps(body)
        if isinstance(body, bytes):
            body = [body]
        line = [envelope.result_head(request), *body, envelope.RESULT_END]
        size = sum(map(len, line))
        if size - 1 > OUTBOUND_LINE:
            raise Refusal(
                "response_too_large",
                f"the response would be {size - 1} bytes, over the {OUTBOUND_LINE}-byte line limit",
            )
        self._answer(b"".join(line) if size <= CHUNK else line, size)

    def refuse(self, request: bytes, refusal: Refusal) -> None:
        """Queue the refusal of a request."""
        line = envelope.error(request, refusal)
        self._answer(line, len(line))

    def _answer(self, line: bytes | list[Piece], size: int) -> None:
        self.outbox.wait_room(size)
        self.outbox.put(line, self._written)

    def _written(self) -> None:
        self._slots.release()
        if self.half_closed:
            self._finish_if_idle()

    # ---- the attachment ----

    def begin_attachment(self) -> Attachment:
        """Claim the connection's one attachment. Raises Refusal `already_attached`."""
        if self.attachment is not None:
            raise Refusal(
                "already_attached",
                f"this connection's attachment {self.attachment.id} is not yet closed: "
                "detach it, or wait for its reset",
            )
        attachment = Attachment(
            f"s-{self._subscriptions}",
            self.outbox,
            lambda: self.tell_presence(self.server.attached),
            self._attachment_ended,
        )
        self.attachment = attachment
        if self.server.session.facts.capabilities.get("presence"):
            self._teller = Teller(self._tell_presence, self.server.pace)
        return attachment

    def owe_ready(self, attachment: Attachment) -> None:
        """The attachment was made before the start's end, which it is to hear of."""
        self._owed_ready = attachment

    def session_started(self, started: port.Started, session: dict[str, Any]) -> None:
        """The start has ended: `session` is the info document as it now stands."""
        attachment, self._owed_ready = self._owed_ready, None
        if attachment is not None:
            line = envelope.notification(
                "ready",
                documents.build(
                    "ready",
                    subscription=attachment.id,
                    session=session,
                    startFailed=started.error is not None,
                    err=started.error.message if started.error else "",
                ),
            )
            attachment.at(started.seq, lambda: self.outbox.put(line))

    def tell_presence(self, count: int) -> None:
        """The number of clients attached is now `count`."""
        attachment = self.attachment
        if self._teller is not None and attachment is not None and attachment.synchronized:
            self._teller.tell(count)

    def _tell_presence(self, count: int) -> None:
        if self.attachment is not None:
            self.outbox.put(
                envelope.notification(
                    "presence", {"subscription": self.attachment.id, "attached": count}
                )
            )

    def _attachment_ended(self, attachment: Attachment) -> None:
        self.attachment = None
        self._owed_ready = None
        if attachment.live:
            self._subscriptions += 1
        if self._teller is not None:
            self._teller.close()
            self._teller = None
        self.server.presence_changed()
        if self.half_closed:
            self._finish_if_idle()
        elif self._finishing:
            self.finish()

    def barrier(self) -> None:
        """The reply barrier: wait until all that the log holds is queued on this attachment."""
        if self.attachment is not None:
            self.attachment.wait_for(self.server.session.log.head)

    # ---- the end ----

    def finish(self) -> None:
        """The session has ended: close once nothing is owed, replies still running included."""
        self._finishing = True
        if self.attachment is None and not self.closed:
            greenlets.spawn("finish", self._drain)

    def _drain(self) -> None:
        if self._receiving:
            self._reader.kill(block=False)
        for _ in range(REQUESTS_PER_CONNECTION):
            self._slots.acquire()
        self.outbox.finish()

    def supersede(self) -> None:
        """Another connection has taken this one's client id."""
        self._close()

    def terminate(self) -> None:
        """The engine was replaced: only the attachment's reset still goes out, then the end."""
        attachment = self.attachment
        line = b""
        if attachment is not None:
            if attachment.live:
                line = attachment.reset_line("session_replaced")
            attachment.close()
        self.outbox.terminate(line)

    def hang_up(self) -> None:
        """Close at once."""
        self._close()

    def _half_close(self) -> None:
        self.half_closed = True
        if self.attachment is not None:
            self.server.presence_changed()
        self._finish_if_idle()
        watched = select.poll()
        watched.register(self._sock.fileno(), 0)
        while not self.closed:
            if any(events & _HANG_UP for _, events in watched.poll(0)):
                self._close()
                return
            sleep(self.server.hang_up_poll)

    def _finish_if_idle(self) -> None:
        if self._slots.counter == REQUESTS_PER_CONNECTION and self.attachment is None:
            self.outbox.finish()

    def _outbox_ended(self, error: BaseException | None) -> None:
        self._close()

    def _broken(self, error: BaseException) -> None:
        if not isinstance(error, OSError):
            self.server.report("connection", error)
        self._close()

    def _close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.server.gone(self)
        if self.attachment is not None:
            self.attachment.close()
        self.outbox.kill()
        self._sock.close()
        self._reader.kill(block=False)
