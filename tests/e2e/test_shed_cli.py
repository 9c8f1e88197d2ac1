"""`craze-shed` with real hubs and sessions, on this machine and over ssh."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import boxed
from tests.e2e.hubs import CRAZE, Hub, eventually, running, script, settle
from tests.e2e.machine import BIN, END_S, Machine

SHED = str(BIN / "craze-shed")
PATIENCE_S = 120


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.configure(script("echo"))
    try:
        yield made
        assert not settle(made)
    finally:
        made.close()


def started(machine: Machine, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [SHED, *arguments], cwd=machine.work, env=machine.environment, text=True,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
           **options},
    )  # fmt: skip


def ran(machine: Machine, *arguments: str) -> tuple[int, str, str]:
    process = started(machine, *arguments)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def done(machine: Machine, *arguments: str) -> str:
    """What a command prints that succeeds without a word on stderr."""
    code, out, err = ran(machine, *arguments)
    assert (code, err) == (0, ""), (arguments, out, err)
    return out


def told(machine: Machine, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(machine, *arguments, "--json").splitlines()]


def new(machine: Machine, *arguments: str) -> str:
    """The id of a new session."""
    [made] = told(machine, "new", *arguments)
    id: str = made["session"]["id"]
    return id


def texts(machine: Machine, id: str) -> list[str]:
    """What the transcript says, but for tools."""
    [page] = told(machine, "history", id)
    return [row["text"] for row in page["messages"] if row["type"] == "text"]


def until(watch: "subprocess.Popen[str]", holds: Any) -> dict[str, Any]:
    """The first frame of a `watch --json` of which `holds` says so."""
    assert watch.stdout is not None
    timer = threading.Timer(PATIENCE_S, watch.kill)
    timer.start()
    try:
        for line in watch.stdout:
            frame: dict[str, Any] = json.loads(line)
            if holds(frame):
                return frame
    finally:
        timer.cancel()
    raise AssertionError("it ended before")


def ended(watch: "subprocess.Popen[str]") -> tuple[int, str]:
    """How a `watch` ended, and what it said on stderr."""
    with watch:
        assert watch.stderr is not None and watch.stdout is not None
        watch.stdout.read()
        return watch.wait(END_S), watch.stderr.read()


def test_a_session_from_its_creation_to_its_return(machine: Machine) -> None:
    dormant = "local    local       craze is installed; no hub is running"
    assert done(machine, "machines").splitlines()[1] == dormant
    assert not machine.processes()
    assert done(machine, "sessions") == "no sessions running\n"
    assert done(machine, "machines").splitlines()[1] == "local    local       a hub is running"
    assert "fake     ready\ndefault: fake\n" in done(machine, "options")

    out = done(machine, "new", "--title", "A [title]", "hello", "there")
    id = out.split()[0]
    assert out == f"{id}  {machine.work}  prompt accepted\n"
    assert f"{id}  idle            0 waiting  fake     {machine.work}  A [title]\n" == done(
        machine, "sessions"
    )
    watch = started(machine, "watch", id[:5], "--json")
    until(watch, lambda frame: frame["kind"] == "ready")
    assert done(machine, "send", id[-4:], "and", "this") == "sent\n"
    said = "and this"
    until(watch, lambda frame: frame.get("message", {}).get("text") == said)
    assert texts(machine, id) == ["hello there", "echo: hello there", said, f"echo: {said}"]

    code, out, err = ran(machine, "cancel", id)
    assert (code, out) == (1, "")
    assert err == "craze-shed cancel: the session is not accepting that right now\n"
    assert done(machine, "rename", id, "Another", "title") == "renamed\n"
    titled = until(watch, lambda frame: frame.get("session", {}).get("title") == "Another title")
    assert titled["session"]["id"] == id
    assert done(machine, "stop", id) == "stop received (the session ends on its stream)\n"
    assert until(watch, lambda frame: frame["kind"] == "down")["reason"] == "session_closed"
    assert ended(watch) == (0, "")
    eventually(lambda: done(machine, "sessions") == "no sessions running\n")
    code, out, err = ran(machine, "send", id, "late")
    assert (code, out) == (1, "")
    assert err == f'craze-shed send: no session "{id}": no session runs there\n'


def test_a_saved_session_is_resumed_and_joined(machine: Machine) -> None:
    machine.configure(script("remember", CRAZE_FAKE_SESSION_ID="{dir}-1"))
    assert done(machine, "saved") == "no saved sessions\n"
    id = new(machine, "one")
    eventually(lambda: "echo: one" in texts(machine, id))
    assert done(machine, "stop", id)
    eventually(lambda: told(machine, "saved")[0]["sessions"])
    [[saved]] = [known["sessions"] for known in told(machine, "saved")]
    heading, line = done(machine, "saved").splitlines()
    assert heading.split() == ["ID", "PROVIDER", "DIR", "ACTIVE", "TITLE"]
    assert line.split()[:2] == [saved["id"], "fake"]
    out = done(machine, "resume", saved["id"])
    again = out.split()[0]
    assert again != id and out == f"{again}  {machine.work}  resumed\n"
    assert done(machine, "resume", saved["id"]) == f"{again}  {machine.work}  joined\n"
    assert texts(machine, again) == ["one", "echo: one"]
    code, out, err = ran(machine, "resume", "nothing")
    assert (code, out) == (1, "") and err.startswith("craze-shed resume: ")


def test_b14_an_approval_is_answered_and_over_when_the_session_says_so(machine: Machine) -> None:
    machine.configure(script("permission"))
    assert done(machine, "sessions") == "no sessions running\n"
    id = Hub(machine).create(permissionMode="prompt")["hostId"]
    watch = started(machine, "watch", id, "--json")
    until(watch, lambda frame: frame["kind"] == "ready")
    assert done(machine, "send", id, "go") == "sent\n"
    asked = until(watch, lambda frame: frame["kind"] == "approval")["approval"]
    assert asked["status"] == "pending"
    assert done(machine, "approvals", id) == (
        f"{asked['id']}  permission  {asked['title']}\n"
        + "".join(f"    choice:{one['id']}  {one['label']}\n" for one in asked["options"])
    )
    code, _, err = ran(machine, "answer", id, asked["id"], "choice:nonsense")
    assert code == 1
    said = 'craze did not offer option "nonsense" on this permission'
    assert err == f"craze-shed answer: {said}\n"
    assert told(machine, "approvals", id) == [asked]
    assert done(machine, "answer", id, asked["id"], "allow-once") == "answered\n"
    resolved = until(watch, lambda frame: frame["kind"] == "approval")["approval"]
    assert (resolved["id"], resolved["status"]) == (asked["id"], "resolved")
    until(watch, lambda frame: frame.get("message", {}).get("text") == "decision:opt-once")
    assert done(machine, "approvals", id) == "nothing asked\n"
    code, _, err = ran(machine, "answer", id, asked["id"], "reject")
    assert (code, err.count("\n")) == (1, 1)
    assert done(machine, "stop", id)
    assert ended(watch)[0] == 0


def test_settings_are_listed_and_changed(machine: Machine) -> None:
    id = new(machine)
    assert "Effort (thought_level): medium\n  effort low  Low\n" in done(machine, "settings", id)
    assert done(machine, "set", id, "effort", "high") == "set\n"
    assert done(machine, "set", id, "mode", "plan") == "set\n"
    [stated] = told(machine, "settings", id)
    assert stated["mode"] == "plan"
    assert {one["id"]: one["current"] for one in stated["options"]}["effort"] == "high"
    code, out, err = ran(machine, "set", id, "nonsense", "x")
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_b71_what_an_agent_says_never_acts_on_the_terminal(machine: Machine) -> None:
    bad = "a\x1b]0;owned\x07b\x1b[2J\x9b2Jc\nd"
    id = new(machine, bad)
    eventually(lambda: len(texts(machine, id)) == 2)
    for command in ("history", "sessions"):
        out = done(machine, *((command, id) if command == "history" else (command,)))
        assert out.replace("\n", "").isprintable() and "owned" not in out
    watch = started(machine, "watch", id)
    assert watch.stdout is not None
    line = ""
    while not line.startswith("--- ready"):
        line = watch.stdout.readline()
        assert line.rstrip("\n").isprintable()
    watch.send_signal(signal.SIGINT)
    assert ended(watch) == (130, "")


# ---- ways to end ----


def test_ctrl_c_ends_a_watch_and_leaves_the_session_and_nothing_else(machine: Machine) -> None:
    id = new(machine)
    before = set(machine.processes())
    for command in (("watch", id), ("sessions", "--watch")):
        watch = started(machine, *command, "--json")
        until(watch, lambda frame: frame["kind"] == "ready")
        assert set(machine.processes()) > before
        watch.send_signal(signal.SIGINT)
        assert ended(watch) == (130, "")
        eventually(lambda: set(machine.processes()) == before)
    assert done(machine, "sessions").startswith(id)


def test_ctrl_c_at_any_time_is_no_traceback_of_ours(machine: Machine) -> None:
    id = new(machine)
    for delay in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8):
        watch = started(machine, "watch", id)
        with pytest.raises(subprocess.TimeoutExpired):
            watch.wait(delay)
        watch.send_signal(signal.SIGINT)
        code, err = ended(watch)
        assert code in (130, -signal.SIGINT)
        assert not err or "craze_shed/cli" not in err  # the interpreter itself had not come up
    eventually(lambda: not running(machine, "craze bridge"))


def test_a_reader_that_leaves_ends_a_watch(machine: Machine) -> None:
    id = new(machine)
    watch = started(machine, "watch", id)
    assert watch.stdout is not None and watch.stderr is not None
    assert watch.stdout.readline() == "--- reset (connect) generation 1\n"
    watch.stdout.close()
    assert watch.wait(END_S) == 1
    assert watch.stderr.read() == ""
    watch.stderr.close()
    eventually(lambda: not running(machine, "craze bridge"))


# ---- an answer that is lost ----

# A craze whose bridge ends at the answer to what LOSE names, while the file of that name is there.
LOSING = """#!{python}
import json, os, subprocess, sys, threading
bridge = subprocess.Popen([{craze!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
lose, asked = {lose!r}, set()

def up():
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
        except ValueError:
            request = {{}}
        if os.path.exists(lose) and request.get("method") == os.path.basename(lose):
            asked.add(request["id"])
        bridge.stdin.write(line)
        bridge.stdin.flush()
    bridge.stdin.close()

threading.Thread(target=up, daemon=True).start()
for line in bridge.stdout:
    if json.loads(line).get("id") in asked:
        os._exit(0)
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
os._exit(bridge.wait())
"""


def losing(machine: Machine, method: str) -> Path:
    """Have the answers to `method` lost on the way, until the file that this names is removed."""
    lose = machine.work.parent / method
    lose.touch()
    craze = machine.home / ".local/bin/craze"  # where it is looked for first
    craze.parent.mkdir(parents=True)
    craze.write_text(LOSING.format(python=sys.executable, craze=CRAZE, lose=str(lose)))
    craze.chmod(0o755)
    return lose


def test_b10_a_create_whose_answer_is_lost_is_never_a_second_session(machine: Machine) -> None:
    lose = losing(machine, "session.create")
    process = started(machine, "new", "--json", "hello")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4
    error = json.loads(out)["error"]
    assert error["code"] == "outcome_unknown"
    assert err == f"craze-shed new: {error['message']} (request id {error['request_id']})\n"
    lose.unlink()
    [made] = told(machine, "new", f"--request-id={error['request_id']}", "hello")
    [listed] = told(machine, "sessions")
    assert listed["id"] == made["session"]["id"]
    eventually(lambda: texts(machine, listed["id"]) == ["hello", "echo: hello"])


def test_b09_a_prompt_whose_answer_is_lost_is_said_to_be_so_and_runs_once(machine: Machine) -> None:
    id = new(machine)
    lose = losing(machine, "session.prompt")
    code, out, err = ran(machine, "send", id, "only once")
    assert (code, out) == (4, "")
    assert err == (
        "craze-shed send: outcome unknown: the connection to craze dropped; check the transcript\n"
    )
    lose.unlink()
    eventually(lambda: "echo: only once" in texts(machine, id))
    assert texts(machine, id) == ["only once", "echo: only once"]


# ---- over ssh ----


@pytest.fixture
def box(machine: Machine, tmp_path: Path) -> Iterator[Machine]:
    """The machine from which the test's own is `ssh:box`."""
    with boxed(machine, tmp_path) as made:
        yield made.here


def test_a_machine_over_ssh_is_driven_and_no_list_starts_its_hub(
    machine: Machine, box: Machine
) -> None:
    where = box.home / ".config/craze-shed/machines.toml"
    where.parent.mkdir(parents=True)
    where.write_text('[machines]\nbuild = "ssh:box"\nnowhere = "ssh:nowhere.invalid"\n')
    listed = {one["machine"]: one for one in told(box, "machines")}
    assert listed["build"] == {"machine": "build", "reach": "ssh:box", "state": "dormant"}
    assert (listed["nowhere"]["state"], listed["nowhere"]["cause"]) == ("offline", "unreachable")
    code, out, err = ran(box, "sessions", "-m", "build")
    assert (code, out) == (1, "")
    assert err.startswith("craze-shed sessions: craze is offline (no_hub): ")
    assert not running(machine, "craze hub")

    assert "default: fake\n" in done(box, "options", "-m", "build")
    assert len(running(machine, "craze hub")) == 1
    at = ("-m", "build")
    [made] = told(box, "new", *at, "-C", str(machine.work), "hello")
    id = made["session"]["id"]
    watch = started(box, "watch", *at, id, "--json")
    until(watch, lambda frame: frame["kind"] == "ready")
    assert done(box, "send", "--machine=ssh:box", id, "again") == "sent\n"
    until(watch, lambda frame: frame.get("message", {}).get("text") == "again")
    another = started(box, "watch", *at, id, "--json")
    until(another, lambda frame: frame["kind"] == "ready")
    another.send_signal(signal.SIGTERM)
    assert ended(another) == (128 + signal.SIGTERM, "")
    assert done(box, "stop", *at, id)
    until(watch, lambda frame: frame["kind"] == "down")
    assert ended(watch) == (0, "")


def test_a_host_that_cannot_be_reached_is_told_with_ssh_s_own_words(box: Machine) -> None:
    code, out, err = ran(box, "sessions", "-m", "ssh:nowhere.invalid")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("craze-shed sessions: craze is offline (unreachable): ")
    assert "nowhere.invalid" in err and "Traceback" not in err


def test_b53_a_machine_behind_paramiko_is_driven_by_a_program_that_starts_again_patched(
    machine: Machine, box: Machine
) -> None:
    at = ("-m", "paramiko:box")
    [made] = told(box, "new", *at, "-C", str(machine.work), "hello")
    id = made["session"]["id"]
    watch = started(box, "watch", *at, id, "--json")
    until(watch, lambda frame: frame["kind"] == "ready")
    assert done(box, "send", *at, id[:6], "again") == "sent\n"
    until(watch, lambda frame: frame.get("message", {}).get("text") == "echo: again")
    watch.send_signal(signal.SIGINT)
    assert ended(watch) == (130, "")
    code, out, err = ran(box, "sessions", "-m", "paramiko:nowhere.invalid")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("craze-shed sessions: craze is offline (unreachable): ")
