"""One connection to an endpoint: lines in, lines out, replies matched to calls by id.

Two greenlets own the stream. The writer alone sends, so that a caller that is killed or runs into
somebody's timeout never leaves half a line behind; the reader alone receives, and hands each
notification on before it looks at the next line. Nothing here reconnects: when the connection
ends, its unanswered calls are handed back to the owner, which knows which of them may be repeated.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import gevent
from gevent.event import AsyncResult, Event

from craze import greenlets
from craze.client.errors import ConnectionLost, OutcomeUnknown, PeerFault, Refused
from craze.wire import envelope, json
from craze.wire.framing import LineDecoder, TooLong
from craze.wire.limits import CHUNK, INBOUND_LINE, OUTBOUND_LINE


class Stream(Protocol):
    """What a connection runs over: a gevent socket, or anything as cooperative with these three."""

    def recv(self, size: int, /) -> bytes:
        """At most `size` bytes, or none at the end; waits for the first."""

    def sendall(self, data: bytes, /) -> None:
        """Send all of `data`."""

    def close(self) -> None:
        """Let go of it."""


# What becomes of a call whose connection ends before its answer.
ONCE = "once"  # it fails: sending it twice costs something, or means nothing elsewhere
READ = "read"  # it is sent again: it changes nothing
COMMAND = "command"  # it is sent again to the host that took us back, and to no other


class Call:
    """One request and its answer. `sent` turns true before its first byte leaves, and stays so
    when the call is made again. `take` hears a result in the reader, before the next line."""

    __slots__ = ("kind", "method", "owner", "params", "reply", "sent", "take")

    def __init__(
        self,
        method: str,
        params: dict[str, Any],
        kind: str = ONCE,
        take: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.method = method
        self.params = params
        self.kind = kind
        self.take = take
        self.reply: Any = AsyncResult()
        self.sent = False
        self.owner: object | None = None  # a command's: the identity its command id belongs to

    def __repr__(self) -> str:
        state = "answered" if self.reply.ready() else "sent" if self.sent else "waiting"
        return f"<Call {self.method} {state}>"

    def fail(self, failure: Exception) -> None:
        """End the call with `failure`, unless it has ended."""
        if not self.reply.ready():
            self.reply.set_exception(failure)

    def result(self, timeout: float) -> dict[str, Any]:
        """Wait for the result. Raises what the call failed with; past `timeout` seconds
        OutcomeUnknown (`no_answer`), or ConnectionLost if it was never sent."""
        # wait() tells its own timeout from an outer one, which passes through.
        self.reply.wait(timeout)
        if self.reply.ready():
            answer: dict[str, Any] = self.reply.get()
            return answer
        seconds = f"{round(timeout, 2):g}"  # what is left of a deadline is no round number
        if self.sent:
            raise OutcomeUnknown("no_answer", f"{self.method}: no answer in {seconds} s")
        raise ConnectionLost(f"{self.method}: no connection in {seconds} s; it was never sent")


class Connection:
    """A stream in use. `notify(method, params, size)` hears each notification, `ended(self)` once
    of the end; both run in the greenlets of the connection and must not wait.

    `failure` is why it ended (None: the peer closed it), `calls` what was unanswered then, in the
    order sent.
    """

    def __init__(
        self,
        stream: Stream,
        notify: Callable[[str, dict[str, Any], int], None],
        ended: Callable[["Connection"], None],
        *,
        line: int = OUTBOUND_LINE,
    ) -> None:
        self._stream = stream
        self._notify = notify
        self._ended = ended
        self._line = line
        self._ids = 0
        self._out: deque[tuple[str, Call, bytes]] = deque()
        self._wake = Event()
        self.outbound = INBOUND_LINE  # the longest line the endpoint reads; its hello says
        self.calls: dict[str, Call] = {}
        self.failure: BaseException | None = None
        self.over = False
        self._writer = greenlets.spawn("client writer", self._write, on_error=self.end)
        self._reader = greenlets.spawn("client reader", self._read, on_error=self.end)

    def __repr__(self) -> str:
        state = f"ended by {self.failure!r}" if self.over else "open"
        return f"<Connection {state}, {len(self.calls)} calls in flight>"

    def send(self, call: Call) -> None:
        """Put `call` on its way. Raises ValueError for one longer than the endpoint reads, and
        ConnectionLost after the end."""
        if self.over:
            raise ConnectionLost(f"{call.method}: the connection is gone")
        self._ids += 1
        id = str(self._ids)
        line = envelope.request(id, call.method, call.params)
        if len(line) - 1 > self.outbound:
            raise ValueError(
                f"{call.method} would be a line of {len(line) - 1} bytes; "
                f"the endpoint reads at most {self.outbound}"
            )
        self.calls[id] = call
        self._out.append((id, call, line))
        self._wake.set()

    def ask(self, method: str, params: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Send a request and wait for its result; for the handshake."""
        call = Call(method, params)
        self.send(call)
        try:
            return call.result(timeout)
        finally:
            self.forget(call)

    def forget(self, call: Call) -> None:
        """Nobody waits for `call` any more: if it has not left yet, it never will."""
        for id, known in list(self.calls.items()):
            if known is call:
                del self.calls[id]

    def end(self, failure: BaseException | None = None) -> None:
        """Close the stream and stop; the owner hears of it. Ending twice is harmless."""
        if self.over:
            return
        self.over = True
        self.failure = failure
        others = [g for g in (self._writer, self._reader) if g is not gevent.getcurrent()]
        gevent.killall(others, block=False)
        try:
            self._ended(self)
            gevent.joinall(others)  # nobody may still wait on a descriptor that is closed
        finally:
            self._stream.close()

    def release(self) -> Stream:
        """Hand the stream on, open and with nothing of it read ahead: for a splice, after whose
        reply nothing comes unasked."""
        self.over = True
        gevent.killall([self._writer, self._reader])
        return self._stream

    def join(self) -> None:
        """After `end`: wait until its greenlets are gone."""
        gevent.joinall([self._writer, self._reader])

    def _write(self) -> None:
        while True:
            while self._out:
                if batch := self._batch():
                    self._stream.sendall(batch)
            self._wake.clear()
            self._wake.wait()

    def _batch(self) -> bytes:
        """The next lines as one piece, without those whose callers have gone."""
        lines: list[bytes] = []
        size = 0
        while self._out and size < CHUNK:
            id, call, line = self._out.popleft()
            if id in self.calls:
                call.sent = True
                lines.append(line)
                size += len(line)
        return b"".join(lines)

    def _read(self) -> None:
        decoder = LineDecoder(self._line)
        unended = 0
        while data := self._stream.recv(CHUNK):
            lines = decoder.feed(data)
            unended = 0 if lines else unended + len(data)
            for line in lines:
                if self.over:
                    return
                if isinstance(line, TooLong):
                    raise PeerFault(f"a line of over {self._line} bytes")
                self._take(line)
            if unended > self._line + CHUNK:
                raise PeerFault(f"over {self._line} bytes without an end of line")
            # A stream that always has more to read would keep those who consume it from running.
            gevent.sleep(0)
        # A last piece without its newline is half a line: an endpoint ends every one.
        self.end()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            raise PeerFault(f"a line that is not JSON: {line[:80]!r}") from None
        if not isinstance(message, dict):
            raise PeerFault(f"a line that is no JSON object: {line[:80]!r}")
        if "id" in message:
            self._answer(message)
            return
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str) or not isinstance(params, dict):
            raise PeerFault(f"a line that is neither a reply nor a notification: {line[:80]!r}")
        self._notify(method, params, len(line))

    def _answer(self, message: dict[str, Any]) -> None:
        id = message["id"]
        if id is None:
            # It could not read what we sent: which call that was, nobody can tell.
            raise PeerFault(f"an answer to no request: {Refused.read(message.get('error'))}")
        call = self.calls.get(id) if isinstance(id, str) else None
        if call is None:
            return  # its caller has gone
        if "error" in message:
            del self.calls[id]
            call.fail(Refused.read(message["error"]))
            return
        result = message.get("result")
        if not isinstance(result, dict):  # it stays in flight: what became of it is not known
            raise PeerFault(f"an answer to {call.method} with no result")
        if call.take is not None:
            call.take(result)
        del self.calls[id]
        call.reply.set(result)
