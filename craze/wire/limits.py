"""Every bound of protocol 1 that a host, a bridge or a client holds, each with its one home here.

Sizes are bytes and times seconds unless the name says otherwise. A test that must not wait or
allocate for real injects other values where a class takes them as arguments.
"""

KIB = 1024
MIB = 1024 * KIB

# Lines.
INBOUND_LINE = 4 * MIB  # client to endpoint, without the newline
OUTBOUND_LINE = 16 * MIB  # endpoint to client; also what an agent may write in one line
RECORD = 8 * MIB  # one event's body; a larger one becomes an omitted record
OMITTED_ERROR = 1 * KIB
SNAPSHOT_MAX = 8 * MIB
SNAPSHOT_DEFAULT = 4 * MIB
ITEM_CAP = 256 * KIB  # each capped string of a snapshot item and of an ask's body
CHUNK = 64 * KIB  # one read, one write, one piece of a bridge's pump

# A host's connections and commands.
REQUESTS_PER_CONNECTION = 16
COMMANDS_PER_HOST = 64
WRITER_QUEUE = 32 * MIB
RESET_RESERVE = 1 * KIB
WRITE_STALL = 60.0
COMMAND_TIMEOUT = 30.0  # interject, cancel, set
ACCEPT_BACKOFF_FIRST, ACCEPT_BACKOFF_MAX = 0.005, 1.0
RETRY_COMMANDS = 1024
RETRY_AGE_MS = 600_000
CLIENT_IDS = 4096
NATIVE_DIR_CHARS = 4096
PRESENCE_INTERVAL = 0.5

# Event log, attach, engine.
SUBSCRIPTION_ITEMS, SUBSCRIPTION_ITEMS_MAX = 1024, 4096
SUBSCRIPTION_BYTES, SUBSCRIPTION_BYTES_MAX = 8 * MIB, 32 * MIB
RING_EVENTS = 4096
RING_BYTES = 8 * MIB
JOURNAL_CATCH_UP = 2.0
ATTACH_READY_WAIT = 600.0
QUEUE_ROWS = 32
QUEUE_TEXT = 32 * KIB
SEND_NOW_CANCEL = 2.0
ASKS_KEPT = 256
TURNS_KEPT = 64
MAIN_ENTRIES, MAIN_BYTES = 5000, 8 * MIB
CHILD_ENTRIES, CHILD_BYTES = 1000, 1 * MIB
STREAM_TEXT = 64 * KIB
FINISHED_AGENTS = 32
OUTCOME_NOTE = 4096
ROW_TEXT_CELLS = 200
TITLE_RUNES = 120
RESTORE_RECHECK = 0.010

# The journal's writer.
JOURNAL_QUEUE_ENTRIES, JOURNAL_QUEUE_BYTES = 4096, 16 * MIB
JOURNAL_FLUSH_SECONDS, JOURNAL_FLUSH_BYTES, JOURNAL_FLUSH_LINES = 0.250, 1 * MIB, 512
JOURNAL_GAPS = 64
JOURNAL_CLOSE_WAIT = 0.5

# Side questions and slash rows.
ASIDE_NOTICE = 4 * KIB
ASIDE_PENDING = 1 * MIB
ASIDE_FLUSH = 0.050
ASIDES_IN_FLIGHT = 2
ASIDE_TIME = 600.0
ASIDE_CANCEL_WAIT = 5.0
ASIDE_QUESTION = 32 * KIB
ASIDE_ANSWER = 64 * KIB
ASIDE_PRIOR = 20
SLASH_ROWS = 512

# Clients.
REATTACHES_PER_EPISODE = 8
REDIALS = 3
REDIAL_WINDOW = 10.0
REDIAL_BACKOFF_FIRST, REDIAL_BACKOFF_MAX = 0.1, 2.0
HANDSHAKE_TIMEOUT = 30.0
CLIENT_STREAM_BUFFER = 16 * MIB
GATE_RETRY_FIRST, GATE_RETRY_MAX, GATE_RETRY_DEADLINE = 0.010, 1.0, 15.0

# Sockets.
SOCKET_PATH = 100
