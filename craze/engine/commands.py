"""What clients ask of a session: each command past the gate, run once and answered once.

Most are answered in their own step. Those that the agent or the session index must speak to first
are owed their answer until then, or until their bound or the session ends.
"""

import traceback
from collections.abc import Callable
from typing import Any, Final

from craze.engine import gate, port
from craze.engine.asks import Asks
from craze.engine.queue import Queue
from craze.engine.receipts import Receipt, Receipts
from craze.engine.refusals import refusal
from craze.engine.settings import Settings
from craze.engine.stage import Stage
from craze.engine.title import Title
from craze.engine.turns import Turns
from craze.wire.codes import Refusal
from craze.wire.methods import METHODS

Args = dict[str, Any]
Result = dict[str, Any]


class Commands:
    """The commands of one engine; `capabilities` are the session's by wire name."""

    __slots__ = (
        "_asks", "_calls", "_capabilities", "_queue", "_receipts", "_settings", "_stage", "_title",
        "_turns",
    )  # fmt: skip

    def __init__(
        self,
        stage: Stage,
        receipts: Receipts,
        queue: Queue,
        asks: Asks,
        turns: Turns,
        settings: Settings,
        title: Title,
        capabilities: dict[str, bool],
    ) -> None:
        self._stage = stage
        self._receipts = receipts
        self._queue = queue
        self._asks = asks
        self._turns = turns
        self._settings = settings
        self._title = title
        self._capabilities = capabilities
        self._calls: dict[int, Receipt] = {}  # with the agent or the index, by token

    def take(self, command: port.Command, state: str) -> None:
        """Run a command in a `state` of the gate table, unless it was sent before."""
        blocking = METHODS[command.method].blocks(command.args)
        receipt = self._receipts.admit(command, blocking)
        if receipt is None:
            return
        answer: Result | Refusal | None
        try:
            answer = self._run(command, receipt, state)
        except Refusal as refused:
            answer = refused
        except Exception:
            # Our own fault. Whoever sent it must not take it for a command that did not run.
            fields = {"method": command.method, "trace": traceback.format_exc()}
            self._stage.do(port.JournalNote("diag", {"kind": "crash", "fields": fields}))
            answer = refusal("command_aborted")
        if answer is not None:
            self._receipts.complete(receipt, answer)

    def expired(self, token: Any) -> None:
        """The bound of the command first sent under `token` has passed: say what is known of it."""
        receipt = self._receipts.running(token)
        if receipt is None or self._turns.expired(receipt) or self._settings.expired(receipt):
            return
        self._receipts.complete(receipt, refusal("context"))

    def returned(self, given: port.InterjectReturned | port.SubagentCancelReturned) -> None:
        """The agent's answer to a call."""
        receipt = self._calls.pop(given.token, None)
        if receipt is None:
            return
        if given.refused:
            self._receipts.complete(receipt, refusal(given.refused))
        elif given.error is not None:
            self._receipts.complete(receipt, refusal("failed", given.error.message))
        else:
            self._receipts.complete(receipt, {})

    def title_written(self, given: port.TitleWritten) -> bool:
        """The index's answer; whether it was owed to a command."""
        receipt = self._calls.pop(given.token, None)
        if receipt is None:
            return False
        failed = refusal("index_write", given.error, given.error) if given.error else None
        self._receipts.complete(receipt, failed or {})
        return True

    def close(self) -> None:
        """The session ends: answer for what the agent and the index will not."""
        for receipt in self._calls.values():
            self._receipts.complete(receipt, refusal("command_aborted"))
        self._calls.clear()

    def _run(self, command: port.Command, receipt: Receipt, state: str) -> Result | None:
        """The command's answer; None when it is still owed. Raises Refusal."""
        column = gate.column(command.method, command.args)
        word = gate.TABLE[state][column]
        if word == gate.NOT_ACCEPTING:
            raise refusal(word)
        if self._stage.fenced and column in gate.FENCED:
            raise refusal("closing")
        return _RUN[command.method](self, command.args, receipt, word)

    def _prompt(self, args: Args, receipt: Receipt, word: str) -> Result | None:
        text, row, mode = args.get("text", ""), args.get("fromRow", ""), args["mode"]
        if mode == "interject":
            self._interject(text, receipt, word)
            return None
        if mode == "send_now" and self._turns.armed is not None:
            raise refusal("already_submitted")
        if word == gate.FOREIGN_TURN:
            raise refusal(word)
        if word == gate.START:
            origin = "submit" if mode == "queue" else "send_now"
            return self._turns.start(text, row, origin, receipt.cause)
        if word == gate.ARM:
            self._turns.arm(text, row, receipt.cause)
            return {"armed": True}
        return {"queued": self._queue.find(row) if row else self._queue.add(text, receipt.cause)}

    def _interject(self, text: str, receipt: Receipt, word: str) -> None:
        if not self._capabilities.get("interject"):
            raise refusal("unsupported")
        if word == gate.NOT_IN_TURN:
            raise refusal(word)
        token = self._call(receipt)
        note = {"attempt": f"interject-{token}", "text": text, "kind": "interject"}
        self._stage.do(port.JournalNote("prompt", note))
        self._stage.do(port.SendInterject(token, text))

    def _cancel(self, args: Args, receipt: Receipt, word: str) -> None:
        self._turns.cancel(args.get("turnId", ""), receipt)

    def _disarm(self, args: Args, receipt: Receipt, word: str) -> Result:
        self._turns.disarm("withdrawn", receipt.cause)
        return {}

    def _add(self, args: Args, receipt: Receipt, word: str) -> Result:
        return {"row": self._queue.add(args["text"], receipt.cause)}

    def _edit(self, args: Args, receipt: Receipt, word: str) -> Result:
        self._queue.edit(args["rowId"], args["text"], args.get("expectedVersion"), receipt.cause)
        return {}

    def _remove(self, args: Args, receipt: Receipt, word: str) -> Result:
        return {"row": self._queue.remove(args["rowId"], receipt.cause)}

    def _clear(self, args: Args, receipt: Receipt, word: str) -> Result:
        return {"removed": self._queue.clear(receipt.cause)}

    def _set(self, args: Args, receipt: Receipt, word: str) -> None:
        self._settings.set(args["setting"], receipt)

    def _set_title(self, args: Args, receipt: Receipt, word: str) -> None:
        self._title.set(args["title"], receipt.cause)
        self._title.write(self._call(receipt))

    def _answer(self, args: Args, receipt: Receipt, word: str) -> Result:
        self._asks.answer(args["askId"], args["answer"], receipt.cause)
        return {}

    def _cancel_child(self, args: Args, receipt: Receipt, word: str) -> None:
        if not self._capabilities.get("subagentCancel"):
            raise refusal("unsupported")
        self._stage.do(port.SendSubagentCancel(self._call(receipt), args["agentId"]))

    def _call(self, receipt: Receipt) -> int:
        """A token for a call whose answer the command is owed."""
        token = self._stage.token()
        self._calls[token] = receipt
        return token


_RUN: Final[dict[str, Callable[[Commands, Args, Receipt, str], Result | None]]] = {
    "session.prompt": Commands._prompt,
    "session.cancel": Commands._cancel,
    "session.disarm": Commands._disarm,
    "session.queue.add": Commands._add,
    "session.queue.edit": Commands._edit,
    "session.queue.remove": Commands._remove,
    "session.queue.clear": Commands._clear,
    "session.set": Commands._set,
    "session.setTitle": Commands._set_title,
    "session.subagent.cancel": Commands._cancel_child,
    "asks.answer": Commands._answer,
}
