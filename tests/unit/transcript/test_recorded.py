"""Snapshots and streams as the original wrote them: folding the same events gives the same bytes.

The recordings are not part of this repository; where they are not there the tests skip.
"""

import json as plain
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.events import build, codec
from craze.transcript import Model, UnknownSubagent, encode, restore
from craze.wire import json

SHARED = Path(__file__).resolve().parents[4] / "shared"
AT = "2026-01-01T00:00:00Z"
INSTALL = {
    "mode": "agent",
    "model": "grok",
    "config": {
        "options": [
            {
                "id": "effort",
                "name": "Effort",
                "category": "thought_level",
                "type": "select",
                "current": "medium",
                "selectValues": [
                    {"value": "low", "name": "Low"},
                    {"value": "medium", "name": "Medium"},
                    {"value": "high", "name": "High"},
                ],
            },
            {
                "id": "fast",
                "name": "Fast",
                "category": "model_config",
                "type": "select",
                "current": "false",
                "selectValues": [
                    {"value": "false", "name": "Off"},
                    {"value": "true", "name": "Fast"},
                ],
            },
        ]
    },
    "commands": {"commands": [{"name": "research", "description": "Agent-advertised command"}]},
    "plugins": {},
    "sendNow": {},
}


def recorded(name: str) -> list[str]:
    found = sorted(SHARED.glob(name))
    if not found:
        pytest.skip(f"no recording {name}: {SHARED} is not there")
    return found[0].read_text().splitlines()


def events_of(op: dict[str, Any]) -> dict[str, Any] | None:
    """The event an op of a scenario publishes; None for one that publishes none."""
    agent = op.get("agent", "")
    match op["name"]:
        case "text":
            return build.text(op.get("text") or "x" * op.get("bytes", 0), agent)
        case "thought":
            return build.thought(op.get("text", ""), agent)
        case "oversized_event":
            return build.text("o" * (9 << 20))
        case "tool":
            call = {"id": op["id"], "name": op["toolName"], "status": op["status"]}
            return build.tool(call, agent)
        case "spawn_subagent":
            return build.subagent({"id": op["id"], "status": "running"}, "spawned")
        case "stage_models":
            models = {"models": op["models"], "revision": 1}
            return build.meta({"catalog": models})
    return None


def replayed(lines: list[str]) -> Iterator[tuple[Model, dict[str, Any], str]]:
    """The model as each answer of a scenario was given, with the request and the raw answer."""
    model = Model("INCARNATION-1")
    asked: dict[Any, dict[str, Any]] = {}
    model.fold(1, {**build.meta(INSTALL), "at": AT})
    for line in lines:
        step = plain.loads(line)
        if step["dir"] == "op":
            event = events_of(step["op"])
            if event is not None:
                model.fold(model.seq + 1, {**event, "at": AT})
        elif step["dir"] == "c2s":
            asked[step["msg"]["id"]] = step["msg"]
        elif step["dir"] == "s2c" and "id" in step["msg"]:
            yield model, asked[step["msg"]["id"]], line


@pytest.mark.parametrize("number", ["01", "11", "12", "24"])
def test_the_recorded_snapshots_byte_for_byte(number: str) -> None:
    seen = 0
    for model, request, answer in replayed(recorded(f"wire/{number}-*.ndjson")):
        params = request.get("params", {})
        budget = params.get("budget", {}).get("snapshotBytes", 4 << 20)
        agent = params.get("agentId", "")
        if '"snapshot":{' in answer:
            taken = encode(model, budget, agent).decode()
            assert f'"snapshot":{taken}' in answer
            assert encode(restore(json.loads(taken.encode())), 8 << 20).decode() == taken
            seen += 1
        elif "no sub-agent" in answer:
            with pytest.raises(UnknownSubagent) as failure:
                encode(model, budget, agent)
            assert plain.loads(answer)["msg"]["error"]["message"] == str(failure.value)
            seen += 1
    assert seen


def test_a_real_session_folds_as_it_was_seen_to() -> None:
    messages = [plain.loads(line)["msg"] for line in recorded("lane/lane.ndjson")]
    golden = plain.loads("\n".join(recorded("lane/fold.golden.json")))
    model = restore(messages[1]["result"]["snapshot"])
    for message in messages:
        if message.get("method") == "event":
            event = codec.check(message["params"]["event"])
            assert event == message["params"]["event"]
            model.fold(message["params"]["seq"], event)
    drawn = [
        (document["kind"], document.get("text") or document["tool"]["title"], document["at"])
        for document in model.main.documents()
    ]
    kinds = {"text": "assistant", "reasoning": "thought", "tool_result": "tool"}
    expected = [
        (
            "user" if row["role"] == "user" else kinds[row["type"]],
            row["tool"]["detail"] if "tool" in row else row["text"],
        )
        for row in golden["rows"]
        if row["type"] != "tool_use"
    ]
    assert [(kind, words) for kind, words, _ in drawn] == expected
    assert model.seq == golden["events"] + golden["attach"]["seq"]
    assert model.last_turn is not None and model.last_turn["outcome"] == "done"
    assert model.settings["model"] == golden["settings"]["model"]
    taken = encode(model, 8 << 20)
    assert encode(restore(json.loads(taken)), 8 << 20) == taken
