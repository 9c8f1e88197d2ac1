"""A session's settings and capabilities, folded from everything that says something of them."""

from typing import Any

import pytest

from craze_shed.contract.capabilities import LaneCapabilities
from craze_shed.contract.settings import (
    LaneChoice,
    LaneSetting,
    LaneUsage,
    SetConfig,
    SetMode,
    SetModel,
)
from craze_shed.craze.settings import SettingsFold

MODELS = [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}, {"id": "c", "name": "C"}]
MODES = [{"id": "plan", "name": "Plan", "description": ""}, {"id": "x", "description": "Asks"}]


def option(id: str, category: str = "", **more: Any) -> dict[str, Any]:
    return {"id": id, "name": id.title(), "category": category, "type": "select", **more}


def info(models: Any = None, modes: Any = None, **can: bool) -> dict[str, Any]:
    return {"catalogs": {"models": models or [], "modes": modes or []}, "capabilities": can}


def fold(document: dict[str, Any] | None = None, *sections: dict[str, Any]) -> SettingsFold:
    made = SettingsFold()
    made.adopt_info(document or {})
    for section in sections:
        made.apply(section)
    return made


def ids(choices: tuple[LaneChoice, ...]) -> list[str]:
    return [choice.id for choice in choices]


def test_models_are_the_current_then_the_recent_then_the_catalogs() -> None:
    models = [
        {"id": "a", "name": "A"},
        {"id": "b", "name": "B", "recent": 2},
        {"id": "c"},
        {"id": "d", "name": " ", "recent": 1},
        {"id": "e", "recent": 3},
    ]
    made = fold(info(models), {"model": "e"}).settings()
    assert made.model == "e"
    assert [(one.id, one.name, one.rank) for one in made.models] == [
        ("e", "e", 3),
        ("d", "d", 1),
        ("b", "B", 2),
        ("a", "A", None),
        ("c", "c", None),
    ]


def test_an_empty_model_or_mode_is_none() -> None:
    made = fold(info(MODELS), {"model": "a", "mode": "plan"}, {"model": "", "mode": ""}).settings()
    assert (made.model, made.mode) == (None, None)


def test_a_model_list_is_taken_only_at_a_revision_that_is_not_older() -> None:
    held = fold(info(MODELS))
    held.apply({"catalog": {"models": [{"id": "n"}], "revision": 2}})
    held.apply({"catalog": {"models": [{"id": "old"}], "revision": 1}})
    assert ids(held.settings().models) == ["n"]
    held.adopt_info(info(MODELS))  # its revision is 0
    assert ids(held.settings().models) == ["n"]
    held.apply({"catalog": {"models": [{"id": "same"}], "revision": 2}})
    assert ids(held.settings().models) == ["same"]
    held.adopt_info({"catalogs": {"models": MODELS, "revision": 3}})
    assert ids(held.settings().models) == ["a", "b", "c"]


def test_a_section_replaces_whole_and_a_wrong_one_is_absent() -> None:
    held = fold(info(MODELS, MODES) | {"capabilities": {"modes": True}})
    config = {"options": [option("effort", current="low")]}
    held.apply({"config": config, "usage": {"contextTokens": 5}, "slash": {"items": []}})
    before = held.settings()
    held.apply({"model": 1, "mode": None, "config": [], "usage": "x", "catalog": 7, "title": 5})
    held.adopt_info({"catalogs": {"models": {}, "modes": "x"}, "capabilities": {"modes": True}})
    assert held.settings() == before and before.options and before.modes
    held.apply({"config": {}})
    assert held.settings().options == ()


def test_options_are_ordered_and_leave_the_model_and_mode_out() -> None:
    config = {
        "options": [
            option("z"),
            option("model", "model"),
            option("fast", "model_config", current="off"),
            option("mode", "mode"),
            option("effort", "thought_level", current="low"),
            option("y", "other"),
            option("web", "model_config"),
            option(""),
            "no option",
        ]
    }
    made = fold(info(), {"config": config}).settings()
    assert [(one.id, one.category, one.current) for one in made.options] == [
        ("effort", "thought_level", "low"),
        ("fast", "model_config", "off"),
        ("web", "model_config", ""),
        ("z", "", ""),
        ("y", "other", ""),
    ]


def test_values_keep_the_providers_order_and_are_named_by_their_value_where_by_nothing_else() -> (
    None
):
    values = [
        {"value": "high", "name": "High"},
        {"value": ""},
        {"value": "low", "name": " "},
        {},
        3,
    ]
    made = fold(info(), {"config": {"options": [option("effort", selectValues=values)]}}).settings()
    assert made.options == (
        LaneSetting(
            "effort",
            "Effort",
            "",
            "",
            (LaneChoice("high", "High"), LaneChoice("", ""), LaneChoice("low", "low")),
        ),
    )


def test_an_option_with_a_wrong_category_is_one_without() -> None:
    made = fold(info(), {"config": {"options": [{"id": "a", "category": ["x"]}]}}).settings()
    assert made.options == (LaneSetting("a", "a", "", ""),)


def test_modes_are_shown_only_where_they_can_be_switched() -> None:
    shown = fold(info(modes=MODES) | {"capabilities": {"modes": True}}).settings().modes
    assert shown == (LaneChoice("plan", "Plan"), LaneChoice("x", "x", description="Asks"))
    for can in ({}, {"modes": False}, {"modes": 1}):
        assert fold(info(modes=MODES) | {"capabilities": can}).settings().modes == ()


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        ({}, None),
        ({"contextTokens": 0, "contextWindow": 0}, LaneUsage(0, None)),
        ({"contextTokens": 68000, "contextWindow": 200000}, LaneUsage(68000, 200000)),
        ({"contextTokens": -1, "contextWindow": "x"}, LaneUsage(None, None)),
        ({"contextTokens": True, "contextWindow": 1.5}, LaneUsage(None, None)),
    ],
)
def test_usage(usage: dict[str, Any], shown: LaneUsage | None) -> None:
    assert fold(info(), {"usage": usage}).settings().usage == shown


def test_effort_facts_show_only_where_the_session_states_them() -> None:
    models = [{"id": "a", "efforts": ["low"], "defaultEffort": "low", "switchEffort": "high"}]
    plain = fold(info(models)).settings().models[0]
    assert (plain.switch_effort, plain.default_effort) == (None, None)
    stated = fold(info(models, effortFacts=True)).settings().models[0]
    assert (stated.switch_effort, stated.default_effort) == ("high", "low")


@pytest.mark.parametrize(
    ("document", "sections", "settable"),
    [
        (info(), {}, False),
        (info(MODELS), {}, True),
        (info(modes=MODES), {}, False),
        (info([], MODES) | {"capabilities": {"modes": True}}, {}, True),
        (info(), {"config": {"options": [option("effort")]}}, True),
        (info(), {"config": {"options": [option("model", "model")]}}, False),
    ],
)
def test_there_is_something_to_set(
    document: dict[str, Any], sections: dict[str, Any], settable: bool
) -> None:
    assert fold(document, sections).capabilities().settings is settable


def test_capabilities_are_the_sessions_and_history_is_always_resumable() -> None:
    bare = LaneCapabilities("craze", False, False, False, True, False, False)
    assert fold({}).capabilities() == bare
    able = fold(info(interject=True, cancel=True, approvals=True, stop=True)).capabilities()
    assert able == LaneCapabilities("craze", True, True, True, True, False, True)
    # The cards say what is shown as an approval, not whether there are any.
    assert fold(info(askCards=True, planCards=True)).capabilities() == bare


def test_a_confirmed_change_is_taken_up() -> None:
    held = fold(info(MODELS), {"model": "a", "mode": "x"})
    held.apply(
        {"config": {"options": [option("effort", current="low"), option("web", current="on")]}}
    )
    held.confirm(SetModel("b"), "b")
    held.confirm(SetMode("plan"), "plan")
    held.confirm(SetConfig("effort", "high"), "high")
    held.confirm(SetConfig("gone", "high"), "high")
    made = held.settings()
    assert (made.model, made.mode) == ("b", "plan")
    assert [(one.id, one.current) for one in made.options] == [("effort", "high"), ("web", "on")]


def test_the_slash_catalog_shows_where_the_session_says_it_has_one() -> None:
    items = {"items": [{"name": "plan", "source": "builtin"}, {"name": "two words"}, 5]}
    assert fold(info(), {"slash": items}).slash is None
    held = fold(info(slashCatalog=True))
    assert held.slash is None
    held.apply({"slash": items})
    assert [row.name for row in held.slash or ()] == ["plan"]
    held.apply({"model": "a"})
    assert [row.name for row in held.slash or ()] == ["plan"]
    held.apply({"slash": {}})
    assert held.slash == ()


def test_every_change_is_counted() -> None:
    held = SettingsFold()
    counts = [held.changes]
    for change in (
        lambda: held.adopt_info({}),
        lambda: held.apply({"model": "a"}),
        lambda: held.confirm(SetModel("b"), "b"),
    ):
        change()
        counts.append(held.changes)
    assert counts == [0, 1, 2, 3]
