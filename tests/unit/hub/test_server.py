"""A hub's socket: who is let in, how requests are answered, and how it closes."""

import contextlib
import os
import resource
import socket as names
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from gevent.event import Event

from craze.machine import peer
from craze.wire import json
from craze.wire.codes import Refusal
from craze.wire.limits import HUB_CONNECTIONS, INBOUND_LINE, OUTBOUND_LINE
from tests.unit.hub.hosting import PATIENCE, A, B, Client, Host, Served, until

Serve = Callable[..., Served]
Listed = Callable[..., Host]
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":%b}\n'
CLOSING = {"code": "unavailable", "reason": "closing"}


# ---- who is let in ----


def test_who_has_not_said_hello_in_time_is_closed_unanswered(serve: Serve) -> None:
    served = serve(hello=0.05)
    for said in (b"", b"\n", b'{"jsonrpc":"2.0"', HELLO % b"{}"):
        client = served.client(hello=False)
        client.sock.sendall(said)
        if said.endswith(b"}\n"):
            assert client.read()["error"]["data"]["code"] == "bad_request"
        assert client.ended()
    assert not served.hub.connections


def test_who_has_said_hello_may_be_silent(serve: Serve) -> None:
    served = serve(hello=0.05)
    client = served.client()
    gevent.sleep(0.15)
    assert client.call("sessions.list")["sessions"] == []


def test_who_does_not_read_its_refusals_is_closed_as_well(serve: Serve) -> None:
    served = serve(hello=0.2)
    client = served.client(hello=False)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.sock.sendall(b"[]\n" * 200_000)
    until(lambda: not served.hub.connections)


def test_the_257th_connection_is_closed_unanswered(serve: Serve) -> None:
    served = serve(hello=60)
    clients = [served.client(hello=False) for _ in range(HUB_CONNECTIONS)]
    until(lambda: len(served.hub.connections) == HUB_CONNECTIONS)
    assert served.client(hello=False).ended()
    assert served.hub.clients == 0
    clients[0].hello()
    assert served.hub.clients == 1
    clients.pop().sock.close()
    until(lambda: len(served.hub.connections) == HUB_CONNECTIONS - 1)
    served.client()
    assert served.hub.clients == 2


DIAL = """
import os, socket, sys
os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
try:
    sock.sendall(b"x" * 100_000_000)  # which nobody reads
except OSError:
    pass
try:
    print(sock.recv(1))
except ConnectionResetError:
    print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_b33_a_foreign_uid_is_refused_before_a_byte_is_read(serve: Serve, root: Path) -> None:
    served = serve()
    root.chmod(0o755)
    os.chmod(served.path, 0o666)
    child = subprocess.Popen([sys.executable, "-c", DIAL, served.path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    until(lambda: child.poll() is not None)
    with child.stdout as out:
        assert out.read() == b"b''\n"
    ((where, stranger),) = served.reported
    assert (where, type(stranger)) == ("accept", peer.Stranger)
    served.reported.clear()
    assert not served.hub.connections


def test_b33_whose_peer_cannot_be_known_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    client = served.client(hello=False)
    until(lambda: served.hub.connections)
    check = peer.check

    def stranger(sock: Any) -> None:
        raise peer.Stranger("its peer's user cannot be known")

    monkeypatch.setattr(peer, "check", stranger)
    sock = names.socket(names.AF_UNIX)
    sock.connect(served.path)
    until(lambda: served.reported)
    monkeypatch.setattr(peer, "check", check)
    served.reported.clear()
    with sock:
        assert sock.recv(1) == b""
    client.hello()


# ---- lines ----


def test_the_longest_line_is_read_and_one_byte_more_is_not(serve: Serve) -> None:
    served = serve()
    client = served.client()
    line = b'{"jsonrpc":"2.0","id":"%b","method":"session.bogus"}'
    id = b"x" * (INBOUND_LINE - len(line) + 2)
    for end in (b"\n", b"\r\n"):
        client.sock.sendall(line % id + end)
        assert client.read()["id"] == id.decode()
    client.sock.sendall(line % (id + b"x") + b"\n")
    answer = client.read()
    assert (answer["id"], answer["error"]["message"]) == (None, "line too long")


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_b68_a_line_in_pieces_is_one_line(serve: Serve, size: int) -> None:
    served = serve()
    client = served.client()
    said = '{"jsonrpc":"2.0","id":"😀é","method":"session.bogus é"}\n\n'.encode()
    for begin in range(0, len(said), size):
        client.sock.sendall(said[begin : begin + size])
        gevent.sleep(0)
    assert client.read()["id"] == "😀é"


def test_b65_a_line_without_an_end_keeps_nobody_else_waiting(serve: Serve) -> None:
    served = serve()
    endless, other = served.client(), served.client()

    def send() -> None:
        for _ in range(64):
            endless.sock.sendall(b"x" * (1 << 20))
        endless.sock.sendall(b"\n")

    sending = gevent.spawn(send)
    while not sending.dead:
        assert other.call("session.bogus")["reason"] == "unknown_method"
    assert endless.read()["error"]["data"]["reason"] == "line_too_long"
    assert endless.call("session.bogus")["reason"] == "unknown_method"


# ---- requests ----


class Slow:
    """A method that takes as long as a test says; `calls` are in the order they began."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.running = self.most = 0
        self.go = Event()

    def __call__(self, args: dict[str, Any]) -> bytes:
        self.calls.append(args["id"])
        self.running += 1
        self.most = max(self.most, self.running)
        self.go.wait()
        gevent.sleep(0)
        self.running -= 1
        return b'{"id":%b}' % json.dumps(args["id"])


def test_requests_of_a_connection_are_answered_strictly_in_order(serve: Serve) -> None:
    served = serve()
    slow = served.hub.handlers["session.reopen"] = Slow()
    client, other = served.client(), served.client()
    ids = []
    for number in range(50):
        method = "session.bogus" if number % 3 else "session.reopen"
        params = {} if number % 3 else {"id": str(number)}
        ids.append(client.send(method, **params))
    assert other.call("session.bogus")["reason"] == "unknown_method"
    assert slow.calls == ["0"]
    slow.go.set()
    assert [client.read()["id"] for _ in ids] == ids
    assert slow.most == 1
    assert slow.calls == [str(number) for number in range(0, 50, 3)]


@pytest.mark.parametrize("fault", [RuntimeError("secret"), OSError(5, "secret"), KeyError("x")])
def test_a_fault_of_ours_is_told_reported_and_lived_with(serve: Serve, fault: Exception) -> None:
    served = serve()

    def fails(args: dict[str, Any]) -> bytes:
        raise fault

    served.hub.handlers["sessions.saved"] = fails
    client = served.client()
    assert client.call("sessions.saved") == {"code": "failed", "reason": "failed"}
    assert served.reported == [("request", fault)]
    served.reported.clear()
    assert client.call("sessions.list")["sessions"] == []


def test_a_refusal_of_a_method_is_told_as_it_is(serve: Serve) -> None:
    served = serve()

    def refuses(args: dict[str, Any]) -> bytes:
        raise Refusal("start_failed", "no", cause="why")

    served.hub.handlers["sessions.saved"] = refuses
    client = served.client()
    assert client.call("sessions.saved") == {
        "code": "not_accepting",
        "reason": "start_failed",
        "cause": "why",
    }


def test_an_answer_that_fits_no_line_is_refused(serve: Serve) -> None:
    served = serve()
    size = OUTBOUND_LINE - len('{"jsonrpc":"2.0","id":9,"result":{"x":""}}')
    answers = iter((size, size + 1))
    served.hub.handlers["sessions.saved"] = lambda args: b'{"x":"%b"}' % (b"x" * next(answers))
    client = served.client()
    line = b'{"jsonrpc":"2.0","id":9,"method":"sessions.saved"}\n'
    client.sock.sendall(line)
    assert len(client.read()["result"]["x"]) == size
    client.sock.sendall(line)
    assert client.read()["error"]["data"] == {"code": "failed", "reason": "response_too_large"}


# ---- the splice, and who is counted ----


def spliced(served: Served, session: str) -> Client:
    client = served.client()
    assert client.call("session.connect", sessionId=session) == {}
    return client


def test_a_spliced_client_counts_until_both_legs_are_closed(serve: Serve, listed: Listed) -> None:
    served, host = serve(), listed(A)
    client = spliced(served, "session-a")
    assert client.call("hello", protocols=[1], client={"kind": "t"})["endpoint"]
    assert served.hub.clients == 1
    client.sock.shutdown(names.SHUT_WR)
    until(lambda: not host._open)  # the host heard of it
    assert client.ended()
    until(lambda: served.hub.clients == 0)


def test_a_host_of_another_user_is_not_spliced_to(
    serve: Serve, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    listed(A)
    client = served.client()
    until(lambda: served.hub.clients)
    monkeypatch.setattr(peer, "uid", lambda _: -1)
    assert client.call("session.connect", sessionId=A)["reason"] == "host_unreachable"


def test_b28_a_host_with_a_full_backlog_is_unreachable_after_half_a_second(
    serve: Serve, listed: Listed
) -> None:
    served, host = serve(), listed(A)
    host._acceptor.kill()
    host.listing.listener.listen(0)
    first = spliced(served, A)
    client = served.client()
    assert client.call("session.connect", sessionId=A)["reason"] == "host_unreachable"
    first.sock.close()
    until(lambda: served.hub.clients == 1)


def test_a_client_that_goes_at_its_connect_leaves_nothing(serve: Serve, listed: Listed) -> None:
    served, host = serve(), listed(A)
    for _ in range(20):
        client = served.client()
        client.send("session.connect", sessionId=A)
        client.sock.close()
    until(lambda: not served.hub.connections and not host._open)


def test_two_hosts_with_one_session_are_told_apart_by_their_ids(
    serve: Serve, listed: Listed
) -> None:
    served = serve()
    for id in (A, B):
        listed(id, crazeSessionId="same")
    refused = served.client().call("session.connect", sessionId="same")
    assert refused["reason"] == "ambiguous_session"
    spliced(served, B)


# ---- its end ----


@pytest.fixture
def closing() -> Iterator[Callable[[Served], gevent.Greenlet]]:
    """Begins to close a hub, and sees it through at the end."""
    began: list[gevent.Greenlet] = []

    def begin(served: Served, wait: Callable[[], Any] = lambda: None) -> gevent.Greenlet:
        began.append(gevent.spawn(served.hub.close, wait))
        gevent.sleep(0)
        return began[-1]

    yield begin
    for each in began:
        each.get(timeout=PATIENCE)


def test_a_hub_that_is_closing_refuses_a_hello_and_ends_the_connection(
    serve: Serve, closing: Callable[..., gevent.Greenlet]
) -> None:
    served = serve()
    done = Event()
    closing(served, done.wait)
    client = served.client(hello=False)
    client.send("hello", protocols=[1], client={"kind": "test"})
    assert client.read()["error"] == {
        "code": -32000,
        "message": "the hub is closing",
        "data": CLOSING,
    }
    assert client.ended()
    done.set()


def test_a_hub_that_is_closing_refuses_more_work_and_finishes_what_it_has(
    serve: Serve, closing: Callable[..., gevent.Greenlet]
) -> None:
    served = serve()
    slow = served.hub.handlers["session.reopen"] = Slow()
    client, idle = served.client(), served.client()
    client.send("session.reopen", id="x")
    until(lambda: slow.calls)
    closing(served)
    for method, params in (("sessions.list", {}), ("session.connect", {"sessionId": "x"})):
        assert idle.call(method, **params) == CLOSING
    assert not idle.sock.closed
    slow.go.set()
    assert client.read()["result"] == {"id": "x"}
    assert client.ended() and idle.ended()


def test_a_hub_waits_for_what_is_in_flight_no_longer_than_its_bound(
    serve: Serve, closing: Callable[..., gevent.Greenlet]
) -> None:
    served = serve(teardown=0.05)
    slow = served.hub.handlers["session.reopen"] = Slow()
    client = served.client()
    client.send("session.reopen", id="x")
    until(lambda: slow.calls)
    closing(served, Event().wait)
    assert client.ended()


def test_a_hub_that_closes_ends_its_splices_after_what_was_said(
    serve: Serve, listed: Listed, closing: Callable[..., gevent.Greenlet]
) -> None:
    served, host = serve(), listed(A)
    client = spliced(served, A)
    client.hello()
    host.says = lambda request: [b'{"last":"word"}\n']
    client.send("sessions.list")
    until(lambda: client.sock.recv(1, names.MSG_PEEK))
    closing(served)
    assert client.read() == {"last": "word"}
    assert client.ended()
    until(lambda: not host._open)


def test_a_hub_that_closed_takes_nobody_in(serve: Serve) -> None:
    served = serve()
    served.hub.close()
    with pytest.raises(ConnectionRefusedError):
        served.client()


def test_a_hub_that_cannot_go_on_says_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve()
    fault = RuntimeError("ours")

    def fails() -> None:
        raise fault

    monkeypatch.setattr(served.hub.poll, "_round", fails)
    client = served.client()
    client.send("sessions.list")
    until(lambda: served.said)
    assert served.said == ["failed"] and served.reported == [("hub", fault)]
    served.reported.clear()


def test_a_hub_without_a_descriptor_left_turns_clients_away_at_once(serve: Serve) -> None:
    served = serve()
    client = names.socket(names.AF_UNIX)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        client.connect(served.path)
        client.setblocking(False)
        until(lambda: _at_its_end(client))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.close()
    assert [type(failure) for _, failure in served.reported] == [OSError]
    served.reported.clear()
    assert served.client().call("sessions.list")["sessions"] == []


def _at_its_end(sock: names.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
