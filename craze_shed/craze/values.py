"""What a craze peer says, read tolerantly: a wrong type reads as absent, and nothing here fails."""

from typing import Any

from craze.wire.times import parse_time


def text(value: Any) -> str:
    """A string; "" for anything else."""
    return value if isinstance(value, str) else ""


def filled(value: Any) -> str | None:
    """A string that is not blank, as it came; None for anything else."""
    return value if isinstance(value, str) and value.strip() else None


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def members(value: Any) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def whole(value: Any) -> int | None:
    """A whole number that is not negative; None for anything else."""
    return value if type(value) is int and value >= 0 else None


def count(value: Any) -> int:
    """A whole number that is not negative; 0 for anything else."""
    return whole(value) or 0


def milliseconds(value: Any) -> int | None:
    """An RFC 3339 time as milliseconds since 1970, its fraction cut; None for anything else."""
    try:
        return parse_time(text(value)) // 1_000_000
    except (ValueError, OverflowError):
        return None
