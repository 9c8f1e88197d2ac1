"""Settings one at a time, the title, and the lists of models (codecs 5.8, tables 7.5)."""

from typing import Any

import pytest

from craze.engine import port
from craze.engine.port import AgentError, SendSetting, SettingReturned


def setting(session: Any, kind: str, value: str, **more: Any) -> Any:
    return session.command("session.set", setting={"kind": kind, "value": value, **more})


def asked(session: Any) -> list[Any]:
    return [(e.kind, e.option, e.value) for e in session.sent(SendSetting)]


def test_a_change_is_answered_with_what_was_confirmed_and_its_revision(session: Any) -> None:
    token = setting(session, "model", "Fast")
    sent = session.sent(SendSetting)[0]
    assert token.answers == []
    assert session.engine.busy
    session.feed(SettingReturned(sent.token, "fast", {"model": "fast"}))
    assert token.answer == {"value": "fast", "rev": 2}
    assert session.since(1) == ["meta model=fast <c-1/1>"]
    assert session.engine.settings() == {"model": "fast", "mode": "agent", "config": {}}
    assert not session.engine.busy


def test_changes_are_asked_one_at_a_time_in_their_order(session: Any) -> None:
    tokens = [setting(session, "mode", value) for value in ("a", "b", "c")]
    assert asked(session) == [("mode", "", "a")]
    session.feed(SettingReturned(session.sent(SendSetting)[0].token, "a", {"mode": "a"}))
    session.feed(SettingReturned(session.sent(SendSetting)[0].token, "a", {"mode": "a"}))
    assert asked(session) == [("mode", "", "a"), ("mode", "", "b")]
    assert [len(token.answers) for token in tokens] == [1, 0, 0]


def test_changes_in_mid_turn(session: Any) -> None:
    session.prompt()
    token = setting(session, "config", "high", id="effort")
    session.feed(SettingReturned(session.sent(SendSetting)[0].token, "high", {"config": {}}))
    assert token.answer == {"value": "high", "rev": 3}


@pytest.mark.parametrize(
    ("setting_", "detail"),
    [
        ({"kind": "model", "id": "x", "value": "y"}, "a model setting names no option"),
        ({"kind": "mode", "id": "x", "value": "y"}, "a mode setting names no option"),
        ({"kind": "config", "value": "y"}, "a config setting needs an option id"),
        ({"kind": "mode", "value": "y", "forModel": "m"}, "a mode setting is bound to no model"),
    ],
)
def test_what_is_no_setting(session: Any, setting_: Any, detail: str) -> None:
    refused = session.refused("session.set", setting=setting_)
    assert (refused.code, refused.message) == ("bad_request", f"engine: bad request: {detail}")
    assert asked(session) == []


def test_refusals_of_the_agent_publish_nothing(session: Any) -> None:
    tokens = [setting(session, "mode", str(n)) for n in range(5)]
    answers: list[dict[str, Any]] = [
        {"error": AgentError("no such mode", "rpc", -32602)},
        {"refused": "unsupported"},
        {"refused": "bad_catalog", "error": AgentError("not a list of options")},
        {"refused": "option_gone", "state": {"config": {}}},
        {"value": "4"},
    ]
    for answer in answers:
        session.feed(SettingReturned(session.sent(SendSetting)[-1].token, **answer))
    assert [getattr(t.answer, "reason", "") for t in tokens] == [
        "failed", "unsupported", "bad_catalog", "option_gone", "",
    ]  # fmt: skip
    assert tokens[0].answer.message == "no such mode"
    assert tokens[2].answer.message == "not a list of options"
    assert tokens[4].answer == {"value": "4", "rev": 0}
    assert session.since(1) == ["meta config={} <c-1/4>"], "what did change is told all the same"


def test_an_option_for_a_model_that_is_left(session: Any) -> None:
    change = setting(session, "model", "fast")
    bound = setting(session, "config", "high", id="effort", forModel="grok")
    session.feed(SettingReturned(session.sent(SendSetting)[0].token, "fast", {"model": "fast"}))
    assert change.answer["value"] == "fast"
    assert (bound.answer.code, bound.answer.message) == (
        "stale_model",
        "agent: the model that option was chosen for is no longer the session's",
    )
    assert len(asked(session)) == 1
    # Not stored: the same id is judged afresh.
    setting(session, "model", "grok")
    session.feed(SettingReturned(session.sent(SendSetting)[-1].token, "grok", {"model": "grok"}))
    again = session.command(
        "session.set",
        id="2",
        setting={"kind": "config", "value": "high", "id": "effort", "forModel": "grok"},
    )
    assert again.answers == []
    assert asked(session)[-1] == ("config", "effort", "high")


def test_bounds_that_pass(session: Any) -> None:
    claimed, waiting = (setting(session, "mode", value) for value in "ab")
    session.feed(port.CommandExpired(waiting))
    session.feed(port.CommandExpired(claimed))
    assert (waiting.answer.code, waiting.answer.reason) == ("unavailable", "not_run")
    assert (claimed.answer.code, claimed.answer.reason) == ("aborted", "set_outcome_unknown")
    later = setting(session, "mode", "c")
    assert len(asked(session)) == 1, "the agent still has the first"
    session.feed(SettingReturned(session.sent(SendSetting)[0].token, "a", {"mode": "a"}))
    assert session.since(1) == ["meta mode=a <c-1/1>"], "what lands late is told"
    assert asked(session)[-1] == ("mode", "", "c")
    session.feed(port.CommandExpired(object()))
    assert later.answers == []


# ---- title ----


def test_a_title_is_published_pinned_and_recorded(session: Any) -> None:
    token = session.command("session.setTitle", title=" Fix\tthe  flake ")
    written = session.sent(port.WriteTitle)[0]
    assert (written.title, written.pinned) == ("Fix the flake", True)
    assert session.since(1) == ["meta title=Fix the flake <c-1/1>"]
    assert "text" not in session.events[-1]
    assert token.answers == []
    session.feed(port.TitleWritten(written.token))
    assert token.answer == {}
    assert session.engine.title == "Fix the flake"


def test_a_title_that_cannot_be_recorded(session: Any) -> None:
    token = session.command("session.setTitle", title="t")
    written = session.sent(port.WriteTitle)[0]
    session.feed(port.TitleWritten(written.token, "disk full"))
    refused = token.answer
    assert (refused.code, refused.reason, refused.cause) == (
        "index_write", "index_write", "disk full",
    )  # fmt: skip
    assert refused.message == "engine: the session index could not be written: disk full"
    assert session.engine.title == "t"
    again = session.command("session.setTitle", id="1", title="t")
    assert again.answer is refused, "stored"


def test_a_blank_title(session: Any) -> None:
    assert session.refused("session.setTitle", title=" \u200b ").code == "bad_request"
    assert session.engine.title == ""


def test_the_agents_title_until_one_is_pinned(session: Any) -> None:
    session.say({"type": "meta", "text": "Its own", "state": {"title": "Its own"}})
    assert session.engine.title == "Its own"
    written = session.sent(port.WriteTitle)[0]
    assert (written.title, written.pinned) == ("Its own", False)
    session.feed(port.TitleWritten(written.token, "disk full"))
    assert session.since(2) == ["meta indexErr=disk full"]
    session.command("session.setTitle", title="Mine")
    mark = len(session.events)
    session.say({"type": "meta", "text": "Other", "state": {"title": "Other"}})
    session.say({"type": "meta", "text": "Other", "state": {"title": "Other", "mode": "plan"}})
    assert session.since(mark) == ["meta mode=plan"]
    assert "text" not in session.events[-1]
    assert session.engine.title == "Mine"
    assert len(session.sent(port.WriteTitle)) == 2


def test_a_title_from_the_start_comes_first(fresh: Any) -> None:
    driver = fresh(title="Named")
    assert driver.since(0) == ["meta title=Named"]
    driver.ready(title="From the load")
    assert driver.since(1) == ["meta mode=agent model=grok"]
    assert [(e.title, e.pinned) for e in driver.sent(port.WriteTitle)] == [("Named", True)]


def test_a_title_that_no_user_gave_is_the_agents_to_replace(fresh: Any) -> None:
    driver = fresh(title="Saved", pinned=False)
    assert driver.since(0) == ["meta title=Saved"]
    driver.ready()
    assert (driver.engine.title, driver.sent(port.WriteTitle)) == ("Saved", [])
    driver.say({"type": "meta", "state": {"title": "Renamed"}})
    assert driver.engine.title == "Renamed"
    assert [(e.title, e.pinned) for e in driver.sent(port.WriteTitle)] == [("Renamed", False)]


def test_a_loads_title_is_taken_up(fresh: Any) -> None:
    driver = fresh().ready(title="Loaded")
    assert driver.engine.title == "Loaded"
    assert [(e.title, e.pinned) for e in driver.sent(port.WriteTitle)] == [("Loaded", False)]


def test_an_index_failure_of_the_runners_own_is_told(session: Any) -> None:
    session.feed(port.TitleWritten(None, "disk full"))
    session.feed(port.TitleWritten(None))
    assert session.since(1) == ["meta indexErr=disk full"]


# ---- models ----

NEW = [{"id": "grok", "name": "Grok"}, {"id": "new", "name": "New"}]


def test_refreshed_models_are_published_without_a_cause(session: Any) -> None:
    assert (session.engine.models, session.engine.revision) == ([{"id": "grok", "name": "Grok"}], 0)
    session.feed(port.ModelsRefreshed(NEW, 2))
    assert session.events[-1]["state"] == {"catalog": {"models": NEW, "revision": 2}}
    assert "cause" not in session.events[-1]
    assert (session.engine.models, session.engine.revision) == (NEW, 2)
    assert session.engine.settings()["catalog"]["revision"] == 2
    mark = len(session.events)
    session.feed(port.ModelsRefreshed(None, 2))
    session.feed(port.ModelsRefreshed([], 1))
    assert session.since(mark) == []
    assert session.engine.models == NEW


def test_models_refreshed_in_a_turn_are_published_as_it_ends(session: Any) -> None:
    session.prompt("one")
    session.prompt("two")
    session.feed(port.ModelsRefreshed(NEW, 1))
    assert (session.engine.revision, session.engine.models_pending) == (0, True)
    mark = len(session.events)
    session.end()
    assert [event["type"] for event in session.events[mark:]] == [
        "done", "queue", "turn", "turn", "meta",
    ]  # fmt: skip
    assert (session.engine.revision, session.engine.models_pending) == (1, False)


def test_models_refreshed_in_a_replay_are_published_after_it(fresh: Any) -> None:
    driver = fresh()
    driver.say({"type": "replay", "replay": {"phase": "start"}})
    driver.ready()
    driver.feed(port.ModelsRefreshed(NEW, 1))
    assert driver.engine.revision == 0
    driver.say({"type": "replay", "replay": {"phase": "end"}})
    assert driver.events[-1]["state"]["catalog"]["revision"] == 1
    driver.feed(port.Close())
    driver.feed(port.ModelsRefreshed(NEW, 2))
    assert driver.engine.revision == 1


def test_a_delta_that_restates_the_catalog_is_the_list_offered(session: Any) -> None:
    catalog = {"models": NEW, "revision": 3}
    setting(session, "model", "new")
    session.feed(SettingReturned(
        session.sent(SendSetting)[0].token, "new", {"model": "new", "catalog": catalog}
    ))  # fmt: skip
    assert (session.engine.models, session.engine.revision) == (NEW, 3)
    session.say({"type": "meta", "state": {"catalog": {"models": [], "revision": 4}}})
    assert (session.engine.models, session.engine.revision) == ([], 4)
