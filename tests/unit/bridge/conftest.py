"""Hosts that are only a listed socket, and bridges in processes of their own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from craze.machine import registry
from craze.machine.paths import Paths

HOST = "0123456789ab"


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    root = tempfile.mkdtemp(prefix="craze-", dir="/tmp")
    os.mkdir(f"{root}/home", 0o700)
    yield {"HOME": f"{root}/home", "CRAZE_RUNTIME_DIR": f"{root}/run", "PATH": os.environ["PATH"]}
    shutil.rmtree(root)


@pytest.fixture
def listed(environ: dict[str, str]) -> Iterator[Callable[..., registry.Listing]]:
    """Lists hosts of this user; they are unlisted at the end."""
    made = []

    def bind(host: str = HOST, session: str = "", **more: Any) -> registry.Listing:
        members = {"startedAt": "2026-01-01T00:00:00Z", "crazeSessionId": session} | more
        made.append(registry.bind(Paths.of(environ), host, members))
        return made[-1]

    yield bind
    for listing in made:
        listing.unbind()


@pytest.fixture
def bridge(environ: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts `craze bridge`; whatever is still open at the end is closed and ended."""
    started = []

    def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        options = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "env": environ} | options
        command = [sys.executable, "-m", "craze", "bridge", *arguments]
        started.append(subprocess.Popen(command, **options))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()
