"""What the engine's parts act through: the log, the effects of the step in hand, and its time."""

from typing import Any, Protocol

from craze.events import build

Event = dict[str, Any]


class Log(Protocol):
    """What the engine asks of the event log (`craze.eventlog.log.EventLog`)."""

    @property
    def head(self) -> int: ...

    def commit(self, event: Event) -> int: ...


class Stage:
    """One engine's hands. `now` is the step's time in nanoseconds; `effects` what it asks for."""

    __slots__ = ("_issued", "accepting", "effects", "fenced", "log", "now", "replaying")

    def __init__(self, log: Log, now: int) -> None:
        self.log = log
        self.now = now
        self.effects: list[Any] = []
        self.accepting = False  # started, and neither replaying nor over: turns may run
        self.fenced = False  # the host is deciding whether the session ends
        self.replaying = False
        self._issued = 0

    def commit(self, event: Event) -> int:
        """Commit an event, marked where it stands between a replay's brackets; its seq."""
        return self.log.commit(build.replayed(event) if self.replaying else event)

    def do(self, effect: Any) -> None:
        """Ask for an effect; effects are carried out in this order, after the step."""
        self.effects.append(effect)

    def token(self) -> int:
        """A fresh token for a call to the agent or the index."""
        self._issued += 1
        return self._issued
