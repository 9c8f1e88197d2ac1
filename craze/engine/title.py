"""The session's title: the user's pins it, and the agent's no longer replaces it (codecs 5.8)."""

from typing import Any

from craze.engine.port import WriteTitle
from craze.engine.refusals import refusal
from craze.engine.stage import Stage
from craze.events import build
from craze.wire import titles

Event = dict[str, Any]


class Title:
    """`text` is the title ("" for none); `pinned` says that a user gave it."""

    __slots__ = ("_stage", "pinned", "text")

    def __init__(self, stage: Stage) -> None:
        self.text = ""
        self.pinned = False
        self._stage = stage

    def begin(self, title: str, pinned: bool) -> None:
        """The title that the session comes with."""
        self.text, self.pinned = title, pinned
        self._stage.commit(build.meta({"title": title}))

    def set(self, title: str, cause: str = "") -> None:
        """The user's title: published and pinned. Raises Refusal `bad_request` for a blank one."""
        text = titles.normalize(title)
        if not text:
            raise refusal("bad_request", "a title needs a character that shows")
        self.text, self.pinned = text, True
        self._stage.commit(build.meta({"title": text}, cause=cause))

    def write(self, token: int) -> None:
        """Have the title recorded in the session index; `TitleWritten` comes with the token."""
        self._stage.do(WriteTitle(token, self.text, self.pinned))

    def allow(self, state: dict[str, Any]) -> dict[str, Any]:
        """An agent's delta less the title that a pinned one outlives; else that title is taken."""
        if "title" not in state:
            return state
        if self.pinned:
            return {name: section for name, section in state.items() if name != "title"}
        self.text = state["title"]
        return state
