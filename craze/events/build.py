"""One constructor for each of the 19 event types: the only way an event is made.

An event is a plain dict with its members in wire order, without `at`: the log stamps that, as the
last member, when it commits the event. Nobody changes an event, or anything it holds, after that.
"""

from collections.abc import Mapping
from typing import Any

from craze.events.members import EVENT, payload

Event = dict[str, Any]


def text(words: str, agent: str = "") -> Event:
    """A piece of the assistant's reply."""
    event: Event = {"type": "text", "text": words} if words else {"type": "text"}
    if agent:
        event["agent"] = agent
    return event


def _event(kind: str, **members: Any) -> Event:
    made: Event = {"type": kind}
    for name in EVENT:
        value = members.get(name)
        if value or isinstance(value, dict):
            made[name] = value
    return made


def thought(words: str, agent: str = "") -> Event:
    """A piece of thinking."""
    return _event("thought", text=words, agent=agent)


def user(words: str, agent: str = "", interjection: bool = False) -> Event:
    """An echo of a prompt, an interjection, a replayed prompt, or a child's prompt."""
    return _event("user", text=words, agent=agent, interjection=interjection)


def tool(call: Mapping[str, Any], agent: str = "") -> Event:
    """A tool call's whole current state (`payload("tool", …)`)."""
    return _event("tool", tool=call, agent=agent)


def todos(items: list[dict[str, Any]]) -> Event:
    """The whole todo list; an empty one clears it."""
    return _event("todos", todos=items)


def opening(kind: str, body: Mapping[str, Any]) -> Event:
    """An ask's opening: `kind` is permission, question or plan, and so is the body's member."""
    return _event(kind, **{kind: body})


def ending(ask: Mapping[str, Any], cause: str = "") -> Event:
    """An ask's one ending (`payload("ask", …)`)."""
    return _event("ask", ask=ask, cause=cause)


def done(stop_reason: str) -> Event:
    """The agent's own ending of a turn."""
    return _event("done", stopReason=stop_reason)


def error(message: str, kind: str = "other", code: int = 0) -> Event:
    """The agent's failed ending of a turn; `kind` is the error's class."""
    return _event("error", err={"message": message, "class": kind, "code": code})


def meta(state: Mapping[str, Any], title: str = "", mode: str = "", cause: str = "") -> Event:
    """A state delta; `title` and `mode` only when the agent itself made that change.

    `state`'s members must be in wire order (`payload("state", …)` leaves a cleared title out, so
    build such a one by hand).
    """
    return _event("meta", text=title, mode=mode, state=state, cause=cause)


def subagent(row: Mapping[str, Any], change: str) -> Event:
    """A sub-agent's whole roster row; `change` is spawned, progress or finished."""
    return _event("subagent", subagent=row, subagentChange=change)


def queue(row: Mapping[str, Any], change: str, position: int = 0, cause: str = "") -> Event:
    """A queue change: queued, edited, removed or sent, at the position the row held."""
    return _event("queue", queue=row, queueChange=change, queuePos=position, cause=cause)


def command(expanded: Mapping[str, Any], agent: str = "") -> Event:
    """A plugin command expanded into the prompt about to be sent."""
    return _event("command", command=expanded, agent=agent)


def foreign_turn(bracket: Mapping[str, Any]) -> Event:
    """One end of a turn the agent runs on its own."""
    return _event("foreign_turn", foreignTurn=bracket)


def replay(phase: str) -> Event:
    """One end of a load's replay: start or end."""
    return _event("replay", replay={"phase": phase})


def turn_started(turn: str, words: str, origin: str, cause: str = "") -> Event:
    """A turn of craze's starts; `origin` is submit, drain or send_now."""
    return _event(
        "turn", turn=payload("turn", id=turn, phase="started", text=words, origin=origin),
        cause=cause,
    )  # fmt: skip


def turn_ended(turn: str, cause: str = "", **members: Any) -> Event:
    """A turn of craze's has ended; the members are those of `payload("turn", …)`."""
    return _event("turn", turn=payload("turn", id=turn, phase="ended", **members), cause=cause)


def compaction(phase: str, agent: str = "", **members: Any) -> Event:
    """One end of a context compaction."""
    return _event("compaction", compaction=payload("compaction", phase=phase, **members),
                  agent=agent)  # fmt: skip


def replayed(event: Event) -> Event:
    """The event as a replay carries it: marked `replayed`, at that member's place."""
    marked = dict(event, replayed=True)
    return {name: marked[name] for name in EVENT if name in marked}
