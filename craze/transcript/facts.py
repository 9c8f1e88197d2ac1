"""What a row says of a session's transcript (protocol tables 5.2). Nothing here is cut."""

from typing import Any, Final

from craze.transcript import notes
from craze.transcript.entries import Entry
from craze.transcript.state import State

_UNFINISHED: Final = (None, "pending", "in_progress")  # a status not sent is a pending one


def doing(state: State) -> str:
    """What the running turn is at: its newest unfinished tool, else responding, else thinking.

    Says nothing of whether a turn runs: ask only while one does.
    """
    for entry in reversed(state.main.entries):
        if _begins_turn(entry):
            break
        call = entry.get("tool")
        if call is not None and call.get("status") in _UNFINISHED:
            return _title(call)
    run = state.main.run
    return "Responding" if run is not None and run.kind == "assistant" else "Thinking"


def last_reply(state: State) -> str:
    """The newest assistant message that is complete, whole; "" when there is none."""
    run = state.main.run
    growing = run.entry if run is not None else None
    for entry in reversed(state.main.entries):
        if entry["kind"] == "assistant" and entry is not growing:
            return str(entry.get("text", ""))
    return ""


def _begins_turn(entry: Entry) -> bool:
    if entry["kind"] == "user":
        return not entry.get("interject")
    words = entry.get("text")
    return entry["kind"] == "note" and (words == notes.RESTORED or words in notes.FOREIGN_TURNS)


def _title(call: dict[str, Any]) -> str:
    return call.get("title") or call.get("name") or ""
