"""JSON-RPC with an agent, line by line: both sides' requests, notifications, and what is neither.

Lines are taken in their order by whoever feeds them; nothing here waits but `ask`. An agent's
stdout is not trusted to hold JSON-RPC only: log lines, numbers, arrays, replies to nothing are
counted under `counters` and dropped.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import gevent.event

from craze.agents.process import Outgoing, Process
from craze.engine.port import AgentError
from craze.wire import json
from craze.wire.codes import INVALID_PARAMS, METHOD_NOT_FOUND
from craze.wire.framing import TOO_LONG, LineDecoder
from craze.wire.limits import OUTBOUND_LINE

CANCELLED = -32800

Then = Callable[[Any, AgentError | None], None]


class AgentFailure(Exception):
    """A call that the agent refused, did not answer in time, or went away under."""

    def __init__(self, error: AgentError) -> None:
        super().__init__(error.message)
        self.error = error


class Rpc:
    """The connection. `on_request(id, method, params)` must see to it that `reply` or `refuse`
    is called once for it; `on_notification(method, params)` is told the rest. `params` is an
    object, empty where the agent sent none."""

    def __init__(
        self,
        on_request: Callable[[Any, str, dict[str, Any]], None],
        on_notification: Callable[[str, dict[str, Any]], None],
        counters: Counter[str],
        line_limit: int = OUTBOUND_LINE,
    ) -> None:
        self.counters = counters
        self._on_request = on_request
        self._on_notification = on_notification
        self._decoder = LineDecoder(line_limit)
        self._process: Process | None = None
        self._next = 0
        self._calls: dict[int, tuple[Then, Outgoing]] = {}
        self._lost: AgentError | None = None

    def connect(self, process: Process) -> None:
        """Where lines go out from now on."""
        self._process = process

    # ---- in ----

    def feed(self, data: bytes) -> None:
        """What the agent wrote, in any pieces."""
        for line in self._decoder.feed(data):
            self._take(line)

    def finish(self) -> None:
        """The agent writes no more: a last line may have come without its end."""
        for line in self._decoder.finish():
            self._take(line)

    def _take(self, line: Any) -> None:
        if line is TOO_LONG:
            self.counters["too_long"] += 1
            return
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except UnicodeDecodeError:  # output cut within a character; the rest is worth reading
            self._take(line.decode("utf-8", "replace").encode())
            return
        except ValueError:
            self.counters["unreadable"] += 1
            return
        if not isinstance(message, dict):
            self.counters["no_message"] += 1
            return
        method, params = message.get("method"), message.get("params")
        if isinstance(method, str):
            params = params if isinstance(params, dict) else {}
            if "id" in message:
                self._on_request(message["id"], method, params)
            else:
                self._on_notification(method, params)
        else:
            self._answered(message)

    def _answered(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        call = self._calls.pop(number, None) if type(number) is int else None
        if call is None:
            self.counters["stray_reply"] += 1
            return
        then, _ = call
        failure = message.get("error")
        if failure is None:
            then(message.get("result"), None)
        else:
            then(None, _error(failure))

    def lose(self, error: AgentError) -> None:
        """The agent is gone: every open call fails with `error`, and so does every later one."""
        self._lost = error
        calls, self._calls = self._calls, {}
        for then, _ in calls.values():
            then(None, error)

    # ---- out ----

    def call(self, method: str, params: dict[str, Any], then: Then) -> int:
        """Send a request; `then(result, error)` runs as its answer's line is taken, in order with
        the lines around it, or at once when the agent is gone. Its number, for `withdraw`."""
        self._next += 1
        number = self._next
        if self._lost is not None:
            then(None, self._lost)
        else:
            line = self._send({"id": number, "method": method, "params": params})
            self._calls[number] = (then, line)
        return number

    def withdraw(self, number: int) -> bool:
        """Take back a request of which nothing was sent yet; its `then` is not called."""
        call = self._calls.get(number)
        if call is None or self._process is None or not self._process.withdraw(call[1]):
            return False
        del self._calls[number]
        return True

    def ask(
        self,
        method: str,
        params: dict[str, Any],
        timeout: float | None = None,
        then: Then | None = None,
    ) -> Any:
        """Send a request and wait for its result. `then` is called as for `call`, before this
        returns. Raises AgentFailure; an answer after `timeout` seconds is dropped."""
        answered = gevent.event.Event()
        answer: list[Any] = [None, None]

        def take(result: Any, error: AgentError | None) -> None:
            answer[:] = result, error
            try:
                if then is not None:
                    then(result, error)
            except Exception as failure:
                answer[:] = None, AgentError(f"agent: craze failed: {failure!r}")
                raise
            finally:
                answered.set()

        number = self.call(method, params, take)
        try:
            if not answered.wait(timeout):
                text = f"acp: agent did not answer {method} within {seconds(timeout or 0)}"
                raise AgentFailure(AgentError(text, "deadline_exceeded"))
        finally:
            self._calls.pop(number, None)
        result, error = answer
        if error is not None:
            raise AgentFailure(error)
        return result

    def notify(
        self, method: str, params: dict[str, Any], written: Callable[[], None] | None = None
    ) -> Outgoing:
        """Send a notification; `written` is called once it is in the pipe."""
        return self._send({"method": method, "params": params}, written)

    def reply(self, request: Any, result: Any) -> None:
        """Answer an agent's request; its id goes back as it came."""
        self._answer(request, {"result": result})

    def refuse(self, request: Any, code: int, message: str) -> None:
        """Answer an agent's request with an error."""
        self._answer(request, {"error": {"code": code, "message": message}})

    def _answer(self, request: Any, body: dict[str, Any]) -> None:
        try:
            self._send({"id": request, **body})
        except ValueError:  # an id that is no JSON, such as a number past every double
            self.counters["unanswerable"] += 1

    def unknown(self, request: Any, method: str) -> None:
        """Answer a request for something that is not served."""
        self.refuse(request, METHOD_NOT_FOUND, f"Method not found: {method}")

    def invalid(self, request: Any, message: str) -> None:
        """Answer a request whose params cannot be read."""
        self.refuse(request, INVALID_PARAMS, message)

    def _send(self, message: dict[str, Any], written: Callable[[], None] | None = None) -> Outgoing:
        if self._process is None:
            raise RuntimeError("the agent's connection is not up")
        line = json.dumps({"jsonrpc": "2.0", **message}) + b"\n"
        return self._process.send(line, written)


def seconds(bound: float) -> str:
    """A bound in whole seconds as people read it: `1m30s`, `45s`, `2m`."""
    minutes, rest = divmod(int(bound), 60)
    if not minutes:
        return f"{bound:g}s"
    return f"{minutes}m{rest}s"


def _error(failure: Any) -> AgentError:
    """The agent's error object, whatever it made of one (codecs 1.4, class `rpc`)."""
    if not isinstance(failure, dict):
        return AgentError(str(failure) or "agent error", "rpc")
    code, message, data = failure.get("code"), failure.get("message"), failure.get("data")
    text = message if isinstance(message, str) else ""
    if text in ("", "Internal error") and isinstance(data, dict):
        for name in ("details", "message"):
            if isinstance(data.get(name), str) and data[name]:
                text = data[name]
                break
    return AgentError(text or "agent error", "rpc", code if type(code) is int else 0)
