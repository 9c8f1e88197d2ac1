"""Every cell of the published gate table (protocol tables 14), driven through the engine.

The table below says it in the wire's words: what a command sent in a state is answered.
"""

from typing import Any

import pytest

from craze.engine import gate, port
from craze.wire.codes import Refusal

NA = "not_accepting"

# Column -> answer. `allowed`: it ran, or the agent was asked to.
_NOTHING = {
    "prompt queue": NA,
    "prompt send_now": NA,
    "interject": NA,
    "interject, unable": NA,
    "cancel": NA,
    "cancel another": "stale_turn",
    "disarm": NA,
    "queue.add": NA,
    "queue.edit": NA,
    "queue.remove": NA,
    "queue.clear": NA,
    "set": NA,
    "setTitle": NA,
    "answer": "allowed",
    "answer unknown": "unknown_ask",
    "subagent.cancel": "allowed",
    "subagent.cancel, unable": "unsupported",
}
_IDLE = {
    **_NOTHING,
    "prompt queue": "starts",
    "prompt send_now": "starts",
    "interject": "not_in_turn",
    "interject, unable": "unsupported",
    "queue.add": "allowed",
    "queue.edit": "allowed",
    "queue.remove": "allowed",
    "queue.clear": "allowed",
    "set": "allowed",
    "setTitle": "allowed",
}
_WORKING = {
    **_IDLE,
    "prompt queue": "queues",
    "prompt send_now": "arms",
    "interject": "allowed",
    "cancel": "allowed",
}
_FOREIGN = {
    **_IDLE,
    "prompt queue": "queues",
    "prompt send_now": "foreign_turn",
    "cancel": "allowed",
}
EXPECTED: dict[str, dict[str, str]] = {
    "starting": _NOTHING,
    "replaying": _NOTHING,
    "idle": _IDLE,
    "error (a failed turn)": _IDLE,
    "held (a cancel under way, no turn)": {
        **_IDLE, "prompt queue": "queues", "prompt send_now": NA,
    },
    "working": _WORKING,
    "working, armed": {**_WORKING, "prompt send_now": "already_submitted", "disarm": "allowed"},
    "cancelling": _WORKING,
    "cancelling, armed": {
        **_WORKING, "prompt send_now": "already_submitted", "disarm": "allowed",
    },
    "error (start failed)": {**_NOTHING, "answer": "already_resolved"},
    # The close ends every ask in the step that it is, so what is open then is resolved at once.
    "closing": {
        **dict.fromkeys(_NOTHING, NA),
        "answer": "already_resolved",
        "answer unknown": "unknown_ask",
    },
    "idle, foreign turn": _FOREIGN,
    "working, foreign turn": _FOREIGN,
    "cancelling, foreign turn": _FOREIGN,
    "starting, foreign turn": {**_NOTHING, "cancel": "allowed"},
    "replaying, foreign turn": {**_NOTHING, "cancel": "allowed"},
    "closing, foreign turn": {
        **dict.fromkeys(_NOTHING, NA),
        "answer": "already_resolved",
        "answer unknown": "unknown_ask",
    },
}  # fmt: skip
COLUMNS = tuple(_NOTHING)


def reach(driver: Any, state: str) -> None:
    """Bring a fresh session into a state."""
    base, _, extra = state.partition(", ")
    if base == "replaying":
        driver.say({"type": "replay", "replay": {"phase": "start"}})
    elif base == "error (start failed)":
        driver.feed(port.StartFailed(port.AgentError("no such binary")))
    elif base not in ("starting",):
        driver.ready()
        driver.ok("session.queue.add", text="a row")
        row = driver.engine.rows[0]
        if base.startswith(("working", "cancelling")):
            driver.prompt()
        if extra == "armed":
            driver.prompt("now", mode="send_now")
            driver.feed(port.CancelReturned(driver.cancels()[-1]))
        if base == "cancelling":
            driver.command("session.cancel")
        if base == "error (a failed turn)":
            driver.prompt()
            driver.fail()
            driver.ok("session.queue.add", text="a row")
        elif base.startswith("held"):
            driver.ask(key="gone")
            driver.command("session.cancel")
        assert base == "error (a failed turn)" or driver.engine.rows == [row]
    if extra == "foreign turn":
        driver.foreign(True)
    if base == "closing":
        driver.feed(port.Close())


def send(driver: Any, column: str) -> Any:
    row = driver.engine.rows[0]["id"] if driver.engine.rows else "q-1"
    method, args = {
        "prompt queue": ("session.prompt", {"text": "x", "mode": "queue"}),
        "prompt send_now": ("session.prompt", {"text": "x", "mode": "send_now"}),
        "interject": ("session.prompt", {"text": "x", "mode": "interject"}),
        "cancel": ("session.cancel", {}),
        "cancel another": ("session.cancel", {"turnId": "turn-9"}),
        "disarm": ("session.disarm", {}),
        "queue.add": ("session.queue.add", {"text": "x"}),
        "queue.edit": ("session.queue.edit", {"rowId": row, "text": "x"}),
        "queue.remove": ("session.queue.remove", {"rowId": row}),
        "queue.clear": ("session.queue.clear", {}),
        "set": ("session.set", {"setting": {"kind": "mode", "value": "plan"}}),
        "setTitle": ("session.setTitle", {"title": "t"}),
        "answer": ("asks.answer", {"askId": "perm-7", "answer": {"optionId": "allow"}}),
        "answer unknown": ("asks.answer", {"askId": "perm-9", "answer": {"cancel": True}}),
        "subagent.cancel": ("session.subagent.cancel", {"agentId": "a"}),
    }[column.removesuffix(", unable")]
    return driver.command(method, **args)


def word(driver: Any, token: Any) -> str:
    """What a command met, in the table's words."""
    if not token.answers:
        return "allowed"  # the agent or the index was asked
    answer = token.answer
    if isinstance(answer, Refusal):
        return answer.reason
    for member, meant in (("turn", "starts"), ("queued", "queues"), ("armed", "arms")):
        if member in answer:
            return meant
    return "allowed"


def cell(fresh: Any, state: str, column: str, ask: bool) -> tuple[Any, str]:
    able = not column.endswith(", unable")
    driver = fresh(capabilities={"interject": able, "subagentCancel": able})
    # Raised early, but for the states that a cancel leads to: that would end it.
    late = state.startswith(("held", "cancelling", "working, armed"))
    if ask and not late:
        driver.ask(id="perm-7")
    reach(driver, state)
    if ask and late:
        driver.ask(id="perm-7")
    mark = len(driver.events)
    got = word(driver, send(driver, column))
    return (driver, mark), got


@pytest.mark.parametrize("state", EXPECTED)
@pytest.mark.parametrize("column", [c for c in COLUMNS if c != "answer"])
def test_a_cell(fresh: Any, state: str, column: str) -> None:
    (driver, mark), got = cell(fresh, state, column, ask=False)
    assert got == EXPECTED[state][column]
    if got not in ("allowed", "starts", "queues", "arms"):
        assert driver.since(mark) == []


@pytest.mark.parametrize("state", EXPECTED)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_cell_with_an_ask_pending(fresh: Any, state: str, column: str) -> None:
    _, got = cell(fresh, state, column, ask=True)
    expected = EXPECTED[state][column]
    if column == "cancel" and not state.startswith(("closing", "error (start failed)")):
        expected = "allowed"
    assert got == expected


@pytest.mark.parametrize("column", COLUMNS)
def test_a_fence_refuses_admissions_only(fresh: Any, column: str) -> None:
    driver = fresh(capabilities={"interject": True, "subagentCancel": True})
    driver.ready()
    if column == "answer" or column.startswith("cancel"):
        driver.ask(id="perm-7")
    driver.feed(port.Fence(True))
    got = word(driver, token := send(driver, column.removesuffix(", unable")))
    passes = {
        "cancel": "allowed",
        "cancel another": "stale_turn",
        "answer": "allowed",
        "answer unknown": "unknown_ask",
        "subagent.cancel": "allowed",
        "subagent.cancel, unable": "allowed",
        "interject": "closing",
    }
    assert got == passes.get(column, "closing")
    if got == "closing":
        assert token.answer.code == "unavailable"
        driver.feed(port.Fence(False))
        assert driver.command("session.queue.clear", id="1").answer is not token.answer


def test_a_fence_lowered_starts_what_it_held_back(session: Any) -> None:
    session.foreign(True)
    session.prompt("later")
    session.feed(port.Fence(True))
    session.foreign(False)
    assert session.engine.turn == ""
    mark = len(session.events)
    session.feed(port.Fence(False))
    assert session.since(mark) == [
        "queue sent q-1 0", "turn turn-1 started text=later origin=drain",
    ]  # fmt: skip


def test_the_table_is_whole() -> None:
    assert all(tuple(row) == gate.COLUMNS for row in gate.TABLE.values())
    refusing = {gate.NOT_ACCEPTING, gate.NOT_IN_TURN, gate.FOREIGN_TURN}
    words = refusing | {gate.START, gate.QUEUE, gate.ARM, gate.RUN}
    assert {word for row in gate.TABLE.values() for word in row.values()} == words
    assert set(gate.COLUMNS) >= gate.FENCED
