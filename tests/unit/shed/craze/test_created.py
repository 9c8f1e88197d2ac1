"""The rows of what was just created, until a roster has them."""

import pytest

from craze_shed.contract.sessions import LaneSession
from craze_shed.craze.created import MOST_GONE, MOST_ROWS, CreatedRows
from craze_shed.craze.limits import CREATED as KEPT


def row(id: str) -> LaneSession:
    return LaneSession(id=id, title=f"row {id}")


def ids(rows: CreatedRows, now: float = 0.0) -> list[str]:
    return [one.id for one in rows.rows(now)]


@pytest.fixture
def rows() -> CreatedRows:
    return CreatedRows()


def test_a_created_row_is_listed_in_host_id_order(rows):
    assert rows.created(row("b"), 0) and rows.created(row("a"), 0)
    assert ids(rows) == ["a", "b"]
    assert rows.get("a", 0) == row("a") and rows.get("c", 0) is None


def test_a_listed_row_is_known_too(rows):
    rows.seeded([row("a")], 0)
    rows.listed(row("b"))
    assert ids(rows) == [] and rows.get("a", 0) == row("a") and rows.get("b", 0) == row("b")
    rows.gone("a", 1)
    assert rows.get("a", 1) is None


def test_for_ten_minutes(rows):
    rows.created(row("a"), 0)
    assert ids(rows, KEPT - 0.1) == ["a"]
    assert ids(rows, KEPT) == [] and rows.get("a", KEPT) is None


def test_a_row_that_is_answered_again_begins_its_time_anew(rows):
    rows.created(row("a"), 0)
    rows.created(row("a"), 500)
    assert ids(rows, 1000) == ["a"] and ids(rows, 1100) == []


def test_at_most_so_many_and_the_oldest_goes(rows):
    for number in range(MOST_ROWS + 2):
        rows.created(row(f"{number:03}"), number)
    assert len(ids(rows)) == MOST_ROWS and ids(rows)[0] == "002"


def test_a_roster_that_lists_it_has_it(rows):
    rows.created(row("a"), 0)
    rows.listed(row("a"))
    assert ids(rows) == []
    rows.created(row("b"), 0)
    rows.seeded([row("a"), row("b")], 0)
    assert ids(rows) == []


def test_one_that_is_listed_already_is_not_kept(rows):
    rows.seeded([row("a")], 0)
    assert rows.created(row("a"), 0)
    assert ids(rows) == []


def test_a_roster_that_removes_it_takes_it(rows):
    rows.created(row("a"), 0)
    assert rows.gone("a", 0)
    assert ids(rows) == [] and not rows.gone("a", 0)


def test_b06_a_seed_that_does_not_list_it_keeps_it(rows):
    rows.created(row("a"), 0)
    rows.seeded([], 1)
    rows.seeded([row("b")], 2)
    assert ids(rows) == ["a"]


def test_what_a_reseed_drops_is_gone(rows):
    rows.seeded([row("a"), row("b")], 0)
    rows.seeded([row("b")], 1)
    assert not rows.created(row("a"), 2) and ids(rows) == []
    rows.seeded([], 3)
    rows.seeded([], 4)  # which drops nothing more
    assert not rows.created(row("b"), 5)


@pytest.mark.parametrize("leaves", ["removed", "dropped", "lane"])
def test_what_has_gone_is_not_listed_again_by_a_late_answer(rows, leaves):
    rows.created(row("a"), 0)
    if leaves == "dropped":
        rows.listed(row("a"))
        rows.seeded([], 1)
    else:  # the roster's removal, and what its lane saw
        rows.gone("a", 1)
    assert not rows.created(row("a"), 2) and ids(rows, 2) == []
    assert not rows.created(row("a"), KEPT + 0.9)
    assert rows.created(row("a"), KEPT + 1) and ids(rows, KEPT + 1) == ["a"]


def test_a_roster_that_lists_it_after_all_forgets_that_it_was_gone(rows):
    rows.gone("a", 0)
    rows.listed(row("a"))
    rows.seeded([], 1)  # gone again
    assert not rows.created(row("a"), 2)
    rows.gone("b", 0)
    rows.seeded([row("b")], 1)
    rows.hub_gone()
    assert rows.created(row("b"), 2)


def test_the_gone_are_bounded_and_the_oldest_is_forgotten(rows):
    for number in range(MOST_GONE + 1):
        rows.gone(f"{number}", 0)
    assert rows.created(row("0"), 1) and not rows.created(row("1"), 1)


def test_a_lane_that_ends_takes_a_row_that_no_roster_had(rows):
    rows.created(row("a"), 0)
    rows.seeded([row("b")], 0)
    assert rows.gone("a", 1)  # nobody else will say so
    assert not rows.gone("b", 1)  # the roster will


def test_rows_leave_with_their_hub_and_are_not_gone_for_good(rows):
    rows.seeded([row("a")], 0)
    rows.created(row("b"), 0)
    rows.hub_gone()
    assert ids(rows) == []
    assert rows.created(row("a"), 1) and rows.created(row("b"), 1)
    assert ids(rows, 1) == ["a", "b"]
