"""In which state a machine's craze is, and when to look again: a table and what it remembers.

Nothing here looks. The machine of the person's own holds one subscription, which tries again by
itself; any other is probed first, and subscribed to only while a hub runs there.
"""

from typing import NamedTuple

from craze_shed import backoff
from craze_shed.contract import frames
from craze_shed.contract.capabilities import SourceCapabilities
from craze_shed.craze.limits import Waits
from craze_shed.lines import ABSENT, DORMANT, LIVE, OFFLINE
from ladder.outcome import Kind

NO_HUB = "no_hub"  # the cause of an Offline: craze is there, and runs no hub

# What is not reached -> its cause; of all else, that it cannot be reached.
_CAUSES = {
    Kind.NOT_INSTALLED: frames.NOT_INSTALLED,
    Kind.TOO_OLD: frames.TOO_OLD,
    Kind.NO_HUB: NO_HUB,
    frames.FAILED: frames.FAILED,
}
# What was found instead of a roster and stays so for a while -> the state; all else is an outage.
_SETTLED = {NO_HUB: DORMANT, frames.NOT_INSTALLED: ABSENT, frames.TOO_OLD: OFFLINE}


def cause_of(kind: str) -> str:
    """Why there is no roster, from what was found when it was looked for."""
    return _CAUSES.get(kind, frames.UNREACHABLE)


def state_of(cause: str) -> str:
    """The machine's state for want of a roster."""
    return _SETTLED.get(cause, OFFLINE)


def is_settled(cause: str) -> bool:
    """Whether that will be so for a while, unlike an outage."""
    return cause in _SETTLED


class Status(NamedTuple):
    """What a machine's card goes by. `cause` says why it is not live, where there is more to say
    than the state; what can be done is known only while it is live. `source_gen` is higher for a
    later source."""

    state: str
    cause: str | None
    create: bool
    create_options: bool
    create_title: bool
    reopen: bool
    source_gen: int


class Driver:
    """One machine's state, from what was found of it in turn."""

    __slots__ = ("_next", "_waits", "cause", "state")

    def __init__(self, waits: Waits = Waits()) -> None:  # noqa: B008 a value
        self._waits = waits
        self._next = waits.first  # the wait of the next failure
        self.state = ABSENT
        self.cause: str | None = None

    def __repr__(self) -> str:
        return f"<Driver {self.state}{f', {self.cause}' if self.cause else ''}>"

    def ready(self) -> None:
        """The roster is there."""
        self.state, self.cause = LIVE, None
        self._next = self._waits.first

    def found(self, cause: str) -> float:
        """A probe or the roster ended in this instead: the seconds to wait, unjittered."""
        self.state = state_of(cause)
        self.cause = None if cause == NO_HUB else cause
        if is_settled(cause):
            self._next = self._waits.first
            return self._waits.rarely
        wait = self._next
        self._next = backoff.next_delay(wait, self._waits.first, self._waits.most, worked=False)
        return wait

    def status(self, able: SourceCapabilities | None, source_gen: int) -> Status:
        """What shows; `able` is what the source last said it can do."""
        if self.state != LIVE or able is None:
            return Status(self.state, self.cause, False, False, False, False, source_gen)
        return Status(
            self.state,
            self.cause,
            able.create,
            able.create_options,
            able.create_title,
            able.reopen,
            source_gen,
        )
