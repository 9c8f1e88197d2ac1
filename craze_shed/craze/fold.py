"""A session's events folded into rows that are only ever appended.

The main agent draws rows; a sub-agent's events draw none. What the fold also keeps is what a row of
the session list says: its activity, its title, whether its context is being compacted. It is given
everything it knows and reads no clock.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from craze.transcript import notes
from craze.transcript.text import head
from craze_shed.contract import rows
from craze_shed.contract.rows import FeedApproval, FeedMessage, FeedTool
from craze_shed.craze import asks
from craze_shed.craze.asks import Ask, Book
from craze_shed.craze.prompts import typed
from craze_shed.craze.segment import Segmenter
from craze_shed.craze.settings import SettingsFold
from craze_shed.craze.values import count, filled, members, objects, text

TOOLS = 512  # remembered; one in flight is never let go
RESULT_HEAD = 512  # bytes of a tool's text, where it has no output
OMITTED = "earlier transcript omitted"
COMPACTING = "compacting context…"

_TODO_TOOL, _TODO_TITLE = "updateTodos", "Update TODOs"
_TERMINAL = frozenset(("completed", "failed", "cancelled"))
_STREAMS = {"text": rows.TEXT, "thought": rows.REASONING}
_ENTRIES = {"assistant": rows.TEXT, "thought": rows.REASONING}

Event = Mapping[str, Any]
Rows = list[FeedMessage]


class NoSnapshot(ValueError):
    """A snapshot of another version, or none at all."""


class _Tool:
    """A tool call that has a row; `detail` is what it was last called."""

    __slots__ = ("detail", "done", "name")

    def __init__(self, name: str | None, detail: str | None) -> None:
        self.name = name
        self.detail = detail
        self.done = False


class Fold:
    """The transcript of one session, `session` being the id that its lane goes by."""

    def __init__(self, session: str) -> None:
        self._run = Segmenter()
        self._tools: dict[str, _Tool] = {}
        self._replaying = False
        self._planned = 0  # the longest task list that was noted
        self._all_done = False
        self._unseen = ""  # the type of a run whose beginning was not sent: it draws nothing
        self.book = Book(session)
        self.settings = SettingsFold()
        self.activity = ""  # the last verdict; "" while nothing has been folded
        self.title: str | None = None  # as a delta last said it
        self.compacting = False
        self.truncated = False  # the snapshot did not hold everything

    @property
    def open_bytes(self) -> int:
        """The bytes of the open run, for whoever flushes one that does not grow."""
        return len(self._run)

    def adopt_info(self, info: Mapping[str, Any]) -> None:
        """Take up the session info document."""
        self.settings.adopt_info(info)
        self.book.expose(self.settings.can)

    def flush(self) -> Rows:
        """The open run as a row, ended."""
        return self._run.close()

    # ---- a snapshot ----

    def restore(self, snapshot: Any) -> Rows:
        """The rows of a snapshot, on a fresh fold that knows the info document.

        Raises NoSnapshot.
        """
        if not isinstance(snapshot, Mapping) or snapshot.get("version") != 1:
            version = snapshot.get("version") if isinstance(snapshot, Mapping) else None
            raise NoSnapshot(f"expected a snapshot of version 1, got {version!r}")
        main = members(snapshot.get("main"))
        self._replaying = snapshot.get("replaying") is True
        self._planned = count(main.get("todoPlanned"))
        self._all_done = main.get("todoDone") is True
        self.compacting = isinstance(main.get("compacting"), dict)
        omitted = bool(main.get("omitted"))
        self.truncated = main.get("windowed") is True or count(main.get("dropped")) > 0 or omitted
        drawn = [_status(OMITTED, None)] if omitted else []
        entries = objects(main.get("entries"))
        last = entries.pop() if entries and _is_open(main, entries[-1]) else None
        for entry in entries:
            drawn += self._entry(entry)
        settings = members(snapshot.get("settings"))
        self.settings.apply(settings)
        if isinstance(settings.get("title"), str):
            self.title = settings["title"]
        for record in objects(snapshot.get("asks")):
            kind = text(record.get("kind"))
            ask = self.book.read(kind, members(record.get("body")).get(kind), record.get("at"))
            if ask is not None:
                self.book.open(ask, member=False)
                drawn += self._opened(ask, _at(record))
        if last is not None:
            kind = _ENTRIES[last["kind"]]
            drawn += self._run.grow(rows.ASSISTANT, kind, text(last.get("text")), _at(last))
        elif main.get("streamOpen") is True and not entries and omitted:
            self._unseen = _ENTRIES.get(text(main.get("omittedRun")), "")
        return drawn

    def _entry(self, entry: Event) -> Rows:
        kind, words = text(entry.get("kind")), text(entry.get("text"))
        if kind == "user":
            return self._prompt(words, _at(entry), said=entry.get("interject") is True)
        if kind in _ENTRIES:
            return self._run.grow(rows.ASSISTANT, _ENTRIES[kind], words, _at(entry)) + self.flush()
        if kind == "tool":
            return self._tool_rows(members(entry.get("tool")), _at(entry))
        if kind in ("note", "error"):
            return [_status(words, _at(entry))]
        if kind == "plan":
            return _plan_rows(members(entry.get("plan")), _at(entry))
        return []

    def adopt_registry(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Make the engine's asks, as read just now, the ones that are open."""
        self.book.adopt(records)

    # ---- events ----

    def event(self, event: Any) -> Rows:
        """The rows that an event completes. One that cannot be read draws none."""
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str):
            return []
        if kind in self._MAIN:
            if "agent" in event and text(event["agent"]):
                return []
            return self._MAIN[kind](self, event)
        return self._ANYBODYS[kind](self, event) if kind in self._ANYBODYS else []

    def _text(self, event: Event) -> Rows:
        self.activity = rows.WORKING
        kind, words = _STREAMS[event["type"]], text(event.get("text"))
        if kind == self._unseen or not words:
            return []
        self._unseen = ""
        return self._run.grow(rows.ASSISTANT, kind, words, event.get("at"))

    def _turn(self, event: Event) -> Rows:
        turn = members(event.get("turn"))
        if turn.get("phase") == "started":
            self.activity = rows.WORKING
            return self._prompt(text(turn.get("text")), _at(event))
        if turn.get("phase") != "ended":
            return []
        self.activity = rows.IDLE
        self.compacting = False
        words = text(turn.get("err"))
        if not words and turn.get("stopReason") == notes.CANCELLED:
            words = notes.CANCELLED
        # Only where the agent itself said nothing of the turn's end.
        silent = turn.get("synthetic") is True and words
        return self._then(_status(words, _at(event))) if silent else []

    def _user(self, event: Event) -> Rows:
        said = event.get("interjection") is True
        if not (said or self._replaying or event.get("replayed") is True):
            return []  # the echo of a prompt, which its turn has shown
        return self._prompt(text(event.get("text")), _at(event), said=said)

    def _prompt(self, words: str, at: str | None, *, said: bool = False) -> Rows:
        """What the user sent; `said` into a running turn, where nothing leaves no row."""
        words = typed(words)
        return self._then(_row(rows.USER, rows.TEXT, words, at)) if words or not said else []

    def _tool(self, event: Event) -> Rows:
        tool = event.get("tool")
        if not isinstance(tool, Mapping):
            return []
        if tool.get("toolName") == _TODO_TOOL or text(tool.get("title")).startswith(_TODO_TITLE):
            return []  # the task list has its own rows
        return self._close() + self._tool_rows(tool, _at(event))

    def _tool_rows(self, tool: Mapping[str, Any], at: str | None) -> Rows:
        at = filled(tool.get("at")) or at
        id, title = text(tool.get("id")), filled(tool.get("title"))
        known = self._tools.get(id) if id else None
        made: Rows = []
        if known is None:
            name = filled(tool.get("toolName")) or title or filled(tool.get("name"))
            known = _Tool(name, title)
            made.append(_row(rows.TOOL, rows.TOOL_USE, None, at, tool=FeedTool(name, title)))
            if id:
                self._remember(id, known)
        known.detail = title or known.detail
        status = text(tool.get("status"))
        if status in _TERMINAL and not known.done:
            known.done = True
            shown = FeedTool(known.name, known.detail)
            made.append(_row(rows.TOOL, rows.TOOL_RESULT, _result(status, tool), at, tool=shown))
        return made

    def _remember(self, id: str, tool: _Tool) -> None:
        self._tools[id] = tool
        if len(self._tools) > TOOLS:
            done = next((known for known, one in self._tools.items() if one.done), None)
            if done is not None:
                del self._tools[done]

    def _todos(self, event: Event) -> Rows:
        items = objects(event.get("todos"))
        closed = sum(item.get("status") in ("completed", "cancelled") for item in items)
        if not items:
            return []
        if closed == len(items):
            if self._all_done:
                return []
            self._all_done = True
            return self._then(_status(f"tasks: {closed}/{len(items)} done", _at(event)))
        self._all_done = False
        if len(items) <= self._planned:
            return []
        self._planned = len(items)
        return self._then(_status(f"tasks: {len(items)} planned", _at(event)))

    def _done(self, event: Event) -> Rows:
        self.activity = rows.IDLE
        self.compacting = False
        cancelled = event.get("stopReason") == "cancelled"
        return self._close() + ([_status(notes.CANCELLED, _at(event))] if cancelled else [])

    def _error(self, event: Event) -> Rows:
        self.compacting = False
        words = text(members(event.get("err")).get("message"))
        return self._then(_status(words, _at(event))) if words else []

    def _meta(self, event: Event) -> Rows:
        state = members(event.get("state"))
        self.settings.apply(state)
        if isinstance(state.get("title"), str):
            self.title = state["title"]
        made: Rows = []
        for name in ("detail", "indexErr"):
            if words := text(state.get(name)):
                made += self._then(_status(words, _at(event)))
        return made

    def _command(self, event: Event) -> Rows:
        plugin = members(members(event.get("command")).get("pluginCommand"))
        said = {name: text(plugin.get(name)) for name in ("qualified", "kind")}
        words = notes.command({"pluginCommand": said})
        return self._then(_status(words, _at(event))) if words else []

    def _foreign_turn(self, event: Event) -> Rows:
        turn = members(event.get("foreignTurn"))
        closed = self._close()
        if turn.get("running") is not True:
            self.activity = rows.IDLE
            self.compacting = False
            return closed
        self.activity = rows.WORKING
        return [*closed, _status(notes.foreign_turn(text(turn.get("reason"))), _at(event))]

    def _replay(self, event: Event) -> Rows:
        phase = members(event.get("replay")).get("phase")
        if phase == "start":
            self._replaying = True
        if phase != "end":
            return []
        self._replaying = False
        self.compacting = False
        return self._then(_status(notes.RESTORED, _at(event)))

    def _compaction(self, event: Event) -> Rows:
        compaction = members(event.get("compaction"))
        phase = compaction.get("phase")
        if phase == "started":
            self.compacting = True
            return self._close()
        if phase != "ended":
            return []
        self.compacting = False
        said = {
            "err": text(compaction.get("err")),
            "reason": text(compaction.get("reason")),
            "tokensBefore": count(compaction.get("tokensBefore")),
            "tokensAfter": count(compaction.get("tokensAfter")),
        }
        return self._then(_status(notes.compaction(said), _at(event)))

    # ---- asks ----

    def _opening(self, event: Event) -> Rows:
        kind = event["type"]
        main = not text(event.get("agent"))
        body = event.get(kind)
        made: Rows = []
        if main and kind == "plan" and isinstance(body, Mapping) and body.get("auto") is not True:
            made = self._close() + _plan_rows(body, _at(event))
        ask = self.book.read(kind, body, event.get("at"))
        if ask is None:
            return made
        self.book.open(ask, member=True)
        return made + self._opened(ask, _at(event)) if main else made

    def _opened(self, ask: Ask, at: str | None) -> Rows:
        if ask.shown:
            return []
        ask.shown = True
        shown = ask.approval
        asked = FeedApproval(shown.id, shown.status, decisions=asks.decisions(ask))
        tool = FeedTool(ask.kind, shown.detail)
        row = _row(rows.TOOL, rows.APPROVAL_REQUEST, shown.title, at, tool, asked)
        return self._then(row)

    def _ending(self, event: Event) -> Rows:
        ending = members(event.get("ask"))
        ask = self.book.end(text(ending.get("id")))
        if ask is None or not ask.shown or text(event.get("agent")):
            return []
        ask.shown = False
        answered = ending.get("outcome") == "answered"
        decision = asks.decided(ask, ending) or None if answered else None
        shown = ask.approval
        settled = FeedApproval(shown.id, shown.status, decision)
        made = self._then(
            _row(rows.TOOL, rows.APPROVAL_REQUEST, shown.title, _at(event), approval=settled)
        )
        if answered and ending.get("kind") == ask.kind:
            made += [_status(note, _at(event)) for note in asks.notes(ask, ending)]
        return made

    # ---- runs ----

    def _close(self) -> Rows:
        self._unseen = ""
        return self._run.close()

    def _then(self, row: FeedMessage) -> Rows:
        return [*self._close(), row]

    # type -> what folds it: these whoever the event is of …
    _ANYBODYS: ClassVar[dict[str, Callable[["Fold", Event], Rows]]] = {
        "permission": _opening,
        "question": _opening,
        "plan": _opening,
        "ask": _ending,
    }
    # … and these for the main agent's alone.
    _MAIN: ClassVar[dict[str, Callable[["Fold", Event], Rows]]] = {
        "text": _text,
        "thought": _text,
        "turn": _turn,
        "user": _user,
        "tool": _tool,
        "todos": _todos,
        "done": _done,
        "error": _error,
        "meta": _meta,
        "command": _command,
        "foreign_turn": _foreign_turn,
        "replay": _replay,
        "compaction": _compaction,
    }


def _at(said: Mapping[str, Any]) -> str | None:
    return filled(said.get("at"))


def _row(
    role: str,
    type: str,
    words: str | None,
    at: str | None,
    tool: FeedTool | None = None,
    approval: FeedApproval | None = None,
) -> FeedMessage:
    return FeedMessage(ts=at, role=role, type=type, text=words, tool=tool, approval=approval)


def _status(words: str, at: str | None) -> FeedMessage:
    return _row(rows.SYSTEM, rows.STATUS, words, at)


def _plan_rows(plan: Mapping[str, Any], at: str | None) -> Rows:
    """What a plan says of itself, before anybody is asked about it."""
    parts = (f"plan {text(plan.get('name'))}".strip(), text(plan.get("overview")))
    return [_status("\n".join(filter(None, parts)), at)]


def _result(status: str, tool: Mapping[str, Any]) -> str | None:
    if status != "completed":
        return status
    output = filled(members(tool.get("output")).get("stdoutHead"))
    return output or head(filled(tool.get("contentText")) or "", RESULT_HEAD) or None


def _is_open(main: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    return (
        main.get("streamOpen") is True
        and entry.get("streaming") is True
        and text(entry.get("kind")) in _ENTRIES
    )
