"""The host's socket layer, driven over real sockets in this process."""

import os
import socket as names
from collections.abc import Callable
from typing import Any

import gevent
import pytest
from gevent import socket
from gevent.event import Event

from craze import greenlets
from craze.engine import port
from craze.events import build
from craze.fakes.stub import Stub
from craze.wire.limits import COMMANDS_PER_HOST, REQUESTS_PER_CONNECTION

from .conftest import SESSION, Hosted

Host = Callable[..., Hosted]


class Silent(Stub):
    """A stub that never says what became of a cancel."""

    def cancel(self, token: int) -> None:
        """No word."""


def test_a_connection_is_not_read_past_sixteen_unwritten_replies(host: Host) -> None:
    hosted = host()
    hosted.event(build.text("x" * 60_000))
    client = hosted.client()
    connection = next(iter(hosted.server.connections))
    connection.outbox.hold(True)
    for _ in range(100):
        client.send("session.state", sessionId=SESSION)
    gevent.sleep(0.05)
    assert connection._slots.counter == 0
    queued = connection.outbox._lines
    assert len(queued) == REQUESTS_PER_CONNECTION
    connection.outbox.hold(False)
    assert [client.read()["id"] for _ in range(100)] == list(range(2, 102))


def test_the_sixty_fifth_command_is_busy_and_not_stored(host: Host) -> None:
    hosted = host(Silent)
    clients = [hosted.client() for _ in range(5)]
    hosted.session.agent.hang_next()  # type: ignore[attr-defined]
    clients[0].call("session.prompt", sessionId=SESSION, commandId="1", text="a", mode="queue")
    for number in range(COMMANDS_PER_HOST):
        clients[number % 4].send("session.cancel", sessionId=SESSION, commandId=str(number + 2))
    gevent.sleep(0.05)
    assert hosted.server.commands == COMMANDS_PER_HOST
    busy = clients[4].call("session.disarm", sessionId=SESSION, commandId="1")
    assert busy == {"code": "unavailable", "reason": "busy"}
    hosted.session.post(port.Close())
    gevent.sleep(0.05)
    assert hosted.server.commands == 0


def test_a_half_closed_client_still_gets_its_answers(host: Host) -> None:
    hosted = host()
    client = hosted.client()
    client.send("session.state", sessionId=SESSION)
    client.sock.sendall(b'{"jsonrpc":"2.0","id":"last","method":"sessions.list"}')
    client.sock.shutdown(names.SHUT_WR)
    assert client.read()["id"] == 2
    assert client.read()["id"] == "last"
    assert client.read() is None


def test_a_half_closed_attachment_goes_on_and_is_not_counted(host: Host) -> None:
    hosted = host(presence=True)
    client = hosted.client()
    client.call("session.attach", sessionId=SESSION)
    assert hosted.server.attached == 1
    client.sock.shutdown(names.SHUT_WR)
    gevent.sleep(0.02)
    assert hosted.server.attached == 0
    hosted.event(build.text("more"))
    lines = [client.read()["method"] for _ in range(3)]
    assert lines == ["synchronized", "presence", "event"]


def test_b23_b76_a_client_that_is_gone_is_noticed_on_a_quiet_session(host: Host) -> None:
    hosted = host()
    hosted.server.hang_up_poll = 0.02
    client = hosted.client()
    client.call("session.attach", sessionId=SESSION)
    client.sock.close()
    gevent.sleep(0.2)
    assert not hosted.server.connections


def test_b33_a_foreign_peer_is_refused_before_a_byte_is_read(host: Host) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    hosted = host()
    os.chmod(hosted.path, 0o666)
    for folder in _above(hosted.path):
        os.chmod(folder, 0o755)
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            sock = names.socket(names.AF_UNIX)
            sock.connect(hosted.path)
            sock.settimeout(5)
            os._exit(0 if sock.recv(1) == b"" else 1)
        except BaseException:
            os._exit(2)
    status = gevent.get_hub().threadpool.apply(os.waitpid, (pid, 0))[1]
    assert os.waitstatus_to_exitcode(status) == 0
    assert not hosted.server.connections
    assert [where for where, _ in hosted.reported] == ["accept"]
    hosted.reported.clear()


def _above(path: str) -> list[str]:
    folders = []
    while path != "/tmp" and path != "/":
        path = os.path.dirname(path)
        folders.append(path)
    return [folder for folder in folders if folder.startswith("/tmp/")]


def test_a_command_read_before_its_client_was_resumed_elsewhere_does_not_run(host: Host) -> None:
    hosted = host()
    first = hosted.client(hello=False)
    bound = first.hello()
    second = hosted.client(hello=False)
    add = {"sessionId": SESSION, "commandId": "1", "text": "late"}
    # Both lines are there before the host reads either: the resume is served first.
    resume = {"clientId": bound["clientId"], "token": bound["token"]}
    second.send("hello", protocols=[1], client={"kind": "test"}, resume=resume)
    gevent.sleep(0.05)
    assert second.read()["result"]["resumed"] is True
    with pytest.raises((OSError, AssertionError)):
        first.call("session.queue.add", **add)
    assert second.call("session.state", sessionId=SESSION)["queue"] == []


def test_b09_a_resent_command_runs_once(host: Host) -> None:
    hosted = host()
    first = hosted.client(hello=False)
    bound = first.hello()
    first.send("session.queue.add", sessionId=SESSION, commandId="1", text="once")
    gevent.sleep(0.02)
    first.sock.close()
    second = hosted.client(hello=False)
    resume = {"clientId": bound["clientId"], "token": bound["token"]}
    assert second.hello(resume=resume)["resumed"] is True
    row = second.call("session.queue.add", sessionId=SESSION, commandId="1", text="once")["row"]
    assert row["id"] == "q-1"
    assert len(second.call("session.state", sessionId=SESSION)["queue"]) == 1


def test_b18_answers_from_two_clients_in_one_instant(host: Host) -> None:
    hosted = host()
    options = [{"optionId": "a", "name": "A", "kind": "allow_once"}]
    hosted.session.post(
        port.AskRaised(object(), "permission", {"tool": "Shell", "options": options})
    )
    clients = [hosted.client(), hosted.client()]
    for client in clients:
        client.send(
            "asks.answer",
            sessionId=SESSION,
            commandId="1",
            askId="perm-1",
            answer={"optionId": "a"},
        )
    answers = [client.read() for client in clients]
    assert sorted("error" in answer for answer in answers) == [False, True]
    refused = next(answer for answer in answers if "error" in answer)
    assert refused["error"]["data"]["code"] == "already_resolved"


def test_b17_an_ask_outlives_its_last_client(host: Host) -> None:
    hosted = host()
    client = hosted.client()
    client.call("session.attach", sessionId=SESSION)
    hosted.session.post(port.AskRaised(object(), "permission", {"tool": "Shell", "options": []}))
    client.sock.close()
    gevent.sleep(0.02)
    assert hosted.session.engine.busy
    other = hosted.client()
    answer = {"sessionId": SESSION, "commandId": "1", "askId": "perm-1", "answer": {"cancel": True}}
    assert other.call("asks.answer", **answer) == {}


def test_replies_are_still_written_when_the_session_ends(host: Host) -> None:
    hosted = host(stop=True)
    attached, other = hosted.client(), hosted.client()
    attached.call("session.attach", sessionId=SESSION)
    assert attached.read()["method"] == "synchronized"
    assert other.call("session.stop", sessionId=SESSION, commandId="1") == {}
    assert hosted.stops == 1
    other.send("session.state", sessionId=SESSION)
    gevent.sleep(0.02)
    hosted.session.close()
    assert other.read()["id"] == 3
    assert other.read() is None
    reset = attached.read()
    assert (reset["method"], reset["params"]["reason"]) == ("reset", "session_closed")
    assert attached.read() is None


def test_b59_a_lone_surrogate_kills_no_other_clients_writer(host: Host) -> None:
    hosted = host()
    one, two = hosted.client(), hosted.client()
    two.call("session.attach", sessionId=SESSION)
    two.read()
    one.sock.sendall(
        b'{"jsonrpc":"2.0","id":"\\udc00","method":"session.queue.add","params":'
        b'{"sessionId":"session-1","commandId":"1","text":"a\\ud800b"}}\n'
    )
    assert one.read()["result"]["row"]["text"] == "a\ufffdb"
    assert two.read()["params"]["event"]["queue"]["text"] == "a\ufffdb"


def test_a_fault_of_our_own_is_answered_and_reported(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = host()
    client = hosted.client()

    def broken(*_: Any) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("craze.host.rows.state", broken)
    refused = client.call("session.state", sessionId=SESSION)
    assert refused == {"code": "failed", "reason": "failed"}
    assert client.call("session.sync", sessionId=SESSION) == {"seq": 1}
    assert [str(error) for _, error in hosted.reported] == ["ours"]
    hosted.reported.clear()


def test_models_changed_during_a_turn_are_pending_until_it_ends(host: Host) -> None:
    hosted = host(modelsRefresh=True)
    stub = hosted.session.agent
    stub.hang_next()  # type: ignore[attr-defined]
    client = hosted.client()
    client.call("session.prompt", sessionId=SESSION, commandId="1", text="a", mode="queue")
    stub.stage_models([{"id": "new", "name": "New"}])  # type: ignore[attr-defined]
    pending = client.call("session.models.refresh", sessionId=SESSION, nativeDir="/elsewhere")
    assert pending == {"status": "pending", "revision": 0, "sameDir": False}
    client.call("session.cancel", sessionId=SESSION, commandId="2")
    current = client.call("session.models.refresh", sessionId=SESSION)
    assert current == {"status": "current", "revision": 1}


class Crowd:
    """A listener with `waiting` peers that dialled already."""

    def __init__(self, waiting: int) -> None:
        self.peers = [socket.socketpair() for _ in range(waiting)]
        self.accepted = 0

    def accept(self) -> tuple[socket.socket, str]:
        if self.accepted == len(self.peers):
            Event().wait()
        self.accepted += 1
        return self.peers[self.accepted - 1][1], ""

    def close(self) -> None:
        for ours, theirs in self.peers:
            ours.close()
            theirs.close()


def test_each_of_many_that_dial_is_read_before_the_next_is_accepted(host: Host) -> None:
    hosted = host()
    crowd = Crowd(10)
    for ours, _ in crowd.peers:
        ours.close()
    at_once = 0

    class Counting(set[Any]):
        def add(self, connection: Any) -> None:
            nonlocal at_once
            super().add(connection)
            at_once = max(at_once, len(self))

    hosted.server._acceptor.kill()
    hosted.server._listener.close()
    hosted.server._listener = crowd
    hosted.server.connections = Counting()
    hosted.server._acceptor = greenlets.spawn("accept", hosted.server._accept)
    gevent.sleep(0.05)
    assert crowd.accepted == 10
    assert not hosted.server.connections
    assert at_once <= 2


def test_who_never_attached_is_no_change_of_presence(host: Host, mocker: Any) -> None:
    hosted = host(presence=True)
    told = mocker.spy(hosted.server, "presence_changed")
    hosted.client().sock.close()
    gevent.sleep(0.05)
    assert not hosted.server.connections
    assert told.call_count == 0
