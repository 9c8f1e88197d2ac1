"""The roster's rows, their bounds, and its cursor, without a socket or a clock."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.hub.roster import (
    CONNECTING,
    REACHABLE,
    UNREACHABLE,
    Change,
    Roster,
    View,
    change,
    encode,
    listable,
)
from craze.machine.registry import Entry
from craze.wire import documents, schema
from craze.wire.limits import OUTBOUND_LINE, ROSTER_FRESH, ROSTER_HOST_ROW, ROSTER_ROW, ROSTER_ROWS

ROW = b'{"sessionId":"s-1","title":"as it came" }'


def entry(id: str = "0123456789ab", **members: Any) -> Entry:
    given: dict[str, Any] = {"crazeSessionId": "s-1", "provider": "grok", "workspace": "/work"}
    return Entry(1, id, 7, "2026-01-01T00:00:00Z", "/s", **{"ready": True, **given, **members})


def row(line: bytes) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(line)
    schema.validator("rosterRow").validate(made)
    return made


def rows(roster: Roster) -> dict[str, dict[str, Any]]:
    return {id: row(line) for id, line in roster.view().rows.items()}


def ids(count: int) -> list[str]:
    return [f"{number:012x}" for number in range(count)]


# ---- a row ----


def test_a_row_is_as_the_tables_say_byte_for_byte() -> None:
    assert encode(entry(), "1.2.3", REACHABLE, ROW) == (
        b'{"hostId":"0123456789ab","sessionId":"s-1","host":{"pid":7,"crazeVersion":"1.2.3",'
        b'"protocol":1,"provider":"grok","workspace":"/work","startedAt":"2026-01-01T00:00:00Z",'
        b'"ready":true},"status":"reachable","approximate":false,"row":' + ROW + b"}"
    )


def test_a_host_that_was_never_read_has_no_row_and_no_version() -> None:
    made = row(encode(entry(ready=False, provider=""), "", CONNECTING, b""))
    assert made["host"]["crazeVersion"] == made["host"]["provider"] == ""
    assert made["host"]["ready"] is False
    assert (made["status"], made["approximate"], "row" in made) == (CONNECTING, True, False)


@pytest.mark.parametrize("status", [CONNECTING, UNREACHABLE])
def test_what_is_not_reachable_is_approximate(status: str) -> None:
    assert row(encode(entry(), "1", status, ROW))["approximate"] is True


def test_a_row_of_another_build_is_handed_on_as_it_came() -> None:
    odd = b'{"b":1.0,"a":"\\u00e9\xc3\xa9\\/","a":[ ]}'
    line = encode(entry(), "1", REACHABLE, odd)
    assert line.endswith(b'"row":' + odd + b"}")
    row(line)


# ---- the bounds, in their order ----


@pytest.mark.parametrize(
    ("member", "most"), [("crazeVersion", 128), ("provider", 64), ("workspace", 4096)]
)
def test_a_host_string_over_its_bound_is_cut_to_it(member: str, most: int) -> None:
    def made(text: str) -> dict[str, Any]:
        members = {} if member == "crazeVersion" else {member: text}
        version = text if member == "crazeVersion" else "1"
        return row(encode(entry(**members), version, REACHABLE, ROW))

    fits, cut = made("é" * most), made("é" * most + "x")
    assert (fits["host"][member], fits["approximate"]) == ("é" * most, False)
    assert (cut["host"][member], cut["approximate"]) == ("é" * most, True)
    assert "row" in cut


def test_a_host_row_over_16_kib_is_dropped() -> None:
    fits = b'{"x":"%b"}' % (b"x" * (ROSTER_HOST_ROW - 8))
    assert len(fits) == ROSTER_HOST_ROW
    assert row(encode(entry(), "1", REACHABLE, fits))["approximate"] is False
    over = row(encode(entry(), "1", REACHABLE, fits + b" "))
    assert (over["approximate"], "row" in over, over["status"]) == (True, False, REACHABLE)


def test_a_large_row_beside_strings_that_json_escapes_is_dropped_last() -> None:
    # Each control character of the workspace is six bytes on the wire.
    large = b'{"x":"%b"}' % (b"x" * 16_000)
    bare = len(encode(entry(workspace=""), "1", REACHABLE, large))
    fits = "\x01" * ((ROSTER_ROW - bare) // 6)
    line = encode(entry(workspace=fits), "1", REACHABLE, large)
    assert ROSTER_ROW - 6 < len(line) <= ROSTER_ROW
    assert row(line)["approximate"] is False
    over = encode(entry(workspace=fits + "\x01"), "1", REACHABLE, large)
    assert ("row" in row(over), row(over)["approximate"]) == (False, True)
    assert row(over)["host"]["workspace"] == fits + "\x01"


def test_the_largest_row_is_within_the_last_bound() -> None:
    worst = entry("f" * 12, crazeSessionId="s" * 128, provider="\x01" * 99, workspace="\x01" * 9999)
    line = encode(worst._replace(startedAt="\x01" * 99), "\x01" * 999, UNREACHABLE, ROW)
    assert len(line) <= ROSTER_ROW


def test_a_full_roster_fits_one_line() -> None:
    roster = Roster()
    for id in ids(ROSTER_ROWS + 1):
        full = b'{"x":"%b"}' % (b"x" * (ROSTER_HOST_ROW - 8))
        known = entry(id, crazeSessionId="s" * 128, workspace="\x01" * 2500)
        roster.read(known, "1" * 128, full, 0)
    view = roster.view()
    assert len(view.rows) == ROSTER_ROWS and view.truncated
    assert all(ROSTER_ROW - 1000 < len(line) <= ROSTER_ROW for line in view.rows.values())
    reply = documents.list_result(
        "0" * 12, 2**64 - 1, view.rows.values(), truncated=True, subscription="r-1"
    )
    told = documents.roster_change("r-1", "0" * 12, 2**64 - 1, view.rows.values(), [])
    assert max(len(reply), len(told)) + 1024 + 100 <= OUTBOUND_LINE


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("stopping", True),
        ("protocol", 0),
        ("hostId", "0123456789AB"),
        ("crazeSessionId", ""),
        ("crazeSessionId", "a b"),
        ("crazeSessionId", "s" * 129),
    ],
)
def test_what_is_not_listed(member: str, value: Any) -> None:
    assert listable(entry())
    assert not listable(entry()._replace(**{member: value}))


# ---- the cursor ----


def test_a_first_listing_counts_once_and_its_first_read_once() -> None:
    roster = Roster()
    assert roster.view() == View(0, {}, False)
    roster.listed(entry(), 0)
    assert (roster.cursor, rows(roster)["0123456789ab"]["status"]) == (1, CONNECTING)
    roster.read(entry(), "1", ROW, 0)
    assert (roster.cursor, rows(roster)["0123456789ab"]["status"]) == (2, REACHABLE)


def test_what_changes_no_byte_moves_nothing() -> None:
    roster = Roster()
    for _ in range(3):
        roster.listed(entry(), 0)
        roster.read(entry(), "1", ROW, 0)
        roster.age(0)
    assert roster.cursor == 2
    roster.read(entry(incarnation="other"), "1", ROW, 0)  # of which a row says nothing
    assert roster.cursor == 2
    roster.read(entry(), "1", ROW + b" ", 0)
    assert roster.cursor == 3


def test_a_row_that_grows_old_is_approximate_once_and_exact_again_when_it_is_read() -> None:
    roster = Roster()
    roster.read(entry(), "1", ROW, 100)
    seen = []
    for now in (100 + ROSTER_FRESH, 101 + ROSTER_FRESH, 110):
        roster.age(now)
        seen.append((roster.cursor, rows(roster)["0123456789ab"]["approximate"]))
    assert seen == [(1, False), (2, True), (2, True)]
    roster.read(entry(), "1", ROW, 110)
    assert (roster.cursor, rows(roster)["0123456789ab"]["approximate"]) == (3, False)


def test_a_host_that_fails_keeps_what_it_said() -> None:
    roster = Roster()
    roster.read(entry(), "1", ROW, 0)
    assert roster.reachable("0123456789ab")
    roster.failed("0123456789ab", 0)
    made = rows(roster)["0123456789ab"]
    assert (made["status"], made["approximate"]) == (UNREACHABLE, True)
    assert made["row"]["title"] == "as it came" and made["host"]["crazeVersion"] == "1"
    assert not roster.reachable("0123456789ab") and not roster.reachable("f" * 12)
    before = roster.cursor
    roster.age(100)
    roster.failed("f" * 12, 0)
    assert roster.cursor == before


def test_a_host_that_leaves_counts_once() -> None:
    roster = Roster()
    roster.listed(entry(), 0)
    roster.drop("0123456789ab")
    roster.drop("0123456789ab")
    assert roster.view() == View(2, {}, False)
    assert "0123456789ab" not in roster and roster.hosts == []


# ---- a view, and what leads to the next ----


def test_rows_are_in_host_id_order_however_they_came() -> None:
    roster = Roster()
    for id in ("b" * 12, "0" * 12, "f" * 12, "a" * 12):
        roster.listed(entry(id), 0)
    assert list(roster.view().rows) == ["0" * 12, "a" * 12, "b" * 12, "f" * 12]


def test_the_513th_host_is_left_out_and_the_roster_says_so() -> None:
    roster = Roster()
    for id in reversed(ids(ROSTER_ROWS)):
        roster.listed(entry(id), 0)
    assert not roster.view().truncated
    roster.listed(entry("0" * 11 + "f"), 0)  # one of them
    assert not roster.view().truncated
    last = f"{ROSTER_ROWS:012x}"
    roster.listed(entry(last), 0)
    view = roster.view()
    assert view.truncated and len(view.rows) == ROSTER_ROWS and last not in view.rows
    roster.drop("0" * 12)
    view = roster.view()
    assert not view.truncated and last in view.rows


def test_a_change_names_each_host_once_and_in_order() -> None:
    before = View(1, {"a": b"1", "b": b"1", "c": b"1", "d": b"1"}, False)
    after = View(9, {"0": b"2", "a": b"1", "b": b"2", "e": b"2"}, False)
    assert change(before, after) == Change([b"2", b"2", b"2"], ["c", "d"])
    assert change(after, after) == Change([], [])


def fold(view: View, step: Change, after: View) -> View:
    """What a client makes of a notification."""
    held = {id: line for id, line in view.rows.items() if id not in step.removes}
    held |= {json.loads(line)["hostId"]: line for line in step.upserts}
    return View(after.cursor, dict(sorted(held.items())), view.truncated)


HAPPENINGS = st.one_of(
    st.tuples(st.just("listed"), st.sampled_from("abc"), st.sampled_from(["/x", "/y"])),
    st.tuples(st.just("read"), st.sampled_from("abc"), st.sampled_from([b'{"t":1}', b'{"t":2}'])),
    st.tuples(st.just("failed"), st.sampled_from("abc"), st.none()),
    st.tuples(st.just("drop"), st.sampled_from("abc"), st.none()),
    st.tuples(st.just("age"), st.none(), st.integers(0, 9)),
    st.tuples(st.just("told"), st.none(), st.none()),
)


@given(st.lists(HAPPENINGS, max_size=40))
def test_a_client_that_folds_every_change_holds_the_roster(story: list[Any]) -> None:
    roster = Roster()
    held, now, highest = roster.view(), 0, 0
    for what, letter, more in story:
        before = roster.view()
        id = letter * 12 if letter else ""
        if what == "listed":
            roster.listed(entry(id, workspace=more), now)
        elif what == "read":
            roster.read(entry(id), "1", more, now)
        elif what == "failed":
            roster.failed(id, now)
        elif what == "drop":
            roster.drop(id)
        elif what == "age":
            now += more
            roster.age(now)
        else:
            step = change(held, before)
            assert not {json.loads(line)["hostId"] for line in step.upserts} & set(step.removes)
            held = fold(held, step, before)
            assert held == before
        after = roster.view()
        assert after.cursor >= highest
        assert (after.rows != before.rows) <= (after.cursor > before.cursor)
        highest = after.cursor
    final = roster.view()
    assert fold(held, change(held, final), final) == final
