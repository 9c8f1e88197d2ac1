"""What real agents wrote, line by line, through the client: nothing of it may be lost or hurt.

The recordings are not part of the project; where they are not there, these tests are skipped.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from craze.agents.acp.catalog import Catalog
from craze.engine import port
from craze.machine import providers

FOLDER = Path(__file__).parents[4] / "shared" / "acp"
FILES = sorted(FOLDER.glob("*.ndjson"))

# Kinds that make no event: nothing in the codec stands for them.
SILENT = {"usage_update", "subagent_update", "session_message"}

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {FOLDER}")

OTHER = providers.custom("other", "Other", ["agent"], {})


def frames(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["msg"] for line in lines if line["dir"] == "a2c"]


def as_ours(frame: dict[str, Any], session: str) -> dict[str, Any]:
    """The frame as if the fake agent's session had written it; a reply answers nothing of ours."""
    if "method" not in frame:
        return {**frame, **({"id": 1_000_000 + frame["id"]} if "id" in frame else {})}
    params = frame.get("params", {})
    if params.get("sessionId") == session:
        return {**frame, "params": {**params, "sessionId": "fake-session-1"}}
    return frame


def kind(frame: dict[str, Any]) -> str:
    return str(frame.get("params", {}).get("update", {}).get("sessionUpdate", ""))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_line_of_an_agent_is_taken(drive: Any, tmp_path: Path, path: Path) -> None:
    told = frames(path)
    ours = Counter(f["params"]["sessionId"] for f in told if f.get("method") == "session/update")
    session = ours.most_common(1)[0][0] if ours else "none"
    replayed = tmp_path / "frames"
    lines = (json.dumps(as_ours(frame, session), ensure_ascii=False) for frame in told)
    replayed.write_text("".join(line + "\n" for line in lines))

    driven = drive("bad-frames", OTHER).start()

    def decline(made: Any) -> None:
        if isinstance(made, port.AskRaised):
            driven.agent.answer(made.key, {"outcome": "cancelled"})

    driven.on_post = decline
    assert driven.turn(str(replayed)).stop_reason == "end_turn"

    counters = driven.agent.counters
    assert {name for name in counters if counters[name]} <= {
        "stray_reply",  # the recording client's own calls
        "unknown_update",
        "unknown_session",
    }
    mine = [f for f in told if f.get("params", {}).get("sessionId") == session]
    elsewhere = [f for f in told if f.get("method") == "session/update" and f not in mine]
    assert counters["unknown_session"] == len(elsewhere)
    assert counters["unknown_update"] == sum(kind(frame) in SILENT for frame in mine)

    chunks = [f["params"]["update"] for f in mine if kind(f) == "agent_message_chunk"]
    words = "".join(chunk["content"].get("text", "") for chunk in chunks)
    assert driven.said().replace("\n\n", "") == words.replace("\n\n", "")
    asked = [f for f in told if f.get("method") == "session/request_permission"]
    assert len(driven.all(port.AskRaised)) == len(asked)
    assert all(made.body["tool"] and made.body["options"] for made in driven.all(port.AskRaised))

    called = {
        f["params"]["update"]["toolCallId"] for f in mine if kind(f).startswith("tool_call")
    } | {f["params"]["toolCall"]["toolCallId"] for f in asked}
    shown = {event["tool"]["id"]: event["tool"] for event in driven.events("tool")}
    assert set(shown) == called
    for frame in mine:
        if kind(frame) == "plan":
            assert driven.events("todos")
    for tool in shown.values():
        assert tool["title"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_each_agent_can_be_set_to(path: Path) -> None:
    for frame in frames(path):
        result = frame.get("result")
        if not isinstance(result, dict) or not {"modes", "models", "configOptions"} & set(result):
            continue
        catalog = Catalog()
        catalog.install(result)
        if "models" in result or any(o.get("category") == "model" for o in result["configOptions"]):
            assert catalog.models
            assert catalog.model
            assert catalog.call("model", "", catalog.models[0]["id"])
        if result.get("modes"):
            assert catalog.mode in [mode["id"] for mode in catalog.modes]
        for option in result.get("configOptions") or []:
            held = catalog.option(option["id"])
            assert held is not None
            assert held["current"] in [value["value"] for value in held["selectValues"]]
