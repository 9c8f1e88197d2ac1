"""The turns of one session: when one starts, what ends it, and what follows (codecs 5.2 to 5.6).

At most one turn of craze's runs. It ends when the agent has answered its prompt and no cancel is on
its way; what follows it (an armed send-now, else the head of the queue) starts in the same step, so
the records of an ending and of its successor's start stand side by side in the log.
"""

from typing import Any, Final, NamedTuple

from craze.engine.asks import Asks
from craze.engine.port import (
    AgentError,
    CancelReturned,
    JournalNote,
    PromptEnded,
    SendCancel,
    SendPrompt,
    Timer,
)
from craze.engine.queue import Queue, Row
from craze.engine.receipts import Receipt, Receipts
from craze.engine.refusals import refusal
from craze.engine.stage import Stage
from craze.events import build
from craze.events.members import payload
from craze.wire.codes import Refusal
from craze.wire.limits import RESTORE_RECHECK, SEND_NOW_CANCEL

# Errors under which a prompt never reached the agent: it has emitted no ending of its own.
REFUSED: Final = frozenset(("prompt_cancelled", "prompt_in_flight", "foreign_turn"))

_FOREIGN = "foreign"
_RECHECK = "recheck"
_SEND_NOW = "send_now "


class Turn:
    """The turn that runs. `row` is the queue row it was made of, `result` the agent's answer."""

    __slots__ = ("cancelled", "cause", "id", "number", "result", "row", "started_at")

    def __init__(self, number: int, cause: str, row: Row | None, now: int) -> None:
        self.id = f"turn-{number}"
        self.number = number
        self.cause = cause
        self.row = row
        self.cancelled = False  # a cancel was asked of it
        self.result: PromptEnded | None = None
        self.started_at = now


class Armed(NamedTuple):
    """A send-now that waits for the turn it cancels: a text of its own, or a row as it then is."""

    text: str
    row: str
    turn: str
    cause: str


class _Hold(NamedTuple):
    """A cancel on its way to the agent: until it is back no turn starts and none ends."""

    turn: str  # "" when none of craze's ran
    receipt: Receipt | None
    armed: Armed | None  # the send-now whose own cancel it is


class _Start(NamedTuple):
    text: str
    origin: str
    cause: str
    row: Row | None = None


class Turns:
    """What runs, what is armed, and what the last turn left behind."""

    __slots__ = (
        "_asks",
        "_held_back",
        "_holds",
        "_number",
        "_queue",
        "_receipts",
        "_stage",
        "armed",
        "cancelled",
        "count",
        "current",
        "ended_at",
        "err",
        "failed",
        "foreign",
        "foreign_at",
        "prompted",
    )

    def __init__(self, stage: Stage, queue: Queue, asks: Asks, receipts: Receipts) -> None:
        self.current: Turn | None = None
        self.armed: Armed | None = None
        self.foreign: dict[str, Any] | None = None  # the running bracket
        self.failed = False  # the last turn failed; the next start clears it
        self.err = ""
        self.count = 0  # of turns started, craze's and foreign ones
        self.prompted = False
        self.cancelled = False  # the last turn was cancelled; the next start clears it
        self.ended_at = 0  # when the last turn, craze's or foreign, ended; nanoseconds
        self.foreign_at = 0  # when the last foreign turn began
        self._stage = stage
        self._queue = queue
        self._asks = asks
        self._receipts = receipts
        self._number = 0  # the last turn's of craze's
        self._holds: dict[int, _Hold] = {}
        self._held_back = False  # a fence held back what would have started

    @property
    def cancelling(self) -> bool:
        """Whether a cancel is on its way to the agent."""
        return bool(self._holds)

    @property
    def running(self) -> str:
        """What names the turn that runs: craze's by its id, else the agent's own; "" for none."""
        if self.current is not None:
            return self.current.id
        return _FOREIGN if self.foreign is not None else ""

    # ---- commands ----

    def start(self, text: str, row: str, origin: str, cause: str) -> dict[str, Any]:
        """Start a turn of a text, or of a row's own. Raises Refusal `unknown_row`."""
        taken = self._queue.take(row, cause) if row else None
        if taken is not None:
            text = taken.get("text", "")
        return self._begin(_Start(text, origin, cause, taken))

    def arm(self, text: str, row: str, cause: str) -> None:
        """Arm a send-now behind the turn that runs, and cancel that. Raises Refusal."""
        assert self.current is not None
        if row:
            self._queue.find(row)
        self.armed = Armed("" if row else text, row, self.current.id, cause)
        self._tell(cause, payload(
            "sendNow", armed=True, text=self.armed.text, fromRow=row, turn=self.current.id
        ))  # fmt: skip
        token = self._cancel(None, cause, self.armed)
        self._stage.do(Timer(f"{_SEND_NOW}{token}", SEND_NOW_CANCEL))

    def disarm(self, reason: str, cause: str = "", detail: str = "") -> None:
        """Forget the armed send-now; its text stays where it was. Raises Refusal `not_accepting`
        when nothing is armed."""
        if self.armed is None:
            raise refusal("not_accepting")
        cause = cause or self.armed.cause
        self.armed = None
        self._tell(cause, {}, reason, detail)

    def cancel(self, turn: str, receipt: Receipt) -> None:
        """Cancel the named turn, or whatever runs; answered when the agent has been told. Raises
        Refusal `stale_turn`, `not_accepting`."""
        current = self.current.id if self.current is not None else ""
        if turn and turn != current:
            raise refusal("stale_turn")
        if not (current or self._asks or self.foreign is not None):
            raise refusal("not_accepting")
        self._cancel(receipt, receipt.cause)

    def cancel_all(self) -> None:
        """Cancel whatever runs, for nobody in particular."""
        if self.current is not None or self._asks or self.foreign is not None:
            self._cancel(None, "")

    def expired(self, receipt: Receipt) -> bool:
        """A cancel's caller waits no longer: the cancel may have reached the agent. Whether the
        receipt was one of ours."""
        for token, hold in self._holds.items():
            if hold.receipt is receipt:
                late = AgentError("context deadline exceeded", "deadline_exceeded")
                self.cancel_returned(CancelReturned(token, late, possibly_written=True))
                return True
        return False

    # ---- what the agent says ----

    def returned(self, given: PromptEnded) -> None:
        """The agent's answer to the turn's prompt: its own ending is written, and the turn ends
        unless a cancel is still on its way."""
        turn = self.current
        if turn is None or turn.id != given.turn or turn.result is not None:
            return
        self._returned(turn, given)
        self.proceed()

    def cancel_returned(self, given: CancelReturned) -> None:
        """What became of a cancel: nothing is held up by it any more."""
        hold = self._holds.pop(given.token, None)
        if hold is None:
            return
        if given.error is not None:
            self._cancel_failed(hold, given.error.message)
        self.proceed()
        if hold.receipt is not None:
            self._receipts.complete(hold.receipt, self._outcome(hold, given))

    def timer(self, name: str) -> None:
        """A timer of ours has fired: a restored row is due, or an armed send's cancel is late."""
        if name == _RECHECK:
            self.proceed()
        elif name.startswith(_SEND_NOW):
            hold = self._holds.pop(int(name[len(_SEND_NOW) :]), None)
            if hold is not None:
                self._cancel_failed(hold, "context deadline exceeded")
                self.proceed()

    def foreign_turn(self, event: dict[str, Any]) -> None:
        """One end of a turn that the agent runs on its own."""
        bracket = event.get("foreignTurn") or {}
        if bracket.get("running"):
            self.foreign, self.foreign_at = bracket, self._stage.now
            self.count += 1
            self._stage.commit(event)
            return
        if self.foreign is not None:
            self._asks.end_turn(_FOREIGN)
        self.foreign, self.ended_at = None, self._stage.now
        self._stage.commit(event)
        self.proceed()

    def agent_lost(self, error: AgentError) -> None:
        """The agent is gone: the turn that runs has failed, whatever was on its way to it."""
        turn = self.current
        if turn is None:
            return
        result = turn.result or PromptEnded(turn.id, error=error)
        if turn.result is None:
            self._returned(turn, result)
        self._settle(turn, result)

    # ---- what follows ----

    def may_start(self) -> bool:
        return (
            self._stage.accepting
            and self.current is None
            and not self._holds
            and self.foreign is None
        )

    def proceed(self) -> None:
        """End the turn that is over, or start what waits; whatever of it may happen now."""
        if self._holds:
            return
        if self.current is None:
            self._drain()
        elif self.current.result is not None:
            self._settle(self.current, self.current.result)

    def unfenced(self) -> None:
        """The fence is down: start what it held back."""
        if self._held_back:
            self._held_back = False
            self.proceed()

    def close(self) -> None:
        """The session ends: end the turn that runs, and answer for the cancels on their way."""
        turn, self.current = self.current, None
        if turn is not None:
            self.ended_at = self._stage.now
            members = {"synthetic": True, "stopReason": "closing"}
            if turn.result is not None:
                members = _Ending(turn, turn.result).members
            self._stage.commit(build.turn_ended(
                turn.id, turn.cause, **members, pending=len(self._queue.rows)
            ))  # fmt: skip
        if self.armed is not None:
            self.disarm("closing")
        for hold in self._holds.values():
            if hold.receipt is not None:
                self._receipts.complete(hold.receipt, _cancelled("settled", hold))
        self._holds.clear()

    def _begin(self, start: _Start) -> dict[str, Any]:
        self._number += 1
        self.count += 1
        turn = self.current = Turn(self._number, start.cause, start.row, self._stage.now)
        self.failed = self.cancelled = False
        self.err = ""
        self.prompted = True
        self._stage.commit(build.turn_started(turn.id, start.text, start.origin, start.cause))
        self._stage.do(JournalNote("prompt", {
            "attempt": f"prompt-{turn.number}", "text": start.text, "kind": "prompt"
        }))  # fmt: skip
        self._stage.do(SendPrompt(turn.id, start.text))
        return {"turn": turn.id, "text": start.text}

    def _returned(self, turn: Turn, given: PromptEnded) -> None:
        turn.result = given
        self._asks.end_turn(turn.id)
        error = given.error
        if error is None:
            self._stage.commit(build.done(given.stop_reason))
        elif error.kind not in REFUSED:
            self._stage.commit(build.error(error.message, error.kind, error.code))
        note: dict[str, Any] = {"attempt": f"prompt-{turn.number}"}
        if given.stop_reason:
            note["stopReason"] = given.stop_reason
        if error is not None:
            note["errClass"], note["errMessage"] = error.kind, error.message
        note["durationMs"] = (self._stage.now - turn.started_at) // 1_000_000
        self._stage.do(JournalNote("prompt_end", note))

    def _settle(self, turn: Turn, result: PromptEnded) -> None:
        ending = _Ending(turn, result)
        self.current = None
        self.ended_at = self._stage.now
        self.cancelled = ending.cancelled
        self.failed = ending.failed and not ending.restores
        self.err = ending.err if self.failed else ""
        if ending.restores:
            assert turn.row is not None
            self._queue.restore(turn.row, turn.cause)
            self._stage.do(Timer(_RECHECK, RESTORE_RECHECK))
        disarm, armed = "", self.armed
        if armed is not None and armed.turn != turn.id:
            disarm = "other_turn"
        elif armed is not None and self.failed:
            disarm = "turn_failed"
        if disarm:
            self.armed = None
        if self.failed and not ending.refused:
            self._queue.clear()
        start = None
        if not (self.failed or ending.restores):
            start, gone = self._next()
            disarm = disarm or gone
        self._stage.commit(build.turn_ended(
            turn.id, turn.cause, **ending.members,
            next=f"turn-{self._number + 1}" if start else "", pending=len(self._queue.rows),
        ))  # fmt: skip
        if disarm and armed is not None:
            self._tell(armed.cause, {}, disarm)
        if start is not None:
            self._begin(start)

    def _drain(self) -> None:
        if self.failed:
            return
        armed = self.armed
        start, gone = self._next()
        if gone and armed is not None:
            self._tell(armed.cause, {}, gone)
        if start is not None:
            self._begin(start)

    def _next(self) -> tuple[_Start | None, str]:
        """What starts now, its row taken out of the queue; and why the armed send-now does not,
        where it is gone."""
        if not self.may_start() or (self.armed is None and not self._queue.rows):
            return None, ""
        if self._stage.fenced:
            self._held_back = True
            return None, ""
        armed, self.armed = self.armed, None
        gone = ""
        if armed is not None:
            if not armed.row:
                return _Start(armed.text, "send_now", armed.cause), ""
            if self._queue.has(armed.row):
                row = self._queue.take(armed.row, armed.cause)
                return _Start(row.get("text", ""), "send_now", armed.cause, row), ""
            gone = "row_gone"
        if not self._queue.rows:
            return None, gone
        row = self._queue.take(self._queue.rows[0]["id"], "")
        return _Start(row.get("text", ""), "drain", "", row), gone

    def _cancel(self, receipt: Receipt | None, cause: str, armed: Armed | None = None) -> int:
        token = self._stage.token()
        turn = self.current
        if turn is not None:
            turn.cancelled = True
        self._holds[token] = _Hold(turn.id if turn is not None else "", receipt, armed)
        self._asks.end_all("cancelled", "cancel", cause)
        self._stage.do(SendCancel(token))
        return token

    def _cancel_failed(self, hold: _Hold, detail: str) -> None:
        """An armed send-now whose cancel failed goes, unless its turn is over all the same."""
        over = self.current is None or self.current.result is not None
        if hold.armed is not None and hold.armed is self.armed and not over:
            self.disarm("cancel_failed", detail=detail)

    def _outcome(self, hold: _Hold, given: CancelReturned) -> Any:
        current = self.current.id if self.current is not None else ""
        if hold.turn and hold.turn != current:
            return _cancelled("settled", hold)
        if given.error is not None:
            unknown = _cancelled("unknown", hold)
            if given.possibly_written:
                return unknown
            return Refusal("failed", given.error.message, result=unknown)
        return _cancelled("requested" if hold.turn else "settled", hold)

    def _tell(self, cause: str, armed: dict[str, Any], reason: str = "", detail: str = "") -> None:
        state = payload("state", sendNow=armed, reason=reason, detail=detail)
        self._stage.commit(build.meta(state, cause=cause))


class _Ending:
    """How a turn that has its answer ends: the members of its `turn` event, and what that means.

    `refused`: the prompt never reached the agent. `restores`: its row goes back to the queue, as
    the agent ran a turn of its own and nobody wanted the row cancelled.
    """

    __slots__ = ("cancelled", "err", "failed", "members", "refused", "restores")

    def __init__(self, turn: Turn, result: PromptEnded) -> None:
        self.err = ""
        self.failed = self.refused = self.restores = False
        self.members: dict[str, Any] = {}
        error = result.error
        if error is None:
            self.members["stopReason"] = result.stop_reason
        elif error.kind == "prompt_cancelled" or (
            error.kind in REFUSED and turn.row is not None and turn.cancelled
        ):
            self.refused = True
            self.members = {"synthetic": True, "stopReason": "cancelled"}
        else:
            self.failed = True
            self.refused = error.kind in REFUSED
            self.restores = error.kind == "foreign_turn" and turn.row is not None
            self.err = error.message
            self.members = {"errClass": error.kind, "err": error.message, "synthetic": self.refused}
        self.cancelled = self.members.get("stopReason") == "cancelled"


def _cancelled(outcome: str, hold: _Hold) -> dict[str, Any]:
    return {"outcome": outcome, "turn": hold.turn, "reported": False}
