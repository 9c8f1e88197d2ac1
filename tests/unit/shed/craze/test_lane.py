"""A lane's verbs and reads: sent once, and never in doubt about what became of them."""

from collections.abc import Callable
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze_shed.contract import answers, errors
from craze_shed.contract.errors import LaneError
from craze_shed.contract.frames import Message, Ready, Settings
from craze_shed.contract.sessions import LaneSession
from craze_shed.contract.settings import SetConfig, SetMode, SetModel
from craze_shed.craze import limits
from craze_shed.reach.scripted import PIPE
from tests.unit.shed.craze.conformance import LaneStream, ended
from tests.unit.shed.craze.hosts import (
    AT,
    CAPABILITIES,
    HOST,
    SESSION,
    Host,
    entry,
    hello,
    host,
    info,
    record,
    row,
    snapshot,
    text,
)
from tests.unit.shed.craze.scripting import settle, until

OPTIONS = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]

# What a lane is asked -> the method, and its params beside the session and the command.
VERBS: dict[str, tuple[Callable[[Any], Any], str, dict[str, Any]]] = {
    "prompt": (lambda lane: lane.send("hi"), "session.prompt", {"text": "hi", "mode": "queue"}),
    "interject": (
        lambda lane: lane.send("hi", "interject"),
        "session.prompt",
        {"text": "hi", "mode": "interject"},
    ),
    "cancel": (lambda lane: lane.cancel(), "session.cancel", {}),
    "answer": (
        lambda lane: lane.answer("perm-1", answers.Choice("y")),
        "asks.answer",
        {"askId": "perm-1", "answer": {"optionId": "y"}},
    ),
    "set": (
        lambda lane: lane.set(SetModel("b")),
        "session.set",
        {"setting": {"kind": "model", "value": "b"}},
    ),
    "rename": (lambda lane: lane.set_title("T"), "session.setTitle", {"title": "T"}),
    "stop": (lambda lane: lane.stop(), "session.stop", {}),
}


class Doing:
    """A call in a greenlet of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: Any = None
        self._greenlet = greenlets.spawn("doing", self._run, work)
        settle()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.value = work()
        except LaneError as failure:
            self.error = failure

    @property
    def over(self) -> bool:
        return bool(self._greenlet.ready())

    def result(self) -> Any:
        until(self._greenlet.ready)
        assert self.error is None, self.error
        return self.value

    def failure(self) -> LaneError:
        until(self._greenlet.ready)
        assert isinstance(self.error, LaneError), self.value
        return self.error


def opened(reach, watch, **options: Any) -> tuple[LaneStream, Host]:
    """A lane that is watched and seeded, with an ask open."""
    stream = watch(**options)
    one = host(reach).greet()
    one.seed(1, asks=[record("perm-1", options=OPTIONS)])
    stream.until(Ready)
    return stream, one


# ---- verbs ----


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_one_request(reach, watch, verb):
    stream, one = opened(reach, watch)
    act, method, params = VERBS[verb]
    doing = Doing(lambda: act(stream.lane))
    request = one.expect(method)
    assert request["params"] == {"sessionId": SESSION, "commandId": "1", **params}
    assert list(request["params"])[:2] == ["sessionId", "commandId"]
    assert not doing.over
    one.reply(request)
    assert doing.result() is None


def test_command_ids_count_over_all_verbs_and_connections(reach, watch):
    stream, one = opened(reach, watch)
    for number, verb in enumerate(VERBS, 1):
        act, method, _ = VERBS[verb]
        doing = Doing(lambda act=act: act(stream.lane))
        request = one.expect(method)
        assert request["params"]["commandId"] == str(number)
        one.reply(request)
        doing.result()
    one.drop()
    two = host(reach).greet()
    two.attach()
    two.registry(1)
    doing = Doing(lambda: stream.lane.cancel())
    request = two.expect("session.cancel")
    assert request["params"]["commandId"] == str(len(VERBS) + 1)
    two.reply(request)
    doing.result()


@pytest.mark.parametrize("verb", VERBS)
def test_b05_a_verb_without_a_connection_is_never_sent(reach, watch, verb):
    stream = watch(connected_wait=0.01)
    reach.unreachable = "no route"
    doing = Doing(lambda: VERBS[verb][0](stream.lane))
    what = "prompt" if verb == "interject" else verb
    assert doing.failure() == errors.unavailable(
        f"not connected to craze within 0.01s; the {what} was not sent — try again"
    )
    reach.unreachable = ""
    one = host(reach).greet()
    one.seed(1)
    stream.until(Ready)
    settle()
    assert VERBS[verb][1].encode() not in one.command.written  # nor does it leave later


def test_a_verb_without_anybody_watching_is_never_sent(make_lane):
    lane = make_lane(connected_wait=0.01)
    with pytest.raises(LaneError, match="the cancel was not sent"):
        lane.cancel()


def test_a_verb_waits_for_the_connection(reach, watch):
    stream, one = opened(reach, watch)
    one.drop()
    doing = Doing(lambda: stream.lane.cancel())
    two = host(reach).greet()
    assert not doing.over
    two.attach()
    two.expect("asks.list")  # the verbs do not wait for the asks
    two.reply(two.expect("session.cancel"))
    doing.result()


def test_a_connection_that_has_just_ended_is_not_sent_into(reach, watch):
    """Its watcher has not noticed yet."""
    stream, one = opened(reach, watch)
    next(iter(stream.lane._live)).close("just now")
    doing = Doing(lambda: stream.lane.cancel())
    two = host(reach).greet()
    two.attach()
    two.expect("asks.list")  # the verbs do not wait for the asks
    two.reply(two.expect("session.cancel"))
    doing.result()
    assert b"session.cancel" not in one.command.written


@pytest.mark.parametrize("verb", VERBS)
def test_b09_a_verb_whose_answer_is_lost_is_unknown_and_never_sent_again(reach, watch, verb):
    stream, one = opened(reach, watch)
    act, method, _ = VERBS[verb]
    doing = Doing(lambda: act(stream.lane))
    one.expect(method)
    one.drop()
    error = doing.failure()
    assert errors.is_outcome_unknown(error)
    assert error == errors.failed(
        "outcome unknown: the connection to craze dropped; check the transcript"
    )
    two = host(reach).greet()
    two.attach()
    two.registry(1).synchronized(1)
    stream.until(Ready)
    settle()
    assert method.encode() not in two.command.written


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_not_answered_in_time_is_unknown_and_has_us_reconnect(
    reach, watch, verb, monkeypatch
):
    monkeypatch.setattr(limits, "ASK", 0.01)
    stream, one = opened(reach, watch)
    act, method, _ = VERBS[verb]
    error = Doing(lambda: act(stream.lane)).failure()
    assert error == errors.failed(
        f"outcome unknown: craze did not answer {method} within 0.01s; check the transcript"
    )
    one.command.left()
    two = host(reach).greet()
    two.attach()
    two.registry(1).synchronized(1)
    stream.until(Ready)
    assert method.encode() not in two.command.written


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_never_left_was_not_sent(reach, watch, verb):
    """It waited behind another when the connection dropped."""
    stream, one = opened(reach, watch)
    one.command.reads.clear()
    first = Doing(lambda: stream.lane.send("x" * 3 * PIPE))
    act, method, _ = VERBS[verb]
    doing = Doing(lambda: act(stream.lane))
    one.command.end()
    assert errors.is_outcome_unknown(first.failure())
    what = "prompt" if verb == "interject" else verb
    assert doing.failure() == errors.unavailable(
        f"the connection to craze dropped; the {what} was not sent — try again"
    )
    assert one.command.written.count(method.encode()) == (method == "session.prompt")


def test_nor_was_one_that_waited_behind_another_for_too_long(reach, watch, monkeypatch):
    monkeypatch.setattr(limits, "ASK", 0.05)
    stream, one = opened(reach, watch)
    connection = next(iter(stream.lane._live))
    one.command.reads.clear()
    connection.send("session.state", {"x": "x" * 3 * PIPE})
    settle()
    assert Doing(lambda: stream.lane.cancel()).failure() == errors.unavailable(
        "craze did not answer session.cancel within 0.05s; the cancel was not sent — try again"
    )


CODES = {
    "bad_request": "bad_request", "stale_turn": "bad_request", "unknown_session": "unknown_session",
    "unknown_ask": "unknown_approval", "already_submitted": "already_submitted",
    "already_resolved": "already_resolved", "not_accepting": "not_accepting",
    "foreign_turn": "not_accepting", "in_progress": "not_accepting",
    "stale_model": "not_accepting", "unavailable": "unavailable", "unsupported": "failed",
    "queue_full": "failed", "failed": "failed", "novelty": "failed",
}  # fmt: skip


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_refusal_is_what_craze_says(reach, watch, verb, code):
    stream, one = opened(reach, watch)
    act, method, _ = VERBS[verb]
    doing = Doing(lambda: act(stream.lane))
    one.refuse(one.expect(method), code, message="outcome unknown: or so it says")
    error = doing.failure()
    assert error.variant == CODES[code] and not errors.is_outcome_unknown(error)
    if not errors.VARIANTS[error.variant]:
        assert error.message == "craze: outcome unknown: or so it says"


def test_a_verb_that_is_too_long_is_never_sent(reach, watch):
    stream, one = opened(reach, watch)
    error = Doing(lambda: stream.lane.send("x" * (4 << 20))).failure()
    assert (
        error.variant == "bad_request" and "over craze's 4194304-byte line limit" in error.message
    )
    assert b"session.prompt" not in one.command.written


def test_an_answer_without_a_form_is_never_sent(reach, watch):
    stream, one = opened(reach, watch)
    deep = '{"a":' * 2000 + "{}" + "}" * 2000
    error = Doing(lambda: stream.lane.answer("perm-1", answers.Raw(deep))).failure()
    assert error.variant == "bad_request" and b"asks.answer" not in one.command.written


@pytest.mark.parametrize("mode", ["send_now", "", "QUEUE"])
def test_an_unknown_mode_is_refused(make_lane, mode):
    with pytest.raises(ValueError, match="expected one of queue, interject"):
        make_lane().send("hi", mode)


def test_an_interjection_that_the_session_takes_none_of_is_refused_here(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.seed(1, session=info(capabilities={**CAPABILITIES, "interject": False}))
    stream.until(Ready)
    with pytest.raises(LaneError) as refused:
        stream.lane.send("hi", "interject")
    assert refused.value == LaneError(errors.NOT_ACCEPTING)
    assert b"session.prompt" not in one.command.written


def test_an_interjection_of_a_session_not_known_yet_is_craze_to_decide(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.attach(1, session=info(capabilities={}))
    doing = Doing(lambda: stream.lane.send("hi", "interject"))
    one.reply(one.expect("asks.list"), {"asks": []})
    one.refuse(one.expect("session.prompt"), "not_accepting", "not_in_turn")
    assert doing.failure().variant == "not_accepting"
    stream.close()


# ---- answering ----


def test_an_ask_that_is_not_held_is_asked_for(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.seed(1)
    stream.until(Ready)
    doing = Doing(lambda: stream.lane.answer("perm-9", answers.Permission("allow_once")))
    request = one.expect("asks.get")
    assert request["params"] == {"sessionId": SESSION, "askId": "perm-9"}
    one.reply(request, {"ask": record("perm-9", options=OPTIONS)})
    request = one.expect("asks.answer")
    assert request["params"]["answer"] == {"optionId": "y"}
    one.reply(request)
    doing.result()


def test_a_hidden_ask_can_be_answered(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.seed(1, session=info(capabilities={}))
    stream.until(Ready)
    doing = Doing(lambda: stream.lane.answer("plan-1", answers.Choice("accept")))
    one.reply(one.expect("asks.get"), {"ask": record("plan-1", "plan", name="P")})
    request = one.expect("asks.answer")
    assert request["params"]["answer"] == {"accept": True}
    one.reply(request)
    doing.result()


@pytest.mark.parametrize(
    "odd", [record("perm-9", "riddle"), record("ask-9", "question", auto=True), {}, "x"]
)
def test_an_ask_that_cannot_be_answered_here(reach, watch, odd):
    stream, one = opened(reach, watch)
    doing = Doing(lambda: stream.lane.answer("ask-9", answers.Reject()))
    one.reply(one.expect("asks.get"), {"ask": odd})
    assert doing.failure() == errors.failed(
        "craze's ask ask-9 is not one shed can answer"
        " (an automatic one, or a kind it does not know)"
    )


def test_an_ask_that_craze_does_not_know(reach, watch):
    stream, one = opened(reach, watch)
    doing = Doing(lambda: stream.lane.answer("perm-9", answers.Reject()))
    one.refuse(one.expect("asks.get"), "unknown_ask")
    assert doing.failure() == LaneError(errors.UNKNOWN_APPROVAL)


def test_a_read_that_is_lost_leaves_the_answer_unsent(reach, watch):
    stream, one = opened(reach, watch)
    doing = Doing(lambda: stream.lane.answer("perm-9", answers.Reject()))
    one.expect("asks.get")
    one.drop()
    error = doing.failure()
    assert error.variant == "unavailable"
    assert error.message == "craze closed the connection; the answer was not sent — try again"


def test_a_form_that_does_not_fit_is_refused_before_the_wire(reach, watch):
    stream, one = opened(reach, watch)
    error = Doing(lambda: stream.lane.answer("perm-1", answers.Choice("z"))).failure()
    assert error == errors.bad_request('craze did not offer option "z" on this permission')
    assert b"asks.answer" not in one.command.written


def test_an_ask_that_is_over_is_crazes_to_refuse(reach, watch):
    stream, one = opened(reach, watch)
    one.events(2, {"type": "ask", "ask": {"id": "perm-1", "kind": "permission"}, "at": AT})
    until(lambda: not stream.lane.approvals())
    doing = Doing(lambda: stream.lane.answer("perm-1", answers.Reject()))
    one.refuse(one.expect("asks.answer"), "already_resolved")
    assert doing.failure() == LaneError(errors.ALREADY_RESOLVED)


# ---- settings ----


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (SetModel("b"), {"kind": "model", "value": "b"}),
        (SetMode("plan"), {"kind": "mode", "value": "plan"}),
        (
            SetConfig("effort", "high", "seen"),
            {"kind": "config", "id": "effort", "value": "high", "forModel": "seen"},
        ),
        (
            SetConfig("effort", "high"),
            {"kind": "config", "id": "effort", "value": "high", "forModel": "a"},
        ),
        (
            SetConfig("effort", "", ""),
            {"kind": "config", "id": "effort", "value": "", "forModel": "a"},
        ),
    ],
)
def test_the_form_of_a_change(reach, watch, change, setting):
    stream, one = opened(reach, watch)
    doing = Doing(lambda: stream.lane.set(change))
    request = one.expect("session.set")
    assert request["params"]["setting"] == setting
    one.reply(request, {"value": "x", "rev": 5})
    doing.result()


def test_without_a_model_there_is_none_to_bind_to(reach, watch):
    stream = watch()
    one = host(reach).greet()
    one.seed(1, snapshot=snapshot(1) | {"settings": {}})
    stream.until(Ready)
    doing = Doing(lambda: stream.lane.set(SetConfig("effort", "high")))
    request = one.expect("session.set")
    assert request["params"]["setting"] == {"kind": "config", "id": "effort", "value": "high"}
    one.reply(request)
    doing.result()


def test_a_change_that_has_to_know_the_model_waits_for_the_settings(reach, watch):
    stream = watch()
    doing = Doing(lambda: stream.lane.set(SetConfig("effort", "high")))
    one = host(reach).greet()
    one.attach(1)
    settle()
    assert b"session.set" not in one.command.written
    one.registry(1).synchronized(1)
    request = one.expect("session.set")
    assert request["params"]["setting"]["forModel"] == "a"
    one.reply(request)
    doing.result()


def test_and_gives_up_unsent(reach, watch, monkeypatch):
    monkeypatch.setattr(limits, "SETTINGS", 0.01)
    stream = watch()
    host(reach)
    assert Doing(lambda: stream.lane.set(SetConfig("effort", "high"))).failure() == (
        errors.unavailable(
            "the session's settings did not arrive within 0.01s;"
            " the change was not sent — try again"
        )
    )


def test_a_change_that_no_event_will_say_is_told_to_every_watcher(reach, watch, make_lane):
    lane = make_lane()
    first, second = watch(lane), watch(lane)
    one, two = host(reach).greet(), host(reach).greet()
    one.seed(1)
    two.seed(1)
    first.until(Ready)
    second.until(Ready)
    doing = Doing(lambda: lane.set(SetModel("b")))
    request = two.expect("session.set")  # the newest connection's
    two.reply(request, {"value": "b", "rev": 0})
    doing.result()
    for stream in (first, second):
        assert stream.until(Settings)[-1].settings.model == "b"


@pytest.mark.parametrize("result", [{"value": "b", "rev": 7}, {"value": "b"}, {"rev": 0}, {}])
def test_a_change_that_an_event_says_is_the_events(reach, watch, result):
    stream, one = opened(reach, watch)
    doing = Doing(lambda: stream.lane.set(SetModel("b")))
    one.reply(one.expect("session.set"), result)
    doing.result()
    settle()
    assert stream.waiting() == []


def test_a_rename_that_was_not_recorded_is_a_warning(reach, watch):
    stream, one = opened(reach, watch)
    doing = Doing(lambda: stream.lane.set_title("T"))
    message = "engine: the session index could not be written"
    one.refuse(one.expect("session.setTitle"), "index_write", message=message, cause="full")
    assert doing.result() == message
    doing = Doing(lambda: stream.lane.send("hi"))
    one.refuse(one.expect("session.prompt"), "index_write", message=message)
    assert doing.failure() == errors.failed(message)


# ---- reads ----


def test_the_row_is_what_is_known_without_asking(reach, watch, make_lane):
    with pytest.raises(LaneError) as refused:
        make_lane().session()
    assert refused.value == LaneError(errors.UNKNOWN_SESSION)
    known = LaneSession(id=HOST, title="listed")
    lane = make_lane(row=known)
    assert lane.session() == known and reach.commands == []
    stream = watch(lane)
    one = host(reach).greet(title="T")
    one.seed(1)
    stream.until(Ready)
    assert lane.session().title == "T"
    one.events(2, {"type": "meta", "state": {"title": "N"}})
    until(lambda: lane.session().title == "N")
    stream.close()
    assert lane.session().title == "N"


def test_reads_of_a_watched_lane_ask_nobody(reach, watch):
    stream, one = opened(reach, watch)
    written = one.command.written
    assert [approval.id for approval in stream.lane.approvals()] == ["perm-1"]
    assert stream.lane.settings().model == "a"
    assert one.command.written == written and len(reach.commands) == 1
    one.drop()  # nor while it is stale
    host(reach)
    assert [approval.id for approval in stream.lane.approvals()] == ["perm-1"]


def test_reads_of_an_unwatched_lane_have_a_connection_of_their_own(reach, make_lane):
    lane = make_lane()
    doing = Doing(lane.approvals)
    one = host(reach).greet()
    assert " bridge --hub --no-start;" in one.command.line
    asks = one.expect("asks.list")
    assert asks["params"] == {"sessionId": SESSION}
    one.reply(asks, {"asks": [{"id": "perm-2"}, {"id": "perm-1"}, {"id": "gone"}, {"id": "ask-1"}]})
    one.reply(one.expect("asks.get"), {"ask": record("perm-2")})
    one.reply(one.expect("asks.get"), {"ask": record("perm-1")})
    one.refuse(one.expect("asks.get"), "unknown_ask")
    one.reply(one.expect("asks.get"), {"ask": record("ask-1", "question", status="resolved")})
    assert [approval.id for approval in doing.result()] == ["perm-1", "perm-2"]
    one.command.left()

    doing = Doing(lane.settings)
    one = host(reach).greet()
    request = one.expect("session.snapshot")
    assert request["params"] == {"sessionId": SESSION}
    one.reply(request, {"snapshot": snapshot(1)})
    made = doing.result()
    assert (made.model, [model.id for model in made.models], made.mode) == ("a", ["a", "b"], "plan")
    one.command.left()


def test_history_is_always_read_anew(reach, watch):
    stream, _ = opened(reach, watch)
    doing = Doing(lambda: stream.lane.history())
    one = host(reach).greet()
    open_run = entry("open", streaming=True)
    document = snapshot(9, entry("hi", "user"), entry("hello"), open_run)
    document["main"]["streamOpen"] = True
    one.reply(one.expect("session.snapshot"), {"snapshot": document})
    made = doing.result()
    assert [(message.seq, message.text) for message in made.messages] == [
        (1, "hi"), (2, "hello"), (3, "open"),
    ]  # fmt: skip
    assert not made.truncated and made.cursor is None


@pytest.mark.parametrize(("limit", "given"), [(0, 100), (5, 5), (150, 150), (999, 200)])
def test_a_page_of_history(reach, make_lane, limit, given):
    lane = make_lane()
    doing = Doing(lambda: lane.history("ignored", limit))
    one = host(reach).greet()
    entries = [entry(f"{n}", "note") for n in range(250)]
    one.reply(one.expect("session.snapshot"), {"snapshot": snapshot(9, *entries)})
    made = doing.result()
    assert len(made.messages) == given and made.truncated
    assert made.messages[-1].text == "249"


@pytest.mark.parametrize("main", [{"windowed": True}, {"dropped": 1}, {"omitted": [[5]]}])
def test_history_that_begins_later_says_so(reach, make_lane, main):
    lane = make_lane()
    doing = Doing(lane.history)
    one = host(reach).greet()
    one.reply(one.expect("session.snapshot"), {"snapshot": snapshot(9) | {"main": main}})
    assert doing.result().truncated


def _refuse_connect(one: Host) -> None:
    one.hub()
    one.refuse(one.expect("session.connect"), "unavailable", "host_unreachable", message="far")


def _unknown(one: Host) -> None:
    one.hub()
    one.refuse(one.expect("session.connect"), "unknown_session")


def _other(one: Host) -> None:
    one.hub()
    one.reply(one.expect("session.connect"))
    one.reply(one.expect("hello"), hello(endpoint={"kind": "host", "hostId": "b"}))


def _plural(one: Host) -> None:
    one.hub()
    one.reply(one.expect("session.connect"))
    one.reply(one.expect("hello"), hello())
    one.reply(one.expect("sessions.list"), {"sessions": [row(), row()]})


def _lost(one: Host) -> None:
    one.greet()
    one.expect("session.snapshot")
    one.drop()


def _refused(one: Host) -> None:
    one.greet()
    one.refuse(one.expect("session.snapshot"), "failed", "snapshot_too_large", message="big")


def _newer(one: Host) -> None:
    one.greet()
    one.reply(one.expect("session.snapshot"), {"snapshot": {"version": 2}})


def _missing(one: Host) -> None:
    one.expect("hello")
    one.command.end(127, b"craze: command not found")


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (_refuse_connect, errors.unavailable("far")),
        (_unknown, LaneError(errors.UNKNOWN_SESSION)),
        (_other, errors.failed(f'protocol: the splice reached host "b", not "{HOST}"')),
        (_plural, errors.failed("protocol: the host's list is not of one session")),
        (_lost, errors.unavailable("craze closed the connection")),
        (_refused, errors.failed("big")),
        (_newer, errors.failed("protocol: expected a snapshot of version 1, got 2")),
        (
            _missing,
            errors.unavailable("craze is not installed on this machine (craze: command not found)"),
        ),
    ],
)
def test_a_read_that_fails(reach, make_lane, act, error):
    lane = make_lane()
    doing = Doing(lane.history)
    one = host(reach)
    act(one)
    assert doing.failure() == error
    one.command.left()


# ---- the end ----


@pytest.fixture
def told():
    return []


@pytest.mark.parametrize("reason", ["session_closed", "unknown_session", "start_failed"])
def test_the_sessions_end_is_told_before_the_lane_says_it(reach, watch, told, reason):
    stream = watch(ended=lambda: told.append(len(stream.seen)))
    if reason == "unknown_session":
        one = host(reach)
        one.hub()
        one.refuse(one.expect("session.connect"), "unknown_session")
    elif reason == "start_failed":
        one = host(reach).greet()
        one.refuse(one.expect("session.attach"), "not_accepting", "start_failed", cause="c")
    else:
        host(reach).greet().seed(1).reset("session_closed")
    until(lambda: told)
    assert told == [0]  # nothing of it was read yet
    assert ended(stream).startswith(reason)


def test_other_ends_are_none_of_the_sessions(reach, watch, told):
    stream = watch(ended=lambda: told.append(1))
    one = host(reach)
    one.expect("hello")
    one.command.end(127)
    assert ended(stream).startswith("craze unavailable")
    until(lambda: not stream.lane._watchers)
    assert told == []


def test_once_a_stop_is_taken_any_end_of_the_last_watcher_is_the_sessions(reach, watch, told):
    stream, one = opened(reach, watch, ended=lambda: told.append(1))
    doing = Doing(lambda: stream.lane.stop())
    one.reply(one.expect("session.stop"))
    doing.result()
    assert told == []
    stream.close()
    until(lambda: told)
    assert told == [1]


def test_a_stop_whose_watcher_has_gone_is_the_end_itself(reach, watch, told):
    stream, one = opened(reach, watch, ended=lambda: told.append(1))
    lane = stream.lane
    connection = next(iter(lane._live))
    doing = Doing(lambda: lane.stop())
    request = one.expect("session.stop")
    lane._watchers.clear()  # its transcript was closed while the stop was in flight
    one.reply(request)
    doing.result()
    assert told == [1]
    connection.close()
    lane._watchers.append(None)
    stream.close()


def test_the_end_is_told_once(reach, watch, told):
    stream, one = opened(reach, watch, ended=lambda: told.append(1))
    doing = Doing(lambda: stream.lane.stop())
    one.reply(one.expect("session.stop"))
    doing.result()
    one.reset("session_closed")
    assert ended(stream) == "session_closed"
    until(lambda: not stream.lane._watchers)
    assert told == [1]


def test_a_stop_that_is_refused_ends_nothing(reach, watch, told):
    stream, one = opened(reach, watch, ended=lambda: told.append(1))
    doing = Doing(lambda: stream.lane.stop())
    one.refuse(one.expect("session.stop"), "unsupported", "stop_unsupported", message="a TUI's")
    assert doing.failure() == errors.failed("a TUI's")
    stream.close()
    until(lambda: not stream.lane._watchers)
    assert told == []


def test_closing_a_lane_leaves_its_subscriptions_alone(reach, watch):
    stream, one = opened(reach, watch)
    stream.lane.close()
    one.events(2, text("on"), {"type": "done"})
    assert stream.until(Message)


def test_it_says_what_it_is(reach, watch):
    stream = watch()
    assert repr(stream.lane) == f"<CrazeLane {HOST}, not connected, 1 watchers>"
    host(reach).greet().seed(1)
    stream.until(Ready)
    assert repr(stream.lane) == f"<CrazeLane {HOST}, connected, 1 watchers>"
    assert stream.lane.session_id() == HOST and stream.lane.agent == "craze"
    gevent.sleep(0)
