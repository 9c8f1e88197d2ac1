"""Lanes to a machine behind a real sshd, through every way there is, in programs of every kind."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hubs import AGENT, eventually, running, settle
from tests.e2e.lanes import Box, Far
from tests.e2e.machine import END_S, Machine

CONFIG = f"""
[agents]
cursor = "{AGENT}"
[providers.fake]
command = ["{AGENT}", "--script=permission"]
"""
# What cursor's script is answered, and what it says then.
SCRIPTS = {
    "ask": (
        {"kind": "question", "answers": [["opt-b"], ["opt-x", "opt-z"]]},
        "asked:answered:q1=opt-b;q2=opt-x,opt-z",
    ),
    "plan": ({"kind": "permission", "decision": "allow_once"}, "planned:accepted"),
}
# A program of each kind: when it patches the standard library, how it reaches the machine, and
# what its session is asked.
PROGRAMS = [
    ("never", "ssh", "ask"),
    ("first", "ssh", "plan"),
    ("last", "ssh", "ask"),
    ("never", "local", "plan"),
    ("first", "local", "ask"),
    ("first", "paramiko", "ask"),
    ("last", "paramiko", "plan"),
]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(CONFIG)
    try:
        yield made
        assert not settle(made)
    finally:
        made.close()


def box(machine: Machine, tmp_path: Path, script: str = "ask") -> Box:
    machine.environment["CRAZE_FAKE_SCRIPT"] = script
    return Box(tmp_path, machine)


def reach(box: Box, way: str) -> dict[str, Any]:
    """What tells a program how to reach the machine."""
    if way == "local":
        return {"way": way, "env": box.machine.environment}
    return {"way": way, "config": box.config()}


def new(machine: Machine, *flags: str) -> str:
    """A session that somebody on the machine itself creates."""
    process = machine.craze("new", "--json", *flags, stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=END_S)
    id: str = json.loads(out)["session"]["hostId"]
    return id


@pytest.mark.parametrize(("when", "way", "script"), PROGRAMS)
def test_b34_a_session_is_listed_created_prompted_approved_and_stopped(
    machine: Machine, tmp_path: Path, when: str, way: str, script: str
) -> None:
    """Nothing but what the person asks for starts a hub, and nothing of it all is left behind."""
    answer, said = SCRIPTS[script]
    with box(machine, tmp_path, script) as there, Far(when) as far:
        far("reach", **reach(there, way))
        roster = far("roster")
        assert roster["offline"] == "no_hub", roster["why"]
        far("open", id="0123456789ab")
        time.sleep(1)  # and tries, and tries again
        assert not running(machine, "craze hub")

        assert "cursor" in far("options")
        assert len(running(machine, "craze hub")) == 1
        assert far("roster") == {"sessions": []}
        id = far("create", cwd=str(machine.work), provider="cursor", title="A title")
        far("open", id=id)
        far("send", text="go")
        [asked] = far("until", asks=1)["asks"]
        far("answer", id=asked["id"], answer=answer)
        assert far("until", asks=0, text=said)["rows"][0] == "go"
        far("stop")
        assert far("until", banner="ended · session_closed")["rows"][0] == "go"

        id = new(machine, "--provider=fake", "--no-force")
        eventually(lambda: far("roster") == {"sessions": [id]})
        far("open", id=id)
        far("send", text="go")
        [asked] = far("until", asks=1)["asks"]
        far("answer", id=asked["id"], answer={"kind": "choice", "option_id": "opt-once"})
        far("until", asks=0, text="decision:opt-once")
        refused = far.answer("answer", id=asked["id"], answer={"kind": "reject"})
        assert refused["error"] == "already_resolved"
        far("stop")
        far("until", banner="ended · session_closed")
        assert far.answer("send", text="late")["error"] == "lane_ended"
        assert far("close") == []
        assert far.end() == ""


# ---- what the program around it does ----


def ran(code: str) -> str:
    """What a program prints that ends well."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=END_S
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


EVERYTHING = "import craze_shed; [getattr(craze_shed, name) for name in craze_shed.__all__]; "


def test_importing_everything_patches_nothing_and_fetches_no_paramiko() -> None:
    out = ran(
        "import select, signal, socket, ssl, subprocess, sys, threading, time\n"
        "def found():\n"
        "    return (socket.socket, socket.create_connection, select.select, time.sleep,\n"
        "            threading.Thread.start, threading.Lock, subprocess.Popen, ssl.SSLContext,\n"
        "            signal.getsignal(signal.SIGCHLD), signal.getsignal(signal.SIGINT))\n"
        "before = found()\n"
        f"{EVERYTHING}import craze_shed.reach\n"
        "import gevent.monkey\n"
        "print(found() == before, gevent.monkey.saved, 'paramiko' in sys.modules)\n"
    )
    assert out == "True {} False\n"


def test_b53_what_paramiko_needs_is_said_before_anything_is_tried() -> None:
    """In a program that is not patched, or was patched in part, or after paramiko was imported."""
    say = (
        f"{EVERYTHING}from craze_shed import reach\n"
        "try:\n"
        "    reach.ParamikoReach('box')\n"
        "except reach.ReachError as failure:\n"
        "    print(failure)\n"
    )
    patch = "from gevent import monkey; monkey.patch_all"
    advice = "put `from gevent import monkey; monkey.patch_all()` first in the program"
    for before, said in (
        ("", "paramiko needs a program that gevent has patched, and"),
        (f"{patch}(thread=False); ", "and _thread, threading is not;"),
        (f"import paramiko; {patch}(); ", "paramiko was imported before gevent patched"),
    ):
        out = ran(before + say)
        assert said in out and advice in out, out
