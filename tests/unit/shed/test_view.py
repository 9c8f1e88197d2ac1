"""The view of a lane: what each frame does to it, and what it shows."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from craze_shed.contract import frames
from craze_shed.contract.approvals import LaneApproval
from craze_shed.contract.capabilities import LaneCapabilities
from craze_shed.contract.rows import FeedMessage
from craze_shed.contract.sessions import LaneSession
from craze_shed.contract.settings import LaneSettings
from craze_shed.contract.slash import SlashRow, SlashRun
from craze_shed.course import Course, Next
from craze_shed.menu import resolve
from craze_shed.view import LaneView

ABLE = LaneCapabilities("craze", True, True, True, True, settings=True, stop=True)
UNABLE = dataclasses.replace(ABLE, settings=False)
SET = LaneSettings(model="m")


def message(seq):
    return frames.Message(FeedMessage(seq=seq, role="user", type="text", text=str(seq)))


def approval(id, status="pending", at=None):
    return frames.Approval(LaneApproval(id, "s", "permission", status, "t", created_at_unix_ms=at))


def session(activity="idle"):
    return frames.Session(LaneSession(id="s", activity=activity))


def seeded(*more, generation=1, rows=(1, 2, 3)):
    view = LaneView()
    seed = (
        frames.Reset("connect", generation), *map(message, rows), session(),
        frames.Capabilities(ABLE), frames.Settings(SET), frames.Ready(generation),
    )  # fmt: skip
    for frame in (*seed, *more):
        view.apply(frame)
    return view


def shown(view):
    return [row.seq for row in view.snapshot().messages]


def asked(view):
    return [one.id for one in view.snapshot().approvals]


def test_before_anything_there_is_nothing():
    now = LaneView().snapshot()
    assert (now.messages, now.full, now.activity, now.session) == ((), True, "unknown", None)
    assert (now.generation, now.stale, now.ended, now.banner) == (0, None, False, None)
    assert (now.capabilities, now.settings, now.slash_menu, now.approvals) == (None, None, None, ())


def test_a_seed_shows_only_once_it_is_complete():
    view = seeded(frames.Reset("reconnect", 2), message(9), session("working"), approval("a"))
    assert (shown(view), view.snapshot().generation, asked(view)) == ([1, 2, 3], 1, [])
    view.apply(frames.Ready(2))
    assert (shown(view), view.snapshot().generation, asked(view)) == ([9], 2, ["a"])
    assert view.snapshot().activity == "working"


def test_a_reset_replaces_an_unfinished_seed():
    view = seeded(
        frames.Reset("lagged", 2), message(7), frames.Reset("lagged", 3), message(8),
        frames.Ready(2),
    )  # fmt: skip
    assert shown(view) == [1, 2, 3]
    view.apply(frames.Ready(3))
    assert shown(view) == [8] and view.snapshot().generation == 3


def test_rows_are_appended_and_the_oldest_of_more_than_500_dropped():
    view = seeded(*map(message, range(4, 510)))
    assert shown(view) == list(range(10, 510))


def test_capabilities_without_settings_clear_them():
    view = seeded()
    assert view.snapshot().settings == SET
    view.apply(frames.Capabilities(UNABLE))
    assert view.snapshot().settings is None
    view.apply(frames.Capabilities(ABLE))
    assert view.snapshot().settings is None


def test_settings_show_only_where_the_capabilities_say_so():
    view = seeded(frames.Capabilities(UNABLE), frames.Settings(SET))
    assert view.snapshot().settings is None


def test_b16_a_seeds_asks_replace_those_held_and_only_pending_ones_are():
    view = seeded(approval("lost"), approval("b", at=5), approval("c", at=5), approval("a", at=9))
    assert asked(view) == ["lost", "b", "c", "a"]
    for frame in (frames.Reset("reconnect", 2), approval("new"), frames.Ready(2)):
        view.apply(frame)
    assert asked(view) == ["new"]


@pytest.mark.parametrize("status", ["resolved", "submitted", "parked"])
def test_b14_an_ask_leaves_by_its_frame_alone_and_may_open_again(status):
    view = seeded(approval("a"))
    assert asked(view) == ["a"]
    view.apply(approval("a", status))
    assert asked(view) == []
    view.apply(approval("a"))
    assert asked(view) == ["a"]


def test_a_ready_of_another_generation_changes_nothing():
    view = seeded(frames.Stale("reconnecting"), frames.Ready(2))
    assert view.snapshot().stale == "reconnecting"
    view = seeded(frames.Reset("lagged", 2), message(9), frames.Ready(1))
    assert shown(view) == [1, 2, 3]


def test_a_silent_resume_keeps_the_rows_and_ends_with_a_lone_ready():
    view = seeded(frames.Stale("reconnecting"), message(4))
    now = view.snapshot()
    assert (shown(view), now.stale, now.ended) == ([1, 2, 3, 4], "reconnecting", False)
    assert now.banner == "not live · reconnecting — showing the last known transcript"
    view.apply(frames.Ready(1))
    assert (view.snapshot().stale, view.snapshot().generation) == (None, 1)


@pytest.mark.parametrize("end", [frames.Stale("lost"), frames.Down("unreachable")])
def test_a_seed_that_was_cut_short_lands_nowhere(end):
    view = seeded(frames.Reset("x", 2), message(8), end, message(9), approval("a"), frames.Ready(2))
    assert (shown(view), asked(view)) == ([1, 2, 3], [])
    assert view.snapshot().stale == end.reason
    view.apply(frames.Ready(1))
    assert view.snapshot().stale == end.reason  # the sink is still in the way
    for frame in (frames.Reset("x", 3), message(10), frames.Ready(3)):
        view.apply(frame)
    assert (shown(view), view.snapshot().stale) == ([10], None)


def test_a_lane_that_is_down_stays_readable_until_another_seed_is_complete():
    view = seeded(frames.Down("session_closed"))
    now = view.snapshot()
    assert (shown(view), now.stale, now.ended) == ([1, 2, 3], "session_closed", True)
    assert now.banner == "ended · session_closed — showing the last known transcript"
    assert now.settings == SET
    view.apply(frames.Ready(1))
    assert (view.snapshot().stale, view.snapshot().ended) == (None, True)
    view.apply(frames.Reset("connect", 1))
    assert view.snapshot().ended
    view.apply(frames.Ready(1))
    assert (view.snapshot().ended, view.snapshot().generation) == (False, 2)


def test_an_unknown_frame_changes_nothing():
    view = seeded()
    before = view.snapshot()
    view.apply(frames.Unknown())
    assert view.snapshot() == before


# ---- a part of the rows ----


@pytest.mark.parametrize("since,rows,full", [
    (None, [5, 6, 7], True), (4, [5, 6, 7], True), (5, [6, 7], False), (6, [7], False),
    (7, [], False), (8, [5, 6, 7], True),
])  # fmt: skip
def test_rows_since_a_seq_are_given_where_it_is_held(since, rows, full):
    now = seeded(rows=(5, 6, 7)).snapshot(since)
    assert ([row.seq for row in now.messages], now.full) == (rows, full)


def test_since_a_seq_of_nothing_is_everything():
    now = seeded(rows=()).snapshot(0)
    assert (now.messages, now.full) == ((), True)


# ---- the menu ----

CATALOG = frames.SlashCatalog((
    SlashRow("exit", "", "builtin", requires="stop", run=SlashRun("method", "session.stop")),
    SlashRow("btw", "", "agent", run=SlashRun("prompt", arg="optional")),
))  # fmt: skip


def test_the_menu_is_the_catalog_resolved_and_made_once():
    view = seeded(CATALOG)
    menu = view.snapshot().slash_menu
    assert menu == resolve(CATALOG.items, False, ABLE, SET)
    assert [row.name for row in menu.rows] == ["exit", "btw"]
    view.apply(message(4))
    assert view.snapshot().slash_menu is menu
    view.apply(frames.Capabilities(dataclasses.replace(ABLE, stop=False)))
    assert [row.name for row in view.snapshot().slash_menu.rows] == ["btw"]


def test_a_catalog_is_staged_and_swapped_and_may_be_cleared():
    view = seeded(CATALOG, frames.Reset("x", 2), frames.SlashCatalog())
    assert view.snapshot().slash_menu.rows
    view.apply(frames.Ready(2))
    assert view.snapshot().slash_menu.rows == ()
    for frame in (frames.Reset("x", 3), frames.Ready(3)):
        view.apply(frame)
    assert view.snapshot().slash_menu is None


# ---- any frames at all, against a slow and plain model ----

GENERATIONS = st.integers(1, 3)
REASONS = st.sampled_from(["connect", "reconnecting", "session_closed"])
FRAMES = st.one_of(
    st.builds(frames.Reset, REASONS, GENERATIONS),
    st.builds(frames.Ready, GENERATIONS),
    st.builds(frames.Stale, REASONS),
    st.builds(frames.Down, REASONS),
    st.builds(message, st.integers(1, 9)),
    st.builds(session, st.sampled_from(["idle", "working"])),
    st.builds(
        approval, st.sampled_from("ab"), st.sampled_from(["pending", "resolved"]),
        st.none() | st.integers(0, 2),
    ),
    st.sampled_from([frames.Capabilities(ABLE), frames.Capabilities(UNABLE)]),
    st.sampled_from([frames.Settings(SET), frames.Settings(LaneSettings())]),
    st.sampled_from([CATALOG, frames.SlashCatalog()]),
    st.just(frames.Unknown()),
)  # fmt: skip


def part(history, kind):
    """The last frame of a kind, None where there is none."""
    return next((frame for frame in reversed(history) if isinstance(frame, kind)), None)


def model(history):
    """What shows after these frames, from the beginning each time: a list of those that landed in
    the live buffer, and of those staged."""
    live, live_seed, live_generation = [], None, 0
    staged = None  # (generation of the view, the adapter's or None, frames)
    started, stale, ended = 0, None, False
    for frame in history:
        if isinstance(frame, frames.Reset):
            started += 1
            staged = (started, frame.generation, [])
        elif isinstance(frame, frames.Ready):
            if staged is None:
                stale = None if live_seed == frame.generation else stale
            elif staged[1] == frame.generation:
                live_generation, live_seed, live = staged
                staged, stale, ended = None, None, False
        elif isinstance(frame, frames.Stale | frames.Down):
            stale, ended = frame.reason, ended or isinstance(frame, frames.Down)
            staged = staged and (0, None, [])
        else:
            (live if staged is None else staged[2]).append(frame)
    return live, live_generation, stale, ended


@settings(max_examples=400)
@given(st.lists(FRAMES, max_size=40))
def test_the_view_is_what_a_plain_model_says(history):
    view = LaneView()
    for frame in history:
        view.apply(frame)
    live, generation, stale, ended = model(history)
    now = view.snapshot()
    assert list(now.messages) == [f.message for f in live if isinstance(f, frames.Message)]
    assert (now.generation, now.stale, now.ended) == (generation, stale, ended)
    row, able = part(live, frames.Session), part(live, frames.Capabilities)
    assert now.session == (row and row.session)
    assert now.activity == (row.session.activity if row else "unknown")
    assert now.capabilities == (able and able.capabilities)
    latest = {f.approval.id: f.approval for f in live if isinstance(f, frames.Approval)}
    pending = [one for one in latest.values() if one.status == "pending"]
    order = sorted(
        pending,
        key=lambda one: (
            -1 if one.created_at_unix_ms is None else one.created_at_unix_ms,
            one.id,
        ),
    )
    assert list(now.approvals) == order
    off = [at for at, f in enumerate(live) if f == frames.Capabilities(UNABLE)]
    after = live[off[-1] :] if off else live
    stated = part(after, frames.Settings) if able and able.capabilities.settings else None
    assert now.settings == (stated and stated.settings)
    catalog = part(live, frames.SlashCatalog)
    assert now.slash_menu == (
        catalog and resolve(catalog.items, catalog.aside, now.capabilities, now.settings)
    )


# ---- whether it goes on ----


def test_a_final_end_finishes_a_lane_for_good():
    course = Course()
    assert course.after(frames.Ready(1)) is Next.GO_ON
    assert course.after(frames.Down("session_closed")) is Next.FINISH
    assert course.finished
    assert course.after(frames.Down("unreachable")) is Next.FINISH


def test_any_other_end_is_reopened_after_a_wait_that_doubles_until_a_ready():
    course = Course()
    waits = []
    for _ in range(7):
        course.after(frames.Reset("connect", 1))
        assert course.after(frames.Down("unreachable")) is Next.REOPEN
        waits.append(course.delay)
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    course.after(frames.Ready(1))
    course.after(frames.Down("re-attach bound"))
    assert course.delay == 0.2 and not course.finished


def test_a_stale_lane_is_not_reopened():
    assert Course().after(frames.Stale("reconnecting")) is Next.GO_ON


def test_the_view_tells_its_state():
    assert repr(LaneView()) == "<LaneView 0: live, 0 rows>"
    assert repr(seeded(frames.Stale("lost"))) == "<LaneView 1: lost, 3 rows>"
    assert repr(seeded(frames.Down("x"))) == "<LaneView 1: ended, 3 rows>"
