"""Lanes whose rows have left: a grace each, called off by a return, in order."""

import gevent
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze_shed.craze.departures import Departures, Graces
from tests.unit.shed.craze.scripting import settle, until


def test_a_grace_is_ten_seconds():
    graces = Graces()
    graces.left("a", "session_gone", 1, 100.0)
    assert graces.next() == 110.0
    assert graces.over(109.9) == []
    assert graces.over(110.0) == [("a", "session_gone")]
    assert graces.over(200.0) == [] and graces.next() is None


def test_a_return_calls_it_off_and_a_later_leave_has_a_fresh_grace():
    graces = Graces()
    graces.left("a", "session_gone", 1, 0.0)
    graces.back("a", 2)
    assert graces.next() is None and graces.over(99.0) == []
    graces.left("a", "hub_gone", 3, 100.0)
    assert graces.over(109.0) == [] and graces.over(110.0) == [("a", "hub_gone")]


def test_a_repeated_removal_extends_nothing_and_the_first_reason_counts():
    graces = Graces()
    graces.left("a", "session_gone", 1, 0.0)
    graces.left("a", "hub_gone", 2, 9.0)
    assert graces.over(10.0) == [("a", "session_gone")]
    graces = Graces()
    graces.left("a", "session_gone", 1, 0.0)
    graces.left("a", "session_gone", 3, 9.0)
    graces.back("a", 2)  # from between the two
    assert graces.over(10.0) == [("a", "session_gone")]


def test_an_older_report_never_undoes_a_newer_one():
    graces = Graces()
    graces.left("a", "session_gone", 5, 0.0)
    graces.back("a", 4)
    assert graces.over(10.0) == [("a", "session_gone")]
    graces.back("b", 5)
    graces.left("b", "session_gone", 4, 0.0)
    assert graces.over(10.0) == []
    graces.left("a", "session_gone", 3, 20.0)  # nor once it has ended
    assert graces.next() is None


def test_lanes_are_apart_and_are_forgotten():
    graces = Graces(1.0)
    graces.left("a", "session_gone", 1, 0.0)
    graces.left("b", "hub_gone", 2, 0.5)
    graces.back("c", 3)
    assert graces.next() == 1.0
    graces.forget("a")
    graces.forget("a")
    assert graces.next() == 1.5 and graces.over(9.0) == [("b", "hub_gone")]


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 30)),
        min_size=1,
        max_size=12,
        unique_by=lambda r: r[1],
    ),
    st.randoms(),
)
def test_reports_come_to_the_same_in_any_order(reports, random):
    """What counts in the end is the newest, whenever each came."""
    newest = max(reports, key=lambda report: report[1])
    random.shuffle(reports)
    graces = Graces(10.0)
    for leaves, order in reports:
        if leaves:
            graces.left("a", "session_gone", order, 0.0)
        else:
            graces.back("a", order)
    assert (graces.next() is not None) == newest[0]


@pytest.fixture
def ended():
    return []


@pytest.fixture
def make(ended):
    made = []

    def departures(**options):
        made.append(Departures(lambda id, reason: ended.append((id, reason)), **options))
        return made[-1]

    yield departures
    for one in made:
        one.close()
        one.close()


def test_the_timer_ends_whose_grace_is_over(make, ended):
    departures = make(grace=0.02)
    departures.left("a", "session_gone", 1)
    departures.left("b", "session_gone", 2)
    departures.back("b", 3)
    until(lambda: ended)
    assert ended == [("a", "session_gone")]
    departures.left("b", "hub_gone", 4)
    until(lambda: len(ended) == 2)
    assert ended[1] == ("b", "hub_gone")


def test_the_timer_goes_by_the_clock(make, ended, clock):
    departures = make(clock=clock)
    departures.left("a", "session_gone", 1)
    settle()
    clock.at += 9.9
    departures.back("other", 2)  # anything, to have it look
    settle()
    assert ended == []
    clock.at += 0.1
    departures.back("other", 3)
    until(lambda: ended == [("a", "session_gone")])


def test_once_it_is_closed_it_ends_nobody(make, ended):
    departures = make(grace=0.01)
    departures.left("a", "session_gone", 1)
    departures.close()
    gevent.sleep(0.03)
    assert ended == []
