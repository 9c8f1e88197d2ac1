"""How many lines a change adds and removes, exactly, without holding the loop for a large one."""

from craze.agents.limits import DIFF_CELLS


def counts(old: str, new: str) -> tuple[int, int] | None:
    """Lines added and removed from `old` to `new`; None where they are too many to count."""
    before, after = old.splitlines(), new.splitlines()
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    same = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        same += 1
    before, after = before[same:], after[same:]
    if not before or not after:
        return len(after), len(before)
    if len(before) * len(after) > DIFF_CELLS:
        return None
    kept = _common(before, after)
    return len(after) - kept, len(before) - kept


def _common(before: list[str], after: list[str]) -> int:
    """The length of the longest common subsequence: one row of the table is one integer, whose
    zero bits are the places where it grows (Hyyrö's bit-vector recurrence)."""
    places: dict[str, int] = {}
    for index, line in enumerate(before):
        places[line] = places.get(line, 0) | 1 << index
    full = (1 << len(before)) - 1
    row = full
    for line in after:
        matches = row & places.get(line, 0)
        row = (row + matches | row - matches) & full
    return len(before) - row.bit_count()
