"""Side questions on a host: what is said of one, in which order, however it ends (tables 10.6)."""

from collections.abc import Callable
from typing import Any

import gevent
import pytest

from craze.fakes.stub import Stub
from craze.host.asides import Answer, Asides
from craze.wire.codes import Refusal

from .conftest import SESSION, Hosted

Host = Callable[..., Hosted]


class Broken(Stub):
    """A stub that fails in the middle of its answer, by its own fault."""

    def aside(self, question: str, prior: Any, piece: Callable[[str], None]) -> Answer:
        piece("so far")
        raise RuntimeError("ours")


class Parked:
    """An agent that answers when it is told to."""

    def __init__(self) -> None:
        self.told = gevent.event.Event()

    def aside(self, question: str, prior: Any, piece: Callable[[str], None]) -> Answer:
        self.told.wait()
        return Answer("answer", "Grok")


def test_every_notification_precedes_the_reply_of_one_that_broke(host: Host) -> None:
    hosted = host(Broken, aside=True)
    client = hosted.client()
    number = client.send("session.aside", sessionId=SESSION, asideId="a-1", question="why?")
    assert client.read()["params"] == {"asideId": "a-1", "seq": 1, "text": "so far"}
    assert client.read()["id"] == number
    gevent.sleep(0.1)
    assert client.call("session.state", sessionId=SESSION)["activity"] == "idle"
    hosted.reported.clear()


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_cancel_does_not_reach_a_reply_that_waits_for_room(host: Host, cancels: int) -> None:
    hosted = host()
    agent, asides, said = Parked(), Asides(cancel_wait=0.02), []
    outbox = next(iter(_connections(hosted))).outbox

    def say(what: Any) -> None:
        gevent.sleep(0.1)
        said.append(what)

    asking = gevent.spawn(
        asides.ask, "c", outbox, agent, {"asideId": "a", "question": "?"}, reply=say, refuse=say
    )
    gevent.sleep(0)
    if cancels == 1:
        agent.told.set()
        gevent.sleep(0.01)
        asides.cancel("c", "a")
    else:
        asides.cancel("c", "a")
        asides.cancel("c", "a")
    asking.get(timeout=2)
    assert len(said) == 1
    assert (said[0] == {"text": "answer", "model": "Grok"}) == (cancels == 1)
    if cancels == 2:
        assert isinstance(said[0], Refusal)
        assert (said[0].reason, said[0].message) == ("context", "context canceled")


def _connections(hosted: Hosted) -> Any:
    hosted.client()
    return hosted.server.connections
