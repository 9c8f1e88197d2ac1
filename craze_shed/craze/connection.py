"""One connection to craze over a duplex stream: requests answered by id, notifications in a queue.

Two greenlets own the stream. The reader never waits for anybody: a queue that nobody empties ends
the connection. What a login shell prints before craze's first reply is passed over, within bounds,
and kept for the error text; after it, every line has to be craze's. Nothing here reconnects.
"""

from collections import deque
from typing import Any, NamedTuple

import gevent
from gevent.event import AsyncResult, Event

from craze import greenlets
from craze.client.connection import Stream
from craze.client.errors import Refused
from craze.wire import envelope, json
from craze.wire.framing import LineDecoder, TooLong
from craze.wire.limits import CHUNK, INBOUND_LINE, OUTBOUND_LINE
from craze_shed.contract import errors
from craze_shed.contract.errors import LaneError
from craze_shed.craze import limits
from craze_shed.reach.errors import ReachError, reason
from ladder.outcome import Noise

_OVER = f"a line of over {OUTBOUND_LINE} bytes"


class Ended(Exception):
    """The connection is over; `str()` says why. A request that was sent may have run."""


class Backlog(Ended):
    """It ended because nobody took its notifications."""


class Deadline(Exception):
    """No answer came in time. The request may have run."""

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"craze did not answer {method} within {seconds:g}s")


class TooLongToSend(ValueError):
    """The request is longer than craze reads; it was not sent."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the request is {size} bytes, over craze's {INBOUND_LINE}-byte line limit;"
            " it was not sent"
        )


def refusal(refused: Refused, cause: str | None = None) -> LaneError:
    """craze's refusal as the contract's error; `cause` is what a start failed for."""
    return errors.for_code(refused.code, refused.message, refused.reason, cause, number=refused.rpc)


class Notice(NamedTuple):
    """A notification."""

    method: str
    params: dict[str, Any]


class Pending:
    """A request on its way; `result` waits for its answer."""

    __slots__ = ("_connection", "_id", "_method", "reply", "sent", "whole")

    def __init__(self, connection: "Connection", id: str, method: str) -> None:
        self._connection = connection
        self._id = id
        self._method = method
        self.reply: Any = AsyncResult()
        self.sent = False  # its first byte has left
        self.whole = False  # and its last

    def result(self, timeout: float) -> dict[str, Any]:
        """The result. Raises Refused, Ended, Deadline. A request that time cut in two takes the
        connection with it."""
        try:
            self.reply.wait(timeout)
            if self.reply.ready():
                answer: dict[str, Any] = self.reply.get()
                return answer
        finally:
            self._connection.forget(self._id)
        if self.sent and not self.whole:
            self._connection.close(f"{self._method} could not be sent within {timeout:g}s")
        raise Deadline(self._method, timeout)


class Connection:
    """A stream in use, until `close`."""

    def __init__(self, stream: Stream, *, queue: int = limits.NOTIFICATIONS) -> None:
        self._stream = stream
        self._queue_limit = queue
        self._ids = 0
        self._out: deque[tuple[str, Pending, bytes]] = deque()
        self._wake = Event()
        self._pending: dict[str, Pending] = {}
        self.notices: deque[Notice] = deque()  # that nobody has taken yet
        self._news = Event()  # there is a notification, or the end
        self._woken = False
        self._heard = False  # a reply has come
        self.noise = Noise()  # what came before that
        self.over: Ended | None = None
        self._writer = greenlets.spawn("lane writer", self._write, on_error=self._failed)
        self._reader = greenlets.spawn("lane reader", self._read, on_error=self._failed)

    def __repr__(self) -> str:
        state = f"over: {self.over}" if self.over else "open"
        return f"<Connection {state}, {len(self._pending)} waiting, {len(self.notices)} queued>"

    # ---- requests ----

    def send(self, method: str, params: dict[str, Any]) -> Pending:
        """Put a request on its way. Raises Ended, and ValueError for one that cannot be sent;
        TooLongToSend is one."""
        if self.over is not None:
            raise self.over
        id = str(self._ids + 1)
        line = envelope.request(id, method, params)
        if len(line) - 1 > INBOUND_LINE:
            raise TooLongToSend(len(line) - 1)
        self._ids += 1
        pending = self._pending[id] = Pending(self, id, method)
        self._out.append((id, pending, line))
        self._wake.set()
        return pending

    def ask(self, method: str, params: dict[str, Any], timeout: float) -> dict[str, Any]:
        """A request and its result. Raises Refused, Ended, Deadline, and ValueError as `send`."""
        return self.send(method, params).result(timeout)

    def forget(self, id: str) -> None:
        """Nobody waits for this request any more: if it has not left yet, it never will."""
        self._pending.pop(id, None)

    # ---- notifications ----

    def next(self, timeout: float | None = None) -> Notice | None:
        """The next notification, in order; None when none came within `timeout` seconds. Raises
        Ended once all that came before the end were taken."""
        if not self.notices and self.over is None and not self._woken:
            self._news.clear()
            self._news.wait(timeout)
        self._woken = False
        if self.notices:
            return self.notices.popleft()
        if self.over is not None:
            raise self.over
        return None

    def wake(self) -> None:
        """Have who waits for a notification look up."""
        self._woken = True
        self._news.set()

    # ---- the end ----

    def close(self, why: str = "it was closed") -> None:
        """End it: every request that waits fails, and what is behind the stream is let go of. The
        first reason counts."""
        self._end(Ended(why))

    def _end(self, over: Ended) -> None:
        if self.over is not None:
            return
        self.over = over
        waiting, self._pending = self._pending, {}
        for pending in waiting.values():
            pending.reply.set_exception(over)
        self._news.set()
        here = gevent.getcurrent()
        others = [one for one in (self._writer, self._reader) if one is not here]
        try:
            gevent.killall(others)  # nobody may still wait on a descriptor that is closed
        finally:
            self._stream.close()

    def _failed(self, failure: BaseException) -> None:
        if isinstance(failure, Ended):
            self._end(failure)
        elif isinstance(failure, OSError | ReachError):
            self._end(Ended(reason(failure)))
        else:
            self._end(Ended(f"shed failed: {failure!r}"))
            raise failure

    # ---- the stream ----

    def _write(self) -> None:
        while True:
            while self._out:
                id, pending, line = self._out.popleft()
                if id in self._pending:
                    pending.sent = True
                    self._stream.sendall(line)
                    pending.whole = True
            self._wake.clear()
            self._wake.wait()

    def _read(self) -> None:
        decoder = LineDecoder(OUTBOUND_LINE)
        unended = 0
        while data := self._stream.recv(CHUNK):
            lines = decoder.feed(data)
            unended = 0 if lines else unended + len(data)
            for line in lines:
                self._line(line)
            if unended > OUTBOUND_LINE + CHUNK:
                raise Ended(_OVER)
            # A stream that always has more to read would keep those who empty the queue waiting.
            gevent.sleep(0)
        for line in decoder.finish():
            self._line(line)
        raise Ended("craze closed the connection")

    def _line(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            raise Ended(_OVER)
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        # A login shell may print an object, too: until craze has answered, only one that says it is
        # a message is taken for one.
        if isinstance(message, dict) and (self._heard or message.get("jsonrpc") == "2.0"):
            self._message(message)
        elif self._heard:
            raise Ended("a line that is no message")
        else:
            self._pass_over(line)

    def _pass_over(self, line: bytes) -> None:
        """A line of the login shell's, not craze's."""
        if not self.noise.keep(line):
            raise Ended("too much was printed before craze answered")

    def _message(self, message: dict[str, Any]) -> None:
        if message.get("jsonrpc") != "2.0":
            raise Ended("a message that is not JSON-RPC 2.0")
        answered = "result" in message or "error" in message
        if "method" in message:
            if answered or "id" in message:
                raise Ended("a request from craze")
            self._notice(message)
        elif not answered or ("result" in message and "error" in message):
            raise Ended("a message that is neither a reply nor a notification")
        else:
            self._reply(message)

    def _reply(self, message: dict[str, Any]) -> None:
        id = message.get("id")
        if id is None:
            error = Refused.read(message.get("error"))
            raise Ended(f"an answer to no request: {error}")
        self._heard = True
        pending = self._pending.pop(id, None) if isinstance(id, str) else None
        if pending is None:
            return  # nobody waits for it
        if "error" in message:
            pending.reply.set_exception(Refused.read(message["error"]))
        elif isinstance(message["result"], dict):
            pending.reply.set(message["result"])
        else:
            self._pending[id] = pending  # what became of it is not known
            raise Ended("a result that is no object")

    def _notice(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        if not isinstance(message["method"], str) or not isinstance(params, dict):
            raise Ended("a notification without its params")
        if len(self.notices) >= self._queue_limit:
            raise Backlog("nobody took its notifications")
        self.notices.append(Notice(message["method"], params))
        self._news.set()
        if 2 * len(self.notices) > self._queue_limit:
            gevent.sleep(0)
