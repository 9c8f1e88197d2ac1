"""Text in terminal cells: graphemes, widths and cuts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire import cells

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
ACCENT = "e\u0301\u0323"
FLAG = "🇩🇪"
ENGLAND = "🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f"


GRAPHEMES = [
    (FAMILY, 2), (ACCENT, 1), (FLAG, 2), (ENGLAND, 2), ("👍🏽", 2), ("❤\ufe0f", 2), ("日", 2),
    ("ｗ", 2), ("한", 2), ("\u1112\u1161\u11ab", 2), ("\uac00\u11a8", 2), ("नि", 1),
    ("x", 1), ("é", 1), ("a\u200d", 1), ("\u200b", 0), ("👁\ufe0f\u200d🗨\ufe0f", 2),
]  # fmt: skip


@pytest.mark.parametrize("text,cells_taken", GRAPHEMES)
def test_a_grapheme_is_one_piece(text, cells_taken):
    assert list(cells.graphemes(text)) == [text]
    assert list(cells.graphemes(f"{text}b")) == [text, "b"]
    assert cells.width(text) == cells_taken


def test_neighbours_are_not_one_piece():
    for text in (
        "ab",
        "日本",
        FLAG + FLAG,
        FAMILY + FAMILY,
        "한국",
        "a\u200db",
        "\u11a8\u1100",
        "👍👍",
    ):
        half = len(text) // 2
        parts = [text[:half], text[half:]] if text != "a\u200db" else ["a\u200d", "b"]
        assert list(cells.graphemes(text)) == parts


@pytest.mark.parametrize("text,line", [
    ("", ""), ("\n \n\t\n", ""), ("\n\x1b\n  first \r\nsecond", "first"), ("a\tb", "a    b"),
    ("a\x00\x07b\x85c", "abc"), ("\u00a0x", "x"),
])  # fmt: skip
def test_one_line(text, line):
    assert cells.one_line(text) == line


@pytest.mark.parametrize("piece,width", [
    ("x", 1), ("é", 1), ("日", 2), (FAMILY, 2), (ACCENT, 1), (FLAG, 2),
])  # fmt: skip
def test_b68_a_cut_keeps_graphemes_and_its_cells(piece, width):
    fits = 200 // width
    assert cells.one_line(piece * fits) == piece * fits
    assert cells.one_line(piece * (fits + 1)) == piece * (199 // width) + "…"
    assert cells.one_line("a" + piece * 9, 4) == "a" + piece * (2 // width) + "…"


@given(st.lists(st.sampled_from(["a", " ", "日", FAMILY, ACCENT, FLAG, "\u200d", "\u0301", "…"])),
       st.integers(1, 12))  # fmt: skip
def test_a_line_never_takes_more_than_its_cells(pieces, most):
    text = "".join(pieces)
    line = cells.one_line(text, most)
    assert cells.width(line) <= most
    whole = list(cells.graphemes(text.strip()))
    kept = list(cells.graphemes(line.removesuffix("…")))
    assert kept == whole[: len(kept)] or line == text.strip()


@given(st.text(max_size=40))
def test_graphemes_are_the_text_in_pieces(text):
    assert "".join(cells.graphemes(text)) == text
    assert all(cells.graphemes(text))
