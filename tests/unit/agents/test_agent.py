"""AcpAgent against the fake agent in a process of its own, one script at a time."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.agents import limits
from craze.engine import port
from craze.engine.port import AgentError

AT = "2026-01-01T00:00:00Z"


def test_start_installs_the_session(drive: Any) -> None:
    driven = drive("echo").start()
    ready = driven.wait(port.AgentReady)
    assert ready.provider_session == "fake-session-1"
    assert ready.models == [
        {"id": "default", "name": "Default"},
        {"id": "composer", "name": "Composer"},
    ]
    assert [mode["id"] for mode in ready.modes] == ["agent", "plan", "ask"]
    assert list(ready.state) == ["mode", "model", "config", "commands", "plugins"]
    assert ready.state["mode"] == "agent"
    assert ready.state["model"] == "default"
    assert ready.state["config"]["options"][1] == {
        "id": "fast",
        "name": "Fast",
        "category": "model_config",
        "type": "select",
        "current": "false",
        "selectValues": [
            {"value": "false", "name": "Off"},
            {"value": "true", "name": "Fast\u200b\u200b"},
        ],
    }


def test_a_prompt_streams_and_ends(drive: Any) -> None:
    driven = drive("echo").start()
    ended = driven.turn("hello there")
    assert ended == port.PromptEnded("turn-1", "end_turn")
    told = {
        "commands": {"commands": [{"name": "research", "description": "Agent-advertised command"}]},
        "plugins": {},
    }
    # The commands come right behind the session: in its install, or as a change of their own.
    state = driven.wait(port.AgentReady).state
    changes = [event["state"] for event in driven.events("meta")]
    assert changes == [told] or {name: state[name] for name in told} == told
    assert driven.events("text") == [
        {"type": "text", "text": "echo: "},
        {"type": "text", "text": "hello there"},
    ]
    assert driven.agent.counters == {"unknown_session": 1}


def test_what_is_said_to_the_agent(drive: Any, tmp_path: Path) -> None:
    calls, auth, argv = tmp_path / "calls", tmp_path / "auth", tmp_path / "argv"
    env = {
        "CRAZE_FAKE_DUMP_CALLS": str(calls),
        "CRAZE_FAKE_DUMP_AUTH": str(auth),
        "CRAZE_FAKE_DUMP_ARGV": str(argv),
        "CRAZE_FAKE_SESSION_ID": "in-{dir}",
        "GROK_CODE_XAI_API_KEY": "key",
    }
    driven = drive("grok-echo", env=env).start()
    driven.turn("hi")
    said = [json.loads(line) for line in calls.read_text().splitlines()]
    assert [call["method"] for call in said] == [
        "initialize",
        "authenticate",
        "session/new",
        "session/prompt",
    ]
    assert said[0]["params"]["protocolVersion"] == 1
    assert said[0]["params"]["clientCapabilities"] == {
        "_meta": {"parameterizedModelPicker": True},
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }
    assert said[2]["params"] == {"cwd": str(tmp_path), "mcpServers": []}
    session = f"in-{tmp_path.name}"
    assert said[3]["params"] == {
        "sessionId": session,
        "prompt": [{"type": "text", "text": "hi"}],
    }
    assert json.loads(auth.read_text()) == {
        "methodId": "xai.api_key",
        "_meta": {"headless": True},
    }
    assert json.loads(argv.read_text())[1:] == ["--no-auto-update", "agent", "stdio"]


def test_grok_without_a_key_uses_the_cached_token(drive: Any, tmp_path: Path) -> None:
    auth = tmp_path / "auth"
    drive("grok-echo", env={"CRAZE_FAKE_DUMP_AUTH": str(auth)}).start()
    assert json.loads(auth.read_text())["methodId"] == "cached_token"


def test_every_prompt_is_one_of_its_own(drive: Any) -> None:
    driven = drive("followup").start()
    driven.turn()
    driven.turn()
    assert driven.said() == "first replysecond reply"


def test_a_second_prompt_while_one_runs_is_refused(drive: Any) -> None:
    driven = drive("hang").start()
    driven.prompt()
    driven.agent.prompt("turn-9", "again")
    refused = driven.wait(port.PromptEnded)
    assert (refused.turn, refused.error.kind) == ("turn-9", "prompt_in_flight")


# ---- how a start fails ----


@pytest.mark.parametrize(
    ("script", "provider", "message", "kind"),
    [
        (
            "exit-two-lines",
            "",
            "acp: agent exited: exit status 1: Error: KEYCHAIN LOCKED / Run unlock and retry.",
            "agent_exit_status",
        ),
        ("authfail", "", "authentication failed (run `agent login`)", "rpc"),
        ("noauth", "gx", "agent: no supported auth method (run `gx login`)", "other"),
        ("bad-version", "", "acp: agent speaks protocol version 2, not 1", "other"),
        ("bad-nameless", "", "acp: agent opened a session without an id", "other"),
    ],
)
def test_start_failures(drive: Any, script: str, provider: str, message: str, kind: str) -> None:
    driven = drive(script, provider)
    error = driven.failed()
    assert (error.message, error.kind) == (message, kind)
    driven.until(lambda: driven.process.exited.is_set())


def test_b43_an_agent_that_never_answers_fails_with_its_stderr(drive: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "INITIALIZE", 1.0)
    locked = ["/bin/sh", "-c", "echo waiting for the keychain >&2; exec cat >/dev/null"]
    error = drive("bad-silent", argv=locked).failed()
    assert error.kind == "deadline_exceeded"
    assert error.message == (
        "acp: agent did not answer initialize within 1s: waiting for the keychain"
    )


def test_a_session_that_never_opens_fails_the_start(drive: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "NEW_SESSION", 0.1)
    error = drive("bad-new-silent").failed()
    assert error.message == "acp: agent did not answer session/new within 0.1s"


def test_b39_a_program_whose_interpreter_is_not_there(drive: Any, tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/usr/bin/env no-such-interpreter\n")
    program.chmod(0o755)
    message = drive("echo", argv=[str(program)]).failed().message
    assert message.startswith("acp: agent exited: exit status 127: ")
    assert "no-such-interpreter" in message


def test_a_program_that_is_not_there(drive: Any) -> None:
    error = drive("echo", argv=["/nowhere/agent"]).failed()
    assert error.message == "agent: /nowhere/agent: No such file or directory"


def test_a_group_that_cannot_be_recorded_fails_the_start(drive: Any) -> None:
    def full(pgid: int) -> None:
        raise OSError(28, "No space left on device")

    error = drive("echo", on_spawn=full).failed()
    assert error.message == (
        "agent: its process group was not recorded: [Errno 28] No space left on device"
    )


def test_an_agent_killed_before_it_is_ready(drive: Any) -> None:
    driven = drive("bad-new-silent")
    driven.agent.start()
    driven.until(lambda: driven.process)
    os.kill(driven.process.pid, signal.SIGKILL)
    error = driven.wait(port.StartFailed).error
    assert (error.message, error.code) == ("acp: agent exited: signal: killed", -1)


def test_an_agent_that_is_gone_before_anything_is_said_to_it(drive: Any) -> None:
    dying = ["/bin/sh", "-c", "echo why >&2; exit 4"]
    driven = drive("echo", argv=dying, on_spawn=lambda pgid: gevent.sleep(0.2))
    assert driven.failed().message.startswith("acp: agent exited: exit status 4")


def test_an_agent_that_is_gone_as_soon_as_its_session_is_open(drive: Any) -> None:
    driven = drive("bad-brief")
    driven.agent.start()
    driven.until(lambda: driven.all(port.StartFailed) or driven.all(port.AgentExited))
    ended = (driven.all(port.StartFailed) + driven.all(port.AgentExited))[0]
    assert ended.error.message == "acp: agent exited: exit status 5"
    assert bool(driven.all(port.AgentReady)) == isinstance(ended, port.AgentExited)


@pytest.mark.parametrize("where", ["install", "effort"])
def test_a_fault_of_ours_during_the_start_fails_it(drive: Any, mocker: Any, where: str) -> None:
    driven = drive("echo", effort="low")
    mocker.patch.object(driven.agent._session.catalog, where, side_effect=RuntimeError("bug"))
    assert "craze failed: RuntimeError('bug')" in driven.failed().message
    driven.until(lambda: driven.process.exited.is_set())


def test_closing_during_the_start(drive: Any) -> None:
    driven = drive("bad-silent")
    driven.agent.start()
    driven.until(lambda: driven.process)
    driven.agent.close()
    assert driven.process.returncode is not None
    assert driven.posts == []


def test_closing_before_the_start(drive: Any) -> None:
    driven = drive("echo")
    driven.agent.close()
    assert driven.posts == []


# ---- settings of the start ----


def test_a_start_with_settings(drive: Any) -> None:
    driven = drive("echo", mode="plan", model="composer", effort="high", fast=True).start()
    state = driven.wait(port.AgentReady).state
    current = {option["id"]: option["current"] for option in state["config"]["options"]}
    assert (state["mode"], state["model"]) == ("plan", "composer")
    assert current == {"effort": "high", "fast": "true"}


def test_no_fast_where_there_is_no_such_option(drive: Any) -> None:
    drive("grok-echo", fast=False).start()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "dream"}, 'agent: session did not advertise mode "dream"'),
        ({"model": "gpt-0"}, "no such model: gpt-0"),
        ({"effort": "most"}, "no such value: most"),
        ({"fast": True}, 'agent: session did not advertise option "fast"'),
    ],
)
def test_a_start_with_settings_that_do_not_exist(
    drive: Any, options: dict[str, Any], message: str
) -> None:
    script = "grok-echo" if "fast" in options else "echo"
    assert drive(script, **options).failed().message == message


def test_updates_before_the_session_has_a_name(drive: Any) -> None:
    driven = drive("preinstall").start()
    state = driven.wait(port.AgentReady).state
    assert (state["title"], state["mode"]) == ("Named early", "plan")
    assert next(iter(state)) == "title"
    assert driven.posts[1] == port.AgentEvent({"type": "text", "text": "said early"})
    assert driven.agent.counters["unknown_session"] == 1


# ---- asks ----


def permission(driven: Any, **ending: Any) -> port.AskRaised:
    driven.prompt()
    raised: port.AskRaised = driven.wait(port.AskRaised)
    driven.agent.answer(raised.key, {"kind": "permission", **ending})
    driven.wait(port.PromptEnded)
    return raised


def test_a_permission_is_asked_and_answered(drive: Any) -> None:
    driven = drive("permission").start()
    raised = permission(driven, outcome="answered", optionId="opt-once")
    assert raised.kind == "permission"
    assert raised.body == {
        "tool": "Shell",
        "options": [
            {"optionId": "opt-always", "name": "Always allow", "kind": "allow_always"},
            {"optionId": "opt-once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "opt-reject", "name": "Reject", "kind": "reject_once"},
        ],
    }
    assert driven.said() == "decision:opt-once"
    driven.agent.answer(raised.key, {"kind": "permission"})  # b18: a late one is nothing
    assert driven.agent.counters["stray_reply"] == 0


@pytest.mark.parametrize("outcome", ["cancelled", "turn_ended", "closing"])
def test_a_permission_without_an_answer(drive: Any, outcome: str) -> None:
    driven = drive("permission").start()
    permission(driven, outcome=outcome)
    assert driven.said() == "decision:cancelled"


def question(driven: Any, **ending: Any) -> port.AskRaised:
    driven.prompt()
    raised: port.AskRaised = driven.wait(port.AskRaised)
    driven.agent.answer(raised.key, {"kind": "question", **ending})
    driven.wait(port.PromptEnded)
    return raised


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (
            {"outcome": "answered", "answers": {"q1": ["opt-b"], "q2": ["opt-x", "opt-z"]}},
            "asked:answered:q1=opt-b;q2=opt-x,opt-z",
        ),
        ({"outcome": "answered", "answers": {"q1": None}}, "asked:answered:q1=;q2="),
        ({"outcome": "answered", "skip": True}, "asked:skipped:q1=;q2="),
        ({"outcome": "cancelled"}, "asked:cancelled:q1=;q2="),
    ],
)
def test_cursor_questions(drive: Any, ending: dict[str, Any], said: str) -> None:
    driven = drive("ask").start()
    raised = question(driven, **ending)
    assert raised.body["title"] == "A few questions"
    assert raised.body["questions"][1] == {
        "id": "q2",
        "prompt": "Which ones?",
        "options": [{"id": f"opt-{x}", "label": x.upper()} for x in "xyz"],
        "allowMultiple": True,
    }
    assert driven.said() == said


@pytest.mark.parametrize("script", ["grok-ask", "grok-ask-wrapped"])
@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (
            {"outcome": "answered", "answers": {"Which one?": ["B"], "Which ones?": ["X", "Z"]}},
            "asked:accepted:Which one?=B;Which ones?=X,Z",
        ),
        ({"outcome": "answered", "skip": True}, "asked:skip_interview:"),
        ({"outcome": "closing"}, "asked:cancelled:"),
    ],
)
def test_grok_questions(drive: Any, script: str, ending: dict[str, Any], said: str) -> None:
    driven = drive(script).start()
    raised = question(driven, **ending)
    assert raised.body["questions"][0] == {
        "id": "Which one?",
        "prompt": "Which one?",
        "options": [{"id": "A", "label": "A"}, {"id": "B", "label": "B"}],
    }
    assert driven.said() == said


@pytest.mark.parametrize(
    ("script", "ending", "said"),
    [
        ("plan", {"outcome": "answered", "accepted": True}, "accepted"),
        ("plan", {"outcome": "answered"}, "rejected"),
        ("plan", {"outcome": "cancelled"}, "cancelled"),
        ("grok-plan", {"outcome": "automatic", "accepted": True}, "approved"),
        ("grok-plan", {"outcome": "answered"}, "abandoned"),
        ("grok-plan", {"outcome": "turn_ended"}, "cancelled"),
    ],
)
def test_plans(drive: Any, script: str, ending: dict[str, Any], said: str) -> None:
    driven = drive(script).start()
    driven.prompt()
    raised = driven.wait(port.AskRaised)
    assert raised.kind == "plan"
    assert raised.body["plan"] == "1. look\n2. leap\n"
    if script == "plan":
        assert list(raised.body) == ["name", "overview", "plan", "todos"]
        assert raised.body["todos"] == [{"id": "t1", "content": "look", "status": "pending"}]
    driven.agent.answer(raised.key, {"kind": "plan", **ending})
    driven.wait(port.PromptEnded)
    assert driven.said() == f"planned:{said}"


def test_a_plan_that_grok_did_not_write(drive: Any) -> None:
    driven = drive("grok-plan").start()
    driven.prompt("empty")
    assert driven.wait(port.AskRaised).body["plan"].startswith("# No plan written yet\n\n(The")


def test_a_parked_ask_does_not_stop_the_reader(drive: Any) -> None:
    driven = drive("bad-two-permissions").start()
    driven.prompt()
    first, second = driven.wait(port.AskRaised), driven.wait(port.AskRaised, 2)
    driven.until(lambda: driven.said() == "talking")
    driven.agent.answer(second.key, {"outcome": "answered", "optionId": "opt-reject"})
    driven.agent.answer(first.key, {"outcome": "answered", "optionId": "opt-once"})
    driven.wait(port.PromptEnded)
    assert driven.said() == "talkingopt-once;opt-reject"


def test_a_policy_that_answers_as_it_is_asked(drive: Any) -> None:
    driven = drive("permission").start()

    def allow(made: Any) -> None:
        if isinstance(made, port.AskRaised):
            driven.agent.answer(made.key, {"outcome": "automatic", "optionId": "opt-always"})

    driven.on_post = allow
    driven.turn()
    assert driven.said() == "decision:opt-always"


def test_cancel_answers_every_ask_first(drive: Any) -> None:
    driven = drive("bad-two-permissions").start()
    driven.prompt()
    driven.wait(port.AskRaised, 2)
    driven.agent.cancel(7)
    assert driven.wait(port.PromptEnded).stop_reason == "cancelled"
    assert driven.wait(port.CancelReturned) == port.CancelReturned(7)
    assert driven.said() == "talkingcancelled;cancelled"


def test_b18_an_ask_raised_after_the_cancel_is_answered_without_a_card(drive: Any) -> None:
    driven = drive("bad-late-permission").start()
    driven.prompt()
    driven.until(lambda: driven.said() == "waiting")
    driven.agent.cancel(1)
    driven.wait(port.PromptEnded)
    assert driven.all(port.AskRaised) == []
    assert driven.said() == "waitingdecision:cancelled"


def test_an_agent_that_takes_its_ask_back(drive: Any) -> None:
    driven = drive("bad-cancels-itself").start()
    driven.turn()
    raised = driven.wait(port.AskRaised)
    assert driven.all(port.AskWithdrawn) == [port.AskWithdrawn(raised.key)]
    driven.agent.answer(raised.key, {"outcome": "answered", "optionId": "opt-once"})
    assert driven.turn().stop_reason == "end_turn"  # a second answer would have come first


def test_asks_that_cannot_be_read(drive: Any) -> None:
    driven = drive("bad-permission").start()
    driven.turn()
    assert driven.said() == "-32602 -32602 -32602 -32602"
    assert driven.all(port.AskRaised) == []


# ---- cancelling ----


@pytest.mark.parametrize("script", ["hang", "hang-ack", "sigint-hold", "long-turn", "task-late"])
def test_cancel(drive: Any, script: str) -> None:
    driven = drive(script).start()
    driven.prompt()
    if script not in ("hang", "task-late"):
        driven.until(driven.said)
    else:
        driven.until(lambda: driven.process._queued == 0)
    driven.agent.cancel(3)
    assert driven.wait(port.CancelReturned) == port.CancelReturned(3)
    wanted = "end_turn" if script == "task-late" else "cancelled"
    assert driven.wait(port.PromptEnded).stop_reason == wanted


def test_a_prompt_that_was_not_sent_yet_is_withdrawn(drive: Any, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    driven = drive("echo", env={"CRAZE_FAKE_DUMP_CALLS": str(calls)}).start()
    driven.prompt()
    driven.agent.cancel(1)
    ended = driven.wait(port.PromptEnded)
    assert ended.error == AgentError(
        "agent: prompt cancelled before it was sent", "prompt_cancelled"
    )
    assert driven.wait(port.CancelReturned) == port.CancelReturned(1)
    driven.turn("next")
    assert driven.said() == "echo: next"
    assert calls.read_text().count("session/prompt") == 1


def test_an_error_after_a_cancel_is_a_cancel(drive: Any) -> None:
    driven = drive("bad-cancel-fails").start()
    driven.prompt()
    driven.until(driven.said)
    driven.agent.cancel(1)
    assert driven.wait(port.PromptEnded) == port.PromptEnded("turn-1", "cancelled")


def test_an_agent_that_ignores_a_cancel_can_still_be_closed(drive: Any) -> None:
    driven = drive("bad-prompt-silent").start()
    driven.prompt()
    driven.until(lambda: driven.process._queued == 0)
    driven.agent.cancel(1)
    assert driven.wait(port.CancelReturned).error is None
    driven.agent.close()
    assert driven.process.returncode is not None
    assert driven.all(port.PromptEnded) == []


def test_a_cancel_that_cannot_be_written(drive: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "CANCEL_WRITE", 0.05)
    driven = drive("bad-deaf").start()
    driven.prompt()
    driven.until(driven.said)
    driven.agent.set(1, "mode", "", "plan")  # fills the pipe
    for token in range(2, 100):
        driven.agent.set(token, "config", "effort", "x" * 4000)
    driven.until(lambda: driven.process._queued > 1 << 18)
    driven.agent.cancel(100)
    returned = driven.wait(port.CancelReturned)
    assert "does not read" in returned.error.message
    assert returned.possibly_written is False


@pytest.mark.parametrize(
    ("script", "stop_reason", "statuses"),
    [
        ("bad-open-tools", "cancelled", {"t1": "cancelled", "t2": "cancelled"}),
        ("bad-ignores-cancel", "end_turn", {"t1": "failed", "t2": "in_progress"}),
    ],
)
def test_tools_left_open_end_with_the_turn(
    drive: Any, script: str, stop_reason: str, statuses: dict[str, str]
) -> None:
    driven = drive(script).start()
    driven.prompt()
    driven.until(driven.said)
    driven.agent.cancel(1)
    assert driven.wait(port.PromptEnded).stop_reason == stop_reason
    last = {event["tool"]["id"]: event["tool"]["status"] for event in driven.events("tool")}
    assert last == statuses


# ---- settings ----


def test_set_mode_model_and_option(drive: Any) -> None:
    driven = drive("echo").start()
    assert driven.setting("mode", "", "plan") == port.SettingReturned(100, "plan", {"mode": "plan"})
    assert driven.setting("model", "", "composer") == port.SettingReturned(
        101, "composer", {"model": "composer"}
    )
    returned = driven.setting("config", "effort", "low")
    assert returned.value == "low"
    assert list(returned.state) == ["config"]
    assert returned.state["config"]["options"][0]["current"] == "low"


@pytest.mark.parametrize(
    ("kind", "option", "value", "refused", "message"),
    [
        ("mode", "", "dream", "", 'agent: session did not advertise mode "dream"'),
        ("model", "", "gpt-0", "", "no such model: gpt-0"),
        ("config", "effort", "most", "", "no such value: most"),
        ("config", "gone", "x", "option_gone", ""),
    ],
)
def test_settings_that_fail(
    drive: Any, kind: str, option: str, value: str, refused: str, message: str
) -> None:
    returned = drive("echo").start().setting(kind, option, value)
    assert returned.refused == refused
    assert (returned.error.message if returned.error else "") == message


@pytest.mark.parametrize("script", ["bad-catalog", "bad-catalog-items"])
def test_an_answer_that_is_no_catalog_installs_nothing(drive: Any, script: str) -> None:
    driven = drive(script).start()
    assert driven.setting("config", "effort", "low").refused == "bad_catalog"
    assert driven.agent._session.catalog.confirmed("config", "effort") == "medium"


def test_a_setting_that_is_never_answered(drive: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "SETTING", 0.05)
    returned = drive("bad-set-silent").start().setting("mode", "", "plan")
    assert returned.error.kind == "deadline_exceeded"


@pytest.mark.parametrize(
    ("script", "model", "options", "pushed"),
    [
        ("permodel", "composer", {"model", "effort", "fast"}, 0),
        ("permodel-pushbefore", "composer", {"model", "effort", "fast"}, 1),
        ("permodel-pushafter", "composer", {"model", "effort", "fast"}, 0),
        ("permodel-pushmodel-after", "default", {"model", "effort"}, 1),
        ("permodel-noreply", "composer", {"model", "effort"}, 0),
        ("permodel-nomodel", "composer", {"effort"}, 0),
        ("permodel-empty", "composer", set(), 0),
        ("modelconfig", "composer", {"model", "effort", "fast"}, 0),
    ],
)
def test_options_that_depend_on_the_model(
    drive: Any, script: str, model: str, options: set[str], pushed: int
) -> None:
    driven = drive(script).start()
    returned = driven.setting("model", "", "composer")
    assert returned.value == "composer"
    assert returned.state["model"] == "composer"
    driven.turn()  # so that what is pushed after the answer has come
    catalog = driven.agent._session.catalog
    assert catalog.model == model
    assert {option["id"] for option in catalog.options} == options
    assert sum("config" in e["state"] for e in driven.events("meta")) == pushed


@pytest.mark.parametrize("script", ["permodel-refuse", "modelconfig-refuse"])
def test_a_model_that_is_refused(drive: Any, script: str) -> None:
    driven = drive(script).start()
    assert driven.setting("model", "", "composer").error.message == "that model cannot be chosen"
    assert driven.agent._session.catalog.model == "default"


def test_models_that_come_late(drive: Any) -> None:
    driven = drive("modellate").start()
    driven.until(lambda: driven.agent._session.catalog.model == "default")
    assert driven.setting("model", "", "composer").value == "composer"


def test_a_mode_that_the_agent_changes_itself(drive: Any) -> None:
    driven = drive("planmode").start()
    driven.turn()
    driven.turn()
    changes = [event for event in driven.events("meta") if "mode" in event["state"]]
    assert changes == [{"type": "meta", "mode": "plan", "state": {"mode": "plan"}}]


def test_a_title_of_the_agent(drive: Any) -> None:
    driven = drive("title").start()
    driven.turn()
    assert {
        "type": "meta",
        "text": "Title 1",
        "state": {"title": "Title 1"},
    } in driven.events("meta")


def test_commands_that_did_not_change_are_not_told(drive: Any) -> None:
    driven = drive("commands").start()
    driven.turn()
    told = [event["state"]["commands"] for event in driven.events("meta")]
    names = [[command["name"] for command in each["commands"]] for each in told]
    assert names[-1] == ["research", "deploy"]
    assert names.count(["research", "deploy"]) == 1


# ---- tools, todos, sub-agents ----


def test_a_tool_and_its_changes(drive: Any, tmp_path: Path) -> None:
    driven = drive("tool").start()
    driven.turn()
    tools = [event["tool"] for event in driven.events("tool")]
    assert [tool["status"] for tool in tools] == ["pending", "in_progress", "completed"]
    assert tools[-1] == {
        "id": "call-tool-1",
        "name": "Read README.md",
        "status": "completed",
        "kind": "read",
        "title": "Read README.md",
        "rawInput": '{"path":"README.md"}',
        "contentText": "# Readme",
        "locations": [f"{tmp_path}/README.md"],
        "at": AT,
    }


def test_a_shell_tool(drive: Any) -> None:
    driven = drive("bash").start()
    driven.turn()
    tool = driven.events("tool")[-1]["tool"]
    assert tool["toolName"] == "bash"
    assert tool["rawInput"] == "ls -l"
    assert tool["output"] == {
        "exitCode": 2,
        "stdout": "total 0\n",
        "stderr": "ls: no such file\n",
    }


def test_diffs_are_counted_and_capped(drive: Any) -> None:
    driven = drive("diff").start()
    driven.turn()
    first, second = driven.events("tool")[-1]["tool"]["diffs"]
    assert (first["added"], first["removed"]) == (2, 1)
    assert second == {
        "path": second["path"],
        "newText": "fresh\n",
        "added": 1,
    }


def test_big_diffs_keep_their_counts(drive: Any) -> None:
    driven = drive("bigdiff").start()
    driven.turn()
    diffs = driven.events("tool")[-1]["tool"]["diffs"]
    assert len(diffs) == 8
    assert (diffs[0]["added"], diffs[0]["removed"], diffs[0]["truncated"]) == (1, 1, True)
    assert (diffs[1]["added"], diffs[1].get("removed")) == (20_000, None)
    assert all(len(diff["newText"].encode()) <= limits.DIFF_TEXT for diff in diffs)


@pytest.mark.parametrize("script", ["todos", "todos-notify"])
def test_cursor_todos(drive: Any, script: str) -> None:
    driven = drive(script).start()
    driven.turn()
    told = [[todo["status"] for todo in event["todos"]] for event in driven.events("todos")]
    assert told == [
        ["in_progress", "pending"],
        ["completed", "pending"],
        ["completed", "completed"],
    ]
    assert driven.said() == "planningdone todos"


def test_a_cursor_task_is_a_tool_and_a_row(drive: Any) -> None:
    driven = drive("task").start()
    driven.turn()
    last = driven.events("tool")[-1]["tool"]
    assert last["toolName"] == "task"
    assert last["task"] == {
        "description": "look around",
        "prompt": "Find where the tests are.",
        "model": "composer",
        "agentId": "agent-7",
        "subagentType": "explore",
        "durationMs": 1200,
        "receipt": True,
        "status": "completed",
    }
    rows = driven.events("subagent")
    assert [row["subagentChange"] for row in rows] == ["spawned", "progress", "finished"][::2]
    assert rows[-1]["subagent"] == {
        "id": "call-task-1",
        "toolCallId": "call-task-1",
        "description": "look around",
        "subagentType": "explore",
        "model": "composer",
        "status": "completed",
        "prompt": "Find where the tests are.",
        "startedAt": AT,
        "endedAt": AT,
        "durationMs": 1200,
    }


def test_a_cursor_task_may_outlive_its_turn(drive: Any) -> None:
    driven = drive("task-late").start()
    driven.turn()
    assert [row["subagent"]["status"] for row in driven.events("subagent")] == ["running"]
    driven.turn()
    assert driven.events("subagent")[-1]["subagent"]["status"] == "completed"


def test_a_grok_sub_agent_streams_beside(drive: Any) -> None:
    driven = drive("grok-subagent").start()
    driven.turn()
    rows = driven.events("subagent")
    assert [row["subagentChange"] for row in rows] == [
        "spawned",
        "progress",
        "progress",
        "finished",
    ]
    assert rows[-1]["subagent"] == {
        "id": "child-1",
        "description": "look around as child-1",
        "subagentType": "explore",
        "model": "grok-4.6",
        "status": "completed",
        "prompt": "Find the tests.",
        "output": "found by child-1",
        "startedAt": AT,
        "endedAt": AT,
        "durationMs": 1500,
        "toolCalls": 1,
        "turns": 1,
        "tokensUsed": 250,
        "toolsUsed": ["list_files"],
        "transcript": True,
    }
    beside = [event for event in driven.events() if event.get("agent") == "child-1"]
    assert [event["type"] for event in beside] == ["user", "thought", "tool", "tool", "text"]
    assert beside[2]["tool"]["toolName"] == "list_files"
    assert driven.events("tool")[0]["tool"]["task"]["status"] == "running"
    assert driven.said() == "sub-agent done"


@pytest.mark.parametrize(
    ("script", "turns", "status"),
    [
        ("grok-subagent-fail", 1, "failed"),
        ("grok-subagent-two", 1, "completed"),
        ("grok-subagent-nested", 1, "completed"),
        ("grok-subagent-late", 2, "completed"),
    ],
)
def test_grok_sub_agents_end(drive: Any, script: str, turns: int, status: str) -> None:
    driven = drive(script).start()
    for _ in range(turns):
        driven.turn()
    last = {row["subagent"]["id"]: row["subagent"] for row in driven.events("subagent")}
    assert {row["status"] for row in last.values()} == {status}
    tools = {e["agent"]: e["tool"]["status"] for e in driven.events("tool") if "agent" in e}
    assert set(tools.values()) == {status}
    if script.endswith("fail"):
        assert last["child-1"]["error"] == "it broke"
    if script.endswith("nested"):
        assert last["child-2"]["parentId"] == "child-1"
        assert "parentId" not in last["child-1"]
    if script.endswith("late"):
        assert not any(event.get("text") == "too late" for event in driven.events("text"))


@pytest.mark.parametrize(
    ("script", "first"),
    [
        ("grok-subagent-hold", 0),
        ("grok-subagent-two-hold", 0),
        ("grok-subagent-cancel", 0),
        ("grok-subagent-cancel-early", 0),
        ("grok-subagent-late-hold", 1),
    ],
)
def test_grok_sub_agents_of_a_cancelled_turn(drive: Any, script: str, first: int) -> None:
    driven = drive(script).start()
    for _ in range(first):
        driven.turn()
    driven.prompt()
    before = len(driven.events("subagent", "text"))
    driven.until(lambda: len(driven.events("subagent", "text")) > before)
    driven.agent.cancel(1)
    assert driven.wait(port.PromptEnded, first + 1).stop_reason == "cancelled"
    driven.until(
        lambda: [
            event
            for event in driven.events("subagent")
            if event["subagent"]["id"] == "child-1" and event["subagent"]["status"] == "cancelled"
        ]
    )
    tools = {e["agent"]: e["tool"]["status"] for e in driven.events("tool") if "agent" in e}
    assert tools["child-1"] == "cancelled"


# ---- grok's turns ----


def test_an_interjection_is_heard_once(drive: Any) -> None:
    driven = drive("grok-long-turn").start()
    driven.agent.interject(1, "too early")
    assert driven.wait(port.InterjectReturned).refused == "not_in_turn"
    driven.prompt()
    driven.until(driven.said)
    driven.agent.interject(2, "stop")
    assert driven.wait(port.InterjectReturned, 2) == port.InterjectReturned(2)
    driven.wait(port.PromptEnded)
    assert driven.events("user") == [{"type": "user", "text": "stop", "interjection": True}]
    assert driven.said() == "working heard stop "


def test_an_interjection_where_there_is_none(drive: Any) -> None:
    driven = drive("echo").start()
    driven.agent.interject(1, "now")
    assert driven.wait(port.InterjectReturned).refused == "unsupported"
    driven.agent.cancel_subagent(2, "child-1")
    assert driven.wait(port.SubagentCancelReturned).refused == "unsupported"


def test_an_interjection_that_found_no_turn_is_a_foreign_one(drive: Any) -> None:
    driven = drive("grok-long-turn-fallback").start()
    driven.prompt()
    driven.until(driven.said)
    refusals: list[Any] = []

    def prompt_meanwhile(made: Any) -> None:
        if getattr(made, "event", {}).get("text") == "on my own":
            driven.agent.prompt("turn-2", "me too")
            refusals.append(driven.posts[-1])

    driven.on_post = prompt_meanwhile
    driven.agent.interject(1, "go on")
    driven.until(lambda: len(driven.events("foreign_turn")) == 2)
    assert driven.wait(port.PromptEnded) == port.PromptEnded("turn-1", "end_turn")
    start, end = driven.events("foreign_turn")
    assert start["foreignTurn"] == {
        "id": "interject-fallback-1",
        "text": "go on",
        "running": True,
    }
    assert end["foreignTurn"] == {"id": "interject-fallback-1"}
    assert refusals == [
        port.PromptEnded(
            "turn-2", error=AgentError("acp: agent is running a turn of its own", "foreign_turn")
        )
    ]
    kinds = [e["type"] for e in driven.events("foreign_turn", "user", "text")]
    assert kinds == ["text", "foreign_turn", "user", "text", "foreign_turn"]


def test_a_turn_ends_once_though_it_is_told_twice(drive: Any) -> None:
    driven = drive("grok-echo").start()
    for _ in range(3):
        driven.turn()
    assert [ended.turn for ended in driven.all(port.PromptEnded)] == ["turn-1", "turn-2", "turn-3"]
    assert driven.events("foreign_turn") == []


# ---- how a session ends ----


def test_b24_an_agent_that_dies_in_mid_turn(drive: Any) -> None:
    driven = drive("bad-die").start()
    driven.prompt()
    exited = driven.wait(port.AgentExited)
    assert exited.error == AgentError(
        "acp: agent exited: exit status 3: panic: it is over", "agent_exit_status", 3
    )
    assert len(driven.all(port.AskWithdrawn)) == 1
    assert driven.said() == "about to die"
    driven.prompt("after")
    assert driven.wait(port.PromptEnded).error == exited.error


@pytest.mark.parametrize(
    ("script", "message", "kind", "code"),
    [
        ("bad-killed", "acp: agent exited: signal: killed", "agent_exit_status", -1),
        ("bad-leave", "acp: agent exited: exit status 0", "closed", 0),
    ],
)
def test_other_ends_in_mid_turn(
    drive: Any, script: str, message: str, kind: str, code: int
) -> None:
    driven = drive(script).start()
    driven.prompt()
    assert driven.wait(port.AgentExited).error == AgentError(message, kind, code)


def test_an_agent_that_closes_its_output_is_ended(drive: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "CLOSED_WAIT", 0.05)
    mocker.patch.object(limits, "EOF_WAIT", 0.05)
    driven = drive("bad-mute").start()
    driven.prompt()
    assert driven.wait(port.AgentExited).error == AgentError(
        "acp: agent closed its output", "closed"
    )
    assert driven.said() == "last words"


def test_an_agent_that_asks_and_never_listens_is_ended(drive: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "OUTBOX", 1 << 20)
    mocker.patch.object(limits, "EOF_WAIT", 0.05)
    driven = drive("bad-flood").start()
    driven.prompt()
    assert driven.wait(port.AgentExited).error.message == "acp: agent does not read its input"


def test_b14_an_answer_that_is_not_read_holds_nothing_up(drive: Any) -> None:
    driven = drive("bad-deaf").start()
    driven.prompt()
    driven.until(driven.said)
    with gevent.Timeout(5):
        for token in range(200):
            driven.agent.cancel(token)
    driven.agent.close()


def test_close_ends_a_turn_and_its_asks(drive: Any) -> None:
    driven = drive("permission").start()
    driven.prompt()
    driven.wait(port.AskRaised)
    count = len(driven.posts)
    driven.agent.close()
    assert driven.process.returncode == 0
    assert len(driven.posts) == count


def test_b57_a_timeout_in_the_closer_leaves_nothing_half_closed(drive: Any, mocker: Any) -> None:
    mocker.patch.object(limits, "EOF_WAIT", 0.1)
    mocker.patch.object(limits, "TERM_WAIT", 0.1)
    driven = drive("bad-stubborn").start()
    try:
        with gevent.Timeout(0.01):
            driven.agent.close()
    except gevent.Timeout:
        pass
    driven.agent.close()
    assert driven.process.returncode == -signal.SIGKILL


def test_closing_twice_at_once(drive: Any) -> None:
    driven = drive("echo").start()
    closers = [gevent.spawn(driven.agent.close) for _ in range(3)]
    gevent.joinall(closers, raise_error=True)
    assert driven.process.returncode == 0


def test_a_fault_of_the_engines_ends_the_agent_loudly(drive: Any) -> None:
    driven = drive("echo").start()

    def fail(made: Any) -> None:
        if isinstance(made, port.AgentEvent) and made.event["type"] == "text":
            driven.on_post = None
            raise RuntimeError("bug")

    driven.on_post = fail
    driven.prompt()
    error = driven.wait(port.AgentExited).error
    assert error.message == "acp: craze failed: RuntimeError('bug')"


def test_its_repr_tells_how_it_stands(drive: Any) -> None:
    driven = drive("echo")
    assert repr(driven.agent) == "<acp agent cursor starting None>"
    driven.start()
    assert "cursor ready <agent process" in repr(driven.agent)


# ---- what agents write beside the protocol ----


def test_b70_noise_on_stdout(drive: Any) -> None:
    driven = drive("bad-noise").start()
    driven.turn()
    assert driven.said() == "one two"
    counters = driven.agent.counters
    assert counters["unreadable"] >= 4
    assert counters["no_message"] == 4
    assert counters["stray_reply"] >= 1


def test_b68_lines_and_characters_in_pieces(drive: Any) -> None:
    driven = drive("bad-halves").start()
    driven.turn()
    assert driven.said() == "naïve 🙂" * 4


def test_b59_bytes_that_are_no_text(drive: Any) -> None:
    driven = drive("bad-utf8").start()
    driven.turn()
    assert driven.said() == "caf\ufffdlone \ufffd half" + "esc \x1b]0;x\x07"


@pytest.mark.parametrize("edge", [64 * 1024, 4 * 1024 * 1024])
def test_b64_long_lines(drive: Any, edge: int) -> None:
    driven = drive("bad-huge").start()
    driven.turn(f"{edge - 1} {edge} {edge + 1}")
    assert len(driven.events("text")) == 4
    assert driven.agent.counters["too_long"] == 0


def test_b64_a_line_past_the_limit_is_dropped_alone(drive: Any) -> None:
    edge = 16 * 1024 * 1024
    driven = drive("bad-huge").start()
    driven.turn(f"{edge - 1} {edge} {edge + 1}")
    assert len(driven.events("text")) == 3
    assert driven.agent.counters["too_long"] == 1


def test_b65_a_line_without_an_end(drive: Any) -> None:
    driven = drive("bad-endless").start()
    driven.turn("48")
    assert driven.said() == "done"
    assert driven.agent.counters["too_long"] == 1


def test_stderr_is_always_drained(drive: Any) -> None:
    driven = drive("bad-chatter").start()
    driven.turn()
    assert driven.said() == "done"
    assert len(driven.process.stderr) <= limits.STDERR_TAIL


def test_replies_to_nothing(drive: Any) -> None:
    driven = drive("bad-replies").start()
    assert driven.turn().stop_reason == "end_turn"
    assert driven.agent.counters["stray_reply"] == 7


def test_ids_go_back_as_they_came(drive: Any) -> None:
    driven = drive("bad-ids").start()
    driven.turn()
    ids = (0, -1, "uuid-like", "", None, 2**63, 1.5)
    assert driven.said() == " ".join(f"{number!r}:-32601" for number in ids)


def test_a_growing_tool_stays_inside_its_caps(drive: Any) -> None:
    driven = drive("bad-grows").start()
    driven.turn()
    tools = [event["tool"] for event in driven.events("tool")]
    last = tools[-1]
    assert len(last["rawInput"].encode()) <= limits.RAW_INPUT
    assert last["rawInput"].endswith("…")
    assert len(last["contentText"].encode()) <= limits.CONTENT_TEXT
    assert last["contentText"].startswith("…")
    assert len(last["locations"]) == limits.LOCATIONS
    output = last["output"]
    assert len(output["stdout"].encode()) <= limits.OUTPUT_TEXT
    assert len(output["stdoutHead"].encode()) <= limits.OUTPUT_HEAD
    assert output["truncated"] is True
    assert (output["exitCode"], output["stderr"]) == (0, "e" * 100)


def test_a_turn_that_fails(drive: Any) -> None:
    driven = drive("turnfail").start()
    assert driven.turn().error == AgentError("the turn failed", "rpc", -32000)
    assert driven.turn().error is not None


def test_a_late_catalog(drive: Any) -> None:
    driven = drive("echo", env={"CRAZE_FAKE_LATE_CATALOG": "200"}).start()
    in_time = driven.wait(port.AgentReady).state["commands"] != {}
    driven.turn()
    assert len(driven.events("meta")) == (0 if in_time else 1)
