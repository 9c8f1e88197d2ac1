"""What the transcript's tests share: folding by hand, and random histories."""

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

from craze.events import build
from craze.events.members import payload
from craze.transcript import Model
from craze.transcript.entries import Transcript
from craze.transcript.state import BOUNDS, Bounds

Event = dict[str, Any]

SMALL = Bounds(
    main_entries=7, main_bytes=400, child_entries=4, child_bytes=150, finished=2, ended=3
)
SLASH_ROW = {
    "name": "help",
    "description": "Keys",
    "source": "builtin",
    "run": {"kind": "local", "local": "help"},
}


def minute(number: int) -> str:
    return f"2026-01-01T{number // 60:02d}:{number % 60:02d}:00Z"


def stamped(event: Event, number: int) -> Event:
    return {**event, "at": minute(number)}


class Folding:
    """A model, and the seq (which is the minute, too) of the last event it was given."""

    def __init__(self, *events: Event, bounds: Bounds = BOUNDS, **options: Any) -> None:
        self.model = Model("log-1", bounds=bounds, **options)
        self.seq = 0
        self.add(*events)

    def add(self, *events: Event) -> "Folding":
        for event in events:
            self.seq += 1
            self.model.fold(self.seq, stamped(event, self.seq))
        return self

    @property
    def main(self) -> Transcript:
        return self.model.main

    def documents(self, agent: str = "") -> list[dict[str, Any]]:
        return (self.model.subs[agent] if agent else self.main).documents()

    def rows(self, agent: str = "") -> list[tuple[str, str]]:
        """Kind and text of each entry; of a tool or a plan, its id."""
        return [row(document) for document in self.documents(agent)]


def row(document: Mapping[str, Any]) -> tuple[str, str]:
    held = document.get("tool") or document.get("plan")
    return document["kind"], held.get("id", "") if held else document.get("text", "")


def folded(events: Iterable[tuple[int, Event]], model: Model) -> Model:
    for seq, event in events:
        model.fold(seq, event)
    return model


# ---- random histories ----

_WORDS = st.text(st.sampled_from('ab é…\n"\\\u2028😀'), max_size=30)
_SOME_WORDS = st.text(st.sampled_from("xyz é😀"), min_size=1, max_size=40)
_AGENT = st.sampled_from(("", "", "", "sub-1", "sub-2", "sub-3", "sub-4"))
_TOOL_ID = st.sampled_from(("", "t-1", "t-2", 't-"3"'))
_ASK_ID = st.sampled_from(("", "ask-1", "ask-2", "ask-3", "ask-4", "ask-5"))
_TURN_ID = st.sampled_from(("turn-1", "turn-2"))
_ROW_ID = st.sampled_from(("q-1", "q-2", "q-3"))
_TODOS = st.lists(
    st.builds(
        lambda content, status: payload("todo", content=content, status=status),
        _WORDS,
        st.sampled_from(("pending", "completed", "cancelled")),
    ),
    max_size=3,
)
_TOOLS = st.builds(
    lambda ident, name, title, status, words, path: payload(
        "tool", id=ident, name=title, status=status, title=title, toolName=name,
        contentText=words, locations=[path] if path else [],
        output={"exitCode": 0} if status else None,
        diffs=[payload("diff", path=path, newText=words)] if path else [],
    ),
    _TOOL_ID,
    st.sampled_from(("Shell", "updateTodos")),
    _WORDS,
    st.sampled_from(("", "in_progress", "completed")),
    _WORDS,
    st.sampled_from(("", "/a/b")),
)  # fmt: skip
_QUESTIONS = st.builds(
    lambda ident, title, auto: payload(
        "question", id=ident, title=title, auto=auto,
        questions=[payload("subQuestion", id="one", prompt=title or "which",
                           options=[payload("questionOption", id="a", label="A"),
                                    payload("questionOption", id="b", label="B")])],
    ),
    _ASK_ID, _WORDS, st.booleans(),
)  # fmt: skip
_PLANS = st.builds(
    lambda ident, name, todos, auto: payload("plan", id=ident, name=name, todos=todos, auto=auto),
    _ASK_ID,
    _WORDS,
    _TODOS,
    st.booleans(),
)
_ENDINGS = st.builds(
    lambda ident, kind, outcome, answers, skip: payload(
        "ask", id=ident, kind=kind, outcome=outcome, by="client", answers=answers, skip=skip
    ),
    _ASK_ID,
    st.sampled_from(("permission", "question", "plan")),
    st.sampled_from(("answered", "answered", "cancelled")),
    st.sampled_from((None, {"one": ["a", "b"]}, {"one": []}, {"one": None})),
    st.booleans(),
)
_STATES = st.fixed_dictionaries(
    {},
    optional={
        "title": _WORDS,
        "mode": st.sampled_from(("", "plan")),
        "model": st.sampled_from(("", "grok")),
        "commands": st.sampled_from(({}, {"commands": [{"name": "research"}]})),
        "sendNow": st.sampled_from(({}, {"armed": True, "text": "now"})),
        "catalog": st.integers(0, 3).map(
            lambda revision: {"models": [{"id": f"m{revision}", "name": ""}], "revision": revision}
        ),
        "slash": st.sampled_from(
            ({}, {"items": [SLASH_ROW]})
        ),
        "detail": _WORDS,
        "indexErr": _WORDS,
    },
).map(
    lambda given: {name: given[name] for name in (
        "title", "mode", "model", "commands", "sendNow", "catalog", "slash", "detail", "indexErr",
    ) if name in given and (given[name] != "" or name not in ("detail", "indexErr"))}
)  # fmt: skip
_ROSTER = st.builds(
    lambda ident, status, change, ended: build.subagent(
        payload("subagent", id=ident, status=status, endedAt=minute(ended)), change
    ),
    st.sampled_from(("sub-1", "sub-2", "sub-3", "sub-4")),
    st.sampled_from(("running", "completed", "failed")),
    st.sampled_from(("spawned", "progress", "finished")),
    st.integers(0, 3),
)
_COMPACTIONS = st.builds(
    lambda agent, phase, err: build.compaction(phase, agent, reason="auto", err=err),
    _AGENT,
    st.sampled_from(("started", "ended")),
    _WORDS,
)

EVENTS = st.one_of(
    st.builds(build.text, _SOME_WORDS, _AGENT),
    st.builds(build.text, _WORDS, _AGENT),
    st.builds(build.thought, _SOME_WORDS, _AGENT),
    st.builds(build.user, _WORDS, _AGENT, st.booleans()),
    st.builds(build.user, _WORDS).map(build.replayed),
    st.builds(build.tool, _TOOLS, _AGENT),
    st.builds(build.todos, _TODOS),
    st.builds(lambda ident: build.opening("permission", payload("permission", id=ident)), _ASK_ID),
    st.builds(build.opening, st.just("question"), _QUESTIONS),
    st.builds(build.opening, st.just("plan"), _PLANS),
    st.builds(build.ending, _ENDINGS),
    st.sampled_from((build.done("end_turn"), build.done("cancelled"), build.error("no"))),
    st.builds(build.meta, _STATES),
    _ROSTER,
    st.builds(
        lambda ident, words, change, place: build.queue(
            payload("queue", id=ident, text=words), change, place
        ),
        _ROW_ID,
        _WORDS,
        st.sampled_from(("queued", "queued", "edited", "removed", "sent")),
        st.integers(0, 4),
    ),
    st.builds(
        lambda words, kind, agent: build.command(
            {"pluginCommand": payload("pluginCommand", qualified=words, kind=kind)}, agent
        ),
        _WORDS,
        st.sampled_from(("", "skill")),
        _AGENT,
    ),
    st.builds(
        lambda reason, running: build.foreign_turn(
            payload("foreignTurn", id="wake-1", reason=reason, running=running)
        ),
        st.sampled_from(("", "job_wake")),
        st.booleans(),
    ),
    st.sampled_from((build.replay("start"), build.replay("end"))),
    st.builds(
        build.turn_started, _TURN_ID, _WORDS, st.sampled_from(("submit", "drain", "send_now"))
    ),
    st.builds(
        lambda turn, reason, err, synthetic: build.turn_ended(
            turn, stopReason=reason, err=err, synthetic=synthetic
        ),
        _TURN_ID,
        st.sampled_from(("end_turn", "cancelled", "closing", "")),
        st.sampled_from(("", "", "broken")),
        st.booleans(),
    ),
    _COMPACTIONS,
    st.just({"type": "novelty", "text": "of a later build", "agent": "sub-9"}),
)


@st.composite
def histories(draw: Any, size: int = 40) -> list[tuple[int, Event]]:
    """Events with their seqs; some have none of their own."""
    history = []
    seq = 0
    for number, event in enumerate(draw(st.lists(EVENTS, max_size=size))):
        own = draw(st.integers(0, 9)) > 0
        seq += own
        history.append((seq if own else 0, stamped(event, number)))
    return history
