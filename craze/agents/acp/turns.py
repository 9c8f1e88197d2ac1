"""Which prompt a grok agent is running: craze's, or one that it runs of its own accord.

The protocol's core has no name for a running turn. grok gives each prompt an id, says which one
runs (`x.ai/queue/changed`) and which one ended, twice (`x.ai/session/prompt_complete` races the
reply of `session/prompt`). A running prompt that craze did not send is a foreign turn (codecs 6.1).
"""

from collections import deque
from typing import Any

from craze.agents import limits
from craze.agents.acp import read
from craze.events import build
from craze.events.members import payload

Event = dict[str, Any]

_FALLBACK = "interject-fallback-"


class Turns:
    """The ids of the running prompts. For an agent of another dialect nothing is ever foreign."""

    def __init__(self) -> None:
        self.foreign = ""  # the foreign turn that runs
        self._open = False
        self._ours = ""  # the id of craze's own, once known
        self._done: deque[str] = deque(maxlen=limits.IDS_KEPT)
        self._echoed: deque[str] = deque(maxlen=limits.IDS_KEPT)

    def begin(self) -> None:
        """craze sends a prompt."""
        self._open, self._ours = True, ""

    def end(self, number: str = "") -> None:
        """craze's prompt has ended, or a late twin of its ending names it."""
        for finished in (number, self._ours if self._open else ""):
            if finished:
                self._done.append(finished)
        self._open, self._ours = False, ""

    def twin(self, number: str) -> None:
        """A reply came for a prompt whose end was already known."""
        if number:
            self._done.append(number)

    def changed(self, params: dict[str, Any]) -> list[Event]:
        """`x.ai/queue/changed`: what runs now."""
        number = read.text(params, "runningPromptId")
        if number and number == self.foreign:
            return []
        events = self.completed(self.foreign) if self.foreign else []
        if not number or number == self._ours or number in self._done:
            return events
        if self._open and not self._ours and not number.startswith(_FALLBACK):
            self._ours = number
            return events
        self.foreign = number
        words = read.text(params, "runningText")
        bracket = payload("foreignTurn", id=number, text=words, running=True)
        return [*events, build.foreign_turn(bracket)]

    def completed(self, number: str) -> list[Event]:
        """A prompt has ended; the end bracket when it was the foreign one."""
        if not number or number != self.foreign:
            return []
        self.foreign = ""
        self._done.append(number)
        return [build.foreign_turn(payload("foreignTurn", id=number))]

    def ours(self, number: str) -> bool:
        """Whether a `prompt_complete` of this id ends craze's open prompt."""
        if not self._open or not number or number in self._done or number.startswith(_FALLBACK):
            return False
        return number == (self._ours or number)

    def interjected(self, params: dict[str, Any]) -> list[Event]:
        """`x.ai/session/interjection`: the user's words, once each."""
        number, words = read.text(params, "interjectionId"), read.text(params, "text")
        if not words or number in self._echoed:
            return []
        if number:
            self._echoed.append(number)
        return [build.user(words, interjection=True)]
