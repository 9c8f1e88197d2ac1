"""Durations as config.toml and log lines spell them: `1h30m`, `250ms`, `5m0s`."""

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds of a duration; `0` needs no unit. Raises ValueError."""
    sign = -1 if text.startswith("-") else 1
    rest = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
    if rest == "0":
        return 0.0
    seconds, at = 0.0, 0
    while part := _PART.match(rest, at):
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if at == 0 or at != len(rest):
        raise ValueError(f"not a duration: {text!r}")
    return sign * seconds


def format_duration(seconds: float) -> str:
    """A duration in the whole seconds that have passed: `42s`, `5m0s`, `1h0m0s`."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{left}s"
    return f"{minutes}m{left}s" if minutes else f"{left}s"
