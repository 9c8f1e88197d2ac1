"""Cuts and one-line words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.transcript import notes, text

ANY = st.text(st.characters(codec=None), max_size=60)  # lone surrogates, too


def encoded(words: str) -> bytes:
    return words.encode("utf-8", "surrogatepass")


@given(ANY, st.integers(4, 80))
def test_b68_a_cut_is_the_most_that_fits_and_falls_between_characters(words: str, cap: int) -> None:
    head, tail = text.head(words, cap), text.tail(words, cap)
    assert words.startswith(head) and words.endswith(tail)
    for kept in (head, tail):
        assert text.size(kept) == len(encoded(kept)) <= cap
        assert kept == words or text.size(kept) > cap - 4
    if text.size(words) <= cap:
        assert words == head == tail == text.head_marked(words, cap) == text.tail_marked(words, cap)
    else:
        assert text.head_marked(words, cap) == text.head(words, cap - 3) + "…"
        assert text.tail_marked(words, cap) == "…" + text.tail(words, cap - 3)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("  a \t b\r\nc  ", "a b c"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;Zm9v\x1b\\x", "x"),
        ("\x9b2Jx\x9d0;y\x9cz", "xz"),
        ("\x1bPdevice\x1b\\x\x1b(By\x1bc", "xy"),
        ("a\x00\x08\x85b", "ab"),
        ("\x1b", ""),
        ("é\u2028 x", "é x"),
    ],
)
def test_b71_one_line_holds_nothing_that_a_terminal_would_run(words: str, line: str) -> None:
    assert text.one_line(words) == line


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (-5, "0"),
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (1234, "1.23k"),
        (12_345, "12.3k"),
        (890_000, "890k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_214_000, "1.21M"),
        (2_000_000, "2M"),
        (1_234_567_890, "1230M"),
    ],
)
def test_tokens_have_three_figures(count: int, words: str) -> None:
    assert notes.tokens(count) == words
