"""The settings sheet and the chip that opens it: which rows, what a press sends, what a row says.

A row shows what the session states, never what was asked for. A lost answer is said to be
unconfirmed until the session states its settings again.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from craze_shed.contract.errors import NOT_ACCEPTING, OUTCOME_UNKNOWN, Failure
from craze_shed.contract.settings import (
    LaneChoice,
    LaneSettingChange,
    LaneSettings,
    LaneUsage,
    SetConfig,
    SetMode,
    SetModel,
    effort_option,
    is_fast,
)
from craze_shed.contract.text import token_count

APPLYING: Final = "applying…"
MODEL_CHANGED: Final = "the model changed; try again"
NOT_CONFIRMED: Final = "not confirmed — the connection dropped before craze answered"
SEGMENTS: Final = 4  # values that a segmented control still shows
NOTHING_CURRENT: Final = "Settings"


def chip(settings: LaneSettings) -> str:
    """The chip's text: the model, its effort, and whether it is fast."""
    parts = [_name(settings.models, settings.model)]
    effort = effort_option(settings)
    if effort is not None:
        parts.append(_name(effort.values, effort.current))
    if is_fast(settings):
        parts.append("fast")
    return " · ".join(part for part in parts if part) or NOTHING_CURRENT


class Meter(NamedTuple):
    """How full the context is."""

    percent: int
    text: str


def meter(usage: LaneUsage | None) -> Meter | None:
    """The context meter, where both of its numbers are known."""
    if usage is None or usage.context_tokens is None or not usage.context_window:
        return None
    tokens, window = usage.context_tokens, usage.context_window
    percent = min(100, (200 * tokens + window) // (2 * window))  # halves round up
    return Meter(percent, f"{token_count(tokens)} / {token_count(window)} tokens · {percent}%")


class Key(NamedTuple):
    """Which row: `model`, `mode`, or `config` and the option's id."""

    kind: str
    id: str = ""


MODEL: Final = Key("model")
MODE: Final = Key("mode")


@dataclass(frozen=True, slots=True)
class SheetChoice:
    """One value of a row; `note` is its dim second line."""

    id: str
    name: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One row: `control` is `list` or `segmented`, `mark` what it says about the last press."""

    key: Key
    name: str
    control: str
    current: str | None
    choices: tuple[SheetChoice, ...]
    mark: str | None = None


class SettingsSheet:
    """What the presses on one session's sheet have come to."""

    def __init__(self) -> None:
        self._pending: dict[Key, str] = {}
        self._marks: dict[Key, str] = {}
        self._unconfirmed: set[Key] = set()

    def rows(self, settings: LaneSettings) -> tuple[SheetRow, ...]:
        """The sheet's rows: the model, its options that have values, the mode."""
        shown = []
        if settings.models:
            models = tuple(_model_choice(settings, model) for model in settings.models)
            shown.append(SheetRow(MODEL, "Model", "list", settings.model, models))
        shown += [
            _row(Key("config", option.id), option.name, option.current, option.values)
            for option in settings.options
            if option.values
        ]
        if settings.modes:
            shown.append(_row(MODE, "Mode", settings.mode, settings.modes))
        return tuple(self._marked(row) for row in shown)

    def press(self, settings: LaneSettings, key: Key, value: str) -> LaneSettingChange | None:
        """The change to send for a press on `value`, as `settings` are displayed; None where it
        sends nothing: the row waits for an answer, or the value is not offered or is current."""
        row = next((row for row in self.rows(settings) if row.key == key), None)
        if row is None or key in self._pending or value == row.current:
            return None
        if all(choice.id != value for choice in row.choices):
            return None
        self._pending[key] = value
        self._marks.pop(key, None)
        self._unconfirmed.discard(key)
        if key == MODEL:
            return SetModel(value)
        return SetMode(value) if key == MODE else SetConfig(key.id, value, settings.model)

    def settle(self, settings: LaneSettings, key: Key, failure: Failure | None = None) -> None:
        """The press on that row was answered, with `settings` displayed."""
        value = self._pending.pop(key, None)
        if failure is None:
            return
        if failure.code == OUTCOME_UNKNOWN:
            if value != _current(settings, key):
                self._unconfirmed.add(key)
        elif failure.code == NOT_ACCEPTING and key.kind == "config":
            self._marks[key] = MODEL_CHANGED
        else:
            self._marks[key] = failure.message

    def restated(self) -> None:
        """The session stated its settings: what was not confirmed is known now."""
        self._unconfirmed.clear()

    def _marked(self, row: SheetRow) -> SheetRow:
        mark = self._marks.get(row.key)
        if row.key in self._pending:
            mark = APPLYING
        elif row.key in self._unconfirmed:
            mark = NOT_CONFIRMED
        return SheetRow(row.key, row.name, row.control, row.current, row.choices, mark)


def _row(key: Key, name: str, current: str | None, values: tuple[LaneChoice, ...]) -> SheetRow:
    control = "segmented" if len(values) <= SEGMENTS else "list"
    choices = tuple(SheetChoice(value.id, value.name, value.description) for value in values)
    return SheetRow(key, name, control, current, choices)


def _model_choice(settings: LaneSettings, model: LaneChoice) -> SheetChoice:
    lands = model.switch_effort if model.id != settings.model else None
    return SheetChoice(model.id, model.name, f"effort → {lands}" if lands else None)


def _current(settings: LaneSettings, key: Key) -> str | None:
    if key == MODEL:
        return settings.model
    if key == MODE:
        return settings.mode
    return next((option.current for option in settings.options if option.id == key.id), None)


def _name(choices: tuple[LaneChoice, ...], wanted: str | None) -> str:
    return next((choice.name for choice in choices if choice.id == wanted), wanted or "")
