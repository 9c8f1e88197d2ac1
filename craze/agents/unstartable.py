"""An agent whose program is not there, or not known here: its session starts, and fails at once.

A host with such an agent is listed like any other, so that whoever attaches hears why.
"""

from collections.abc import Callable
from typing import Any

from craze.engine import port


class Unstartable:
    """An agent that cannot be started: its start fails with the words given."""

    def __init__(
        self,
        post: Callable[[Any], None],
        words: str,
        capabilities: dict[str, bool] | None = None,
    ) -> None:
        self.capabilities = capabilities or {}
        self._post = post
        self._words = words

    def start(self) -> None:
        self._post(port.StartFailed(port.AgentError(self._words)))

    def prompt(self, turn: str, text: str) -> None:
        """Never asked of it: no turn starts in a session that did not."""

    def cancel(self, token: int) -> None:
        self._post(port.CancelReturned(token))

    def interject(self, token: int, text: str) -> None:
        self._post(port.InterjectReturned(token, refused="not_in_turn"))

    def set(self, token: int, kind: str, option: str, value: str) -> None:
        self._post(port.SettingReturned(token, refused="option_gone"))

    def cancel_subagent(self, token: int, agent: str) -> None:
        self._post(port.SubagentCancelReturned(token, refused="unknown_subagent"))

    def answer(self, key: Any, ending: dict[str, Any]) -> None:
        """Nothing was asked."""

    def close(self) -> None:
        """Nothing runs."""
