"""The scripts of craze-fake-agent, as one table: the plain ones here, the rest from their files."""

import json
import signal
from typing import Any

import craze.fakes.agent_bad as agent_bad
import craze.fakes.agent_grok as agent_grok
import craze.fakes.agent_load as agent_load
import craze.fakes.agent_settings as agent_settings
from craze.fakes.agent import Agent, Refused, Script, Turn

PERMISSIONS = [
    {"optionId": "opt-always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "opt-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "opt-reject", "name": "Reject", "kind": "reject_once"},
]


def _echo(agent: Agent, turn: Turn) -> None:
    agent.text("NOPE", session="other-session")
    agent.text("echo: ")
    agent.text(turn.text)


def _followup(agent: Agent, turn: Turn) -> None:
    agent.text("first reply" if turn.number == 1 else "second reply")


def _tool_call(agent: Agent, number: str, title: str, kind: str, **raw: Any) -> None:
    agent.update(
        "tool_call", toolCallId=number, title=title, kind=kind, status="pending", rawInput=raw
    )
    agent.update("tool_call_update", toolCallId=number, status="in_progress")


def _tool(agent: Agent, turn: Turn) -> None:
    _tool_call(agent, "call-tool-1", "Read README.md", "read", path="README.md")
    agent.update(
        "tool_call_update",
        toolCallId="call-tool-1",
        status="completed",
        content=[{"type": "content", "content": {"type": "text", "text": "# Readme"}}],
        locations=[{"path": f"{agent.cwd}/README.md", "line": 1}],
    )
    agent.text("after tool")


def _tasks(agent: Agent, turn: Turn) -> None:
    kinds = {"call-tasks-1": "search", "call-tasks-2": "edit", "call-tasks-3": "execute"}
    for number, kind in kinds.items():
        _tool_call(agent, number, f"{kind} something", kind)
    for number in kinds:
        agent.update("tool_call_update", toolCallId=number, status="completed")
    agent.text("done tasks")


def _bash(agent: Agent, turn: Turn) -> None:
    _tool_call(agent, "call-bash-1", "ls -l", "execute", _toolName="bash", command="ls -l")
    agent.update(
        "tool_call_update",
        toolCallId="call-bash-1",
        status="failed",
        rawOutput={"exitCode": 2, "stdout": "total 0\n", "stderr": "ls: no such file\n"},
    )
    agent.text("ran bash")


def _edit(agent: Agent, number: str, diffs: list[dict[str, str]]) -> None:
    _tool_call(agent, number, "Edit file", "edit")
    content = [{"type": "diff", **diff} for diff in diffs]
    agent.update("tool_call_update", toolCallId=number, status="completed", content=content)


def _diff(agent: Agent, turn: Turn) -> None:
    path = f"{agent.cwd}/a.txt"
    _edit(
        agent,
        "call-diff-1",
        [
            {"path": path, "oldText": "one\ntwo\nthree\n", "newText": "one\n2\nthree\nfour\n"},
            {"path": f"{agent.cwd}/new.txt", "newText": "fresh\n"},
        ],
    )
    agent.text("edited")


def _bigdiff(agent: Agent, turn: Turn) -> None:
    old = "".join(f"line {n}\n" for n in range(20_000))
    new = old.replace("line 7\n", "line seven\n")
    files = [
        {"path": f"{agent.cwd}/{n}.txt", "oldText": old if n == 0 else "", "newText": new}
        for n in range(10)
    ]
    _edit(agent, "call-bigdiff-1", files)
    agent.text("edited a lot")


def _task_call(agent: Agent, number: str) -> None:
    _tool_call(
        agent,
        number,
        "Task: look around",
        "other",
        _toolName="task",
        description="look around",
        prompt="Find where the tests are.",
        subagentType="explore",
        model="composer",
    )


def _task_receipt(number: str) -> dict[str, Any]:
    return {
        "toolCallId": number,
        "description": "look around",
        "subagentType": "explore",
        "agentId": "agent-7",
        "durationMs": 1200,
    }


def _task(agent: Agent, turn: Turn) -> None:
    _task_call(agent, "call-task-1")
    agent.request("cursor/task", _task_receipt("call-task-1"))
    agent.update("tool_call_update", toolCallId="call-task-1", status="completed")
    agent.text("task done")


def _task_late(agent: Agent, turn: Turn) -> None:
    if turn.number == 1:
        _task_call(agent, "call-task-1")
        agent.text("task started")
        return
    agent.notify("cursor/task", _task_receipt("call-task-1"))
    agent.text("task done")


def permission(agent: Agent) -> dict[str, Any]:
    """The params of the permission that the scripts ask for."""
    call = {"toolCallId": "call-perm-1", "title": "Shell", "kind": "execute", "status": "pending"}
    return {"sessionId": agent.session, "toolCall": call, "options": PERMISSIONS}


def _permission(agent: Agent, turn: Turn) -> str | None:
    agent.update("tool_call", toolCallId="call-perm-1", title="Shell", kind="execute")
    result = agent.request("session/request_permission", permission(agent))
    outcome = (result or {}).get("outcome", {})
    chosen = outcome.get("optionId") or outcome.get("outcome", "error")
    allowed = chosen in ("opt-always", "opt-once")
    status = "completed" if allowed else "failed"
    agent.update("tool_call_update", toolCallId="call-perm-1", status=status)
    agent.text(f"decision:{chosen}")
    return "cancelled" if chosen == "cancelled" else None


def _ask(agent: Agent, turn: Turn) -> None:
    params = {
        "toolCallId": "call-ask-1",
        "title": "A few questions",
        "questions": [
            {"id": "q1", "prompt": "Which one?", "options": _labelled("opt-a", "opt-b")},
            {
                "id": "q2",
                "prompt": "Which ones?",
                "options": _labelled("opt-x", "opt-y", "opt-z"),
                "allowMultiple": True,
            },
        ],
    }
    result = agent.request("cursor/ask_question", params) or {}
    outcome = result.get("outcome", {})
    picked = {a["questionId"]: a["selectedOptionIds"] for a in outcome.get("answers", [])}
    said = ";".join(f"{number}={','.join(picked.get(number, []))}" for number in ("q1", "q2"))
    agent.text(f"asked:{outcome.get('outcome')}:{said}")


def _labelled(*numbers: str) -> list[dict[str, str]]:
    return [{"id": number, "label": number.removeprefix("opt-").upper()} for number in numbers]


def _make_plan(agent: Agent) -> str:
    params = {
        "name": "Fake Plan",
        "overview": "A plan in two steps",
        "plan": "1. look\n2. leap\n",
        "todos": [{"id": "t1", "content": "look", "status": "pending"}],
    }
    result = agent.request("cursor/create_plan", params) or {}
    outcome: str = result.get("outcome", {}).get("outcome", "error")
    return outcome


def _plan(agent: Agent, turn: Turn) -> None:
    agent.text(f"planned:{_make_plan(agent)}")


def _planmode(agent: Agent, turn: Turn) -> None:
    agent.set_mode("plan")
    agent.text("in plan mode")


def _planmode_card(agent: Agent, turn: Turn) -> None:
    agent.set_mode("plan")
    outcome = _make_plan(agent)
    if outcome == "accepted":
        agent.set_mode("agent")
    agent.text(f"planned:{outcome}")


def _hang(agent: Agent, turn: Turn) -> str:
    agent.hold()
    return "cancelled"


def _hang_ack(agent: Agent, turn: Turn) -> str:
    agent.text("hanging")
    agent.hold()
    agent.text("cancel seen")
    return "cancelled"


def _sigint_hold(agent: Agent, turn: Turn) -> str:
    signal.signal(signal.SIGINT, lambda *_: agent.text("sigint"))
    agent.text("holding")
    agent.hold()
    return "cancelled"


def _long_turn(agent: Agent, turn: Turn) -> str | None:
    count = 0
    while not agent.until(lambda: agent.cancelled, 0.05) and count < 200:
        count += 1
        agent.text(f"tick {count} ")
    return "cancelled" if agent.cancelled else None


def _long_reply(agent: Agent, turn: Turn) -> None:
    for number in range(200):
        agent.text(f"line {number}\n")


def _todos(notify: bool) -> Any:
    def turn(agent: Agent, turn: Turn) -> None:
        def tell(merge: bool, *todos: tuple[str, str, str]) -> None:
            rows = [{"id": i, "content": words, "status": s} for i, words, s in todos]
            params = {"toolCallId": "call-todos-1", "todos": rows, "merge": merge}
            if notify:
                agent.notify("cursor/update_todos", params)
            else:
                agent.request("cursor/update_todos", params)

        agent.text("planning")
        tell(False, ("1", "look", "inProgress"), ("2", "leap", "pending"))
        tell(True, ("1", "look", "TODO_STATUS_COMPLETED"))
        tell(True, ("2", "leap", "done"))
        agent.text("done todos")

    return turn


def _commands(agent: Agent, turn: Turn) -> None:
    agent.commands = [*agent.commands, {"name": "deploy", "description": "Ship it"}]
    agent.advertise()
    agent.advertise()
    agent.text("commands told")


def _no_commands(agent: Agent) -> None:
    agent.commands = []


def _callorder(agent: Agent, turn: Turn) -> None:
    agent.text("order: " + ",".join(agent.called))


def _markdown(agent: Agent, turn: Turn) -> None:
    for words in ("# Title\n\n", "- one\n- *two*\n\n", "```python\nprint('three')\n```\n"):
        agent.text(words)


def _title(agent: Agent, turn: Turn) -> None:
    agent.update("session_info_update", title=f"Title {turn.number}")
    agent.text("titled")


def _env(agent: Agent, turn: Turn) -> None:
    agent.text("\n".join(f"{name}={agent.env.get(name, '')}" for name in turn.text.split()))


def _turnfail(agent: Agent, turn: Turn) -> None:
    raise Refused(-32000, "the turn failed")


def _prompt_dump(agent: Agent, turn: Turn) -> None:
    agent.text(json.dumps(turn.blocks))


def _reject_image(agent: Agent, turn: Turn) -> None:
    if any(block.get("type") == "image" for block in turn.blocks):
        raise Refused(-32602, "images are not supported")
    _echo(agent, turn)


def _authfail(agent: Agent, params: dict[str, Any]) -> Any:
    raise Refused(-32000, "authentication failed")


def _noauth(agent: Agent) -> None:
    agent.flavour = agent.flavour._replace(auth=[{"id": "elsewhere", "name": "Elsewhere"}])


SCRIPTS: dict[str, Script] = {
    "echo": Script(_echo),
    "followup": Script(_followup),
    "tool": Script(_tool),
    "tasks": Script(_tasks),
    "permission": Script(_permission),
    "ask": Script(_ask),
    "plan": Script(_plan),
    "planmode": Script(_planmode),
    "planmode-card": Script(_planmode_card),
    "hang": Script(_hang),
    "hang-ack": Script(_hang_ack),
    "sigint-hold": Script(_sigint_hold),
    "long-turn": Script(_long_turn),
    "long-reply": Script(_long_reply),
    "authfail": Script(_echo, calls={"authenticate": _authfail}),
    "noauth": Script(_echo, begin=_noauth),
    "todos": Script(_todos(notify=False)),
    "todos-notify": Script(_todos(notify=True)),
    "diff": Script(_diff),
    "bigdiff": Script(_bigdiff),
    "bash": Script(_bash),
    "task": Script(_task),
    "task-late": Script(_task_late),
    "commands": Script(_commands),
    "nocommands": Script(_echo, begin=_no_commands),
    "callorder": Script(_callorder),
    "markdown": Script(_markdown),
    "title": Script(_title),
    "env": Script(_env),
    "turnfail": Script(_turnfail),
    "prompt-dump": Script(_prompt_dump),
    "reject-image": Script(_reject_image),
    "grok-echo": Script(_echo, grok=True),
    "grok-prompt-dump": Script(_prompt_dump, grok=True),
    "grok-reject-image": Script(_reject_image, grok=True),
    **agent_settings.scripts(_echo),
    **agent_load.scripts(_echo, agent_settings.settings),
    **agent_grok.SCRIPTS,
    **agent_bad.scripts(_echo, permission),
}
