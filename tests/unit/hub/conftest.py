"""A user, a hub and hosts of their own for each test."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.machine.paths import Paths
from tests.unit.hub.hosting import Host, Served, StepClock


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory with a path short enough for sockets."""
    path = tempfile.mkdtemp(prefix="craze-", dir="/tmp")
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture
def environ(root: Path) -> dict[str, str]:
    (root / "home").mkdir(mode=0o700)
    return {"HOME": str(root / "home"), "CRAZE_RUNTIME_DIR": str(root / "run")}


@pytest.fixture
def paths(environ: dict[str, str]) -> Paths:
    return Paths.of(environ)


@pytest.fixture
def listed(paths: Paths) -> Iterator[Callable[..., Host]]:
    """Lists a host: its id, and more members of its registry entry."""
    made: list[Host] = []

    def make(id: str, **members: Any) -> Host:
        made.append(Host(paths, id, **members))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


@pytest.fixture
def serve(root: Path, paths: Paths, clock: StepClock) -> Iterator[Callable[..., Served]]:
    """Makes a hub; what it is given are bounds other than the real ones."""
    made: list[Served] = []

    def make(**bounds: float) -> Served:
        made.append(Served(root, paths, clock, **bounds))
        return made[-1]

    yield make
    for served in made:
        served.close()
        assert not served.reported, served.reported
