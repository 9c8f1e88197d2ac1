"""The log's commits: numbering, time, bytes, the order of what a commit does, omitted records."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.clock import ManualClock
from craze.eventlog import Record, ReplayFailed, Subscription
from craze.eventlog.ring import Ring
from craze.eventlog.stamp import Stamper
from craze.wire import json
from craze.wire.times import format_time

from .helpers import START, body, drain, fill, make_log, record, text


class NotedJournal:
    """A journal that notes what it is told."""

    def __init__(self, told: list[Any]) -> None:
        self.told = told

    def event(self, record: Record) -> None:
        self.told.append(("journal", record.seq))

    def diag(self, kind: str, fields: dict[str, Any]) -> None:
        self.told.append((kind, fields))

    def close(self) -> None:
        self.told.append("closed")


def test_seqs_start_at_one_and_have_no_gaps() -> None:
    log = make_log()
    assert [log.commit(text()) for _ in range(3)] == [1, 2, 3]
    assert log.head == 3


def test_an_event_is_stamped_last_and_encoded_as_it_stands() -> None:
    clock = ManualClock(START)
    log = make_log(clock=clock)
    subscription = log.subscribe(None, None, wake=lambda: None)
    event = text("é\u2028")
    clock.advance(120_000_000)
    log.commit(event)
    assert list(event) == ["type", "text", "at"]
    taken = subscription.take()
    assert taken is not None
    assert taken.body == (
        '{"type":"text","text":"é\\u2028","at":"2026-01-01T00:00:00.12Z"}'.encode()
    )
    assert (taken.seq, taken.type, taken.at, taken.size) == (
        1, "text", "2026-01-01T00:00:00.12Z", len(taken.body),
    )  # fmt: skip


def test_a_record_s_line_is_the_whole_notification_and_shared() -> None:
    one = record(7)
    assert one.line("s-1") == (
        b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"s-1","seq":7,"event":'
        + body()
        + b"}}\n"
    )
    assert one.line("s-1") is one.line("s-1")
    assert b'"subscription":"s-12"' in one.line("s-12")
    assert b'"subscription":"s-1",' in one.line("s-1")


def test_only_the_record_that_is_handed_round_keeps_its_line() -> None:
    one, two = record(7), record(8)
    line = one.line("s-1")
    assert one.line("s-1") is line
    two.line("s-1")
    assert one.line("s-1") == line
    assert one.line("s-1") is not line


def test_what_an_owner_takes_at_once_never_counts_and_wakes_nobody() -> None:
    log = make_log()
    taken: list[int] = []
    woken: list[bool] = []

    def deliver(record: Record) -> bool:
        if record.seq > 3:
            return False
        taken.append(record.seq)
        return True

    subscription = log.subscribe(
        None, None, max_items=2, wake=lambda: woken.append(True), deliver=deliver
    )
    fill(log, 5)
    assert taken == [1, 2, 3]
    assert len(woken) == 2
    assert [subscription.take().seq, subscription.take().seq] == [4, 5]  # type: ignore[union-attr]
    assert subscription.take() is None


def test_an_owner_is_not_offered_a_record_past_one_that_waits_or_past_the_budget() -> None:
    log = make_log()
    offered: list[int] = []

    def deliver(record: Record) -> bool:
        offered.append(record.seq)
        return False

    size = len(body())
    subscription = log.subscribe(None, None, max_bytes=2 * size, wake=lambda: None, deliver=deliver)
    fill(log, 2)
    assert offered == [1]
    assert subscription.take() is not None and subscription.take() is not None
    log.commit({"type": "text", "text": "x" * 3 * size})
    assert offered == [1]
    assert subscription.ended == "slow_consumer"


def test_a_commit_s_order() -> None:
    told: list[Any] = []
    log = make_log(
        observer=lambda seq, event: told.append(("fold", seq, event["at"])),
        journal=NotedJournal(told),  # type: ignore[arg-type]
    )
    log.subscribe(None, None, wake=lambda: told.append("wake"))
    log.commit(text())
    assert told == [("fold", 1, "2026-01-01T00:00:00Z"), ("journal", 1), "wake"]


def test_a_wake_that_commits_leaves_every_reader_in_order() -> None:
    log = make_log()
    seen: list[int] = []

    def answer() -> None:
        seen.extend(drain(first))
        if log.head == 1:
            log.commit(text("again"))

    first = log.subscribe(None, None, wake=answer)
    second = log.subscribe(None, None, wake=lambda: None)
    log.commit(text())
    assert seen == [1, 2]
    assert drain(second) == [1, 2]


def test_a_wake_may_close_another_s_subscription() -> None:
    log = make_log()
    woken: list[str] = []
    first = log.subscribe(None, None, wake=lambda: (woken.append("first"), second.close()))  # type: ignore[func-returns-value]
    second = log.subscribe(None, None, wake=lambda: woken.append("second"))
    fill(log, 2)
    assert woken == ["first", "first"]
    assert second.take() is None
    assert drain(first) == [1, 2]


def test_an_observer_that_fails_costs_no_reader_a_record() -> None:
    def fold(seq: int, event: dict[str, Any]) -> None:
        raise RuntimeError("the fold is broken")

    log = make_log(observer=fold)
    subscription = log.subscribe(None, None, wake=lambda: None)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the fold is broken"):
            log.commit(text())
    assert drain(subscription) == [1, 2]


@pytest.mark.parametrize(
    ("event", "omitted"),
    [
        (text("x" * 300), {"reason": "oversized", "bytes": len(body("x" * 300))}),
        ({"type": "text", "text": object()}, {"reason": "encode_error"}),
        ({"type": "tool", "tool": {"n": float("nan")}}, {"reason": "encode_error"}),
        ({"text": "of no type"}, {"reason": "encode_error", "error": "an event has no type"}),
    ],
)
def test_what_cannot_be_sent_is_omitted_and_still_folded(
    event: dict[str, Any], omitted: dict[str, Any]
) -> None:
    told: list[Any] = []
    folded: list[dict[str, Any]] = []
    log = make_log(
        observer=lambda seq, event: folded.append(event),
        journal=NotedJournal(told),  # type: ignore[arg-type]
        record_bytes=256,
    )
    subscription = log.subscribe(None, None, wake=lambda: None)
    assert log.commit(event) == 1
    assert folded == [event]
    taken = subscription.take()
    assert taken is not None and taken.omitted is not None
    assert taken.body == b""
    assert taken.size == len(taken.omitted.get("error", "").encode())
    assert taken.omitted | omitted == taken.omitted
    with pytest.raises(ValueError, match="omitted"):
        taken.line("s-1")
    assert told[1] == ("record_omitted", {"seq": 1, **taken.omitted})
    assert log.commit(text()) == 2


def test_a_body_of_exactly_the_limit_is_sent() -> None:
    log = make_log(record_bytes=len(body("x" * 50)))
    subscription = log.subscribe(None, None, wake=lambda: None)
    fill(log, 1, "x" * 50)
    fill(log, 1, "x" * 51)
    whole, over = subscription.take(), subscription.take()
    assert whole is not None and whole.omitted is None
    assert over is not None and over.omitted == {
        "reason": "oversized",
        "bytes": len(whole.body) + 1,
    }


def test_an_error_s_text_is_cut() -> None:
    class Long:
        def __json__(self) -> str:
            raise ValueError("é" * 2000)

    log = make_log()
    subscription = log.subscribe(None, None, wake=lambda: None)
    log.commit({"type": "text", "text": Long()})
    taken = subscription.take()
    assert taken is not None and taken.omitted is not None
    assert taken.size <= 1024


def test_a_time_that_has_no_form_is_an_encode_error() -> None:
    log = make_log(clock=ManualClock(10**23))
    subscription = log.subscribe(None, None, wake=lambda: None)
    log.commit(text())
    taken = subscription.take()
    assert taken is not None and taken.omitted is not None
    assert (taken.omitted["reason"], taken.at) == ("encode_error", "")


def test_closing_ends_readers_first_and_once() -> None:
    told: list[Any] = []
    log = make_log(journal=NotedJournal(told))  # type: ignore[arg-type]
    subscription = log.subscribe(None, None, wake=lambda: told.append("wake"))
    fill(log, 2)
    del told[:]
    log.close()
    log.close()
    assert told == ["wake", "closed"]
    assert subscription.ended == "closed"
    assert drain(subscription) == [1, 2]  # the final records are still handed out
    with pytest.raises(RuntimeError, match="closed"):
        log.commit(text())
    assert log.head == 2


def test_a_reader_of_a_closed_log_gets_what_the_ring_holds() -> None:
    log = make_log()
    fill(log, 3)
    log.close()
    late = log.subscribe(1, "I-1", wake=lambda: None)
    assert (drain(late), late.ended) == ([2, 3], "closed")


def test_its_words() -> None:
    log = make_log()
    subscription = log.subscribe(None, None, wake=lambda: None)
    fill(log, 1)
    assert repr(log) == "<EventLog I-1 at 1, 1 subscriptions>"
    assert repr(subscription) == f"<Subscription live, 1 records, {len(body())} bytes held>"
    assert repr(subscription.take()) == f"<Record 1 text {len(body())} bytes>"


def test_the_ring_keeps_the_newest_by_count_and_by_bytes() -> None:
    size = record(1).size
    by_count = Ring(3, 1 << 20)
    by_bytes = Ring(100, 3 * size)
    for seq in range(1, 6):
        by_count.push(record(seq))
        by_bytes.push(record(seq))
    for ring in (by_count, by_bytes):
        assert ring.oldest == 3
        assert [one.seq for one in ring.after(0)] == [3, 4, 5]
        assert [one.seq for one in ring.after(3)] == [4, 5]
        assert ring.after(5) == []
    by_bytes.push(record(6, "x" * 1000))  # larger than the ring: it stays, alone
    assert [one.seq for one in by_bytes.after(0)] == [6]


@given(st.lists(st.integers(START, START + 10**11), min_size=1, max_size=20))
def test_stamps_are_the_wire_s_times(times: list[int]) -> None:
    stamp = Stamper()
    assert [stamp(time) for time in times] == [format_time(time) for time in times]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=30), st.data())
def test_b01_a_replay_and_what_follows_equal_an_undisturbed_reader(
    words: list[str], data: st.DataObject
) -> None:
    log = make_log(ring_events=100)
    whole: list[bytes] = []
    undisturbed = log.subscribe(None, None, wake=lambda: whole.extend(_bodies(undisturbed)))
    cut = data.draw(st.integers(0, len(words)))
    joined = data.draw(st.integers(cut, len(words)))
    for word in words[:joined]:
        log.commit(text(word))
    resumed = log.subscribe(cut, "I-1", wake=lambda: None)
    assert resumed.cutoff == joined
    for word in words[joined:]:
        log.commit(text(word))
    assert whole[:cut] + _bodies(resumed) == whole
    assert [json.loads(one)["text"] for one in whole] == words


def _bodies(subscription: Subscription) -> list[bytes]:
    found = []
    while (taken := subscription.take()) is not None:
        found.append(taken.body)
    return found


def test_the_core_imports_no_loop_and_no_hash() -> None:
    check = (
        "import sys, craze.eventlog\n"
        "unwanted = {'gevent', 'hashlib', 'dataclasses', 'uuid'} & set(sys.modules)\n"
        "sys.exit(', '.join(unwanted) or None)"
    )
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_log_without_a_journal_says_so_when_it_is_read() -> None:
    log = make_log()
    with pytest.raises(ReplayFailed) as failed:
        log.read_file(1, 2)
    assert failed.value.reason == "no_journal"
