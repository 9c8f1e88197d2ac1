"""A hub's bounds as one value, so that a test can have others. Seconds, but for `connections`."""

from typing import NamedTuple

from craze.wire import limits


class Bounds(NamedTuple):
    connections: int = limits.HUB_CONNECTIONS
    hello: float = limits.HUB_HELLO_WAIT
    teardown: float = limits.HUB_TEARDOWN
    farewell: float = limits.HUB_CLOSING_WRITE  # the reset of a subscription, at the hub's end
    write: float = limits.ROSTER_WRITE
    flush: float = limits.ROSTER_FLUSH
    round: float = limits.ROSTER_ROUND
    host: float = limits.ROSTER_HOST_TIME
    wait: float = limits.ROSTER_WAIT
    fresh: float = limits.ROSTER_FRESH


BOUNDS = Bounds()
