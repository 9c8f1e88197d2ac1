"""Rows: read without ever failing, numbered and bounded by the ring."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire import json
from craze_shed.contract.rows import FeedApproval, FeedMessage, FeedTool, Ring

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
NAMES = ("seq", "ts", "role", "type", "text", "tool", "approval", "else")
ROWS = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, VALUES))


def test_a_row_is_written_in_the_order_of_the_contract():
    row = FeedMessage(
        seq=4, ts="t", role="tool", type="approval_request", text="x",
        tool=FeedTool("permission", "d"),
        approval=FeedApproval("a", "resolved", "allow", ("allow", "deny")),
    )  # fmt: skip
    assert json.dumps(row.to_wire()) == (
        b'{"seq":4,"ts":"t","role":"tool","type":"approval_request","text":"x",'
        b'"tool":{"name":"permission","detail":"d"},'
        b'"approval":{"id":"a","status":"resolved","decision":"allow","decisions":["allow","deny"]}}'
    )
    assert FeedMessage.from_wire(row.to_wire()) == row


def test_no_decisions_are_not_written():
    assert FeedApproval("a", "pending").to_wire() == {"id": "a", "status": "pending"}


@pytest.mark.parametrize("value", [None, 3, "row", [], True, 1.5])
def test_what_is_no_object_is_the_default_row(value):
    assert FeedMessage.from_wire(value) == FeedMessage()


@pytest.mark.parametrize("name,value", [
    ("seq", -1), ("seq", "1"), ("seq", 2**64), ("ts", 3), ("role", None), ("type", []),
    ("text", {}), ("tool", "shell"), ("approval", []),
])  # fmt: skip
def test_a_field_of_the_wrong_type_is_at_its_default_alone(name, value):
    good = {"seq": 2, "role": "user", "type": "text", "text": "hi"}
    expected = {key: it for key, it in good.items() if key != name}
    assert FeedMessage.from_wire({**good, name: value}) == FeedMessage(**expected)


def test_what_is_inside_a_row_is_forgiven_too():
    read = FeedMessage.from_wire({
        "tool": {"name": 3, "detail": "d"},
        "approval": {"id": "a", "status": 1, "decisions": ["allow", 2]},
    })  # fmt: skip
    assert read.tool == FeedTool(None, "d")
    assert read.approval == FeedApproval("a")


@given(VALUES | ROWS)
def test_reading_a_row_never_fails(value):
    row = FeedMessage.from_wire(value)
    assert FeedMessage.from_wire(row.to_wire()) == row


def test_b71_shown_text_is_trimmed_and_an_emptied_one_is_absent():
    read = FeedMessage.from_wire({
        "text": " \u200bhi\u202e ", "tool": {"name": "\u200b", "detail": " d "}, "role": " r ",
    })  # fmt: skip
    assert read == FeedMessage(text="hi", tool=FeedTool(None, "d"), role=" r ")
    assert FeedMessage.from_wire({"text": " \u200d "}).text is None


# ---- the ring ----


def row(text, **members):
    return FeedMessage(role="user", type="text", text=text, **members)


def test_the_ring_numbers_from_one_and_stamps_what_has_no_time():
    ring = Ring()
    first = ring.append(row("a", seq=99), 1_700_000_000_999)
    second = ring.append(row("b", ts="2026-01-01T00:00:00.5+01:00"), 0)
    third = ring.append(row("c", ts=""), -1)
    assert (first.seq, first.ts) == (1, "2023-11-14T22:13:20Z")
    assert (second.seq, second.ts) == (2, "2026-01-01T00:00:00.5+01:00")
    assert (third.seq, third.ts) == (3, "1969-12-31T23:59:59Z")
    assert repr(ring) == "<Ring: 3 rows, 3 bytes, last 3>"


def test_b71_the_ring_cleans_text_tools_and_tokens():
    kept = Ring().append(
        row(
            "a\x1b[2Jb" + "x" * 9000,
            tool=FeedTool("n\x9b", "d\x1b]0;x\x07"),
            approval=FeedApproval("i d" + "x" * 200, "pen\x1b[1mding", "al low", ("a b",) * 9),
        ),
        0,
    )
    assert kept.text == "ab" + "x" * 8190 + "…[truncated]"
    assert kept.tool == FeedTool("n", "d")
    assert kept.approval == FeedApproval("id" + "x" * 126, "pending", "allow", ("ab",) * 8)


def test_an_empty_text_stays_one():
    assert Ring().append(row(""), 0).text == ""


def test_the_ring_keeps_the_newest_500():
    ring = Ring()
    for number in range(501):
        ring.append(row(str(number)), 0)
    rows, truncated = ring.page(200)
    assert (rows[0].seq, rows[-1].seq, len(ring)) == (302, 501, 500)
    assert ring.dropped and truncated


def test_the_ring_keeps_a_mebibyte_and_never_drops_its_only_row():
    ring = Ring()
    for _ in range(129):
        ring.append(row("x" * 8192), 0)
    assert len(ring) == 128
    ring.append(row("é" * 4096), 0)
    assert len(ring) == 128


@pytest.mark.parametrize("limit,given_", [(0, 100), (1, 1), (200, 200), (201, 200), (10**9, 200)])
def test_a_page_is_bounded(limit, given_):
    ring = Ring()
    for number in range(300):
        ring.append(row(str(number)), 0)
    rows, truncated = ring.page(limit)
    assert [one.seq for one in rows] == list(range(301 - given_, 301))
    assert truncated


def test_a_page_of_everything_is_not_truncated():
    ring = Ring()
    assert ring.page() == ((), False)
    ring.append(row("a"), 0)
    assert ring.page(1)[1] is False
