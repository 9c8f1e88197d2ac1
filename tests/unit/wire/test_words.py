"""How refusals spell what they are about."""

import pytest

from craze.wire import words


@pytest.mark.parametrize("text,quoted", [
    ("x", '"x"'), ("", '""'),
    ('a"b\\', '"a\\"b\\\\"'), ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
    ("\x00\x1b\x7f", '"\\x00\\x1b\\x7f"'), ("é日😀", '"é日😀"'),
    ("\u200b\u2028", '"\\u200b\\u2028"'),
    ("\U000e0067", '"\\U000e0067"'),
])  # fmt: skip
def test_quoted(text, quoted):
    assert words.quote(text) == quoted


def test_a_refusal_does_not_send_megabytes_back():
    assert words.quote("x" * 1024) == f'"{"x" * 1024}"'
    assert words.quote("x" * 1025) == f'"{"x" * 1023}…"'
