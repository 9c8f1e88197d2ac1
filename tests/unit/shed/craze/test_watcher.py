"""A lane's stream: its seed, its resumes and reseeds, its bounds, and every way it goes down."""

import gc
import itertools
from collections.abc import Callable
from typing import Any

import gevent
import pytest

from craze_shed.contract.frames import (
    Approval,
    Message,
    Ready,
    Reset,
    Session,
    Settings,
    Stale,
)
from craze_shed.contract.settings import SetModel
from craze_shed.craze.dial import TIMED_OUT, NotReached
from craze_shed.craze.limits import NOTIFICATIONS
from craze_shed.reach import ReachError
from craze_shed.view import LaneView
from tests.unit.shed.craze.conformance import LaneStream, ended
from tests.unit.shed.craze.hosts import (
    AT,
    CAPABILITIES,
    HOST,
    SESSION,
    Host,
    entry,
    hello,
    host,
    info,
    record,
    row,
    text,
)
from tests.unit.shed.craze.scripting import Machine, settle, until

Watch = Callable[..., LaneStream]


def kinds(came: list[Any]) -> list[str]:
    return [frame.kind for frame in came]


def words(came: list[Any]) -> list[str | None]:
    """What the rows among them say."""
    return [frame.message.text for frame in came if isinstance(frame, Message)]


def sessions(came: list[Any]) -> list[Any]:
    return [frame.session for frame in came if isinstance(frame, Session)]


def seeded(reach: Machine, stream: LaneStream, seq: int = 1, **more: Any) -> Host:
    """A first connection that is seeded; what its frames were is read."""
    one = host(reach).greet()
    one.seed(seq, **more)
    stream.until(Ready)
    return one


def folded(stream: LaneStream, seq: int) -> None:
    """Wait until the event of that seq is folded."""
    (watcher,) = stream.lane._watchers
    until(lambda: watcher._cursor is not None and watcher._cursor.seq == seq)


# ---- the seed ----


def test_the_connection_sequence_and_its_ids(reach, watch):
    stream = watch()
    one = host(reach)
    assert " bridge --hub --no-start;" in one.command.line
    asked = []
    one.hub()
    for _ in range(2):
        asked.append(one.command.request())
    one.reply(asked[0])
    one.reply(asked[1], hello())
    asked.append(one.expect("sessions.list"))
    one.reply(asked[2], {"sessions": [row()]})
    asked.append(one.expect("session.attach"))
    client = {"kind": "shed", "name": "craze_shed", "version": "0.2.0"}
    assert [(request["id"], request["method"], request["params"]) for request in asked] == [
        ("2", "session.connect", {"sessionId": HOST}),
        ("3", "hello", {"protocols": [1], "client": client}),
        ("4", "sessions.list", {}),
        ("5", "session.attach", {"sessionId": SESSION}),
    ]  # fmt: skip
    stream.close()


def test_the_hosts_hello_rides_right_behind_the_connect(reach, watch):
    watch()
    one = host(reach)
    one.hub()
    until(lambda: one.command.written.count(b"\n") == 3)
    sent = [
        line.split(b'"method":"')[1].split(b'"')[0] for line in one.command.written.splitlines()
    ]
    assert sent == [b"hello", b"session.connect", b"hello"]


def test_the_order_of_a_seed(reach, watch):
    stream = watch()
    one = host(reach).greet(title="T", attached=3)
    slash = {"items": [{"name": "plan", "source": "builtin"}]}
    one.attach(
        5,
        session=info(capabilities={**CAPABILITIES, "slashCatalog": True}),
        snapshot={
            "version": 1, "incarnation": "i-1", "seq": 5,
            "main": {"entries": [entry("hi", "user"), entry("hello")]},
            "settings": {"model": "a", "slash": slash},
        },
    )  # fmt: skip
    one.registry(7, record("perm-2"), record("perm-1"))
    one.events(6, text("live"))
    one.synchronized(6)
    one.events(7, {"type": "done", "at": AT})
    came = stream.until(Ready)
    assert kinds(came) == [
        "reset", "message", "message", "session", "capabilities", "settings", "slash_catalog",
        "approval", "approval", "message", "ready",
    ]  # fmt: skip
    assert came[0] == Reset("connect", 1) and came[-1] == Ready(1)
    assert words(came) == ["hi", "hello", "live"]
    assert [frame.approval.id for frame in came if isinstance(frame, Approval)] == [
        "perm-1",
        "perm-2",
    ]
    (shown,) = sessions(came)
    assert (shown.title, shown.attached, shown.pending_approvals) == ("T", 3, 2)
    assert (shown.activity, shown.provider_session_id, shown.permission_mode, shown.model) == (
        "needs_approval", "p-1", "bypass", "a",
    )  # fmt: skip


def test_a_session_with_nothing_to_set_has_no_settings(reach, watch):
    stream = watch()
    bare = {"catalogs": {"models": [], "modes": []}, "capabilities": {"modes": True}}
    host(reach).greet().seed(1, session=info(**bare))
    assert kinds(stream.until(Ready)) == ["reset", "session", "capabilities", "ready"]


def test_ready_waits_for_synchronized_and_for_the_fence(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(3)
    one.registry(5)
    one.synchronized(3)
    one.events(4, text("a"))
    settle()
    assert "ready" not in kinds(stream.waiting())
    one.events(5, {"type": "done", "at": AT})
    assert words(stream.until(Ready)) == ["a"]


def test_a_fence_alone_is_not_enough(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(3)
    one.registry(3)
    settle()
    assert "ready" not in kinds(stream.waiting())
    one.synchronized(3)
    stream.until(Ready)


def test_events_that_come_while_the_asks_are_read_are_folded_behind_the_seed(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(1, entry("before"))
    one.events(2, text("while"))
    one.synchronized(2)
    one.events(3, {"type": "done", "at": AT})
    one.registry(3)
    came = stream.until(Ready)
    assert words(came) == ["before", "while"] and kinds(came)[:3] == ["reset", "message", "session"]


def test_a_seed_is_of_the_newest_500_rows(reach, watch):
    stream = watch()
    entries = [
        entry(f"row {n}", "note", at=f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z") for n in range(501)
    ]
    host(reach).greet().seed(1, *entries)
    rows = [frame.message for frame in stream.until(Ready) if isinstance(frame, Message)]
    assert len(rows) == 500
    assert (rows[0].text, rows[0].ts) == ("earlier transcript omitted", "2026-01-01T00:00:00Z")
    assert (rows[1].text, rows[-1].text) == ("row 2", "row 500")


def test_500_rows_fit(reach, watch):
    stream = watch()
    host(reach).greet().seed(1, *[entry(f"row {n}", "note") for n in range(500)])
    assert words(stream.until(Ready))[0] == "row 0"


def test_an_ask_that_ended_while_it_was_read_is_passed_over(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(1)
    one.reply(one.expect("asks.list"), {"asks": [{"id": "perm-1"}, {"id": "perm-2"}]})
    one.refuse(one.expect("asks.get"), "unknown_ask")
    one.reply(one.expect("asks.get"), {"ask": record("perm-2")})
    one.reply(one.expect("session.sync"), {"seq": 1})
    one.synchronized(1)
    came = stream.until(Ready)
    assert [frame.approval.id for frame in came if isinstance(frame, Approval)] == ["perm-2"]


# ---- what is told as it changes ----


def test_the_order_of_what_one_event_changes(reach, watch):
    stream = watch()
    one = seeded(reach, stream)
    one.events(
        2, {"type": "permission", "permission": record("p-1")["body"]["permission"], "at": AT}
    )
    came = [stream.next() for _ in range(3)]
    assert kinds(came) == ["message", "session", "approval"]
    assert came[1].session.activity == "needs_approval" and came[2].approval.pending
    one.events(
        3,
        {
            "type": "ask",
            "ask": {"id": "p-1", "kind": "permission", "outcome": "answered"},
            "at": AT,
        },
    )
    came = [stream.next() for _ in range(3)]
    assert (
        kinds(came) == ["message", "session", "approval"] and came[2].approval.status == "resolved"
    )
    state = {"title": "New", "model": "b", "indexErr": "disk full"}
    one.events(4, {"type": "meta", "state": state, "at": AT})
    came = [stream.next() for _ in range(3)]
    assert kinds(came) == ["message", "session", "settings"]
    assert (came[1].session.title, came[2].settings.model) == ("New", "b")


def test_b14_an_approval_is_over_when_the_stream_says_so_and_not_before(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.seed(1, asks=[record("perm-1")])
    view = LaneView()
    for frame in stream.until(Ready):
        view.apply(frame)
    assert [approval.id for approval in view.snapshot().approvals] == ["perm-1"]
    one.events(2, text("the agent goes on"), {"type": "done", "at": AT})
    for frame in stream.until(Message):
        view.apply(frame)
    assert [approval.id for approval in view.snapshot().approvals] == ["perm-1"]
    one.events(4, {"type": "ask", "ask": {"id": "perm-1"}, "at": AT})
    for frame in stream.until(Approval):
        view.apply(frame)
    assert view.snapshot().approvals == ()


def test_nothing_is_told_twice(reach, watch):
    stream = watch()
    one = seeded(reach, stream)
    meta = {"type": "meta", "state": {"model": "a", "title": ""}, "at": AT}
    one.events(2, meta, {"type": "queue"}, meta, {"type": "done", "at": AT})
    one.note("presence", attached=1)
    settle()
    assert stream.waiting() == []


def test_capabilities_and_settings_follow_the_final_info(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(1, session=info(catalogs={}, capabilities={}), ready=False)
    one.registry(1).synchronized(1)
    assert kinds(stream.until(Ready)) == ["reset", "session", "capabilities", "ready"]
    one.note("ready", session=info(providerSessionId="p-2"), startFailed=False)
    came = [stream.next() for _ in range(3)]
    assert kinds(came) == ["session", "capabilities", "settings"]
    assert came[0].session.provider_session_id == "p-2" and came[1].capabilities.interject


def test_presence(reach, watch):
    stream = watch()
    one = seeded(reach, stream)
    one.note("presence", attached=2)
    assert stream.next().session.attached == 2
    one.note("presence", attached=2).note("presence", attached="x")
    assert stream.next().session.attached == 1  # as the host's row has it


def test_compacting_and_titles_show_in_the_row(reach, watch):
    stream = watch()
    one = seeded(reach, stream)
    one.events(2, {"type": "compaction", "compaction": {"phase": "started"}, "at": AT})
    assert stream.next().session.doing == "compacting context…"
    one.events(3, {"type": "done", "at": AT})
    came = [stream.next()]
    assert came[0].session.doing is None and came[0].session.activity == "idle"
    one.events(
        4, {"type": "meta", "state": {"title": "T"}}, {"type": "meta", "state": {"title": ""}}
    )
    assert [stream.next().session.title for _ in range(2)] == ["T", "work"]


def test_an_unknown_notification_is_ignored(reach, watch):
    stream = watch()
    one = seeded(reach, stream)
    one.command.note("novelty", subscription="s-9")
    one.command.note("aside", asideId="a", seq=1, text="x")
    one.events(2, text("on"), {"type": "done"})
    assert words(stream.until(Message)) == ["on"]


# ---- the open run ----


def test_a_run_that_does_not_grow_is_flushed(reach, watch):
    stream = watch(flush=0.01)
    one = seeded(reach, stream)
    one.events(2, text("not the end"))
    came = stream.until(Message)
    assert words(came) == ["not the end"]
    one.events(3, text(" of it"))
    assert words(stream.until(Message)) == [" of it"]


def test_the_flush_clock_starts_anew_when_the_run_changes(reach, watch, clock):
    stream = watch(flush=2.0, clock=clock)
    one = seeded(reach, stream)
    for seq in range(2, 6):
        clock.at += 1.9
        one.events(seq, text("x"))
        folded(stream, seq)
    assert words(stream.waiting()) == []
    clock.at += 2.0
    one.note("presence", attached=1)  # anything, to have it look up
    assert words(stream.until(Message)) == ["xxxx"]


def test_what_stays_is_as_long_as_before_is_flushed_all_the_same(reach, watch, clock):
    """Only the length tells growth: another run of the same length goes on with the old clock."""
    stream = watch(flush=2.0, clock=clock)
    one = seeded(reach, stream)
    one.events(2, text("aa"))
    folded(stream, 2)
    clock.at += 2.0
    one.events(3, {"type": "thought", "text": "bb", "at": AT})
    came = [*stream.until(Message), *stream.until(Message)]
    assert words(came) == ["aa", "bb"]


# ---- silent resume ----


def test_b01_a_resume_folds_what_was_missed_onto_the_same_generation(reach, watch):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.events(4, text("half a "))
    settle()
    one.drop()
    two = host(reach).greet(activity="working")
    assert words(stream.until(Stale)) == ["half a "]
    params = two.attach()
    assert params == {"sessionId": SESSION, "cursor": {"incarnation": "i-1", "seq": 4}}
    two.registry(54)
    missed = [
        {"type": "thought" if n % 2 else "text", "text": f"{n} ", "at": AT} for n in range(49)
    ]
    two.events(5, *missed, {"type": "done", "at": AT})
    two.synchronized(54)
    came = stream.until(Ready)
    assert "reset" not in kinds(came) and came[-1] == Ready(1)
    assert "".join(words(came)) == "".join(f"{n} " for n in range(49))
    assert kinds(came)[-2:] == ["settings", "ready"]
    seqs = [frame.message.seq for frame in stream.seen if isinstance(frame, Message)]
    assert seqs == sorted(set(seqs))


def test_a_resume_says_only_what_changed_and_restates_the_settings(reach, watch):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.drop()
    two = host(reach).greet()
    two.attach()
    two.registry(3).synchronized(3)
    assert kinds(stream.until(Ready)) == ["stale", "settings", "ready"]


def test_b16_what_opened_and_ended_in_the_gap(reach, watch):
    """An ask of the gap is there after it, one that ended in it is not, a sub-agent's among them,
    and so are their rows."""
    stream = watch()
    one = host(reach).greet()
    one.seed(3, asks=[record("sub-1")])
    opening = {"type": "permission", "permission": record("perm-1")["body"]["permission"], "at": AT}
    one.events(4, opening, {"type": "turn", "turn": {"phase": "started", "text": "go"}, "at": AT})
    stream.until(Ready)
    until(lambda: stream.waiting() or "go" in words(stream.seen))
    one.drop()
    two = host(reach).greet(activity="idle")
    two.attach()
    two.registry(9, record("sub-2"), record("perm-2"))
    two.events(
        6,
        {
            "type": "ask",
            "ask": {"id": "perm-1", "kind": "permission", "outcome": "cancelled"},
            "at": AT,
        },
        {"type": "ask", "ask": {"id": "sub-1", "kind": "permission"}, "agent": "child", "at": AT},
        {"type": "permission", "permission": record("perm-2")["body"]["permission"], "at": AT},
        {"type": "done", "at": AT},
    )
    two.synchronized(9)
    came = stream.until(Ready)
    view = LaneView()
    for frame in stream.seen:
        view.apply(frame)
    shown = view.snapshot()
    assert [approval.id for approval in shown.approvals] == ["perm-2", "sub-2"]
    rows = [row.approval for row in shown.messages if row.approval is not None]
    assert [(row.id, row.status) for row in rows] == [
        ("perm-1", "pending"), ("perm-1", "resolved"), ("perm-2", "pending"),
    ]  # fmt: skip
    assert shown.session is not None and shown.session.activity == "needs_approval"
    assert shown.session.pending_approvals == 2
    # The registry's word comes before the missed events, each approval as it changed.
    told = [
        (frame.approval.id, frame.approval.status) for frame in came if isinstance(frame, Approval)
    ]
    assert told == [
        ("perm-1", "resolved"),
        ("perm-2", "pending"),
        ("sub-1", "resolved"),
        ("sub-2", "pending"),
    ]


@pytest.mark.parametrize("lost", range(3))
def test_a_loss_during_a_resume_resumes_again_in_the_same_outage(reach, watch, lost):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.drop()
    two = host(reach)
    if lost:
        two.greet()
        two.attach()
    if lost > 1:
        two.registry(5)
        two.events(4, text("missed"))
        folded(stream, 4)
    two.drop()
    three = host(reach).greet()
    assert three.attach()["cursor"] == {"incarnation": "i-1", "seq": 4 if lost > 1 else 3}
    three.registry(5)
    three.events(5 if lost > 1 else 4, {"type": "done", "at": AT})
    if lost < 2:
        three.events(5, {"type": "queue"})
    three.synchronized(5)
    came = stream.until(Ready)
    assert kinds(came).count("stale") == 1 and came[-1] == Ready(1)


REFUSALS = (
    "foreign_incarnation", "future_seq", "backlog_too_large", "no_journal", "journal_gap",
    "journal_behind", "evicted", "",
)  # fmt: skip


@pytest.mark.parametrize("reason", REFUSALS)
def test_b03_a_refused_cursor_reseeds_and_says_why(reach, watch, reason):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.drop()
    two = host(reach).greet()
    more = {"reset": reason} if reason else {}
    two.attach(9, entry("anew"), incarnation="i-2", **more)
    two.registry(9).synchronized(9)
    came = stream.until(Ready)
    assert came[1] == Reset(f"cursor_lost:{reason}" if reason else "cursor_lost", 2)
    assert kinds(came)[0] == "stale" and came[-1] == Ready(2)
    assert words(came) == ["anew"]
    two.events(10, text("on"), {"type": "done"})
    two.drop()
    three = host(reach).greet()
    assert three.attach()["cursor"] == {"incarnation": "i-2", "seq": 11}


@pytest.mark.parametrize("seq", [2, 4])
def test_b02_a_resume_from_another_place_is_a_fault(reach, watch, seq):
    stream = watch()
    seeded(reach, stream, 3).drop()
    two = host(reach).greet()
    request = two.expect("session.attach")
    after = {"incarnation": "i-1", "seq": seq}
    two.reply(request, {"subscription": "s-1", "session": info(), "ready": True, "after": after})
    two.registry(3)
    host(reach).greet().seed(3)
    assert [frame for frame in stream.until(Ready) if isinstance(frame, Reset)] == [
        Reset("protocol", 2)
    ]


def test_b04_a_host_that_was_restarted_meanwhile_reseeds(reach, watch):
    stream = watch()
    seeded(reach, stream, 3).drop()
    two = host(reach).greet()
    two.seed(1, entry("fresh"), incarnation="i-2", reset="foreign_incarnation")
    came = stream.until(Ready)
    assert [frame for frame in came if isinstance(frame, Reset)] == [
        Reset("cursor_lost:foreign_incarnation", 2)
    ]


def test_a_session_of_another_id_is_reseeded(reach, watch):
    stream = watch()
    seeded(reach, stream, 3).drop()
    two = host(reach).greet(sessionId="session-2")
    params = two.attach(1, session=info(sessionId="session-2"))
    assert params == {"sessionId": "session-2"}
    asks = two.expect("asks.list")
    assert asks["params"] == {"sessionId": "session-2"}
    two.reply(asks, {"asks": []})
    two.reply(two.expect("session.sync"), {"seq": 1})
    two.synchronized(1)
    came = stream.until(Ready)
    assert [frame for frame in came if isinstance(frame, Reset)] == [
        Reset("server_reset:session_replaced", 2)
    ]


# ---- loss at every step ----


def _dialled(one: Host) -> None:
    one.expect("hello")


def _greeted(one: Host) -> None:
    one.hub()
    one.expect("session.connect")


def _connected(one: Host) -> None:
    one.hub()
    one.reply(one.expect("session.connect"))


def _listed(one: Host) -> None:
    one.greet()


def _attached(one: Host) -> None:
    one.greet()
    one.attach(1, entry("half"))
    one.expect("asks.list")


def _seeding(one: Host) -> None:
    one.greet()
    one.attach(1, entry("half"))
    one.registry(2)
    one.synchronized(1)


@pytest.mark.parametrize("step", [_dialled, _greeted, _connected, _listed, _attached, _seeding])
@pytest.mark.parametrize("again", [1, 3])
def test_a_loss_before_ready_begins_anew(reach, watch, step, again):
    stream = watch()
    for _ in range(again):
        one = host(reach)
        step(one)
        if step is _seeding:
            until(
                lambda: any(isinstance(frame, Reset) for frame in [*stream.waiting(), *stream.seen])
            )
            stream.waiting()
        one.drop()
    two = host(reach).greet()
    assert "cursor" not in two.attach(1, entry("whole"))
    two.registry(1).synchronized(1)
    stream.until(Ready)
    resets = [frame for frame in stream.seen if isinstance(frame, Reset)]
    begun = again if step is _seeding else 0
    assert resets == [
        Reset("reconnect" if number else "connect", number + 1) for number in range(begun + 1)
    ]
    assert kinds(stream.seen).count("stale") == 1
    view = LaneView()
    for frame in stream.seen:
        view.apply(frame)
    assert [row.text for row in view.snapshot().messages] == ["whole"]


def test_a_loss_before_the_first_seed_says_so_first(reach, watch):
    stream = watch()
    reach.unreachable = "no route to host"
    assert stream.next() == Stale("reconnecting")
    reach.unreachable = ""
    host(reach).greet().seed(1)
    assert [frame for frame in stream.until(Ready) if isinstance(frame, Reset)] == [
        Reset("connect", 1)
    ]


def test_a_cursor_that_a_caller_gives_is_ignored_and_said_to_be(reach, watch):
    stream = watch(cursor="anything")
    one = host(reach).greet()
    assert "cursor" not in one.attach(1)
    one.registry(1).synchronized(1)
    assert stream.until(Ready)[0] == Reset("connect:cursor-ignored", 1)


# ---- resets ----


def test_a_slow_consumer_goes_on_by_its_cursor_on_the_same_connection(reach, watch):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.events(4, text("a")).reset("slow_consumer")
    params = one.attach()
    assert params["cursor"] == {"incarnation": "i-1", "seq": 4}
    one.registry(6)
    one.events(5, text("b"), {"type": "done"})
    one.synchronized(6)
    came = stream.until(Message)
    assert words(came) == ["ab"] and "stale" not in kinds(came)
    settle()
    assert "ready" not in kinds(stream.waiting())  # there was no outage to end
    one.events(7, text("c"), {"type": "done"})
    assert words(stream.until(Message)) == ["c"]


@pytest.mark.parametrize("reason", ["omitted", "replay_failed", "novelty", "slow_consumer"])
def test_other_resets_reseed_on_the_same_connection(reach, watch, reason):
    stream = watch()
    one = host(reach).greet()
    if reason == "slow_consumer":  # only where there is no seed yet
        one.attach(3)
        one.registry(4)
    else:
        one.seed(3)
    one.reset(reason)
    assert "cursor" not in one.attach(8, entry("anew"))
    one.registry(8).synchronized(8)
    until(lambda: Ready(2) in [*stream.waiting(), *stream.seen])
    resets = [frame for frame in stream.seen if isinstance(frame, Reset)]
    assert resets == [Reset("connect", 1), Reset(f"server_reset:{reason}", 2)]
    assert "stale" not in kinds(stream.seen)


def test_the_open_run_is_a_row_of_the_old_generation(reach, watch):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.events(4, text("half")).reset("replay_failed")
    one.attach(4, entry("whole"))
    one.registry(4).synchronized(4)
    came = stream.until(Ready)
    assert [frame.kind for frame in came if frame.kind in ("message", "reset")] == [
        "message", "reset", "message",
    ]  # fmt: skip
    assert words(came) == ["half", "whole"]


def test_a_replaced_session_is_joined_anew(reach, watch):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.reset("session_replaced")
    one.command.left()
    two = host(reach).greet(sessionId="session-2")
    assert two.attach(1, session=info(sessionId="session-2")) == {"sessionId": "session-2"}
    two.reply(two.expect("asks.list"), {"asks": []})
    two.reply(two.expect("session.sync"), {"seq": 1})
    two.synchronized(1)
    came = stream.until(Ready)
    assert kinds(came)[:2] == ["stale", "reset"]
    assert came[1] == Reset("server_reset:session_replaced", 2)


def test_a_closed_session_ends_the_lane_with_its_last_rows(reach, watch):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.events(4, text("last words")).reset("session_closed")
    one.command.end()
    assert ended(stream) == "session_closed"
    assert words(stream.seen)[-1] == "last words"


def test_an_omitted_record_may_have_been_the_last_one(reach, watch):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.reset("omitted")
    one.expect("session.attach")
    one.drop()
    two = host(reach)
    two.hub()
    two.refuse(two.expect("session.connect"), "unknown_session")
    assert ended(stream) == "session_closed"


@pytest.mark.parametrize(
    ("code", "reason"),
    [("unknown_session", ""), ("not_accepting", ""), ("not_accepting", "not_accepting")],
)
def test_as_a_refused_attach_says_too(reach, watch, code, reason):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.reset("omitted")
    one.refuse(one.expect("session.attach"), code, reason)
    assert ended(stream) == "session_closed"


def test_an_omitted_record_of_a_session_that_goes_on(reach, watch):
    stream = watch()
    one = seeded(reach, stream, 3)
    one.reset("omitted")
    one.expect("session.attach")
    one.drop()
    two = host(reach).greet()
    assert "cursor" not in two.attach(9)
    two.registry(9).synchronized(9)
    came = stream.until(Ready)
    assert [frame for frame in came if isinstance(frame, Reset)] == [
        Reset("server_reset:omitted", 2)
    ]
    two.drop()  # which is no longer a question
    three = host(reach)
    three.hub()
    three.refuse(three.expect("session.connect"), "unknown_session")
    assert ended(stream) == "unknown_session"


# ---- faults ----


def _faults() -> dict[str, Callable[[Host], Any]]:
    return {
        "a hole": lambda one: one.events(5, text("x")),
        "a duplicate": lambda one: one.events(3, text("x")),
        "no seq": lambda one: one.note("event", event=text("x")),
        "synchronized elsewhere": lambda one: one.note("synchronized", seq=9),
        "synchronized twice": lambda one: one.synchronized(3),
        "another subscription": lambda one: one.note(
            "event", subscription="s-9", seq=4, event=text("x")
        ),
        "no subscription": lambda one: one.command.note("presence", attached=2),
        "attach without a place": lambda one: _reattach(one, after=None),
        "a snapshot elsewhere": lambda one: _reattach(
            one, snapshot={"version": 1, "incarnation": "i-1", "seq": 4}
        ),
        "a snapshot of another": lambda one: _reattach(
            one, snapshot={"version": 1, "incarnation": "i-9", "seq": 9}
        ),
        "a snapshot of a later build": lambda one: _reattach(
            one, snapshot={"version": 2, "incarnation": "i-1", "seq": 9}
        ),
        "no snapshot": lambda one: _reattach(one, snapshot=None),
        "attach refused": lambda one: one.reset("replay_failed").refuse(
            one.expect("session.attach"), "bad_request", "already_attached"
        ),
        "asks refused": lambda one: _reread(one, "asks.list"),
        "ask refused": lambda one: _reread(one, "asks.get"),
        "sync refused": lambda one: _reread(one, "session.sync"),
        "sync without a seq": lambda one: _reread(one, ""),
    }


def _reattach(one: Host, **changes: Any) -> None:
    one.reset("replay_failed")
    one.attach(9, **changes)
    one.registry(9)


def _reread(one: Host, refused: str) -> None:
    one.reset("replay_failed")
    one.attach(9)
    for method, answer in (
        ("asks.list", {"asks": [{"id": "perm-1"}]}),
        ("asks.get", {"ask": record("perm-1")}),
        ("session.sync", {"seq": "9"}),
    ):
        request = one.expect(method)
        if method == refused:
            one.refuse(request, "failed")
            return
        one.reply(request, answer)


@pytest.mark.parametrize("what", _faults())
def test_a_fault_closes_the_connection_and_begins_anew(reach, watch, what):
    stream = watch()
    one = seeded(reach, stream, 3)
    _faults()[what](one)
    one.command.left()
    host(reach).greet().seed(9)
    came = stream.until(Ready)
    assert kinds(came)[0] == "stale"
    assert [frame.reason for frame in came if isinstance(frame, Reset)] == ["protocol"]


def test_b05_a_closing_session_whose_asks_cannot_be_read_is_followed_to_its_end(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(3)
    one.refuse(one.expect("asks.list"), "not_accepting")
    one.events(4, text("last words")).reset("session_closed")
    assert ended(stream) == "session_closed"
    assert words(stream.seen) == ["last words"]


@pytest.mark.parametrize("resumed", [False, True])
def test_b05_a_session_that_closes_while_its_asks_are_read_has_its_last_words(
    reach, watch, resumed
):
    stream = watch()
    if resumed:
        seeded(reach, stream, 3).drop()
    one = host(reach).greet()
    if resumed:
        one.attach()
    else:
        one.attach(3, entry("before"))
    one.expect("asks.list")
    one.events(4, text("last words")).reset("session_closed")
    one.command.end()
    assert ended(stream) == "session_closed"
    assert words(stream.seen)[-1] == "last words"


# ---- down ----


def test_no_such_session_at_the_hub(reach, watch):
    stream = watch()
    one = host(reach)
    one.hub()
    one.refuse(one.expect("session.connect"), "unknown_session")
    assert ended(stream) == "unknown_session" and kinds(stream.seen) == ["down"]


def test_no_session_in_the_host(reach, watch):
    stream = watch()
    one = host(reach)
    one.hub()
    one.reply(one.expect("session.connect"))
    one.reply(one.expect("hello"), hello())
    one.reply(one.expect("sessions.list"), {"sessions": []})
    assert ended(stream) == "unknown_session"


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (("unknown_session", "", ""), "unknown_session"),
        (("not_accepting", "not_accepting", ""), "session_closed"),
        (("not_accepting", "start_failed", " no key \n"), "start_failed:no key"),
        (("not_accepting", "start_failed", ""), "start_failed:no"),
    ],
)
def test_an_attach_that_is_refused_for_good(reach, watch, refusal, reason):
    stream = watch()
    one = host(reach).greet()
    code, why, cause = refusal
    one.refuse(one.expect("session.attach"), code, why, cause=cause)
    assert ended(stream) == reason


def test_a_start_that_fails_later(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(0, ready=False)
    one.registry(0).synchronized(0)
    one.note("ready", session=info(), startFailed=True, err="no key\n")
    assert ended(stream) == "start_failed:no key"


@pytest.mark.parametrize(
    ("sessions", "why"),
    [
        ([row(hostId="bbbbbbbbbbbb")], f'the splice reached host "bbbbbbbbbbbb", not "{HOST}"'),
        ([row(), row()], "the host's list is not of one session"),
        ("x", "the host's list is not of one session"),
        ([7], "the host's list is not of one session"),
        ([row(sessionId="")], "the host's row names no session"),
    ],
)
def test_a_row_that_is_not_this_sessions(reach, watch, sessions, why):
    stream = watch()
    one = host(reach)
    one.hub()
    one.reply(one.expect("session.connect"))
    one.reply(one.expect("hello"), hello())
    one.reply(one.expect("sessions.list"), {"sessions": sessions})
    assert ended(stream) == f"protocol: {why}"


def test_another_host(reach, watch):
    stream = watch()
    one = host(reach)
    one.hub()
    one.reply(one.expect("session.connect"))
    other = {"kind": "host", "hostId": "bbbbbbbbbbbb"}
    one.reply(one.expect("hello"), hello(endpoint=other))
    assert ended(stream) == f'protocol: the splice reached host "bbbbbbbbbbbb", not "{HOST}"'


@pytest.mark.parametrize("changes", [{"protocol": 2}, {"codecs": {"event": 1, "snapshot": 2}}])
def test_a_host_that_is_too_old(reach, watch, changes):
    stream = watch()
    one = host(reach)
    one.hub()
    one.reply(one.expect("session.connect"))
    one.reply(one.expect("hello"), hello(**changes))
    assert ended(stream).startswith("craze unavailable: craze")


def test_a_host_that_is_not_up_yet_is_tried_again(reach, watch):
    stream = watch()
    one = host(reach)
    one.hub()
    one.reply(one.expect("session.connect"))
    one.refuse(one.expect("hello"), "unavailable", "not_ready")
    host(reach).greet().seed(1)
    assert kinds(stream.until(Ready))[:2] == ["stale", "reset"]


def test_a_host_that_has_closed_ends_the_lane(reach, watch):
    stream = watch()
    seeded(reach, stream).drop()
    one = host(reach)
    one.hub()
    one.reply(one.expect("session.connect"))
    one.reply(one.expect("hello"), hello())
    one.refuse(one.expect("sessions.list"), "not_accepting")
    assert ended(stream) == "session_closed"


@pytest.mark.parametrize(
    ("code", "said", "why"),
    [
        (
            127,
            b"craze: command not found\n",
            "craze is not installed on this machine (craze: command not found)",
        ),
        (
            1,
            b"unknown flag: --hub",
            "craze on this machine is too old for shed"
            ' (it says "unknown flag: --hub"); update craze',
        ),
    ],
)
def test_no_craze(reach, watch, code, said, why):
    stream = watch()
    one = host(reach)
    one.expect("hello")
    one.command.end(code, said)
    assert ended(stream) == f"craze unavailable: {why}"


def test_no_hub_is_waited_for(reach, watch):
    stream = watch()
    seeded(reach, stream).drop()
    for _ in range(3):
        one = host(reach)
        one.expect("hello")
        one.command.end(3, b"craze bridge: no hub is running\n")
    two = host(reach).greet()
    two.attach()
    two.registry(1).synchronized(1)
    assert kinds(stream.until(Ready)) == ["stale", "settings", "ready"]


# ---- bounds ----


def test_ten_minutes_without_a_connection_end_it(reach, watch, clock):
    stream = watch(clock=clock)
    reach.unreachable = "no route to host"
    assert stream.next() == Stale("reconnecting")
    clock.at += 599.9
    settle()
    assert stream.waiting() == []
    clock.at += 0.2
    assert ended(stream) == "unreachable"


def test_an_outage_is_over_when_it_is_synchronized_and_not_before(reach, watch, clock):
    stream = watch(clock=clock)
    one = seeded(reach, stream, 3)
    clock.at += 10_000
    one.drop()
    clock.at += 599
    two = host(reach).greet()
    two.attach()
    two.registry(4)
    until(lambda: stream.lane._live)
    clock.at += 2
    two.drop()
    assert ended(stream) == "unreachable"


def test_a_dial_never_goes_past_the_outage(reach, watch, clock, make_lane):
    lane = make_lane(clock=clock)
    asked = []

    def join(timeout, *, first):
        assert first
        asked.append(timeout)
        clock.at += 97
        raise NotReached(TIMED_OUT, "late")

    lane.join = join
    assert ended(watch(lane)) == "unreachable"
    assert asked == [30.0] * 6 + [18.0]


def test_five_refused_connects_in_a_row_end_it(reach, watch):
    stream = watch()
    for _ in range(5):
        one = host(reach)
        one.hub()
        one.refuse(one.expect("session.connect"), "unavailable", "host_unreachable")
    assert ended(stream) == "connect refused: unavailable/host_unreachable"


def test_an_attach_that_works_forgives_refused_connects(reach, watch):
    stream = watch()
    for _ in range(2):
        for _ in range(4):
            one = host(reach)
            one.hub()
            one.refuse(one.expect("session.connect"), "unavailable", "host_unreachable")
        one = host(reach).greet()
        one.attach(1)
        one.drop()
    host(reach).greet().seed(1)
    stream.until(Ready)


def test_nine_attaches_after_the_first_are_too_many(reach, watch):
    stream = watch()
    for _ in range(9):
        one = host(reach).greet()
        one.attach(1)
        one.drop()
    host(reach).greet().command.left()
    assert ended(stream) == "re-attach bound"


def test_attaches_are_counted_anew_once_synchronized(reach, watch):
    stream = watch()
    one = host(reach).greet()
    for counted in (8, 7):  # the subscription's first is not
        for _ in range(counted):
            one.attach(1)
            one.registry(1).reset("replay_failed")
        one.seed(1)
        stream.until(Ready)
        one.reset("replay_failed")
    one.attach(1)


def test_an_attach_without_room_is_tried_again_and_counted(reach, watch):
    stream = watch()
    one = host(reach).greet()
    for code, reason in [("unavailable", "closing"), ("in_progress", "")] * 4:
        one.refuse(one.expect("session.attach"), code, reason)
    one.seed(1)
    stream.until(Ready)
    assert len(reach.commands) == 1
    one.reset("replay_failed")
    for _ in range(8):
        one.refuse(one.expect("session.attach"), "unavailable", "attach_raced")
    assert ended(stream) == "re-attach bound"


def silent(stream: LaneStream, clock: Any) -> None:
    """Have a minute pass without a word."""
    clock.at += 60
    for connection in stream.lane._live:
        connection.wake()
    settle()


def test_silence_before_it_is_settled_is_a_loss(reach, watch, clock):
    stream = watch(clock=clock)
    one = host(reach).greet()
    one.attach(1)
    one.registry(1)
    until(lambda: one.command.closed or silent(stream, clock))
    two = host(reach).greet()
    two.seed(1)
    came = stream.until(Ready)
    assert [frame for frame in came if isinstance(frame, Reset)] == [
        Reset("connect", 1),
        Reset("reconnect", 2),
    ]
    silent(stream, clock)
    assert stream.waiting() == [] and not two.command.closed  # a settled one may be silent


def test_each_notification_breaks_the_silence(reach, watch, clock):
    stream = watch(clock=clock, silence=60.0)
    one = host(reach).greet()
    one.attach(1)
    one.registry(9)
    for seq in range(2, 6):
        clock.at += 59
        one.events(seq, {"type": "queue"})
        folded(stream, seq)
    assert not one.command.closed
    clock.at += 60
    next(iter(stream.lane._live)).wake()
    one.command.left()


def test_an_attach_that_is_never_answered_is_a_loss(reach, watch):
    watch(silence=0.01)
    one = host(reach).greet()
    one.expect("session.attach")
    one.command.left()
    host(reach)


@pytest.mark.parametrize(
    ("worked", "waits"),
    [(0, [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]), (3, [0.2, 0.2, 0.2, 0.4, 0.8])],
)
def test_the_waits_between_tries(reach, watch, monkeypatch, worked, waits):
    asked = []
    jittered = "craze_shed.craze.watcher.backoff.jittered"
    monkeypatch.setattr(jittered, lambda delay, chance: asked.append(delay) or 0.0)
    watch(backoff_first=0.2, backoff_most=30.0)
    for _ in range(worked):
        one = host(reach).greet()
        one.attach(1)
        one.drop()
    for _ in waits[worked:]:
        one = host(reach)
        one.expect("hello")
        one.drop()
    host(reach)
    assert asked == waits


# ---- confirmations ----


def test_a_confirmed_change_that_no_event_will_say(reach, watch):
    stream = watch()
    seeded(reach, stream)
    watcher = stream.lane._watchers[0]
    watcher.confirm(SetModel("b"), "b")
    came = stream.until(Settings)
    assert came[-1].settings.model == "b"
    for _ in range(100):
        watcher.confirm(SetModel("b"), "a")
        watcher.confirm(SetModel("b"), "b")
    assert len(watcher._confirmed) == 64
    settle()
    assert [frame.settings.model for frame in stream.waiting() if isinstance(frame, Settings)][
        -1
    ] == "b"


def test_confirmations_before_a_seed_are_in_its_snapshot(reach, watch):
    stream = watch()
    one = seeded(reach, stream)
    one.reset("replay_failed")
    one.attach(2)
    stream.lane._watchers[0].confirm(SetModel("b"), "b")
    one.registry(2).synchronized(2)
    came = stream.until(Ready)
    assert [frame.settings.model for frame in came if isinstance(frame, Settings)] == ["a"]
    settle()
    assert stream.waiting() == []


def test_a_confirmation_after_a_snapshot_was_made_is_not_in_it(reach, watch):
    stream = watch()
    one = seeded(reach, stream)
    one.reset("replay_failed")
    one.attach(2)
    listing = one.expect("asks.list")  # so the reply was taken
    stream.lane._watchers[0].confirm(SetModel("b"), "b")
    one.reply(listing, {"asks": []})
    one.reply(one.expect("session.sync"), {"seq": 2})
    one.synchronized(2)
    until(lambda: stream.lane.settings().model == "b")
    shown = [frame.settings.model for frame in stream.until(Ready) if isinstance(frame, Settings)]
    assert shown[-1] == "b"


def test_a_loss_after_a_reset_inside_a_seed_is_a_loss_inside_a_seed(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(1)
    one.registry(1)
    one.reset("slow_consumer")
    one.expect("session.attach")
    one.drop()
    host(reach).greet().seed(1)
    came = stream.until(Ready)
    assert [frame.reason for frame in came if isinstance(frame, Reset)] == ["connect", "reconnect"]


def test_the_rows_of_a_lane_are_numbered_on_over_its_subscriptions(reach, watch, make_lane):
    """Or a reader that has shown so many would take others for them."""
    lane = make_lane()
    first = watch(lane)
    host(reach).greet().seed(1, entry("a"), entry("b"))
    seen = [frame.message.seq for frame in first.until(Ready) if isinstance(frame, Message)]
    second = watch(lane)
    host(reach).greet().seed(1, entry("a"), entry("b"))
    again = [frame.message.seq for frame in second.until(Ready) if isinstance(frame, Message)]
    assert (seen, again) == ([1, 2], [3, 4])


# ---- a client that falls behind ----


def flood(one: Host, first: int, count: int) -> None:
    one.events(
        first, *({"type": "error", "err": {"message": f"row {n}"}, "at": AT} for n in range(count))
    )


def queued(stream: LaneStream) -> int:
    return len(stream.subscription._channel.frames)


def fill(one: Host, stream: LaneStream, *, over: int = 1) -> None:
    """Have the seeded stream's channel filled, and `over` frames more be published."""
    until(lambda: any(isinstance(frame, Ready) for frame in stream.subscription._channel.frames))
    room = 1024 - queued(stream)
    for seq in range(2, 2 + room + over):
        flood(one, seq, 1)
        gevent.sleep(0)
    until(lambda: queued(stream) == 1024)


def test_a_reader_that_stops_is_told_anew_once_it_has_read_everything(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.seed(1)
    fill(one, stream)
    one.command.left()  # it is let go of before anybody waits
    while queued(stream) > 1:
        stream.next()
    gevent.sleep(0.05)
    assert len(reach.commands) == 1  # nothing is dialled before everything is read
    stream.next()
    two = host(reach).greet()
    assert "cursor" not in two.attach(5000, entry("anew"))
    two.registry(5000).synchronized(5000)
    came = stream.until(Ready)
    assert came[0] == Reset("lagged", 2) and words(came) == ["anew"]


def test_a_lag_clears_the_outage_and_the_attaches(reach, watch, clock):
    stream = watch(clock=clock)
    one = host(reach).greet()
    for _ in range(8):
        one.attach(1)
        one.registry(1).reset("replay_failed")
    one.attach(1)
    one.registry(2000)
    with pytest.raises(ReachError):  # once we are let go of
        for seq in itertools.count(2):
            flood(one, seq, 1)
            gevent.sleep(0)
    clock.at += 10_000
    assert queued(stream) == 1024
    stream.waiting()
    two = host(reach).greet()
    for _ in range(7):
        two.attach(1)
        two.registry(1).reset("replay_failed")
    two.seed(1)
    until(lambda: any(isinstance(frame, Ready) for frame in stream.waiting()))


def test_a_backlog_of_notifications_is_a_lag(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(1)
    one.expect("asks.list")  # while nobody takes them
    one.command.feed(
        b"".join(
            b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"s-1","seq":%d,"event":{}}}\n'
            % n
            for n in range(2, NOTIFICATIONS + 3)
        )
    )
    one.command.left()
    host(reach).greet().seed(1)
    came = stream.until(Ready)
    assert [frame for frame in came if isinstance(frame, Reset)] == [Reset("lagged", 1)]
    assert "stale" not in kinds(came)


def test_a_reader_that_keeps_up_never_lags_however_much_comes_at_once(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(1)
    flood(one, 2, 1000)
    one.synchronized(1001)
    one.registry(1001)
    came = stream.until(Ready)
    assert len(words(came)) == 1000
    one.events(1002, text("x" * 8192 * 1100), {"type": "done"})  # over a thousand rows in one event
    rows = 0
    while rows < 1100:
        rows += isinstance(stream.next(), Message)
    assert [frame for frame in stream.seen if isinstance(frame, Reset)] == [Reset("connect", 1)]


def test_the_down_arrives_though_nobody_reads(reach, watch):
    stream = watch()
    one = host(reach).greet(activity="working")
    one.seed(1)
    fill(one, stream, over=0)
    one.events(1021, text("last words"))
    one.reset("session_closed")
    one.command.left()
    assert queued(stream) == 1024
    assert ended(stream) == "session_closed"
    assert len(words(stream.seen)) == 1020 and words(stream.seen)[-1] == "last words"


# ---- a client that goes ----


@pytest.mark.parametrize("when", ["dialling", "attached", "live", "waiting", "drained"])
def test_a_receiver_that_goes_ends_everything_at_once(reach, watch, when):
    stream = watch(backoff_first=60.0, backoff_most=60.0)
    lane = stream.lane
    if when in ("attached", "live"):
        one = host(reach).greet()
        one.attach(1)
        if when == "live":
            one.registry(1).synchronized(1)
            stream.until(Ready)
    elif when == "waiting":
        host(reach).drop()
        stream.until(Stale)
    elif when == "drained":
        one = host(reach).greet()
        one.seed(1)
        fill(one, stream)
        one.command.left()
    else:
        host(reach)
    stream.close()
    until(lambda: not lane._watchers)
    assert all(command.left() for command in reach.commands) and not lane._live


def test_a_receiver_that_goes_before_anything_begins(reach, watch):
    stream = watch()
    stream.close()
    until(lambda: not stream.lane._watchers)
    assert reach.commands == []


def test_a_subscription_that_is_dropped_ends_its_watcher(reach, make_lane):
    lane = make_lane()
    subscription = lane.subscribe()
    host(reach)
    del subscription
    gc.collect()
    until(lambda: not lane._watchers)


def test_two_subscriptions_are_two_streams(reach, watch, make_lane):
    lane = make_lane()
    first, second = watch(lane), watch(lane)
    one, two = host(reach).greet(), host(reach).greet()
    one.seed(1, entry("a"))
    two.seed(1, entry("a"))
    first.until(Ready)
    second.until(Ready)
    first.close()
    one.command.left()
    two.events(2, text("b"), {"type": "done"})
    assert words(second.until(Message)) == ["b"]
