"""Cursors and budgets: every refusal that is given at once, and what ends a subscription."""

from collections.abc import Iterator
from typing import Any

import pytest

from craze.eventlog import CursorRefused, EventLog, Record, cursors

from .helpers import body, drain, fill, make_log, record, text

SIZE = len(body())


class FileJournal:
    """A journal with a file that holds all but what `missing` is."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self.asked: list[tuple[int, int]] = []
        self.dropped: list[dict[str, Any]] = []

    def event(self, record: Record) -> None:
        pass

    def diag(self, kind: str, fields: dict[str, Any]) -> None:
        self.dropped.append({"kind": kind, **fields})

    def missing(self, low: int, high: int) -> str:
        self.asked.append((low, high))
        return self.reason

    def replay(self, low: int, high: int) -> Iterator[Record]:
        return (record(seq) for seq in range(low, high + 1))

    def close(self) -> None:
        pass


def refused(log: EventLog, after: int, incarnation: str = "I-1", **budget: int) -> str:
    with pytest.raises(CursorRefused) as caught:
        log.subscribe(after, incarnation, wake=lambda: None, **budget)
    assert caught.value.reason in cursors.REASONS
    return caught.value.reason


@pytest.mark.parametrize(("after", "seqs"), [(0, [1, 2, 3]), (2, [3]), (3, [])])
def test_b02_a_cursor_at_or_before_the_head_is_replayed_from_there(
    after: int, seqs: list[int]
) -> None:
    log = make_log()
    fill(log, 3)
    subscription = log.subscribe(after, "I-1", wake=lambda: None)
    assert (subscription.cutoff, subscription.file_range) == (3, None)
    fill(log, 1)
    assert drain(subscription) == [*seqs, 4]


def test_b02_a_cursor_ahead_of_the_head_is_refused() -> None:
    log = make_log()
    assert refused(log, 1) == "future_seq"
    fill(log, 3)
    assert refused(log, 4) == "future_seq"


def test_b03_every_cursor_that_is_refused_at_once() -> None:
    journal = FileJournal()
    log = make_log(ring_events=2, journal=journal)
    fill(log, 5)
    assert refused(log, 3, "I-0") == "foreign_incarnation"
    assert refused(log, 6) == "future_seq"
    assert refused(log, 3, max_bytes=2 * SIZE - 1) == "backlog_too_large"
    assert journal.asked == []
    for reason in ("no_journal", "journal_gap"):
        journal.reason = reason
        assert refused(log, 2) == reason
    assert journal.asked == [(3, 3), (3, 3)]
    bare = make_log(ring_events=2)
    fill(bare, 5)
    assert refused(bare, 2) == "no_journal"
    assert drain(bare.subscribe(3, "I-1", wake=lambda: None)) == [4, 5]


def test_b03_the_order_of_the_refusals() -> None:
    log = make_log(ring_events=2)
    fill(log, 5)
    assert refused(log, 9, "I-0", max_bytes=1) == "foreign_incarnation"
    assert refused(log, 9, max_bytes=1) == "future_seq"
    assert refused(log, 0, max_bytes=1) == "backlog_too_large"
    assert refused(log, 0) == "no_journal"


def test_the_file_gives_what_has_left_the_ring_and_is_not_charged() -> None:
    journal = FileJournal()
    log = make_log(ring_events=2, journal=journal)
    fill(log, 9)
    subscription = log.subscribe(3, "I-1", wake=lambda: None, max_bytes=3 * SIZE)
    assert (subscription.file_range, subscription.cutoff) == ((4, 7), 9)
    fill(log, 1)  # the ring's two and this one: the budget to the byte
    assert [one.seq for one in log.read_file(4, 7)] == [4, 5, 6, 7]
    assert drain(subscription) == [8, 9, 10]


def test_no_cursor_is_live_only_from_the_next_record() -> None:
    log = make_log()
    fill(log, 3)
    subscription = log.subscribe(None, None, wake=lambda: None)
    assert subscription.cutoff == 3
    fill(log, 2)
    assert drain(subscription) == [4, 5]


def test_a_budget_of_items_counts_the_live_records_not_taken() -> None:
    log = make_log()
    fill(log, 5)
    subscription = log.subscribe(0, "I-1", wake=lambda: None, max_items=2)
    fill(log, 2)  # the five of the replay are no items
    assert subscription.ended == ""
    assert [subscription.take().seq for _ in range(6)] == [1, 2, 3, 4, 5, 6]  # type: ignore[union-attr]
    fill(log, 1)  # one was taken, one more fits
    assert subscription.ended == ""
    fill(log, 1)
    assert subscription.ended == "slow_consumer"
    assert subscription.take() is None


def test_a_budget_of_bytes_is_met_to_the_byte() -> None:
    log = make_log()
    exact = log.subscribe(None, None, wake=lambda: None, max_bytes=3 * SIZE)
    short = log.subscribe(None, None, wake=lambda: None, max_bytes=3 * SIZE - 1)
    fill(log, 3)
    assert (exact.ended, short.ended) == ("", "slow_consumer")
    assert drain(exact) == [1, 2, 3]


def test_a_replay_is_charged_until_it_is_taken() -> None:
    log = make_log()
    fill(log, 2)
    subscription = log.subscribe(0, "I-1", wake=lambda: None, max_bytes=2 * SIZE)
    assert subscription.take() is not None
    fill(log, 1)
    assert subscription.ended == ""
    fill(log, 1)
    assert subscription.ended == "slow_consumer"


def test_one_record_over_the_budget_overflows_it_at_once() -> None:
    log = make_log()
    subscription = log.subscribe(None, None, wake=lambda: None, max_bytes=100)
    log.commit(text("x" * 1000))
    assert (subscription.ended, subscription.take()) == ("slow_consumer", None)
    again = log.subscribe(0, "I-1", wake=lambda: None)
    assert drain(again) == [1]


def test_a_reader_that_takes_as_it_is_woken_never_overflows() -> None:
    log = make_log()
    seen: list[int] = []
    subscription = log.subscribe(
        None, None, wake=lambda: seen.extend(drain(subscription)), max_items=1, max_bytes=SIZE
    )
    fill(log, 50)
    assert seen == list(range(1, 51))


def test_b76_a_reader_that_stops_holds_no_more_than_its_budget_and_disturbs_nobody() -> None:
    journal = FileJournal()
    log = make_log(ring_events=4, journal=journal)
    woken: list[int] = []
    stalled = log.subscribe(
        None, None, wake=lambda: woken.append(log.head), max_items=10, max_bytes=1 << 20
    )
    seen: list[int] = []
    other = log.subscribe(None, None, wake=lambda: seen.extend(drain(other)))
    fill(log, 1000)
    assert stalled.ended == "slow_consumer"
    assert woken == list(range(1, 12))  # each record that fitted, and the end: once
    assert journal.dropped == [{"kind": "subscriber_dropped", "seq": 11, "bytes": SIZE}]
    assert seen == list(range(1, 1001))


def test_a_closed_subscription_hears_nothing_more() -> None:
    log = make_log()
    woken: list[int] = []
    subscription = log.subscribe(None, None, wake=lambda: woken.append(log.head))
    fill(log, 1)
    subscription.close()
    fill(log, 2)
    log.close()
    subscription.close()
    assert (woken, subscription.take(), subscription.ended) == ([1], None, "")
