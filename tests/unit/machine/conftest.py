"""A user of their own for each test: a private home under a short path."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from craze.machine.paths import Paths


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


@pytest.fixture(params=[0o022, 0, 0o777], ids=["umask-022", "umask-0", "umask-777"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Whatever umask the process was started with, modes come out the same."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)
