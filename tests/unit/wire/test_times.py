"""Times on the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire.times import format_time, parse_time


@pytest.mark.parametrize("nanoseconds,text", [
    (0, "1970-01-01T00:00:00Z"),
    (1, "1970-01-01T00:00:00.000000001Z"),
    (1_767_225_600_123_000_000, "2026-01-01T00:00:00.123Z"),
    (-1, "1969-12-31T23:59:59.999999999Z"),
    (-62_135_596_800_000_000_000, "0001-01-01T00:00:00Z"),
])  # fmt: skip
def test_times(nanoseconds, text):
    assert format_time(nanoseconds) == text
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize("text", ["2026-01-01T02:00:00.5+02:00", "2026-01-01t00:00:00.5z",
                                  "2026-01-01T00:00:00.50000000099Z"])  # fmt: skip
def test_other_spellings_of_a_time(text):
    assert format_time(parse_time(text)) == "2026-01-01T00:00:00.5Z"


@pytest.mark.parametrize("text", ["", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z",
                                  "2026-01-01T00:00:00Z\n", "２026-01-01T00:00:00Z",
                                  "2026-01-01T00:00:00.Z", "2026-01-01 00:00:00Z"])  # fmt: skip
def test_b63_what_is_no_time(text):
    with pytest.raises(ValueError):
        parse_time(text)


@given(st.integers(-62_135_596_800_000_000_000, 253_402_300_799_999_999_999))
def test_a_time_reads_back(nanoseconds):
    assert parse_time(format_time(nanoseconds)) == nanoseconds
