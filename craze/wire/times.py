"""Times on the wire: RFC 3339 in UTC with `Z`, nanoseconds with trailing zeros trimmed.

Inside the program a time is an integer: nanoseconds since 1970-01-01T00:00:00Z.
"""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def format_time(nanoseconds: int) -> str:
    """The wire form of a time. Raises OverflowError outside the years 1 to 9999."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    when = _EPOCH + timedelta(seconds=seconds)
    stamp = f"{when.year:04d}" + when.strftime("-%m-%dT%H:%M:%S")
    return f"{stamp}.{fraction:09d}".rstrip("0") + "Z" if fraction else stamp + "Z"


def parse_time(text: str) -> int:
    """Nanoseconds of an RFC 3339 time; digits past the ninth are dropped. Raises ValueError."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(f"not an RFC 3339 time: {text!r}")
    day, clock, fraction, zone = form.groups()
    when = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
    whole = when - _EPOCH
    return (whole.days * 86_400 + whole.seconds) * 1_000_000_000 + int(f"{fraction or '':0<9.9}")
