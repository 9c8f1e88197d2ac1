"""What an agent lets a user set: its modes, its models, its options, in either of ACP's dialects.

Older agents list `models` and `modes` and have a call for each; newer ones list `configOptions`,
some of which are the model and the mode; some send both. This keeps what was last told, says which
call a setting takes, and writes the event codec's sections for it.
"""

from typing import Any, NamedTuple

from craze.agents.acp import read
from craze.transcript.text import head_marked, size
from craze.wire.limits import MODEL_ID, MODEL_NAME, MODELS

Row = dict[str, Any]


class Call(NamedTuple):
    """The agent's method for a setting, and its params but for the session id."""

    method: str
    params: dict[str, Any]


class BadCatalog(Exception):
    """The agent's answer has a `configOptions` that is no list of options."""


class Catalog:
    """One session's settings. `fallback_modes` stand in where the agent advertises none."""

    def __init__(self, fallback_modes: tuple[Row, ...] = ()) -> None:
        self.mode = ""
        self.model = ""
        self.modes: list[Row] = []
        self.options: list[Row] = []
        self.commands: list[Row] = []
        self.title = ""
        self._models: list[Row] = []  # as the agent lists them
        self._fallback = fallback_modes
        self._booleans: set[str] = set()

    # ---- what the agent says ----

    def install(self, result: Any, hint: Any = None) -> None:
        """Take the result of `session/new` or `session/load`; `hint` is a model list from
        `initialize`. Raises BadCatalog."""
        modes = read.inner(result, "modes")
        models = read.inner(result, "models") or read.inner(hint)
        told = [
            {"id": mode["id"], "name": read.text(mode, "name") or mode["id"],
             "description": read.text(mode, "description")}
            for mode in read.items(modes, "availableModes") if read.text(mode, "id")
        ]  # fmt: skip
        self.modes = told or self.modes
        self.mode = read.text(modes, "currentModeId") or self.mode
        listed = [
            {"id": model["modelId"], "name": read.text(model, "name") or model["modelId"]}
            for model in read.items(models, "availableModels") if read.text(model, "modelId")
        ]  # fmt: skip
        self._models = listed or self._models
        self.model = read.text(models, "currentModelId") or self.model
        self.take(result)
        if not self.modes and self._fallback:
            self.modes = [dict(mode) for mode in self._fallback]
            self.mode = self.mode or self.modes[0]["id"]

    def take(self, result: Any) -> bool:
        """Take a whole new list of options, if `result` has one; whether it had. The model and the
        mode follow their options. Raises BadCatalog, and then nothing was taken."""
        listed = result.get("configOptions") if isinstance(result, dict) else None
        if listed is None:
            return False
        if not isinstance(listed, list):
            raise BadCatalog
        options, booleans = [], set()
        for raw in listed:
            option = _option(raw)
            if option is not None:
                options.append(option)
                if raw.get("type") == "boolean":
                    booleans.add(option["id"])
        if listed and not options:
            raise BadCatalog
        self.options, self._booleans = options, booleans
        self._follow()
        return True

    def _follow(self) -> None:
        mode, model = self._of("mode"), self._of("model")
        if mode is not None:
            self.mode = mode["current"] or self.mode
            if not self.modes:
                self.modes = [
                    {"id": value["value"], "name": value["name"], "description": ""}
                    for value in mode["selectValues"]
                ]
        if model is not None:
            self.model = model["current"] or self.model
            self._models = [
                {"id": value["value"], "name": value["name"]} for value in model["selectValues"]
            ]

    @property
    def models(self) -> list[Row]:
        """The models to choose from, within a catalog's bounds (tables 1.7); the running one is
        always among them."""
        rows = [
            {**row, "name": head_marked(row["name"], MODEL_NAME)}
            for row in self._models if size(row["id"]) <= MODEL_ID
        ]  # fmt: skip
        beyond = [row for row in rows[MODELS:] if row["id"] == self.model]
        return rows[: MODELS - len(beyond[:1])] + beyond[:1]

    def _of(self, category: str) -> Row | None:
        return next((o for o in self.options if o["category"] == category), None)

    def option(self, number: str) -> Row | None:
        """The option with this id."""
        return next((o for o in self.options if o["id"] == number), None)

    def effort(self) -> Row | None:
        """The option that sets how hard the model thinks."""
        return self._of("thought_level") or next(
            (o for o in self.options if "effort" in o["id"] or "reasoning" in o["id"]), None
        )

    # ---- what a setting takes ----

    def call(self, kind: str, option: str, value: str) -> Call | None:
        """The call that makes a setting; None when the session has no such setting."""
        if kind == "config":
            return self._set_option(option, value) if self.option(option) else None
        held = self._of(kind)
        if held is not None:
            return self._set_option(held["id"], value)
        if kind == "model":
            return Call("session/set_model", {"modelId": value})
        return Call("session/set_mode", {"modeId": value})

    def advertises(self, mode: str) -> bool:
        """Whether the session can be put in this mode."""
        return any(row["id"] == mode for row in self.modes)

    def _set_option(self, number: str, value: str) -> Call:
        params: dict[str, Any] = {"configId": number}
        if number in self._booleans:
            params.update(type="boolean", value=value == "true")
        else:
            params["value"] = value
        return Call("session/set_config_option", params)

    def answered(self, kind: str, option: str, value: str, result: Any) -> None:
        """The agent took a setting and answered `result`. Raises BadCatalog."""
        if not self.take(result) or (kind != "config" and self._of(kind) is None):
            self.apply(kind, option, value)

    def apply(self, kind: str, option: str, value: str) -> None:
        """The agent took the setting and said nothing of what it is now: it is what was asked."""
        held = self.option(option) if kind == "config" else self._of(kind)
        if held is not None:
            self.options = [{**o, "current": value} if o is held else o for o in self.options]
        if kind == "mode":
            self.mode = value
        elif kind == "model":
            self.model = value
        else:
            self._follow()

    def confirmed(self, kind: str, option: str) -> str | None:
        """A setting's value as it is now; None for an option that is listed no more."""
        if kind == "config":
            held = self.option(option)
            return None if held is None else held["current"]
        return self.mode if kind == "mode" else self.model

    # ---- the codec's sections ----

    def config(self) -> Row:
        """The `config` section."""
        return {"options": [_written(option) for option in self.options]} if self.options else {}

    def settings(self) -> Row:
        """The sections that a setting can change, in wire order."""
        return {"mode": self.mode, "model": self.model, "config": self.config()}

    def list_commands(self, update: Any) -> bool:
        """Take an `available_commands_update`; whether it changed anything."""
        commands = []
        for command in read.items(update, "availableCommands"):
            name = read.text(command, "name")
            if name:
                described = read.text(command, "description")
                commands.append({"name": name, **({"description": described} if described else {})})
        changed = commands != self.commands
        self.commands = commands
        return changed

    def command_sections(self) -> Row:
        """The `commands` and `plugins` sections, which change together (codecs 1.5, rule 2)."""
        return {"commands": {"commands": self.commands} if self.commands else {}, "plugins": {}}

    def installed(self) -> Row:
        """Every section, as the delta of an install restates them."""
        titled = {"title": self.title} if self.title else {}
        return {**titled, **self.settings(), **self.command_sections()}


def _option(raw: Any) -> Row | None:
    """An option of ours, or None for one that cannot be read or is of an unknown type."""
    number = read.text(raw, "id")
    kind = read.text(raw, "type") or "select"
    if not number or kind not in ("select", "boolean"):
        return None
    current = raw.get("currentValue")
    if kind == "boolean":
        values = [{"value": "false", "name": "Off"}, {"value": "true", "name": "On"}]
        current = "true" if current is True else "false"
    else:
        values = []
        for entry in read.items(raw, "options"):
            grouped = read.items(entry, "options") if "group" in entry else [entry]
            values += [
                {"value": value["value"], "name": read.text(value, "name") or value["value"]}
                for value in grouped
                if isinstance(value.get("value"), str)
            ]
    return {
        "id": number,
        "name": read.text(raw, "name") or number,
        "category": read.text(raw, "category"),
        "type": "select",
        "current": current if isinstance(current, str) else "",
        "selectValues": values,
    }


def _written(option: Row) -> Row:
    return {name: value for name, value in option.items() if value}
