"""A hub's connection to a host: what is an answer, what is none, and how long either is waited
for."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.client.errors import Refused
from craze.hub.link import Link, Lost, NoAnswer, own_row
from craze.machine import peer
from craze.wire import json
from craze.wire.limits import OUTBOUND_LINE
from tests.unit.hub.hosting import A, Host

Listed = Callable[..., Host]


def answering(host: Host, *lines: bytes) -> None:
    """Have the host say exactly that, whatever it is asked."""
    host.says = lambda _: list(lines)


def result(id: int, value: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":"%d","result":%b}\n' % (id, value)


def test_a_hello_says_who_we_are_and_learns_the_version(listed: Listed) -> None:
    host = listed(A)
    host.version = "0.9.é"
    with Link(host.listing.socket, 1) as link:
        assert link.version == ""
        link.hello("craze hub roster", 1)
        assert link.version == "0.9.é"
    assert host.greeting == {
        "protocols": [1],
        "client": {"kind": "hub", "name": "craze hub roster"},
    }


@pytest.mark.parametrize(
    "hello", [b"{}", b"[]", b'{"endpoint":7}', b'{"endpoint":{"crazeVersion":null}}']
)
def test_a_hello_that_is_no_hosts(listed: Listed, hello: bytes) -> None:
    host = listed(A)
    answering(host, result(1, hello))
    with Link(host.listing.socket, 1) as link, pytest.raises(Lost, match="no host's"):
        link.hello("x", 1)


def test_an_answer_is_given_as_the_bytes_it_came_in(listed: Listed) -> None:
    host = listed(A)
    odd = b'{ "b":1.0,"a":"\\u00e9\xc3\xa9","a":[1e2 ,2]}'
    answering(host, b'{"result": %b ,"id":"1","jsonrpc":"2.0"}\n' % odd)
    with Link(host.listing.socket, 1) as link:
        assert link.ask("x", {}, 1) == odd


def test_what_a_host_says_unasked_is_passed_over(listed: Listed) -> None:
    host = listed(A)
    event = b'{"jsonrpc":"2.0","method":"event","params":{"seq":1}}\n'
    answering(host, event, event + result(1), event)
    with Link(host.listing.socket, 1) as link:
        assert link.ask("x", {}, 1) == b"{}"
        answering(host, result(2, b"[]"))
        assert link.ask("x", {}, 1) == b"[]"


def test_a_refusal_keeps_its_code_reason_and_cause(listed: Listed) -> None:
    host = listed(A)
    answering(
        host,
        b'{"jsonrpc":"2.0","id":"1","error":{"code":-32000,"message":"no","data":'
        b'{"code":"not_accepting","reason":"start_failed","cause":"why"}}}\n',
        result(2),
    )
    with Link(host.listing.socket, 1) as link:
        with pytest.raises(Refused) as refused:
            link.ask("x", {}, 1)
        assert (refused.value.code, refused.value.reason, refused.value.cause) == (
            "not_accepting",
            "start_failed",
            "why",
        )
        assert link.ask("x", {}, 1) == b"{}"


@pytest.mark.parametrize(
    "line",
    [
        b"{\n",
        b"\xff\n",
        b"[]\n",
        b"7\n",
        b"{}\n",
        result(2),
        b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":"1"}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_answer_ends_the_link(listed: Listed, line: bytes) -> None:
    host = listed(A)
    answering(host, line)
    with Link(host.listing.socket, 1) as link, pytest.raises(Lost) as lost:
        link.ask("x", {}, 1)
    assert not isinstance(lost.value, NoAnswer)


def test_b65_a_line_past_the_limit_ends_the_link(listed: Listed) -> None:
    host = listed(A)
    answering(host, *[b"x" * (1 << 20)] * (OUTBOUND_LINE >> 20), b"x\n")
    with Link(host.listing.socket, 1) as link, pytest.raises(Lost, match="over the limit"):
        link.ask("x", {}, 10)


def test_b68_an_answer_that_comes_byte_by_byte(listed: Listed) -> None:
    host = listed(A)
    value = '{"t":"😀é"}'.encode()
    answering(host, *(bytes((byte,)) for byte in result(1, value)))
    with Link(host.listing.socket, 1) as link:
        assert link.ask("x", {}, 5) == value


def test_an_answer_that_does_not_come(listed: Listed) -> None:
    host = listed(A)
    answering(host)
    with Link(host.listing.socket, 1) as link, pytest.raises(NoAnswer, match=r"within 0\.05s"):
        link.ask("x", {}, 0.05)


FLOOD = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print(flush=True)
sock, _ = listener.accept()
while True:
    sock.sendall(b'{"jsonrpc":"2.0","method":"event","params":{}}\\n' * 1000)
"""


def test_a_host_that_never_stops_talking_keeps_nobody_waiting(root: Path) -> None:
    path = str(root / "s")
    host = subprocess.Popen([sys.executable, "-c", FLOOD, path], stdout=-1, stderr=-3)
    assert host.stdout is not None
    with host.stdout as out:
        out.readline()
    turns = 0

    def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            gevent.sleep(0)

    other = gevent.spawn(others)
    try:
        with Link(path, 1) as link, pytest.raises(NoAnswer):
            link.ask("x", {}, 0.5)
        assert turns > 10
    finally:
        other.kill()
        host.kill()
        host.wait()


def test_a_host_that_hangs_up(listed: Listed) -> None:
    host = listed(A)
    with Link(host.listing.socket, 1) as link:
        link.hello("x", 1)
        host.hang_up()
        with pytest.raises(Lost):
            link.ask("sessions.list", {}, 1)


def test_a_host_that_is_not_there(listed: Listed) -> None:
    host = listed(A)
    host.deaf()
    with pytest.raises(Lost, match="refused"):
        Link(host.listing.socket, 1)
    with pytest.raises(Lost, match="no such file"):
        Link(host.listing.socket + ".not", 1)
    with pytest.raises(Lost, match="too long"):
        Link("/tmp/" + "x" * 200, 1)


def test_b28_a_host_too_busy_to_accept_is_no_answer_and_not_gone(listed: Listed) -> None:
    host = listed(A)
    host._acceptor.kill()
    host.listing.listener.listen(0)
    with Link(host.listing.socket, 1):
        began = time.monotonic()
        with pytest.raises(NoAnswer):
            Link(host.listing.socket, 0.05)
        assert time.monotonic() - began >= 0.05


def test_b33_another_users_host_is_not_spoken_to(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = listed(A)
    monkeypatch.setattr(peer, "uid", lambda _: -1)
    with pytest.raises(Lost, match="its peer runs as"):
        Link(host.listing.socket, 1)


# ---- the row in a list ----


def lists(sessions: Any) -> bytes:
    return json.dumps({"epoch": "x", "cursor": 1, "sessions": sessions})


def test_a_row_is_cut_out_as_it_was_written() -> None:
    row = '{ "t" : "é\\u00e9",\t"n":1.0, "t":[ ] }'
    assert own_row(f'{{"sessions":[ {row} ] ,"epoch":"x"}}'.encode()) == row.encode()


@pytest.mark.parametrize("row", [7, "x", [], None, True])
def test_a_row_that_is_no_object_is_none(row: Any) -> None:
    assert own_row(lists([row])) == b""


@pytest.mark.parametrize(
    "listed",
    [lists([]), lists([{}, {}]), lists({}), lists(None), lists("x"), b"{}", b"[]", b"7", b"{"],
)
def test_a_list_that_is_not_of_one_session(listed: bytes) -> None:
    with pytest.raises(Lost, match="not of one session"):
        own_row(listed)
