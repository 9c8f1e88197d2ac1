"""Times of a busy log: the wire's form, with the part that a second's events share made once."""

from craze.wire.times import format_time

_SECOND_NS = 1_000_000_000


class Stamper:
    """Formats times as `craze.wire.times.format_time` does, for a clock that moves on slowly."""

    __slots__ = ("_prefix", "_second")

    def __init__(self) -> None:
        self._second: int | None = None
        self._prefix = ""

    def __call__(self, nanoseconds: int) -> str:
        """The wire form of a time. Raises OverflowError outside the years 1 to 9999."""
        second, fraction = divmod(nanoseconds, _SECOND_NS)
        if second != self._second:
            self._prefix = format_time(second * _SECOND_NS)[:-1]
            self._second = second
        digits = str(_SECOND_NS + fraction)  # a one, then all nine of them
        if digits[-1] != "0":
            return f"{self._prefix}.{digits[1:]}Z"
        digits = digits[1:].rstrip("0")
        return f"{self._prefix}.{digits}Z" if digits else f"{self._prefix}Z"
