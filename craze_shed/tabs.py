"""One machine's terminal tabs merged with its craze rows: which tab belongs to which row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from craze_shed.contract.sessions import LaneSession


@dataclass(frozen=True, slots=True)
class Tab:
    """A terminal tab. `craze_owner` is the provider session id that a craze in it claimed, "" for
    one that claimed none; None for a tab that is not craze's."""

    tab_id: int
    craze_owner: str | None = None


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """`absorbed` are the tabs that belong to a row, each with that row's id; `hidden` are those
    not to show."""

    absorbed: Mapping[int, str] = field(default_factory=dict, hash=False)
    hidden: frozenset[int] = frozenset()


def fold_plan(tabs: Iterable[Tab], rows: Iterable[LaneSession] | None) -> FoldPlan:
    """Where one machine's tabs go. `rows` are its hub's, None while that feed is not live: then
    every tab shows as it is."""
    if rows is None:
        return FoldPlan()
    targets: dict[str, LaneSession] = {}
    for row in rows:
        owner = row.provider_session_id
        if owner and (owner not in targets or _newer(row) > _newer(targets[owner])):
            targets[owner] = row
    absorbed: dict[int, str] = {}
    hidden = set()
    taken = set()
    for tab in sorted(tabs, key=lambda tab: tab.tab_id, reverse=True):
        if tab.craze_owner is None:
            continue
        if tab.craze_owner in targets and tab.craze_owner not in taken:
            absorbed[tab.tab_id] = targets[tab.craze_owner].id
            taken.add(tab.craze_owner)
        else:
            hidden.add(tab.tab_id)
    return FoldPlan(absorbed, frozenset(hidden))


def merged(rows: Iterable[LaneSession], plan: FoldPlan) -> tuple[LaneSession, ...]:
    """The rows, each with the tab that belongs to it."""
    owners = {row_id: tab_id for tab_id, row_id in plan.absorbed.items()}
    return tuple(replace(row, tab_id=owners.get(row.id)) for row in rows)


def _newer(row: LaneSession) -> tuple[bool, int, str]:
    changed = row.last_change_unix_ms
    return changed is not None, changed or 0, row.id
