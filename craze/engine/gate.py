"""The gate table: what each command meets in each state the engine can be in (protocol tables 14).

It is data; the engine looks a cell up and acts on the word it finds. The tests drive every cell
through the engine. Two states of the published table have no row here, as nothing brings this
engine into them: `waiting` and `stopped` are a one-shot client's own. `closed` has none either: the
whole close is one step, so a command meets the session before it or after it. `held` is a row of
our own: nothing runs, but the agent has not yet said what became of a cancel.
"""

from typing import Any, Final

# Words that refuse, each by the reason of its name.
NOT_ACCEPTING: Final = "not_accepting"
NOT_IN_TURN: Final = "not_in_turn"
FOREIGN_TURN: Final = "foreign_turn"
# Words that admit.
START: Final = "start"
QUEUE: Final = "queue"
ARM: Final = "arm"
RUN: Final = "run"

COLUMNS: Final = (
    "prompt queue",
    "prompt send_now",
    "prompt interject",
    "session.cancel",
    "session.disarm",
    "session.queue",
    "session.set",
    "session.setTitle",
    "asks.answer",
    "session.subagent.cancel",
)

_NONE = (NOT_ACCEPTING,) * 3 + (RUN,) + (NOT_ACCEPTING,) * 4 + (RUN, RUN)
_REST = (RUN,) * 7  # cancel to subagent.cancel: what else they need, the commands ask themselves

TABLE: Final[dict[str, dict[str, str]]] = {
    state: dict(zip(COLUMNS, row, strict=True))
    for state, row in {
        "starting": _NONE,
        "replaying": _NONE,
        "start failed": _NONE,
        "idle": (START, START, NOT_IN_TURN, *_REST),
        "held": (QUEUE, NOT_ACCEPTING, NOT_IN_TURN, *_REST),
        "working": (QUEUE, ARM, RUN, *_REST),
        "cancelling": (QUEUE, ARM, RUN, *_REST),
        "foreign": (QUEUE, FOREIGN_TURN, NOT_IN_TURN, *_REST),
        "closing": (NOT_ACCEPTING,) * 8 + (RUN, NOT_ACCEPTING),
    }.items()
}

# What a host that is deciding whether its session ends holds back: all but what only ends things.
FENCED: Final = frozenset(COLUMNS) - {
    "session.cancel", "asks.answer", "session.subagent.cancel",
}  # fmt: skip


def column(method: str, args: dict[str, Any]) -> str:
    """The table's column of a command."""
    if method == "session.prompt":
        return f"prompt {args['mode']}"
    return "session.queue" if method.startswith("session.queue.") else method
