"""The create sheet: the life of a request id, what is preselected, where a refusal is said."""

import itertools

import pytest

from craze_shed import forms
from craze_shed.contract import errors
from craze_shed.contract.creating import (
    LaneCreateOptions,
    LaneCreateRequest,
    LaneProvider,
    LaneSavedSession,
)  # fmt: skip
from craze_shed.contract.errors import ClientError, LaneError
from craze_shed.forms import CreateForm, Placed, ResumeForm

LOST = errors.outcome_unknown("craze did not answer the create, twice")


def provider(id, state="ready"):
    return LaneProvider(id, id.upper(), state)


def options(*providers, default=None):
    return LaneCreateOptions(tuple(providers), default)


READY = options(provider("gx"), provider("pi"))


def form(**fields):
    made = CreateForm()
    made.preselect(READY)
    made.edit(**{"directory": "/w", "prompt": "go", "name": "n", **fields})
    return made


def minting():
    numbers = itertools.count(1)
    return lambda: f"shed-{next(numbers)}"


# ---- what is given ----


@pytest.mark.parametrize("offered,chosen", [
    (options(provider("a"), provider("b"), default="b"), "b"),
    (options(provider("a"), provider("b", "needs_setup"), default="b"), "a"),
    (options(provider("a", "unavailable"), provider("b")), "b"),
    (options(provider("a"), default="elsewhere"), "a"),
    (options(provider("a", "asleep")), None),
    (options(), None),
])  # fmt: skip
def test_which_provider_is_preselected(offered, chosen):
    assert forms.preselected(offered) == chosen


@pytest.mark.parametrize("directory,problem", [
    ("/w", None), ("  /w \n", None),
    ("", "choose a directory: a recent one, or an absolute path"),
    ("   ", "choose a directory: a recent one, or an absolute path"),
    ("w", "an absolute path, starting with /"), ("~/w", "an absolute path, starting with /"),
])  # fmt: skip
def test_a_directory_is_absolute(directory, problem):
    assert forms.directory_problem(directory) == problem
    made = form(directory=directory)
    assert (made.submit(minting(), True) is None) == (problem is not None)
    assert made.problem == (problem and Placed("directory", problem))


def test_with_no_provider_ready_nothing_is_created():
    made = CreateForm()
    made.preselect(options(provider("a", "needs_setup")))
    made.edit(directory="/w")
    assert made.submit(minting(), True) is None
    assert made.problem == Placed("provider", "no provider is ready on this machine")
    assert made.button == "Create"


def test_what_is_sent_is_trimmed_and_what_is_blank_is_left_out():
    request = form(directory=" /w ", prompt=" go\n", name=" n ").submit(minting(), True)
    assert request == LaneCreateRequest("/w", "gx", " go\n", "shed-1", "n")
    request = form(prompt=" \n", name="  ").submit(minting(), True)
    assert request == LaneCreateRequest("/w", "gx", None, "shed-1", None)


def test_a_name_is_sent_only_to_a_hub_that_takes_one():
    assert form().submit(minting(), False).title is None


def test_fresh_options_keep_a_provider_that_can_still_be_picked():
    made = form(provider="pi")
    made.preselect(READY)
    assert made.provider == "pi"
    made.preselect(options(provider("gx"), provider("pi", "needs_setup")))
    assert made.provider == "gx"


# ---- the request's life ----


def test_b10_a_request_whose_outcome_is_unknown_is_sent_again_as_it_was():
    made, mint = form(), minting()
    first = made.submit(mint, True)
    assert made.button == "Creating…"
    assert made.submit(mint, True) is first  # the sheet was opened again meanwhile
    made.settle(first, LOST)
    assert made.button == "Try again"
    assert made.problem == Placed(
        "general",
        "craze did not answer, so the session may have been created: check the session list. "
        "Try again resumes the same request.",
    )
    made.preselect(options(provider("pi")))
    again = made.submit(mint, False)
    assert again is first and again.title == "n" and made.problem is None


@pytest.mark.parametrize("edit", [
    {"provider": "pi"}, {"directory": "/x"}, {"prompt": "stop"}, {"name": "other"},
])  # fmt: skip
def test_any_edit_is_a_new_request(edit):
    made, mint = form(), minting()
    first = made.submit(mint, True)
    made.settle(first, LOST)
    made.edit(**edit)
    assert (made.button, made.problem) == ("Create", None)
    assert made.submit(mint, True).request_id == "shed-2"
    made.settle(first)
    assert made.directory and made.button == "Creating…"  # a late answer changes nothing


def test_setting_a_field_to_what_it_is_is_no_edit():
    made, mint = form(), minting()
    first = made.submit(mint, True)
    made.settle(first, LOST)
    made.edit(provider="gx", directory="/w", prompt="go", name="n")
    assert made.submit(mint, True) is first


@pytest.mark.parametrize("failure", [
    errors.bad_request("no such directory"), errors.failed("no key"), errors.unavailable("busy"),
    LaneError("not_accepting"), ClientError("no_craze", "m has no craze"),
])  # fmt: skip
def test_a_definite_refusal_keeps_the_form_and_ends_the_id(failure):
    made, mint = form(), minting()
    made.settle(made.submit(mint, True), failure)
    assert made.button == "Try again"
    assert (made.provider, made.directory, made.prompt, made.name) == ("gx", "/w", "go", "n")
    assert made.submit(mint, True).request_id == "shed-2"


def test_a_session_that_was_created_clears_the_form():
    made = form()
    made.settle(made.submit(minting(), True))
    assert (made.provider, made.directory, made.prompt, made.name) == (None, "", "", "")
    assert made.button == "Create" and repr(made) == "<CreateForm editing: no request>"


@pytest.mark.parametrize("failure,place,text", [
    (errors.bad_request("no such directory"), "directory", "no such directory"),
    (errors.bad_request("params.title is blank"), "name", "params.title is blank"),
    (
        LaneError("bad_request", "used before", "request_conflict"), "general",
        "internal error (a new request id is used next time): used before",
    ),
    (errors.failed("no key"), "general", "no key"),
    (errors.unavailable("the hub is busy"), "general", "the hub is busy — try again"),
    (LaneError("not_accepting"), "general", "the session is not accepting that right now"),
])  # fmt: skip
def test_where_a_refusal_is_said(failure, place, text):
    assert forms.placed(failure) == Placed(place, text)


def test_options_that_could_not_be_read_say_so():
    assert (
        forms.options_failed(errors.unavailable("gone")) == "craze could not list providers: gone"
    )


# ---- resuming ----


def test_one_reopening_runs_at_a_time():
    made = ResumeForm()
    made.see(1)
    assert made.begin("a") and not made.begin("b")
    assert made.button("a") == "Resuming… (this can take a few minutes)"
    assert made.button("b") == "Resume"
    assert made.settle("a", 1) and made.running is None
    assert made.begin("b")


def test_a_refused_reopening_says_why_and_may_be_tried_again():
    made = ResumeForm()
    made.begin("a")
    assert not made.settle("a", 0, errors.failed("no key"))
    assert made.problem == "no key" and made.begin("a") and made.problem is None


def test_a_newer_incarnation_of_the_source_starts_from_nothing():
    made = ResumeForm()
    made.see(1)
    made.begin("a")
    made.see(1)
    assert made.running == "a"
    made.see(2)
    assert made.running is None and made.begin("b")
    assert not made.settle("a", 1) and made.running == "b"
    made.see(1)
    assert made.running == "b" and repr(made) == "<ResumeForm 2: b>"


NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize("workspace,home,shown", [
    ("/home/shed/x", "/home/shed", "~/x"), ("/home/shed", "/home/shed", "~"),
    ("/home/shedder", "/home/shed", "/home/shedder"), ("/home/shed/x", None, "/home/shed/x"),
])  # fmt: skip
def test_a_saved_sessions_row(workspace, home, shown):
    saved = LaneSavedSession(
        id="i", provider="gx", workspace=workspace, updated_at="2025-12-31T21:00:00Z"
    )
    row = forms.saved_row(saved, home, NOW)
    assert (row.title, row.provider, row.workspace, row.age) == ("Untitled", "gx", shown, "3h ago")


@pytest.mark.parametrize("time,words", [
    ("2026-01-01T00:00:00Z", "just now"), ("2026-01-01T05:00:00Z", "just now"),
    ("2025-12-31T23:59:01Z", "just now"), ("2025-12-31T23:59:00Z", "1m ago"),
    ("2025-12-31T23:00:01Z", "59m ago"), ("2025-12-31T23:00:00.5Z", "59m ago"),
    ("2025-12-31T00:00:01Z", "23h ago"), ("2025-12-31T00:00:00Z", "1d ago"),
    ("2024-12-31T00:00:00Z", "366d ago"), ("", ""), ("yesterday", ""),
    ("2026-13-01T00:00:00Z", ""),
])  # fmt: skip
def test_how_long_ago(time, words):
    assert forms.age(time, NOW) == words
