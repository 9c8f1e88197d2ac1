"""Losses: who we are afterwards, what is sent again, and when a client gives up."""

import time
from collections.abc import Callable
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze.client import (
    Client,
    ConnectionLost,
    Cursor,
    Identity,
    Limits,
    OutcomeUnknown,
    Refused,
    splice,
)
from craze.client.bounds import Episode
from craze.clock import ManualClock
from tests.unit.client.stub import HOST, TOKEN, Peer, Stub, hello_result

FAST = Limits(redial_first=0.001, redial_max=0.002, gate_first=0.001, gate_max=0.002)
ONE: dict[str, Any] = {"limits": FAST, "session": "one"}
US = {"clientId": "c-1", "token": TOKEN}


def hangup(peer: Peer) -> None:
    peer.close()


def cut(peer: Peer) -> None:
    peer.raw(b'{"jsonrpc":"2.0","id":"')
    peer.close()


def garbage(peer: Peer) -> None:
    peer.raw(b"\x00\n")


LOSSES = [hangup, cut, Peer.reset, garbage]


@pytest.mark.parametrize("loss", LOSSES)
def test_b01_b09_a_command_in_flight_runs_once(stub: Stub, loss: Callable[[Peer], None]) -> None:
    """The host takes the client back: the same command under the same id, and its answer."""

    def script() -> None:
        peer = stub.accept()
        assert "resume" not in peer.hello()
        request = peer.expect("session.prompt")
        loss(peer)
        again = stub.accept()
        assert again.hello()["resume"] == US
        resent = again.expect("session.prompt")
        assert resent["params"] == request["params"]
        again.reply(resent, {"turn": "turn-1", "text": "hi"})
        following = again.expect("session.disarm")
        assert following["params"]["commandId"] == "2"
        again.reply(following, {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        assert client.command("session.prompt", text="hi", mode="queue")["turn"] == "turn-1"
        client.command("session.disarm")


STRANGERS = {
    "not resumed": lambda p: p.reply(p.expect("hello"), hello_result(False, client="c-2")),
    "no word of it": lambda p: p.reply(
        p.expect("hello"), {k: v for k, v in hello_result().items() if k != "resumed"}
    ),
    "another host": lambda p: p.reply(p.expect("hello"), hello_result(True, host="b" * 12)),
    "another client id": lambda p: p.reply(p.expect("hello"), hello_result(True, client="c-9")),
    "another token": lambda p: p.reply(p.expect("hello"), hello_result(True, token="3" * 32)),
    "a new engine's c-1": lambda p: p.reply(p.expect("hello"), hello_result(False)),
}


@pytest.mark.parametrize("answer", STRANGERS.values(), ids=STRANGERS.keys())
def test_b09_b10_a_command_is_not_sent_to_a_host_that_forgot_us(
    stub: Stub, answer: Callable[[Peer], None]
) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.expect("session.prompt")
        peer.close()
        again = stub.accept()
        answer(again)
        # What comes next is a new intent, under a new client's first id.
        request = again.expect("session.disarm")
        assert request["params"]["commandId"] == "1"
        again.reply(request, {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        with pytest.raises(OutcomeUnknown) as caught:
            client.command("session.prompt", text="hi", mode="queue")
        assert caught.value.reason == "resume_lost"
        client.command("session.disarm")


def test_a_token_the_host_refuses_makes_us_somebody_new(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.expect("session.prompt")
        peer.close()
        again = stub.accept()
        again.refuse(again.expect("hello"), "bad_request", "bad_token")
        request = again.expect("hello")
        assert "resume" not in request["params"]
        again.reply(request, hello_result(client="c-2", token="2" * 32))

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        with pytest.raises(OutcomeUnknown, match="resume_lost"):
            client.command("session.prompt", text="hi", mode="queue")
        assert client.identity == Identity(HOST, "c-2", "2" * 32, 0)


def test_commands_are_sent_again_in_their_order(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        for _ in range(5):
            peer.expect("session.queue.add")
        peer.close()
        again = stub.accept()
        again.hello()
        requests = [again.expect("session.queue.add") for _ in range(5)]
        assert [r["params"]["commandId"] for r in requests] == list("12345")
        for request in requests:
            again.reply(request, {"n": request["params"]["text"]})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        answers: dict[str, str] = {}

        def add(text: str) -> None:
            answers[text] = client.command("session.queue.add", text=text)["n"]

        gevent.joinall([greenlets.spawn("add", add, text) for text in "abcde"])
    assert answers == {text: text for text in "abcde"}


def test_a_resend_that_still_runs_is_asked_again_until_it_answers(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.expect("session.prompt")
        peer.close()
        again = stub.accept()
        again.hello()
        for _ in range(3):
            request = again.expect("session.prompt")
            assert request["params"]["commandId"] == "1"
            again.refuse(request, "in_progress")
        again.reply(again.expect("session.prompt"), {"turn": "turn-1"})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        client.command("session.prompt", text="hi", mode="queue")


def test_a_gate_retry_does_not_cross_to_another_identity(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.refuse(peer.expect("session.prompt"), "in_progress")
        peer.close()
        again = stub.accept()
        again.reply(again.expect("hello"), hello_result(False, client="c-2"))
        again.reply(again.expect("session.state"), {})

    stub.script(script)
    limits = FAST._replace(gate_first=0.05, gate_max=0.05)
    with Client(stub.path, session="one", limits=limits) as client:
        with pytest.raises(OutcomeUnknown, match="resume_lost"):
            client.command("session.prompt", text="hi", mode="queue")
        client.request("session.state")


def test_what_was_never_sent_is_sent_to_whoever_answers(stub: Stub) -> None:
    """A call made while there is no connection waits for one; it is under no id before that."""
    lost = gevent.event.Event()

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.close()
        lost.set()
        again = stub.accept()
        request = again.expect("hello")
        gevent.sleep(0.03)
        again.reply(request, hello_result(False, client="c-2"))
        prompt = again.expect("session.prompt")
        assert prompt["params"]["commandId"] == "1"
        again.reply(prompt, {"turn": "turn-1"})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        lost.wait()
        gevent.sleep(0.01)
        assert client.command("session.prompt", text="hi", mode="queue") == {"turn": "turn-1"}


def test_b05_b06_a_call_given_up_while_there_is_no_connection_never_leaves(stub: Stub) -> None:
    lost = gevent.event.Event()

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.close()
        lost.set()
        again = stub.accept()
        request = again.expect("hello")
        gevent.sleep(0.05)
        again.reply(request, hello_result(True))
        # Not the prompt: the next call is the first thing said.
        again.reply(again.expect("session.state"), {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        lost.wait()
        gevent.sleep(0.01)
        with pytest.raises(ConnectionLost, match="never sent"):
            client.command("session.prompt", text="hi", mode="queue", timeout=0.01)
        client.request("session.state")


def test_reads_are_repeated_other_requests_are_not(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        seen = {peer.read()["method"] for _ in range(2)}
        assert seen == {"session.state", "session.reopen"}
        peer.close()
        again = stub.accept()
        again.reply(again.expect("hello"), hello_result(False, client="c-2"))
        again.reply(again.expect("session.state"), {"a": 1})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        failures: list[BaseException] = []
        other = greenlets.spawn(
            "reopen", client.request, "session.reopen", on_error=failures.append
        )
        assert client.request("session.state") == {"a": 1}
        other.join()
        assert [type(f) for f in failures] == [ConnectionLost]


@pytest.mark.parametrize("loss", LOSSES)
def test_b01_the_stream_goes_on_where_it_stood(stub: Stub, loss: Callable[[Peer], None]) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.attach()
        peer.events(1, 2)
        peer.synchronized(0)
        peer.reply(peer.expect("session.sync"), {"seq": 2})
        command = peer.expect("session.prompt")
        loss(peer)
        again = stub.accept()
        again.hello()
        # The stream before the command, so that what it causes is seen before its answer.
        assert again.attach()["cursor"] == {"incarnation": "i-1", "seq": 2}
        request = again.expect("session.prompt")
        again.events(*range(3, 53))
        again.synchronized(52)
        again.reply(request, {"turn": request["params"]["commandId"]})
        again.note("reset", reason="session_closed")
        del command

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        client.request("session.sync")
        client.command("session.prompt", text="hi", mode="queue")
        notes = list(feed)
        assert [n.params["seq"] for n in notes if n.method == "event"] == list(range(1, 53))
        assert [n.method for n in notes if n.method != "event"] == [
            "synchronized", "synchronized", "reset",
        ]  # fmt: skip


def test_b04_a_host_that_started_anew_is_a_new_beginning(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.attach(5)
        peer.events(6)
        peer.close()
        again = stub.accept()
        again.reply(again.expect("hello"), hello_result(False, client="c-1", token="4" * 32))
        params = again.attach(1, incarnation="i-2", reset="foreign_incarnation")
        assert params["cursor"] == {"incarnation": "i-1", "seq": 6}
        again.events(2)
        again.note("reset", reason="session_closed")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        notes = list(feed)
        assert [n.method for n in notes] == ["event", "reset", "event", "reset"]
        assert notes[1].params["reason"] == "foreign_incarnation"
        assert notes[1].params["snapshot"] == {"version": 1, "seq": 1}
        assert feed.cursor == Cursor("i-2", 2)


def test_another_process_takes_the_client_and_its_cursor_over(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.reply(peer.expect("session.disarm"), {})
        peer.attach(5)
        peer.events(6)
        peer.expect("session.detach")
        peer.close()
        other = stub.accept()
        assert other.hello()["resume"] == US
        assert other.attach()["cursor"] == {"incarnation": "i-1", "seq": 6}
        request = other.expect("session.disarm")
        assert request["params"]["commandId"] == "2"
        other.reply(request, {})

    stub.script(script)
    with Client(stub.path, **ONE) as first:
        first.command("session.disarm")
        with first.attach() as feed:
            next(feed)
        identity, cursor = first.identity, feed.cursor
    with Client(stub.path, resume=identity, **ONE) as second:
        assert second.hello["resumed"] is True
        second.attach(cursor=cursor)
        second.command("session.disarm")


# Bounds.


def test_three_dials_and_no_more(stub: Stub) -> None:
    dials: list[float] = []

    def dial() -> Any:
        from craze.client import dial as real

        dials.append(time.monotonic())
        if len(dials) > 1:
            raise OSError("nobody\x1b there")
        return real(stub.path)

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.attach(1)
        peer.expect("session.cancel")
        peer.close()

    stub.script(script)
    limits = Limits(redial_first=0.02, redial_max=0.03)
    with Client(dial, session="one", limits=limits) as client:
        feed = client.attach()
        with pytest.raises(OutcomeUnknown) as caught:
            client.command("session.cancel")
        assert caught.value.reason == "disconnected"
        assert "after 3 dials: nobody\\x1b there" in str(caught.value)
        with pytest.raises(ConnectionLost, match="3 dials"):
            next(feed)
        with pytest.raises(ConnectionLost, match="3 dials"):
            client.request("session.state")
        assert "over" in repr(client)
    assert len(dials) == 4
    # The first at once, then 20 ms, then 30 where doubling says 40.
    assert dials[2] - dials[1] >= 0.02
    assert dials[3] - dials[2] >= 0.03


def test_the_window_ends_an_episode_before_its_dials_do(stub: Stub) -> None:
    clock = ManualClock(0)
    dials = []

    def dial() -> Any:
        from craze.client import dial as real

        dials.append(1)
        if len(dials) > 1:
            clock.advance(6_000_000_000)
            raise OSError("slow")
        return real(stub.path)

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.close()

    stub.script(script)
    with (
        Client(dial, session="one", limits=FAST, clock=clock) as client,
        pytest.raises(ConnectionLost, match="after 2 dials: slow"),
    ):
        client.request("session.models.refresh")


def test_the_clock_stands_still_while_a_ready_attach_waits(stub: Stub) -> None:
    """A load that takes longer than the whole window, and a loss in the middle of it."""
    clock = ManualClock(0)

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.attach(5)
        peer.close()
        slow = stub.accept()
        slow.hello()
        slow.expect("session.attach")
        clock.advance(60_000_000_000)
        slow.close()
        again = stub.accept()  # one dial of three is used, and none of the ten seconds
        again.hello()
        assert again.attach()["cursor"]["seq"] == 5
        again.note("reset", reason="session_closed")

    stub.script(script)
    with Client(stub.path, session="one", limits=FAST, clock=clock) as client:
        assert [n.method for n in client.attach()] == ["reset"]


def test_it_does_not_stand_still_for_an_attach_that_need_not_wait(stub: Stub) -> None:
    clock = ManualClock(0)

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.attach(5)
        peer.close()
        slow = stub.accept()
        slow.hello()
        slow.expect("session.attach")
        clock.advance(60_000_000_000)
        slow.close()

    stub.script(script)
    with Client(stub.path, session="one", limits=FAST, clock=clock) as client:
        feed = client.attach(when="now")
        with pytest.raises(ConnectionLost, match="after 1 dials"):
            next(feed)


def test_an_episodes_clock() -> None:
    clock = ManualClock(0)
    episode = Episode(clock, 10.0)
    clock.advance(4_000_000_000)
    assert episode.left() == 6.0
    episode.pause()
    episode.pause()
    clock.advance(100_000_000_000)
    assert episode.left() == 6.0
    episode.run()
    episode.run()
    clock.advance(4_000_000_000)
    assert episode.left() == 2.0
    clock.advance(4_000_000_000)
    assert episode.left() == 0.0


@pytest.mark.parametrize("whole", [False, True])
def test_eight_reattaches_unless_it_synchronizes(stub: Stub, whole: bool) -> None:
    attaches = []

    def script() -> None:
        for _ in range(20):
            peer = stub.accept()
            peer.hello()
            peer.attach()
            attaches.append(1)
            peer.events(len(attaches))
            if whole:
                peer.synchronized(len(attaches))
            if len(attaches) == 9 and not whole:
                peer.close()
                last = stub.accept()  # the connection is had back, the stream is not
                last.hello()
                last.reply(last.expect("session.state"), {})
                return
            peer.close()
        stub.stop()

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        with pytest.raises(ConnectionLost, match="dials" if whole else "8 re-attaches"):
            list(feed)
        assert len(attaches) == (20 if whole else 9)
        assert feed.cursor == Cursor("i-1", len(attaches))
        if not whole:
            client.request("session.state")


def test_resets_count_as_reattaches(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        for n in range(9):
            peer.attach(n, sub=f"s-{n}")
            peer.note("reset", f"s-{n}", reason="omitted")
        peer.reply(peer.expect("session.state"), {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        with pytest.raises(ConnectionLost, match="8 re-attaches"):
            list(feed)
        client.request("session.state")


def test_a_host_that_always_hangs_up_is_given_up(stub: Stub) -> None:
    def script() -> None:
        for _ in range(9):
            peer = stub.accept()
            peer.hello()
            peer.expect("session.state")
            peer.close()
        peer = stub.accept()
        peer.hello()
        assert peer.ended()

    stub.script(script)
    with Client(stub.path, **ONE) as client, pytest.raises(ConnectionLost, match="in a row"):
        client.request("session.state")


def test_a_host_that_answers_in_between_is_not(stub: Stub) -> None:
    def script() -> None:
        for _ in range(20):
            peer = stub.accept()
            peer.hello()
            peer.reply(peer.expect("session.state"), {})
            peer.expect("session.state")
            peer.close()
        last = stub.accept()
        last.hello()
        last.reply(last.expect("session.state"), {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        for _ in range(21):
            client.request("session.state")


def test_a_reattach_that_is_refused_ends_the_stream(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.attach(1)
        peer.events(2)
        peer.close()
        again = stub.accept()
        again.hello()
        again.refuse(again.expect("session.attach"), "unknown_session")
        again.reply(again.expect("session.state"), {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        feed = client.attach()
        assert next(feed).params["seq"] == 2
        with pytest.raises(Refused, match="unknown_session"):
            next(feed)
        client.request("session.state")


def test_a_hello_that_is_refused_for_good_ends_the_client(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.expect("session.cancel")
        peer.close()
        again = stub.accept()
        again.refuse(again.expect("hello"), "bad_request", "protocol_version")

    stub.script(script)
    with (
        Client(stub.path, **ONE) as client,
        pytest.raises(OutcomeUnknown, match="hello was refused"),
    ):
        client.command("session.cancel")


# Hubs.


def hub_hello(peer: Peer) -> dict[str, Any]:
    request = peer.expect("hello")
    result = hello_result()
    for name in ("clientId", "token", "resumed", "retryHorizon"):
        del result[name]
    peer.reply(request, {**result, "endpoint": {"kind": "hub", "hostId": "h-1"}})
    return request


def test_a_hub_has_no_client_ids(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        hub_hello(peer)
        peer.reply(peer.expect("session.create"), {"sessionId": "new"})
        peer.reply(peer.expect("sessions.list"), {"sessions": []})

    stub.script(script)
    with Client(stub.path, limits=FAST) as client:
        assert client.identity is None
        assert client.request("session.create", cwd="/") == {"sessionId": "new"}
        with pytest.raises(ValueError, match="a hub"):
            client.command("session.disarm")
        with pytest.raises(ValueError, match="name one"):
            client.attach()


def test_a_hub_is_not_taken_for_the_host_that_was_there(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.expect("session.cancel")
        peer.close()
        for _ in range(3):
            again = stub.accept()
            hub_hello(again)
            assert again.ended()

    stub.script(script)
    with (
        Client(stub.path, **ONE) as client,
        pytest.raises(OutcomeUnknown, match="a hub's hello") as caught,
    ):
        client.command("session.cancel")
    assert caught.value.reason == "disconnected"


def test_through_a_hub_to_a_session_and_back_after_a_loss(stub: Stub) -> None:
    def spliced() -> Peer:
        peer = stub.accept()
        hub_hello(peer)
        request = peer.expect("session.connect")
        assert request["params"] == {"sessionId": "one"}
        peer.reply(request, {})
        return peer

    def script() -> None:
        peer = spliced()
        peer.hello()
        peer.attach(1)
        peer.events(2)
        peer.close()
        again = spliced()
        assert again.hello()["resume"] == US
        assert again.attach()["cursor"]["seq"] == 2
        again.note("reset", reason="session_closed")

    stub.script(script)
    with Client(splice(stub.path, "one"), **ONE) as client:
        assert [n.method for n in client.attach()] == ["event", "reset"]


def test_a_splice_that_is_refused(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        hub_hello(peer)
        peer.refuse(peer.expect("session.connect"), "unknown_session")
        assert peer.ended()
        other = stub.accept()
        hub_hello(other)
        other.expect("session.connect")
        other.close()

    stub.script(script)
    with pytest.raises(Refused, match="unknown_session"):
        Client(splice(stub.path, "one"))
    with pytest.raises(ConnectionLost, match="hub closed"):
        Client(splice(stub.path, "one"))


def test_a_roster_over_resets_and_losses(stub: Stub) -> None:
    def subscribe(peer: Peer, number: int, epoch: str = "e-1") -> None:
        request = peer.expect("sessions.subscribe")
        assert request["params"] == {}
        rows = {"subscription": f"r-{number}", "epoch": epoch, "cursor": number, "sessions": []}
        peer.reply(request, rows)

    def script() -> None:
        peer = stub.accept()
        hub_hello(peer)
        subscribe(peer, 1)
        peer.note("roster", "r-1", epoch="e-1", cursor=2, upserts=[], removes=["x"])
        peer.note("reset", "r-1", reason="slow_consumer")
        subscribe(peer, 2)
        peer.note("reset", "r-2", reason="hub_closing")
        assert peer.ended()
        again = stub.accept()
        hub_hello(again)
        subscribe(again, 3, "e-2")
        again.note("roster", "r-3", epoch="e-2", cursor=4, upserts=[], removes=[])
        assert again.ended()

    stub.script(script)
    with Client(stub.path, limits=FAST) as client, client.subscribe() as roster:
        assert (roster.epoch, roster.cursor, roster.sessions) == ("e-1", 1, [])
        notes = [next(roster) for _ in range(4)]
        assert [(n.method, n.params["epoch"], n.params["cursor"]) for n in notes] == [
            ("roster", "e-1", 2), ("reset", "e-1", 2), ("reset", "e-2", 3), ("roster", "e-2", 4),
        ]  # fmt: skip
        assert [n.params.get("reason") for n in notes] == [
            None, "slow_consumer", "hub_closing", None,
        ]  # fmt: skip
