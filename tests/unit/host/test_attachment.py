"""An attachment's beginning and its ends, where they meet something else (protocol tables 8)."""

import socket as names
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest
from gevent import socket
from gevent.event import Event

from craze.clock import ManualClock
from craze.eventlog import EventLog, Record
from craze.fakes.stub import CAPABILITIES, Stub
from craze.host.attachment import Attachment
from craze.host.outbox import Outbox
from craze.host.session import Facts, Session

from .conftest import SESSION, Hosted

Host = Callable[..., Hosted]


class Held(Stub):
    """A stub whose start is told to end."""

    def start(self) -> None:
        """Not yet."""

    def finish(self) -> None:
        super().start()


def test_a_client_gone_before_the_start_leaves_no_subscription(host: Host) -> None:
    hosted = host(Held)
    hosted.server.hang_up_poll = 0.01
    client = hosted.client()
    client.send("session.attach", sessionId=SESSION)
    gevent.sleep(0.02)
    client.sock.close()
    gevent.sleep(0.05)
    assert not hosted.server.connections
    hosted.session.agent.finish()  # type: ignore[attr-defined]
    gevent.sleep(0.02)
    assert not hosted.server.ever_attached
    assert hosted.session.log._subscriptions == ()


def test_a_pending_attachment_of_a_replaced_session_is_told_nothing(host: Host) -> None:
    hosted = host(Held)
    client = hosted.client()
    client.send("session.attach", sessionId=SESSION)
    gevent.sleep(0.02)
    replaced, facts = hosted.session, Facts(SESSION, "/work", "", "cursor", CAPABILITIES)
    hosted.session = Session(facts, "inc-2", hosted.clock, lambda post: Stub(post, {}))
    hosted.server.replace(hosted.session)
    assert client.read() is None, "no reset of an attachment whose reply was never sent"
    replaced.close()


def test_an_attach_whose_reply_is_too_large_attaches_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = host()
    client = hosted.client()
    with monkeypatch.context() as patch:
        patch.setattr("craze.host.connection.OUTBOUND_LINE", 500)
        refused = client.call("session.attach", sessionId=SESSION)
    assert refused == {"code": "failed", "reason": "response_too_large"}
    assert hosted.session.log._subscriptions == ()
    assert hosted.server.attached == 0
    assert client.call("session.attach", sessionId=SESSION)["after"]["seq"] == 1
    assert client.read()["method"] == "synchronized"


def test_a_refused_attach_is_not_told_as_one_more_client(host: Host) -> None:
    hosted = host(presence=True)
    hosted.server.pace = hosted.clock
    attached, other = hosted.client(), hosted.client()
    attached.call("session.attach", sessionId=SESSION)
    assert [attached.read()["method"] for _ in range(2)] == ["synchronized", "presence"]
    hosted.clock.advance(1_000_000_000)
    hosted.server.fenced = True
    assert other.call("session.attach", sessionId=SESSION)["reason"] == "closing"
    number = attached.send("session.state", sessionId=SESSION)
    assert attached.read()["id"] == number


class Stuck:
    """A journal whose file part of a replay does not come before `released`."""

    def __init__(self) -> None:
        self.released = Event()

    def event(self, record: Record) -> None: ...
    def diag(self, kind: str, fields: dict[str, Any]) -> None: ...
    def close(self) -> None: ...

    def missing(self, low: int, high: int) -> str:
        return ""

    def replay(self, low: int, high: int) -> Iterator[Record]:
        self.released.wait()
        yield from ()


def test_a_slow_consumer_is_reset_though_its_replay_still_reads_the_journal() -> None:
    journal = Stuck()
    log = EventLog("I", ManualClock(0), observer=lambda *_: None, journal=journal, ring_events=1)
    for _ in range(3):
        log.commit({"type": "text", "text": "x"})
    ours, peer = socket.socketpair(names.AF_UNIX, names.SOCK_STREAM)
    peer.settimeout(2)
    outbox = Outbox(ours, lambda error: None)
    attachment = Attachment("s-1", outbox, lambda: None, lambda attachment: None)
    attachment.subscribe(log, 0, "I", max_items=1, max_bytes=1000)
    attachment.go_live(log, 0)
    gevent.sleep(0)
    try:
        for _ in range(2):
            log.commit({"type": "text", "text": "x"})
        assert b'"reason":"slow_consumer"' in peer.recv(1000)
        assert attachment.closed
    finally:
        journal.released.set()
        outbox.kill()
        ours.close()
        peer.close()
