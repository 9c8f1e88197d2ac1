"""What every benchmark is made of: a measurement beside its floor, and how to take the numbers.

A benchmark prints ratios against a floor that it measured in the same run on the same machine, so
its figures can be compared from day to day. Both are taken in turn, several times, and the best of
each counts: whatever else the machine does only ever adds. It says `ok` or not against a budget and
never fails: a loaded machine is no bug.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Measure(NamedTuple):
    """One printed line. `ours` and `floor` are in `unit`; the budget bounds `figure`.

    With a floor the figure is ours / floor, without one it is `ours` itself.
    """

    name: str
    ours: float
    unit: str
    floor: float = 0.0
    at_most: float | None = None
    at_least: float | None = None

    @property
    def figure(self) -> float:
        return self.ours / self.floor if self.floor else self.ours

    @property
    def verdict(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g}  " + ("ok" if self.figure <= self.at_most else "OVER")
        if self.at_least is not None:
            return f">= {self.at_least:g}  " + ("ok" if self.figure >= self.at_least else "UNDER")
        return "-"

    def __str__(self) -> str:
        ours = f"{quantity(self.ours)} {self.unit}"
        if not self.floor:
            return f"{self.name:44} {ours:>20} {'':20} {'':8} {self.verdict}"
        floor = f"{quantity(self.floor)} {self.unit}"
        return f"{self.name:44} {ours:>20} {floor:>20} {self.figure:8.2f} {self.verdict}"


HEADING = f"{'':44} {'ours':>20} {'floor':>20} {'ratio':>8} budget"


def quantity(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def seconds(work: Callable[[], Any], rounds: int = 5) -> float:
    """The best time of one call of `work`."""
    return min(_timed(work) for _ in range(rounds))


def side_by_side(
    ours: Callable[[], Any],
    floor: Callable[[], Any],
    rounds: int = 5,
    *,
    before: Callable[[], Any] = lambda: None,
) -> tuple[float, float]:
    """The best times of both, taken in turn so that a slow moment of the machine hits both; the
    time of `before`, which comes before each round, is in neither."""
    pairs = [(before(), _timed(ours), _timed(floor)) for _ in range(rounds)]
    return min(a for _, a, _ in pairs), min(b for _, _, b in pairs)


def _timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def resident_mib(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def cpu_seconds(pid: int) -> float:
    """The processor time that all threads of a process have had, to the nanosecond."""
    return (
        sum(
            int(thread.read_text().split()[0])
            for thread in Path(f"/proc/{pid}/task").glob("*/schedstat")
        )
        / 1e9
    )
