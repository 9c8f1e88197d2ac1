"""What a row says of the transcript (protocol tables 5.2)."""

import pytest

from craze.events import build
from craze.transcript import facts
from tests.unit.transcript.folding import Event, Folding

TURN = build.turn_started("turn-1", "hi", "submit")


def tool(ident: str, status: str = "", **members: str) -> Event:
    call = {"id": ident, **members}
    return build.tool({**call, "status": status} if status else call)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], "Thinking"),
        ([build.text("a")], "Responding"),
        ([build.text("a"), build.thought("b")], "Thinking"),
        ([tool("t-1", "in_progress", title="Run x", name="Shell")], "Run x"),
        ([tool("t-1", "pending", name="Shell")], "Shell"),
        ([tool("t-1", title="Run x")], "Run x"),
        ([tool("t-1", "completed", title="Run x")], "Thinking"),
        ([tool("t-1", "pending", title="one"), tool("t-2", "failed", title="two")], "one"),
        ([tool("t-1", "pending", title="one"), tool("t-2", "pending", title="two")], "two"),
        ([tool("t-1", "pending", title="one"), build.text("a")], "one"),
        ([tool("t-1", "pending", title="one"), build.user("and", interjection=True)], "one"),
        ([tool("t-1", "pending", title="one"), TURN], "Thinking"),
        ([tool("t-1", "pending", title="one"), build.foreign_turn({"running": True})], "Thinking"),
        ([tool("t-1", "pending", title="one"), build.replay("end")], "Thinking"),
        ([build.text("a", "sub-1")], "Thinking"),
    ],
)
def test_what_the_turn_is_doing(events: list[Event], expected: str) -> None:
    assert facts.doing(Folding(TURN, *events).model) == expected


def test_the_last_reply_is_one_that_has_closed() -> None:
    folding = Folding(TURN, build.text("one\n"), build.text("two"))
    assert facts.last_reply(folding.model) == ""
    folding.add(build.opening("permission", {"id": "perm-1"}))
    assert facts.last_reply(folding.model) == "one\ntwo"
    folding.add(build.text("three"))
    assert facts.last_reply(folding.model) == "one\ntwo"
    folding.add(build.text("of a child", "sub-1"), build.done("end_turn"))
    assert facts.last_reply(folding.model) == "three"
