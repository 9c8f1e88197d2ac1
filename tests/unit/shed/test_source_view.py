"""The view of a source: listed, kept while offline, departed."""

from craze_shed.contract import frames
from craze_shed.contract.capabilities import SourceCapabilities
from craze_shed.contract.sessions import LaneSession
from craze_shed.view import SourceChange, SourceView

ABLE = frames.SourceCapabilitiesFrame(SourceCapabilities("craze", True, True))


def row(id, title=""):
    return frames.SourceSession(LaneSession(id=id, title=title))


def seeded(*ids, generation=1):
    view = SourceView()
    for frame in (frames.SourceReset("connect", generation), *map(row, ids), ABLE):
        assert view.apply(frame) == SourceChange()
    assert view.apply(frames.SourceReady(generation)) == SourceChange(ids)
    return view


def ids(view):
    return [one.id for one in view.sessions]


def test_a_seed_is_swapped_in_whole_and_departs_what_it_lacks():
    view = seeded("a", "b", "c")
    for frame in (frames.SourceReset("reconnect", 2), row("c"), row("d")):
        view.apply(frame)
    assert (ids(view), view.capabilities) == (["a", "b", "c"], ABLE.capabilities)
    change = view.apply(frames.SourceReady(2, truncated=True))
    assert change == SourceChange(("c", "d"), ("a", "b"))
    assert (ids(view), view.capabilities, view.truncated) == (["c", "d"], None, True)


def test_a_ready_swaps_only_its_own_generation():
    view = seeded("a")
    view.apply(frames.SourceReset("lagged", 2))
    assert view.apply(frames.SourceReady(1)) == SourceChange()
    assert ids(view) == ["a"]


def test_an_upsert_keeps_the_rows_place():
    view = seeded("a", "b")
    assert view.apply(row("a", "new")) == SourceChange(("a",))
    assert [one.title for one in view.sessions] == ["new", ""]


def test_a_removal_departs_what_was_listed():
    view = seeded("a", "b")
    assert view.apply(frames.SourceRemoved("a")) == SourceChange(departed=("a",))
    assert view.apply(frames.SourceRemoved("a")) == SourceChange()
    assert ids(view) == ["b"]


def test_while_offline_the_last_rows_stay_and_are_approximate():
    view = seeded("a")
    view.apply(frames.SourceReset("reconnect", 2))
    view.apply(row("b"))
    offline = frames.SourceOffline("gone", "unreachable")
    assert view.apply(offline) == SourceChange()
    assert view.apply(row("c")) == view.apply(frames.SourceReady(2)) == SourceChange()
    assert ids(view) == ["a"] and view.sessions[0].approximate and view.offline == offline
    assert repr(view) == "<SourceView unreachable: 1 sessions>"
    for frame in (frames.SourceReset("reconnect", 3), row("a"), frames.SourceReady(3)):
        view.apply(frame)
    assert view.offline is None and not view.sessions[0].approximate


def test_a_source_that_goes_dormant_loses_its_rows():
    view = seeded("a", "b")
    assert view.go_dormant() == SourceChange(departed=("a", "b"))
    assert (view.sessions, view.capabilities, view.offline) == ((), None, None)
    assert view.go_dormant() == SourceChange()


def test_an_unknown_frame_changes_nothing():
    assert seeded("a").apply(frames.SourceUnknown()) == SourceChange()
