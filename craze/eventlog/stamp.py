"""Times of a busy log: the wire's form, with the part that a second's events share made once."""

from craze.wire.times import format_time

_SECOND_NS = 1_000_000_000


class Stamper:
    """Formats times as `craze.wire.times.format_time` does, for a clock that moves on slowly."""

    __slots__ = ("_prefix", "_second")

    def __init__(self) -> None:
        self._second = ""  # as the digits of a time begin
        self._prefix = ""

    def __call__(self, nanoseconds: int) -> str:
        """The wire form of a time. Raises OverflowError outside the years 1 to 9999."""
        digits = str(nanoseconds)
        second, fraction = digits[:-9], digits[-9:]
        if second != self._second or not second:
            if nanoseconds < _SECOND_NS:
                return format_time(nanoseconds)
            self._prefix = format_time(int(second) * _SECOND_NS)[:-1]
            self._second = second
        if fraction[-1] != "0":
            return f"{self._prefix}.{fraction}Z"
        fraction = fraction.rstrip("0")
        return f"{self._prefix}.{fraction}Z" if fraction else f"{self._prefix}Z"
