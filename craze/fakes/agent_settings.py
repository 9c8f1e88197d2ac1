"""Scripts of craze-fake-agent about models and options: what a session is opened with."""

from collections.abc import Callable
from typing import Any

from craze.fakes.agent import (
    NOTHING,
    Agent,
    Refused,
    Script,
    Turn,
    new_session,
    select_option,
    set_option,
)

_TurnOf = Callable[[Agent, Turn], Any]

# permodel: each model's own options, by id with their values.
_PER_MODEL: dict[str, dict[str, tuple[str, ...]]] = {
    "default": {"effort": ("low", "medium", "high")},
    "composer": {"effort": ("low", "high", "max"), "fast": ("false", "true")},
}


def _effort(agent: Agent, turn: Turn) -> None:
    agent.text("effort:" + agent.option("effort")["currentValue"])


def settings(agent: Agent, turn: Turn) -> None:
    """Say what everything is set to."""
    options = ",".join(f"{o['id']}={o['currentValue']}" for o in agent.options)
    agent.text(f"mode={agent.mode} model={agent.model} {options}")


def _model_option(agent: Agent) -> dict[str, Any]:
    return select_option("model", "Model", "model", agent.model, *agent.models)


def _modelconfig(agent: Agent, params: dict[str, Any]) -> Any:
    agent.options.insert(0, _model_option(agent))
    result = new_session(agent, params)
    del result["models"]
    return result


def _set_model_option(agent: Agent, params: dict[str, Any]) -> Any:
    result = set_option(agent, params)
    if params["configId"] == "model":
        agent.model = params["value"]
    return result


def _refuse_model(agent: Agent, params: dict[str, Any]) -> Any:
    if params["configId"] == "model":
        raise Refused(-32602, "that model cannot be chosen")
    return set_option(agent, params)


def _modellate(agent: Agent, params: dict[str, Any]) -> Any:
    result = new_session(agent, params)
    del result["models"]
    agent.reply(agent.answering, result)
    agent.options.insert(0, _model_option(agent))
    agent.update("config_option_update", configOptions=agent.options)
    return NOTHING


def _preinstall(agent: Agent, params: dict[str, Any]) -> Any:
    result = new_session(agent, params)
    agent.update("session_info_update", title="Named early")
    agent.update("current_mode_update", currentModeId="plan")
    agent.text("said early")
    agent.text("said elsewhere", session="other-session")
    result["modes"] = {**result["modes"], "currentModeId": "plan"}
    return result


# ---- permodel ----


def _per_model(agent: Agent, named: bool = True) -> list[dict[str, Any]]:
    held = {option["id"]: option["currentValue"] for option in agent.options}
    options = [_model_option(agent)] if named else []
    for number, values in _PER_MODEL[agent.model].items():
        category = "thought_level" if number == "effort" else "model_config"
        current = held.get(number) if held.get(number) in values else values[0]
        rows = [(value, value.capitalize()) for value in values]
        options.append(select_option(number, number.capitalize(), category, current or "", *rows))
    return options


def _permodel(how: str) -> dict[str, Callable[[Agent, dict[str, Any]], Any]]:
    """The calls of one of the family: `how` is what is unusual in the answer to a chosen model."""

    def new(agent: Agent, params: dict[str, Any]) -> Any:
        agent.options = _per_model(agent, how != "nomodel")
        result = new_session(agent, params)
        if how != "nomodel":
            del result["models"]
        return result

    def choose(agent: Agent, model: str) -> Any:
        if model not in _PER_MODEL:
            raise Refused(-32602, f"no such model: {model}")
        if how == "refuse":
            raise Refused(-32602, "that model cannot be chosen")
        agent.model = model
        agent.options = _per_model(agent, how != "nomodel")
        told = {"configOptions": agent.options}
        if how == "pushbefore":
            agent.update("config_option_update", **told)
        elif how == "pushafter":
            agent.reply(agent.answering, told)
            agent.update("config_option_update", **told)
            return NOTHING
        elif how == "pushmodel-after":
            agent.reply(agent.answering, told)
            agent.model = "default"
            agent.options = _per_model(agent)
            agent.update("config_option_update", configOptions=agent.options)
            return NOTHING
        elif how == "empty":
            return {"configOptions": []}
        elif how in ("noreply", "nomodel"):
            return {}
        return told

    def option(agent: Agent, params: dict[str, Any]) -> Any:
        if params["configId"] == "model":
            return choose(agent, params["value"])
        return set_option(agent, params)

    return {
        "session/new": new,
        "session/set_config_option": option,
        "session/set_model": lambda agent, params: choose(agent, params["modelId"]),
    }


def scripts(echo: _TurnOf) -> dict[str, Script]:
    """The scripts of this file; `echo` is what those do that are about something else."""
    made = {
        "effort": Script(_effort),
        "modelconfig": Script(
            settings,
            calls={
                "session/new": _modelconfig,
                "session/set_config_option": _set_model_option,
            },
        ),
        "modelconfig-refuse": Script(
            settings,
            calls={"session/new": _modelconfig, "session/set_config_option": _refuse_model},
        ),
        "modellate": Script(
            settings,
            calls={"session/new": _modellate, "session/set_config_option": _set_model_option},
        ),
        "preinstall": Script(echo, calls={"session/new": _preinstall}),
    }
    for how in (
        "", "empty", "noreply", "refuse", "nomodel", "pushbefore", "pushafter", "pushmodel-after",
    ):  # fmt: skip
        name = f"permodel-{how}" if how else "permodel"
        made[name] = Script(settings, load=True, calls=_permodel(how))
    return made
