"""The fold's rules, one function for each event type (codecs 3.1 to 3.4).

`MAIN` are the rules of the session's own events, `CHILD` those a sub-agent's transcript folds.
A rule gets the state, the transcript the event was routed to, the event and its time.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from craze.events import codec
from craze.events.members import PAYLOADS
from craze.transcript import caps, notes, text
from craze.transcript.entries import Transcript, plan_size
from craze.transcript.state import CAPPED_SECTIONS, Agent, Ask, State
from craze.wire.times import parse_time

Event = Mapping[str, Any]
Rule = Callable[[State, Transcript, Event, str], None]

_ACTIVITY: Final = 256
_TODO_TOOL: Final = "updateTodos"
_TODO_TITLE: Final = "Update TODOs"
_CLOSED: Final = ("completed", "cancelled")
_LISTS: Final = {"config": "options", "commands": "commands", "plugins": "plugins"}


# ---- what both kinds of transcript fold ----


def _text(state: State, transcript: Transcript, event: Event, at: str) -> None:
    words = event.get("text")
    if words:
        transcript.stream("assistant", words, at)


def _thought(state: State, transcript: Transcript, event: Event, at: str) -> None:
    words = event.get("text")
    if words:
        transcript.stream("thought", words, at)


def _tool(state: State, transcript: Transcript, event: Event, at: str) -> None:
    call = event.get("tool")
    if call is None:
        return
    # A todo list has its own notes; a row for the tool that changes it would say it twice.
    if call.get("toolName") == _TODO_TOOL or call.get("title", "").startswith(_TODO_TITLE):
        return
    transcript.tool(call, at)


def _command(state: State, transcript: Transcript, event: Event, at: str) -> None:
    words = notes.command(event.get("command") or {})
    if words:
        transcript.note(words, at)


def _compaction(state: State, transcript: Transcript, event: Event, at: str) -> None:
    bracket = event.get("compaction") or {}
    phase = bracket.get("phase")
    if phase == "started":
        transcript.close_run(at)
        reason = bracket.get("reason")
        open_since = {"since": at} if at else {}
        transcript.compacting = {**open_since, "reason": reason} if reason else open_since
    elif phase == "ended":
        transcript.compacting = None
        transcript.note(notes.compaction(bracket), at)


# ---- a sub-agent's own ----


def _child_user(state: State, transcript: Transcript, event: Event, at: str) -> None:
    words = event.get("text")
    if words:
        transcript.stream("user", words, at)


def _child_tool(state: State, transcript: Transcript, event: Event, at: str) -> None:
    title = (event.get("tool") or {}).get("title")
    row = state.agents.get(transcript.agent)
    if title and row is not None:
        shown = {**row.info, "activity": text.head_marked(title, _ACTIVITY)}
        row.info = {name: shown[name] for name in PAYLOADS["subagent"] if name in shown}
    _tool(state, transcript, event, at)


# ---- the session's own ----


def _user(state: State, main: Transcript, event: Event, at: str) -> None:
    interjection = bool(event.get("interjection"))
    if not (interjection or state.replaying or event.get("replayed")):
        return  # the echo of a prompt: the turn's start drew it
    words = text.without_shell_context(event.get("text", ""))
    if words or not interjection:
        main.words("user", words, at, interject=interjection)


def _todos(state: State, main: Transcript, event: Event, at: str) -> None:
    items = event.get("todos") or []
    state.todos = items
    state.todos_truncated = False
    if not items:
        return
    closed = sum(item.get("status") in _CLOSED for item in items)
    if closed == len(items):
        if not main.todo_done:
            main.todo_done = True
            main.note(f"tasks: {closed}/{len(items)} done", at)
        return
    main.todo_done = False
    if len(items) > main.todo_planned:
        main.todo_planned = len(items)
        main.note(f"tasks: {len(items)} planned", at)


def _permission(state: State, main: Transcript, event: Event, at: str) -> None:
    main.close_run(at)
    _open(state, "permission", event.get("permission"), at)


def _question(state: State, main: Transcript, event: Event, at: str) -> None:
    body = event.get("question") or {}
    if not body.get("auto"):
        main.close_run(at)
    _open(state, "question", body, at)


def _plan(state: State, main: Transcript, event: Event, at: str) -> None:
    body = event.get("plan")
    if body is None:
        return
    if not body.get("auto"):
        main.append("plan", at, plan_size(body), {"plan": body})
    _open(state, "plan", body, at)


def _open(state: State, kind: str, body: Mapping[str, Any] | None, at: str) -> None:
    ident = body.get("id") if body else None
    if body and ident:
        state.asks[ident] = Ask(ident, kind, body, at)


def _ask(state: State, main: Transcript, event: Event, at: str) -> None:
    ending = event.get("ask") or {}
    ident = ending.get("id")
    if not ident:
        return
    held = state.asks.pop(ident, None)
    if held is not None and _drawn(state, held, ending):
        body, _ = caps.ask_body(held.kind, held.body)
        for words in notes.outcome(held.kind, body, ending):
            main.note(words, at)
    record = {name: ending[name] for name in ("id", "kind", "outcome", "by") if ending.get(name)}
    if at:
        record["at"] = at
    state.ended[ident] = record
    if len(state.ended) > state.bounds.ended:
        del state.ended[next(iter(state.ended))]


def _drawn(state: State, held: Ask, ending: Mapping[str, Any]) -> bool:
    """Whether an ask's end is drawn: an answer to a card that this session shows."""
    if ending.get("outcome") != "answered" or ending.get("kind") != held.kind:
        return False
    cards = {"question": state.ask_cards, "plan": state.plan_cards}
    return cards.get(held.kind, False) and not held.body.get("auto")


def _done(state: State, main: Transcript, event: Event, at: str) -> None:
    main.close_run(at)
    main.compacting = None
    if event.get("stopReason") == "cancelled":
        main.note(notes.CANCELLED, at)


def _error(state: State, main: Transcript, event: Event, at: str) -> None:
    main.compacting = None
    err = event.get("err") or {}
    message = err.get("message")
    if message:
        code = {"class": err.get("class", ""), "code": err.get("code", 0)}
        main.append("error", at, text.size(message), {"text": message, "err": code})


def _turn(state: State, main: Transcript, event: Event, at: str) -> None:
    bracket = event.get("turn") or {}
    phase = bracket.get("phase")
    if phase == "started":
        _turn_started(state, main, bracket, at)
    elif phase == "ended":
        _turn_ended(state, main, bracket, at)


def _turn_started(state: State, main: Transcript, bracket: Mapping[str, Any], at: str) -> None:
    turn = state.turn
    turn.id = bracket.get("id", "")
    turn.text = bracket.get("text", "")
    turn.origin = bracket.get("origin", "")
    turn.at = at
    turn.truncated = False
    state.last_turn = None
    if turn.origin == "send_now":
        state.settings.pop("sendNow", None)
        state.cut_sections.discard("sendNow")
    main.words("user", text.without_shell_context(turn.text), at)


def _turn_ended(state: State, main: Transcript, bracket: Mapping[str, Any], at: str) -> None:
    if bracket.get("id") == state.turn.id:
        state.turn.id = ""
    main.compacting = None
    failure, reason = bracket.get("err", ""), bracket.get("stopReason")
    if bracket.get("synthetic"):
        if failure:
            main.words("error", failure, at)
        elif reason == "cancelled":
            main.note(notes.CANCELLED, at)
    cancelled = reason in ("cancelled", "closing")
    outcome = "failed" if failure else "cancelled" if cancelled else "done"
    state.last_turn = last_turn(outcome, failure, at, bracket.get("id", ""))


def _foreign_turn(state: State, main: Transcript, event: Event, at: str) -> None:
    bracket = event.get("foreignTurn")
    state.turn.foreign = bracket
    main.close_run(at)
    if bracket is not None and bracket.get("running"):
        state.last_turn = None
        main.note(notes.foreign_turn(bracket.get("reason", "")), at)
        return
    main.compacting = None
    if bracket is not None:
        state.last_turn = last_turn("done", "", at, bracket.get("id", ""))


def last_turn(outcome: str, err: str, ended_at: str, turn: str) -> dict[str, Any]:
    """The `lastTurn` document (codecs 3.4), members in wire order."""
    made = {"outcome": outcome, "endedAt": ended_at, "turnId": turn}
    return {"outcome": outcome, "err": err, "endedAt": ended_at, "turnId": turn} if err else made


def _replay(state: State, main: Transcript, event: Event, at: str) -> None:
    phase = (event.get("replay") or {}).get("phase")
    if phase == "start":
        state.replaying = True
    elif phase == "end":
        state.replaying = False
        main.compacting = None
        main.note(notes.RESTORED, at)


def _meta(state: State, main: Transcript, event: Event, at: str) -> None:
    delta = event.get("state")
    if delta is None:
        return
    for section in CAPPED_SECTIONS:
        value = delta.get(section)
        if value is not None:
            _replace(state, section, _held(section, value))
    if delta.get("usage"):
        state.settings["usage"] = delta["usage"]
    _catalog(state, delta.get("catalog"))
    for name in ("detail", "indexErr"):
        if delta.get(name):
            main.words("error", delta[name], at)


def _held(section: str, value: Any) -> Any:
    """What is kept of a section; anything false for nothing."""
    if section == "slash":
        return codec.slash(value)
    if section in _LISTS:
        return value if value.get(_LISTS[section]) else None
    return value


def _replace(state: State, section: str, held: Any) -> None:
    if held:
        state.settings[section] = held
    else:
        state.settings.pop(section, None)
    state.cut_sections.discard(section)


def _catalog(state: State, offered: Mapping[str, Any] | None) -> None:
    """A list older than the one held never brings back what the session has moved past."""
    if not offered:
        return
    held = state.settings.get("catalog")
    if held is None or offered.get("revision", 0) >= held.get("revision", 0):
        state.settings["catalog"] = offered


def _queue(state: State, main: Transcript, event: Event, at: str) -> None:
    row = event.get("queue")
    if row is None:
        return
    ident, change, rows = row.get("id", ""), event.get("queueChange"), state.queue
    place = next((i for i, held in enumerate(rows) if held.get("id", "") == ident), None)
    if change == "queued" and place is None:
        rows.insert(min(max(event.get("queuePos", 0), 0), len(rows)), row)
    elif change in ("queued", "edited"):
        if place is not None:
            rows[place] = row
    elif change in ("removed", "sent"):
        if place is not None:
            del rows[place]
    else:
        return
    state.cut_rows.discard(ident)


def _subagent(state: State, main: Transcript, event: Event, at: str) -> None:
    info = event.get("subagent") or {}
    ident = info.get("id")
    if not ident:
        return
    child = state.child(ident)
    row = state.agents.get(ident)
    if row is None:
        row = state.agents[ident] = Agent(info)
    row.info = info
    row.truncated = False
    change = event.get("subagentChange")
    if change == "spawned":
        row.finish = 0
        child.compacting = None
    elif change == "finished":
        if not row.finish:
            state.finish_seq += 1
            row.finish = state.finish_seq
        child.close_run(at)
        child.compacting = None
        _evict(state, ident)


def _evict(state: State, just_finished: str) -> None:
    """Drops the oldest finished rows past the bound, and their transcripts with them."""
    finished = {
        ident: row
        for ident, row in state.agents.items()
        if row.info.get("status") not in (None, "", "running")
    }
    excess = len(finished) - state.bounds.finished
    if excess <= 0:
        return
    finished.pop(just_finished, None)
    for ident in sorted(finished, key=lambda ident: _finished_order(finished[ident]))[:excess]:
        del state.agents[ident]
        state.subs.pop(ident, None)


def _finished_order(row: Agent) -> tuple[int, int]:
    try:
        return parse_time(row.info.get("endedAt", "")), row.finish
    except ValueError:
        return -(1 << 63), row.finish  # no time at all is before every time


MAIN: Final[dict[str, Rule]] = {
    "text": _text,
    "thought": _thought,
    "tool": _tool,
    "todos": _todos,
    "permission": _permission,
    "question": _question,
    "plan": _plan,
    "done": _done,
    "error": _error,
    "meta": _meta,
    "user": _user,
    "subagent": _subagent,
    "queue": _queue,
    "command": _command,
    "foreign_turn": _foreign_turn,
    "replay": _replay,
    "turn": _turn,
    "ask": _ask,
    "compaction": _compaction,
}

CHILD: Final[dict[str, Rule]] = {
    "text": _text,
    "thought": _thought,
    "user": _child_user,
    "tool": _child_tool,
    "command": _command,
    "compaction": _compaction,
}
