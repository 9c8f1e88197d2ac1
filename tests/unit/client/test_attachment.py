"""The attachment: its order, its cursor, every reset, and the bound of its buffer."""

from typing import Any

import gevent
import pytest

from craze.client import Attachment, Client, ConnectionLost, Cursor, Limits, Notification, Refused
from tests.unit.client.stub import Peer, Stub

FAST = Limits(redial_first=0.001, redial_max=0.002, gate_first=0.001, gate_max=0.002)
ONE: dict[str, Any] = {"limits": FAST, "session": "one"}


def seqs(notes: Any, last: int) -> list[int]:
    """The seqs of the events up to `last`."""
    found: list[int] = []
    while not found or found[-1] != last:
        note = notes.next(5)
        assert note is not None, found
        if note.method == "event":
            found.append(note.params["seq"])
    return found


def kinds(feed: Attachment) -> list[str]:
    return [note.method for note in feed]


def test_from_a_snapshot_to_the_end(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        params = peer.attach(3, session={"sessionId": "one", "workspace": "/w"})
        assert params == {"sessionId": "one"}
        peer.events(4, 5)
        peer.synchronized(5)
        peer.note("presence", attached=2)
        peer.note("novelty", a=1)
        peer.events(6)
        peer.note("reset", reason="session_closed")
        peer.close()

    stub.script(script)
    with Client(stub.path, **ONE) as client, client.attach() as feed:
        assert feed.snapshot == {"version": 1, "seq": 3}
        assert feed.after == Cursor("i-1", 3) == feed.cursor
        assert feed.session["workspace"] == "/w"
        assert (feed.ready, feed.reset) == (True, "")
        notes = list(feed)
        assert notes == [
            Notification("event", {"subscription": "s-1", "seq": n,
                                   "event": {"type": "text", "text": "x"}}) for n in (4, 5)
        ] + [
            Notification("synchronized", {"subscription": "s-1", "seq": 5}),
            Notification("presence", {"subscription": "s-1", "attached": 2}),
            Notification("event", {"subscription": "s-1", "seq": 6,
                                   "event": {"type": "text", "text": "x"}}),
            Notification("reset", {"reason": "session_closed"}),
        ]  # fmt: skip
        assert feed.cursor == Cursor("i-1", 6)
        assert list(feed) == []
        # Nothing to reconnect to: no dial is wasted on it.
        with pytest.raises(ConnectionLost, match="has ended"):
            client.request("session.state")


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"cursor": Cursor("i-1", 3)}, {"cursor": {"incarnation": "i-1", "seq": 3}}),
        ({"when": "now"}, {"when": "now"}),
        ({"budget": {"maxItems": 4}}, {"budget": {"maxItems": 4}}),
    ],
)
def test_what_is_asked(stub: Stub, options: dict[str, Any], sent: dict[str, Any]) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        assert peer.attach() == {"sessionId": "one", **sent}
        assert peer.expect("session.detach")["params"]["subscription"] == "s-1"
        peer.close()

    stub.script(script)
    with Client(stub.path, **ONE) as client, client.attach(**options):
        pass


@pytest.mark.parametrize("seq", [2, 3, 4])
@pytest.mark.parametrize("reason", ["", "future_seq", "evicted", "a_later_reason"])
def test_b02_b03_a_cursor_is_honoured_or_refused_in_the_reply(
    stub: Stub, seq: int, reason: str
) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        if reason:
            assert peer.attach(3, reset=reason)["cursor"] == {"incarnation": "i-0", "seq": seq}
            peer.events(4)
        else:
            peer.attach()
            peer.events(*range(seq + 1, 5))
        peer.synchronized(4)
        peer.note("reset", reason="session_closed")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach(cursor=Cursor("i-0", seq))
        assert feed.reset == reason
        if reason:
            assert feed.snapshot is not None
            assert feed.after == Cursor("i-1", 3)
        else:
            assert feed.snapshot is None
            assert feed.after == Cursor("i-0", seq)
        found = [n.params["seq"] for n in feed if n.method == "event"]
        assert found == ([4] if reason else list(range(seq + 1, 5)))


@pytest.mark.parametrize(
    ("code", "reason"),
    [("not_accepting", "start_failed"), ("unknown_session", ""), ("failed", "snapshot_too_large")],
)
def test_a_refused_attach_is_raised(stub: Stub, code: str, reason: str) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.refuse(peer.expect("session.attach"), code, reason, cause="why")
        peer.reply(peer.expect("session.state"), {})
        peer.attach()

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        with pytest.raises(Refused, match="why"):
            client.attach()
        client.request("session.state")
        client.attach()  # and another may be tried


def test_a_closing_or_racing_session_is_asked_again(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        for reason in ("closing", "attach_raced", "not_ready"):
            peer.refuse(peer.expect("session.attach"), "unavailable", reason)
        peer.attach()

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        client.attach()


def test_eight_retried_refusals_are_the_bound(stub: Stub) -> None:
    count = []

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        while not peer.ended(peek=True):
            peer.refuse(peer.expect("session.attach"), "unavailable", "closing")
            count.append(1)

    stub.script(script)
    with Client(stub.path, **ONE) as client, pytest.raises(Refused, match="closing"):
        client.attach()
    assert len(count) == 9  # the first and eight more


def attached(stub: Stub, seq: int = 0, **changes: Any) -> Peer:
    peer = stub.accept()
    peer.hello()
    peer.attach(seq, **changes)
    return peer


def test_slow_consumer_goes_on_from_the_last_event_that_came(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.events(1, 2)
        peer.synchronized(2)
        peer.note("reset", reason="slow_consumer")
        assert peer.attach(sub="s-2")["cursor"] == {"incarnation": "i-1", "seq": 2}
        peer.events(3, sub="s-1")  # the old subscription's: nobody's now
        peer.events(3, 4, sub="s-2")
        peer.note("reset", "s-2", reason="session_closed")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        assert kinds(feed) == ["event", "event", "synchronized", "event", "event", "reset"]


def test_slow_consumer_during_the_start_takes_it_as_a_snapshot(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub, ready=False)
        peer.events(1)
        peer.note("reset", reason="slow_consumer")
        params = peer.attach(7, sub="s-2", ready=True)
        assert params == {"sessionId": "one"}  # no cursor, when: ready
        peer.note("reset", "s-2", reason="session_closed")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach(when="now")
        assert not feed.ready
        event, reset, end = list(feed)
        assert event.method == "event"
        assert reset.params["snapshot"] == {"version": 1, "seq": 7}
        assert reset.params["reason"] == "slow_consumer"
        assert end.params == {"reason": "session_closed"}
        assert feed.cursor == Cursor("i-1", 7)
        assert feed.ready


def test_slow_consumer_after_readiness_keeps_its_cursor(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub, ready=False)
        peer.events(1)
        peer.note("ready", session={"sessionId": "one", "n": 2}, startFailed=False)
        peer.note("reset", reason="slow_consumer")
        params = peer.attach(sub="s-2")
        assert params["cursor"]["seq"] == 1
        assert params["when"] == "now"
        peer.note("reset", "s-2", reason="session_closed")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach(when="now")
        assert kinds(feed) == ["event", "ready", "reset"]


@pytest.mark.parametrize("reason", ["omitted", "replay_failed", "something_later"])
def test_a_void_cursor_is_not_used_again(stub: Stub, reason: str) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.events(1, 2)
        peer.note("reset", reason=reason)
        assert peer.attach(9, sub="s-2") == {"sessionId": "one"}
        peer.events(10, sub="s-2")
        peer.note("reset", "s-2", reason="session_closed")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        notes = list(feed)
        assert [n.method for n in notes] == ["event", "event", "reset", "event", "reset"]
        assert notes[2].params["reason"] == reason
        assert notes[2].params["after"] == {"incarnation": "i-1", "seq": 9}
        assert feed.cursor == Cursor("i-1", 10)


def test_a_replaced_session_is_taken_up_on_a_new_connection(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.events(1)
        peer.note("reset", reason="session_replaced")
        assert peer.ended()
        again = stub.accept()
        again.hello(token="1e" * 16, client="c-1")
        params = again.attach(2, incarnation="i-2", reset="foreign_incarnation")
        assert "cursor" not in params
        again.events(3)
        again.note("reset", reason="session_closed")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        assert kinds(feed) == ["event", "reset", "event", "reset"]
        assert feed.cursor == Cursor("i-2", 3)


def test_an_omitted_closing_record_is_the_end(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.note("reset", reason="omitted")
        peer.refuse(peer.expect("session.attach"), "not_accepting")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        assert [n.params for n in client.attach()] == [{"reason": "session_closed"}]


def test_an_omitted_closing_record_and_a_host_that_is_gone_is_the_end(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.note("reset", reason="omitted")
        peer.expect("session.attach")
        stub.stop()

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        assert [n.params for n in client.attach()] == [{"reason": "session_closed"}]


@pytest.mark.parametrize("seq", [1, 2, 4, 0, -1, True, "3", None])
def test_an_event_out_of_order_costs_the_connection(stub: Stub, seq: Any) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.events(1, 2)
        peer.note("event", seq=seq, event={"type": "text"})
        assert peer.ended()
        again = stub.accept()
        again.hello()
        assert again.attach()["cursor"]["seq"] == 2
        again.events(3)
        again.note("reset", reason="session_closed")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        found = [n.params["seq"] for n in client.attach() if n.method == "event"]
    assert found == [1, 2, 3]


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"subscription": "s-1"},
        {"subscription": "s-1", "after": {"incarnation": "i-1", "seq": 9}},  # and no snapshot
        {"subscription": "", "after": {"incarnation": "i-1", "seq": 9}, "snapshot": {}},
        {"subscription": "s-1", "after": {"incarnation": "i-1", "seq": "9"}, "snapshot": {}},
    ],
)
def test_an_attach_reply_without_a_place_costs_the_connection(
    stub: Stub, reply: dict[str, Any]
) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.reply(peer.expect("session.attach"), reply)
        assert peer.ended()
        attached(stub, 4)

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        assert client.attach().cursor == Cursor("i-1", 4)


def test_the_cursor_is_what_was_handed_out_not_what_was_heard(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.events(1, 2, 3)
        peer.synchronized(9)  # heard of, not received
        peer.reply(peer.expect("session.sync"), {"seq": 3})
        peer.close()
        again = stub.accept()
        again.hello()
        assert again.attach()["cursor"] == {"incarnation": "i-1", "seq": 3}
        again.events(4)

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        client.request("session.sync")  # by now all three are here
        assert feed.cursor == Cursor("i-1", 0)
        next(feed)
        assert feed.cursor == Cursor("i-1", 1)
        assert seqs(feed, 3) == [2, 3]
        assert feed.next(5) is not None
        assert feed.cursor == Cursor("i-1", 3)
        assert seqs(feed, 4) == [4]


def test_b76_a_caller_that_does_not_read_holds_a_bounded_amount(stub: Stub) -> None:
    """Past the buffer's bound the stream is cut off, and goes on once the caller has caught up."""

    def script() -> None:
        peer = attached(stub)
        peer.events(*range(1, 40), text="y" * 400)
        # Replies still come through: the stream is cut off, not the connection.
        peer.reply(peer.expect("session.state"), {})
        detach = peer.expect("session.detach")
        peer.events(40)
        peer.reply(detach, {})
        cursor = peer.attach(sub="s-2")["cursor"]
        peer.events(*range(cursor["seq"] + 1, 41), sub="s-2")
        peer.note("reset", "s-2", reason="session_closed")
        assert 1 < cursor["seq"] < 39

    stub.script(script)
    limits = FAST._replace(buffer=4000)
    with Client(stub.path, session="one", limits=limits) as client:
        feed = client.attach()
        client.request("session.state")
        assert "lagging" in repr(feed)
        assert seqs(feed, 40) == list(range(1, 41))


def test_one_event_over_the_bound_is_taken_alone(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.events(1, text="y" * 9000)
        peer.note("reset", reason="session_closed")

    stub.script(script)
    with Client(stub.path, session="one", limits=FAST._replace(buffer=4000)) as client:
        assert kinds(client.attach()) == ["event", "reset"]


def test_a_session_that_ends_ahead_of_its_reader_says_what_is_missing(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.events(*range(1, 40), text="y" * 400)
        peer.note("reset", reason="session_closed")
        peer.reply(peer.expect("session.state"), {})
        peer.close()

    stub.script(script)
    with Client(stub.path, session="one", limits=FAST._replace(buffer=4000)) as client:
        feed = client.attach()
        client.request("session.state")
        found: list[int] = []
        with pytest.raises(ConnectionLost, match="last events"):
            found.extend(n.params["seq"] for n in feed)


def test_detach_and_attach_again_on_one_connection(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.events(1)
        request = peer.expect("session.detach")
        assert request["params"] == {"sessionId": "one", "subscription": "s-1"}
        peer.events(2)
        peer.reply(request, {})
        assert peer.attach(sub="s-2")["cursor"]["seq"] == 1

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        first = client.attach()
        with pytest.raises(ValueError, match="one subscription"):
            client.attach()
        assert seqs(first, 1) == [1]
        first.close()
        assert list(first) == []
        assert first.cursor == Cursor("i-1", 1)
        client.attach(cursor=first.cursor)


def test_next_waits_no_longer_than_it_may(stub: Stub) -> None:
    stub.script(lambda: attached(stub))
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        assert feed.next(0.01) is None
        outer = gevent.Timeout(0.01)
        with pytest.raises(gevent.Timeout), outer:
            next(feed)


def test_b57_an_attach_that_is_cut_off_leaves_no_subscription(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.expect("session.attach")
        assert peer.ended()  # the only way to take an attach back
        attached(stub, 5)

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        with gevent.Timeout(0.02, False):
            client.attach()
            pytest.fail("it attached")
        assert client.attach().cursor == Cursor("i-1", 5)


def test_b57_a_detach_that_is_cut_off_takes_the_connection_along(stub: Stub) -> None:
    def script() -> None:
        peer = attached(stub)
        peer.expect("session.detach")
        assert peer.ended()
        attached(stub, 5)

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        with gevent.Timeout(0.02, False):
            feed.close()
        assert list(feed) == []
        assert client.attach().cursor == Cursor("i-1", 5)


def test_an_aside_in_pieces(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        request = peer.expect("session.aside")
        assert request["params"] == {
            "sessionId": "one", "asideId": "a-1", "question": "q",
            "prior": [{"question": "p", "answer": "a"}],
        }  # fmt: skip
        for seq, text in enumerate(("You ", "asked"), 1):
            peer.write({"method": "aside", "params": {"asideId": "a-1", "seq": seq, "text": text}})
            peer.write({"method": "aside", "params": {"asideId": "a-7", "seq": seq, "text": "no"}})
        peer.reply(request, {"text": "You asked", "model": "m"})
        # After its answer a piece is nobody's.
        peer.write({"method": "aside", "params": {"asideId": "a-1", "seq": 3, "text": "late"}})
        second = peer.expect("session.aside")
        assert second["params"]["asideId"] == "a-2"
        cancel = peer.expect("session.aside.cancel")
        assert cancel["params"] == {"sessionId": "one", "asideId": "a-2"}
        peer.refuse(second, "aborted", "context")
        peer.reply(cancel, {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        aside = client.aside("q", prior=[{"question": "p", "answer": "a"}])
        assert list(aside) == ["You ", "asked"]
        assert aside.result() == {"text": "You asked", "model": "m"}
        other = client.aside("r")
        other.cancel()
        assert list(other) == []
        with pytest.raises(Refused, match="context"):
            other.result()


def test_an_aside_is_never_sent_twice(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.expect("session.aside")
        peer.close()
        again = stub.accept()
        again.hello()
        again.reply(again.expect("session.state"), {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        aside = client.aside("q")
        assert list(aside) == []
        with pytest.raises(ConnectionLost):
            aside.result()
        client.request("session.state")


def test_an_asides_pieces_are_bounded(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        request = peer.expect("session.aside")
        for seq in range(10):
            text = "z" * 100
            peer.write({"method": "aside", "params": {"asideId": "a-1", "seq": seq, "text": text}})
        peer.reply(request, {"text": "z" * 1000})

    stub.script(script)
    limits = FAST._replace(aside_pending=350)
    with Client(stub.path, session="one", limits=limits) as client:
        aside = client.aside("q")
        assert len(aside.result()["text"]) == 1000
        assert len(list(aside)) == 3
