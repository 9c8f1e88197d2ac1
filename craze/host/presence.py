"""How many clients are attached, told to each of them: the latest count, at most twice a second.

A count is no event: it has no seq and nothing keeps it. Each attachment is told after its
`synchronized` and then only of a count that differs from the one it was last told.
"""

from collections.abc import Callable

import gevent

from craze import greenlets
from craze.clock import Clock
from craze.wire.limits import PRESENCE_INTERVAL


class Teller:
    """What one attachment has been told. `send(count)` queues the notification."""

    def __init__(
        self, send: Callable[[int], None], clock: Clock, interval: float = PRESENCE_INTERVAL
    ) -> None:
        self._send = send
        self._clock = clock
        self._interval = interval
        self._told: int | None = None
        self._at = -interval
        self._latest = 0
        self._later: gevent.Greenlet | None = None

    def tell(self, count: int) -> None:
        self._latest = count
        if self._later is None and count != self._told:
            wait = self._at + self._interval - self._clock.monotonic()
            if wait <= 0:
                self._say()
            else:
                self._later = greenlets.spawn("presence", self._wait, wait)

    def close(self) -> None:
        if self._later is not None:
            self._later.kill(block=False)
            self._later = None

    def _wait(self, seconds: float) -> None:
        gevent.sleep(seconds)
        self._later = None
        if self._latest != self._told:
            self._say()

    def _say(self) -> None:
        self._told = self._latest
        self._at = self._clock.monotonic()
        self._send(self._latest)
