"""How long and how often a client tries (protocol tables 1.8), and the clock of an outage."""

from typing import NamedTuple

from craze.clock import Clock
from craze.wire import limits

MARGIN = 30.0  # what an answer may take on top of what the host itself allows


class Limits(NamedTuple):
    """Every bound of one client, in seconds and bytes; the defaults are the protocol's.

    A test, or a program with other patience, passes its own: `Limits(window=2.0)`.
    """

    reattaches: int = limits.REATTACHES_PER_EPISODE
    redials: int = limits.REDIALS
    window: float = limits.REDIAL_WINDOW  # of an outage's own clock
    redial_first: float = limits.REDIAL_BACKOFF_FIRST
    redial_max: float = limits.REDIAL_BACKOFF_MAX
    handshake: float = limits.HANDSHAKE_TIMEOUT
    answer: float = limits.COMMAND_TIMEOUT + MARGIN  # a call's deadline where it names none
    attach: float = limits.ATTACH_READY_WAIT + MARGIN
    gate_first: float = limits.GATE_RETRY_FIRST
    gate_max: float = limits.GATE_RETRY_MAX
    gate_deadline: float = limits.GATE_RETRY_DEADLINE
    buffer: int = limits.CLIENT_STREAM_BUFFER
    line: int = limits.OUTBOUND_LINE  # the longest line read
    aside_pending: int = limits.ASIDE_PENDING


class Episode:
    """One outage: how many dials it has had, and its own clock, which can be paused.

    The clock runs from the loss to `window` seconds. It stands still while the new connection
    waits for a `when: "ready"` attach, which a slow load may hold for minutes.
    """

    __slots__ = ("_clock", "_left", "_since", "dials")

    def __init__(self, clock: Clock, window: float) -> None:
        self._clock = clock
        self._left = window
        self._since: float | None = clock.monotonic()
        self.dials = 0

    def left(self) -> float:
        """Seconds until the episode ends; 0.0 once it has."""
        spent = 0.0 if self._since is None else self._clock.monotonic() - self._since
        return max(0.0, self._left - spent)

    def pause(self) -> None:
        """Stop the clock. Pausing twice is harmless."""
        self._left = self.left()
        self._since = None

    def run(self) -> None:
        """Let the clock run on."""
        if self._since is None:
            self._since = self._clock.monotonic()
