"""A roster subscription, by itself and on a connection: what is told, and when it ends."""

import json
import os
import socket as names
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest
from gevent.event import Event

from craze.hub.roster import Roster
from craze.hub.subscription import Subscription
from craze.machine.registry import Entry
from craze.wire import schema
from craze.wire.limits import ROSTER_ROWS
from tests.unit.hub.hosting import A, B, C, Client, Served, until

ROW = b'{"sessionId":"s-1"}'
FLUSH = 0.02
Serve = Callable[..., Served]


def entry(id: str, **members: Any) -> Entry:
    return Entry(1, id, 7, "2026-01-01T00:00:00Z", "/s", crazeSessionId="s-1", **members)


class Told:
    """A subscription and the lines of its client, which may be slow."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.lines: list[Any] = []
        self.behind = False
        self.reads = Event()
        self.reads.set()
        self.over = 0
        self.failures: list[BaseException] = []
        self.subscription = Subscription(
            "r-1",
            "0a1b2c3d4e5f",
            roster,
            roster.view(),
            tell=self._tell,
            ended=self._ended,
            failed=self.failures.append,
            flush=FLUSH,
        )

    def _tell(self, compose: Callable[[], bytes], reset: bytes) -> bool:
        self.reads.wait()
        for line in (compose(), reset if self.behind else b""):
            if line:
                self.lines.append(json.loads(line))
                schema.check_line(self.lines[-1], {})
        return not self.behind

    def _ended(self) -> None:
        self.over += 1

    def change(self, id: str, title: str, now: float = 0) -> None:
        """A host says something new."""
        self.roster.read(entry(id), "1", b'{"title":"%b"}' % title.encode(), now)
        self.subscription.moved()

    def drop(self, id: str) -> None:
        self.roster.drop(id)
        self.subscription.moved()

    def take(self) -> list[tuple[int, list[tuple[str, str]], list[str]]]:
        """Cursor, upserts by id and title, and removes of each notification so far."""
        lines, self.lines = self.lines, []
        return [
            (
                line["params"]["cursor"],
                [(row["hostId"], row["row"]["title"]) for row in line["params"]["upserts"]],
                line["params"]["removes"],
            )
            for line in lines
        ]


@pytest.fixture
def told() -> Iterator[Told]:
    roster = Roster()
    made = Told(roster)
    yield made
    made.subscription.close()
    assert not made.failures


def settle() -> None:
    """Let everything that is due be told."""
    gevent.sleep(4 * FLUSH)


# ---- what is told ----


def test_a_notification_is_as_the_tables_say_byte_for_byte(told: Told) -> None:
    told.subscription._view = told.roster.view()
    told.roster.read(entry(B), "1", ROW, 0)
    line = told.subscription._compose()
    row = told.roster.view().rows[B]
    assert line == (
        b'{"jsonrpc":"2.0","method":"roster","params":{"subscription":"r-1",'
        b'"epoch":"0a1b2c3d4e5f","cursor":1,"upserts":[' + row + b'],"removes":[]}}\n'
    )
    told.roster.drop(B)
    assert told.subscription._compose() == (
        b'{"jsonrpc":"2.0","method":"roster","params":{"subscription":"r-1",'
        b'"epoch":"0a1b2c3d4e5f","cursor":2,"upserts":[],"removes":["bbbbbbbbbbbb"]}}\n'
    )
    assert told.subscription._compose() == b""


def test_a_change_is_told_at_once_and_the_next_after_the_flush(told: Told) -> None:
    told.change(A, "1")
    until(lambda: told.lines)
    told.change(A, "2")
    gevent.sleep(0)
    told.change(A, "3")
    settle()
    assert told.take() == [(1, [(A, "1")], []), (3, [(A, "3")], [])]


def test_what_comes_together_is_told_together_in_host_id_order(told: Told) -> None:
    told.change(C, "1")
    until(lambda: told.lines)
    told.take()
    for id in (B, A):
        told.change(id, "1")
    told.drop(C)
    settle()
    assert told.take() == [(4, [(A, "1"), (B, "1")], [C])]


def test_a_host_that_came_and_went_is_in_neither_list(told: Told) -> None:
    told.change(A, "1")
    until(lambda: told.lines)
    told.take()
    told.change(B, "1")
    told.drop(B)
    settle()
    assert told.take() == []
    told.change(A, "2")
    settle()
    assert told.take() == [(4, [(A, "2")], [])]


def test_a_host_that_went_and_came_is_an_upsert_alone(told: Told) -> None:
    told.change(A, "1")
    until(lambda: told.lines)
    told.take()
    told.drop(A)
    told.change(A, "2")
    settle()
    assert told.take() == [(3, [(A, "2")], [])]


def test_what_changed_back_is_not_told(told: Told) -> None:
    told.change(A, "1")
    until(lambda: told.lines)
    told.take()
    told.change(A, "2")
    told.change(A, "1")
    settle()
    assert told.take() == []


def test_a_slow_client_is_told_the_latest_when_it_reads(told: Told) -> None:
    told.reads.clear()
    for title in "123":
        told.change(A, title)
        gevent.sleep(0)
    told.reads.set()
    settle()
    assert told.take() == [(3, [(A, "3")], [])]


def test_another_line_that_told_the_roster_is_the_base_from_then_on(told: Told) -> None:
    told.change(A, "1")
    until(lambda: told.lines)
    told.take()
    told.change(B, "1")
    told.subscription.told(told.roster.view())  # before the flush is due
    settle()
    assert told.take() == []
    told.change(A, "2")
    settle()
    assert told.take() == [(3, [(A, "2")], [])]


# ---- how it ends ----


def test_a_client_that_fell_behind_ends_it(told: Told) -> None:
    told.behind = True
    told.change(A, "1")
    until(lambda: told.over)
    assert [line["method"] for line in told.lines] == ["roster", "reset"]
    assert told.lines[1]["params"] == {"subscription": "r-1", "reason": "slow_consumer"}
    told.change(A, "2")
    settle()
    assert (len(told.lines), told.over) == (2, 1)


@pytest.mark.parametrize("over", [True, False])
def test_a_roster_that_changes_its_completeness_ends_it(over: bool) -> None:
    roster = Roster()
    for number in range(ROSTER_ROWS + (0 if over else 1)):
        roster.listed(entry(f"{number:012x}"), 0)
    told = Told(roster)
    told.change("000000000000", "1")
    until(lambda: told.lines)
    told.take()
    if over:
        told.change(A, "1")
    else:
        told.drop("000000000000")
    until(lambda: told.over)
    assert told.lines == [
        {
            "jsonrpc": "2.0",
            "method": "reset",
            "params": {"subscription": "r-1", "reason": "omitted"},
        }
    ]


def test_a_roster_that_is_whole_again_before_it_was_told_goes_on() -> None:
    roster = Roster()
    for number in range(ROSTER_ROWS):
        roster.listed(entry(f"{number:012x}"), 0)
    told = Told(roster)
    told.reads.clear()
    told.change(A, "1")
    told.drop(A)
    told.reads.set()
    settle()
    assert (told.lines, told.over) == ([], 0)
    told.subscription.close()


# ---- on a connection ----


def subscribed(served: Served) -> Client:
    client = served.client()
    assert client.call("sessions.subscribe")["subscription"] == "r-1"
    return client


def change(served: Served, id: str, title: str, *, told: bool = True) -> None:
    """A host of the hub says something new; with `told`, the hub's connections hear of it."""
    served.hub.roster.read(entry(id), "1", b'{"title":"%b"}' % title.encode(), 1000)
    if told:
        served.hub._moved()


@pytest.fixture
def still(serve: Serve) -> Callable[..., Served]:
    """Makes a hub whose roster changes only as a test has it change."""

    def make(**bounds: float) -> Served:
        served = serve(**{"round": 3600, "flush": FLUSH, **bounds})
        served.hub.poll.want()  # so that no list begins a round of its own
        served.hub.poll.wait()
        return served

    return make


def test_a_list_on_a_connection_that_is_subscribed_is_its_base(
    still: Callable[..., Served],
) -> None:
    served = still()
    client = subscribed(served)
    change(served, A, "1", told=False)
    assert client.call("sessions.list")["cursor"] == 1
    served.hub._moved()
    settle()
    change(served, A, "2")
    assert client.read()["params"]["cursor"] == 2


def test_a_cursor_of_one_connection_never_goes_back(still: Callable[..., Served]) -> None:
    served = still(flush=0)
    client = subscribed(served)

    def changing() -> None:
        for number in range(300):
            change(served, A, str(number))
            gevent.sleep(0)

    worker = gevent.spawn(changing)
    last = lists = told = 0
    while not worker.dead or last < 300:
        number = client.send("sessions.list")
        while True:
            line = client.read()
            document = line.get("params") or line["result"]
            assert document["cursor"] >= last
            last = document["cursor"]
            if line.get("id") == number:
                lists += 1
                break
            told += 1
    assert last == 300 and lists > 1 and told > 1


def fill(served: Served) -> None:
    """Have the roster be more than a socket holds."""
    for number in range(100):
        id = f"{number:012x}"
        served.hub.roster.read(entry(id), "1", b'{"title":"%b"}' % (b"x" * 15_000), 1000)
    served.hub._moved()


def test_b76_a_client_that_does_not_read_is_reset_and_disturbs_nobody(
    still: Callable[..., Served],
) -> None:
    served = still(write=0.2)
    slow = subscribed(served)
    (connection,) = served.hub.connections
    write, writes = connection._write, []

    def counted(line: Any) -> Any:  # what is written once the bound is past has a longer one
        writes.append(line)
        if len(writes) > 1:
            served.hub.bounds = served.hub.bounds._replace(write=60)
        return write(line)

    connection._write = counted  # type: ignore[method-assign]
    other = subscribed(served)
    fill(served)
    assert len(other.read()["params"]["upserts"]) == 100
    change(served, A, "while it is written to")
    assert other.read()["params"]["upserts"][0]["hostId"] == A
    until(lambda: len(writes) > 1)
    first = slow.read()
    assert first["method"] == "roster" and len(first["params"]["upserts"]) == 100
    assert slow.read()["params"] == {"subscription": "r-1", "reason": "slow_consumer"}
    # The connection stays, and may subscribe again.
    again = slow.call("sessions.subscribe")
    assert again["subscription"] == "r-2" and len(again["sessions"]) == 101
    change(served, A, "told again")
    assert slow.read()["params"]["subscription"] == "r-2"


def test_a_reset_that_is_not_read_either_closes_the_connection(
    still: Callable[..., Served],
) -> None:
    served = still(write=0.05)
    subscribed(served)
    fill(served)
    until(lambda: not served.hub.connections)
    assert served.hub.poll._wanted == 1


def test_a_reply_that_is_not_read_closes_the_connection(still: Callable[..., Served]) -> None:
    served = still(write=0.05)
    fill(served)
    client = served.client()
    client.send("sessions.list")
    until(lambda: not served.hub.connections)


def test_a_subscription_that_could_not_be_told_subscribes_to_nothing(
    still: Callable[..., Served],
) -> None:
    served = still()
    for number in range(ROSTER_ROWS - 20):
        wide = entry(f"{number:012x}", workspace="\x01" * 2500)
        served.hub.roster.read(wide, "1", b'{"title":"%b"}' % (b"x" * 15_000), 1000)
    client = served.client()
    whole = 16 * 1024 * 1024 - len(json.dumps(client.call("sessions.list"), separators=(",", ":")))
    assert 0 < whole < 4 * 1024 * 1024  # what is left of a line; a request may be that long
    for size, fits in ((whole, False), (1024, True)):
        id = "x" * size
        client.write({"jsonrpc": "2.0", "id": id, "method": "sessions.subscribe"})
        line = client.read()
        assert (line["id"] == id, "result" in line) == (True, fits)
        if not fits:
            assert line["error"]["data"] == {"code": "failed", "reason": "response_too_large"}
            assert served.hub.poll._wanted == 1
    assert line["result"]["subscription"] == "r-1"


def test_a_client_that_leaves_leaves_nothing(still: Callable[..., Served]) -> None:
    served = still()
    client = subscribed(served)
    assert served.hub.poll._wanted == 2
    client.sock.close()
    until(lambda: not served.hub.connections)
    assert served.hub.poll._wanted == 1


def test_a_hub_that_closes_resets_every_subscription_and_ends_the_connection(
    still: Callable[..., Served],
) -> None:
    served = still()
    clients = [subscribed(served) for _ in range(3)]
    plain = served.client()
    change(served, A, "1")
    for client in clients:
        client.read()
    change(served, A, "2")  # which is due only after the flush
    closing = gevent.spawn(served.hub.close)
    for client in clients:
        lines = []
        while (line := client.read()) is not None:
            lines.append(line)
        assert lines[-1]["params"] == {"subscription": "r-1", "reason": "hub_closing"}
        assert [line["method"] for line in lines[:-1]] in ([], ["roster"])
    assert plain.ended()
    closing.get()


def test_a_hub_that_closes_waits_for_no_reader(still: Callable[..., Served]) -> None:
    served = still(farewell=0.05, write=60)
    stuck, deaf = subscribed(served), subscribed(served)
    deaf.sock.shutdown(names.SHUT_RD)  # it takes no more, and has not left
    fill(served)
    gevent.sleep(0.05)
    with gevent.Timeout(10):
        served.hub.close()
    assert not served.hub.connections
    assert stuck.sock.fileno() >= 0 and os.path.exists(served.path)
