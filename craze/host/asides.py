"""Side questions: at most two at a time on a session, streamed to the connection that asked.

Nothing of one touches the session: no receipt, no record, no activity. Its pieces go out as `aside`
notifications every 50 ms or 4 KiB, all before its reply; a connection that does not read loses the
notifications, never the answer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import gevent
from gevent.event import Event

from craze import greenlets
from craze.host.outbox import Outbox
from craze.wire import documents, envelope
from craze.wire.codes import INVALID_PARAMS, Refusal
from craze.wire.limits import (
    ASIDE_CANCEL_WAIT,
    ASIDE_FLUSH,
    ASIDE_NOTICE,
    ASIDE_PENDING,
    ASIDE_TIME,
    ASIDES_IN_FLIGHT,
)
from craze.wire.words import quote


class Answer(NamedTuple):
    """What the agent answered: the whole text, its model's name, the tokens where reported."""

    text: str
    model: str
    usage: dict[str, int] | None = None


class Asker(Protocol):
    """An agent that answers side questions. `piece(text)` may be called as the answer comes; the
    call waits for the whole of it. Raises Refusal."""

    def aside(self, question: str, prior: list[dict[str, str]], piece: Any) -> Answer: ...


class Cancelled(BaseException):
    """Thrown into the greenlet that waits for a side question's answer."""


class _Notices:
    """The pieces of one answer on their way out."""

    def __init__(self, aside: str, outbox: Outbox) -> None:
        self._aside = aside
        self._outbox = outbox
        self._text = b""
        self._seq = 0
        self._dropped = False
        self._timer: gevent.Greenlet | None = None

    def piece(self, text: str) -> None:
        if self._dropped:
            return
        self._text += text.encode()
        self._send(ASIDE_NOTICE)
        if len(self._text) > ASIDE_PENDING:
            self._dropped, self._text = True, b""
        elif self._text and self._timer is None:
            self._timer = greenlets.spawn(f"aside {self._aside}", self._later)

    def finish(self) -> None:
        """What is left goes out now: the reply comes next."""
        if self._timer is not None:
            self._timer.kill(block=False)
        self._send(1)

    def _later(self) -> None:
        gevent.sleep(ASIDE_FLUSH)
        self._timer = None
        self._send(1)

    def _send(self, at_least: int) -> None:
        while len(self._text) >= at_least and self._text and self._outbox.fits(2 * ASIDE_NOTICE):
            head = self._text[:ASIDE_NOTICE].decode(errors="ignore").encode()
            self._text = self._text[len(head) :]
            self._seq += 1
            self._outbox.put(
                envelope.notification(
                    "aside", {"asideId": self._aside, "seq": self._seq, "text": head.decode()}
                )
            )


class _Running:
    """A side question that waits for its answer."""

    def __init__(self) -> None:
        self.replied = Event()
        self._greenlet = gevent.getcurrent()
        self._over = False

    def over(self) -> None:
        """The answer is there, or the want of one: no cancel touches its way out."""
        self._over = True

    def cancel(self) -> None:
        """End the wait for the answer, once."""
        if not self._over:
            self._over = True
            self._greenlet.kill(Cancelled, block=False)


class Asides:
    """The side questions in flight on one session, by connection and id."""

    def __init__(self, *, time: float = ASIDE_TIME, cancel_wait: float = ASIDE_CANCEL_WAIT) -> None:
        self._running: dict[tuple[Any, str], _Running] = {}
        self._time = time
        self._cancel_wait = cancel_wait

    def ask(
        self,
        connection: Any,
        outbox: Outbox,
        agent: Asker,
        params: dict[str, Any],
        reply: Callable[[dict[str, Any]], None],
        refuse: Callable[[Refusal], None],
    ) -> None:
        """Ask, wait for the whole answer and give it to `reply`, or what became of it to `refuse`.

        Raises Refusal for a question that is not asked at all.
        """
        key = (connection, params["asideId"])
        if key in self._running:
            raise Refusal(
                "bad_request",
                f"params.asideId {quote(key[1])} is in flight on this connection already",
                rpc=INVALID_PARAMS,
            )
        if len(self._running) >= ASIDES_IN_FLIGHT:
            raise Refusal(
                "aside_busy",
                f"{ASIDES_IN_FLIGHT} side questions are in flight on this session: "
                "ask again once one has answered",
            )
        running = self._running[key] = _Running()
        notices = _Notices(params["asideId"], outbox)
        try:
            try:
                outcome = self._outcome(agent, params, notices)
            finally:
                running.over()
                notices.finish()
            if isinstance(outcome, Refusal):
                refuse(outcome)
            else:
                reply(outcome)
        finally:
            del self._running[key]
            running.replied.set()

    def _outcome(
        self, agent: Asker, params: dict[str, Any], notices: _Notices
    ) -> dict[str, Any] | Refusal:
        """The result, once the whole answer is there, or why there is none."""
        try:
            with gevent.Timeout(self._time) as bound:
                answer = agent.aside(params["question"], params.get("prior", []), notices.piece)
        except Cancelled:
            return Refusal("context", "context canceled")
        except gevent.Timeout as passed:
            if passed is not bound:
                raise
            return Refusal("context", "context deadline exceeded")
        except Refusal as refusal:
            return refusal
        return documents.build("aside", text=answer.text, model=answer.model, usage=answer.usage)

    def cancel(self, connection: Any, aside: str) -> None:
        """Cancel one and wait for its reply to be queued; unknown ones are nobody's."""
        running = self._running.get((connection, aside))
        if running is not None:
            running.cancel()
            running.replied.wait(self._cancel_wait)

    def cancel_all(self, connection: Any = None) -> None:
        """Cancel those of one connection, or all of them."""
        for (owner, _), running in list(self._running.items()):
            if connection is None or owner is connection:
                running.cancel()
