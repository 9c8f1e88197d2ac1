"""The settings: one change at a time, asked of the agent, published as it confirms it (codecs 5.8).

Changes wait in one line, in the order they came. The agent's answer and the delta that tells of it
are one step, so a delta's seq is the revision of what it carries.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from craze.engine.port import SendSetting, SettingReturned
from craze.engine.receipts import Receipt, Receipts
from craze.engine.refusals import MESSAGES, refusal
from craze.engine.stage import Stage
from craze.events import build
from craze.wire.codes import Refusal

State = dict[str, Any]


class _Change:
    __slots__ = ("for_model", "kind", "option", "receipt", "token", "value")

    def __init__(self, setting: dict[str, Any], receipt: Receipt, token: int) -> None:
        self.receipt = receipt
        self.token = token
        self.kind: str = setting["kind"]
        self.option: str = setting.get("id", "")
        self.value: str = setting["value"]
        self.for_model: str = setting.get("forModel", "")


class Settings:
    """`model()` is the session's current model id. `models` and `modes` are the catalogs as offered
    now, `revision` that of the models."""

    __slots__ = (
        "_asked", "_model", "_receipts", "_stage", "_waiting", "models", "modes", "revision",
    )  # fmt: skip

    def __init__(self, stage: Stage, receipts: Receipts, model: Callable[[], str]) -> None:
        self.models: list[dict[str, Any]] = []
        self.modes: list[dict[str, Any]] = []
        self.revision = 0
        self._stage = stage
        self._receipts = receipts
        self._model = model
        self._asked: _Change | None = None  # the one the agent has
        self._waiting: deque[_Change] = deque()

    @property
    def busy(self) -> bool:
        return self._asked is not None

    def publish(self, state: State, cause: str = "") -> int:
        """Commit a delta of these sections (in wire order) and take up its catalog; its seq."""
        self.note(state)
        return self._stage.commit(build.meta(state, cause=cause))

    def note(self, state: State) -> None:
        """Take up the catalog of a delta."""
        catalog = state.get("catalog")
        if catalog and catalog["revision"] >= self.revision:
            self.models, self.revision = catalog.get("models", []), catalog["revision"]

    def set(self, setting: dict[str, Any], receipt: Receipt) -> None:
        """Put a change in the line; it is answered when its turn has come and the agent has spoken.
        Raises Refusal `bad_request` for one that is no setting."""
        kind = setting["kind"]
        if kind == "config" and not setting.get("id"):
            raise refusal("bad_request", "a config setting needs an option id")
        if kind != "config" and setting.get("id"):
            raise refusal("bad_request", f"a {kind} setting names no option")
        if kind != "config" and setting.get("forModel"):
            raise refusal("bad_request", f"a {kind} setting is bound to no model")
        self._waiting.append(_Change(setting, receipt, self._stage.token()))
        self._ask_next()

    def returned(self, given: SettingReturned) -> None:
        """The agent's answer to the change it was asked for."""
        change = self._asked
        if change is None or change.token != given.token:
            return
        self._asked = None
        rev = self.publish(given.state, change.receipt.cause) if given.state else 0
        self._receipts.complete(change.receipt, _answer(given, rev))
        self._ask_next()

    def expired(self, receipt: Receipt) -> bool:
        """The caller's bound has passed: a change still in the line is taken out, one that the
        agent has may yet land. Whether the receipt was one of ours."""
        if self._asked is not None and self._asked.receipt is receipt:
            self._receipts.complete(receipt, refusal("set_outcome_unknown"))
            return True
        for change in self._waiting:
            if change.receipt is receipt:
                self._waiting.remove(change)
                self._receipts.complete(receipt, refusal("not_run"))
                return True
        return False

    def close(self) -> None:
        """The session ends: answer for what the agent will not."""
        if self._asked is not None:
            self._receipts.complete(self._asked.receipt, refusal("set_outcome_unknown"))
        for change in self._waiting:
            self._receipts.complete(change.receipt, refusal("not_run"))
        self._asked = None
        self._waiting.clear()

    def _ask_next(self) -> None:
        while self._asked is None and self._waiting:
            change = self._waiting.popleft()
            if change.for_model and change.for_model != self._model():
                self._receipts.complete(change.receipt, refusal("stale_model"))
                continue
            self._asked = change
            self._stage.do(SendSetting(change.token, change.kind, change.option, change.value))


def _answer(given: SettingReturned, rev: int) -> dict[str, Any] | Refusal:
    if given.refused:
        if given.error is not None:
            return Refusal(given.refused, given.error.message)
        return Refusal(given.refused, MESSAGES[given.refused])
    if given.error is not None:
        return Refusal("failed", given.error.message)
    return {"value": given.value, "rev": rev}
