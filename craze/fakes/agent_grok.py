"""Scripts of craze-fake-agent in grok's dialect: its questions, interjections and sub-agents."""

from typing import Any

from craze.fakes.agent import Agent, Script, Turn


def _questions(agent: Agent) -> dict[str, Any]:
    return {
        "sessionId": agent.session,
        "toolCallId": "call-ask-1",
        "questions": [
            {"question": "Which one?", "options": [{"label": "A"}, {"label": "B"}]},
            {
                "question": "Which ones?",
                "multiSelect": True,
                "options": [{"label": "X"}, {"label": "Y"}, {"label": "Z"}],
            },
        ],
    }


def _ask(wrapped: bool) -> Any:
    def turn(agent: Agent, turn: Turn) -> None:
        params = _questions(agent)
        if wrapped:
            params = {"method": "x.ai/ask_user_question", "params": params}
        result = agent.request("_x.ai/ask_user_question", params) or {}
        answers = result.get("answers", {})
        said = ";".join(f"{words}={','.join(picked)}" for words, picked in sorted(answers.items()))
        agent.text(f"asked:{result.get('outcome')}:{said}")

    return turn


def _plan(agent: Agent, turn: Turn) -> None:
    params = {
        "sessionId": agent.session,
        "toolCallId": "call-plan-1",
        "planContent": "" if "empty" in turn.text else "1. look\n2. leap\n",
    }
    result = agent.request("_x.ai/exit_plan_mode", params) or {}
    agent.text(f"planned:{result.get('outcome')}")


def _broadcast(agent: Agent, interjection: dict[str, Any]) -> None:
    params = {
        "sessionId": agent.session,
        "text": interjection["text"],
        "interjectionId": interjection.get("interjectionId", ""),
    }
    for _ in range(2):  # told twice, as the agent's several windows do
        agent.notify("_x.ai/session/interjection", params)


def _long_turn(agent: Agent, turn: Turn) -> str | None:
    """Runs until an interjection says `stop`, or a cancel."""
    agent.text("working ")
    while True:
        agent.until(lambda: agent.cancelled or agent.interjections)
        if agent.cancelled:
            return "cancelled"
        interjection = agent.interjections.popleft()
        _broadcast(agent, interjection)
        agent.text(f"heard {interjection['text']} ")
        if interjection["text"] == "stop":
            return None


def _fallback(agent: Agent, turn: Turn) -> str | None:
    """The turn ends as an interjection comes in: the agent runs it as a turn of its own."""
    agent.text("working ")
    agent.until(lambda: agent.cancelled or agent.interjections)
    if agent.cancelled:
        return "cancelled"
    interjection = agent.interjections.popleft()
    agent.complete(turn.id, "end_turn")
    number = f"interject-fallback-{turn.number}"
    agent.queue(number, interjection["text"])
    _broadcast(agent, interjection)
    agent.text("on my own")
    agent.complete(number, "end_turn")
    return None


# ---- sub-agents ----


def _spawn(agent: Agent, number: str, parent: str = "") -> str:
    """A sub-agent; the id of its session."""
    session = f"{number}-session"
    agent.notice(
        "subagent_spawned",
        subagent_id=number,
        child_session_id=session,
        parent_session_id=parent or agent.session,
        subagent_type="explore",
        description=f"look around as {number}",
        model="grok-4.6",
    )
    agent.user("Find the tests.", session)
    agent.thought("where are they", session)
    agent.update(
        "tool_call",
        session,
        toolCallId=f"{number}-tool",
        title="List files",
        kind="search",
        status="in_progress",
        _meta={"x.ai/tool": {"name": "list_files"}},
    )
    agent.notice(
        "subagent_progress",
        subagent_id=number,
        child_session_id=session,
        tool_calls=1,
        turns=1,
        tokens_used=100,
        tools_used=["list_files"],
    )
    return session


def _finish(agent: Agent, number: str, status: str = "completed", **members: Any) -> None:
    agent.notice(
        "subagent_finished",
        subagent_id=number,
        child_session_id=f"{number}-session",
        status=status,
        duration_ms=1500,
        tool_calls=1,
        turns=1,
        tokens_used=250,
        **members,
    )


def _complete(agent: Agent, number: str) -> None:
    session = f"{number}-session"
    agent.update("tool_call_update", session, toolCallId=f"{number}-tool", status="completed")
    agent.text(f"found by {number}", session)
    _finish(agent, number, output=f"found by {number}")


def _tool(agent: Agent, status: str, kind: str = "tool_call_update") -> None:
    agent.update(
        kind,
        toolCallId="call-spawn-1",
        title="Spawn sub-agent",
        status=status,
        rawInput={"description": "look around", "prompt": "Find the tests."},
        _meta={"x.ai/tool": {"name": "spawn_subagent"}},
    )


def _one(agent: Agent, turn: Turn) -> None:
    _tool(agent, "in_progress", "tool_call")
    _spawn(agent, "child-1")
    _complete(agent, "child-1")
    _tool(agent, "completed")
    agent.text("sub-agent done")


def _fail(agent: Agent, turn: Turn) -> None:
    _spawn(agent, "child-1")
    _finish(agent, "child-1", "failed", error="it broke")
    agent.text("sub-agent failed")


def _two(agent: Agent, turn: Turn) -> None:
    _spawn(agent, "child-1")
    _spawn(agent, "child-2")
    _complete(agent, "child-2")
    _complete(agent, "child-1")
    agent.text("both done")


def _two_hold(agent: Agent, turn: Turn) -> str:
    _spawn(agent, "child-1")
    _spawn(agent, "child-2")
    _complete(agent, "child-2")
    agent.hold()
    _finish(agent, "child-1", "cancelled")
    return "cancelled"


def _nested(agent: Agent, turn: Turn) -> None:
    outer = _spawn(agent, "child-1")
    _spawn(agent, "child-2", parent=outer)
    _complete(agent, "child-2")
    _complete(agent, "child-1")
    agent.text("all done")


def _late(agent: Agent, turn: Turn) -> None:
    """The first turn's child ends in the second."""
    if turn.number == 1:
        _spawn(agent, "child-1")
        agent.text("sub-agent runs on")
    else:
        _complete(agent, "child-1")
        agent.text("too late", "child-1-session")
        agent.text("sub-agent done")


def _late_hold(agent: Agent, turn: Turn) -> str | None:
    if turn.number == 1:
        _spawn(agent, "child-1")
        agent.text("sub-agent runs on")
        return None
    agent.text("holding")
    agent.hold()
    _finish(agent, "child-1", "cancelled")
    return "cancelled"


def _hold(agent: Agent, turn: Turn) -> str:
    _spawn(agent, "child-1")
    agent.hold()
    _finish(agent, "child-1", "cancelled")
    return "cancelled"


def _cancel(agent: Agent, turn: Turn) -> str:
    """The child's end is told only after the turn's."""
    _spawn(agent, "child-1")
    agent.hold()
    agent.complete(turn.id, "cancelled")
    _finish(agent, "child-1", "cancelled")
    return "cancelled"


def _cancel_early(agent: Agent, turn: Turn) -> str:
    """The cancel comes before the child does."""
    agent.text("about to spawn")
    agent.hold()
    _spawn(agent, "child-1")
    _finish(agent, "child-1", "cancelled")
    return "cancelled"


SCRIPTS: dict[str, Script] = {
    name: Script(turn, grok=True)
    for name, turn in {
        "grok-ask": _ask(wrapped=False),
        "grok-ask-wrapped": _ask(wrapped=True),
        "grok-plan": _plan,
        "grok-long-turn": _long_turn,
        "grok-long-turn-fallback": _fallback,
        "grok-subagent": _one,
        "grok-subagent-fail": _fail,
        "grok-subagent-two": _two,
        "grok-subagent-two-hold": _two_hold,
        "grok-subagent-nested": _nested,
        "grok-subagent-late": _late,
        "grok-subagent-late-hold": _late_hold,
        "grok-subagent-hold": _hold,
        "grok-subagent-cancel": _cancel,
        "grok-subagent-cancel-early": _cancel_early,
    }.items()
}
