"""The slash catalog: a malformed row is dropped alone."""

import pytest

from craze.agents import slash as crazes
from craze_shed.contract import frames, slash
from craze_shed.contract.slash import SlashRow, SlashRun, SlashSetting

GOOD = {"name": "go", "description": "d", "source": "agent", "run": {"kind": "prompt"}}
READ = SlashRow("go", "d", "agent", run=SlashRun("prompt"))


@pytest.mark.parametrize("bad", [
    None, "row", [], {}, {**GOOD, "name": ""}, {**GOOD, "name": "a b"}, {**GOOD, "name": " a"},
    {**GOOD, "name": "a\x1b[2J"}, {**GOOD, "name": 3}, {**GOOD, "whileWorking": "yes"},
    {**GOOD, "run": "prompt"}, {**GOOD, "run": {"kind": 1}},
    {**GOOD, "run": {"kind": "method", "setting": 3}}, {**GOOD, "qualified": False},
])  # fmt: skip
def test_a_malformed_row_is_dropped_alone(bad):
    assert slash.catalog({"items": [bad, GOOD]}) == (READ,)
    assert frames.lane_frame({"kind": "slash_catalog", "items": [GOOD, bad]}).items == (READ,)


@pytest.mark.parametrize("section", [{}, None, [], "x", {"items": None}, {"items": {}}])
def test_a_section_without_rows_clears_the_catalog(section):
    assert slash.catalog(section) == ()


def test_what_is_left_out_is_nothing():
    (row,) = slash.catalog({"items": [{"name": "go"}]})
    assert (row.source, row.run.kind, row.whileWorking) == ("", "", False)


def test_crazes_own_catalog_reads_and_writes_the_same():
    rows = crazes.catalog(modes=["plan", "agent"], native=True)
    read = slash.catalog({"items": rows})
    assert [row.to_wire() for row in read] == rows
    plan = next(row for row in read if row.name == "plan")
    assert plan.run.setting == SlashSetting("mode", "plan")
