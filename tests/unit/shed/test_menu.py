"""The slash menu: what it lists, what a key does, what a row asks for."""

import dataclasses

import pytest

from craze.agents import slash as crazes
from craze_shed import menu
from craze_shed.contract import errors, slash
from craze_shed.contract.capabilities import LaneCapabilities
from craze_shed.contract.settings import (
    LaneChoice,
    LaneSetting,
    LaneSettings,
    SetConfig,
    SetMode,
)  # fmt: skip
from craze_shed.menu import Change, ConfirmStop, Edit, OpenSheet, Redraw, Refuse, Rename, Send

ABLE = LaneCapabilities("craze", True, True, True, True, settings=True, stop=True)
EFFORT = LaneSetting(
    "effort", "Effort", "thought_level", "low",
    (LaneChoice("low", "Low"), LaneChoice("high", "High"), LaneChoice("xhigh", "Extra High")),
)  # fmt: skip
SET = LaneSettings(model="m", models=(LaneChoice("m", "M"),), options=(EFFORT,))
CATALOG = slash.catalog({
    "items": crazes.catalog(
        modes=["plan", "agent"],
        commands=[{"name": "research", "description": "Look it up"}],
        plugins=[{"description": "", "plugin": "pr-tools",
                  "bare": "review", "qualified": "pr-tools:review"}],
    )
})  # fmt: skip


def row(name, source="agent", kind="prompt", requires=None, **members):
    run = {"arg": "optional"} if kind == "prompt" else {}
    names = {field.name for field in dataclasses.fields(slash.SlashRun)}
    run |= {name: members.pop(name) for name in list(members) if name in names}
    return slash.SlashRow(
        name, "", source, requires=requires, run=slash.SlashRun(kind=kind, **run), **members
    )


def resolved(items=CATALOG, aside=False, capabilities=ABLE, settings=SET):
    return menu.resolve(items, aside, capabilities, settings)


def names(rows):
    return [one.name for one in getattr(rows, "rows", rows)]


# ---- which rows there are ----


def test_crazes_own_catalog_lists_what_this_client_runs():
    assert names(resolved()) == [
        "model", "rename", "plan", "agent", "exit", "effort", "research", "review",
    ]  # fmt: skip


@pytest.mark.parametrize("aside,listed", [(True, []), (False, ["btw"])])
def test_an_agents_btw_shows_only_where_crazes_does_not(aside, listed):
    items = [row("btw", "builtin", "aside", "aside"), row("BTW" if aside else "btw")]
    made = resolved(items, aside)
    assert names(made) == listed
    expected = Send("/btw why") if listed else Refuse("/btw does not run from here")
    assert menu.submit("/btw why", made, False) == expected


@pytest.mark.parametrize("unknown", [
    row("x", "galaxy"), row("x", requires="moon"), row("x", kind="dance"), row("x", kind=""),
    row("x", kind="method", method="session.jump"), row("x", kind="method"),
    row("x", kind="picker", picker="colour"), row("x", kind="local", local="help"),
    row("x", arg="twice"), row("x", kind="method", method="session.set"),
    row("x", kind="method", method="session.set", setting=slash.SlashSetting("config", "v")),
    row("x", kind="unavailable", reason="no"),
])  # fmt: skip
def test_a_row_that_is_not_understood_is_dropped_and_claims_no_name(unknown):
    made = resolved([unknown, row("x")])
    assert made.rows == (row("x"),) and made.refused == {}


def test_the_first_row_of_a_name_keeps_it_whatever_its_case():
    first, second = row("Go"), row("gO", "skill")
    assert resolved([first, second]).rows == (first,)


@pytest.mark.parametrize("requires,facts", [
    ("stop", {"capabilities": dataclasses.replace(ABLE, stop=False)}),
    ("stop", {"capabilities": None}),
    ("effort", {"settings": LaneSettings(model="m")}), ("effort", {"settings": None}),
    ("aside", {"aside": False}),
])  # fmt: skip
def test_a_row_whose_requirement_is_false_is_dropped_and_claims_no_name(requires, facts):
    first = row("go", requires=requires)
    assert resolved([first, row("go")], **facts).rows == (row("go"),)
    assert resolved([first, row("go")], aside=True).rows == (first,)


# ---- which of them match ----

MATCHED = resolved([
    row("review"), row("preview"), row("pr", "plugin", plugin="tools", qualified="re-tools:pr"),
    row("rest", "plugin", plugin="x", qualified="x:rest"),
    row("zap", "plugin", plugin="y", qualified="a-re:zap"), row("same", qualified="re:same"),
    row("resume", "plugin", plugin="x", qualified="resume"),
])  # fmt: skip


@pytest.mark.parametrize("token,found", [
    ("", ["review", "preview", "pr", "rest", "zap", "same", "resume"]),
    ("re", ["review", "rest", "resume", "pr", "preview", "zap"]),
    ("RE", ["review", "rest", "resume", "pr", "preview", "zap"]),
    ("x:", ["rest"]), (":", ["pr", "rest", "zap"]), ("view", ["review", "preview"]),
    ("nothing", []),
])  # fmt: skip
def test_rows_match_in_four_groups_each_in_its_first(token, found):
    assert names(menu.matches(MATCHED, token)) == found


@pytest.mark.parametrize("draft,caret,token", [
    ("/", 1, ""), ("/re", 1, "re"), ("/re", 3, "re"), ("/re now", 3, "re"), ("/re now", 4, None),
    ("/re", 0, None), ("re", 1, None), ("", 0, None), (" /re", 2, None), ("/re\nx", 2, None),
    ("/ re", 1, ""), ("/ re", 3, None), ("/日本", 3, "日本"),
])  # fmt: skip
def test_when_the_menu_opens(draft, caret, token):
    assert menu.typed_token(draft, caret) == token


# ---- what running one asks for ----


@pytest.mark.parametrize("draft,action", [
    ("hello", Send("hello")), (" /exit", Send(" /exit")), ("/unheard of", Send("/unheard of")),
    ("/", Send("/")), ("", None), (" \n", None),
    ("/research", Send("/research")), ("/research  a  b ", Send("/research a  b")),
    ("/ReSearch x", Send("/research x")), ("/pr-tools:review 7", Send("/review 7")),
    ("/research a\nb", Send("/research a\nb")),
    ("/rename New name", Rename("New name")), ("/rename", Refuse("/rename needs <title>")),
    ("/rename   ", Refuse("/rename needs <title>")),
    ("/plan", Change(SetMode("plan"))), ("/plan it", Refuse("/plan takes no argument")),
    ("/exit", ConfirmStop()), ("/exit now", Refuse("/exit takes no argument")),
    ("/model", OpenSheet("model")),
    ("/model glm", Refuse("/model takes no argument here: choose from its list")),
    ("/effort", OpenSheet("effort")), ("/effort high", Change(SetConfig("effort", "high", "m"))),
    ("/effort low", Change(SetConfig("effort", "low", "m"))),
    ("/help", Refuse("/help does not run from here")),
    ("/CLEAR now", Refuse("/clear does not run from here")),
    ("/tasks", Refuse("/tasks does not run from here")),
    ("/theme", Refuse("/theme does not run from here")),
    ("/btw why", Refuse("/btw does not run from here")),
    ("/ask", Refuse("mode ask is not advertised")),
])  # fmt: skip
def test_what_is_typed_and_sent(draft, action):
    assert menu.submit(draft, resolved(), False) == action


def test_a_session_without_a_catalog_takes_everything_as_text():
    assert menu.submit("/help", None, True) == Send("/help")


@pytest.mark.parametrize("draft,during", [
    ("/research x", Send("/research x")), ("/rename x", Rename("x")), ("/exit", ConfirmStop()),
    ("/plan", Refuse("after this turn")), ("/model", Refuse("after this turn")),
    ("/effort", Refuse("after this turn")), ("/effort high", Refuse("after this turn")),
    ("/effort no", Refuse("no effort no: one of low, high, xhigh")),
    ("/plan x", Refuse("/plan takes no argument")), ("hello", Send("hello")),
])  # fmt: skip
def test_what_is_sent_while_a_turn_runs(draft, during):
    assert menu.submit(draft, resolved(), True) == during


@pytest.mark.parametrize("activity,runs", [
    ("working", True), ("needs_approval", True), ("needs_input", True), ("idle", False),
    ("unknown", False),
])  # fmt: skip
def test_when_a_turn_runs(activity, runs):
    assert menu.turn_runs(activity) is runs


def test_a_model_without_an_effort_has_no_such_row():
    made = resolved(settings=LaneSettings(model="m"))
    assert "effort" not in names(made)
    for draft in ("/effort", "/effort high"):
        assert menu.submit(draft, made, False) == Refuse("the current model has no effort setting")


LEVELS = (
    LaneChoice("high", "low"), LaneChoice("High", "Highest"), LaneChoice("LOW", "x"),
    LaneChoice("a", "Twin"), LaneChoice("b", "twin"), LaneChoice("c", " Extra High "),
)  # fmt: skip


@pytest.mark.parametrize("typed,level", [
    ("high", "high"), ("High", "High"), ("HIGH", None), ("low", "LOW"), ("x", "LOW"),
    ("twin", None), ("extra high", "c"), ("nope", None), ("default", None),
])  # fmt: skip
def test_a_level_is_meant_by_its_id_then_in_any_case_then_by_name(typed, level):
    made = resolved(
        settings=LaneSettings(model="m", options=(dataclasses.replace(EFFORT, values=LEVELS),))
    )
    expected = Refuse(f"no effort {typed}: one of high, High, LOW, a, b, c")
    if level is not None:
        expected = Change(SetConfig("effort", level, "m"))
    assert menu.submit(f"/effort {typed}", made, False) == expected


@pytest.mark.parametrize("default,action", [
    ("high", Change(SetConfig("effort", "high", "m"))),
    (None, Refuse("no effort default: one of low, high, xhigh")),
    ("gone", Refuse("no effort default: one of low, high, xhigh")),
])  # fmt: skip
def test_the_default_level_is_known_only_from_the_models_facts(default, action):
    models = (LaneChoice("m", "M", default_effort=default), LaneChoice("n", "N"))
    made = resolved(settings=dataclasses.replace(SET, models=models))
    assert menu.submit("/effort default", made, False) == action


# ---- the keys ----


def box(draft="/", made=None, caret=None, working=False):
    made = made or resolved()
    it = menu.MenuBox()
    it.see(draft, len(draft) if caret is None else caret, made, working)
    return it


def highlighted(it):
    return it.rows[it.highlight].name


def test_enter_runs_a_row_that_is_spelled_and_accepts_one_that_is_not():
    assert box("/exit").press("Enter", "/exit") == ConfirmStop()
    assert box("/EXIT").press("Enter", "/EXIT") == ConfirmStop()
    assert box("/ex").press("Enter", "/ex") == Edit("/exit ", 6)
    assert box("/").press("Enter", "/") == Edit("/model ", 7)
    assert box("/pr-tools:review").press("Enter", "/pr-tools:review") == Send("/review")


def test_enter_on_another_row_than_the_one_spelled_accepts_that():
    it = box("/re", resolved([row("re"), row("rest")]))
    it.press("Down", "/re")
    assert it.press("Enter", "/re") == Edit("/rest ", 6)


@pytest.mark.parametrize("draft,caret,edit", [
    ("/ren", None, Edit("/rename ", 8)), ("/ren x", 4, Edit("/rename x", 8)),
    ("/ren  x", 2, Edit("/rename  x", 8)), ("/pr-tools:", None, Edit("/pr-tools:review ", 17)),
    ("/revi", None, Edit("/review ", 8)),
])  # fmt: skip
def test_tab_completes_and_takes_in_one_space(draft, caret, edit):
    assert box(draft, caret=caret).press("Tab", draft) == edit


def test_the_arrows_move_the_highlight_round():
    it = box()
    assert it.press("Up", "/") == Redraw() and highlighted(it) == "review"
    it.press("Down", "/")
    it.press("Down", "/")
    assert highlighted(it) == "rename"


def test_the_highlight_starts_over_with_the_filter_and_the_catalog_and_not_with_a_turn():
    it = box()
    it.press("Down", "/")
    it.see("/", 1, resolved(), True)
    assert highlighted(it) == "rename" and it.highlight == 1
    it.see("/e", 2, resolved(), True)
    assert names(it.rows)[0] == "exit" and highlighted(it) == "exit"
    it.see("/", 1, resolved(), True)
    assert highlighted(it) == "rename"  # model is dimmed
    it.press("Down", "/")
    it.see("/", 1, resolved(CATALOG[2:]), False)
    assert highlighted(it) == "rename" and it.highlight == 0


def test_where_every_row_is_dimmed_the_first_is_highlighted():
    it = box("/effort", working=True)
    assert highlighted(it) == "effort" and menu.is_dimmed(it.rows[0], True)
    assert it.press("Enter", "/effort") == Refuse("after this turn")


def test_escape_closes_until_the_token_changes():
    it = box("/ex")
    assert it.press("Escape", "/ex") == Redraw() and not it.open
    it.see("/ex", 3, resolved(CATALOG[2:]), False)
    assert not it.open
    assert it.press("Tab", "/ex") is None
    it.see("/exi", 4, resolved(), False)
    assert it.open


def test_with_no_menu_up_enter_sends_and_other_keys_are_the_editors():
    it = box("hello")
    assert not it.open
    assert it.press("Enter", "hello") == Send("hello")
    assert [it.press(key, "hello") for key in ("Tab", "Up", "Down", "Escape")] == [None] * 4
    it = box("/rename New", caret=11)
    assert it.press("Enter", "/rename New") == Rename("New")


def test_a_key_the_menu_does_not_know_is_the_editors():
    assert box().press("Shift+Enter", "/") is None


def test_no_key_acts_while_composing_or_on_a_draft_that_was_not_seen():
    it = box("/exit")
    assert it.press("Enter", "/exit", composing=True) is None
    assert it.press("Enter", "/exits") is None
    assert repr(it) == "<MenuBox 'exit': 0 of 1 rows>"


def test_without_a_catalog_there_is_no_menu():
    it = menu.MenuBox()
    it.see("/", 1, None, False)
    assert not it.open and it.press("Enter", "/") == Send("/")


# ---- the draft afterwards ----

LOST = errors.outcome_unknown("the connection to craze dropped; check the transcript")


@pytest.mark.parametrize("failure,warning,draft,note", [
    (None, None, "", None),
    (None, "renamed, but not recorded", "", "renamed, but not recorded"),
    (errors.bad_request("craze's words"), None, "/x", "craze's words"),
    (LOST, None, "/x", "may have applied — check the session"),
])  # fmt: skip
def test_a_command_clears_its_draft_once_it_is_done(failure, warning, draft, note):
    assert menu.after_command("/x", "/x", failure, warning) == menu.DraftAfter(draft, note)
    other = menu.after_command("/x", "typed since", failure, warning)
    assert other == menu.DraftAfter("typed since", note)


def test_b10_a_prompt_whose_answer_was_lost_is_kept_and_not_sent_again():
    after = menu.after_send("do it", "do it", LOST)
    assert after == menu.DraftAfter(
        "do it",
        "outcome unknown: the connection to craze dropped; check the transcript before sending "
        "again",
    )
    assert menu.after_send("do it", "do it") == menu.DraftAfter("")
    assert menu.after_send("a", "b", errors.unavailable("no")) == menu.DraftAfter("b", "no")
