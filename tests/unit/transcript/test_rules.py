"""The fold's rules, one after the other (codecs 3.1 to 3.4)."""

from typing import Any

import pytest

from craze.events import build
from craze.events.members import payload
from craze.transcript import Model
from craze.transcript.state import BOUNDS
from tests.unit.transcript.folding import SLASH_ROW, Folding, minute, stamped

CAP = 65536


def tool(ident: str = "t-1", **members: Any) -> dict[str, Any]:
    return build.tool(payload("tool", id=ident, **members))


def todo(status: str, content: str = "x") -> dict[str, Any]:
    return payload("todo", content=content, status=status)


def ask(ident: str, kind: str = "question", **members: Any) -> dict[str, Any]:
    return build.ending(payload("ask", id=ident, kind=kind, **members))


QUESTION = payload(
    "question",
    id="ask-1",
    title="Colours",
    questions=[
        {
            "id": "one",
            "prompt": "Which?",
            "options": [{"id": "r", "label": "Red"}, {"id": "b", "label": "Blue"}],
        },
        {"id": "two", "prompt": "Why?", "options": [{"id": "y", "label": "Because"}]},
    ],
)


# ---- routing and ids ----


def test_an_entry_is_named_after_the_event_that_made_it() -> None:
    folding = Folding(build.text("a"), build.text("b"), tool())
    assert [document["id"] for document in folding.documents()] == ["1.0", "3.0"]


def test_entries_of_one_event_are_numbered_from_0() -> None:
    folding = Folding(build.meta({"detail": "one", "indexErr": "two"}))
    assert [document["id"] for document in folding.documents()] == ["1.0", "1.1"]


def test_an_event_without_a_seq_of_its_own_is_named_by_the_local_counter() -> None:
    model = Model()
    model.fold(5, build.done("cancelled"))
    model.fold(0, build.done("cancelled"))
    model.fold(5, build.done("cancelled"))
    model.fold(6, build.done("cancelled"))
    ids = [document["id"] for document in model.main.documents()]
    assert ids == ["5.0", "0.1", "0.2", "6.0"]
    assert model.seq == 6
    assert model.names.local == 2


def test_an_unknown_type_does_nothing_but_take_its_seq() -> None:
    folding = Folding({"type": "novelty", "text": "x", "agent": "sub-1"})
    assert folding.model.seq == 1
    assert not folding.documents()
    assert not folding.model.subs


def test_an_agent_gets_its_transcript_even_from_an_event_it_does_not_fold() -> None:
    folding = Folding({**build.done("cancelled"), "agent": "sub-1"})
    assert list(folding.model.subs) == ["sub-1"]
    assert folding.rows("sub-1") == []
    assert folding.rows() == []


def test_a_subagent_event_is_the_rosters_whatever_its_agent() -> None:
    folding = Folding({**build.subagent({"id": "sub-1"}, "spawned"), "agent": "sub-2"})
    assert list(folding.model.agents) == ["sub-1"]
    assert list(folding.model.subs) == ["sub-1"]


def test_a_child_folds_its_six_kinds() -> None:
    folding = Folding(
        build.user("do", "sub-1"),
        build.user(" it", "sub-1"),
        build.thought("hm", "sub-1"),
        build.text("ok", "sub-1"),
        build.tool({"id": "t-1"}, "sub-1"),
        build.command({"pluginCommand": {"qualified": "a:b"}}, "sub-1"),
        build.compaction("ended", "sub-1", tokensBefore=10, tokensAfter=1),
    )
    assert folding.rows("sub-1") == [
        ("user", "do it"),
        ("thought", "hm"),
        ("assistant", "ok"),
        ("tool", "t-1"),
        ("note", "⤷ a:b"),
        ("note", "context compacted · 10 → 1 tokens"),
    ]
    assert folding.rows() == []


# ---- 1: text and thought ----


def test_pieces_of_a_kind_grow_one_run() -> None:
    folding = Folding(build.text("he"), build.text("llo"))
    assert folding.documents() == [
        {
            "id": "1.0",
            "kind": "assistant",
            "text": "hello",
            "at": minute(1),
            "end": minute(2),
            "streaming": True,
        }
    ]


def test_another_kind_closes_a_run_and_a_thought_ends_when_it_is_closed() -> None:
    folding = Folding(build.thought("hm"), build.thought("m"), build.text("so"))
    thought, reply = folding.documents()
    assert thought == {
        "id": "1.0",
        "kind": "thought",
        "text": "hmm",
        "at": minute(1),
        "end": minute(3),
    }
    assert reply["streaming"] and "open" not in reply


def test_an_open_thought_says_so() -> None:
    document = Folding(build.thought("hm")).documents()[0]
    assert list(document) == ["id", "kind", "text", "at", "end", "open", "streaming"]
    assert document["open"] is True


def test_a_reply_ends_with_its_last_piece() -> None:
    folding = Folding(build.text("a"), build.text("b"), tool())
    assert folding.documents()[0]["end"] == minute(2)


def test_an_empty_piece_draws_and_closes_nothing() -> None:
    folding = Folding(build.text("a"), build.thought(""), build.text("b"))
    assert folding.rows() == [("assistant", "ab")]


@pytest.mark.parametrize(
    ("pieces", "text", "cut"),
    [
        (["x" * CAP], "x" * CAP, False),
        (["x" * CAP, "y"], "…" + "x" * (CAP - 4) + "y", True),
        (["x" * 10 * CAP], "…" + "x" * (CAP - 3), True),
        (["é" * CAP], "…" + "é" * ((CAP - 3) // 2), True),
        (["x", "😀" * CAP], "…" + "😀" * ((CAP - 3) // 4), True),
        (["abcd" * 16] * 4096, "…" + ("abcd" * CAP)[-(CAP - 3) :], True),
    ],
)
def test_b68_a_long_run_keeps_its_tail_cut_at_a_character(
    pieces: list[str], text: str, cut: bool
) -> None:
    folding = Folding(*(build.text(piece) for piece in pieces))
    document = folding.documents()[0]
    assert document["text"] == text
    assert document.get("cut", False) is cut
    assert len(text.encode()) <= CAP
    assert folding.main.size == min(sum(len(piece.encode()) for piece in pieces), CAP)
    folding.add(build.done("end_turn"))
    closed = {name: value for name, value in document.items() if name != "streaming"}
    assert folding.documents() == [closed]


def test_a_run_in_small_pieces_is_the_run_in_one() -> None:
    words = "".join(chr(97 + i % 26) for i in range(30_000)) + "é"
    small = Folding(*(build.text(char) for char in words * 3))
    whole = Folding(build.text(words * 3))
    assert small.rows() == whole.rows()


# ---- 2: user ----


def test_the_echo_of_a_prompt_draws_nothing() -> None:
    assert Folding(build.user("hi")).rows() == []


def test_an_interjection_is_drawn_unless_it_is_empty() -> None:
    folding = Folding(build.user("and this", interjection=True), build.user("", interjection=True))
    assert folding.documents() == [
        {
            "id": "1.0",
            "kind": "user",
            "text": "and this",
            "at": minute(1),
            "end": minute(1),
            "interject": True,
        }
    ]


def test_a_replayed_prompt_is_drawn_even_empty() -> None:
    folding = Folding(build.replayed(build.user("one")), build.replayed(build.user("")))
    assert folding.rows() == [("user", "one"), ("user", "")]
    assert "text" not in folding.documents()[1]


def test_within_a_replay_a_prompt_is_drawn() -> None:
    assert Folding(build.replay("start"), build.user("one")).rows() == [("user", "one")]


CONTEXT = '<shell_context>\n<command exit="0">ls</command>\nout\n</shell_context>\n\n'


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (CONTEXT + "do it", "do it"),
        (CONTEXT, ""),
        (CONTEXT.rstrip("\n"), ""),
        (CONTEXT[:-1] + "do it", "do it"),
        ("do it\n" + CONTEXT, "do it\n" + CONTEXT),
        ("<shell_context>\nno command\n</shell_context>\n\nx",) * 2,
        ('<shell_context>\n<command exit="0">never ends',) * 2,
    ],
)
def test_shell_context_is_not_shown(words: str, shown: str) -> None:
    assert Folding(build.turn_started("turn-1", words, "submit")).rows() == [("user", shown)]
    drawn = Folding(build.user(words, interjection=True)).rows()
    assert drawn == ([("user", shown)] if shown else [])


# ---- 3: tool ----


def test_a_tool_update_takes_the_place_of_its_entry() -> None:
    folding = Folding(tool(status="pending"), build.text("meanwhile"), tool(status="completed"))
    assert folding.rows() == [("tool", "t-1"), ("assistant", "meanwhile")]
    document = folding.documents()[0]
    assert document["tool"]["status"] == "completed"
    assert (document["at"], document["end"]) == (minute(1), minute(1))


def test_a_tool_closes_the_run_at_its_own_time() -> None:
    folding = Folding(build.thought("hm"), tool(at=minute(50)))
    assert folding.documents()[0]["end"] == minute(50)
    assert folding.documents()[1]["at"] == minute(2)


def test_a_tool_without_an_id_is_a_new_entry_each_time() -> None:
    assert len(Folding(tool(""), tool("")).documents()) == 2


@pytest.mark.parametrize("named", [{"toolName": "updateTodos"}, {"title": "Update TODOs: 3"}])
def test_a_todo_tool_is_not_drawn_and_closes_nothing(named: dict[str, str]) -> None:
    folding = Folding(build.text("a"), tool(**named), build.text("b"))
    assert folding.rows() == [("assistant", "ab")]


def test_a_tool_event_without_a_tool_does_nothing() -> None:
    assert Folding(build.text("a"), {"type": "tool"}, build.text("b")).rows() == [
        ("assistant", "ab")
    ]


def test_a_childs_tool_is_its_activity() -> None:
    row = {"id": "sub-1", "status": "running", "startedAt": minute(0), "background": True}
    folding = Folding(
        build.subagent(row, "spawned"),
        build.tool({"id": "t-1", "title": "x" * 300}, "sub-1"),
    )
    info = folding.model.agents["sub-1"].info
    assert info["activity"] == "x" * 253 + "…"
    assert list(info) == ["id", "status", "activity", "startedAt", "background"]
    assert "activity" not in row


def test_a_childs_todo_tool_is_its_activity_but_no_entry() -> None:
    folding = Folding(
        build.subagent({"id": "sub-1"}, "spawned"),
        build.tool({"id": "t-1", "title": "Update TODOs"}, "sub-1"),
    )
    assert folding.model.agents["sub-1"].info["activity"] == "Update TODOs"
    assert folding.rows("sub-1") == []


# ---- 4: todos ----


def test_todos_are_counted_once_when_planned_and_once_when_done() -> None:
    folding = Folding(
        build.todos([todo("pending"), todo("pending")]),
        build.todos([todo("completed"), todo("in_progress")]),
        build.todos([todo("completed"), todo("cancelled")]),
        build.todos([todo("completed"), todo("completed")]),
        build.todos([todo("pending")]),
        build.todos([todo("pending")] * 3),
        build.todos([todo("completed")] * 3),
        build.todos([]),
    )
    assert [words for _, words in folding.rows()] == [
        "tasks: 2 planned",
        "tasks: 2/2 done",
        "tasks: 3 planned",
        "tasks: 3/3 done",
    ]
    assert folding.model.todos == []


# ---- 5 and 6: asks ----


def test_a_permission_opens_and_ends_without_a_note() -> None:
    folding = Folding(
        build.text("a"),
        build.opening("permission", payload("permission", id="perm-1", tool="rm")),
    )
    assert folding.main.run is None
    assert list(folding.model.asks) == ["perm-1"]
    folding.add(ask("perm-1", "permission", outcome="answered", by="client", optionId="allow"))
    assert folding.rows() == [("assistant", "a")]
    assert folding.model.asks == {}
    assert list(folding.model.ended.values()) == [
        {
            "id": "perm-1",
            "kind": "permission",
            "outcome": "answered",
            "by": "client",
            "at": minute(3),
        }
    ]


def test_an_auto_question_opens_but_does_not_close_the_run() -> None:
    folding = Folding(build.text("a"), build.opening("question", {"id": "ask-1", "auto": True}))
    assert folding.main.run is not None
    assert "ask-1" in folding.model.asks


def test_a_plan_is_drawn_unless_it_is_auto() -> None:
    folding = Folding(
        build.opening("plan", {"id": "plan-1", "name": "A"}),
        build.opening("plan", {"id": "plan-2", "name": "B", "auto": True}),
    )
    assert folding.rows() == [("plan", "plan-1")]
    assert list(folding.model.asks) == ["plan-1", "plan-2"]


def test_an_ask_opened_again_is_replaced_in_its_place() -> None:
    folding = Folding(
        build.opening("permission", {"id": "a", "tool": "one"}),
        build.opening("permission", {"id": "b"}),
        build.opening("permission", {"id": "a", "tool": "two"}),
        build.opening("permission", {"tool": "nameless"}),
    )
    asks = list(folding.model.asks.values())
    assert [(held.id, held.at) for held in asks] == [("a", minute(3)), ("b", minute(2))]
    assert asks[0].body["tool"] == "two"


def test_ended_asks_are_kept_to_a_bound_and_an_ending_again_keeps_its_place() -> None:
    endings = [ask(f"a-{n}", outcome="cancelled") for n in range(4)]
    folding = Folding(*endings[:3], ask("a-1", outcome="closing"), endings[3],
                      bounds=BOUNDS._replace(ended=3))  # fmt: skip
    ended = folding.model.ended
    assert list(ended) == ["a-1", "a-2", "a-3"]
    assert ended["a-1"]["outcome"] == "closing"


def test_an_ending_without_an_id_is_not_kept() -> None:
    assert Folding(ask("")).model.ended == {}


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ({"answers": {"one": ["b", "r"]}}, ["? Which? → Blue, Red", "? Why? → nothing"]),
        ({"answers": {"one": [], "two": ["y"]}}, ["? Which? → nothing", "? Why? → Because"]),
        ({"answers": {"one": None}}, ["? Which? → nothing", "? Why? → nothing"]),
        ({"skip": True}, ["? Colours → skipped"]),
    ],
)
def test_an_answered_question_is_noted(ending: dict[str, Any], expected: list[str]) -> None:
    folding = Folding(
        build.opening("question", QUESTION), ask("ask-1", outcome="answered", by="client", **ending)
    )
    assert [words for _, words in folding.rows()] == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"questions": [{"prompt": "Which?"}]}, "? Which? → skipped"),
        ({}, "? question → skipped"),
    ],
)
def test_a_skipped_question_is_named_by_what_it_has(body: dict[str, Any], expected: str) -> None:
    folding = Folding(
        build.opening("question", {"id": "ask-1", **body}),
        ask("ask-1", outcome="answered", skip=True),
    )
    assert folding.rows() == [("note", expected)]


@pytest.mark.parametrize(
    ("name", "accepted", "expected"),
    [("Rewrite", True, "plan Rewrite → accepted"), ("", False, "plan plan → rejected")],
)
def test_a_decided_plan_is_noted(name: str, accepted: bool, expected: str) -> None:
    folding = Folding(
        build.opening("plan", payload("plan", id="plan-1", name=name)),
        ask("plan-1", "plan", outcome="answered", accepted=accepted),
    )
    assert folding.rows()[1] == ("note", expected)


@pytest.mark.parametrize(
    ("opening", "ending", "options"),
    [
        (QUESTION, {"outcome": "cancelled"}, {}),
        ({**QUESTION, "auto": True}, {"outcome": "answered", "skip": True}, {}),
        (QUESTION, {"outcome": "answered", "skip": True, "kind": "plan"}, {}),
        (QUESTION, {"outcome": "answered", "skip": True, "id": "ask-2"}, {}),
        (QUESTION, {"outcome": "answered", "skip": True}, {"ask_cards": False}),
    ],
)
def test_other_endings_of_a_question_are_not_noted(
    opening: dict[str, Any], ending: dict[str, Any], options: dict[str, bool]
) -> None:
    folding = Folding(
        build.opening("question", opening),
        build.ending({"id": "ask-1", "kind": "question", **ending}),
        **options,
    )
    assert folding.rows() == []


def test_a_plan_is_not_noted_where_the_session_shows_no_plans() -> None:
    folding = Folding(
        build.opening("plan", {"id": "plan-1"}),
        ask("plan-1", "plan", outcome="answered", accepted=True),
        plan_cards=False,
    )
    assert [kind for kind, _ in folding.rows()] == ["plan"]


def test_a_note_of_an_outcome_is_bounded() -> None:
    body = {**QUESTION, "title": "é" * 5000}
    folding = Folding(build.opening("question", body), ask("ask-1", outcome="answered", skip=True))
    words = folding.rows()[0][1]
    assert words.startswith("? éé") and words.endswith("é…")
    assert len(words.encode()) in (4095, 4096)


def test_options_that_the_cap_made_one_are_named_neither() -> None:
    long = "x" * 262144
    options = [{"id": long + end, "label": end} for end in "ab"]
    folding = Folding(
        build.opening(
            "question",
            {"id": "ask-1", "questions": [{"id": "one", "prompt": "?", "options": options}]},
        ),
        ask("ask-1", outcome="answered", answers={"one": [long + "b"]}),
    )
    assert folding.rows() == [("note", "? ? → …")]


# ---- 7 and 8: done and error ----


def test_done_closes_the_run_and_a_cancel_is_noted() -> None:
    assert Folding(build.text("a"), build.done("end_turn")).main.run is None
    assert Folding(build.text("a"), build.done("cancelled")).rows() == [
        ("assistant", "a"),
        ("note", "cancelled"),
    ]


def test_an_error_is_drawn_with_its_class_and_code() -> None:
    folding = Folding(build.text("a"), build.error("it broke", "rpc"))
    assert folding.documents()[1] == {
        "id": "2.0",
        "kind": "error",
        "text": "it broke",
        "err": {"class": "rpc", "code": 0},
        "at": minute(2),
        "end": minute(2),
    }


def test_an_error_without_words_draws_and_closes_nothing() -> None:
    folding = Folding(build.text("a"), build.error(""))
    assert folding.rows() == [("assistant", "a")]
    assert folding.main.run is not None


# ---- 9: turn ----


def test_a_turn_starts_with_its_prompt_and_clears_a_send_now() -> None:
    armed = {"sendNow": {"armed": True, "text": "hi"}}
    folding = Folding(build.meta(armed), build.turn_started("turn-1", "hi", "send_now"))
    turn = folding.model.turn
    assert (turn.id, turn.text, turn.origin, turn.at) == ("turn-1", "hi", "send_now", minute(2))
    assert "sendNow" not in folding.model.settings
    assert folding.rows() == [("user", "hi")]
    kept = Folding(build.meta(armed), build.turn_started("turn-1", "hi", "submit"))
    assert "sendNow" in kept.model.settings


def test_a_turns_end_does_not_close_the_run() -> None:
    folding = Folding(
        build.turn_started("turn-1", "hi", "submit"),
        build.text("a"),
        build.turn_ended("turn-1", stopReason="end_turn"),
    )
    assert folding.main.run is not None
    assert folding.model.turn.id == ""
    assert folding.model.turn.text == "hi"


def test_the_end_of_another_turn_leaves_the_current_one() -> None:
    folding = Folding(build.turn_started("turn-2", "hi", "submit"), build.turn_ended("turn-1"))
    assert folding.model.turn.id == "turn-2"


@pytest.mark.parametrize(
    ("members", "drawn"),
    [
        ({"stopReason": "cancelled"}, []),
        ({"stopReason": "cancelled", "synthetic": True}, [("note", "cancelled")]),
        ({"err": "no", "stopReason": "cancelled", "synthetic": True}, [("error", "no")]),
        ({"err": "no"}, []),
        ({"stopReason": "closing", "synthetic": True}, []),
    ],
)
def test_only_a_synthetic_end_is_drawn(
    members: dict[str, Any], drawn: list[tuple[str, str]]
) -> None:
    folding = Folding(build.turn_ended("turn-1", **members))
    assert folding.rows() == drawn
    assert all("err" not in document for document in folding.documents())


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"stopReason": "end_turn"}, {"outcome": "done"}),
        ({"stopReason": "max_tokens"}, {"outcome": "done"}),
        ({"stopReason": "cancelled"}, {"outcome": "cancelled"}),
        ({"stopReason": "closing"}, {"outcome": "cancelled"}),
        ({"err": "it broke", "stopReason": "cancelled"}, {"outcome": "failed", "err": "it broke"}),
    ],
)
def test_the_last_turn(members: dict[str, Any], expected: dict[str, Any]) -> None:
    folding = Folding(build.turn_started("turn-1", "hi", "submit"))
    assert folding.model.last_turn is None
    folding.add(build.turn_ended("turn-1", **members))
    assert list((folding.model.last_turn or {}).items()) == list(
        {**expected, "endedAt": minute(2), "turnId": "turn-1"}.items()
    )
    folding.add(build.foreign_turn({"id": "wake-1", "running": True}))
    assert folding.model.last_turn is None
    folding.add(build.foreign_turn({"id": "wake-1"}))
    assert folding.model.last_turn == {
        "outcome": "done",
        "endedAt": minute(4),
        "turnId": "wake-1",
    }


# ---- 10 and 11: foreign turns and replays ----


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("subagent_wake", "sub-agent finished — the agent continues"),
        ("job_wake", "background command finished — the agent continues"),
        ("", "agent continued on its own (interjection fallback)"),
        ("novelty", "agent continued on its own (interjection fallback)"),
    ],
)
def test_a_foreign_turn_is_noted_at_its_start(reason: str, words: str) -> None:
    start = payload("foreignTurn", id="wake-1", reason=reason, running=True)
    end = payload("foreignTurn", id="wake-1", reason=reason)
    folding = Folding(build.text("a"), build.foreign_turn(start), build.foreign_turn(end))
    assert folding.rows() == [("assistant", "a"), ("note", words)]
    assert folding.model.turn.foreign == end


def test_a_foreign_turn_closes_the_run_at_both_ends() -> None:
    folding = Folding(
        build.foreign_turn({"running": True}), build.text("a"), build.foreign_turn({})
    )
    assert folding.main.run is None
    folding.add({"type": "foreign_turn"})
    assert folding.model.turn.foreign is None


def test_a_replay_ends_with_a_note() -> None:
    folding = Folding(build.replay("start"))
    assert folding.model.replaying
    folding.add(build.replay("novel"), build.text("a"), build.replay("end"))
    assert not folding.model.replaying
    assert folding.rows() == [("assistant", "a"), ("note", "restored")]


# ---- 12: meta ----


def test_a_section_replaces_and_an_empty_one_clears() -> None:
    full = {
        "title": "T",
        "mode": "plan",
        "model": "grok",
        "config": {"options": [{"id": "effort"}]},
        "commands": {"commands": [{"name": "research"}]},
        "plugins": {"plugins": [{"bare": "x"}]},
        "sendNow": {"armed": True},
        "slash": {"items": [SLASH_ROW]},
    }
    folding = Folding(build.meta(full))
    assert folding.model.settings == full
    folding.add(build.meta({"model": "fast"}))
    assert folding.model.settings == {**full, "model": "fast"}
    empty = {name: "" if isinstance(value, str) else {} for name, value in full.items()}
    folding.add(build.meta(empty))
    assert folding.model.settings == {}


def test_the_text_and_mode_of_a_delta_add_nothing() -> None:
    folding = Folding(build.meta({}, title="T", mode="plan"), {"type": "meta", "text": "T"})
    assert folding.model.settings == {}
    assert folding.rows() == []


def test_usage_is_replaced() -> None:
    folding = Folding(build.meta({"usage": {"contextTokens": 1}}))
    folding.add(build.meta({"usage": {"contextTokens": 2}}), build.meta({"mode": "plan"}))
    assert folding.model.settings["usage"] == {"contextTokens": 2}


def test_a_catalog_never_goes_back() -> None:
    def delta(revision: int, model: str) -> dict[str, Any]:
        return build.meta(
            {"catalog": {"models": [{"id": model, "name": ""}], "revision": revision}}
        )

    folding = Folding(delta(3, "a"), delta(2, "b"))
    assert folding.model.settings["catalog"]["models"][0]["id"] == "a"
    folding.add(delta(3, "c"))
    assert folding.model.settings["catalog"]["models"][0]["id"] == "c"
    folding.add(delta(7, "d"))
    assert folding.model.settings["catalog"]["revision"] == 7


@pytest.mark.parametrize(
    "row", [5, None, {"name": 42}, {"run": {}}, {"name": "a b"}, {"name": "a", "run": 5},
            {"name": "a", "whileWorking": "yes"}, {"name": "a", "run": {"setting": []}}],
)  # fmt: skip
def test_a_malformed_slash_row_is_dropped_alone(row: Any) -> None:
    folding = Folding(build.meta({"slash": {"items": [row, SLASH_ROW]}}))
    assert folding.model.settings["slash"] == {"items": [SLASH_ROW]}


@pytest.mark.parametrize("section", [5, "no", [], {"items": {}}, {"items": None}, {}])
def test_a_malformed_slash_section_still_replaces(section: Any) -> None:
    folding = Folding(build.meta({"slash": {"items": [SLASH_ROW]}}))
    folding.add(build.meta({"slash": section}))
    assert "slash" not in folding.model.settings


def test_failures_behind_a_delta_are_errors_and_its_reason_is_not_drawn() -> None:
    folding = Folding(
        build.meta({"sendNow": {}, "reason": "cancel_failed", "detail": "no", "indexErr": "disk"})
    )
    assert folding.rows() == [("error", "no"), ("error", "disk")]
    assert "err" not in folding.documents()[0]


# ---- 13: queue ----


def test_the_queue() -> None:
    def change(ident: str, what: str, text: str = "", place: int = 0) -> dict[str, Any]:
        return build.queue(payload("queue", id=ident, text=text), what, place)

    folding = Folding(
        change("q-1", "queued", "one"),
        change("q-2", "queued", "two", 9),
        change("q-3", "queued", "three", 1),
        change("q-1", "queued", "again", 2),
        change("q-2", "edited", "edited"),
        change("q-9", "edited", "unknown"),
        change("q-3", "novel", "x"),
        {"type": "queue", "queueChange": "queued"},
    )
    rows = [(row["id"], row.get("text")) for row in folding.model.queue]
    assert rows == [("q-1", "again"), ("q-3", "three"), ("q-2", "edited")]
    folding.add(change("q-3", "removed"), change("q-1", "sent"), change("q-8", "removed"))
    assert [row["id"] for row in folding.model.queue] == ["q-2"]


# ---- 14: roster ----


def row(ident: str, status: str = "running", ended: int | None = None) -> dict[str, Any]:
    return payload(
        "subagent", id=ident, status=status, endedAt=minute(ended) if ended is not None else ""
    )


def test_rows_keep_the_order_of_their_first_appearance() -> None:
    folding = Folding(
        build.subagent(row("b"), "spawned"),
        build.subagent(row("a"), "progress"),
        build.subagent(row("b", "completed", 3), "finished"),
        build.subagent(row("b", "completed", 3), "finished"),
        build.subagent(row("a", "failed", 4), "finished"),
        build.subagent(row(""), "spawned"),
    )
    rows = {ident: held.finish for ident, held in folding.model.agents.items()}
    assert list(rows.items()) == [("b", 1), ("a", 2)]
    assert list(folding.model.subs) == ["b", "a"]
    folding.add(build.subagent(row("b"), "spawned"))
    assert folding.model.agents["b"].finish == 0


def test_finishing_closes_the_childs_run_and_compaction() -> None:
    folding = Folding(
        build.subagent(row("a"), "spawned"),
        build.compaction("started", "a", reason="auto"),
        build.thought("hm", "a"),
        build.subagent(row("a", "completed", 4), "finished"),
    )
    child = folding.model.subs["a"]
    assert child.run is None and child.compacting is None
    assert folding.documents("a")[0]["end"] == minute(4)


def test_the_oldest_finished_rows_go_with_their_transcripts() -> None:
    folding = Folding(bounds=BOUNDS._replace(finished=2))
    for ident, ended in (("late", 30), ("early", 10), ("never", None), ("just", 5)):
        folding.add(build.subagent(row(ident), "spawned"), build.text("x", ident))
        folding.add(build.subagent(row(ident, "completed", ended), "finished"))
    # `just` has the oldest end of the rest, but it is the one that has just finished.
    assert list(folding.model.agents) == ["late", "just"]
    assert list(folding.model.subs) == ["late", "just"]


def test_ends_are_ordered_as_times_and_not_as_words() -> None:
    folding = Folding(bounds=BOUNDS._replace(finished=2))
    for ident, ended in (
        ("whole", "2026-01-01T00:00:00Z"),
        ("fraction", "2026-01-01T00:00:00.5Z"),
        ("last", "2026-01-01T00:00:01Z"),
    ):
        info = {"id": ident, "status": "completed", "endedAt": ended}
        folding.add(build.subagent(info, "finished"))
    assert list(folding.model.agents) == ["fraction", "last"]


# ---- 15 and 16: command and compaction ----


@pytest.mark.parametrize(
    ("command", "drawn"),
    [
        ({"qualified": "pr:review", "kind": "command"}, ["⤷ pr:review (command)"]),
        ({"qualified": "pr:re\x1b[31mview\n", "kind": " "}, ["⤷ pr:review"]),
        ({"qualified": "\x1b]0;x\x07\x00", "kind": "skill"}, []),
        (None, []),
    ],
)
def test_b71_a_command_is_noted_on_one_clean_line(
    command: dict[str, str] | None, drawn: list[str]
) -> None:
    folding = Folding(build.command({"pluginCommand": command} if command else {}))
    assert [words for _, words in folding.rows()] == drawn


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (
            {"reason": "manual", "tokensBefore": 890000, "tokensAfter": 21000},
            "context compacted on request · 890k → 21k tokens",
        ),
        (
            {"reason": "overflow", "tokensBefore": 1_214_000, "tokensAfter": 999_600},
            "context was too large — compacted · 1.21M → 1M tokens",
        ),
        ({"reason": "auto"}, "context compacted · 0 → 0 tokens"),
        ({"reason": "auto", "err": "no\nway"}, "compaction failed: no way"),
        ({"err": "\x1b[31m\x00"}, "compaction failed"),
    ],
)
def test_the_end_of_a_compaction_is_noted(members: dict[str, Any], words: str) -> None:
    folding = Folding(build.text("a"), build.compaction("started", reason="auto"))
    assert folding.main.run is None
    assert folding.main.compacting == {"since": minute(2), "reason": "auto"}
    folding.add(build.compaction("ended", **members))
    assert folding.main.compacting is None
    assert folding.rows()[1] == ("note", words)


@pytest.mark.parametrize(
    "ending",
    [
        build.done("end_turn"),
        build.error(""),
        build.turn_ended("turn-1"),
        build.foreign_turn({}),
        build.replay("end"),
    ],
)
def test_whatever_ends_a_turn_ends_its_compaction(ending: dict[str, Any]) -> None:
    folding = Folding(build.compaction("started"), build.foreign_turn({"running": True}))
    assert folding.main.compacting == {"since": minute(1)}
    folding.add(ending)
    assert folding.main.compacting is None


# ---- bounds ----


def test_too_many_entries_drop_the_oldest() -> None:
    folding = Folding(bounds=BOUNDS._replace(main_entries=3))
    for number in range(3):
        folding.add(tool(f"t-{number}"))
    assert not folding.main.trimmed
    folding.add(tool("t-3"), tool("t-0"))
    assert folding.main.trimmed
    # The dropped tool's id is forgotten: its update is a new entry.
    assert folding.rows() == [("tool", "t-2"), ("tool", "t-3"), ("tool", "t-0")]


def test_too_many_bytes_drop_the_oldest_but_never_the_last() -> None:
    folding = Folding(bounds=BOUNDS._replace(main_bytes=10))
    folding.add(build.error("12345"), build.text("678"), build.text("90"))
    assert folding.main.size == 10 and not folding.main.trimmed
    folding.add(build.text("1"))
    assert folding.rows() == [("assistant", "678901")]
    folding.add(build.text("x" * 20))
    assert folding.main.size == 26 and folding.main.trimmed


def test_an_update_in_place_never_trims() -> None:
    folding = Folding(bounds=BOUNDS._replace(main_bytes=10))
    folding.add(tool("t-1"), tool("t-2"), tool("t-1", contentText="x" * 50))
    assert len(folding.documents()) == 2
    assert folding.main.size == 56


def test_the_bytes_of_a_tool_are_those_of_all_its_strings() -> None:
    folding = Folding(
        tool(
            "é", name="n", status="s", kind="k", title="t", toolName="o", rawInput="r",
            contentText="c", locations=["l", "l"], at=minute(9),
            output={"exitCode": 0, "stdout": "1", "stderr": "2", "content": "3", "stdoutHead": "4",
                    "stderrHead": "5"},
            diffs=[{"path": "p", "oldText": "o", "newText": "n", "added": 3}],
            task={"description": "1", "prompt": "2", "model": "3", "agentId": "4",
                  "subagentType": "5", "status": "6", "durationMs": 4},
        )
    )  # fmt: skip
    assert folding.main.size == 2 + 7 + 2 + 5 + 3 + 6


def test_the_bytes_of_a_plan_are_those_of_its_strings_and_todos() -> None:
    body = payload(
        "plan", id="plan-1", name="n", overview="oo", plan="p",
        todos=[payload("todo", id="1", content="c", status="s")],
    )  # fmt: skip
    assert Folding(build.opening("plan", body)).main.size == 6 + 1 + 2 + 1 + 3


def test_events_without_times_leave_times_out() -> None:
    model = Model()
    for seq, event in enumerate((build.thought("a"), build.done("cancelled")), 1):
        model.fold(seq, event)
    assert [list(document) for document in model.main.documents()] == [["id", "kind", "text"]] * 2
    model.fold(3, stamped(build.compaction("started"), 1))
    assert model.main.compacting == {"since": minute(1)}
