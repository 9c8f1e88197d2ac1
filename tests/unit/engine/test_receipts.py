"""A commandId runs once (codecs 5.9, tables 11.3)."""

from typing import Any

import pytest

from craze.engine import port
from craze.engine.engine import Engine
from craze.wire.limits import CLIENT_IDS, RETRY_COMMANDS


def add(session: Any, id: str, text: str = "x", client: str = "") -> Any:
    return session.command("session.queue.add", id=id, client=client, text=text).answer


def test_b09_a_resend_is_answered_and_not_run_again(session: Any) -> None:
    """One message, however often it is sent under its id, is one turn and one row."""
    first = session.command("session.prompt", id="1", text="hi", mode="queue")
    second = session.command("session.prompt", id="1", mode="queue", text="hi")
    assert second.answer == first.answer == {"turn": "turn-1", "text": "hi"}
    row = add(session, "2")
    assert add(session, "2") is row
    assert len(session.engine.rows) == 1
    assert len(session.sent(port.SendPrompt)) == 1


def test_a_stored_refusal_is_given_again(session: Any) -> None:
    first = session.command("session.queue.remove", id="1", rowId="q-1").answer
    add(session, "2")
    assert session.command("session.queue.remove", id="1", rowId="q-1").answer is first


def test_another_payload_under_the_same_id(session: Any) -> None:
    add(session, "1", "hello")
    refused = add(session, "1", "different")
    assert (refused.code, refused.message) == (
        "bad_request",
        "engine: bad request: command c-1/1 was already sent with a different payload",
    )
    session.command("session.prompt", id="6", text="hi", mode="queue")
    running = session.command("session.cancel", id="7")
    assert session.command("session.cancel", id="7", turnId="turn-1").answer.code == "bad_request"
    assert running.answers == []
    assert add(session, "1", "hello")["row"]["id"] == "q-1"


def test_b10_a_resend_of_a_running_command(session: Any) -> None:
    """Blocking ones wait for the one answer; the others are told to ask again."""
    session.prompt()
    cancels = [session.command("session.cancel", id="10") for _ in range(3)]
    title = session.command("session.setTitle", id="11", title="t")
    again = session.command("session.setTitle", id="11", title="t").answer
    assert (again.code, again.message) == (
        "in_progress", "engine: that command is still running",
    )  # fmt: skip
    session.feed(port.TitleWritten(session.sent(port.WriteTitle)[0].token))
    assert title.answer == session.command("session.setTitle", id="11", title="t").answer == {}
    assert len(session.cancels()) == 1
    session.feed(port.CommandExpired(cancels[1]))
    assert cancels[0].answers == [], "a resend's bound is not the command's"
    session.feed(port.CancelReturned(session.cancels()[0]))
    assert [token.answer["outcome"] for token in cancels] == ["requested"] * 3


def test_what_did_not_run_is_not_stored(session: Any) -> None:
    assert session.command("session.disarm", id="1").answer.code == "not_accepting"
    assert "row" in add(session, "1")
    session.feed(port.Fence(True))
    assert add(session, "2").code == "unavailable"
    session.feed(port.Fence(False))
    assert "row" in add(session, "2", "other words")


def test_ids_may_skip_and_come_in_any_order(session: Any) -> None:
    for id in ("5", "3", "18446744073709551615"):
        assert "row" in add(session, id)


def test_a_receipt_is_kept_ten_minutes(session: Any) -> None:
    add(session, "5")
    session.minutes(9.9)
    assert "row" in add(session, "5")
    assert not session.engine.retirable(session.client, session.clock.now())
    session.minutes(0.1)
    assert session.engine.retirable(session.client, session.clock.now())
    refused = add(session, "5")
    assert (refused.code, refused.message) == (
        "unknown_command", "engine: that command id has expired",
    )  # fmt: skip
    assert add(session, "4").code == "unknown_command", "below the mark, seen or not"
    assert "row" in add(session, "6")


def test_the_age_counts_from_the_answer(session: Any) -> None:
    session.prompt()
    token = session.command("session.cancel", id="9")
    session.minutes(60)
    assert not session.engine.retirable(session.client, session.clock.now())
    session.feed(port.CancelReturned(session.cancels()[0]))
    session.minutes(5)
    assert session.command("session.cancel", id="9").answer == token.answer


def test_only_so_many_receipts_are_kept(session: Any) -> None:
    other = session.engine.mint_client()
    add(session, "1", client=other)
    session.prompt()
    running = session.command("session.cancel", id="2")
    for number in range(RETRY_COMMANDS):
        session.command("session.queue.clear", id=str(number + 3))
    assert add(session, "1", client=other).code == "unknown_command"
    assert session.command("session.cancel", id="2").answers == [], "a running one is exempt"
    assert session.command("session.queue.clear", id="4").answer == {"removed": []}
    assert running.answers == []


def test_a_client_that_was_never_minted(session: Any) -> None:
    for client in ("c-2", "c-0", "c-01", "x", "c-"):
        assert add(session, "1", client=client).code == "bad_request"
    assert session.since(1) == []


def test_idle_clients_are_retired_past_the_cap(session: Any) -> None:
    engine = session.engine
    gone, busy = engine.mint_client(), engine.mint_client()
    engine.release_client(gone)
    engine.release_client(busy)
    session.prompt()
    session.command("session.cancel", client=busy, id="1")
    while engine.mint_client() != f"c-{CLIENT_IDS + 1}":
        pass
    assert add(session, "1", client=gone).code == "unknown_command"
    assert not engine.resume_client(gone)
    engine.mint_client()  # nobody else is idle
    assert engine.resume_client(busy)
    assert engine.resume_client(session.client)
    assert engine.retirable(gone, session.clock.now())
    session.feed(port.Close())


def test_receipts_of_a_retired_client_are_dropped_quietly(session: Any) -> None:
    engine = session.engine
    gone = engine.mint_client()
    add(session, "1", client=gone)
    engine.release_client(gone)
    while engine.mint_client() != f"c-{CLIENT_IDS + 1}":
        pass
    session.minutes(11)
    assert engine.retirable(session.client, session.clock.now())


def test_b57_a_command_that_crashes_is_answered_once_and_aborted(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks inside, nobody is left waiting and nobody is told that it did not run."""

    def broken(*args: Any) -> Any:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr("craze.engine.queue.Queue.add", broken)
    refused = add(session, "1")
    assert (refused.code, refused.reason) == ("aborted", "command_aborted")
    note = session.sent(port.JournalNote)[-1]
    assert note.fields["kind"] == "crash"
    assert "ZeroDivisionError" in note.fields["fields"]["trace"]
    monkeypatch.undo()
    assert add(session, "1") is refused
    assert not session.engine.busy
    assert isinstance(session.engine, Engine)
