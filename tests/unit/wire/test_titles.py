"""Titles made safe to show on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire import titles

TITLES = [
    ("  two\n\twords  ", "two words"),
    ("\x1b[1;31mred\x1b[0m", "red"),
    ("\x9b31mred", "red"),
    ("a\x1b]0;window\x07b", "ab"),
    ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
    ("a\x9d0;window\x9cb", "ab"),
    ("a\x1bP1$r\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x9cd\x1bXsos\x18e", "abcde"),
    ("a\x1b]never ends", "a"),
    ("a\x1b]cut off\x1b[1mb", "ab"),
    ("a\x1b(Bb\x1bcc", "abc"),
    ("a\x1b", "a"),
    ("a\x1b[3é", "aé"),
    ("a\rb\x00\x07\x7f\x85c", "abc"),
    ("a\u200bb\u2060c\ufeffd\u202ae\u2066f", "abcdef"),
    ("a\u200cb\u200dc\u200ed\u200fe", "a\u200cb\u200dc\u200ed\u200fe"),
    ("a\u00a0\u3000b", "a b"),
    ("\ud800", "\ufffd"),
    ("x" * 119 + "  yz", "x" * 119),
    ("😀" * 121, "😀" * 120),
    (" \n\t\u200b", ""),
    ("", ""),
]


@pytest.mark.parametrize("title,normal", TITLES)
def test_a_title_is_normalized(title, normal):
    assert titles.normalize(title) == normal


odd = st.text(st.sampled_from("ab \n\t\x1b[]m0;\x07\\\x9b\x9c\x85\u200b\u200d\u202e\ud800é😀"))


@given(odd | st.text())
def test_a_normal_title_stays_as_it_is(title):
    normal = titles.normalize(title)
    assert titles.normalize(normal) == normal
    assert len(normal) <= 120 and normal == normal.strip()
    assert not set(normal) & set("\x1b\n\t\r\x9b\u200b\u202e")
