"""A session's slash catalog: which `/` commands it offers and what running each does.

Its keys are craze's own. A row that cannot be read is dropped alone, whatever is wrong with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from craze_shed.contract import codec


@dataclass(frozen=True, slots=True)
class SlashSetting(codec.Document):
    """The setting that a row sets."""

    kind: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class SlashRun(codec.Document):
    """How a row runs. `kind`, `method`, `picker` and `local` are open sets; `arg` is `required`,
    `optional`, or absent for a row that takes no argument."""

    kind: str = ""
    method: str | None = None
    param: str | None = None
    setting: SlashSetting | None = None
    arg: str | None = None
    argHint: str | None = None
    picker: str | None = None
    local: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SlashRow(codec.Document):
    """One command. `requires` names a fact without which it is not shown; `whileWorking` says that
    it runs during a turn."""

    name: str
    description: str = ""
    source: str = ""
    plugin: str | None = None
    qualified: str | None = None
    requires: str | None = None
    whileWorking: bool = codec.omitted_when_empty(False)
    run: SlashRun = SlashRun()


def _readable(items: Iterable[Any]) -> tuple[SlashRow, ...]:
    rows = []
    for item in items:
        try:
            row = codec.read(SlashRow, item)
        except codec.ContractError:
            continue
        if row.name.split() == [row.name] and row.name.isprintable():
            rows.append(row)
    return tuple(rows)


def _rows(value: object) -> tuple[SlashRow, ...]:
    return _readable(codec.many(lambda item: item)(value))


SlashRows = Annotated[tuple[SlashRow, ...], _rows]


def catalog(section: object) -> tuple[SlashRow, ...]:
    """The rows of craze's `slash` section, which replaces the whole catalog; none where the
    section is empty or cannot be read."""
    items = section.get("items") if isinstance(section, Mapping) else None
    return _readable(items) if isinstance(items, list) else ()
