"""One connection: hello, requests matched by id, deadlines, broken lines, refusals at a gate."""

import os

import gevent
import pytest
from gevent import socket

from craze import greenlets
from craze.client import Client, ConnectionLost, Limits, OutcomeUnknown, Refused
from craze.wire import json
from tests.unit.client.stub import Stub, hello_result

FAST = Limits(redial_first=0.001, redial_max=0.002, gate_first=0.001, gate_max=0.002)
ONE = {"limits": FAST, "session": "one"}


def test_hello_says_who_calls(stub: Stub) -> None:
    def script() -> None:
        params = stub.accept().hello()
        assert params == {"protocols": [1], "client": {"kind": "test", "name": "n"}}

    stub.script(script)
    with Client(stub.path, kind="test", name="n", limits=FAST) as client:
        assert client.hello["clientId"] == "c-1"
        assert client.identity is not None
        assert client.identity.host_id == "00000000000a"
        assert repr(client) == "<Client connected, c-1>"
    assert "over" in repr(client)


def test_no_socket_no_client(stub: Stub) -> None:
    with pytest.raises(FileNotFoundError):
        Client(stub.path + "-not")


def test_a_refused_hello(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.refuse(
            peer.expect("hello"), "bad_request", "protocol_version", result={"supported": [2]}
        )
        assert peer.ended()

    stub.script(script)
    with pytest.raises(Refused) as caught:
        Client(stub.path)
    assert caught.value.reason == "protocol_version"
    assert caught.value.result == {"supported": [2]}


def test_a_host_that_is_not_ready_is_asked_again_on_the_same_connection(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        for _ in range(2):
            peer.refuse(peer.expect("hello"), "unavailable", "not_ready")
        peer.hello()

    stub.script(script)
    Client(stub.path, limits=FAST).close()


def test_a_silent_host_is_given_up(stub: Stub) -> None:
    stub.script(lambda: stub.accept().expect("hello"))
    with pytest.raises(ConnectionLost, match=r"no connection within 0\.05 s|no answer"):
        Client(stub.path, limits=Limits(handshake=0.05))


def test_answers_out_of_order(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        requests = [peer.expect("asks.get") for _ in range(8)]
        assert len({r["id"] for r in requests}) == 8
        for request in reversed(requests):
            peer.note("event", "s-9", seq=1, event={})  # not ours: ignored
            peer.write({"method": "novelty", "params": {"a": 1}})
            peer.reply(request, {"got": request["params"]["askId"]})

    stub.script(script)
    got = {}
    with Client(stub.path, **ONE) as client:

        def ask(name: str) -> None:
            got[name] = client.request("asks.get", askId=name)["got"]

        gevent.joinall([greenlets.spawn("ask", ask, f"a-{n}") for n in range(8)])
    assert got == {f"a-{n}": f"a-{n}" for n in range(8)}


def test_the_session_is_asked_of_the_host_once(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.reply(peer.expect("sessions.list"), {"sessions": [{"sessionId": "it"}]})
        for _ in range(2):
            request = peer.expect("session.state")
            assert request["params"] == {"sessionId": "it"}
            peer.reply(request, {})

    stub.script(script)
    with Client(stub.path, limits=FAST) as client:
        client.request("session.state")
        client.request("session.state")


def test_command_ids_count_from_one(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        for number in "123":
            request = peer.expect("session.queue.add")
            assert list(request["params"]) == ["sessionId", "commandId", "text"]
            assert request["params"]["commandId"] == number
            peer.reply(request, {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        for _ in range(3):
            client.command("session.queue.add", text="t")
        assert client.identity is not None
        assert client.identity.commands == 3


def test_what_is_neither_request_nor_command(stub: Stub) -> None:
    stub.script(lambda: stub.accept().hello())
    with Client(stub.path, **ONE) as client:
        for method in ("session.prompt", "hello", "session.attach", "session.aside"):
            with pytest.raises(ValueError, match="no plain request"):
                client.request(method)
        for method in ("session.state", "novel", "session.attach"):
            with pytest.raises(ValueError, match="not a command"):
                client.command(method)


def test_a_request_longer_than_the_host_reads_is_never_sent(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello(limits={"inboundLine": 200, "outboundLine": 300})
        peer.reply(peer.expect("session.state"), {})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        with pytest.raises(ValueError, match="at most 200"):
            client.command("session.prompt", text="x" * 200, mode="queue")
        client.request("session.state")


@pytest.mark.parametrize("method", ["session.state", "session.cancel"])
def test_no_answer_by_the_deadline(stub: Stub, method: str) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        late = peer.expect(method)
        after = peer.expect("asks.list")
        peer.reply(late, {"late": True})
        peer.reply(after, {"asks": []})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        call = client.request if method == "session.state" else client.command
        with pytest.raises(OutcomeUnknown) as caught:
            call(method, timeout=0.02)
        assert caught.value.reason == "no_answer"
        assert str(caught.value) == f"{method}: no answer in 0.02 s (no_answer)"
        # The late answer finds nobody, and disturbs nobody.
        assert client.request("asks.list") == {"asks": []}


def test_b57_an_outer_timeout_takes_the_caller_not_the_line(stub: Stub) -> None:
    """A caller cut off by somebody else's timeout leaves a whole line behind, or none."""
    text = "y" * 3_000_000

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        gevent.sleep(0.05)  # by now the socket is full and the caller gone, half a line sent
        assert peer.expect("session.prompt")["params"]["text"] == text
        # The second was never begun, so it never comes.
        peer.reply(peer.expect("session.state"), {"after": 1})

    stub.script(script)
    with Client(stub.path, **ONE) as client:

        def prompt() -> None:
            with gevent.Timeout(0.02, False):
                client.command("session.prompt", text=text, mode="queue")

        gevent.joinall([greenlets.spawn(f"prompt {n}", prompt) for n in range(2)])
        assert client.request("session.state") == {"after": 1}


def test_b57_an_outer_timeout_and_a_kill_pass_through_a_retry(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        while True:
            request = peer.read()
            if request["method"] == "session.state":
                peer.reply(request, {})
                return
            peer.refuse(request, "unavailable", "busy")

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        outer = gevent.Timeout(0.03)
        with pytest.raises(gevent.Timeout) as caught, outer:
            client.command("session.disarm")
        assert caught.value is outer
        caller = greenlets.spawn("caller", client.command, "session.disarm")
        gevent.sleep(0.02)
        caller.kill()
        assert isinstance(caller.value, gevent.GreenletExit)
        client.request("session.state")


@pytest.mark.parametrize(
    ("code", "reason"),
    [("unavailable", "busy"), ("unavailable", "log_backed_up"), ("in_progress", "in_progress")],
)
def test_a_gate_without_room_is_tried_again_under_the_same_id(
    stub: Stub, code: str, reason: str
) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        for _ in range(4):
            request = peer.expect("session.disarm")
            assert request["params"]["commandId"] == "1"
            peer.refuse(request, code, reason)
        peer.reply(peer.expect("session.disarm"), {"ok": 1})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        assert client.command("session.disarm") == {"ok": 1}


def test_a_gate_that_stays_full_is_no_answer(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        while not peer.ended(peek=True):
            peer.refuse(peer.read(), "unavailable", "busy")

    stub.script(script)
    with Client(stub.path, session="one", limits=FAST._replace(gate_deadline=0.03)) as client:
        with pytest.raises(OutcomeUnknown, match="unavailable/busy") as caught:
            client.command("session.disarm")
        assert caught.value.reason == "no_answer"
        assert isinstance(caught.value.__cause__, Refused)


@pytest.mark.parametrize("code", ["not_accepting", "stale_model", "foreign_turn", "aborted", "new"])
def test_every_other_refusal_is_the_callers(stub: Stub, code: str) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.refuse(peer.expect("session.disarm"), code)

    stub.script(script)
    with Client(stub.path, **ONE) as client, pytest.raises(Refused) as caught:
        client.command("session.disarm")
    assert caught.value.code == code


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b"7\n",
        b'{"jsonrpc":"2.0"}\n',
        b'{"jsonrpc":"2.0","method":"event"}\n',
        b'{"jsonrpc":"2.0","method":"event","params":[]}\n',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}\n',
        b'{"jsonrpc":"2.0","id":"2","result":[]}\n',
        b'{"jsonrpc":"2.0","id":"2"}\n',
        b"z" * 2000 + b"\n",
        b"z" * 100_000,
        b"\xff\n",
        b"[" * 1500 + b"\n",
    ],
    ids=lambda line: repr(line[:30]),
)
def test_b65_a_peer_that_breaks_the_protocol_loses_its_connection(stub: Stub, line: bytes) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        request = peer.expect("session.models.refresh")
        peer.raw(line)
        assert peer.ended()
        again = stub.accept()
        again.hello()
        again.reply(again.expect("session.models.refresh"), {"status": "current"})
        del request

    stub.script(script)
    with Client(stub.path, session="one", limits=FAST._replace(line=1000)) as client:
        assert client.request("session.models.refresh")["status"] == "current"


def test_a_line_at_the_bound_is_read(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        request = peer.expect("session.state")
        frame = len(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"a": ""}}))
        peer.reply(request, {"a": "b" * (1000 - frame)})

    stub.script(script)
    with Client(stub.path, session="one", limits=FAST._replace(line=1000)) as client:
        assert client.request("session.state")["a"]


def test_b68_characters_cut_at_every_byte(stub: Stub) -> None:
    text = "漢字 👩‍👩‍👧 e\u0301 \u2028"

    def script() -> None:
        peer = stub.accept()
        peer.hello()
        request = peer.expect("session.state")
        line = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"t": text}}) + b"\r\n"
        for at in range(len(line)):
            peer.raw(line[at : at + 1])
            gevent.sleep(0)

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        assert client.request("session.state") == {"t": text}


def test_half_a_line_at_the_end_is_no_line(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        request = peer.expect("session.cancel")
        reply = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"cut": 1}})
        peer.raw(reply)  # whole JSON, but its newline never comes
        peer.close()
        again = stub.accept()
        again.hello()
        request = again.expect("session.cancel")
        again.reply(request, {"whole": 1})

    stub.script(script)
    with Client(stub.path, **ONE) as client:
        assert client.command("session.cancel") == {"whole": 1}


def test_closing_fails_what_waits(stub: Stub) -> None:
    stub.script(lambda: stub.accept().hello())
    client = Client(stub.path, **ONE)
    failures: list[BaseException] = []
    calls = [
        greenlets.spawn("read", client.request, "session.state", on_error=failures.append),
        greenlets.spawn("run", client.command, "session.cancel", on_error=failures.append),
    ]
    gevent.sleep(0.01)
    client.close()
    gevent.joinall(calls)
    kinds = sorted(type(f).__name__ for f in failures)
    assert kinds == ["ConnectionLost", "OutcomeUnknown"]
    with pytest.raises(ConnectionLost, match="closed"):
        client.request("session.state")
    with pytest.raises(ConnectionLost, match="closed"):
        client.attach()
    client.close()


def test_over_a_stream_that_is_given(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        peer.hello()
        peer.reply(peer.expect("session.state"), {"a": 1})
        peer.close()

    stub.script(script)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(stub.path)
    with Client(sock, **ONE) as client:
        assert client.request("session.state") == {"a": 1}
        with pytest.raises(ConnectionLost, match="cannot be dialled again"):
            client.request("asks.list")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's socket")
def test_another_users_socket_is_not_spoken_to(stub: Stub) -> None:
    path = stub.path + "2"
    pid = os.fork()
    if pid == 0:  # a child that is somebody else, and listens
        import socket as plain

        try:
            os.chmod(os.path.dirname(path), 0o777)
            os.setuid(65534)
            sock = plain.socket(plain.AF_UNIX)
            sock.bind(path)
            sock.listen()
            peer, _ = sock.accept()
            os._exit(0 if peer.recv(1) == b"" else 1)
        finally:
            os._exit(2)
    try:
        while not os.path.exists(path):
            gevent.sleep(0.005)
        gevent.sleep(0.01)
        with pytest.raises(ConnectionLost, match="uid 65534"):
            Client(path)
    finally:
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0  # it read an end, and no byte before it


def test_a_hello_without_an_identity_is_a_fault(stub: Stub) -> None:
    def script() -> None:
        peer = stub.accept()
        result = hello_result()
        del result["token"]
        peer.reply(peer.expect("hello"), result)
        assert peer.ended()

    stub.script(script)
    with pytest.raises(ConnectionLost, match="identity"):
        Client(stub.path)
