"""What real agents wrote when a session of theirs was loaded: told once, as the past, and no more.

The recordings are not part of the project; where they are not there, these tests are skipped.
"""

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from craze.engine import port
from craze.machine import providers
from tests.unit.agents.test_recorded import FOLDER

FILES = sorted(FOLDER.glob("*-load.ndjson"))
OTHER = providers.custom("other", "Other", ["agent"], {})

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {FOLDER}")

# Says what the recorded agent said to the same request, and what it said before the next one.
PLAYER = """
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
said, latest = {}, None
for line in lines:
    if line["dir"] == "c2a":
        latest = said.setdefault(line["msg"].get("method"), [])
        if latest:
            latest = []  # only the first request of a kind is played
        latest.append(line["msg"].get("id"))
    else:
        latest.append(line["msg"])
for line in sys.stdin:
    asked = json.loads(line)
    number, *answers = said.get(asked.get("method"), [None])
    for message in answers:
        if "method" not in message and message.get("id") == number:
            message = {**message, "id": asked["id"]}
        print(json.dumps(message), flush=True)
"""


def recorded(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """The recorded updates of the load and of the prompt after it, and the load's answer."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    methods = [line["msg"].get("method") for line in lines]
    asked, prompted = methods.index("session/load"), methods.index("session/prompt")
    resumed = methods.index("session/resume")
    number = lines[asked]["msg"]["id"]
    answer = next(
        line["msg"] for line in lines[asked + 1 :]
        if "method" not in line["msg"] and line["msg"]["id"] == number
    )  # fmt: skip

    def updates(part: list[dict[str, Any]]) -> list[dict[str, Any]]:
        told = [line["msg"] for line in part if line["dir"] == "a2c"]
        return [m["params"]["update"] for m in told if m.get("method") == "session/update"]

    return updates(lines[asked:prompted]), updates(lines[prompted:resumed]), answer


def words(updates: list[dict[str, Any]], kind: str) -> str:
    told = [update for update in updates if update["sessionUpdate"] == kind]
    return "".join(update["content"].get("text", "") for update in told).replace("\n\n", "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_b08_a_recorded_load(drive: Any, tmp_path: Path, path: Path) -> None:
    past, live, answer = recorded(path)
    player = tmp_path / "player.py"
    player.write_text(PLAYER)
    driven = drive("", OTHER, argv=[sys.executable, str(player), str(path)], load=session(path))
    if "error" in answer:
        assert driven.failed().message == answer["error"]["data"]["details"]
        return
    driven.start()
    driven.until(lambda: len(driven.events("replay")) == 2)
    over = driven.posts.index(port.AgentEvent(driven.events("replay")[1])) + 1
    start, *replayed, end = driven.posts[:over]  # news of its commands may follow
    assert (start.event["replay"]["phase"], end.event["replay"]["phase"]) == ("start", "end")
    assert isinstance(replayed[-1], port.AgentReady)
    assert replayed[-1].provider_session == session(path)

    # What the user said, in as many pieces as there are messages.
    prompts = [u for u in past if u["sessionUpdate"] == "user_message_chunk"]
    asked = [event["text"] for event in driven.events("user")]
    assert "".join(asked) == "".join(prompt["content"]["text"] for prompt in prompts)
    runs = [
        list(run) for kind, run in groupby(past, lambda u: u["sessionUpdate"]) if "user" in kind
    ]
    named = any("messageId" in prompt for prompt in prompts)
    assert len(asked) == (len(prompts) if named else len(runs))

    # What the agent said and did.
    assert driven.said().replace("\n\n", "") == words(past, "agent_message_chunk")
    thoughts = "".join(event["text"] for event in driven.events("thought"))
    assert thoughts.replace("\n\n", "") == words(past, "agent_thought_chunk")
    called = {u["toolCallId"] for u in past if u["sessionUpdate"].startswith("tool_call")}
    last = {event["tool"]["id"]: event["tool"]["status"] for event in driven.events("tool")}
    assert set(last) == called
    assert set(last.values()) <= {"completed", "failed"}, "nothing was left open"
    assert not driven.agent.counters["replayed_again"]

    # Then it is live, and what it says begins anew.
    seen = len(driven.posts)
    assert driven.turn("FAKE:text after load").stop_reason == "end_turn"
    spoken = [
        made.event["text"] for made in driven.posts[seen:]
        if isinstance(made, port.AgentEvent) and made.event["type"] == "text"
    ]  # fmt: skip
    assert "".join(spoken) == words(live, "agent_message_chunk")
    assert driven.events("user")[len(asked) :] == []


def session(path: Path) -> str:
    """The id of the session that is loaded."""
    for line in path.read_text().splitlines():
        message = json.loads(line)["msg"]
        if message.get("method") == "session/load":
            return str(message["params"]["sessionId"])
    raise ValueError(f"no load in {path}")
