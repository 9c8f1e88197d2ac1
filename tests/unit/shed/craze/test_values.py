"""What a peer says, read tolerantly."""

import pytest

from craze_shed.craze import values


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T00:00:00.123999999Z", 1_767_225_600_123),
        ("2026-01-01T00:00:00.1Z", 1_767_225_600_100),
        ("2026-01-01T02:00:00.5+02:00", 1_767_225_600_500),
        ("2025-12-31T19:00:00-05:00", 1_767_225_600_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-01-01T00:00:00", None),  # no offset
        ("2026-01-01 00:00:00Z", None),
        ("2026-W01-4T00:00:00Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+23:59", -62_135_683_140_000),
        ("", None),
        (1_767_225_600, None),
        (None, None),
    ],
)
def test_a_time_is_milliseconds_or_absent(said: object, meant: int | None) -> None:
    assert values.milliseconds(said) == meant


def test_a_wrong_type_reads_as_absent() -> None:
    assert [values.text(one) for one in ("a", 1, None, ["a"])] == ["a", "", "", ""]
    assert [values.filled(one) for one in (" a ", " ", 1)] == [" a ", None, None]
    assert values.objects([{"a": 1}, 2, None, []]) == [{"a": 1}] and values.objects({}) == []
    assert values.members({"a": 1}) == {"a": 1} and values.members([1]) == {}
    assert [values.whole(one) for one in (0, 3, -1, True, 1.0, "1")] == [
        0,
        3,
        None,
        None,
        None,
        None,
    ]
    assert [values.count(one) for one in (0, 3, -1, True, None)] == [0, 3, 0, 0, 0]
