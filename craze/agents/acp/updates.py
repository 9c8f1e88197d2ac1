"""What an agent tells about its session, turned into events: every kind of `session/update`, and
the notifications that cursor and grok add.

No I/O and no waiting: one `Session` holds what was told so far and returns the events that a
message makes. Events of state (`meta`) are for a session that is up; until then the install delta
restates what they say, and whoever emits events leaves them out.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from craze.agents import limits
from craze.agents.acp import asks, read
from craze.agents.acp.catalog import BadCatalog, Catalog
from craze.agents.acp.roster import Roster, Stream
from craze.agents.acp.tools import Tools
from craze.agents.acp.turns import Turns
from craze.events import build
from craze.machine.providers import Provider
from craze.transcript.text import head_marked

Event = dict[str, Any]


class Session:
    """One agent's session. `now()` is the wire's time; `counters` counts what was dropped."""

    def __init__(self, provider: Provider, now: Callable[[], str], counters: Counter[str]) -> None:
        self.id = ""
        self.replaying = False
        self.catalog = Catalog(provider.modes)
        self.turns = Turns()
        self.main = Stream("", self._tools(provider))
        self.roster = Roster(now, lambda: self._tools(provider))
        self._provider = provider
        self._now = now
        self._counters = counters
        self._user: list[str] = []  # the replayed prompt that is being told
        self._todos: list[dict[str, Any]] = []

    @staticmethod
    def _tools(provider: Provider) -> Tools:
        return Tools(provider.task_tools, provider.task_title)

    def stream(self, params: dict[str, Any]) -> Stream | None:
        """The transcript that a message's `sessionId` means; None for a session not known here."""
        session = read.text(params, "sessionId")
        return self.main if session == self.id else self.roster.child(session)

    # ---- session/update ----

    def update(self, params: dict[str, Any]) -> list[Event]:
        """The events of one `session/update`."""
        stream = self.stream(params)
        if stream is None:
            self._counters["unknown_session"] += 1
            return []
        update = read.inner(params, "update")
        kind = read.text(update, "sessionUpdate")
        events = self.flush() if stream is self.main and kind != "user_message_chunk" else []
        handler = _KINDS.get(kind)
        if handler is None:
            self._counters["unknown_update"] += 1
            return events
        if kind not in _CHUNKS:
            stream.message = ("", "")
        return [*events, *handler(self, stream, update)]

    def flush(self) -> list[Event]:
        """The replayed prompt told so far, as its one event."""
        words, self._user = "".join(self._user), []
        return [build.user(words)] if words else []

    @staticmethod
    def _begins(stream: Stream, update: dict[str, Any]) -> bool:
        """Whether a chunk begins another message than the one just told, of the same kind and with
        nothing between: only their ids tell them apart."""
        kind, number = read.text(update, "sessionUpdate"), read.text(update, "messageId")
        before, stream.message = stream.message, (kind, number)
        return bool(number) and before[0] == kind and before[1] not in ("", number)

    def _words(self, stream: Stream, update: dict[str, Any]) -> str:
        """The words of a chunk, an empty line before those that begin another message."""
        apart = self._begins(stream, update)
        words = read.block(update.get("content"))
        return "\n\n" + words if words and apart else words

    def _text(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        words = self._words(stream, update)
        return [build.text(words, stream.agent)] if words else []

    def _thought(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        words = self._words(stream, update)
        return [build.thought(words, stream.agent)] if words else []

    def _prompted(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        apart = self._begins(stream, update)
        words = read.block(update.get("content"))
        if stream is not self.main:
            if not words:
                return []
            return [*self.roster.prompted(stream, words), build.user(words, stream.agent)]
        if not self.replaying:
            return []
        events = self.flush() if apart else []
        self._user.append(words)
        return events

    def _tool(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        return self.called(stream, update, update.get("_meta"))

    def called(self, stream: Stream, call: dict[str, Any], meta: Any = None) -> list[Event]:
        """The events of a tool call's change, wherever it was told."""
        made = stream.tools.update(call, meta, self._now())
        return self._tool_events(stream, made)

    def _tool_events(self, stream: Stream, made: dict[str, Any] | None) -> list[Event]:
        if made is None:
            return []
        events = [build.tool(made, stream.agent)]
        if self._provider.dialect == "cursor" and stream is self.main:
            events += self.roster.called(made)
        return events

    def _plan(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        if self._provider.dialect == "cursor" or stream is not self.main:
            return []
        self._todos = asks.todos(update, "entries", "plan")
        return [build.todos(self._todos)]

    def _commands(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        if stream is not self.main or not self.catalog.list_commands(update):
            return []
        return [build.meta(self.catalog.command_sections())]

    def _mode(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        mode = read.text(update, "currentModeId", "modeId")
        if stream is not self.main or not mode or mode == self.catalog.mode:
            return []
        before = self.catalog.config()
        self.catalog.apply("mode", "", mode)
        state: dict[str, Any] = {"mode": mode}
        if self.catalog.config() != before:
            state["config"] = self.catalog.config()
        return [build.meta(state, mode=mode)]

    def _info(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        title = read.text(update, "title")
        if stream is not self.main or not title or title == self.catalog.title:
            return []
        self.catalog.title = title
        return [build.meta({"title": title}, title=title)]

    def _options(self, stream: Stream, update: dict[str, Any]) -> list[Event]:
        if stream is not self.main:
            return []
        before = self.catalog.settings()
        try:
            self.catalog.take(update)
        except BadCatalog:
            self._counters["bad_catalog"] += 1
            return []
        state = changed(before, self.catalog.settings())
        return [build.meta(state, mode=state.get("mode", ""))] if state else []

    # ---- the ends of things ----

    def replayed(self) -> list[Event]:
        """The replay is over: what it left open ended with the process that ran it."""
        events = self.flush()
        self.replaying = False
        self.main.message = ("", "")
        made = self.main.tools.settle("cancelled", self._now())
        events += [event for call in made for event in self._tool_events(self.main, call)]
        return events + self.roster.ended("cancelled")

    def ended(self, stop_reason: str, failed: bool) -> list[Event]:
        """A turn of craze's has ended: what it left open will not go on."""
        self.main.message = ("", "")
        if failed or stop_reason == "cancelled":
            made = self.main.tools.settle("failed" if failed else "cancelled", self._now())
        else:  # one that is in progress may be a background task's; one never begun was refused
            made = self.main.tools.settle("failed", self._now(), only=("pending",))
        return [event for call in made for event in self._tool_events(self.main, call)]

    # ---- cursor's own ----

    def todos(self, params: dict[str, Any]) -> tuple[list[Event], list[dict[str, Any]]]:
        """`cursor/update_todos`: the event, and the whole list as it is now."""
        told = asks.todos(params, "todos", "todo")
        if params.get("merge") is True:
            held = {todo["id"]: todo for todo in self._todos}
            held.update({todo["id"]: todo for todo in told})
            told = list(held.values())
        self._todos = told
        return [build.todos(told)], told

    def task(self, params: dict[str, Any]) -> list[Event]:
        """`cursor/task`: the receipt of a sub-agent, joined to its tool call."""
        stated = {
            "description": read.text(params, "description"),
            "prompt": head_marked(read.text(params, "prompt"), limits.TASK_PROMPT),
            "model": read.text(params, "model"),
            "agentId": read.text(params, "agentId"),
            "subagentType": read.text(params, "subagentType"),
            "durationMs": read.number(params, "durationMs"),
            "receipt": True,
            "status": "completed",
        }
        made = self.main.tools.receipt(read.text(params, "toolCallId"), stated, self._now())
        return self._tool_events(self.main, made)

    # ---- grok's own ----

    def vendor(self, method: str, params: dict[str, Any]) -> list[Event]:
        """The events of a grok notification that is not the end of craze's own prompt."""
        params = read.peel(params)
        if method == "x.ai/queue/changed":
            return self.turns.changed(params)
        if method == "x.ai/session/interjection":
            return self.turns.interjected(params)
        if method == "x.ai/session_notification":
            update = read.inner(params, "update")
            if read.text(update, "sessionUpdate") == "turn_completed":
                return self.turns.completed(read.text(update, "prompt_id"))
            return self.roster.notified(update)
        return []


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The sections that differ, in their order."""
    return {name: value for name, value in after.items() if before.get(name) != value}


_CHUNKS = frozenset(("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"))

_KINDS: dict[str, Callable[[Session, Stream, dict[str, Any]], list[Event]]] = {
    "agent_message_chunk": Session._text,
    "agent_thought_chunk": Session._thought,
    "user_message_chunk": Session._prompted,
    "tool_call": Session._tool,
    "tool_call_update": Session._tool,
    "plan": Session._plan,
    "available_commands_update": Session._commands,
    "current_mode_update": Session._mode,
    "session_info_update": Session._info,
    "config_option_update": Session._options,
}
