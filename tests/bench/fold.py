"""How fast a lane folds a session's events into rows, against parsing their lines alone.

The history is a busy agent's: runs of text and thought in chunks, tools with their updates, turns,
the settings that come with them. Ours is everything between a line and its rows: parsing, the
fold, the ring that numbers them.
"""

from collections.abc import Iterator

import ujson

from craze.wire import json
from craze_shed.contract.rows import Ring
from craze_shed.craze.fold import Fold
from tests.bench.measure import Measure, side_by_side

TURNS, CHUNKS = 200, 40
AT = "2026-01-01T00:00:00.123456789Z"


def history() -> list[bytes]:
    """The lines of a session's events, 400 bytes each or a little less."""
    events: list[dict[str, object]] = []
    for turn in range(TURNS):
        id = f"turn-{turn}"
        events.append({"type": "turn", "turn": {"id": id, "phase": "started", "text": "go on"}})
        for kind in ("thought", "text"):
            events += [{"type": kind, "text": "lorem ipsum " * 24} for _ in range(CHUNKS)]
        for status in ("pending", "in_progress", "completed"):
            tool = {"id": f"call-{turn}", "status": status, "title": "Run tests", "at": AT,
                    "toolName": "shell", "contentText": "ok " * 60}  # fmt: skip
            events.append({"type": "tool", "tool": tool})
        events.append({"type": "done", "stopReason": "end_turn"})
        events.append({"type": "turn", "turn": {"id": id, "phase": "ended"}})
    return [
        json.dumps({
            "jsonrpc": "2.0", "method": "event",
            "params": {"subscription": "s-1", "seq": seq, "event": {**event, "at": AT}},
        })
        for seq, event in enumerate(events)
    ]  # fmt: skip


def run() -> Iterator[Measure]:
    lines = history()

    def fold() -> None:
        folded, ring = Fold("0123456789ab"), Ring()
        for line in lines:
            for row in folded.event(json.loads(line)["params"]["event"]):
                ring.append(row, 0)

    def parse() -> None:
        for line in lines:
            ujson.loads(line)

    mine, base = side_by_side(fold, parse)
    count = len(lines)
    yield Measure("lane, lines folded", count / mine, "lines/s", count / base, at_least=0.3)
