"""The commands about one session."""

import json

import pytest

from craze_shed.cli import reaching
from craze_shed.contract import errors, frames
from craze_shed.contract.answers import Choice, Permission, Question, Reject
from craze_shed.contract.approvals import LaneApproval, LaneApprovalOption
from craze_shed.contract.rows import FeedMessage
from craze_shed.contract.sessions import LaneHistory
from craze_shed.contract.settings import LaneSettings, SetConfig, SetMode, SetModel

from .conftest import BAD, ID, OTHER, PLAIN, SEED, interrupt, listed, session, unknown

VERBS = {
    "send": ("send", ID, "fix", "it"),
    "interject": ("interject", ID, "no"),
    "cancel": ("cancel", ID),
    "answer": ("answer", ID, "p-1", "reject"),
    "set": ("set", ID, "mode", "plan"),
    "rename": ("rename", ID, "T"),
    "stop": ("stop", ID),
}
READS = {"history": ("history", ID), "approvals": ("approvals", ID), "settings": ("settings", ID)}


def told(out):
    return [json.loads(line) for line in out.splitlines()]


# ---- which session ----


@pytest.mark.parametrize("word,id", [
    (ID, ID), ("012345", ID), ("89ab", ID), ("0000", OTHER), ("0123c", OTHER),
])  # fmt: skip
def test_a_session_is_named_by_its_id_or_by_an_end_of_it(run, source, word, id):
    source.stream = listed(session(), session(OTHER))
    assert run("history", word)[0] == 0
    assert source.opened == [id]


@pytest.mark.parametrize("word,problem", [
    ("0123", '"0123" names several: 0123456789ab (a title), 0123cdef0000 (a title)'),
    ("012", "a session is named by 4 characters at least of the beginning or the end of its id,"
            ' got "012"'),
    ("a title", 'no session "a title": there are 0123456789ab (a title), 0123cdef0000 (a title)'),
    ("4567", 'no session "4567": there are 0123456789ab (a title), 0123cdef0000 (a title)'),
])  # fmt: skip
def test_what_names_none_or_several_is_told_which_there_are(run, source, word, problem):
    source.stream = listed(session(), session(OTHER))
    code, out, err = run("history", word, "--json")
    assert (code, err) == (1, f"craze-shed history: {problem}\n")
    assert told(out)[0]["error"]["message"] == problem
    assert source.opened == []


def test_b71_candidates_are_plain_and_not_too_many(run, source):
    source.stream = listed(*(session(f"{n:012x}", title=BAD) for n in range(20)))
    err = run("history", "nonesuch")[2]
    assert err.count(PLAIN) == 8 and err.endswith(f"({PLAIN}), …\n") and err.count("\n") == 1
    source.stream = listed()
    said = 'craze-shed history: no session "nonesuch": no session runs there\n'
    assert run("history", "nonesuch") == (1, "", said)


def test_b06_a_whole_id_is_tried_though_no_list_has_it_yet(run, source):
    source.stream = listed(session(OTHER))
    assert run("send", ID, "go") == (0, "sent\n", "")
    assert source.opened == [ID]
    source.lane.stream = (frames.Down("unknown_session"),)
    code, out, err = run("send", ID, "go")
    assert (code, out) == (1, "")
    assert err == f'craze-shed send: no session "{ID}": there are {OTHER} (a title)\n'


def test_b12_an_offline_machine_is_a_failure_at_once_and_never_a_blank(run, source):
    source.stream = [frames.SourceOffline("no route", "unreachable")]
    for line in (*VERBS.values(), *READS.values(), ("watch", ID)):
        said = f"craze-shed {line[0]}: craze is offline (unreachable): no route\n"
        assert run(*line) == (1, "", said)
    assert source.opened == []


# ---- verbs ----


@pytest.mark.parametrize("line,asked,said", [
    (VERBS["send"], ("send", "fix it", "queue"), "sent"),
    (("send", ID, "--", "--json"), ("send", "--json", "queue"), "sent"),
    (VERBS["interject"], ("send", "no", "interject"), "sent"),
    (VERBS["cancel"], ("cancel",), "cancel requested"),
    (("answer", ID, "p", "allow-once"), ("answer", "p", Permission("allow_once")), "answered"),
    (("answer", ID, "p", "allow-always"), ("answer", "p", Permission("allow_always")), "answered"),
    (("answer", ID, "p", "reject"), ("answer", "p", Reject()), "answered"),
    (("answer", ID, "p", "choice:a:b c"), ("answer", "p", Choice("a:b c")), "answered"),
    (("answer", ID, "p", "question:a"), ("answer", "p", Question((("a",),))), "answered"),
    (("answer", ID, "p", "question:a,b", "question:", "question:c"),
     ("answer", "p", Question((("a", "b"), (), ("c",)))), "answered"),
    (("set", ID, "model", "m-2"), ("set", SetModel("m-2")), "set"),
    (("set", ID, "mode", "plan"), ("set", SetMode("plan")), "set"),
    (("set", ID, "effort", "high"), ("set", SetConfig("effort", "high", "m-1")), "set"),
    (("rename", ID, "A", "title"), ("set_title", "A title"), "renamed"),
    (VERBS["stop"], ("stop",), "stop received (the session ends on its stream)"),
])  # fmt: skip
def test_a_verb_is_asked_once_and_ends_at_its_receipt(run, source, line, asked, said):
    assert run(*line) == (0, f"{said}\n", "")
    assert source.lane.asked == [asked]
    assert all(publisher.is_closed() for publisher in source.lane.subscriptions)
    assert told(run(*line[:2], "--json", *line[2:])[1]) == [{}]


@pytest.mark.parametrize("line", VERBS.values(), ids=VERBS)
def test_a_refusal_is_a_failure(run, source, line):
    source.lane.fails = errors.LaneError("not_accepting")
    code, out, err = run(*line[:2], "--json", *line[2:])
    said = "the session is not accepting that right now"
    assert (code, err) == (1, f"craze-shed {line[0]}: {said}\n")
    assert told(out) == [{"error": {"code": "not_accepting", "message": said}}]


@pytest.mark.parametrize("line", VERBS.values(), ids=VERBS)
def test_b09_b10_what_may_have_been_done_is_told_so_and_never_done_again(run, source, line):
    source.lane.fails = unknown()
    code, out, err = run(*line)
    assert (code, out) == (4, "")
    assert err == (
        f"craze-shed {line[0]}: outcome unknown: the connection to craze dropped; check the"
        " transcript\n"
    )
    assert len(source.lane.asked) == 1


@pytest.mark.parametrize("line", VERBS.values(), ids=VERBS)
def test_an_interrupted_verb_may_have_been_done(run, source, line):
    source.lane.hang = interrupt
    code, out, err = run(*line)
    assert (code, out) == (130, "")
    assert err == (
        f"craze-shed {line[0]}: interrupted; it may have been done: check the transcript\n"
    )
    assert all(publisher.is_closed() for publisher in source.lane.subscriptions)


@pytest.mark.parametrize("reason,problem", [
    ("session_closed", "the session has ended"),
    ("start_failed:no such [model]", "the session failed to start: no such [model]"),
    ("start_failed", "the session failed to start"),
    ("unreachable", "unreachable; nothing was sent"),
    ("connect refused: a/b", "connect refused: a/b; nothing was sent"),
])  # fmt: skip
def test_a_lane_that_does_not_come_up_is_sent_nothing(run, source, reason, problem):
    source.lane.stream = (frames.Down(reason),)
    for line in VERBS.values():
        assert run(*line) == (1, "", f"craze-shed {line[0]}: {problem}\n")
    assert source.lane.asked == []


def test_a_lane_without_a_word_is_given_up(run, source, monkeypatch):
    monkeypatch.setattr(reaching, "JOIN", 0.01)
    source.lane.stream = SEED[:2]
    said = "craze-shed send: local did not answer within 0.01s; nothing was sent\n"
    assert run(*VERBS["send"]) == (1, "", said)
    assert source.lane.asked == []


@pytest.mark.parametrize("words", [("maybe",), ("allow-once", "reject"), ("choice:",),
                                   ("choice:a", "choice:b"), ("question:a", "reject")])  # fmt: skip
def test_an_answer_that_is_none_is_a_usage_error_and_nothing_is_dialled(run, source, words):
    source.stream = []
    code, out, err = run("answer", ID, "p", *words)
    assert (code, out) == (2, "")
    assert err == (
        "craze-shed answer: ANSWER is allow-once, allow-always, reject, choice:ID, or"
        " question:ID[,ID...] for each question\n"
    )


def test_a_blank_prompt_is_none(run, source):
    assert run("send", ID, " ") == (2, "", "craze-shed send: TEXT says nothing\n")
    assert source.opened == []


def test_a_rename_that_is_not_recorded_is_a_warning(run, source):
    source.lane.warning = BAD
    assert run("rename", ID, "T") == (0, "renamed\n", f"craze-shed rename: {PLAIN}\n")
    assert told(run("rename", ID, "T", "--json")[1]) == [{"warning": BAD}]


# ---- reads ----


def test_history(run, source):
    source.lane.page = LaneHistory((FeedMessage(1, role="user", type="text", text="hi"),), True)
    assert run("history", ID) == (
        0,
        "[   1] user/text  hi\n… (earlier transcript not shown)\n",
        "",
    )
    assert source.lane.asked == [("history", 200)]
    assert told(run("history", ID, "--json")[1]) == [source.lane.page.to_wire()]


def test_approvals(run, source):
    asked = LaneApproval("p", ID, "permission", "pending", BAD,
                         options=(LaneApprovalOption("a", "Yes"),))  # fmt: skip
    source.lane.pending = (asked,)
    assert run("approvals", ID) == (0, f"p  permission  {PLAIN}\n    choice:a  Yes\n", "")
    assert told(run("approvals", ID, "--json")[1]) == [asked.to_wire()]
    source.lane.pending = ()
    assert run("approvals", ID) == (0, "nothing asked\n", "")
    assert run("approvals", ID, "--json") == (0, "", "")


def test_settings(run, source):
    source.lane.stated = LaneSettings(model="m-1")
    assert run("settings", ID) == (0, "model: m-1\nmode:  -\n", "")
    assert told(run("settings", ID, "--json")[1]) == [{"model": "m-1", "models": [], "modes": [],
                                                       "options": []}]  # fmt: skip


@pytest.mark.parametrize("line", READS.values(), ids=READS)
def test_a_read_that_fails(run, source, line):
    source.lane.fails = errors.unavailable("craze closed the connection")
    said = f"craze-shed {line[0]}: craze closed the connection\n"
    assert run(*line) == (1, "", said)
    assert source.lane.subscriptions == []


# ---- watch ----


def test_watch(run, source):
    source.lane.stream = (
        *SEED,
        frames.Stale("reconnecting"),
        frames.Unknown(),
        frames.Ready(1),
        frames.Message(FeedMessage(1, role="user", type="text", text="[hi]")),
        frames.Down("session_closed"),
    )
    code, out, err = run("watch", ID)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "--- reset (connect) generation 1",
        "--- idle 0 waiting",
        "+++ interject=true cancel=true approvals=true settings=true stop=true",
        "+++ model m-1 mode -",
        "--- ready (1)",
        "--- stale: reconnecting",
        "--- ready (1)",
        "[   1] user/text  [hi]",
        "--- down: session_closed",
    ]
    code, out, err = run("watch", ID, "--json")
    stream = [frame for frame in source.lane.stream if frame != frames.Unknown()]
    assert told(out) == [frame.to_wire() for frame in stream]


@pytest.mark.parametrize("reason", ["unreachable", "unknown_session", "start_failed:x"])
def test_a_stream_that_ends_for_another_reason_is_a_failure(run, source, reason):
    source.lane.stream = (frames.Down(reason),)
    assert run("watch", ID) == (1, f"--- down: {reason}\n", "")


def test_watch_ends_at_ctrl_c_without_a_word(run, source, monkeypatch):
    source.lane.stream = SEED
    from craze_shed.cli import text

    lines = text.lane_frame

    def pressed(frame):
        yield from lines(frame)
        if isinstance(frame, frames.Ready):
            interrupt()

    monkeypatch.setattr(text, "lane_frame", pressed)
    code, out, err = run("watch", ID)
    assert (code, err) == (130, "") and out.startswith("--- reset")
    assert source.lane.subscriptions[0].is_closed()
