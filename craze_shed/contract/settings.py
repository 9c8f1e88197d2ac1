"""A session's settings, the change of one, and which of its options is the effort or the fast
switch."""

from dataclasses import dataclass
from typing import ClassVar, Final

from craze_shed.contract import codec


@dataclass(frozen=True, slots=True)
class LaneChoice(codec.Document):
    """One value of a setting. `id` is opaque; a lower `rank` comes first. Of a model that states
    its effort facts, `switch_effort` is the level a switch to it lands on and `default_effort` its
    own."""

    id: str
    name: str
    rank: codec.U32 | None = None
    description: str | None = None
    switch_effort: str | None = None
    default_effort: str | None = None


@dataclass(frozen=True, slots=True)
class LaneSetting(codec.Document):
    """One option of the current model; `current` is the id of a value."""

    id: str
    name: str
    category: str
    current: str
    values: tuple[LaneChoice, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneUsage(codec.Document):
    """How full the model's context is, in tokens."""

    context_tokens: codec.U64 | None = None
    context_window: codec.U64 | None = None


@dataclass(frozen=True, slots=True)
class LaneSettings(codec.Document):
    """Everything that can be set, as it stands."""

    model: str | None = None
    models: tuple[LaneChoice, ...] = ()
    mode: str | None = None
    modes: tuple[LaneChoice, ...] = ()
    options: tuple[LaneSetting, ...] = ()
    usage: LaneUsage | None = None


@dataclass(frozen=True, slots=True)
class SetModel(codec.Variant):
    """Switch to the model `id`."""

    kind: ClassVar[str] = "model"
    reading: ClassVar[str] = codec.STRICT
    id: str


@dataclass(frozen=True, slots=True)
class SetMode(codec.Variant):
    """Switch to the mode `id`."""

    kind: ClassVar[str] = "mode"
    reading: ClassVar[str] = codec.STRICT
    id: str


@dataclass(frozen=True, slots=True)
class SetConfig(codec.Variant):
    """Give the option `id` a value. `for_model` is the model that the user saw it under."""

    kind: ClassVar[str] = "config"
    reading: ClassVar[str] = codec.STRICT
    id: str
    value: str
    for_model: str | None = None


LaneSettingChange = SetModel | SetMode | SetConfig
CHANGES: Final = codec.variants(SetModel, SetMode, SetConfig)


def decode_change(value: object) -> LaneSettingChange:
    """The change in `value`, parsed JSON. Raises ContractError."""
    return codec.read_variant("LaneSettingChange", CHANGES, value)  # type: ignore[return-value]


# ---- which option is which ----

_EFFORT_WORDS: Final = ("effort", "reasoning")
_EFFORT_RANKS: Final = {"model_option": 1, "thought_level": 2}


def effort_option(settings: LaneSettings | None) -> LaneSetting | None:
    """The option that is the current model's effort: what the chip shows and `/effort` sets."""
    if settings is None:
        return None
    candidates = [
        option
        for option in settings.options
        if option.values
        and any(word in text.lower() for word in _EFFORT_WORDS for text in (option.id, option.name))
    ]
    return min(candidates, key=_effort_rank, default=None)


def _effort_rank(option: LaneSetting) -> int:
    return 0 if option.id.lower() == "effort" else _EFFORT_RANKS.get(option.category, 3)


def is_fast(settings: LaneSettings) -> bool:
    """Whether the current model's fast switch is on."""
    for option in settings.options:
        if option.category == "model_config" and (
            option.id == "fast" or "fast" in option.name.lower()
        ):
            off = next((value.id for value in option.values if _is_off(value)), None)
            if off is None:
                return False
            on = next((value.id for value in option.values if value.id != off), None)
            return on is not None and option.current == on
    return False


def _is_off(value: LaneChoice) -> bool:
    return value.name.strip().lower() == "off" or value.id == "false"
