"""The lane examples, run as a reader would run them, with a real hub and sessions."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.box import boxed
from tests.e2e.hubs import Hub, eventually, script, settle
from tests.e2e.machine import BIN, END_S, Machine

EXAMPLES = Path(__file__).parents[2] / "examples"
SHED = str(BIN / "craze-shed")
PATIENCE_S = 60


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(script("permission"))
    try:
        yield made
        assert not settle(made)
    finally:
        made.close()


class Example:
    """An example that runs, and what it has printed so far."""

    def __init__(self, machine: Machine, name: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / name), *arguments],
            cwd=machine.work, env=machine.environment | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> "Example":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        self.process.wait(END_S)

    def until(self, pattern: str) -> list[str]:
        """What it prints, up to the first line in which the pattern is found."""
        assert self.process.stdout is not None and self.process.stderr is not None
        lines = []
        timer = threading.Timer(PATIENCE_S, self.process.kill)
        timer.start()
        for line in self.process.stdout:
            lines.append(line.rstrip("\n"))
            if re.search(pattern, line):
                timer.cancel()
                return lines
        raise AssertionError(f"no {pattern} in {lines}: {self.process.stderr.read()}")

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it said on stderr."""
        assert self.process.stderr is not None
        return self.process.wait(END_S), self.process.stderr.read()


def shed(machine: Machine, *arguments: str) -> str:
    """What a `craze-shed` command prints."""
    return subprocess.check_output(
        [SHED, *arguments], cwd=machine.work, env=machine.environment, text=True, timeout=120
    )


def asking(machine: Machine) -> str:
    """The id of a new session that asks for permissions."""
    hub = Hub(machine)
    hub.start()
    id: str = hub.create(permissionMode="prompt", title="Asks")["hostId"]
    return id


def asks(machine: Machine, id: str) -> None:
    """Have the session come to ask for one."""
    shed(machine, "send", id, "go")
    eventually(lambda: shed(machine, "approvals", id))


def test_a_transcript_is_printed_as_it_grows(machine: Machine) -> None:
    id = asking(machine)
    with Example(machine, "watch_lane.py", "local", id) as watch:
        assert watch.until("live") == ["-- live"]
        asks(machine, id)
        assert watch.until("Shell:")[-2:] == ["     user | go", "     tool | (Shell: Shell)"]
        [approval] = map(json.loads, shed(machine, "approvals", id, "--json").splitlines())
        shed(machine, "answer", id, approval["id"], "reject")
        watch.until("assistant | decision:cancelled")
        shed(machine, "stop", id)
        banner = "-- ended · session_closed — showing the last known transcript"
        assert watch.until("ended")[-1] == banner
        assert watch.ended() == (0, "")


def test_what_is_asked_is_put_to_the_person_and_over_when_the_session_says_so(
    machine: Machine,
) -> None:
    id = asking(machine)
    with Example(machine, "answer_approvals.py", "local", id) as answering:
        asks(machine, id)
        said = "".join(answering.until("Reject"))
        assert "1  Always allow" in said and "2  Allow once" in said
        answering.say("seven")
        answering.say("2")
        assert answering.until("is answered")[-1].endswith("-- perm-1 is answered")
        eventually(lambda: "decision:opt-once" in shed(machine, "history", id))
        shed(machine, "stop", id)
        assert answering.ended() == (0, "")


def test_a_lane_is_driven_by_hand(machine: Machine) -> None:
    machine.configure(script("echo"))
    with Example(machine, "drive_by_hand.py", "local", str(machine.work), "Say hello.") as drive:
        lines = drive.until("session_closed")
        assert drive.ended() == (0, "")
    told = [line for line in lines if not line.startswith("  ")]
    assert told[1:] == ["sent", "renamed", "stopped"] and told[0].startswith("created ")
    said = [json.loads(line) for line in lines if line.startswith("  ")]
    texts = [frame["message"]["text"] for frame in said if frame["kind"] == "message"]
    assert texts == ["Say hello.", "echo: Say hello."]


def test_one_list_over_machines_keeps_and_marks_the_rows_of_one_that_is_lost(
    machine: Machine, tmp_path: Path
) -> None:
    with boxed(machine, tmp_path) as box:
        here = box.here
        here.configure(script("permission"))
        far, near = asking(machine), asking(here)
        with Example(here, "who_needs_me.py", "local", "ssh:box") as who:
            asks(machine, far)
            who.until(f"ssh:box  {far}  Asks: .*[a-z]$")
            asks(here, near)
            both = who.until(f"local  {near}  Asks: ")
            assert f"ssh:box  {far}" in both[-2]  # it has waited longer
            box.cut()
            lost = rf"ssh:box  {far}  Asks: .*  \(unreachable, as last known\)"
            who.until(lost)
            shed(here, "stop", near)
            who.until(lost)
            who.process.send_signal(signal.SIGINT)
            assert who.ended() == (130, "")
        assert not settle(here)


# ---- the programs of docs/lanes.md ----


def program(machine: Machine, number: int) -> str:
    """Write one of the page's programs into the work folder; its path."""
    text = (EXAMPLES.parent / "docs/lanes.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(programs) == 3
    path = machine.work / "program.py"
    path.write_text(programs[number])
    return str(path)


def test_the_ten_lines(machine: Machine) -> None:
    id = asking(machine)
    ten = program(machine, 0)
    assert len([line for line in Path(ten).read_text().splitlines() if line]) <= 13
    with Example(machine, ten, "local", id) as lines:
        shed(machine, "send", id, "go")
        assert lines.until("decision:opt-once")[0] == "user go"
        shed(machine, "stop", id)
        assert lines.ended() == (0, "")


def test_the_view_of_a_session(machine: Machine) -> None:
    id = asking(machine)
    asks(machine, id)
    with Example(machine, program(machine, 1), "local", id) as view:
        assert view.until("live") == ["needs_approval 3 ['Shell']", "live"]
        assert view.ended() == (0, "")


def test_a_session_created_and_one_resumed(machine: Machine) -> None:
    machine.configure(script("remember", CRAZE_FAKE_SESSION_ID="{dir}-1"))
    old = json.loads(shed(machine, "new", "--json", "one"))["session"]["id"]
    shed(machine, "stop", old)
    eventually(lambda: json.loads(shed(machine, "saved", "--json"))["sessions"])
    other = machine.work / "other"
    other.mkdir()
    with Example(machine, program(machine, 2), "local", str(other)) as creating:
        said = creating.until("^[0-9a-f]{12}$")
        assert creating.ended() == (0, "")
    assert said[0] == "['fake']"
    assert re.fullmatch("[0-9a-f]{12} accepted", said[1])
    eventually(lambda: len(shed(machine, "sessions").splitlines()) == 2)


def test_every_lane_example_is_here_and_under_a_page() -> None:
    """A page is ninety lines at most."""
    text = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        if "craze_shed" in path.read_text() and path.name != "lane.py":
            assert f'"{path.name}"' in text
            assert len(path.read_text().splitlines()) <= 90
    assert os.path.exists(EXAMPLES / "lane.py")
