"""What a session can set, folded from its info document, its snapshot and its deltas.

Each section that is said replaces that section whole; a section of the wrong type is one that was
not said. The model list alone has a revision, and never goes back to an older one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from craze_shed.contract.capabilities import LaneCapabilities
from craze_shed.contract.settings import (
    LaneChoice,
    LaneSetting,
    LaneSettings,
    LaneUsage,
    SetConfig,
    SetModel,
)
from craze_shed.contract.settings import LaneSettingChange as Change
from craze_shed.contract.slash import SlashRow, catalog
from craze_shed.craze.values import count, filled, members, objects, text, whole

KIND = "craze"

# The options of these categories are the model and the mode themselves.
_NOT_OPTIONS = frozenset(("model", "mode"))
_CATEGORIES = ("thought_level", "model_config")  # these first, the rest behind them


class SettingsFold:
    """One session's settings and capabilities. `can` are its capabilities by wire name, `changes`
    counts what was taken up, for whoever tells what it came to."""

    __slots__ = (
        "_config", "_mode", "_model", "_models", "_modes", "_revision", "_slash", "_usage", "can",
        "changes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.can: dict[str, bool] = {}
        self.changes = 0
        self._model = ""
        self._mode = ""
        self._models: list[dict[str, Any]] = []
        self._modes: list[dict[str, Any]] = []
        self._revision = 0
        self._config: list[dict[str, Any]] = []
        self._usage: dict[str, Any] = {}
        self._slash: tuple[SlashRow, ...] | None = None

    def adopt_info(self, info: Mapping[str, Any]) -> None:
        """Take up a session info document: capabilities, models and modes."""
        self.changes += 1
        able = members(info.get("capabilities"))
        self.can = {name: value is True for name, value in able.items()}
        catalogs = members(info.get("catalogs"))
        self._take_models(catalogs)
        if isinstance(catalogs.get("modes"), list):
            self._modes = objects(catalogs["modes"])

    def apply(self, sections: Mapping[str, Any]) -> None:
        """Take up the sections of a snapshot's settings or of a delta."""
        self.changes += 1
        if isinstance(sections.get("model"), str):
            self._model = sections["model"]
        if isinstance(sections.get("mode"), str):
            self._mode = sections["mode"]
        if isinstance(sections.get("config"), dict):
            self._config = objects(sections["config"].get("options"))
        if isinstance(sections.get("usage"), dict):
            self._usage = sections["usage"]
        if isinstance(sections.get("catalog"), dict):
            self._take_models(sections["catalog"])
        if "slash" in sections:
            self._slash = catalog(sections["slash"])

    def confirm(self, change: Change, value: str) -> None:
        """Take up a change that craze made and no event will say."""
        self.changes += 1
        if isinstance(change, SetConfig):
            self._config = [
                {**option, "current": value} if option.get("id") == change.id else option
                for option in self._config
            ]
        elif isinstance(change, SetModel):
            self._model = value
        else:
            self._mode = value

    def _take_models(self, said: Mapping[str, Any]) -> None:
        revision = count(said.get("revision"))
        if isinstance(said.get("models"), list) and revision >= self._revision:
            self._models, self._revision = objects(said["models"]), revision

    # ---- what a client sees ----

    @property
    def model(self) -> str:
        return self._model

    @property
    def slash(self) -> tuple[SlashRow, ...] | None:
        """The session's `/` catalog; None where it says none."""
        return self._slash if self.can.get("slashCatalog") else None

    def settings(self) -> LaneSettings:
        return LaneSettings(
            model=self._model or None,
            models=self._choices(),
            mode=self._mode or None,
            modes=self._shown_modes(),
            options=self._options(),
            usage=_usage(self._usage) if self._usage else None,
        )

    def capabilities(self) -> LaneCapabilities:
        can = self.can.get
        settable = bool(self._models or self._shown_modes() or self._options())
        return LaneCapabilities(
            kind=KIND,
            interject=can("interject", False),
            cancel=can("cancel", False),
            approvals=can("approvals", False),
            history_cursor=True,
            settings=settable,
            stop=can("stop", False),
        )

    def _choices(self) -> tuple[LaneChoice, ...]:
        models = [model for model in self._models if text(model.get("id"))]
        models.sort(key=self._place)
        return tuple(self._choice(model) for model in models)

    def _place(self, model: Mapping[str, Any]) -> tuple[int, int]:
        """The current model, then those used lately, then the rest as the catalog has them."""
        if model["id"] == self._model:
            return 0, 0
        recent = count(model.get("recent"))
        return (1, recent) if recent else (2, 0)

    def _choice(self, model: Mapping[str, Any]) -> LaneChoice:
        choice = LaneChoice(
            model["id"],
            filled(model.get("name")) or model["id"],
            rank=count(model.get("recent")) or None,
        )
        if not self.can.get("effortFacts"):
            return choice
        return replace(
            choice,
            switch_effort=filled(model.get("switchEffort")),
            default_effort=filled(model.get("defaultEffort")),
        )

    def _shown_modes(self) -> tuple[LaneChoice, ...]:
        if not self.can.get("modes"):
            return ()
        return tuple(
            LaneChoice(
                mode["id"],
                filled(mode.get("name")) or mode["id"],
                description=filled(mode.get("description")),
            )
            for mode in self._modes
            if text(mode.get("id"))
        )

    def _options(self) -> tuple[LaneSetting, ...]:
        options = [
            option
            for option in self._config
            if text(option.get("id")) and text(option.get("category")) not in _NOT_OPTIONS
        ]
        options.sort(key=lambda option: _category(text(option.get("category"))))
        return tuple(
            LaneSetting(
                option["id"],
                filled(option.get("name")) or option["id"],
                text(option.get("category")),
                text(option.get("current")),
                tuple(
                    LaneChoice(value["value"], filled(value.get("name")) or value["value"])
                    for value in objects(option.get("selectValues"))
                    if isinstance(value.get("value"), str)
                ),
            )
            for option in options
        )


def _category(category: str) -> int:
    return _CATEGORIES.index(category) if category in _CATEGORIES else len(_CATEGORIES)


def _usage(said: Mapping[str, Any]) -> LaneUsage:
    return LaneUsage(whole(said.get("contextTokens")), whole(said.get("contextWindow")) or None)
