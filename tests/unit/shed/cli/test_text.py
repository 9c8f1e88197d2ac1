"""What a person reads, line by line."""

import pytest

from craze_shed.cli import text
from craze_shed.contract import frames
from craze_shed.contract.approvals import LaneApproval, LaneApprovalOption, LaneQuestion
from craze_shed.contract.capabilities import LaneCapabilities, SourceCapabilities
from craze_shed.contract.creating import (
    LaneCreated,
    LaneCreateOptions,
    LaneProvider,
    LaneReopened,
)
from craze_shed.contract.rows import FeedMessage, FeedTool
from craze_shed.contract.sessions import LaneHistory, LaneSession
from craze_shed.contract.settings import LaneChoice, LaneSetting, LaneSettings

from .conftest import BAD, ID, PLAIN, session


def approval(**members):
    return LaneApproval(
        **{"id": "p", "session_id": ID, "kind": "permission", "status": "pending", "title": "Run",
           **members}
    )  # fmt: skip


ASKED = approval(
    options=(LaneApprovalOption("a1", "Yes"), LaneApprovalOption("a2", "No", kind="reject_once"))
)
QUESTIONS = approval(
    kind="question",
    title="Two things",
    questions=(
        LaneQuestion("lang", question="Which language?", options=(LaneApprovalOption("rs", "R"),)),
        LaneQuestion(
            "db", question="Which stores?", options=(LaneApprovalOption("pg", "P"),), multiple=True
        ),
    ),
)


@pytest.mark.parametrize("row,line", [
    (FeedMessage(1, role="user", type="text", text="hi"), "[   1] user/text  hi"),
    (FeedMessage(1234, role="assistant", type="reasoning", text="a\nb\n\nc"),
     "[1234] assistant/reasoning  a\n       b\n       \n       c"),
    (FeedMessage(12, role="tool", type="tool_use", tool=FeedTool("shell", "Run t1")),
     "[  12] tool/tool_use    (shell Run t1)"),
    (FeedMessage(13, role="tool", type="tool_result", text="ok", tool=FeedTool("shell")),
     "[  13] tool/tool_result  ok  (shell)"),
    (FeedMessage(14, role="system", type="status"), "[  14] system/status"),
])  # fmt: skip
def test_a_row(row, line):
    assert text.row(row) == line


def test_b71_a_row_passes_for_nothing_else():
    row = FeedMessage(1, role=BAD, type=BAD, text=BAD, tool=FeedTool(BAD, BAD))
    first, second = text.row(row).split("\n")
    assert first == f"[   1] {PLAIN}/{PLAIN}  [bold]x[/x]"
    assert second == f"       --- down: forged  ({PLAIN} {PLAIN})"


def test_a_history():
    page = LaneHistory((FeedMessage(1, role="user", type="text", text="hi"),), True)
    assert list(text.history(page)) == ["[   1] user/text  hi", "… (earlier transcript not shown)"]


@pytest.mark.parametrize("row,line", [
    (session(provider="grok", doing="Reading"),
     "0123456789ab  idle            0 waiting  grok     /w  Reading"),
    (session(activity="needs_approval", pending_approvals=12),
     "0123456789ab  needs_approval 12 waiting  -        /w  a title"),
    (LaneSession(), "  unknown         0 waiting  -"),
])  # fmt: skip
def test_a_session(row, line):
    assert text.session(row) == line


def test_b71_a_session_is_one_plain_line():
    row = session(BAD, title=BAD, cwd=BAD, provider=BAD)
    assert text.session(row) == f"{PLAIN}  idle            0 waiting  {PLAIN} {PLAIN}  {PLAIN}"


@pytest.mark.parametrize("frame,lines", [
    (frames.SourceReset("connect", 3), ["--- reset (connect) generation 3"]),
    (frames.SourceSession(session()),
     ["0123456789ab  idle            0 waiting  -        /w  a title"]),
    (frames.SourceRemoved(ID), ["0123456789ab  (gone)"]),
    (frames.SourceCapabilitiesFrame(SourceCapabilities("craze", True, False)),
     ["+++ create=true create_options=false"]),
    (frames.SourceReady(1), ["--- ready"]),
    (frames.SourceReady(1, True), ["… (truncated at craze's 512 rows)", "--- ready"]),
    (frames.SourceOffline("no route", "unreachable"), ["--- offline (unreachable): no route"]),
    (frames.SourceOffline(BAD, BAD), [f"--- offline ({PLAIN}): {PLAIN}"]),
    (frames.SourceUnknown(), []),
])  # fmt: skip
def test_what_a_source_says(frame, lines):
    assert list(text.source_frame(frame)) == lines


@pytest.mark.parametrize("frame,lines", [
    (frames.Message(FeedMessage(1, role="user", type="text", text="hi")),
     ["[   1] user/text  hi"]),
    (frames.Session(session(pending_approvals=1)), ["--- idle 1 waiting"]),
    (frames.Session(session(activity="working", doing="Reading")),
     ["--- working 0 waiting — Reading"]),
    (frames.Approval(ASKED),
     ["--- approval p [pending] Run", "      choice:a1  Yes", "      choice:a2  No"]),
    (frames.Approval(approval(status="resolved")), ["--- approval p [resolved] Run"]),
    (frames.Capabilities(LaneCapabilities("craze", False, True, True, True, True, False)),
     ["+++ interject=false cancel=true approvals=true settings=true stop=false"]),
    (frames.Settings(LaneSettings(model="m", mode="plan")), ["+++ model m mode plan"]),
    (frames.Settings(LaneSettings()), ["+++ model - mode -"]),
    (frames.SlashCatalog(), []),
    (frames.Stale("reconnecting"), ["--- stale: reconnecting"]),
    (frames.Reset("lagged", 2), ["--- reset (lagged) generation 2"]),
    (frames.Ready(2), ["--- ready (2)"]),
    (frames.Down("session_closed"), ["--- down: session_closed"]),
    (frames.Down(BAD), [f"--- down: {PLAIN}"]),
    (frames.Unknown(), []),
])  # fmt: skip
def test_what_a_lane_says(frame, lines):
    assert list(text.lane_frame(frame)) == lines


def test_what_can_be_answered_is_shown_as_it_is_typed():
    assert list(text.approvals((ASKED, QUESTIONS))) == [
        "p  permission  Run",
        "    choice:a1  Yes",
        "    choice:a2  No",
        "p  question  Two things",
        "    Which language?",
        "    question:rs  R",
        "    Which stores?  (several)",
        "    question:pg  P",
    ]


def test_b71_what_is_asked_is_plain():
    bad = LaneApprovalOption(BAD, BAD)
    asked = approval(id=BAD, kind=BAD, title=BAD, options=(bad,))
    assert list(text.approvals([asked])) == [
        f"{PLAIN}  {PLAIN}  {PLAIN}",
        f"    choice:{PLAIN}  {PLAIN}",
    ]


def test_what_can_be_created():
    offered = LaneCreateOptions(
        (
            LaneProvider("grok", "Grok", "ready"),
            LaneProvider("cursor", "Cursor", "unavailable", "not found", "set [agents].cursor"),
            LaneProvider(BAD, "", "odd", BAD),
        ),
        "grok",
        ("/a", BAD),
    )
    assert list(text.options(offered)) == [
        "grok     ready",
        "cursor   unavailable  not found — set [agents].cursor",
        f"{PLAIN} odd          {PLAIN}",
        "default: grok",
        "recent:  /a",
        f"recent:  {PLAIN}",
    ]
    assert list(text.options(LaneCreateOptions())) == ["default: -"]


def test_what_came_of_a_create_and_of_a_reopening():
    assert text.created(LaneCreated(session(), "accepted")) == f"{ID}  /w  prompt accepted"
    refused = LaneCreated(session(), "refused", BAD)
    assert text.created(refused) == f"{ID}  /w  prompt refused: {PLAIN}"
    assert text.reopened(LaneReopened(session(), True)) == f"{ID}  /w  joined"
    assert text.reopened(LaneReopened(session(cwd=BAD))) == f"{ID}  {PLAIN}  resumed"


def test_the_settings_say_how_each_is_set():
    stated = LaneSettings(
        "m-1",
        (LaneChoice("m-1", "Model one"), LaneChoice(BAD, BAD)),
        None,
        (LaneChoice("plan", "Plan"),),
        (LaneSetting("effort", "Effort", "thought_level", "low", (LaneChoice("high", "High"),)),),
    )
    assert list(text.settings(stated)) == [
        "model: m-1",
        "  m-1  Model one",
        f"  {PLAIN}  {PLAIN}",
        "mode:  -",
        "  plan  Plan",
        "Effort (thought_level): low",
        "  effort high  High",
    ]
