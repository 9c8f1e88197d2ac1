"""Every bound of reaching a machine, in seconds or bytes, each with its one home here."""

from craze.wire.limits import KIB, MIB

STDERR_TAIL = 4 * KIB  # what is kept of a command's stderr
LEFT_BEHIND = 1 * MIB  # read of a stderr at most once its program has ended

# A child: asked to end, then made to.
TERM_WAIT = 2.0
KILL_WAIT = 5.0
POLL = 0.02

# Getting to a machine.
CONNECT = 5  # one connection attempt, its banner included
LOGIN = 25.0  # the whole way to a connection that can run commands
CONFIG = 10.0  # what ssh's configuration says of a machine
CONFIG_BYTES = 256 * KIB
AGENT = 20.0  # a word from the user's agent, which may ask its user
OPEN = 10.0  # one more command on a connection that is there
CONTROL = 3.0  # a word with our own connection's ssh
SETTLE = 0.5  # between the end of a command and that of its connection, where they end together
CLOSE = 2.0  # saying goodbye to a peer that may be gone
