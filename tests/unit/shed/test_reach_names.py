"""What a program may rely on, what importing it does not do, and what its page says."""

import re
import subprocess
import sys
from pathlib import Path

import craze_shed.reach
import ladder
from craze_shed.reach import Keepalive, ReachError, limits, openssh

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reach.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    table = re.search(r"(?:^\|.*\n)+", PAGE.split(f"\n{heading}\n", 1)[1], re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()]


def test_the_public_names() -> None:
    assert craze_shed.reach.__all__ == [
        "Keepalive",
        "LocalReach",
        "ParamikoReach",
        "Reach",
        "ReachError",
        "Running",
        "ScriptedReach",
        "Share",
        "SshReach",
    ]
    for name in craze_shed.reach.__all__:
        thing = getattr(craze_shed.reach, name)
        assert thing.__name__ == name
        assert thing.__doc__


def test_importing_it_patches_nothing_and_brings_no_paramiko() -> None:
    program = (
        "import sys, craze_shed.reach, gevent.monkey\n"
        "print('paramiko' in sys.modules, gevent.monkey.is_module_patched('socket'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "False False\n", done.stderr


def test_a_failure_is_safe_to_print() -> None:
    assert str(ReachError("a\x1b[2Jb\x9bc")) == "a\\x1b[2Jb\\x9bc"


def test_how_soon_a_dead_link_is_noticed() -> None:
    assert Keepalive().noticed == 30
    assert Keepalive(interval=1, missed=1).noticed == 2
    assert "30 s unless" in PAGE


def test_the_page_has_every_way() -> None:
    ways = {row[0].strip("`") for row in rows("## The ways")[2:]}
    assert ways == {name for name in craze_shed.reach.__all__ if name.endswith("Reach")} - {"Reach"}


def test_the_page_has_what_cannot_be_done() -> None:
    page = PAGE.lower()
    for name in openssh._CANNOT:
        assert f"`{name}" in page
    for name in openssh.ALGORITHMS:
        assert f"`{name}" in page


def test_the_page_has_the_kinds_of_outcome() -> None:
    kinds = {value for name, value in vars(ladder.Kind).items() if name.isupper()}
    assert {row[0].strip("`") for row in rows("## Where craze is looked for")[2:]} == kinds


def test_the_page_has_the_bounds() -> None:
    assert limits.STDERR_TAIL == 4096
    assert "the last 4096 bytes of `stderr`" in PAGE.replace("\n", " ")
