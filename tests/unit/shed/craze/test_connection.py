"""A connection to craze: requests, replies, notifications, noise, and every way it ends."""

import json
from collections.abc import Callable
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze.client.errors import Refused
from craze.wire.limits import CHUNK, INBOUND_LINE, OUTBOUND_LINE
from craze_shed.craze.connection import (
    Backlog,
    Connection,
    Deadline,
    Ended,
    Notice,
    TooLongToSend,
)
from craze_shed.craze.limits import NOTIFICATIONS
from craze_shed.reach import ReachError
from tests.unit.shed.craze.scripting import Wire, settle, until

ASK = 5.0


@pytest.fixture
def peer():
    wire = Wire()
    yield wire
    assert wire.closed, "the stream was left open"


@pytest.fixture
def connect(peer):
    """Makes a connection over `peer`; what it is given are Connection's options."""
    made = []
    yield lambda **options: made.append(Connection(peer, **options)) or made[-1]
    for one in made:
        one.close()


@pytest.fixture
def connection(connect):
    return connect()


class Asked:
    """A request that waits in a greenlet of its own; `outcome` is what it came to."""

    def __init__(self, connection: Connection, method: str = "m", timeout: float = ASK) -> None:
        self.outcome: Any = None
        self._greenlet = greenlets.spawn("asker", self._ask, connection, method, timeout)
        settle()

    def _ask(self, connection: Connection, method: str, timeout: float) -> None:
        try:
            self.outcome = connection.ask(method, {}, timeout)
        except Exception as failure:
            self.outcome = failure

    def result(self) -> Any:
        until(self._greenlet.ready)
        return self.outcome


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def ok(id: Any, **result: Any) -> bytes:
    return line({"jsonrpc": "2.0", "id": id, "result": result})


def over(connection: Connection) -> str:
    """Why it ended."""
    return str(until(lambda: connection.over))


# ---- requests and replies ----


def test_requests_are_lines_with_ids_from_one(connection, peer):
    first, second = Asked(connection, "a"), Asked(connection, "b")
    assert peer.written == (
        b'{"jsonrpc":"2.0","id":"1","method":"a","params":{}}\n'
        b'{"jsonrpc":"2.0","id":"2","method":"b","params":{}}\n'
    )
    peer.feed(ok("2", of="b") + ok("1", of="a"))
    assert (first.result(), second.result()) == ({"of": "a"}, {"of": "b"})


def test_a_refusal_is_read_tolerantly(connection, peer):
    asked = [Asked(connection) for _ in range(3)]
    data = {"code": "unavailable", "reason": "busy", "cause": "c"}
    for id, error in (
        ("1", {"code": -32000, "message": "no", "data": data}),
        ("2", "x"),
        ("3", {}),
    ):
        peer.write(id=id, error=error)
    first, second, third = (one.result() for one in asked)
    assert isinstance(first, Refused)
    assert (first.code, first.reason, first.message, first.cause) == (
        "unavailable",
        "busy",
        "no",
        "c",
    )
    assert isinstance(second, Refused) and second.code == "failed"
    assert isinstance(third, Refused) and third.code == "failed"


def test_a_reply_matches_by_its_very_id_and_one_that_nobody_waits_for_is_dropped(connection, peer):
    asked = Asked(connection)
    peer.feed(ok(1) + ok("9") + ok(["1"]) + ok(True) + ok(1.0))
    settle()
    assert asked.outcome is None and connection.over is None
    peer.feed(ok("1", of="it") + ok("1", of="again"))
    assert asked.result() == {"of": "it"}
    settle()
    assert connection.over is None


def test_a_request_may_be_sent_and_waited_for_later(connection, peer):
    pending = connection.send("a", {})
    peer.feed(ok("1", x=1))
    settle()
    assert pending.result(ASK) == {"x": 1}


@pytest.mark.parametrize("over_by", [0, 1])
def test_the_longest_line(connection, peer, over_by):
    bare = len(b'{"jsonrpc":"2.0","id":"1","method":"a","params":{"t":""}}')
    params = {"t": "x" * (INBOUND_LINE - bare + over_by)}
    if not over_by:
        connection.send("a", params)
        settle()
        assert len(peer.written) == INBOUND_LINE + 1
        return
    with pytest.raises(TooLongToSend) as refused:
        connection.send("a", params)
    assert str(refused.value) == (
        "the request is 4194305 bytes, over craze's 4194304-byte line limit; it was not sent"
    )
    settle()
    assert peer.written == b"" and connection.over is None
    connection.send("a", {})
    settle()
    assert b'"id":"1"' in peer.written


def test_what_has_no_form_is_not_sent(connection, peer):
    with pytest.raises(ValueError, match="Invalid value"):
        connection.send("a", {"t": float("nan")})
    settle()
    assert peer.written == b"" and connection.over is None


def test_a_deadline(connection, peer):
    late = Asked(connection, "session.stop", 0.01).result()
    assert (
        isinstance(late, Deadline) and str(late) == "craze did not answer session.stop within 0.01s"
    )
    assert connection.over is None
    peer.feed(ok("1"))  # which nobody waits for
    assert isinstance(Asked(connection, "b", 0.01).result(), Deadline)
    assert connection.over is None


def test_a_deadline_that_cuts_a_request_in_two_ends_the_connection(connection, peer):
    peer.stuck.clear()
    cut, behind = Asked(connection, "a", 0.01), Asked(connection, "b")
    assert isinstance(cut.result(), Deadline)
    assert over(connection) == "a could not be sent within 0.01s"
    assert isinstance(behind.result(), Ended)
    assert peer.written == b""


def test_a_request_that_waits_behind_another_and_is_given_up_never_leaves(connection, peer):
    peer.stuck.clear()
    connection.send("a", {})
    pending = connection.send("b", {})
    with pytest.raises(Deadline):
        pending.result(0.01)
    assert not pending.sent and connection.over is None
    peer.stuck.set()
    connection.send("c", {})
    settle()
    assert [json.loads(one)["method"] for one in peer.written.splitlines()] == ["a", "c"]


# ---- notifications ----


def test_notifications_come_in_order(connection, peer):
    for number in range(3):
        peer.note("event", seq=number)
    settle()
    assert [connection.next() for _ in range(3)] == [Notice("event", {"seq": n}) for n in range(3)]
    assert connection.next(0) is None


def test_a_wait_for_one_may_be_cut_short(connection, peer):
    woken = []
    waiter = greenlets.spawn("waiter", lambda: woken.append(connection.next()))
    settle()
    connection.wake()
    waiter.join()
    assert woken == [None]
    connection.wake()  # while nobody waits: the next one does not wait
    assert connection.next() is None
    peer.note("event")
    assert connection.next() == Notice("event", {})


def test_what_came_before_the_end_is_taken_first(connection, peer):
    peer.note("event", seq=1)
    peer.end()
    over(connection)
    assert connection.next() == Notice("event", {"seq": 1})
    for _ in range(2):
        with pytest.raises(Ended, match="craze closed the connection"):
            connection.next()


def test_a_backlog_ends_the_connection(connection, peer):
    asked = Asked(connection)
    for number in range(NOTIFICATIONS):
        peer.note("event", seq=number)
    until(lambda: repr(connection) == "<Connection open, 1 waiting, 1024 queued>")
    peer.note("event", seq=NOTIFICATIONS)
    assert over(connection) == "nobody took its notifications"
    assert isinstance(asked.result(), Backlog)
    taken = [connection.next() for _ in range(NOTIFICATIONS)]
    assert [one.params["seq"] for one in taken if one] == list(range(NOTIFICATIONS))
    with pytest.raises(Backlog):
        connection.next()


def test_whoever_keeps_up_gets_a_turn_in_the_midst_of_a_flood(connect, peer):
    connection = connect(queue=8)
    taken = []

    def take():
        while len(taken) < 1000:
            taken.append(connection.next())

    taker = greenlets.spawn("taker", take)
    peer.feed(
        b"".join(line({"jsonrpc": "2.0", "method": "e", "params": {"n": n}}) for n in range(1000))
    )
    taker.join(10)
    assert [one.params["n"] for one in taken] == list(range(1000)) and connection.over is None


# ---- noise ----


def noisy(count: int, size: int) -> bytes:
    """`count` lines of `size` bytes in all, their ends not counted."""
    each, rest = divmod(size, count)
    return b"".join(b"x" * (each + (n < rest)) + b"\n" for n in range(count))


@pytest.mark.parametrize(
    ("noise", "fits"),
    [
        (b"", True),
        (noisy(16, 100), True),
        (noisy(17, 100), False),
        (b"\n" * 16, True),
        (b"\n" * 17, False),
        (noisy(1, 4096), True),
        (noisy(1, 4097), False),
        (noisy(16, 4096), True),
        (noisy(16, 4097), False),
        (b"42\n", True),
        (b'"hi"\n', True),
        (b"[1]\n", True),
        (b"null\ntrue\n", True),
        (b"{}\n", True),  # an object, but nothing of craze's
        (b'{"jsonrpc":"1.0"}\n', True),
        (b"\x1b[31mWelcome\x1b[0m \x07\r\n", True),
        (b"\xff\xfe\n", True),
        (b"Last login: today\r\n\r\n", True),
    ],
)
def test_b34_what_a_login_shell_prints_is_passed_over_within_bounds(connection, peer, noise, fits):
    asked = Asked(connection)
    if noise:
        peer.feed(noise)
    settle()
    peer.feed(ok("1", x=1))
    if fits:
        assert asked.result() == {"x": 1}
        assert connection.noise.lines == [
            one.removesuffix(b"\r") for one in noise.split(b"\n")[:-1]
        ]
    else:
        assert isinstance(asked.result(), Ended)
        assert over(connection) == "too much was printed before craze answered"


@pytest.mark.parametrize("late", [b"noise\n", b"\n", b"42\n", b"[]\n", b"{}\n"])
def test_b34_after_the_first_reply_it_is_a_fault(connection, peer, late):
    peer.feed(ok("nobody's"))
    peer.feed(late)
    assert over(connection)


def test_a_notification_is_no_reply(connection, peer):
    peer.note("event")
    peer.feed(b"noise\n")
    peer.feed(ok("1"))
    settle()
    assert connection.over is None and connection.noise.lines == [b"noise"]


# ---- framing ----


def test_b68_any_chunks_a_byte_at_a_time(connection, peer):
    asked = Asked(connection)
    words = "é漢👩‍👩‍👧‍👦\u2028"
    for byte in (
        b"motd\r\n"
        + ok("1", words=words)
        + line({"jsonrpc": "2.0", "method": "e", "params": {"w": words}})
    ):
        peer.feed(bytes([byte]))
    assert asked.result() == {"words": words}
    assert connection.next(ASK) == Notice("e", {"w": words})


def test_lines_may_end_in_crlf_and_the_last_in_nothing(connection, peer):
    first, last = Asked(connection), Asked(connection)
    peer.feed(ok("1", n=1).replace(b"\n", b"\r\n") + ok("2", n=2).rstrip(b"\n"))
    peer.end()
    assert (first.result(), last.result()) == ({"n": 1}, {"n": 2})
    assert over(connection) == "craze closed the connection"


def test_noise_without_a_newline_counts_at_the_end(connection, peer):
    peer.feed(b"No such shell")
    peer.end()
    assert over(connection) == "craze closed the connection"
    assert connection.noise.lines == [b"No such shell"]


def test_the_longest_line_that_is_read(connection, peer):
    asked = Asked(connection)
    bare = len(ok("1", t="")) - 1
    peer.feed(ok("1", t="x" * (OUTBOUND_LINE - bare)))
    assert len(asked.result()["t"]) == OUTBOUND_LINE - bare
    peer.feed(ok("2", t="x" * (OUTBOUND_LINE - bare + 1)))
    assert over(connection) == "a line of over 16777216 bytes"


def test_b65_a_line_that_never_ends_ends_the_connection(connection, peer):
    fed = 0
    while connection.over is None:
        peer.feed(b"x" * CHUNK)
        fed += CHUNK
        settle()
        assert fed <= OUTBOUND_LINE + 4 * CHUNK
    assert over(connection) == "a line of over 16777216 bytes"


# ---- faults ----


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"id": "1", "result": {}}, "a message that is not JSON-RPC 2.0"),
        ({"jsonrpc": "1.0", "id": "1", "result": {}}, "a message that is not JSON-RPC 2.0"),
        (
            {"jsonrpc": "2.0", "id": "1", "result": {}, "error": {}},
            "a message that is neither a reply nor a notification",
        ),
        ({"jsonrpc": "2.0"}, "a message that is neither a reply nor a notification"),
        ({"jsonrpc": "2.0", "id": "1"}, "a message that is neither a reply nor a notification"),
        ({"jsonrpc": "2.0", "result": {}}, "an answer to no request: refused (failed)"),
        (
            {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"message": "not JSON", "data": {"code": "bad_request"}},
            },
            "an answer to no request: not JSON (bad_request)",
        ),
        ({"jsonrpc": "2.0", "id": 5, "method": "m", "params": {}}, "a request from craze"),
        ({"jsonrpc": "2.0", "method": "m", "result": {}}, "a request from craze"),
        ({"jsonrpc": "2.0", "method": 5, "params": {}}, "a notification without its params"),
        ({"jsonrpc": "2.0", "method": "m", "params": []}, "a notification without its params"),
        ({"jsonrpc": "2.0", "id": "1", "result": 5}, "a result that is no object"),
    ],
)
def test_what_no_craze_says_ends_the_connection(connection, peer, message, why):
    asked = Asked(connection)
    peer.feed(ok("nobody's"))
    peer.feed(line(message))
    assert isinstance(asked.result(), Ended)
    assert over(connection) == why


# ---- ends ----


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda peer: peer.end(), "craze closed the connection"),
        (lambda peer: peer.fail(ReachError("the link broke")), "the link broke"),
        (lambda peer: peer.fail(ConnectionResetError(104, "Connection reset by peer")),
         "Connection reset by peer"),
    ],
)  # fmt: skip
def test_every_end_fails_whoever_waits(connection, peer, end: Callable[[Wire], None], why: str):
    asked = [Asked(connection) for _ in range(2)]
    waiting = []

    def wait():
        try:
            connection.next()
        except Ended as ended:
            waiting.append(str(ended))

    waiter = greenlets.spawn("waiter", wait)
    settle()
    end(peer)
    assert [str(one.result()) for one in asked] == [why, why]
    waiter.join(ASK)
    assert waiting == [why] and peer.closed
    with pytest.raises(Ended, match=why):
        connection.send("late", {})


def test_a_peer_that_reads_no_more_ends_it(connection, peer):
    peer.end()
    assert isinstance(Asked(connection).result(), Ended)
    assert peer.closed


def test_the_first_reason_counts(connection, peer):
    connection.close("the first")
    connection.close("the second")
    peer.end()
    settle()
    assert over(connection) == "the first"
    assert repr(connection) == "<Connection over: the first, 0 waiting, 0 queued>"


def test_closing_lets_go_though_its_caller_is_cut_off(connection, peer):
    peer.stuck.clear()
    connection.send("a", {})
    settle()
    closer = greenlets.spawn("closer", connection.close)
    gevent.sleep(0)
    closer.kill()
    assert peer.closed


def test_a_fault_of_ours_ends_it_and_is_heard(connection, peer, capsys):
    peer.fail(ZeroDivisionError("a bug"))
    assert over(connection) == "shed failed: ZeroDivisionError('a bug')"
    settle()
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err


def test_b57_a_callers_own_timeout_leaves_the_connection_usable(connection, peer):
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.01):
        connection.ask("a", {}, ASK)
    assert connection.over is None
    asked = Asked(connection, "b")
    peer.feed(ok("1") + ok("2", x=1))
    assert asked.result() == {"x": 1}
