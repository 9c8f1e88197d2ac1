"""The line decoder: the same lines whatever the chunks, in memory that the limit bounds."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire.framing import TOO_LONG, LineDecoder
from craze.wire.limits import CHUNK, INBOUND_LINE

LIMIT = 8

CASES = {
    "whole": (b"one\ntwo\n", [b"one", b"two"]),
    "empty lines": (b"\n\r\na\n", [b"", b"", b"a"]),
    "one carriage return goes": (b"a\r\nb\r\r\n\rc\n", [b"a", b"b\r", b"\rc"]),
    "no newline at the end": (b"a\nlast", [b"a", b"last"]),
    "no newline but a carriage return": (b"last\r", [b"last"]),
    "at the limit": (b"12345678\n12345678\r\n12345678", [b"12345678"] * 3),
    "past the limit": (b"123456789\nok\n", [TOO_LONG, b"ok"]),
    "past it by a carriage return": (b"12345678\r\r\nok\n", [TOO_LONG, b"ok"]),
    "past it at the end": (b"ok\n123456789", [b"ok", TOO_LONG]),
    "far past it": (b"x" * 100 + b"\nok\n", [TOO_LONG, b"ok"]),
    "other line ends are text": ("a\u2028\x0b\n".encode(), [b"a\xe2\x80\xa8\x0b"]),
    "nothing": (b"", []),
}


def decoded(chunks, limit=LIMIT):
    decoder = LineDecoder(limit)
    lines = [line for chunk in chunks for line in decoder.feed(chunk)]
    return lines + decoder.finish()


@pytest.mark.parametrize("name", CASES)
def test_lines_come_out_the_same_whole_and_byte_by_byte(name):
    data, lines = CASES[name]
    assert decoded([data]) == lines
    assert decoded([data[at : at + 1] for at in range(len(data))]) == lines


def test_what_is_over_the_limit_is_said_where_it_ends_and_once():
    decoder = LineDecoder(LIMIT)
    assert decoder.feed(b"x" * 50) == []
    assert repr(decoder) == "<LineDecoder over the limit, limit 8>"
    assert decoder.feed(b"y" * 50) == []
    assert decoder.feed(b"\nok") == [TOO_LONG]
    assert repr(decoder) == "<LineDecoder 2 held, limit 8>"
    assert decoder.finish() == [b"ok"]
    assert decoder.finish() == []


chunks = st.lists(st.binary(max_size=6) | st.sampled_from([b"\n", b"\r", b"\r\n"]), max_size=40)


@given(chunks)
def test_b68_any_chunks_give_what_the_whole_gives(pieces):
    assert decoded(pieces) == decoded([b"".join(pieces)])


def reference(data):
    """The same by the standard library, all at once."""
    lines = data.split(b"\n")
    last = lines.pop()
    found = [line.removesuffix(b"\r") for line in lines] + [last.removesuffix(b"\r")] * bool(last)
    return [line if len(line) <= LIMIT else TOO_LONG for line in found]


@given(chunks)
def test_lines_are_those_of_a_plain_split(pieces):
    assert decoded(pieces) == reference(b"".join(pieces))


@pytest.mark.parametrize("size", [INBOUND_LINE - 1, INBOUND_LINE, INBOUND_LINE + 1])
def test_the_inbound_limit_is_exact(size):
    data = b"x" * size + b"\r\n"
    pieces = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    (line,) = decoded(pieces, INBOUND_LINE)
    assert line is TOO_LONG if size > INBOUND_LINE else len(line) == size


@pytest.mark.parametrize("step,limit", [(1, 8192), (1000, 256 * 1024), (CHUNK, 1024 * 1024)])
def test_b65_a_line_without_end_is_held_in_bounded_memory(step, limit):
    decoder = LineDecoder(limit)
    chunk = b"x" * step
    tracemalloc.start()
    try:
        for _ in range(4 * limit // step):
            assert decoder.feed(chunk) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit + step
    assert decoder.feed(b"\nnext\n") == [TOO_LONG, b"next"]


def test_b66_a_byte_is_searched_once():
    class Counted(bytes):
        searched = 0

        def find(self, what, start=0):
            found = super().find(what, start)
            Counted.searched += (len(self) if found < 0 else found + 1) - start
            return found

    decoder = LineDecoder(INBOUND_LINE)
    total = 0
    for _ in range(2000):
        decoder.feed(Counted(b"x" * 100))
        total += 100
    decoder.feed(Counted(b"\n"))
    assert Counted.searched == total + 1
