"""The `/` menu above a composer: which rows it lists, what a key does, what running a row asks for.

It decides and does nothing: an action is a plain value, and whoever holds the lane carries it out.
A builtin of craze's that this client does not run is refused here; text is never mistaken for it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from craze_shed.contract.capabilities import LaneCapabilities
from craze_shed.contract.errors import OUTCOME_UNKNOWN, Failure
from craze_shed.contract.rows import NEEDS_APPROVAL, NEEDS_INPUT, WORKING
from craze_shed.contract.settings import (
    LaneSetting,
    LaneSettingChange,
    LaneSettings,
    SetConfig,
    SetMode,
    effort_option,
)
from craze_shed.contract.slash import SlashRow

AFTER_THIS_TURN: Final = "after this turn"
NO_EFFORT: Final = "the current model has no effort setting"
MAY_HAVE_APPLIED: Final = "may have applied — check the session"

SOURCES: Final = frozenset(("builtin", "agent", "plugin", "skill"))
REQUIREMENTS: Final = frozenset((None, "stop", "aside", "effort"))
ARGUMENTS: Final = frozenset((None, "required", "optional"))


@dataclass(frozen=True, slots=True)
class SlashMenu:
    """A session's catalog as this client offers it: `rows` in the catalog's order, and by name
    why the builtins that are not among them are `refused`. The rest is what `/effort` needs."""

    rows: tuple[SlashRow, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict, hash=False)
    model: str | None = None
    effort: LaneSetting | None = None
    default_effort: str | None = None


# ---- what an action is ----


@dataclass(frozen=True, slots=True)
class Send:
    """Send this text as a prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Give the session this title."""

    title: str


@dataclass(frozen=True, slots=True)
class Change:
    """Change this setting, at once and even to what it is."""

    change: LaneSettingChange


@dataclass(frozen=True, slots=True)
class OpenSheet:
    """Open the settings sheet at its `model` or `effort` row; the draft clears."""

    row: str


@dataclass(frozen=True, slots=True)
class ConfirmStop:
    """Ask whether to stop the session; the draft stays until it is stopped."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nothing is sent and the draft stays; say why."""

    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the draft, the caret before the character of that index."""

    draft: str
    caret: int


@dataclass(frozen=True, slots=True)
class Redraw:
    """The menu itself changed: its highlight moved or it closed."""


Action = Send | Rename | Change | OpenSheet | ConfirmStop | Refuse | Edit | Redraw


def turn_runs(activity: str) -> bool:
    """Whether a session of this activity is in a turn; one that waits for its user is."""
    return activity in (WORKING, NEEDS_APPROVAL, NEEDS_INPUT)


# ---- which rows there are ----


def resolve(
    items: Iterable[SlashRow],
    aside: bool = False,
    capabilities: LaneCapabilities | None = None,
    settings: LaneSettings | None = None,
) -> SlashMenu:
    """The menu of a catalog, for a session that can do this and is set so."""
    effort = effort_option(settings)
    facts = {
        None: True,
        "stop": capabilities is not None and capabilities.stop,
        "aside": aside,
        "effort": effort is not None,
    }
    rows: list[SlashRow] = []
    claimed: set[str] = set()
    builtins: dict[str, SlashRow] = {}
    for row in items:
        name = row.name.casefold()
        builtin = row.source == "builtin"
        if builtin:
            builtins.setdefault(name, row)
        if not _is_known(row) or not facts[row.requires] or name in claimed:
            continue
        if _runs(row):
            rows.append(row)
        elif not builtin:
            continue
        claimed.add(name)
    listed = {row.name.casefold() for row in rows}
    refused = {name: _why_not(row) for name, row in builtins.items() if name not in listed}
    model = settings.model if settings else None
    models = settings.models if settings else ()
    default = next((choice.default_effort for choice in models if choice.id == model), None)
    return SlashMenu(tuple(rows), refused, model, effort, default)


def matches(menu: SlashMenu, token: str) -> tuple[SlashRow, ...]:
    """The rows that a typed token, without its `/`, leaves: by the start of their name, then of
    their plugin spelling, then by what either holds; in the catalog's order each time."""
    wanted = token.casefold()
    groups: tuple[list[SlashRow], ...] = ([], [], [], [])
    for row in menu.rows:
        name, qualified = row.name.casefold(), (_qualified(row) or "").casefold()
        found = (
            name.startswith(wanted),
            bool(qualified) and qualified.startswith(wanted),
            wanted in name,
            bool(qualified) and wanted in qualified,
        )
        if True in found:
            groups[found.index(True)].append(row)
    return tuple(row for group in groups for row in group)


def is_dimmed(row: SlashRow, working: bool) -> bool:
    """Whether the row waits for the running turn's end; a prompt queues instead."""
    return working and not row.whileWorking and row.run.kind != "prompt"


def _is_known(row: SlashRow) -> bool:
    return row.source in SOURCES and row.requires in REQUIREMENTS and row.run.arg in ARGUMENTS


def _qualified(row: SlashRow) -> str | None:
    plugin = row.source == "plugin" and row.qualified != row.name
    return row.qualified if plugin else None


def _spells(token: str, row: SlashRow) -> bool:
    return token.casefold() in (row.name.casefold(), (_qualified(row) or row.name).casefold())


def _why_not(row: SlashRow) -> str:
    if row.requires == "effort":
        return NO_EFFORT
    if row.run.kind == "unavailable" and row.run.reason:
        return row.run.reason
    return f"/{row.name} does not run from here"


# ---- what running one asks for ----


def submit(draft: str, menu: SlashMenu | None, working: bool) -> Action | None:
    """What sending `draft` asks for; None for a blank one. Without a menu everything is text."""
    if not draft.strip():
        return None
    if menu is None or not draft.startswith("/"):
        return Send(draft)
    token = _token(draft)
    for row in menu.rows:
        if _spells(token, row):
            return _run(menu, row, draft[1 + len(token) :].strip(), working)
    why = menu.refused.get(token.casefold())
    return Send(draft) if why is None else Refuse(why)


def _run(menu: SlashMenu, row: SlashRow, argument: str, working: bool) -> Action:
    if argument and row.run.arg is None:
        return Refuse(f"/{row.name} takes no argument")
    if not argument and row.run.arg == "required":
        return Refuse(f"/{row.name} needs {row.run.argHint or 'an argument'}")
    action = _RUNS[_way(row)](menu, row, argument)
    # What was typed is judged first: a turn's end would not mend it.
    if is_dimmed(row, working) and not isinstance(action, Refuse):
        return Refuse(AFTER_THIS_TURN)
    return action


def _prompt(_menu: SlashMenu, row: SlashRow, argument: str) -> Action:
    return Send(f"/{row.name} {argument}".rstrip())


def _rename(_menu: SlashMenu, _row: SlashRow, argument: str) -> Action:
    return Rename(argument)


def _mode(_menu: SlashMenu, row: SlashRow, _argument: str) -> Action:
    assert row.run.setting is not None  # else it does not run here
    return Change(SetMode(row.run.setting.value))


def _stop(_menu: SlashMenu, _row: SlashRow, _argument: str) -> Action:
    return ConfirmStop()


def _model(_menu: SlashMenu, row: SlashRow, argument: str) -> Action:
    if argument:
        return Refuse(f"/{row.name} takes no argument here: choose from its list")
    return OpenSheet("model")


def _effort(menu: SlashMenu, _row: SlashRow, argument: str) -> Action:
    if menu.effort is None:
        return Refuse(NO_EFFORT)
    if not argument:
        return OpenSheet("effort")
    level = _level(menu, menu.effort, argument)
    if level is None:
        levels = ", ".join(value.id for value in menu.effort.values)
        return Refuse(f"no effort {argument}: one of {levels}")
    return Change(SetConfig(menu.effort.id, level, menu.model))


def _level(menu: SlashMenu, effort: LaneSetting, typed: str) -> str | None:
    """The one value that was meant, or None."""
    folded = typed.casefold()
    for meant in (
        [value.id for value in effort.values if value.id == typed],
        [value.id for value in effort.values if value.id.casefold() == folded],
        [value.id for value in effort.values if value.name.strip().casefold() == folded],
        [value.id for value in effort.values if value.id == menu.default_effort]
        if typed == "default"
        else [],
    ):
        if meant:
            return meant[0] if len(meant) == 1 else None
    return None


# How a row runs (its kind, and the method or picker it names) -> what that asks for.
_RUNS: Final[dict[tuple[str, str | None], Callable[[SlashMenu, SlashRow, str], Action]]] = {
    ("prompt", None): _prompt,
    ("method", "session.setTitle"): _rename,
    ("method", "session.set"): _mode,
    ("method", "session.stop"): _stop,
    ("picker", "model"): _model,
    ("picker", "effort"): _effort,
}


def _way(row: SlashRow) -> tuple[str, str | None]:
    run = row.run
    return run.kind, {"method": run.method, "picker": run.picker}.get(run.kind)


def _runs(row: SlashRow) -> bool:
    """Whether this client runs it."""
    setting = row.run.setting
    if row.run.method == "session.set" and (setting is None or setting.kind != "mode"):
        return False
    return _way(row) in _RUNS


# ---- the keys ----


class MenuBox:
    """The menu while a draft is typed: open or not, which rows, which one is highlighted.

    `see` tells it what is on screen whenever any of it changes; `press` what a key then does.
    """

    def __init__(self) -> None:
        self.rows: tuple[SlashRow, ...] = ()
        self.highlight = 0
        self._draft = ""
        self._menu: SlashMenu | None = None
        self._working = False
        self._token: str | None = None
        self._dismissed = False

    def __repr__(self) -> str:
        state = f"{self.highlight} of {len(self.rows)} rows" if self.open else "closed"
        return f"<MenuBox {self._token!r}: {state}>"

    @property
    def open(self) -> bool:
        """Whether the menu shows."""
        return bool(self.rows) and not self._dismissed

    def see(self, draft: str, caret: int, menu: SlashMenu | None, working: bool) -> None:
        """This is on screen now: the draft, the caret (an index into it), the session's menu, and
        whether a turn runs."""
        token = None if menu is None else typed_token(draft, caret)
        other_rows = (menu and menu.rows) != (self._menu and self._menu.rows)
        changed = token != self._token
        self._draft, self._menu, self._working = draft, menu, working
        if changed:
            self._token, self._dismissed = token, False
        if changed or other_rows:
            self.rows = () if menu is None or token is None else matches(menu, token)
            runs_now = (at for at, row in enumerate(self.rows) if not is_dimmed(row, working))
            self.highlight = next(runs_now, 0)

    def press(self, key: str, draft: str, composing: bool = False) -> Action | None:
        """What `Enter`, `Tab`, `Up`, `Down` or `Escape` does; None where the key is the editor's,
        or does nothing.

        `draft` is what is typed now: where it is no longer what was seen, no key acts. Nor does
        one while an input method is composing.
        """
        if composing or draft != self._draft:
            return None
        if not self.open:
            return submit(draft, self._menu, self._working) if key == "Enter" else None
        press = self._KEYS.get(key)
        return press(self) if press else None

    def _enter(self) -> Action:
        row, token = self.rows[self.highlight], self._token or ""
        if not _spells(token, row):
            return self._complete()
        assert self._menu is not None  # an open menu has one
        return _run(self._menu, row, self._draft[1 + len(token) :].strip(), self._working)

    def _complete(self) -> Action:
        row, token = self.rows[self.highlight], self._token or ""
        spelled = (_qualified(row) if ":" in token else None) or row.name
        rest = self._draft[1 + len(token) :].removeprefix(" ")
        return Edit(f"/{spelled} {rest}", len(spelled) + 2)

    def _up(self) -> Action:
        self.highlight = (self.highlight - 1) % len(self.rows)
        return Redraw()

    def _down(self) -> Action:
        self.highlight = (self.highlight + 1) % len(self.rows)
        return Redraw()

    def _escape(self) -> Action:
        self._dismissed = True
        return Redraw()

    _KEYS: Final = {
        "Enter": _enter, "Tab": _complete, "Up": _up, "Down": _down, "Escape": _escape,
    }  # fmt: skip


def typed_token(draft: str, caret: int) -> str | None:
    """What is typed behind the `/` that opens the menu, or None where it does not: the draft is
    one line, begins with `/`, and the caret is in its first word."""
    if not draft.startswith("/") or "\n" in draft:
        return None
    token = _token(draft)
    return token if 1 <= caret <= 1 + len(token) else None


def _token(draft: str) -> str:
    words = draft[1:].split(None, 1)
    return words[0] if words and not draft[1:2].isspace() else ""


# ---- the draft afterwards ----


@dataclass(frozen=True, slots=True)
class DraftAfter:
    """The composer once a command or a send has been answered: its draft, and what to say."""

    draft: str
    note: str | None = None


def after_command(
    sent: str, now: str, failure: Failure | None = None, warning: str | None = None
) -> DraftAfter:
    """The composer after the command in the draft `sent`, where `now` is typed. Done, it clears
    its own draft and no other, with the `warning` it gave; a refusal and a lost answer keep it."""
    if failure is None:
        return DraftAfter("" if now == sent else now, warning)
    lost = failure.code == OUTCOME_UNKNOWN
    return DraftAfter(now, MAY_HAVE_APPLIED if lost else failure.message)


def after_send(sent: str, now: str, failure: Failure | None = None) -> DraftAfter:
    """The composer after the prompt `sent`: kept where it was not taken or may have been, for it
    is never sent again by itself."""
    if failure is None:
        return DraftAfter("" if now == sent else now)
    lost = failure.code == OUTCOME_UNKNOWN
    return DraftAfter(now, failure.message + (" before sending again" if lost else ""))
