"""The poll: whom it asks, when, and what it believes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.hub.bounds import Bounds
from craze.hub.poll import NAME, Poll
from craze.hub.roster import CONNECTING, REACHABLE, UNREACHABLE, Roster
from craze.machine import registry
from craze.machine.paths import Paths
from craze.wire import json
from craze.wire.codes import Refusal
from tests.unit.hub.hosting import A, B, C, Host, StepClock, until

Listed = Callable[..., Host]
ROUND = 0.02


class Polling:
    """A poll of a machine's hosts into a roster."""

    def __init__(self, paths: Paths, clock: StepClock, **bounds: float) -> None:
        self.clock = clock
        self.bounds = Bounds(**{"round": ROUND, **bounds})  # type: ignore[arg-type]
        self.roster = Roster(self.bounds.fresh)
        self.changes = 0
        self.said: list[str] = []
        self.failures: list[BaseException] = []
        self.poll = Poll(
            paths,
            self.roster,
            clock,
            changed=self._changed,
            report=self.said.append,
            failed=self.failures.append,
            bounds=self.bounds,
        )

    def _changed(self) -> None:
        self.changes += 1

    def list(self) -> dict[str, Any]:
        """What a `sessions.list` would say, by host id."""
        with self.poll.wanted():
            self.poll.wait()
            return self.rows()

    def rows(self) -> dict[str, Any]:
        return {id: json.loads(line) for id, line in self.roster.view().rows.items()}

    def statuses(self) -> dict[str, str]:
        return {id: row["status"] for id, row in self.rows().items()}

    def a_round(self, host: Host) -> None:
        """Wait until the host was asked once more, and what it said was taken."""
        asked = host.asked
        until(lambda: host.asked > asked)
        asked = host.asked
        until(lambda: host.asked > asked)


@pytest.fixture
def polling(paths: Paths, clock: StepClock) -> Iterator[Callable[..., Polling]]:
    made: list[Polling] = []

    def make(**bounds: float) -> Polling:
        made.append(Polling(paths, clock, **bounds))
        return made[-1]

    yield make
    for each in made:
        each.poll.close()
        assert not each.failures


def spoil(paths: Paths, id: str) -> None:
    """Make the entry of a host unreadable, for root as well."""
    spoilt = Path(paths.home, "spoilt")
    spoilt.write_text("{")
    spoilt.rename(paths.entry(id))


# ---- who is asked, and when ----


def test_nothing_is_asked_before_somebody_wants_the_roster(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling()
    gevent.sleep(5 * ROUND)
    assert (host.dialled, host.asked, poll.roster.cursor) == (0, 0, 0)


def test_no_hosts_are_no_rows(polling: Callable[..., Polling]) -> None:
    poll = polling()
    assert poll.list() == {}
    assert poll.roster.cursor == 0


def test_a_list_hears_from_every_host_first(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    hosts = [listed(id) for id in (B, A, C)]
    poll = polling()
    rows = poll.list()
    assert list(rows) == [A, B, C]
    assert {row["status"] for row in rows.values()} == {REACHABLE}
    assert rows[A]["row"] == hosts[1].row
    assert rows[A]["host"]["crazeVersion"] == "1.2.3"
    assert [host.greeting["client"] for host in hosts] == [{"kind": "hub", "name": NAME}] * 3
    assert poll.roster.cursor == 6
    assert poll.changes > 0


def test_asking_goes_on_for_as_long_as_somebody_wants_the_roster(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling()
    poll.poll.want()
    poll.poll.want()
    poll.poll.unwant()
    poll.a_round(host)
    poll.poll.unwant()
    until(lambda: not host.asking)
    gevent.sleep(2 * ROUND)
    asked = host.asked
    gevent.sleep(5 * ROUND)
    assert host.asked == asked
    assert host.dialled == 1  # one connection, kept from round to round


def test_a_list_of_a_hub_at_rest_is_of_a_round_of_its_own(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling(round=60)
    poll.list()
    host.row = host.row | {"title": "new"}
    assert poll.list()[A]["row"]["title"] == "new"


def test_connections_are_let_go_of_once_nobody_has_asked_for_a_while(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling(fresh=0.05)
    poll.list()
    assert len(host._open) == 1
    until(lambda: not host._open)
    poll.list()
    assert host.dialled == 2


def test_eight_are_asked_at_once(polling: Callable[..., Polling], listed: Listed) -> None:
    hosts = [listed(f"{number:012x}") for number in range(20)]
    at_once = most = 0

    def says(host: Host) -> Callable[[dict[str, Any]], list[bytes]]:
        def answer(request: dict[str, Any]) -> list[bytes]:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            gevent.sleep(0.02)
            at_once -= 1
            return host._answer(request)

        return answer

    for host in hosts:
        host.says = says(host)
    assert set(polling(wait=60).list()) == {host.id for host in hosts}
    assert most == 8


def test_a_silent_host_costs_its_own_time_and_nobody_elses(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    silent, others = listed(A), [listed(B), listed(C)]
    silent.says = lambda _: []
    poll = polling(host=1, wait=5)
    poll.poll.want()
    until(lambda: poll.statuses() == {A: CONNECTING, B: REACHABLE, C: REACHABLE})
    poll.poll.wait()
    assert poll.statuses()[A] == UNREACHABLE
    assert [host.asked for host in others] == [1, 1]


def test_a_host_that_was_not_heard_from_in_time_is_connecting(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    silent, other = listed(A), listed(B)
    silent.says = lambda _: []
    poll = polling(host=60, wait=0.1)
    poll.poll.want()
    until(lambda: poll.statuses().get(B) == REACHABLE)
    rows = poll.list()
    poll.poll.unwant()
    assert {id: row["status"] for id, row in rows.items()} == {A: CONNECTING, B: REACHABLE}
    assert (rows[A]["approximate"], "row" in rows[A], other.asked) == (True, False, 1)


def test_a_slow_answer_is_bounded_as_a_whole(
    polling: Callable[..., Polling], listed: Listed, clock: StepClock
) -> None:
    slow = listed(A)
    slow.slow = 0.15  # the hello, and again the list: each within the bound, not both
    clock.passes = True
    poll = polling(host=0.2, wait=5)
    assert poll.list()[A]["status"] == UNREACHABLE


# ---- hosts that fail ----


def test_a_host_that_fails_is_tried_again_after_one_second_then_two_up_to_thirty(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host = listed(A)
    host.says = lambda request: [b"nonsense\n"]
    poll = polling()

    def tried(times: int) -> bool:
        return host.dialled == times and not host._open

    poll.poll.want()
    for times, pause in enumerate((1, 2, 4, 8, 16, 30, 30), 1):
        until(lambda times=times: tried(times))  # type: ignore[misc]
        poll.clock.at += pause - 0.001
        gevent.sleep(5 * ROUND)
        assert tried(times)
        poll.clock.at += 0.001
    until(lambda: tried(8))
    host.says = None
    poll.clock.at += 30
    until(lambda: poll.statuses()[A] == REACHABLE)
    host.says = lambda request: [b"nonsense\n"]
    until(lambda: poll.statuses()[A] == UNREACHABLE)
    tries = host.dialled
    poll.clock.at += 1  # from the beginning again
    until(lambda: host.dialled > tries)
    poll.poll.unwant()


def test_a_host_that_failed_is_listed_all_the_while_with_what_it_said(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling()
    poll.list()
    host.deaf()
    row = poll.list()[A]
    assert (row["status"], row["approximate"], row["row"]) == (UNREACHABLE, True, host.row)
    before = poll.roster.cursor
    assert poll.list()[A] == row
    assert poll.roster.cursor == before


def test_a_kept_connection_that_ended_is_dialled_again_within_the_round(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling()
    poll.list()
    host.hang_up()
    assert poll.list()[A]["status"] == REACHABLE
    assert host.dialled == 2


def test_a_host_that_refuses_is_unreachable_and_dialled_anew(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling()
    poll.list()
    host.says = lambda request: [
        json.dumps({"id": request["id"], "error": {"code": -1, "message": "", "data": {}}}) + b"\n"
    ]
    assert poll.list()[A]["status"] == UNREACHABLE
    host.says = None
    poll.clock.at += 1
    assert poll.list()[A]["status"] == REACHABLE
    assert host.dialled == 2


def test_those_that_failed_before_are_asked_last(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    bad = [listed(f"{number:012x}") for number in range(8)]
    for host in bad:
        host.says = lambda _: []
    good = listed(A)
    poll = polling(host=0.5, wait=5)
    poll.list()
    poll.clock.at += 1
    asked = good.asked
    poll.poll.want()
    until(lambda: any(host.dialled == 2 for host in bad))
    assert good.asked == asked + 1
    poll.poll.unwant()


def test_a_row_that_is_no_object_is_no_row(polling: Callable[..., Polling], listed: Listed) -> None:
    host, poll = listed(A), polling()
    host.row = [1]
    row = poll.list()[A]
    assert (row["status"], row["approximate"], "row" in row) == (REACHABLE, True, False)


def test_a_row_that_is_too_large_is_none_of_the_hubs_bounds(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling(host=5, wait=5)
    host.row = host.row | {"title": "x" * (8 << 20)}
    row = poll.list()[A]
    assert (row["status"], row["approximate"], "row" in row) == (REACHABLE, True, False)


# ---- hosts that end ----


def test_b24_a_dead_host_leaves_within_a_round_and_is_swept(
    polling: Callable[..., Polling], listed: Listed, paths: Paths
) -> None:
    host, other, poll = listed(A), listed(B), polling()
    poll.poll.want()
    poll.poll.wait()
    assert set(poll.rows()) == {A, B}
    host.deaf()
    host.listing._lock.release()  # what a kill -9 does, to the last byte
    until(lambda: set(poll.rows()) == {B})
    assert sorted(os.listdir(paths.hosts)) == [f"{B}.json", f"{B}.lock"]
    assert poll.roster.cursor > 4
    poll.poll.unwant()
    assert other.asked


def test_a_host_that_is_stopping_is_not_listed_though_it_answers(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling()
    host.listing.update(stopping=True)
    assert poll.list() == {}
    assert host.dialled == 0
    assert poll.roster.cursor == 0


@pytest.mark.parametrize("answers", [True, False])
def test_a_host_that_is_marked_while_it_is_asked_is_dropped_for_what_it_says(
    polling: Callable[..., Polling], listed: Listed, answers: bool
) -> None:
    host, poll = listed(A), polling()
    poll.list()
    row = host.row

    def marks(request: dict[str, Any]) -> list[bytes]:
        host.row = row | {"activity": "closing"}
        host.listing.update(stopping=True)
        return host._answer(request) if answers else [b"nonsense\n"]

    host.says = marks
    assert poll.list() == {}
    until(lambda: not host._open)  # the connection went with it


def test_a_host_that_unlisted_itself_while_it_was_asked_is_dropped(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling()
    poll.list()

    def leaves(request: dict[str, Any]) -> list[bytes]:
        host.listing.unlist()
        return host._answer(request)

    host.says = leaves
    assert poll.list() == {}


@pytest.mark.parametrize("then", ["unmarked", "unreadable", "unreadable, then unmarked"])
def test_a_host_that_was_stopping_is_dropped_for_good(
    polling: Callable[..., Polling], listed: Listed, paths: Paths, then: str
) -> None:
    host, poll = listed(A), polling()
    poll.list()
    host.listing.update(stopping=True)
    assert poll.list() == {}
    if "unreadable" in then:
        spoil(paths, A)
        assert poll.list() == {}
    if "unmarked" in then:
        host.listing.update(stopping=False)
        assert poll.list() == {}
    poll.poll.seen(host.listing.entry._replace(stopping=False), "1", b"{}")
    assert poll.rows() == {}


def test_an_id_that_was_gone_from_the_registry_is_a_new_host(
    polling: Callable[..., Polling], listed: Listed
) -> None:
    host, poll = listed(A), polling()
    host.listing.update(stopping=True)
    assert poll.list() == {}
    host.close()
    assert poll.list() == {}
    listed(A)
    assert poll.list()[A]["status"] == REACHABLE


def test_b27_a_pid_decides_nothing(polling: Callable[..., Polling], listed: Listed) -> None:
    poll = polling()
    for id, pid in ((A, 1), (B, 2**22 + 1)):
        listed(id, pid=pid)
    assert {id: row["host"]["pid"] for id, row in poll.list().items()} == {A: 1, B: 2**22 + 1}


# ---- what cannot be read ----


def test_an_entry_that_cannot_be_read_keeps_its_host_as_it_stood(
    polling: Callable[..., Polling], listed: Listed, paths: Paths
) -> None:
    host, poll = listed(A), polling()
    row = poll.list()[A]
    spoil(paths, A)
    asked = host.asked
    assert poll.list()[A] == row
    assert host.asked == asked
    poll.clock.at += 10
    assert poll.list()[A] == row | {"approximate": True}
    host.listing.update(ready=True)
    assert poll.list()[A] == row


def test_an_entry_that_cannot_be_read_back_keeps_its_host_as_it_stood(
    polling: Callable[..., Polling], listed: Listed, paths: Paths
) -> None:
    host, poll = listed(A), polling()
    row = poll.list()[A]

    def spoils(request: dict[str, Any]) -> list[bytes]:
        spoil(paths, A)
        host.row = {"sessionId": host.session, "title": "never taken"}
        return host._answer(request)

    host.says = spoils
    assert poll.list()[A] == row


def test_a_registry_that_cannot_be_read_refuses_and_is_said_once_a_minute(
    polling: Callable[..., Polling], listed: Listed, paths: Paths
) -> None:
    listed(A)
    poll = polling()
    os.chmod(paths.hosts, 0o755)
    for _ in range(3):
        with pytest.raises(Refusal) as refusal:
            poll.list()
        assert refusal.value.reason == "host_unreachable"
    assert len(poll.said) == 1 and "0700 is required" in poll.said[0]
    poll.clock.at += 60
    with pytest.raises(Refusal):
        poll.list()
    assert len(poll.said) == 2
    os.chmod(paths.hosts, 0o700)
    assert set(poll.list()) == {A}


def test_a_registry_that_cannot_be_read_changes_no_row_but_its_age(
    polling: Callable[..., Polling], listed: Listed, paths: Paths
) -> None:
    host, poll = listed(A), polling()
    poll.poll.want()
    poll.poll.wait()
    row = poll.rows()[A]
    os.chmod(paths.hosts, 0o755)
    until(lambda: poll.said)
    asked = host.asked
    gevent.sleep(3 * ROUND)
    assert (poll.rows()[A], host.asked) == (row, asked)
    poll.clock.at += 3.1
    until(lambda: poll.rows()[A] == row | {"approximate": True})
    with pytest.raises(Refusal):
        poll.poll.wait()
    os.chmod(paths.hosts, 0o700)
    until(lambda: poll.rows()[A] == row)
    poll.poll.wait()
    poll.poll.unwant()


# ---- what others read ----


def test_what_a_create_has_just_read_is_taken(
    polling: Callable[..., Polling], listed: Listed, paths: Paths
) -> None:
    host, poll = listed(A), polling()
    entry = registry.read(paths, A)
    poll.poll.seen(entry, "9", b'{"sessionId":"s"}')
    assert poll.rows()[A]["row"] == {"sessionId": "s"}
    assert (poll.changes, poll.roster.cursor, host.dialled) == (1, 1, 0)
    poll.poll.seen(entry._replace(crazeSessionId=""), "9", b"{}")
    assert poll.roster.cursor == 1


def test_what_a_create_read_of_a_host_that_is_gone_is_never_answered(
    polling: Callable[..., Polling], listed: Listed, paths: Paths
) -> None:
    host, poll = listed(A), polling()
    entry = registry.read(paths, A)
    host.close()
    poll.poll.seen(entry, "9", b"{}")
    assert poll.list() == {}
