"""The published recipe for testing a client against a real hub, run as it is printed.

Its shell blocks are read from the protocol reference, and only the directory of the programs is put
in. Its later steps are driven through the scripts that its first one writes.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.machine import BIN, END_S, until

REFERENCE = Path(__file__).parents[3] / "shared" / "seeds" / "000_87130403ef5b831b.txt"
RECIPE = Path("/tmp/craze-recipe")
BEGIN = "Testing a client against a real hub"
PLACE = "BIN=/absolute/path/to/craze/bin"
PATIENCE_S = 60
FAKE = "0a0a0a0a0a0a"

pytestmark = pytest.mark.skipif(
    not REFERENCE.exists(), reason=f"needs {REFERENCE}, whose shell blocks it runs"
)


def blocks() -> list[str]:
    """The recipe's shell blocks: from a line that sets a variable to a blank line, here-documents
    whole."""
    text = REFERENCE.read_text()
    found: list[list[str]] = []
    inside = document = False
    for line in text[text.index(BEGIN) :].splitlines():
        if not inside and line in (PLACE, f"R={RECIPE}"):
            inside = True
            found.append([])
        if not inside:
            continue
        if document:
            document = line != "EOF"
        elif line:
            document = re.search(r"<<'?EOF'?$", line) is not None
        else:
            inside = False
            continue
        found[-1].append(line)
    return ["\n".join(lines) + "\n" for lines in found]


def processes() -> dict[int, str]:
    """What runs of the recipe, by pid: by its environment, and the programs that feed it."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        except OSError:
            continue
        ours = f"CRAZE_HOME={RECIPE}/craze-home".encode() in variables
        if ours or command.startswith(f"tail -n +1 -f {RECIPE}/"):
            found[int(folder.name)] = command
    return found


def shell(script: str) -> str:
    """Run a piece of the recipe; what it prints."""
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        text=True,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def recipe() -> Iterator[None]:
    assert not RECIPE.exists(), (
        f"{RECIPE} is there already, left by an earlier run or somebody else's: run its cleanup,"
        " if it has one, and remove it"
    )
    try:
        yield
    finally:
        cleanup = RECIPE / "cleanup"
        if cleanup.exists():
            subprocess.run([cleanup], stdin=subprocess.DEVNULL, timeout=PATIENCE_S)
        for pid in processes():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not processes(), END_S)
        shutil.rmtree(RECIPE, ignore_errors=True)


def send(name: str, id: int, method: str, params: dict[str, Any]) -> None:
    line = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    with open(RECIPE / f"{name}.in", "a") as lines:
        lines.write(json.dumps(line) + "\n")


def reply(name: str, id: int) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(shell(f"{RECIPE}/reply {name} {id}"))
    return said


def result(name: str, number: int, method: str, /, **params: Any) -> dict[str, Any]:
    send(name, number, method, params)
    found: dict[str, Any] = reply(name, number)["result"]
    return found


def hello(name: str, id: int) -> dict[str, Any]:
    client = {"kind": "test", "name": "recipe"}
    return result(name, id, "hello", protocols=[1], client=client)


def notes(name: str, text: str) -> list[dict[str, Any]]:
    """The lines of a bridge that hold `text`, once there is one."""
    found = shell(f"{RECIPE}/await {name} '{text}'")
    return [json.loads(line) for line in found.splitlines()]


def test_the_recipe_runs_as_printed_and_leaves_nothing(recipe: None) -> None:
    reference = REFERENCE.read_text()
    environment, fake_host, bridge_a, options = blocks()
    assert environment.startswith(PLACE + "\n")
    shell(environment.replace(PLACE, f"BIN={BIN}", 1))
    first = RECIPE / "path" / "craze"
    assert not first.is_symlink() and first.read_bytes() == (BIN / "craze").read_bytes()

    # 3. The fake host.
    ready = json.loads(shell(fake_host))
    socket = ready["socket"]
    printed = json.dumps(ready, separators=(",", ":"))
    assert printed.replace(socket.split("/")[4], "<namespace>") in reference

    # 4. Bridge A, and the hub's hello.
    said = json.loads(shell(bridge_a))
    endpoint = said["result"]["endpoint"]
    hub = endpoint["pid"]
    for name, value in (("hostId", "0a1b2c3d4e5f"), ("crazeVersion", "dev"), ("pid", 5150)):
        endpoint[name] = value
    assert json.dumps(said, separators=(",", ":")) in reference

    # 5. What a create can start.
    missing = f"install cursor-agent, or set [agents].cursor in {RECIPE}/craze-home/config.toml"
    key = 'craze auth login (an API key, or "craze auth login chatgpt" for a ChatGPT plan)'
    assert json.loads(shell(options)) == {
        "jsonrpc": "2.0", "id": 2, "result": {
            "providers": [
                {"id": "cursor", "label": "cursor", "state": "unavailable",
                 "reason": "cursor-agent not found on PATH", "fix": missing},
                {"id": "grok", "label": "grok", "state": "ready"},
                {"id": "native", "label": "native", "state": "needs_setup",
                 "reason": "no model provider has a key", "fix": key},
            ],
            "defaultProvider": "grok", "recentDirs": [],
        },
    }  # fmt: skip

    # The roster holds the fake host, and then the session that is created.
    roster = result("a", 3, "sessions.subscribe")
    [row] = roster["sessions"]
    assert (row["hostId"], row["sessionId"], row["status"]) == (FAKE, "recipe-fake", "reachable")
    work = str(RECIPE / "work")
    created = result("a", 4, "session.create",
                     cwd=work, prompt="hello recipe", requestId="recipe-1")  # fmt: skip
    assert created["prompt"] == "accepted"
    host, session = created["session"]["hostId"], created["session"]["sessionId"]
    assert created["session"]["host"]["provider"] == "grok"
    told = notes("a", f'"upserts":[{{"hostId":"{host}"')
    assert told[0]["params"]["subscription"] == roster["subscription"]

    # Every process is told by its command line, the hub and the host by the copy's path too.
    commands = processes()
    programs = [line for line in commands.values() if not line.startswith("tail ")]
    agent = [line for line in programs if str(BIN / "craze-fake-agent") in line]
    assert len(agent) == 1
    assert all(line.startswith(f"{RECIPE}/path/") for line in programs if line not in agent)
    assert commands[hub] == f"{RECIPE}/path/craze hub"
    serving = commands[created["session"]["host"]["pid"]]
    assert serving.startswith(f"{RECIPE}/path/craze serve --host-id={host} ")

    # Bridge B is spliced to the session, and drives it.
    shell(f"{RECIPE}/start b craze bridge --hub")
    assert hello("b", 1)["endpoint"]["pid"] == hub
    assert result("b", 2, "session.connect", sessionId=host) == {}
    assert hello("b", 3)["endpoint"]["hostId"] == host
    assert result("b", 4, "session.attach", sessionId=session)["subscription"]
    params = json.dumps({"sessionId": session})
    shell(f"{RECIPE}/poll b 30 'echo: hello recipe' session.snapshot '{params}'")
    [recent] = result("a", 5, "sessions.createOptions")["recentDirs"]
    assert (recent["dir"], sorted(recent)) == (work, ["dir", "usedAt"])
    assert result("b", 5, "session.stop", sessionId=session, commandId="1") == {}
    assert notes("b", '"method":"reset"')[-1]["params"]["reason"] == "session_closed"
    notes("a", f'"removes":["{host}"]')

    # This agent cannot load what it said; one that can is put in its place.
    [saved] = result("a", 6, "sessions.saved")["sessions"]
    assert (saved["id"], saved["provider"], saved["workspace"]) == (session, "grok", work)
    send("a", 7, "session.reopen", {"id": session})
    error = reply("a", 7)["error"]
    assert error["data"]["reason"] == "start_failed"
    assert error["data"]["cause"] == "agent: grok does not support session/load"
    loader = RECIPE / "loader"
    loader.write_text(f"#!/bin/sh\nexec {BIN}/craze-fake-agent -script grok-load\n")
    loader.chmod(0o700)
    config = RECIPE / "craze-home" / "config.toml"
    config.write_text(config.read_text().replace(str(BIN / "craze-fake-agent"), str(loader)))
    reopened = result("a", 8, "session.reopen", id=session)
    assert (reopened["joined"], reopened["session"]["sessionId"]) == (False, session)
    assert reopened["session"]["hostId"] != host
    again = result("a", 9, "session.reopen", id=session)
    assert (again["joined"], again["session"]["hostId"]) == (True, reopened["session"]["hostId"])

    # Cleanup finds all of it, by name alone.
    assert shell(f"{RECIPE}/cleanup") == "nothing left\n"
    assert processes() == {}
    cache = RECIPE / "home" / ".cache" / "craze"
    left = {path.relative_to(cache).parts[0] for path in cache.rglob("*") if path.is_file()}
    assert left == {"host-logs", "hubs", "locks"}
    assert [path.suffix for path in (cache / "hubs").iterdir()] == [".lock"]
    assert [path.name for path in (cache / "locks").iterdir()] == [f"{session}.lock"]
    assert not list((RECIPE / "run").rglob("*.sock"))
    assert shell(f"{RECIPE}/cleanup") == "nothing left\n", "running it again is harmless"
