"""The examples, run as a reader would run them: each says what it shows, and leaves nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.peers.agents import AGENTS, Agent, model_server

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = README.parent / "examples"
PATIENCE_S = 60


def shown(home: Path, script: str, *arguments: str, **variables: str) -> str:
    """What the example prints; it must succeed, also beside a checkout in a folder `craze`."""
    (home / "craze").mkdir(parents=True)
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", **variables},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    return ran.stdout


def test_the_demo(tmp_path: Path) -> None:
    out = shown(tmp_path / "home", "demo.py")
    for pattern in (
        r"hub [0-9a-f]{12}, craze \S+\n",
        r"roster \| [0-9a-f]{12} 'A demonstration' idle",
        r"bridge \| +\d+  permission  Always allow / Allow once / Reject",
        r"hub \| +\d+  permission  Always allow / Allow once / Reject",
        r"roster \| [0-9a-f]{12} 'A demonstration' working, waits for somebody",
        r"hub \| gone, after seq (\d+)\n(.*\n)+ +hub \| c-\d resumed, after seq \1\n",
        r"hub \| +\d+  text        'decision:opt-once'",
        r"Both saw the same 9 events, each once and in order\.",
        r"hub \| reset: session_closed",
        r"roster \| [0-9a-f]{12} left",
        r"lane \| [0-9a-f]{12}  /tmp/craze-demo-\w+/work  prompt none",
        r"lane \| --- approval ask-1 \[pending\] A few questions",
        r"lane \| --- stale: reconnecting\n +lane \| --- ready \(1\)\n",
        r"lane \| --- approval ask-1 \[resolved\] A few questions",
        r"lane \| --- down: session_closed",
        r"Nothing is left running\.",
    ):
        assert re.search(pattern, out), f"{pattern}: {out}"
    assert os.listdir(tmp_path / "home") == ["craze"]
    told = re.findall(r"^    (\w+ \| .*|Nothing .*)$", README.read_text(), re.MULTILINE)
    assert len(told) > 8
    out, at = from_the_turn(out), 0
    for line in from_the_turn("\n".join(told)).split("\n"):
        at = out.index(f"{line}\n", at)


def from_the_turn(text: str) -> str:
    """The text with its seqs counted from the turn's start, and without what each run draws anew:
    host ids, and which of a host's clients one is. What the agent can do is told with the session's
    first event or just after, in one of its own: both happen."""
    start = re.search(r"\| +(\d+)  turn +turn-1 started", text)
    assert start, text
    first = int(start[1])
    text = re.sub(r"\b[0-9a-f]{12}\b", "HOST", re.sub(r"\bc-\d+", "c-N", text))
    return re.sub(r"(\||seq) +(\d+)\b", lambda seq: f"{seq[1]} {int(seq[2]) - first}", text)


def test_a_command_that_is_no_agent_is_told_so(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "real_agent.py"), "no-such-agent"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 1
    assert "no-such-agent is not on PATH" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_real_agent(tmp_path: Path, agent: Agent) -> None:
    agent.require()
    home = tmp_path / "home"
    home.mkdir()
    with model_server() as port:
        variables = agent.set_up(home, port)
        given = [word for name in variables for word in ("--env", name)]
        prompt = agent.shell_step("echo ran") + "\nFAKE:text it ran"
        out = shown(
            home, "real_agent.py", "--prompt", prompt, "--patience", str(PATIENCE_S), *given,
            *agent.argv(), **variables,
        )  # fmt: skip
    assert re.search(r"bridge \| +\d+  tool", out), out
    assert re.search(r"hub \| +\d+  text +'it ran'|'it '", out), out
    assert "Nothing is left running." in out
