"""paramiko, in programs of its own: it needs one that is patched, and says so in any other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from craze_shed.reach import ParamikoReach, ReachError
from tests.e2e.sshd import program

ROOT = Path(__file__).parents[2]
TESTS = "tests/e2e/patched_paramiko.py"
CLASSES = re.findall(r"^class (Test\w+)", (ROOT / TESTS).read_text(), re.MULTILINE)

PYTEST = """
from gevent import monkey; monkey.patch_all()
import sys, pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1]]))
"""


def ran(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_in_a_patched_program(name: str) -> None:
    for needed, package in (("sshd", "openssh-server"), ("ssh", "openssh-client")):
        program(needed, package)
    done = ran(PYTEST, f"{TESTS}::{name}")
    print(done.stdout)
    skipped = re.search(r"^SKIPPED.*: (.*)$", done.stdout, re.MULTILINE)
    if skipped:
        pytest.skip(skipped[1])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_b53_a_program_that_is_not_patched_is_told_so() -> None:
    with pytest.raises(ReachError) as told:
        ParamikoReach("box")
    assert str(told.value) == (
        "paramiko needs a program that gevent has patched, and socket, select, time, _thread,"
        " threading is not; put `from gevent import monkey; monkey.patch_all()` first in the"
        " program, or use the ssh program"
    )
    assert "paramiko" not in sys.modules


CASES = {
    "partly patched": (
        "from gevent import monkey; monkey.patch_all(thread=False)\n",
        "paramiko needs a program that gevent has patched, and _thread, threading is not;",
    ),
    "patched after paramiko": (
        "import paramiko\nfrom gevent import monkey; monkey.patch_all()\n",
        "paramiko was imported before gevent patched the program;",
    ),
    "patched after this package": (
        "import craze_shed.reach\nfrom gevent import monkey; monkey.patch_all()\n",
        "fine",
    ),
    "patched first": ("from gevent import monkey; monkey.patch_all()\n", "fine"),
}


@pytest.mark.parametrize("case", CASES)
def test_b53_when_a_program_is_patched(case: str) -> None:
    first, said = CASES[case]
    done = ran(
        f"{first}"
        "from craze_shed.reach import ParamikoReach, ReachError\n"
        "try:\n"
        "    ParamikoReach('box').close()\n"
        "    print('fine')\n"
        "except ReachError as told:\n"
        "    print(told)\n"
    )
    assert done.stdout.startswith(said), done.stdout + done.stderr
