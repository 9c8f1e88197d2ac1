"""The queue of prompts (codecs 5.3)."""

from typing import Any

from craze.wire.limits import QUEUE_ROWS, QUEUE_TEXT


def test_adding_never_starts_a_turn(session: Any) -> None:
    answer = session.ok("session.queue.add", text="hello")
    assert answer == {"row": {"id": "q-1", "text": "hello", "queuedAt": "2026-01-01T00:00:00Z"}}
    assert session.since(1) == ["queue queued q-1 0 <c-1/1>"]
    assert session.engine.activity == "idle"


def test_a_row_keeps_its_place_and_id_over_an_edit(session: Any) -> None:
    for text in ("a", "b"):
        session.ok("session.queue.add", text=text)
    before = session.engine.rows[1]
    assert session.ok("session.queue.edit", rowId="q-2", text="c", expectedVersion=0) == {}
    assert session.ok("session.queue.edit", rowId="q-2", text="d") == {}
    assert session.engine.rows[1] == {**before, "text": "d", "version": 2}
    assert before["text"] == "b", "an event's row is never changed"
    assert session.since(3) == [
        "queue edited q-2 1 <c-1/3>", "queue edited q-2 1 <c-1/4>",
    ]  # fmt: skip
    refused = session.refused("session.queue.edit", rowId="q-2", text="e", expectedVersion=1)
    assert (refused.code, refused.message) == (
        "stale_version", "engine: the queued message changed: q-2 is at version 2, not 1",
    )  # fmt: skip


def test_removing_and_clearing(session: Any) -> None:
    rows = [session.ok("session.queue.add", text=text)["row"] for text in "abc"]
    assert session.ok("session.queue.remove", rowId="q-2") == {"row": rows[1]}
    assert session.ok("session.queue.clear") == {"removed": [rows[0], rows[2]]}
    assert session.ok("session.queue.clear") == {"removed": []}
    assert session.since(4) == [
        "queue removed q-2 1 <c-1/4>", "queue removed q-1 0 <c-1/5>", "queue removed q-3 0 <c-1/5>",
    ]  # fmt: skip
    for method in ("session.queue.remove", "session.queue.edit"):
        assert session.refused(method, rowId="q-2", text="").reason == "unknown_row"
    assert session.ok("session.queue.add", text="d")["row"]["id"] == "q-4"


def test_the_bounds(session: Any) -> None:
    whole = "é" * (QUEUE_TEXT // 2)
    for _ in range(QUEUE_ROWS):
        session.ok("session.queue.add", text=whole)
    refused = session.refused("session.queue.add", text="x")
    assert (refused.code, refused.message) == ("queue_full", "agent: queue is full")
    refused = session.refused("session.queue.edit", rowId="q-1", text=whole + "x")
    assert (refused.code, refused.message) == ("text_too_long", "agent: message too long")
    session.ok("session.queue.remove", rowId="q-1")
    assert session.refused("session.queue.add", text=whole + "x").reason == "text_too_long"


def test_a_restored_row_passes_the_cap(session: Any) -> None:
    session.prompt("one")
    session.prompt("restored")
    session.end()
    for _ in range(QUEUE_ROWS):
        session.ok("session.queue.add", text="x")
    session.fail("foreign_turn")
    assert len(session.engine.rows) == QUEUE_ROWS + 1
    assert session.engine.rows[0]["text"] == "restored"
