import pytest

from craze.machine.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("0s", 0), ("1h", 3600), ("1h30m", 5400), ("1.5h", 5400), ("90s", 90),
        ("250ms", 0.25), ("1m.5s", 60.5), ("3us", 3e-6), ("3µs", 3e-6), ("-1m", -60), ("+1m", 60),
        ("1.s", 1),
    ],
)  # fmt: skip
def test_reading(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "1", "h", "1h 30m", "1d", "1h30", " 1h", ".s", "--1s", "1h\n", "٣s", "never"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (42, "42s"), (60, "1m0s"), (300, "5m0s"), (3600, "1h0m0s"), (5025.9, "1h23m45s")],
)
def test_writing(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
