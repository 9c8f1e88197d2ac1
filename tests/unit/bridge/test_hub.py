"""A bridge to the hub: one that runs, one that it starts, and what either costs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from craze.machine import hubs, processes
from craze.machine.paths import Paths
from tests.unit.client import fake_hub

from .test_pump import HEAVY, LOADED

PROGRAM = f"""#!{sys.executable}
import runpy, sys
if sys.argv[1] == "hub":
    runpy.run_path({fake_hub.__file__!r}, run_name="__main__")
else:
    from craze.__main__ import main
    main()
"""
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{}}\n'


@pytest.fixture
def craze(environ: dict[str, str]) -> Iterator[str]:
    """A program that is craze, but whose hub is the stand-in; one that still runs is ended."""
    root = os.path.dirname(environ["HOME"])
    environ["FAKE_HUB_BIRTHS"] = f"{root}/births"
    Path(root, "craze").write_text(PROGRAM)
    os.chmod(f"{root}/craze", 0o700)
    yield f"{root}/craze"
    found = hubs.read(Paths.of(environ))
    if found is not None and processes.start_token(found.record.pid) == found.record.startToken:
        os.kill(found.record.pid, signal.SIGKILL)


def asked(craze: str, environ: dict[str, str], *flags: str) -> dict[str, object]:
    """What the hub behind a bridge says to hello, after which it closes the connection."""
    command = [craze, "bridge", "--hub", *flags]
    shown = subprocess.run(command, input=HELLO, env=environ, capture_output=True, timeout=60)
    assert (shown.returncode, shown.stderr) == (0, b"")
    (line,) = shown.stdout.splitlines()
    result: dict[str, object] = json.loads(line)["result"]
    return result


def test_the_hub_is_started_once_and_outlives_its_bridge(
    craze: str, environ: dict[str, str]
) -> None:
    first = asked(craze, environ)  # which ends although the hub runs on: it holds no stream of it
    found = hubs.read(Paths.of(environ))
    assert found is not None and first == fake_hub.answer(found.record)
    assert asked(craze, environ) == asked(craze, environ, "--no-start") == first
    born = Path(environ["FAKE_HUB_BIRTHS"]).read_text()
    pid = found.record.pid
    assert born == f"{pid} {environ['HOME']} {pid}\n"
    assert Path(f"/proc/{pid}/cmdline").read_bytes().endswith(f"{craze}\0hub\0".encode())
    streams = {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)}
    assert streams == {"/dev/null"}


def test_a_bridge_to_a_running_hub_loads_nothing_heavy(craze: str, environ: dict[str, str]) -> None:
    asked(craze, environ)
    program = LOADED.replace('["craze", "bridge"]', '["craze", "bridge", "--hub", "--no-start"]')
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environ, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = process.communicate(HELLO)
    assert process.returncode == 0 and json.loads(out)["id"] == 1
    loaded = err.decode().split()
    assert [name for name in loaded if name in HEAVY] == []
    client = [name for name in loaded if name.startswith("craze.client")]
    assert client == ["craze.client", "craze.client.hubs"]
