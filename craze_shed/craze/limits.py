"""Every bound of talking to craze, in seconds unless said otherwise."""

from typing import NamedTuple

from craze.wire.limits import MIB

# A connection.
DIAL = 30.0  # until there is a stream
HELLO = 30.0
EXIT = 5.0  # for exit status and stderr of a command that ended before its hello
PROBE_OUTPUT = 1 * MIB  # read of a probe's output at most
ASK = 30.0  # for any answer but those of the next two
CREATE = 120.0
REOPEN = 200.0
NOTIFICATIONS = 1024  # queued; one more ends the connection
SPARE_PAUSE = 1.0  # after the spare one was taken: the machine works for whoever took it

# A lane.
CONNECTED = 10.0  # for a connection, before a verb gives up unsent
SETTINGS = 30.0  # for the settings that a change goes by
CONFIRMATIONS = 64  # kept of what no event will say
BURST = 128  # frames, after which whoever reads them is given a turn

# A machine.
GRACE = 10.0  # for the last words of a lane whose row has left
CREATED = 600.0  # a created session is kept unlisted as long as craze repeats the create's answer


class Bounds(NamedTuple):
    """How long a watcher tries (lane contract 4.7)."""

    backoff_first: float = 0.2
    backoff_most: float = 30.0
    dial: float = DIAL
    outage: float = 600.0  # without a `synchronized`
    reattaches: int = 8  # in one episode, after the subscription's first
    refusals: int = 5  # of session.connect, in a row
    silence: float = 60.0  # before the seed is settled
    flush: float = 2.0  # without growth of the open run
    gate: float = 0.2  # before an attach that found no room is tried again


class Pace(NamedTuple):
    """How often a lost roster is tried again."""

    first: float = 0.5
    most: float = 30.0
    rarely: float = 30.0  # craze is not installed, too old, or runs no hub


class Waits(NamedTuple):
    """Until a machine is looked at again."""

    first: float = 1.0  # after a roster that was live, and in an outage at first
    most: float = 30.0
    rarely: float = 30.0  # craze is not installed, too old, or runs no hub
