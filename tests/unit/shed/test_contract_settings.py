"""Settings: their changes, and which option is the effort or the fast switch."""

import pytest

from craze_shed.contract import settings
from craze_shed.contract.codec import ContractError
from craze_shed.contract.settings import LaneChoice, LaneSetting, LaneSettings

VALUES = (LaneChoice("low", "Low"), LaneChoice("high", "High"))


def option(id, name="", category="", values=VALUES, current="low"):
    return LaneSetting(id, name, category, current, values)


@pytest.mark.parametrize("wire", [
    {"kind": "model", "id": "m"}, {"kind": "mode", "id": "plan"},
    {"kind": "config", "id": "effort", "value": "high"},
    {"kind": "config", "id": "effort", "value": "high", "for_model": "m"},
])  # fmt: skip
def test_a_change_is_written_as_it_was_read(wire):
    assert settings.decode_change(wire).to_wire() == wire


@pytest.mark.parametrize("wire,problem", [
    ({"kind": "colour", "id": "m"},
        "LaneSettingChange.kind: expected one of model, mode, config, got colour"),
    ({"kind": "model", "id": "m", "value": "x"}, "SetModel.value: unknown field"),
    ({"kind": "config", "id": "m"}, "SetConfig.value: missing"),
])  # fmt: skip
def test_a_change_that_is_not_understood_is_refused(wire, problem):
    with pytest.raises(ContractError) as caught:
        settings.decode_change(wire)
    assert str(caught.value) == problem


@pytest.mark.parametrize("options,chosen", [
    ([], None),
    ([option("verbosity")], None),
    ([option("effort", values=())], None),
    ([option("reasoning_effort", category="thought_level")], 0),
    ([option("x", "Reasoning depth")], 0),
    ([option("x", "Thinking EFFORT")], 0),
    ([option("a_effort"), option("EFFORT")], 1),
    ([option("a_effort", "", "thought_level"), option("b_effort", "", "model_option")], 1),
    ([option("a_effort", "", "other"), option("b_effort", "", "thought_level")], 1),
    ([option("a_effort"), option("b_effort")], 0),
    ([option("effort", values=()), option("b", "reasoning")], 1),
])  # fmt: skip
def test_which_option_is_the_effort(options, chosen):
    found = settings.effort_option(LaneSettings(options=tuple(options)))
    assert found is (None if chosen is None else options[chosen])


def test_without_settings_there_is_no_effort():
    assert settings.effort_option(None) is None


YES, NO = LaneChoice("y", "on"), LaneChoice("n", " OFF ")
SWITCH = (LaneChoice("false", "Off"), LaneChoice("true", "Fast\u200b\u200b"))


@pytest.mark.parametrize("option_,fast", [
    (option("fast", "Fast", "model_config", SWITCH, "true"), True),
    (option("fast", "Fast", "model_config", SWITCH, "false"), False),
    (option("x", "Go FAST", "model_config", SWITCH, "true"), True),
    (option("speed", "Speed", "model_config", SWITCH, "true"), False),
    (option("fast", "Fast", "other", SWITCH, "true"), False),
    (option("fast", "", "model_config", (NO, YES), "y"), True),
    (option("fast", "", "model_config", (YES, NO), "y"), True),
    (option("fast", "", "model_config", (NO, YES), "z"), False),
    (option("fast", "", "model_config", (YES,), "y"), False),
    (option("fast", "", "model_config", (NO,), "n"), False),
])  # fmt: skip
def test_whether_a_session_is_fast(option_, fast):
    assert settings.is_fast(LaneSettings(options=(option_,))) is fast


def test_the_first_switch_counts():
    on = option("fast", "", "model_config", SWITCH, "true")
    off = option("faster", "fast", "model_config", SWITCH, "false")
    assert not settings.is_fast(LaneSettings(options=(off, on)))
