"""Terminal tabs merged with a machine's rows."""

import itertools

import pytest

from craze_shed.contract.sessions import LaneSession
from craze_shed.tabs import FoldPlan, Tab, fold_plan, merged


def row(id, owner=None, at=None):
    return LaneSession(id=id, provider_session_id=owner, last_change_unix_ms=at)


def test_nothing_is_folded_while_the_feed_is_not_live():
    assert fold_plan([Tab(1, "ses-a"), Tab(2)], None) == FoldPlan({}, frozenset())


def test_the_newest_tab_is_absorbed_and_the_others_hidden():
    for tabs in itertools.permutations([3, 9, 6]):
        plan = fold_plan([Tab(tab, "ses-a") for tab in tabs], [row("h", "ses-a")])
        assert plan == FoldPlan({9: "h"}, frozenset((3, 6)))


@pytest.mark.parametrize("rows", [[], [row("h", "ses-b")], [row("h")], [row("h", "")]])
@pytest.mark.parametrize("owner", ["ses-a", ""])
def test_a_craze_tab_of_no_row_is_hidden(rows, owner):
    assert fold_plan([Tab(1, owner)], rows) == FoldPlan({}, frozenset((1,)))


@pytest.mark.parametrize("rows,target", [
    ([row("a", "s", 10), row("b", "s", 20)], "b"),
    ([row("b", "s", 10), row("a", "s", 20)], "a"),
    ([row("a", "s", 20), row("b", "s", 20)], "b"),
    ([row("a", "s", -5), row("b", "s")], "a"),
    ([row("a", "s", 0), row("b", "s")], "a"),
    ([row("a", "s"), row("b", "s")], "b"),
])  # fmt: skip
def test_of_two_rows_of_one_session_the_newer_takes_the_tab(rows, target):
    for order in (rows, rows[::-1]):
        assert fold_plan([Tab(1, "s")], order).absorbed == {1: target}


def test_a_tab_that_is_not_crazes_is_never_touched():
    assert fold_plan([Tab(1), Tab(2, "s")], [row("h", "s")]) == FoldPlan({2: "h"}, frozenset())


def test_a_row_takes_one_tab_and_each_session_its_own():
    plan = fold_plan([Tab(1, "s"), Tab(2, "t")], [row("a", "s"), row("b", "t"), row("c", "u")])
    rows = merged([row("a", "s"), row("b", "t"), row("c", "u")], plan)
    assert [one.tab_id for one in rows] == [1, 2, None]
