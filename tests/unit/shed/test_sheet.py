"""The settings sheet, the chip that opens it, and the context meter."""

import dataclasses

import pytest

from craze_shed import sheet
from craze_shed.contract import errors
from craze_shed.contract.errors import LaneError
from craze_shed.contract.settings import (
    LaneChoice,
    LaneSetting,
    LaneSettings,
    LaneUsage,
    SetConfig,
    SetMode,
    SetModel,
)  # fmt: skip
from craze_shed.sheet import MODE, MODEL, Key, SettingsSheet

LEVELS = (LaneChoice("low", "Low"), LaneChoice("high", "High"))
EFFORT = LaneSetting("effort", "Effort", "thought_level", "high", LEVELS)
FAST = LaneSetting(
    "fast", "Fast", "model_config", "true", (LaneChoice("false", "Off"), LaneChoice("true", "On"))
)
SET = LaneSettings(
    model="m",
    models=(LaneChoice("m", "Em", switch_effort="low"), LaneChoice("n", "En", switch_effort="high"),
            LaneChoice("o", "Oh")),
    mode="plan",
    modes=(LaneChoice("plan", "Plan", description="Think first"), LaneChoice("agent", "Agent")),
    options=(EFFORT, FAST, LaneSetting("void", "Void", "other", "", ())),
)  # fmt: skip
KEY = Key("config", "effort")
LOST = errors.outcome_unknown("the connection to craze dropped; check the transcript")


@pytest.mark.parametrize("settings,text", [
    (SET, "Em · High · fast"),
    (LaneSettings(), "Settings"),
    (LaneSettings(model="x"), "x"),
    (LaneSettings(options=(EFFORT,)), "High"),
    (LaneSettings(options=(dataclasses.replace(EFFORT, current="odd"),)), "odd"),
    (dataclasses.replace(SET, options=(dataclasses.replace(FAST, current="false"),)), "Em"),
    (LaneSettings(options=(FAST,)), "fast"),
])  # fmt: skip
def test_the_chip(settings, text):
    assert sheet.chip(settings) == text


@pytest.mark.parametrize("usage,meter", [
    (LaneUsage(68000, 200000), (34, "68k / 200k tokens · 34%")),
    (LaneUsage(1500, 1000000), (0, "1.5k / 1M tokens · 0%")),
    (LaneUsage(5, 1000), (1, "5 / 1k tokens · 1%")),
    (LaneUsage(300, 200), (100, "300 / 200 tokens · 100%")),
    (LaneUsage(0, 200), (0, "0 / 200 tokens · 0%")),
    (LaneUsage(68000, None), None), (LaneUsage(None, 5), None), (LaneUsage(5, 0), None),
    (None, None),
])  # fmt: skip
def test_the_context_meter(usage, meter):
    assert sheet.meter(usage) == meter


def row(it, key, settings=SET):
    return next(one for one in it.rows(settings) if one.key == key)


def test_the_rows_are_the_model_the_options_with_values_and_the_mode():
    rows = SettingsSheet().rows(SET)
    assert [(one.key, one.name, one.control, one.current) for one in rows] == [
        (MODEL, "Model", "list", "m"), (KEY, "Effort", "segmented", "high"),
        (Key("config", "fast"), "Fast", "segmented", "true"), (MODE, "Mode", "segmented", "plan"),
    ]  # fmt: skip
    assert SettingsSheet().rows(LaneSettings(model="m")) == ()


def test_another_model_says_which_effort_a_switch_lands_on():
    assert [choice.note for choice in row(SettingsSheet(), MODEL).choices] == [
        None, "effort → high", None,
    ]  # fmt: skip


@pytest.mark.parametrize("count,control", [(4, "segmented"), (5, "list")])
def test_up_to_four_values_are_segments(count, control):
    values = tuple(LaneChoice(str(number), "") for number in range(count))
    settings = LaneSettings(options=(dataclasses.replace(EFFORT, values=values),))
    assert SettingsSheet().rows(settings)[0].control == control


@pytest.mark.parametrize("key,value,change", [
    (MODEL, "n", SetModel("n")), (MODE, "agent", SetMode("agent")),
    (KEY, "low", SetConfig("effort", "low", "m")),
    (KEY, "high", None), (KEY, "gone", None), (Key("config", "void"), "x", None),
    (Key("config", "nowhere"), "x", None), (MODEL, "m", None),
])  # fmt: skip
def test_what_a_press_sends(key, value, change):
    assert SettingsSheet().press(SET, key, value) == change


def test_an_option_of_a_session_without_a_model_is_bound_to_none():
    settings = LaneSettings(options=(EFFORT,))
    assert SettingsSheet().press(settings, KEY, "low") == SetConfig("effort", "low")


def test_a_row_that_waits_for_its_answer_sends_nothing():
    it = SettingsSheet()
    assert it.press(SET, KEY, "low") and it.press(SET, KEY, "low") is None
    assert row(it, KEY).mark == "applying…" and row(it, MODEL).mark is None
    assert it.press(SET, MODEL, "n")
    it.restated()
    assert row(it, KEY).mark == "applying…"
    it.settle(SET, KEY)
    assert row(it, KEY).mark is None and row(it, KEY).current == "high"
    assert it.press(SET, KEY, "low")


@pytest.mark.parametrize("key,value,failure,mark", [
    (KEY, "low", LaneError("not_accepting"), "the model changed; try again"),
    (MODEL, "n", LaneError("not_accepting"), "the session is not accepting that right now"),
    (KEY, "low", errors.bad_request("craze's words"), "craze's words"),
    (KEY, "low", LOST, "not confirmed — the connection dropped before craze answered"),
])  # fmt: skip
def test_what_a_row_says_of_a_press_that_failed(key, value, failure, mark):
    it = SettingsSheet()
    it.press(SET, key, value)
    it.settle(SET, key, failure)
    assert row(it, key).mark == mark
    assert it.press(SET, key, value)
    assert row(it, key).mark == "applying…"


def test_what_is_not_confirmed_is_known_at_the_next_settings():
    it = SettingsSheet()
    it.press(SET, KEY, "low")
    it.settle(SET, KEY, LOST)
    it.restated()
    assert row(it, KEY).mark is None


@pytest.mark.parametrize("key,value,applied", [
    (KEY, "low", {"options": (dataclasses.replace(EFFORT, current="low"),)}),
    (MODEL, "n", {"model": "n"}), (MODE, "agent", {"mode": "agent"}),
])  # fmt: skip
def test_a_lost_answer_to_what_is_on_screen_already_says_nothing(key, value, applied):
    it = SettingsSheet()
    it.press(SET, key, value)
    now = dataclasses.replace(SET, **applied)
    it.settle(now, key, LOST)
    assert row(it, key, now).mark is None


def test_a_refusal_stays_until_the_next_press():
    it = SettingsSheet()
    it.press(SET, KEY, "low")
    it.settle(SET, KEY, errors.failed("no"))
    it.restated()
    assert row(it, KEY).mark == "no"
