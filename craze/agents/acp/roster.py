"""The sub-agents of a session: their rows, and which of the agent's session ids belongs to which.

grok reports its children by `x.ai/session_notification` and streams each one under a session id of
its own; cursor has a tool call for each and, at its end, a receipt. Both become the codec's
`subagent` rows, whole at every change.
"""

from collections.abc import Callable
from typing import Any

from craze.agents import limits
from craze.agents.acp import read
from craze.agents.acp.tools import SETTLED, Tools
from craze.events import build
from craze.events.members import payload
from craze.transcript.text import head_marked, tail_marked

Event = dict[str, Any]


class Stream:
    """What one transcript's updates are read against: its sub-agent's id ("" for the main one),
    its tool calls, and the kind and id of the message that is being streamed."""

    __slots__ = ("agent", "message", "tools")

    def __init__(self, agent: str, tools: Tools) -> None:
        self.agent = agent
        self.tools = tools
        self.message = ("", "")


class Roster:
    """Rows by the sub-agent's id, routed children by their session's. `now()` is the wire's time,
    `make_tools()` a child's own tool calls."""

    def __init__(self, now: Callable[[], str], make_tools: Callable[[], Tools]) -> None:
        self._now = now
        self._make_tools = make_tools
        self._rows: dict[str, dict[str, Any]] = {}
        self._children: dict[str, Stream] = {}

    def child(self, session: str) -> Stream | None:
        """The routed child that streams under this session id."""
        return self._children.get(session)

    # ---- grok's notifications ----

    def notified(self, update: dict[str, Any]) -> list[Event]:
        """The events of a `subagent_spawned`, `subagent_progress` or `subagent_finished`."""
        number = read.text(update, "subagent_id")
        change = _CHANGES.get(read.text(update, "sessionUpdate"))
        if not number or change is None:
            return []
        session = read.text(update, "child_session_id")
        events: list[Event] = []
        if change == "spawned":
            self._route(session, number)
            self._rows[number] = {"id": number, "status": "running", "startedAt": self._now()}
            if session in self._children:
                self._rows[number]["transcript"] = True
        row = self._rows.setdefault(number, {"id": number, "status": "running"})
        before = dict(row)
        row.update(_stated(update))
        parent = self._children.get(read.text(update, "parent_session_id"))
        if parent is not None:
            row["parentId"] = parent.agent
        if change == "finished":
            status = read.text(update, "status")
            row["status"] = status if status in SETTLED else (
                "failed" if row.get("error") else "completed"
            )  # fmt: skip
            row["endedAt"] = self._now()
            events += self._settle(session, number, row["status"])
            self._forget()
        if change != "progress" or row != before:
            events.append(_event(row, change))
        return events

    def ended(self, status: str) -> list[Event]:
        """Whatever runs has ended, and nobody will say so."""
        running = [number for number, row in self._rows.items() if row["status"] not in SETTLED]
        change = {"sessionUpdate": "subagent_finished", "status": status}
        return [
            event
            for number in running
            for event in self.notified({**change, "subagent_id": number})
        ]

    def _route(self, session: str, number: str) -> None:
        if not session:
            return
        if session not in self._children and len(self._children) >= limits.CHILDREN_ROUTED:
            return
        self._children[session] = Stream(number, self._make_tools())

    def _settle(self, session: str, number: str, status: str) -> list[Event]:
        """A finished child's stream ends here; what its tools left open ends with it."""
        child = self._children.pop(session, None)
        if child is None:
            found = next((s for s, c in self._children.items() if c.agent == number), "")
            child = self._children.pop(found, None)
        if child is None:
            return []
        return [build.tool(call, number) for call in child.tools.settle(status, self._now())]

    def _forget(self) -> None:
        """Keep the newest rows, letting go of finished ones only."""
        over = len(self._rows) - limits.ROWS_KEPT
        if over > 0:
            ended = [number for number, row in self._rows.items() if row["status"] in SETTLED]
            for number in ended[:over]:
                del self._rows[number]

    def prompted(self, child: Stream, words: str) -> list[Event]:
        """A piece of the prompt that a child was given, for its row."""
        row = self._rows.get(child.agent)
        if row is None:
            return []
        prompt = head_marked(row.get("prompt", "") + words, limits.ROW_PROMPT)
        if prompt == row.get("prompt"):
            return []
        row["prompt"] = prompt
        return [_event(row, "progress")]

    # ---- cursor's tool calls and receipts ----

    def called(self, call: dict[str, Any]) -> list[Event]:
        """The events of a tool call that starts a sub-agent, where no other report names it: its
        row is called as the call is."""
        task = call.get("task")
        if task is None:
            return []
        number = call["id"]
        row = self._rows.get(number)
        fresh = row is None
        if row is None:
            row = self._rows[number] = {
                "id": number, "toolCallId": number, "status": "running", "startedAt": self._now(),
            }  # fmt: skip
        elif row["status"] in SETTLED:
            return []
        before = dict(row)
        for name, cap in (
            ("description", limits.ROW_DESCRIPTION),
            ("subagentType", limits.ROW_TYPE),
            ("model", limits.ROW_MODEL),
            ("prompt", limits.ROW_PROMPT),
        ):
            if task.get(name):
                row[name] = head_marked(task[name], cap)
        if task.get("background"):
            row["background"] = True
        if task.get("durationMs"):
            row["durationMs"] = task["durationMs"]
        events = [_event(row, "spawned")] if fresh else []
        if task.get("status") in SETTLED:
            row["status"] = task["status"]
            row["endedAt"] = self._now()
            self._forget()
            if call.get("contentText"):
                row["output"] = call["contentText"]
            events.append(_event(row, "finished"))
        elif not fresh and row != before:
            events.append(_event(row, "progress"))
        return events


_CHANGES = {
    "subagent_spawned": "spawned",
    "subagent_progress": "progress",
    "subagent_finished": "finished",
}


def _stated(update: dict[str, Any]) -> dict[str, Any]:
    """What a notification says of a row, cut to the roster's caps."""
    used = update.get("tools_used")
    stated = {
        "attemptId": read.text(update, "attempt_id"),
        "toolCallId": read.text(update, "tool_call_id"),
        "description": head_marked(read.text(update, "description"), limits.ROW_DESCRIPTION),
        "subagentType": head_marked(read.text(update, "subagent_type"), limits.ROW_TYPE),
        "model": head_marked(read.text(update, "model"), limits.ROW_MODEL),
        "error": head_marked(read.text(update, "error"), limits.ROW_ERROR),
        "output": tail_marked(read.text(update, "output"), limits.ROW_OUTPUT),
        "durationMs": read.number(update, "duration_ms"),
        "toolCalls": read.number(update, "tool_calls", "tool_call_count"),
        "turns": read.number(update, "turns", "turn_count"),
        "tokensUsed": read.number(update, "tokens_used"),
        "toolsUsed": [name for name in used if isinstance(name, str)][-limits.ROW_TOOLS_USED :]
        if isinstance(used, list)
        else [],
    }
    return {name: value for name, value in stated.items() if value}


def _event(row: dict[str, Any], change: str) -> Event:
    return build.subagent(payload("subagent", **row), change)
