"""Settings in both of the protocol's dialects."""

from typing import Any

import pytest

from craze.agents.acp.catalog import BadCatalog, Call, Catalog


def option(number: str, category: str = "", current: Any = "a", **members: Any) -> dict[str, Any]:
    values = [{"value": value, "name": value.upper()} for value in "ab"]
    return {
        "id": number,
        "name": number,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": values,
        **members,
    }


OLD = {
    "modes": {"currentModeId": "x", "availableModes": [{"id": "x", "name": "X"}, {"id": "y"}]},
    "models": {
        "currentModelId": "m1",
        "availableModels": [{"modelId": "m1", "name": "M1"}, {"modelId": "m2"}],
    },
}


def dialects(running: str, names: dict[str, str]) -> list[dict[str, Any]]:
    """The same models in the older dialect and in the newer."""
    listed = [{"modelId": number, "name": name} for number, name in names.items()]
    values = [{"value": number, "name": name} for number, name in names.items()]
    return [
        {"models": {"currentModelId": running, "availableModels": listed}},
        {"configOptions": [option("model", "model", running, options=values)]},
    ]


@pytest.mark.parametrize("dialect", [0, 1])
def test_a_list_of_models_keeps_a_catalog_s_bounds(dialect: int) -> None:
    catalog = Catalog()
    many = {f"m{number}": f"M{number}" for number in range(600)}
    catalog.install(dialects("m3", many)[dialect])
    assert [row["id"] for row in catalog.models] == list(many)[:512]
    catalog.install(dialects("m599", many)[dialect])
    assert [row["id"] for row in catalog.models] == [*list(many)[:511], "m599"]
    odd = {"i" * 256: "é" * 64, "j" * 257: "gone", "k": "é" * 65, "é" * 129: "gone"}
    catalog.install(dialects("k", odd)[dialect])
    assert catalog.models == [
        {"id": "i" * 256, "name": "é" * 64},
        {"id": "k", "name": "é" * 62 + "…"},
    ]
    assert all(len(row["name"].encode()) <= 128 for row in catalog.models)


def test_the_older_dialect() -> None:
    catalog = Catalog()
    catalog.install(OLD)
    assert catalog.modes == [
        {"id": "x", "name": "X", "description": ""},
        {"id": "y", "name": "y", "description": ""},
    ]
    assert catalog.models == [{"id": "m1", "name": "M1"}, {"id": "m2", "name": "m2"}]
    assert catalog.settings() == {"mode": "x", "model": "m1", "config": {}}
    assert catalog.call("model", "", "m2") == Call("session/set_model", {"modelId": "m2"})
    assert catalog.call("mode", "", "y") == Call("session/set_mode", {"modeId": "y"})
    assert catalog.call("config", "nope", "y") is None


def test_the_newer_dialect_goes_first() -> None:
    catalog = Catalog()
    catalog.install({**OLD, "configOptions": [option("k", "mode"), option("l", "model", "b")]})
    assert catalog.settings()["mode"] == "a"
    assert catalog.models == [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]
    assert catalog.call("model", "", "a") == Call(
        "session/set_config_option", {"configId": "l", "value": "a"}
    )
    assert catalog.call("mode", "", "b") == Call(
        "session/set_config_option", {"configId": "k", "value": "b"}
    )


def test_modes_of_options_alone() -> None:
    catalog = Catalog()
    catalog.install({"configOptions": [option("k", "mode", "b")]})
    assert catalog.modes[0] == {"id": "a", "name": "A", "description": ""}
    assert catalog.advertises("b")


def test_fallback_modes_and_a_model_list_that_came_early() -> None:
    catalog = Catalog(({"id": "default", "name": "Default", "description": ""},))
    catalog.install({}, OLD["models"])
    assert (catalog.mode, catalog.model) == ("default", "m1")


@pytest.mark.parametrize("result", [None, {}, [], 7])
def test_an_empty_install_keeps_what_was_told_meanwhile(result: Any) -> None:
    catalog = Catalog()
    catalog.install(OLD)
    catalog.install(result)
    assert (catalog.mode, catalog.model) == ("x", "m1")
    assert catalog.models


def test_groups_booleans_and_unknown_types() -> None:
    catalog = Catalog()
    grouped = [
        {"group": "g", "name": "G", "options": [{"value": "a"}]},
        {"value": "b", "name": "B"},
    ]
    catalog.take(
        {
            "configOptions": [
                option("one", options=grouped),
                option("two", type="boolean", currentValue=True),
                option("three", type="slider"),
                {"name": "no id"},
                option("four", options=[{"value": 7}, 8, {"value": "ok"}]),
            ]
        }
    )
    one, two, four = catalog.options
    assert one["selectValues"] == [{"value": "a", "name": "a"}, {"value": "b", "name": "B"}]
    assert (two["type"], two["current"]) == ("select", "true")
    assert four["selectValues"] == [{"value": "ok", "name": "ok"}]
    call = catalog.call("config", "two", "false")
    assert call is not None
    assert call.params == {"configId": "two", "type": "boolean", "value": False}


@pytest.mark.parametrize("listed", ["x", 7, {"a": 1}, [7], [{"name": "no id"}]])
def test_what_is_no_list_of_options_installs_nothing(listed: Any) -> None:
    catalog = Catalog()
    catalog.take({"configOptions": [option("one")]})
    with pytest.raises(BadCatalog):
        catalog.take({"configOptions": listed})
    assert [held["id"] for held in catalog.options] == ["one"]


def test_the_config_section_leaves_out_what_is_empty() -> None:
    catalog = Catalog()
    catalog.take({"configOptions": [option("one", current="")]})
    assert list(catalog.config()["options"][0]) == ["id", "name", "type", "selectValues"]


def test_a_setting_answered_without_a_catalog_is_as_asked() -> None:
    catalog = Catalog()
    catalog.install({"configOptions": [option("k", "mode"), option("l", "model")]})
    before = catalog.config()
    catalog.answered("model", "", "b", None)
    catalog.answered("mode", "", "b", {})
    catalog.answered("config", "k", "a", {})
    assert catalog.settings()["model"] == "b"
    assert catalog.settings()["mode"] == "a"
    assert before["options"][1]["current"] == "a"  # what was published is not changed


def test_an_option_that_is_gone_after_it_was_set() -> None:
    catalog = Catalog()
    catalog.take({"configOptions": [option("one"), option("two")]})
    catalog.answered("config", "one", "b", {"configOptions": [option("two")]})
    assert catalog.confirmed("config", "one") is None
    assert catalog.confirmed("config", "two") == "a"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([option("x", "thought_level")], "x"),
        ([option("reasoning_effort")], "reasoning_effort"),
        ([option("other")], None),
    ],
)
def test_which_option_is_the_effort(options: list[dict[str, Any]], found: str | None) -> None:
    catalog = Catalog()
    catalog.take({"configOptions": options})
    held = catalog.effort()
    assert (held["id"] if held else None) == found


def test_commands() -> None:
    catalog = Catalog()
    listed = {
        "availableCommands": [{"name": "a", "description": "A"}, {"name": ""}, 7, {"name": "b"}]
    }
    assert catalog.list_commands(listed)
    assert not catalog.list_commands(listed)
    assert catalog.command_sections() == {
        "commands": {"commands": [{"name": "a", "description": "A"}, {"name": "b"}]},
        "plugins": {},
    }
    assert catalog.list_commands({})
    assert catalog.command_sections()["commands"] == {}
