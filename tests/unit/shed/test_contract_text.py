"""Text made fit to show: escape sequences, controls, cuts between characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze_shed.contract import text

MARK = "…[truncated]"


@pytest.mark.parametrize("given_,clean", [
    ("plain", "plain"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("a\x1b]0;title\x07b", "ab"),
    ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
    ("a\x1b]52;c;never ended", "a"),
    ("a\x1b]0;cut\x1b[2Jb", "a0;cutb"),
    ("a\x1bMb\x1b_c\x1b\\d", "abcd"),
    ("a\x1b", "a"),
    ("a\x1b7b", "a7b"),
    ("\x00\x07\x08a\x7f\x80\x9b\x9fb", "ab"),
    ("a\tb\nc\vd\fe\rf", "a\tb\nc\vd\fe\rf"),
    ("日本 👩‍👧 é", "日本 👩‍👧 é"),
])  # fmt: skip
def test_b71_escape_sequences_and_controls_are_removed(given_, clean):
    assert text.sanitize_text(given_) == clean
    assert text.sanitize_text(clean) == clean


@pytest.mark.parametrize("given_,token", [
    ("once", "once"), (" a b\tc\n", "abc"), ("\x1b[2Ja\x9bb\x7f", "ab"), ("naïve", "naïve"),
])  # fmt: skip
def test_a_token_has_no_spaces(given_, token):
    assert text.sanitize_token(given_) == token


@pytest.mark.parametrize("given_,line", [
    ("  a\n b\t\tc  ", "a b c"), ("a\vb\fc", "abc"), ("\u00a0a\u3000b", "a b"), ("\n\t ", ""),
    ("a\x1b[31m b", "a b"),
])  # fmt: skip
def test_one_line(given_, line):
    assert text.sanitize_line(given_) == line


def test_the_cap_of_a_line_comes_before_its_white_space_is_collapsed():
    assert text.sanitize_line("a" + " " * 9000 + "b") == f"a {MARK}"


def test_a_cap_counts_bytes_and_says_that_it_cut():
    assert text.cap("x" * 8192) == "x" * 8192
    assert text.cap("x" * 8193) == "x" * 8192 + MARK
    assert text.cap("ab", 1, "") == "a"


@pytest.mark.parametrize("char", ["é", "日", "👩", "e\u0301"])
@pytest.mark.parametrize("before", range(4))
def test_b68_a_cut_falls_between_characters(char, before):
    capped = text.cap("x" * before + char * 9000)
    body = capped.removesuffix(MARK)
    assert capped != body and "\ufffd" not in body
    assert body == ("x" * before + char * 9000)[: len(body)]
    assert 8192 - 4 < len(body.encode()) <= 8192


@given(st.text(), st.integers(0, 40))
def test_a_cap_never_exceeds_its_limit_and_only_cuts_the_end(words, limit):
    capped = text.cap(words, limit, "")
    assert words.startswith(capped) and text.size(capped) <= limit


@given(st.text())
def test_sanitizing_twice_changes_nothing_more(words):
    once = text.sanitize_text(words)
    if "\x1b" not in words:
        assert text.sanitize_text(once) == once
    assert not set(once) & set("\x00\x1b\x7f\x9b")


@pytest.mark.parametrize("given_,shown", [
    (" a ", "a"), ("\u200b a\u200d\u202e ", "a"), ("\ufeff", ""), ("a\u00adb", "ab"),
    ("日\u2066", "日"),
])  # fmt: skip
def test_b71_characters_that_nobody_sees_are_not_shown(given_, shown):
    assert text.displayed(given_) == shown


@pytest.mark.parametrize("tokens,shown", [
    (850, "850"), (1234, "1.23k"), (12345, "12.3k"), (890000, "890k"), (1210000, "1.21M"),
    (2000000, "2M"), (10000, "10k"), (-3, "0"), (0, "0"), (999, "999"), (1000, "1k"),
    (999_600, "1M"), (999_400, "999k"), (68000, "68k"), (1500, "1.5k"), (1000000, "1M"),
    (99_960, "100k"), (9_996, "10k"), (2_345_678_901, "2346M"),
])  # fmt: skip
def test_tokens_are_told_in_three_figures(tokens, shown):
    assert text.token_count(tokens) == shown
