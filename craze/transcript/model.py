"""The fold: a session's events, one after the other, into what a reader of the session sees."""

from collections.abc import Mapping
from typing import Any

from craze.transcript.rules import CHILD, MAIN
from craze.transcript.state import State


class Model(State):
    """A session folded from its events (codecs 3).

    `incarnation` is the log's. `ask_cards` and `plan_cards` are the session's capabilities: whether
    an answered question and a decided plan leave a note.
    """

    __slots__ = ()

    def fold(self, seq: int, event: Mapping[str, Any]) -> None:
        """Takes the next event. `seq` is the log's, or 0 for an event that has none.

        The event is never changed, and parts of it are kept. It is one of ours or has passed
        `craze.events.codec.check`.
        """
        names = self.names
        names.index = 0
        if seq > self.seq:
            self.seq = names.seq = seq
        else:
            names.seq = 0
        kind = event["type"]
        agent = event.get("agent")
        if not agent or kind == "subagent":
            rule = MAIN.get(kind)
            if rule is not None:
                rule(self, self.main, event, event.get("at", ""))
        elif kind in MAIN:
            transcript = self.child(agent)
            rule = CHILD.get(kind)
            if rule is not None:
                rule(self, transcript, event, event.get("at", ""))
