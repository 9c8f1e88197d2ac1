"""What a program may rely on, and `python -m ladder`."""

import os
import subprocess
import sys
from pathlib import Path

import ladder

ROOT = Path(__file__).parents[3]


def ladder_program(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "ladder", *arguments],
        cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=30,
    )  # fmt: skip


def test_the_public_names() -> None:
    assert ladder.__all__ == [
        "BRIDGE",
        "BRIDGE_NO_START",
        "PROBE",
        "Kind",
        "Noise",
        "Outcome",
        "argv",
        "attach",
        "dialled",
        "line",
        "no_hub_on",
        "probed",
        "remote",
        "where",
    ]
    for name in ladder.__all__:
        assert getattr(ladder, name).__doc__


def test_it_prints_the_line() -> None:
    done = ladder_program("bridge", "--hub")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ladder.line(ladder.BRIDGE) + "\n"


def test_it_says_where_it_looks(tmp_path: Path) -> None:
    done = ladder_program("--where", HOME=str(tmp_path), USER="me")
    lines = done.stdout.splitlines()
    assert len(lines) == 9
    assert lines[0] == f"no craze  {tmp_path}/.local/bin/craze"


def test_it_says_how_it_is_used() -> None:
    done = ladder_program("--help")
    assert (done.returncode, done.stdout[:6], done.stderr) == (0, "usage:", "")
    done = ladder_program()
    assert (done.returncode, done.stdout, done.stderr[:6]) == (2, "", "usage:")
    done = ladder_program("a\nb")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ladder: expected one line for a shell, got 'a\\nb'\n"
