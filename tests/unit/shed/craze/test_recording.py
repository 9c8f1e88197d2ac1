"""A recorded session folds to what it was seen to fold to."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from craze_shed.contract.rows import Ring
from craze_shed.craze.fold import Fold

LANE = Path(__file__).resolve().parents[5] / "shared" / "lane"

if not LANE.is_dir():
    pytest.skip(f"there is no recording at {LANE}", allow_module_level=True)

EPOCH_MS = 0  # what a row without a time is stamped with


def test_the_recorded_lane_folds_to_its_golden() -> None:
    golden: dict[str, Any] = json.loads((LANE / "fold.golden.json").read_text())
    lines = [json.loads(line) for line in (LANE / "lane.ndjson").read_text().splitlines()]
    said = [line["msg"] for line in lines if line["dir"] == "s2c"]
    attach = next(
        message["result"] for message in said if "subscription" in message.get("result", {})
    )
    fold = Fold(attach["session"]["hostId"])
    fold.adopt_info(attach["session"])
    capabilities = fold.settings.capabilities().to_wire()
    ring = Ring()
    rows = [ring.append(row, EPOCH_MS) for row in fold.restore(attach["snapshot"])]
    activity = []
    events = 0
    end = ""
    for message in said:
        params = message.get("params", {})
        if message.get("method") == "event":
            rows += [ring.append(row, EPOCH_MS) for row in fold.event(params["event"])]
            activity.append(fold.activity)
            events += 1
        elif message.get("method") == "reset":
            end = params["reason"]
    rows += [ring.append(row, EPOCH_MS) for row in fold.flush()]
    assert [row.to_wire() for row in rows] == golden["rows"]
    assert fold.settings.settings().to_wire() == golden["settings"]
    assert capabilities == golden["capabilities"]
    assert [word for word, _ in groupby(activity)] == golden["activity"]
    assert {**attach["after"], "truncated": fold.truncated} == golden["attach"]
    assert [one.to_wire() for one in fold.book.approvals().values()] == golden["approvals"]
    assert (events, end) == (golden["events"], golden["end"])
