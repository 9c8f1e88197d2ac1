"""A machine that a test serves, and lanes and streams on it that are let go of at the end."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.clock import Clock
from craze.machine.paths import Paths
from craze_shed.craze.dial import Dialer
from craze_shed.craze.lane import CrazeLane
from craze_shed.craze.limits import Bounds
from tests.unit.shed.craze.conformance import LaneStream
from tests.unit.shed.craze.hosts import HOST
from tests.unit.shed.craze.real import RealMachine
from tests.unit.shed.craze.scripting import Machine

# No wait of these is for time to pass.
QUICK = Bounds(backoff_first=0.001, backoff_most=0.01, gate=0.001)


class Steps(Clock):
    """A clock that a test puts forward."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> int:
        return int(self.at * 1e9)

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Steps:
    return Steps()


@pytest.fixture
def reach() -> Iterator[Machine]:
    made = Machine()
    yield made
    made.finish()


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Iterator[RealMachine]:
    """A machine with a hub that runs."""
    root = Path(tempfile.mkdtemp(prefix="craze-", dir="/tmp"))
    home = root / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("CRAZE_RUNTIME_DIR", str(root / "run"))
    paths = Paths.of({"HOME": str(home), "CRAZE_RUNTIME_DIR": str(root / "run")})
    made = RealMachine(root, paths, str(home))
    yield made
    made.close()
    shutil.rmtree(root)


@pytest.fixture
def dialer(reach: Machine) -> Dialer:
    return Dialer(reach, eager=False)


@pytest.fixture
def streams() -> Iterator[list[LaneStream]]:
    made: list[LaneStream] = []
    yield made
    for stream in made:
        stream.close()


@pytest.fixture
def make_lane(dialer: Dialer) -> Callable[..., CrazeLane]:
    """Makes a lane; what it is given are bounds, or other options of CrazeLane."""

    def make(**options: Any) -> CrazeLane:
        bounds = {name: options.pop(name) for name in Bounds._fields if name in options}
        return CrazeLane(dialer, HOST, bounds=QUICK._replace(**bounds), **options)

    return make


@pytest.fixture
def watch(
    make_lane: Callable[..., CrazeLane], streams: list[LaneStream]
) -> Callable[..., LaneStream]:
    """Makes a lane and watches it."""

    def make(
        lane: CrazeLane | None = None, cursor: str | None = None, **options: Any
    ) -> LaneStream:
        lane = lane or make_lane(**options)
        stream = LaneStream(lane.subscribe(cursor))
        stream.lane = lane
        streams.append(stream)
        return stream

    return make
