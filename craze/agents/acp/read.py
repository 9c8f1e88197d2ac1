"""Reading what an agent sent: members that may be absent, null or of any type.

A malformed optional member counts as absent, a malformed item of a list is left out, and nothing
here raises for what an agent can write.
"""

from typing import Any


def text(holder: Any, *names: str) -> str:
    """The first non-empty string among an object's members; "" when there is none."""
    if isinstance(holder, dict):
        for name in names:
            value = holder.get(name)
            if isinstance(value, str) and value:
                return value
    return ""


def number(holder: Any, *names: str) -> int:
    """The first integer among an object's members; 0 when there is none. A float counts whole."""
    if isinstance(holder, dict):
        for name in names:
            value = holder.get(name)
            if isinstance(value, float) and value == value and abs(value) < 2**63:
                return int(value)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return 0


def flag(holder: Any, *names: str) -> bool:
    """Whether one of an object's members is true."""
    return isinstance(holder, dict) and any(holder.get(name) is True for name in names)


def items(holder: Any, name: str) -> list[dict[str, Any]]:
    """The objects of an object's list member."""
    value = holder.get(name) if isinstance(holder, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def inner(holder: Any, *names: str) -> dict[str, Any]:
    """The object at a path of members; empty when there is none."""
    for name in names:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder if isinstance(holder, dict) else {}


def peel(params: dict[str, Any]) -> dict[str, Any]:
    """A vendor method's params out of their envelope: flat, `{params}` or `{method, params}`."""
    while isinstance(params.get("params"), dict):
        params = params["params"]
    return params


def block(content: Any) -> str:
    """The words of a content block: a link's target and a resource's text stand for themselves,
    an image or a sound is named."""
    kind = content.get("type") if isinstance(content, dict) else None
    if kind == "text":
        return text(content, "text")
    if kind == "resource_link":
        return text(content, "uri", "name")
    if kind == "resource":
        return text(inner(content, "resource"), "text", "uri")
    if kind in ("image", "audio"):
        return f"[{kind}]"
    return ""
