"""What an agent replays of a session that it loads, told once.

By the protocol an agent replays the conversation and then answers the load. Some replay it twice,
some answer first, some begin again at the first prompt. A replay has no marks of its own, so what
repeats all that was told so far, word for word, is held back until it turns out to be that, and is
left out, or to be something else, and is told after all.

No I/O, no waiting, no clock.
"""

from collections import Counter
from typing import Any

from craze.agents import limits
from craze.agents.acp import read
from craze.wire import json

Params = dict[str, Any]

_PROMPT = "user_message_chunk"
_CONVERSATION = frozenset(
    (
        _PROMPT, "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update",
        "plan",
    )
)  # fmt: skip


def is_prompt(params: Params) -> bool:
    """Whether a `session/update` tells what the user said."""
    return _kind(params) == _PROMPT


class Replay:
    """The replay of one loaded session. While `open` the agent tells of the past; later on it can
    only repeat it. `count` is how much of the conversation has come, told or held back."""

    __slots__ = (
        "_counters", "_held", "_holding", "_last", "_named", "_prompts", "_told", "count", "open",
    )  # fmt: skip

    def __init__(self, counters: Counter[str]) -> None:
        self.open = True
        self.count = 0
        self._counters = counters
        self._told: list[int] = []  # a hash of each update told while open
        self._held: list[tuple[int, Params]] = []  # what repeats them, so far
        self._holding = 0  # bytes
        self._last = ""  # the kind of the last one told
        self._prompts = 0
        self._named = False  # one that was told has an id, and ids are used once

    def take(self, params: Params) -> list[Params]:
        """What is to be told now that this update has come: it, nothing, or those held before it
        too."""
        if _kind(params) not in _CONVERSATION:
            return [params]
        self.count += 1
        mark, size = _mark(params)
        released: list[Params] = []
        if self._held:
            if mark == self._told[len(self._held) % len(self._told)]:
                return self._hold(mark, params, size)
            released = self._release(ended=False)
        if self._told and mark == self._told[0] and is_prompt(params):
            return released + self._hold(mark, params, size)
        self._tell(mark, params)
        return [*released, params]

    def settle(self) -> list[Params]:
        """Nothing follows what is held: what of it is to be told."""
        return self._release(ended=True)

    def _hold(self, mark: int, params: Params, size: int) -> list[Params]:
        self._held.append((mark, params))
        self._holding += size
        return self._release(ended=False) if self._holding > limits.REPLAY_HELD else []

    def _tell(self, mark: int, params: Params) -> None:
        if not self.open or len(self._told) >= limits.REPLAY_COMPARED:
            return
        kind = _kind(params)
        self._told.append(mark)
        self._prompts += kind == _PROMPT != self._last
        self._last = kind
        update = params["update"]
        self._named = self._named or bool(read.text(update, "messageId", "toolCallId"))

    def _release(self, ended: bool) -> list[Params]:
        held, self._held, self._holding = self._held, [], 0
        if not held:
            return []
        again = len(held) - len(held) % len(self._told)
        if not self._certain(ended and again == len(held)):
            again = 0
        self._counters["replayed_again"] += again
        if not again:
            for mark, params in held:
                self._tell(mark, params)
        return [params for _, params in held[again:]]

    def _certain(self, nothing_else: bool) -> bool:
        """Whether a repetition is the agent's doing. People do repeat themselves, and are given the
        same answer; but not with the same ids, nor two prompts running and nothing after them."""
        return not self.open or self._named or (self._prompts > 1 and nothing_else)


def _kind(params: Params) -> str:
    return read.text(read.inner(params, "update"), "sessionUpdate")


def _mark(params: Params) -> tuple[int, int]:
    """What an update is known again by, and its size in bytes."""
    try:
        said = json.dumps(params["update"])
    except ValueError:  # a number that is no JSON
        said = b""
    return hash((read.text(params, "sessionId"), said)), len(said)
