"""The item caps of a snapshot (codecs 2.5): each string cut to its head, and whether any was.

What is within its caps is given back itself, not a copy. `asks.get` caps an ask's body the same
way.
"""

from collections.abc import Mapping
from typing import Any, Final

from craze.transcript import text
from craze.wire import limits

_LEAST: Final = limits.ITEM_CAP // 4  # a string of no more characters is within the cap
_ROW_DISPLAY: Final = ("description",)
_RUN_DISPLAY: Final = ("argHint", "reason")


def capped(value: Any) -> tuple[Any, bool]:
    """`value` with every string in it capped."""
    if isinstance(value, str):
        if len(value) <= _LEAST:
            return value, False
        head = text.head(value, limits.ITEM_CAP)
        return head, head is not value
    if isinstance(value, list):
        items = [capped(item) for item in value]
        return ([item for item, _ in items], True) if any(c for _, c in items) else (value, False)
    if isinstance(value, Mapping):
        return only(value, *value)
    return value, False


def only(holder: Mapping[str, Any], *names: str) -> tuple[Mapping[str, Any], bool]:
    """`holder` with the strings in its members of these names capped."""
    changed = {}
    for name in names:
        if name in holder:
            value, cut = capped(holder[name])
            if cut:
                changed[name] = value
    return ({**holder, **changed}, True) if changed else (holder, False)


def ask_body(kind: str, body: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """An ask's payload capped. A sub-question's own id is what an answer is filed under: kept."""
    if kind != "question" or not body.get("questions"):
        return capped(body)
    outer, cut = only(body, *(name for name in body if name != "questions"))
    inner = [only(part, *(name for name in part if name != "id")) for part in body["questions"]]
    if any(part_cut for _, part_cut in inner):
        return {**outer, "questions": [part for part, _ in inner]}, True
    return outer, cut


def slash(section: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The slash catalog capped: what acts is dropped rather than cut, what is shown is cut."""
    kept: list[Any] = []
    cut = False
    for row in section["items"]:
        small = _small_row(row)
        if small is None or len(kept) == limits.SLASH_ROWS:
            cut = True
            continue
        kept.append(small)
        cut = cut or small is not row
    return {"items": kept} if kept else {}, cut


def _small_row(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if capped({name: value for name, value in row.items() if name not in (*_ROW_DISPLAY, "run")})[
        1
    ]:
        return None
    run = row.get("run")
    if run is None:
        return only(row, *_ROW_DISPLAY)[0]
    if capped({name: value for name, value in run.items() if name not in _RUN_DISPLAY})[1]:
        return None
    shown, cut = only(run, *_RUN_DISPLAY)
    row = only(row, *_ROW_DISPLAY)[0]
    return {**row, "run": shown} if cut else row
