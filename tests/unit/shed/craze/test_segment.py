"""Streamed text cut into rows: where it ends, where it is full, never inside a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze_shed.contract.rows import FeedMessage
from craze_shed.contract.text import MAX_FEED_MESSAGE_BYTES
from craze_shed.craze.segment import Segmenter


def texts(rows: list[FeedMessage]) -> list[str]:
    return [row.text or "" for row in rows]


def test_a_run_is_one_row_with_its_first_chunks_time() -> None:
    run = Segmenter()
    assert run.grow("assistant", "text", "Hello, ", "t1") == []
    assert run.grow("assistant", "text", "world", "t2") == []
    assert len(run) == 12
    assert run.close() == [FeedMessage(ts="t1", role="assistant", type="text", text="Hello, world")]
    assert len(run) == 0 and run.close() == []


def test_a_chunk_of_another_kind_closes_the_run() -> None:
    run = Segmenter()
    run.grow("assistant", "reasoning", "think", "t1")
    assert texts(run.grow("assistant", "text", "Hello", "t2")) == ["think"]
    assert run.close() == [FeedMessage(ts="t2", role="assistant", type="text", text="Hello")]


def test_an_empty_chunk_changes_nothing_not_even_of_another_kind() -> None:
    run = Segmenter()
    run.grow("assistant", "reasoning", "think ", "t1")
    assert run.grow("assistant", "text", "", "t2") == []
    assert run.grow("assistant", "reasoning", "hard", "t3") == []
    assert texts(run.close()) == ["think hard"]


@pytest.mark.parametrize("blank", [" ", "\n\n", "\u00a0\t"])
def test_a_blank_run_is_no_row(blank: str) -> None:
    run = Segmenter()
    run.grow("assistant", "text", blank, "t1")
    assert run.close() == []


def test_a_full_run_goes_on_in_the_next_row_with_the_chunks_time() -> None:
    run = Segmenter()
    made = [row for n in range(9) for row in run.grow("assistant", "text", "x" * 1000, f"t{n}")]
    assert [(row.ts, len(row.text or "")) for row in made] == [("t0", 8192)]
    (last,) = run.close()
    assert (last.ts, len(last.text or "")) == ("t8", 9000 - 8192)


def test_exactly_full_is_not_over() -> None:
    run = Segmenter()
    assert run.grow("assistant", "text", "x" * MAX_FEED_MESSAGE_BYTES, "t1") == []
    assert [len(row.text or "") for row in run.grow("assistant", "text", "y", "t2")] == [8192]
    assert texts(run.close()) == ["y"]


@pytest.mark.parametrize("character", ["é", "漢", "😀", "👩‍👩‍👧‍👦", "e\u0301"])
@pytest.mark.parametrize("lead", range(4))
def test_b68_a_cut_falls_between_characters(character: str, lead: int) -> None:
    words = "x" * lead + character * 4000
    run = Segmenter()
    made = run.grow("assistant", "text", words, "t") + run.close()
    assert "".join(texts(made)) == words
    sizes = [len((row.text or "").encode()) for row in made]
    assert max(sizes) <= MAX_FEED_MESSAGE_BYTES
    assert all(size > MAX_FEED_MESSAGE_BYTES - 4 for size in sizes[:-1])


@given(
    st.lists(st.text(st.sampled_from("ab é漢😀\n"), max_size=9), max_size=30), st.integers(4, 20)
)
def test_nothing_is_lost_and_nothing_is_over_the_limit(chunks: list[str], limit: int) -> None:
    run = Segmenter(limit)
    made = [row for chunk in chunks for row in run.grow("assistant", "text", f"{chunk}.", None)]
    made += run.close()
    whole = "".join(f"{chunk}." for chunk in chunks)
    kept = "".join(texts(made))
    # A blank piece is no row; all else comes through, in order.
    assert "".join(kept.split()) == "".join(whole.split())
    assert all(len((row.text or "").encode()) <= limit for row in made)


def test_a_surrogate_is_no_failure() -> None:
    run = Segmenter()
    run.grow("assistant", "text", "a\ud800b", None)
    assert texts(run.close()) == ["a?b"]
