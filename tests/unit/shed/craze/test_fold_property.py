"""However a session was joined, its rows and its asks are those of one who was there all along."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from craze.transcript import Model, SnapshotTooLarge, encode
from craze.wire import json
from craze_shed.contract.rows import FeedMessage
from craze_shed.craze.fold import OMITTED, Fold

HOST = "0123456789ab"
INFO = {
    "capabilities": {"askCards": True, "planCards": True, "modes": True},
    "catalogs": {"models": [{"id": "m0", "name": "M0"}], "modes": [{"id": "plan", "name": "Plan"}]},
}
WHOLE = 8 << 20
WORDS = st.text(st.sampled_from("ab é😀\n"), max_size=12).map(lambda words: f"{words}.")
OPTIONS = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
QUESTIONS = [{"id": "q", "prompt": "which", "options": [{"id": "a", "label": "A"}, {"id": "b"}]}]

Event = dict[str, Any]


def tool(number: int, ended: bool) -> Event:
    """What is said of a tool is the same whenever it is said, but for its end."""
    status = ("completed", "failed", "cancelled")[number % 3] if ended else "in_progress"
    made = {"id": f"t-{number}", "toolName": f"tool {number}", "title": f"T{number}"}
    return {"type": "tool", "tool": {**made, "status": status, "contentText": f"out {number}"}}


def todo(statuses: list[str]) -> Event:
    return {"type": "todos", "todos": [{"content": "c", "status": status} for status in statuses]}


def meta(**state: Any) -> Event:
    said = {name: value for name, value in state.items() if value is not None}
    return {"type": "meta", "state": said}


def user(words: str, **more: bool) -> Event:
    return {"type": "user", "text": words, **more}


def ended(synthetic: bool, reason: str, err: str) -> Event:
    turn = {"id": "turn-1", "phase": "ended", "stopReason": reason}
    if synthetic:
        turn["synthetic"] = True
    if err:
        turn["err"] = err
    return {"type": "turn", "turn": turn}


def started(words: str) -> Event:
    return {"type": "turn", "turn": {"id": "turn-1", "phase": "started", "text": words}}


def catalog(revision: int) -> dict[str, Any]:
    return {"models": [{"id": f"m{revision}", "name": ""}], "revision": revision}


MAYBE_WORDS = st.none() | WORDS
OTHERS = (
    {"type": "tool", "tool": {"toolName": "nameless"}},
    {"type": "tool", "tool": {"id": "w", "toolName": "updateTodos"}},
    {"type": "done", "stopReason": "end_turn"},
    {"type": "done", "stopReason": "cancelled"},
    {"type": "error", "err": {"message": "no", "class": "other", "code": 0}},
    {"type": "replay", "replay": {"phase": "start"}},
    {"type": "replay", "replay": {"phase": "end"}},
    {"type": "compaction", "compaction": {"phase": "started"}},
    {"type": "compaction", "compaction": {"phase": "ended", "tokensBefore": 1234}},
    {"type": "compaction", "agent": "sub-1", "compaction": {"phase": "ended"}},
    {"type": "foreign_turn", "foreignTurn": {"id": "w", "reason": "job_wake", "running": True}},
    {"type": "foreign_turn", "foreignTurn": {"id": "w"}},
    {"type": "command", "command": {"pluginCommand": {"qualified": "p:c", "kind": "skill"}}},
    {"type": "queue", "queue": {"id": "q-1", "text": "x"}, "queueChange": "queued"},
    {"type": "text", "text": "a child's", "agent": "sub-1"},
    {"type": "novelty", "text": "of a later build"},
)
EVENTS = st.one_of(
    st.builds(
        lambda kind, words: {"type": kind, "text": words},
        st.sampled_from(("text", "thought")),
        WORDS,
    ),
    WORDS.map(user),
    (WORDS | st.just("")).map(lambda words: user(words, interjection=True)),
    (WORDS | st.just("")).map(lambda words: user(words, replayed=True)),
    st.builds(todo, st.lists(st.sampled_from(("pending", "completed", "cancelled")), max_size=3)),
    st.sampled_from(OTHERS),
    st.builds(
        meta,
        title=MAYBE_WORDS,
        model=st.sampled_from((None, "m0", "m1")),
        detail=MAYBE_WORDS,
        indexErr=MAYBE_WORDS,
        mode=st.sampled_from((None, "plan")),
        catalog=st.none() | st.integers(1, 3).map(catalog),
    ),
    WORDS.map(started),
    st.builds(
        ended,
        st.booleans(),
        st.sampled_from(("end_turn", "cancelled", "closing")),
        st.sampled_from(("", "broken")),
    ),
)
ASKING = st.sampled_from(("permission", "question", "plan", "hidden"))


def opening(kind: str, id: str) -> Event:
    bodies: dict[str, Any] = {
        "permission": {"id": id, "tool": f"run {id}", "options": OPTIONS},
        "question": {"id": id, "title": f"about\n{id}", "questions": QUESTIONS},
        "plan": {"id": id, "name": f"plan\n{id}", "overview": "o"},
        "hidden": {"id": id, "name": id, "auto": True},
    }
    return {"type": kind.replace("hidden", "plan"), kind.replace("hidden", "plan"): bodies[kind]}


@st.composite
def histories(draw: Any, size: int = 30) -> list[Event]:
    """A session's events; its asks have ids of their own and end once, and so do its tools."""
    made: list[Event] = []
    asked: list[tuple[str, str]] = []
    over: set[int] = set()  # tools
    for number in range(draw(st.integers(0, size))):
        what = draw(st.integers(0, 9))
        if what == 0:
            kind = draw(ASKING)
            asked.append((kind.replace("hidden", "plan"), f"ask-{number:02}"))
            event = opening(kind, asked[-1][1])
        elif what == 1 and asked:
            kind, id = asked.pop(draw(st.integers(0, len(asked) - 1)))
            ending = {
                "id": id,
                "kind": kind,
                "outcome": draw(st.sampled_from(("answered", "cancelled"))),
            }
            more = draw(
                st.sampled_from(
                    (
                        {},
                        {"optionId": "y", "answers": {"q": ["a", "b"]}},
                        {"accepted": True},
                        {"skip": True},
                    )
                )
            )
            event = {"type": "ask", "ask": {**ending, **more}}
        elif what == 2:
            call = draw(st.integers(0, 5))
            if draw(st.booleans()):
                over.add(call)
            event = tool(call, call in over)
        else:
            event = draw(EVENTS)
        made.append({**event, "at": f"2026-01-01T00:{number:02}:00Z"})
    return made


def folded(events: list[Event]) -> Model:
    model = Model("log-1")
    for seq, event in enumerate(events, 1):
        model.fold(seq, event)
    return model


def registry(events: list[Event]) -> list[dict[str, Any]]:
    """The asks that are open after those events, as the engine's registry has them."""
    return [
        {
            "id": ask.id,
            "kind": ask.kind,
            "status": "open",
            "body": {ask.kind: ask.body},
            "openedAt": ask.at,
        }
        for ask in folded(events).asks.values()
    ]


def fresh() -> Fold:
    fold = Fold(HOST)
    fold.adopt_info(INFO)
    return fold


def drawn(fold: Fold, events: list[Event]) -> list[FeedMessage]:
    return [row for event in events for row in fold.event(event)]


def pending(fold: Fold) -> dict[str, Any]:
    return {id: approval for id, approval in fold.book.approvals().items() if approval.pending}


def shape(rows: list[FeedMessage]) -> tuple[list[Any], dict[str, str | None]]:
    """The rows without their asks', neighbouring pieces of a run joined; and what each tool came
    to, by its name."""
    made: list[Any] = []
    results = {}
    for row in rows:
        if row.type == "approval_request":
            continue
        if row.type == "tool_result":
            assert row.tool is not None and row.tool.name is not None
            results[row.tool.name] = row.text
        elif row.role == "assistant" and made and made[-1][:2] == (row.role, row.type):
            made[-1] = (row.role, row.type, made[-1][2] + row.text)
        elif row.role == "assistant":
            made.append((row.role, row.type, row.text))
        else:
            made.append((row.role, row.type, row.text, row.ts if row.role != "tool" else row.tool))
    return made, results


@given(histories(), st.integers(0, 30), st.integers(0, 30))
@settings(deadline=None, max_examples=200)
def test_a_seed_and_what_follows_are_as_the_whole(
    history: list[Event], cut: int, later: int
) -> None:
    """The registry is read at some point after the snapshot was taken."""
    cut = min(cut, len(history))
    read = min(cut + later, len(history))
    live, seeded = fresh(), fresh()
    rows = drawn(live, history) + live.flush()
    made = seeded.restore(json.loads(encode(folded(history[:cut]), WHOLE)))
    seeded.adopt_registry(registry(history[:read]))
    made += drawn(seeded, history[cut:]) + seeded.flush()
    assert shape(made) == shape(rows)
    assert pending(seeded) == pending(live)
    for id in pending(seeded):
        shown = [row for row in made if row.approval is not None and row.approval.id == id]
        assert [row.approval.status for row in shown if row.approval] == ["pending"]
    assert seeded.settings.settings() == live.settings.settings()
    assert (seeded.title or "") == (live.title or "") and seeded.compacting == live.compacting


@given(histories(), st.integers(0, 30), st.integers(0, 30))
@settings(deadline=None, max_examples=200)
def test_b01_a_resume_is_as_no_outage(history: list[Event], cut: int, later: int) -> None:
    """The registry, read after the gap, is known before the events of the gap."""
    cut = min(cut, len(history))
    read = min(cut + later, len(history))
    live, resumed = fresh(), fresh()
    rows = drawn(live, history) + live.flush()
    made = drawn(resumed, history[:cut])
    resumed.adopt_info(INFO)
    resumed.adopt_registry(registry(history[:read]))
    made += drawn(resumed, history[cut:]) + resumed.flush()
    assert made == rows
    assert pending(resumed) == pending(live)
    assert resumed.settings.settings() == live.settings.settings()


@given(histories(), st.integers(0, 30), st.integers(150, 1500))
@settings(deadline=None, max_examples=200)
def test_a_window_shows_the_end_of_it(history: list[Event], cut: int, budget: int) -> None:
    history = [
        event
        for event in history
        if event["type"] not in ("tool", "ask", "permission", "question", "plan")
    ]
    cut = min(cut, len(history))
    try:
        document = json.loads(encode(folded(history[:cut]), budget))
    except SnapshotTooLarge:
        return
    live, seeded = fresh(), fresh()
    rows = drawn(live, history) + live.flush()
    made = seeded.restore(document) + drawn(seeded, history[cut:]) + seeded.flush()
    if seeded.truncated:
        assert made.pop(0).text == OMITTED
    characters = [
        [(row.role, row.type, character) for row in some for character in f"{row.text} "]
        for some in (joined(made), joined(rows))
    ]
    assert characters[1][len(characters[1]) - len(characters[0]) :] == characters[0]


def joined(rows: list[FeedMessage]) -> list[Any]:
    """The rows, neighbouring pieces of a run as one."""
    made: list[FeedMessage] = []
    for row in rows:
        if (
            made
            and row.role == "assistant"
            and (row.role, row.type) == (made[-1].role, made[-1].type)
        ):
            made[-1] = FeedMessage(role=row.role, type=row.type, text=f"{made[-1].text}{row.text}")
        else:
            made.append(row)
    return made
