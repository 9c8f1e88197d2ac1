"""Events and snapshots folded into rows: every rule, every exact word."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from craze_shed.contract.rows import FeedApproval, FeedMessage, FeedTool
from craze_shed.craze import fold as folding
from craze_shed.craze.fold import Fold, NoSnapshot
from tests.unit.shed.craze.test_asks import MOMENT, permission, plan, question

HOST = "0123456789ab"
AT = "2026-01-01T00:00:01Z"
CARDS = {"askCards": True, "planCards": True}


def fresh(**can: bool) -> Fold:
    made = Fold(HOST)
    made.adopt_info({"capabilities": can or CARDS})
    return made


def event(type: str, **members: Any) -> dict[str, Any]:
    return {"type": type, **members, "at": AT}


def text(words: str, **more: Any) -> dict[str, Any]:
    return event("text", text=words, **more)


def thought(words: str) -> dict[str, Any]:
    return event("thought", text=words)


def tool(**members: Any) -> dict[str, Any]:
    return event("tool", tool=members)


def started(words: str) -> dict[str, Any]:
    return event("turn", turn={"id": "turn-1", "phase": "started", "text": words})


def ended(**members: Any) -> dict[str, Any]:
    return event("turn", turn={"id": "turn-1", "phase": "ended", **members})


def ending(id: str, kind: str, **members: Any) -> dict[str, Any]:
    return event("ask", ask={"id": id, "kind": kind, "outcome": "answered", **members})


def drawn(fold: Fold, *events: Any) -> list[FeedMessage]:
    return [row for one in events for row in fold.event(one)]


def words(rows: list[FeedMessage]) -> list[str | None]:
    return [row.text for row in rows]


def kinds(rows: list[FeedMessage]) -> list[str]:
    return [f"{row.role}/{row.type}: {row.text}" for row in rows]


def whole(*events: Any, **can: bool) -> list[str]:
    """The rows of a session's events, to its end."""
    fold = fresh(**can)
    return kinds(drawn(fold, *events) + fold.flush())


# ---- runs ----


def test_runs_of_a_kind_are_rows() -> None:
    events = [thought("think "), thought("hard"), text("Hello, "), text("world")]
    assert whole(*events) == ["assistant/reasoning: think hard", "assistant/text: Hello, world"]


def test_a_long_run_is_several_rows() -> None:
    fold = fresh()
    made = drawn(fold, *[text("x" * 1000)] * 9) + fold.flush()
    assert [len(row.text or "") for row in made] == [8192, 808]


def test_the_end_of_a_turn_closes_no_run_and_done_does() -> None:
    fold = fresh()
    assert drawn(fold, text("partial"), ended()) == []
    assert words(drawn(fold, event("done", stopReason="end_turn"))) == ["partial"]


def test_the_time_of_a_run_is_its_first_chunks() -> None:
    fold = fresh()
    drawn(fold, {"type": "text", "text": "a", "at": MOMENT}, text("b"))
    assert [row.ts for row in fold.flush()] == [MOMENT]


@pytest.mark.parametrize(
    "closing",
    [
        tool(id="t", title="T"),
        event("done"),
        event("foreign_turn", foreignTurn={"running": True}),
        event("foreign_turn", foreignTurn={}),
        event("foreign_turn", running=True),  # a flat one
        event("foreign_turn"),
        event("compaction", compaction={"phase": "started"}),
        event("compaction", compaction={"phase": "ended"}),
        event("replay", replay={"phase": "end"}),
        started("next"),
        event("user", text="now", interjection=True),
        event("error", err={"message": "no"}),
        event("meta", state={"detail": "no"}),
        event("todos", todos=[{"status": "pending"}]),
        event("permission", permission=permission()),
        event("plan", plan=plan()),
        event("command", command={"pluginCommand": {"qualified": "p:c"}}),
        ended(synthetic=True, err="no"),
    ],
)
def test_what_closes_a_run(closing: dict[str, Any]) -> None:
    fold = fresh()
    assert drawn(fold, text("a run")) == []
    assert fold.open_bytes == 5
    assert words(drawn(fold, closing))[0] == "a run"
    assert fold.open_bytes == 0


@pytest.mark.parametrize(
    "passing",
    [
        text(""),
        thought(""),
        ended(),
        ended(synthetic=True),
        event("user", text="echo"),
        event("user", text="", interjection=True),
        event("replay", replay={"phase": "start"}),
        event("meta", state={"title": "T", "model": "m"}),
        event("todos", todos=[]),
        event("error", err={"message": ""}),
        event("command", command={"pluginCommand": {}}),
        tool(id="t", toolName="updateTodos"),
        tool(id="t", title="Update TODOs: 3"),
        event("queue", queue={"id": "q-1"}),
        event("subagent", subagent={"id": "a"}),
        event("novelty"),
        text("of a child", agent="sub-1"),
        event("permission", permission=permission(), agent="sub-1"),
        event("plan", plan=plan(auto=True)),
        event("question", question=question(auto=True)),
        ending("nobody", "permission"),
    ],
)
def test_what_does_not(passing: dict[str, Any]) -> None:
    fold = fresh()
    drawn(fold, text("a "))
    assert drawn(fold, passing) == []
    assert drawn(fold, text("run")) == []
    assert words(fold.flush()) == ["a run"]


# ---- prompts ----


def test_prompts() -> None:
    shell = '<shell_context>\n<command exit="0">\nx\n</shell_context>\n\n'
    assert whole(started(f"{shell}go"), started(""), event("user", text="go")) == [
        "user/text: go",
        "user/text: ",
    ]


def test_what_the_user_says_live_and_in_a_replay() -> None:
    assert whole(
        event("user", text="echoed"),
        event("user", text="now this", interjection=True),
        event("user", text="", interjection=True),
        event("replay", replay={"phase": "start"}),
        event("user", text="the user row"),
        text("the text row"),
        event("replay", replay={"phase": "end"}),
        event("user", text="echoed again"),
        event("user", text="the stamped user row", replayed=True),
        event("user", text="", replayed=True),
    ) == [
        "user/text: now this",
        "user/text: the user row",
        "assistant/text: the text row",
        "system/status: restored",
        "user/text: the stamped user row",
        "user/text: ",
    ]


# ---- tools ----


def test_a_tool_is_a_row_at_first_and_one_at_its_end() -> None:
    fold = fresh()
    state = {"id": "t1", "toolName": "shell", "title": "Run t1"}
    done = {**state, "status": "completed", "output": {"stdoutHead": "ok\n"}}
    made = drawn(
        fold,
        tool(**state, status="pending"),
        tool(**state, status="in_progress"),
        tool(**done),
        tool(**done),
        tool(**state, status="in_progress"),
    )
    assert made == [
        FeedMessage(ts=AT, role="tool", type="tool_use", tool=FeedTool("shell", "Run t1")),
        FeedMessage(
            ts=AT, role="tool", type="tool_result", text="ok\n", tool=FeedTool("shell", "Run t1")
        ),
    ]


@pytest.mark.parametrize(
    ("state", "result"),
    [
        ({"status": "failed", "contentText": "why"}, "failed"),
        ({"status": "cancelled"}, "cancelled"),
        ({"status": "completed", "contentText": "c" * 2000}, "c" * 512),
        ({"status": "completed", "contentText": "é" * 300}, "é" * 256),
        ({"status": "completed", "contentText": "x" + "é" * 300}, "x" + "é" * 255),
        ({"status": "completed", "output": {"stdoutHead": " \n"}, "contentText": "c"}, "c"),
        ({"status": "completed", "output": {"stdoutHead": "o"}, "contentText": "c"}, "o"),
        ({"status": "completed", "contentText": " "}, None),
        ({"status": "completed"}, None),
    ],
)
def test_what_a_tool_came_to(state: dict[str, Any], result: str | None) -> None:
    use, end = drawn(fresh(), tool(id="t", title="T", **state))
    assert (use.type, use.text, end.type, end.text) == ("tool_use", None, "tool_result", result)


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ({"toolName": "shell", "title": "Run", "name": "n"}, FeedTool("shell", "Run")),
        ({"title": "Run", "name": "n"}, FeedTool("Run", "Run")),
        ({"toolName": " ", "title": " ", "name": "n"}, FeedTool("n", None)),
        ({}, FeedTool(None, None)),
    ],
)
def test_what_a_tool_is_called(state: dict[str, Any], shown: FeedTool) -> None:
    (row,) = drawn(fresh(), tool(id="t", **state))
    assert row.tool == shown


def test_a_result_is_called_as_the_use_was_with_the_newest_title() -> None:
    fold = fresh()
    made = drawn(
        fold,
        tool(id="t", toolName="shell", title="run"),
        tool(id="t", toolName="other", title="Run `ls`"),
        tool(id="t", status="completed"),
    )
    assert [row.tool for row in made] == [FeedTool("shell", "run"), FeedTool("shell", "Run `ls`")]


def test_a_tools_own_time_wins() -> None:
    (row,) = drawn(fresh(), tool(id="t", at=MOMENT))
    assert row.ts == MOMENT


def test_the_todo_writer_is_ignored_and_a_tool_without_an_id_is_always_new() -> None:
    assert whole(
        text("before"),
        tool(id="w", toolName="updateTodos", status="completed"),
        text(" still"),
        tool(title="Grep"),
        tool(title="Grep"),
    ) == ["assistant/text: before still", "tool/tool_use: None", "tool/tool_use: None"]


def test_tools_past_the_bound_are_forgotten_but_those_in_flight() -> None:
    fold = fresh()
    drawn(fold, tool(id="flying", title="F"))
    for number in range(folding.TOOLS):
        drawn(fold, tool(id=f"t{number}", title="T", status="completed"))
    assert drawn(fold, tool(id="flying", title="F")) == []
    assert drawn(fold, tool(id="t1", title="T", status="completed")) == []
    assert len(drawn(fold, tool(id="t0", title="T", status="completed"))) == 2


# ---- notes ----


def test_the_todo_notes() -> None:
    pending, going, done = ({"status": word} for word in ("pending", "in_progress", "completed"))
    lists = [
        [pending, pending], [going, pending], [done, pending], [pending] * 3,
        [done, done, {"status": "cancelled"}], [done] * 3, [], [pending], [done],
    ]  # fmt: skip
    assert whole(*[event("todos", todos=one) for one in lists]) == [
        "system/status: tasks: 2 planned",
        "system/status: tasks: 3 planned",
        "system/status: tasks: 3/3 done",
        "system/status: tasks: 1/1 done",
    ]


@pytest.mark.parametrize(
    ("closing", "note"),
    [
        (event("done", stopReason="cancelled"), "cancelled"),
        (event("error", err={"message": "overloaded", "class": "provider"}), "overloaded"),
        (ended(synthetic=True, err="the agent went"), "the agent went"),
        (ended(synthetic=True, stopReason="cancelled"), "cancelled"),
        (event("meta", state={"detail": "cancel failed"}), "cancel failed"),
        (event("meta", state={"indexErr": "disk full"}), "disk full"),
        (event("replay", replay={"phase": "end"}), "restored"),
    ],
)
def test_a_note(closing: dict[str, Any], note: str) -> None:
    assert drawn(fresh(), closing) == [FeedMessage(ts=AT, role="system", type="status", text=note)]


@pytest.mark.parametrize(
    "silent",
    [
        event("done", stopReason="end_turn"),
        ended(err="said by an error of its own"),
        ended(stopReason="cancelled"),
        ended(synthetic=True, stopReason="closing"),
        event("meta", state={"reason": "withdrawn"}),
        event("meta"),
        event("error"),
    ],
)
def test_what_leaves_no_note(silent: dict[str, Any]) -> None:
    assert drawn(fresh(), silent) == []


def test_both_failures_of_a_delta() -> None:
    state = {"detail": "one", "indexErr": "two"}
    assert words(drawn(fresh(), event("meta", state=state))) == ["one", "two"]


@pytest.mark.parametrize(
    ("plugin", "note"),
    [
        ({"qualified": "pr:review", "kind": "command"}, "⤷ pr:review (command)"),
        ({"qualified": "pr:\nreview", "kind": ""}, "⤷ pr: review"),
        ({"qualified": " ", "kind": "skill"}, None),
        ({"qualified": 5, "kind": "skill"}, None),
        ({"qualified": "x", "kind": []}, "⤷ x"),
    ],
)
def test_the_note_of_a_command(plugin: dict[str, Any], note: str | None) -> None:
    made = drawn(fresh(), event("command", command={"pluginCommand": plugin}))
    assert words(made) == ([note] if note else [])


@pytest.mark.parametrize(
    ("reason", "note"),
    [
        ("subagent_wake", "sub-agent finished — the agent continues"),
        ("job_wake", "background command finished — the agent continues"),
        ("", "agent continued on its own (interjection fallback)"),
        ("another", "agent continued on its own (interjection fallback)"),
    ],
)
def test_the_note_of_a_foreign_turn(reason: str, note: str) -> None:
    turn = {"id": "wake-1", "reason": reason, "running": True}
    assert words(drawn(fresh(), event("foreign_turn", foreignTurn=turn))) == [note]
    assert drawn(fresh(), event("foreign_turn", foreignTurn={**turn, "running": False})) == []


@pytest.mark.parametrize(
    ("compaction", "note"),
    [
        (
            {"reason": "overflow", "tokensBefore": 1234567, "tokensAfter": 999},
            "context was too large — compacted · 1.23M → 999 tokens",
        ),
        (
            {"reason": "manual", "tokensBefore": 12345},
            "context compacted on request · 12.3k → 0 tokens",
        ),
        (
            {"reason": "auto", "tokensBefore": 999600, "tokensAfter": -5},
            "context compacted · 1M → 0 tokens",
        ),
        ({"reason": "new"}, "context compacted · 0 → 0 tokens"),
        ({"err": "HTTP\n500", "tokensBefore": 9}, "compaction failed: HTTP 500"),
        ({"err": "\x00 "}, "compaction failed"),
        ({"tokensBefore": "x", "tokensAfter": 1.5}, "context compacted · 0 → 0 tokens"),
    ],
)
def test_the_note_of_a_compaction(compaction: dict[str, Any], note: str) -> None:
    made = drawn(fresh(), event("compaction", compaction={"phase": "ended", **compaction}))
    assert words(made) == [note]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (850, "850"), (1234, "1.23k"), (12345, "12.3k"), (890000, "890k"), (1210000, "1.21M"),
        (2000000, "2M"), (10000, "10k"),
    ],
)  # fmt: skip
def test_numbers_of_tokens(count: int, shown: str) -> None:
    said = {"phase": "ended", "tokensBefore": count}
    assert words(drawn(fresh(), event("compaction", compaction=said))) == [
        f"context compacted · {shown} → 0 tokens"
    ]


# ---- asks ----


def test_a_permission_opens_and_is_answered() -> None:
    fold = fresh()
    options = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
    made = drawn(
        fold,
        event("permission", permission=permission("perm-1", *options)),
        ending("perm-1", "permission", optionId="y"),
        ending("perm-1", "permission", optionId="n"),
    )
    assert made == [
        FeedMessage(
            ts=AT,
            role="tool",
            type="approval_request",
            text="Run `ls`",
            tool=FeedTool("permission", None),
            approval=FeedApproval("perm-1", "pending", None, ("allow", "deny")),
        ),
        FeedMessage(
            ts=AT,
            role="tool",
            type="approval_request",
            text="Run `ls`",
            approval=FeedApproval("perm-1", "resolved", "allow"),
        ),
    ]
    assert not fold.book.approvals()["perm-1"].pending


@pytest.mark.parametrize("outcome", ["cancelled", "turn_ended", "closing", "automatic", ""])
def test_an_ask_that_was_not_answered_ends_without_a_word(outcome: str) -> None:
    fold = fresh()
    drawn(fold, event("plan", plan=plan()))
    (row,) = drawn(fold, ending("plan-1", "plan", outcome=outcome, accepted=True))
    assert row.approval == FeedApproval("plan-1", "resolved", None)


def test_a_question_is_answered() -> None:
    fold = fresh()
    made = drawn(
        fold,
        event("question", question=question("q-1")),
        ending("q-1", "question", answers={"lang": ["rs", "go"], "db": ["pg"]}),
    )
    assert kinds(made) == [
        "tool/approval_request: Some things",
        "tool/approval_request: Some things",
        "system/status: ? Which language? → Rust, Go",
        "system/status: ? Which database? → …",
        "system/status: ? Anything? → nothing",
    ]
    assert made[0].tool == FeedTool("question", None) and made[0].approval is not None
    assert made[0].approval.decisions == ()


def test_a_plan_is_drawn_then_asked_about() -> None:
    fold = fresh()
    made = drawn(fold, event("plan", plan=plan()), ending("plan-1", "plan"))
    assert kinds(made) == [
        "system/status: plan Refactor\nSplit the module",
        "tool/approval_request: Refactor",
        "tool/approval_request: Refactor",
        "system/status: plan Refactor → rejected",
    ]
    assert made[1].tool == FeedTool("plan", "Refactor\nSplit the module")
    assert made[1].approval == FeedApproval("plan-1", "pending", None, ("allow", "deny"))
    assert made[2].approval == FeedApproval("plan-1", "resolved", "deny")


def test_an_answer_of_another_kind_leaves_no_note() -> None:
    fold = fresh()
    drawn(fold, event("plan", plan=plan()))
    assert len(drawn(fold, ending("plan-1", "permission"))) == 1


def test_hidden_cards() -> None:
    fold = fresh(other=True)
    made = drawn(
        fold,
        event("question", question=question()),
        ending("ask-1", "question", skip=True),
        event("plan", plan=plan()),
        ending("plan-1", "plan", accepted=True),
    )
    assert words(made) == ["plan Refactor\nSplit the module"]
    assert fold.book.approvals() == {}


def test_an_automatic_plan_draws_nothing() -> None:
    fold = fresh()
    assert drawn(fold, event("plan", plan=plan(auto=True)), ending("plan-1", "plan")) == []


def test_b16_a_sub_agents_ask_is_pending_and_draws_no_row() -> None:
    fold = fresh()
    drawn(fold, text("streak"))
    assert drawn(fold, event("permission", permission=permission(), agent="sub-1")) == []
    (approval,) = fold.book.approvals().values()
    assert approval.pending and approval.detail is None
    assert fold.open_bytes == 6
    assert drawn(fold, ending("perm-1", "permission", optionId="y")) == []
    assert not fold.book.approvals()["perm-1"].pending


def test_an_ask_opened_twice_shows_once_as_it_reads_now() -> None:
    fold = fresh()
    drawn(fold, event("permission", permission=permission()))
    assert drawn(fold, event("permission", permission=permission(tool="now"))) == []
    assert fold.book.approvals()["perm-1"].title == "now"
    assert words(drawn(fold, ending("perm-1", "permission"))) == ["now"]
    assert len(drawn(fold, event("permission", permission=permission(tool="anew")))) == 1


def test_b16_the_registry_hurries_ahead_of_the_events() -> None:
    """What the registry says is known before the events that say it are folded; they draw their
    rows all the same."""
    fold = fresh()
    drawn(fold, event("permission", permission=permission("perm-1")))
    opened = {"perm-2": permission("perm-2", tool="second")}
    fold.adopt_registry(
        [{"id": id, "kind": "permission", "status": "open", "body": {"permission": body},
          "openedAt": MOMENT} for id, body in opened.items()]
    )  # fmt: skip
    assert [one.pending for one in fold.book.approvals().values()] == [False, True]
    assert words(drawn(fold, ending("perm-1", "permission", optionId="y"))) == ["Run `ls`"]
    assert words(drawn(fold, event("permission", permission=opened["perm-2"]))) == ["second"]
    assert [one.pending for one in fold.book.approvals().values()] == [False, True]


# ---- what else the fold keeps ----


def test_activity() -> None:
    fold = fresh()
    seen = [fold.activity]
    for one in (
        started("go"), ended(), text("a"), event("done"), thought("b"),
        event("foreign_turn", foreignTurn={}),
        event("foreign_turn", foreignTurn={"running": True}),
        event("foreign_turn", running=True),
        text("a", agent="sub-1"), tool(id="t"), event("meta", state={"detail": "x"}),
    ):  # fmt: skip
        drawn(fold, one)
        seen.append(fold.activity)
    assert seen == [
        "", "working", "idle", "working", "idle", "working", "idle", "working", "idle", "idle",
        "idle", "idle",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "clearing",
    [
        event("compaction", compaction={"phase": "ended"}),
        event("done"),
        event("error"),
        ended(),
        event("foreign_turn"),
        event("replay", replay={"phase": "end"}),
    ],
)
def test_compacting(clearing: dict[str, Any]) -> None:
    fold = fresh()
    drawn(fold, event("compaction", compaction={"phase": "started"}, agent="sub-1"))
    assert not fold.compacting
    drawn(fold, event("compaction", compaction={"phase": "started"}))
    assert fold.compacting
    drawn(fold, text("x"), tool(id="t"), event("foreign_turn", foreignTurn={"running": True}))
    assert fold.compacting
    drawn(fold, clearing)
    assert not fold.compacting


def test_the_title_is_what_a_delta_said_last() -> None:
    fold = fresh()
    assert fold.title is None
    drawn(fold, event("meta", state={"title": "T"}), event("meta", state={"title": 5}))
    assert fold.title == "T"
    drawn(fold, event("meta", state={"title": ""}))
    assert fold.title == ""


# ---- snapshots ----


def snapshot(entries: Any = (), main: Any = None, **more: Any) -> dict[str, Any]:
    return {"version": 1, "main": {"entries": list(entries), **(main or {})}, **more}


def entry(kind: str, words: str = "", **more: Any) -> dict[str, Any]:
    return {"id": "1.0", "kind": kind, "text": words, "at": AT, "end": AT, **more}


def restored(*args: Any, **more: Any) -> tuple[Fold, list[FeedMessage]]:
    fold = fresh()
    return fold, fold.restore(snapshot(*args, **more))


def test_every_kind_of_entry() -> None:
    fold, made = restored(
        [
            entry("user", "hi"),
            entry("user", ""),
            entry("user", "", interject=True),
            entry("thought", "hm"),
            entry("thought", "another"),
            entry("assistant", " \n"),
            entry("assistant", "x" * 9000),
            entry("tool", tool={"id": "t", "toolName": "sh", "title": "T", "status": "cancelled"}),
            entry("note", "restored"),
            entry("error", "no"),
            entry("plan", plan={"name": "P", "overview": "O"}),
            entry("novelty", "?"),
            "no entry",
        ]
    )
    shown = [one if len(one) < 99 else one[:16] + str(len(one)) for one in kinds(made)]
    assert shown == [
        "user/text: hi",
        "user/text: ",
        "assistant/reasoning: hm",
        "assistant/reasoning: another",
        "assistant/text: 8208",
        "assistant/text: 824",
        "tool/tool_use: None",
        "tool/tool_result: cancelled",
        "system/status: restored",
        "system/status: no",
        "system/status: plan P\nO",
    ]
    assert {row.ts for row in made} == {AT}
    assert not fold.truncated and fold.flush() == []
    assert drawn(fold, tool(id="t", status="completed")) == []  # it is known


@pytest.mark.parametrize("odd", [None, [], "x", {}, {"version": 2}, {"version": "1"}])
def test_a_snapshot_of_another_version_or_none_is_refused(odd: Any) -> None:
    with pytest.raises(NoSnapshot):
        fresh().restore(odd)


@pytest.mark.parametrize(
    ("main", "truncated", "said"),
    [
        ({}, False, False),
        ({"windowed": True}, True, False),
        ({"dropped": 3}, True, False),
        ({"omitted": [[12]]}, True, True),
        ({"omitted": []}, False, False),
        ({"trimmed": True}, False, False),
    ],
)
def test_a_window_says_so(main: dict[str, Any], truncated: bool, said: bool) -> None:
    fold, made = restored([entry("user", "hi")], main)
    assert fold.truncated is truncated
    assert words(made) == (["earlier transcript omitted"] if said else []) + ["hi"]


def test_an_open_run_goes_on_behind_the_open_asks() -> None:
    fold, made = restored(
        [entry("user", "hi"), entry("assistant", "…tail of a long run", streaming=True, cut=True)],
        {"streamOpen": True, "tailCut": True},
        asks=[
            {
                "id": "perm-1",
                "kind": "permission",
                "body": {"permission": permission(tool="T")},
                "at": AT,
            },
            {"id": "x", "kind": "question", "body": {"question": question(auto=True)}},
            {"id": "y", "kind": "plan", "body": None},
        ],
    )
    assert words(made) == ["hi", "T"]
    assert fold.book.approvals() == {}  # it is no member until the registry says so
    drawn(fold, text(" continues"))
    assert words(fold.flush()) == ["…tail of a long run continues"]


def test_a_last_entry_that_is_not_open_is_a_row() -> None:
    for main, streaming in (({"streamOpen": True}, False), ({}, True)):
        fold, made = restored([entry("assistant", "all", streaming=streaming)], main)
        assert words(made) == ["all"] and fold.open_bytes == 0


def test_a_run_whose_beginning_was_left_out_draws_nothing() -> None:
    main = {"streamOpen": True, "omittedRun": "assistant", "omitted": [[99]]}
    fold, made = restored([], main)
    made += drawn(fold, text("the rest"), text(""), thought(""), text(" of it"))
    made += drawn(fold, thought("a new run"), text("a fresh reply")) + fold.flush()
    assert words(made) == ["earlier transcript omitted", "a new run", "a fresh reply"]


@pytest.mark.parametrize("closing", [event("done"), tool(id="t", title="T"), started("next")])
def test_such_a_run_ends_where_any_would(closing: dict[str, Any]) -> None:
    fold, _ = restored([], {"streamOpen": True, "omittedRun": "thought", "omitted": [[99]]})
    drawn(fold, thought("unseen"), closing, thought("seen"))
    assert words(fold.flush()) == ["seen"]


def test_what_else_a_snapshot_restores() -> None:
    fold, _ = restored(
        [],
        {"todoPlanned": 3, "compacting": {}},
        replaying=True,
        settings={"title": "T", "model": "m", "mode": "x"},
    )
    assert (fold.title, fold.compacting, fold.settings.model, fold.activity) == ("T", True, "m", "")
    made = drawn(
        fold,
        event("user", text="replayed"),
        event("todos", todos=[{"status": "pending"}] * 3),
        event("todos", todos=[{"status": "pending"}] * 4),
    )
    assert words(made) == ["replayed", "tasks: 4 planned"]
    done, _ = restored([], {"todoDone": True})
    assert drawn(done, event("todos", todos=[{"status": "completed"}])) == []


def test_a_snapshots_ask_that_the_registry_lists_is_a_member_and_shows_once() -> None:
    fold, made = restored(
        asks=[
            {"id": id, "kind": "permission", "body": {"permission": permission(id)}, "at": AT}
            for id in ("perm-1", "perm-2")
        ]
    )
    assert len(made) == 2
    fold.adopt_registry(
        [{"id": "perm-2", "kind": "permission", "status": "open",
          "body": {"permission": permission("perm-2")}, "openedAt": MOMENT}]
    )  # fmt: skip
    assert list(fold.book.approvals()) == ["perm-2"]
    assert drawn(fold, event("permission", permission=permission("perm-2"))) == []
    # The other has ended meanwhile, and its event comes now.
    (row,) = drawn(fold, ending("perm-1", "permission", optionId="y"))
    assert row.approval == FeedApproval("perm-1", "resolved", "allow")


# ---- what cannot be read ----

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
PAYLOADS = {
    "tool": "tool", "todos": "todos", "permission": "permission", "question": "question",
    "plan": "plan", "ask": "ask", "error": "err", "meta": "state", "command": "command",
    "foreign_turn": "foreignTurn", "replay": "replay", "turn": "turn", "compaction": "compaction",
    "text": "text", "thought": "text", "user": "text", "done": "stopReason", "queue": "queue",
    "subagent": "subagent",
}  # fmt: skip
NAMES = (
    "id", "name", "title", "toolName", "status", "output", "stdoutHead", "contentText", "at",
    "text", "err", "message", "synthetic", "stopReason", "running", "reason", "state", "title",
    "model", "mode", "config", "options", "usage", "catalog", "models", "revision", "slash",
    "phase", "items", "detail", "indexErr", "pluginCommand", "qualified", "kind", "questions",
    "prompt", "optionId",
    "label", "overview", "auto", "answers", "outcome", "accepted", "skip", "tokensBefore",
    "category", "selectValues", "value", "recent", "contextTokens",
)  # fmt: skip
ODD = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)
EVENTS = st.one_of(
    ODD,
    st.builds(
        lambda kind, payload, more: {**more, "type": kind, PAYLOADS[kind]: payload},
        st.sampled_from(sorted(PAYLOADS)),
        ODD,
        st.dictionaries(st.sampled_from(("agent", "at", "interjection")), SCALARS, max_size=2),
    ),
)


@given(st.lists(EVENTS, max_size=5))
@settings(deadline=None, max_examples=300)
def test_no_event_raises(events: list[Any]) -> None:
    fold = fresh()
    for one in events:
        for row in fold.event(one):
            assert isinstance(row, FeedMessage)
    fold.settings.settings()
    fold.settings.capabilities()
    fold.book.approvals()


@given(
    st.fixed_dictionaries(
        {"version": st.just(1)},
        optional={
            "main": ODD
            | st.fixed_dictionaries(
                {},
                optional={
                    "entries": st.lists(
                        st.dictionaries(
                            st.sampled_from(("kind", "text", "tool", "plan", "at", "streaming")),
                            ODD | st.sampled_from(("user", "assistant", "tool", "plan")),
                            max_size=4,
                        ),
                        max_size=4,
                    ),
                    "streamOpen": ODD,
                    "omitted": ODD,
                    "omittedRun": ODD,
                },
            ),
            "settings": ODD,
            "asks": ODD,
            "replaying": ODD,
        },
    ),
    ODD,
)
@settings(deadline=None, max_examples=100)
def test_no_snapshot_and_no_info_raises(document: dict[str, Any], info: Any) -> None:
    fold = Fold(HOST)
    fold.adopt_info(info if isinstance(info, dict) else {})
    for row in fold.restore(document):
        assert isinstance(row, FeedMessage)
    fold.settings.settings()


@pytest.mark.parametrize("kind", sorted(PAYLOADS))
@pytest.mark.parametrize("payload", [None, 7, "x", [], [1], True])
def test_a_malformed_body_draws_nothing(kind: str, payload: Any) -> None:
    if isinstance(payload, str) and kind in ("text", "thought"):
        return  # that is a chunk
    assert drawn(fresh(), event(kind, **{PAYLOADS[kind]: payload})) == []
