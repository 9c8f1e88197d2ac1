"""Every bound on an agent, each with its one home: sizes in bytes, times in seconds.

What protocol 1 itself bounds is in `craze.wire.limits`. A class takes the ones that a test must not
wait for as arguments.
"""

from craze.wire.limits import KIB, MIB, REOPEN_LOAD

# The process.
STDERR_TAIL = 2048
OUTBOX = 32 * MIB  # written to an agent and not yet read by it; past this it is taken for dead
EOF_WAIT = 0.5  # for the agent to end once its stdin is closed
TERM_WAIT = 2.0
KILL_WAIT = 5.0  # for the kernel to hand over a killed process
GROUP_WAIT = 0.5  # for the rest of a killed group to be gone
GROUP_POLL = 0.010
SWEEPS = 20  # for what an agent left outside its group, until one finds nothing
DRAIN_WAIT = 0.5  # for the last output of an agent that has exited
CLOSED_WAIT = 2.0  # for an agent that closed its stdout to exit too
POLL = 0.050  # where there is no pidfd

# The protocol.
INITIALIZE = 150.0  # a first start may download the agent; the hub's own bound is shorter
NEW_SESSION = 90.0
LOAD_SESSION = REOPEN_LOAD
SETTING = 30.0
INTERJECT = 30.0
CANCEL_WRITE = 2.0
CLOSE_WRITE = 0.5

# The end of a replay, which nothing marks.
REPLAY_BEGINS = 1.0  # for an agent that answers a load before it replays anything
REPLAY_QUIET = 0.25  # with nothing more of it: it is over
REPLAY_LATE = 15.0  # it is taken for over, whatever comes
REPLAY_COMPARED = 50_000  # updates; what comes after them is not compared
REPLAY_HELD = 16 * MIB  # of a repetition; a larger one is not left out

# What is kept of a session.
TOOLS_KEPT = 256
CHILDREN_ROUTED = 64
ROWS_KEPT = 256
IDS_KEPT = 64  # finished prompts, echoed interjections
EARLY_UPDATES = 256  # before the session has an id

# A tool call (codecs 1.4).
RAW_INPUT = 512
CONTENT_TEXT = 2048
LOCATIONS = 8
OUTPUT_TEXT = 8 * KIB
OUTPUT_HEAD = 512
DIFFS = 8
DIFF_TEXT = 64 * KIB
DIFF_CELLS = 64 * 1024 * 1024  # lines times lines that are worth counting a diff over
TASK_PROMPT = 4096

# A sub-agent's row (codecs 6.1).
ROW_DESCRIPTION = 256
ROW_TYPE = 64
ROW_MODEL = 128
ROW_ERROR = 512
ROW_PROMPT = 4096
ROW_OUTPUT = 4096
ROW_TOOLS_USED = 8

# The failure text of a start.
TAIL_TEXT = 512
