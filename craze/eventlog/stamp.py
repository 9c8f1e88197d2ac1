"""Times of a busy log: the wire's form, with the part that a second's events share made once."""

from craze.wire.times import format_time

_SECOND_NS = 1_000_000_000


class Stamper:
    """Formats times as `craze.wire.times.format_time` does, for a clock that moves on slowly."""

    __slots__ = ("_prefix", "_second")

    def __init__(self) -> None:
        self._second: int | None = None  # the last time's
        self._prefix = ""  # a time of that second, up to its fraction

    def __call__(self, nanoseconds: int) -> str:
        """The wire form of a time. Raises OverflowError outside the years 1 to 9999."""
        second, fraction = divmod(nanoseconds, _SECOND_NS)
        if second != self._second:
            self._prefix = format_time(second * _SECOND_NS)[:-1]
            self._second = second
        if fraction % 10:
            return f"{self._prefix}.{fraction:09}Z"
        return f"{self._prefix}.{fraction:09}".rstrip("0").rstrip(".") + "Z"
