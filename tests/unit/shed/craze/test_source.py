"""A machine's list and what is asked of its hub: seeds, outages, creates, retries."""

from collections.abc import Callable
from typing import Any

import gevent
import pytest

from craze_shed.contract import creating, errors, frames
from craze_shed.contract.capabilities import SourceCapabilities
from craze_shed.contract.creating import (
    LaneCreateOptions,
    LaneCreateRequest,
    LaneProvider,
    LaneSavedSession,
)
from craze_shed.contract.errors import LaneError
from craze_shed.contract.frames import (
    SourceCapabilitiesFrame,
    SourceOffline,
    SourceReady,
    SourceRemoved,
    SourceReset,
    SourceSession,
)
from craze_shed.contract.sessions import LaneSession
from craze_shed.craze.connection import Deadline, Pending
from craze_shed.craze.limits import Pace
from craze_shed.craze.source import CrazeSource
from tests.unit.shed.craze.conformance import LaneStream, SourceStream, ended
from tests.unit.shed.craze.hosts import HUB, Host, hello, host
from tests.unit.shed.craze.scripting import Command, settle, until
from tests.unit.shed.craze.test_dial import BRIDGE, NO_START, asked
from tests.unit.shed.craze.test_lane import Doing

A, B, C = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
QUICK = Pace(first=0.001, most=0.01, rarely=0.001)
ABLE = SourceCapabilities("craze", True, True, True, True)


def listed(id: str, **row: Any) -> dict[str, Any]:
    return {
        "hostId": id,
        "sessionId": f"s-{id[0]}",
        "host": {"workspace": f"/code/{id[0]}", "provider": "gx", "startedAt": ""},
        "status": "reachable",
        "approximate": False,
        "row": {"title": "", "activity": "idle", **row},
    }


def session(id: str, **changes: Any) -> LaneSession:
    made = {"title": id[0], "cwd": f"/code/{id[0]}", "activity": "idle", "provider": "gx"}
    return LaneSession(id=id, **(made | changes))


class Roster:
    """A hub's roster connection, step by step."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.subscription = 0
        command.reply(command.expect("hello"), hello("hub"))

    def seed(self, *rows: Any, **changes: Any) -> "Roster":
        request = self.command.expect("sessions.subscribe")
        assert request["params"] == {}
        self.subscription += 1
        result = {
            "subscription": f"r-{self.subscription}", "epoch": HUB, "cursor": 1,
            "sessions": list(rows), **changes,
        }  # fmt: skip
        self.command.reply(request, result)
        return self

    def change(self, *upserts: Any, removes: Any = (), **changes: Any) -> "Roster":
        removes = list(removes) if isinstance(removes, tuple) else removes
        params = {
            "epoch": HUB,
            "cursor": 2,
            "upserts": list(upserts),
            "removes": removes,
            **changes,
        }
        return self.note("roster", **params)

    def note(self, method: str, **params: Any) -> "Roster":
        self.command.note(method, **{"subscription": f"r-{self.subscription}", **params})
        return self

    def drop(self) -> None:
        self.command.end()
        self.command.left()


@pytest.fixture
def make_source(dialer):
    made: list[CrazeSource] = []

    def make(**options: Any) -> CrazeSource:
        made.append(CrazeSource(dialer, **{"pace": QUICK, **options}))
        return made[-1]

    yield make
    for source in made:
        source.close()


@pytest.fixture
def source(make_source):
    return make_source()


@pytest.fixture
def list_of():
    made: list[SourceStream] = []

    def subscribe(source: CrazeSource) -> SourceStream:
        made.append(SourceStream(source.subscribe()))
        return made[-1]

    yield subscribe
    for stream in made:
        stream.close()


@pytest.fixture
def stream(source, list_of):
    return list_of(source)


def roster(reach) -> Roster:
    return Roster(reach.next())


def sessions(came: list[Any]) -> list[str]:
    return [frame.session.id for frame in came if isinstance(frame, SourceSession)]


# ---- the list ----


def test_a_seed(reach, stream):
    one = roster(reach).seed(listed(A), listed(B, pendingAsks=1))
    assert asked(one.command) == NO_START
    assert stream.until(SourceReady) == [
        SourceReset("connect", 1),
        SourceSession(session(A)),
        SourceSession(session(B, activity="needs_approval", pending_approvals=1)),
        SourceCapabilitiesFrame(ABLE),
        SourceReady(1, False),
    ]


def test_what_an_older_hub_can_do(reach, stream):
    command = reach.next()
    capabilities = {"rosterSubscribe": True, "connect": True, "sessionCreate": False}
    command.reply(command.expect("hello"), hello("hub", capabilities=capabilities))
    command.reply(
        command.expect("sessions.subscribe"), {"subscription": "r-1", "epoch": HUB, "sessions": []}
    )
    assert stream.until(SourceReady)[1] == SourceCapabilitiesFrame(
        SourceCapabilities("craze", False, False, False, False)
    )


def test_changes(reach, source, stream):
    one = roster(reach).seed(listed(A))
    stream.until(SourceReady)
    one.change(listed(A, activity="working"), listed(B), removes=(C,))
    assert [stream.next() for _ in range(3)] == [
        SourceSession(session(A, activity="working")),
        SourceSession(session(B)),
        SourceRemoved(C),
    ]
    assert source.open(A).session() == session(A, activity="working")
    one.change(subscription="r-9", removes=(A,)).note("novelty").change(removes=(B,))
    assert stream.next() == SourceRemoved(B)
    with pytest.raises(LaneError):
        source.open(B).session()


@pytest.mark.parametrize(
    ("rows", "said", "cut"), [(512, False, False), (513, False, True), (512, True, True)]
)
def test_at_most_512_rows(reach, stream, rows, said, cut):
    many = [listed(f"{number:012x}") for number in range(rows)]
    roster(reach).seed(*many, truncated=said)
    came = stream.until(SourceReady)
    assert len(sessions(came)) == 512 and came[-1] == SourceReady(1, cut)


@pytest.mark.parametrize("reason", ["slow_consumer", "omitted", "novelty", ""])
def test_a_reset_has_the_list_sent_again_on_the_same_connection(reach, stream, reason):
    one = roster(reach).seed(listed(A))
    stream.until(SourceReady)
    one.note("reset", reason=reason).change(subscription="r-1", removes=(A,)).seed(listed(B))
    came = stream.until(SourceReady)
    assert came[0] == SourceReset(f"server_reset:{reason}", 2) and sessions(came) == [B]
    one.change(removes=(B,))
    assert stream.next() == SourceRemoved(B) and len(reach.commands) == 1


def test_two_subscriptions_are_two_connections(reach, source, list_of):
    first, second = list_of(source), list_of(source)
    for _ in range(2):
        roster(reach).seed(listed(A))
    assert sessions(first.until(SourceReady)) == sessions(second.until(SourceReady)) == [A]


# ---- outages ----


UNREADABLE: dict[str, Callable[[Roster], Any]] = {
    "another epoch": lambda one: one.change(epoch=A),
    "no epoch": lambda one: one.change(epoch=None),
    "a row without its host": lambda one: one.change(listed(A) | {"hostId": ""}),
    "a row without its session": lambda one: one.change(listed(A) | {"sessionId": 5}),
    "no row": lambda one: one.change("row"),
    "upserts that are no list": lambda one: one.change(upserts={}),
    "removes that are no list": lambda one: one.change(removes="x"),
    "removes that are no ids": lambda one: one.change(removes=[5]),
    "a reset without a reason": lambda one: one.note("reset", reason=5),
    "a line that is none": lambda one: one.command.feed(b"oops\n"),
    "the end": lambda one: one.command.end(),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_fault_is_an_outage_and_a_reseed(reach, stream, what):
    one = roster(reach).seed(listed(A))
    stream.until(SourceReady)
    UNREADABLE[what](one)
    offline = stream.next()
    assert isinstance(offline, SourceOffline) and offline.cause == "unreachable"
    one.command.left()
    roster(reach).seed(listed(B))
    came = stream.until(SourceReady)
    assert came[0] == SourceReset("reconnect", 2) and sessions(came) == [B]


def test_a_hub_that_closes_says_so(reach, stream):
    one = roster(reach).seed()
    stream.until(SourceReady)
    one.note("reset", reason="hub_closing")
    assert stream.next() == SourceOffline("craze's hub is shutting down", "unreachable")
    roster(reach).seed()
    assert stream.until(SourceReady)[0] == SourceReset("reconnect", 2)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"subscription": None}, "failed"),
        ({"sessions": None}, "failed"),
        ({"epoch": A}, "unreachable"),
        ({"sessions": [{}]}, "unreachable"),
    ],
)
def test_a_seed_that_cannot_be_read(reach, stream, changes, cause):
    one = roster(reach).seed(**changes)
    offline = stream.next()
    assert isinstance(offline, SourceOffline) and offline.cause == cause
    one.command.left()
    roster(reach).seed()
    assert stream.until(SourceReady)[0] == SourceReset("connect", 1)


def test_a_roster_that_is_refused(reach, stream):
    one = roster(reach)
    one.command.refuse(
        one.command.expect("sessions.subscribe"), "unavailable", "host_unreachable", message="no"
    )
    assert stream.next() == SourceOffline(
        "the roster was refused: no (unavailable/host_unreachable)", "failed"
    )


def test_a_backlog_is_an_outage_here(reach, stream):
    one = roster(reach)
    request = one.command.expect("sessions.subscribe")
    flood = b'{"jsonrpc":"2.0","method":"roster","params":{}}\n'
    one.command.feed(flood * 1025)
    assert stream.next() == SourceOffline("nobody took its notifications", "unreachable")
    assert request and one.command.left()


@pytest.mark.parametrize(
    ("code", "said", "cause"),
    [
        (127, b"", "not_installed"),
        (1, b"unknown flag: --hub", "too_old"),
        (3, b"craze bridge: no hub is running", "no_hub"),
        (255, b"no route", "unreachable"),
    ],
)
def test_a_machine_without_a_hub_to_list_from(reach, stream, code, said, cause):
    reach.next().end(code, said)
    offline = stream.next()
    assert isinstance(offline, SourceOffline) and offline.cause == cause
    for _ in range(5):  # it is said once
        reach.next().end(code, said)
    roster(reach).seed()
    assert stream.next() == SourceReset("connect", 1)


def test_an_outage_is_said_once_for_each_cause_and_reason(reach, stream):
    for said in (b"a", b"a", b"b", b"b", b"a"):
        reach.next().end(255, said)
    told = [stream.next() for _ in range(3)]
    assert [frame.reason.rpartition(" ")[2] for frame in told] == ["a", "b", "a"]
    roster(reach).seed().drop()
    assert [frame.kind for frame in stream.until(SourceOffline)][-2:] == ["ready", "offline"]
    roster(reach).seed().drop()  # after a Ready it is said again
    came = stream.until(SourceOffline)
    assert [frame.kind for frame in came] == ["reset", "capabilities", "ready", "offline"]


@pytest.mark.parametrize(
    ("ends", "waits"),
    [
        ([255] * 8, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]),
        ([127, 127, 1, 3], [30.0, 30.0, 30.0, 30.0]),
        ([255, 255, 0, 255, 255], [1.0, 2.0, 0.5, 1.0, 2.0]),
    ],
)
def test_the_waits_between_tries(reach, make_source, list_of, monkeypatch, ends, waits):
    asked_for = []
    monkeypatch.setattr(
        "craze_shed.craze.roster.backoff.jittered",
        lambda delay, chance: asked_for.append(delay) or 0.0,
    )
    list_of(make_source(pace=Pace()))
    said = {1: b"unknown flag: --hub", 3: b"craze bridge: no hub is running"}
    for code in ends:
        if code:
            reach.next().end(code, said.get(code, b""))
        else:
            roster(reach).seed().drop()
    reach.next()
    assert asked_for == waits


def test_a_wake_cuts_a_wait_short_and_is_kept_for_the_next(reach, make_source, list_of):
    source = make_source(pace=Pace(60.0, 60.0, 60.0))
    stream = list_of(source)
    reach.next().end(255)
    stream.next()
    settle()
    assert len(reach.commands) == 1
    source.wakes.wake()
    command = reach.next()
    source.wakes.wake()  # while it does not wait
    command.end(255)
    reach.next()


def test_no_hub_is_not_believed_of_a_connection_from_before_a_create(reach, make_source, list_of):
    source = make_source(pace=Pace(60.0, 60.0, 60.0))
    stream = list_of(source)
    before = reach.next()
    source.wakes.listed += 1
    before.end(3, b"craze bridge: no hub is running")
    roster(reach).seed(listed(A))
    assert stream.until(SourceReady)[0] == SourceReset("connect", 1)


# ---- a client that falls behind ----


def test_a_reader_that_stops_is_told_anew(reach, stream):
    one = roster(reach).seed()
    until(lambda: len(stream.subscription._channel.frames) == 3)
    for number in range(1021):
        one.change(listed(A, title=str(number)))
        gevent.sleep(0)
    until(lambda: len(stream.subscription._channel.frames) == 1024)
    one.change(listed(B))
    one.command.left()
    for _ in range(1023):
        stream.next()
    gevent.sleep(0.02)
    assert len(reach.commands) == 1  # nothing is held or dialled before everything is read
    stream.next()
    roster(reach).seed(listed(C))
    came = stream.until(SourceReady)
    assert came[0] == SourceReset("lagged", 2) and sessions(came) == [C]


def test_an_outage_that_does_not_fit_is_a_lag_too(reach, stream):
    one = roster(reach).seed()
    until(lambda: len(stream.subscription._channel.frames) == 3)
    for number in range(1021):
        one.change(listed(A, title=str(number)))
        gevent.sleep(0)
    until(lambda: len(stream.subscription._channel.frames) == 1024)
    one.drop()
    for _ in range(1024):
        stream.next()
    two = roster(reach).seed()
    assert stream.until(SourceReady)[0] == SourceReset("lagged", 2)
    two.drop()  # and may be said again
    assert stream.next() == SourceOffline("craze closed the connection", "unreachable")


def test_a_reader_that_keeps_up_never_lags(reach, stream):
    one = roster(reach).seed()
    stream.until(SourceReady)
    rows = [listed(f"{number:012x}") for number in range(500)]
    reading = Doing(lambda: [stream.next() for _ in range(3000)])
    for _ in range(6):
        one.change(*rows)
    assert {frame.kind for frame in reading.result()} == {"session"}


@pytest.mark.parametrize("when", ["unstarted", "dialling", "waiting", "live"])
def test_a_receiver_that_goes_ends_it_at_once(reach, make_source, list_of, when):
    source = make_source(pace=Pace(60.0, 60.0, 60.0))
    stream = list_of(source)
    if when == "live":
        roster(reach).seed()
        stream.until(SourceReady)
    elif when == "waiting":
        reach.next().end(255)
        stream.next()
    elif when == "dialling":
        reach.next()
    stream.close()
    until(lambda: not source._pumps)
    assert all(command.left() for command in reach.commands)


@pytest.mark.parametrize("begun", [False, True])
def test_closing_a_source_ends_its_subscriptions(reach, source, begun):
    subscription = source.subscribe()
    if begun:
        roster(reach).seed()
        subscription.next(5)
    source.close()
    source.close()
    while subscription.next(5) is not None:
        pass
    assert subscription.ended


# ---- options ----


def explicit(reach) -> Command:
    """A connection that the person asked for, greeted."""
    command = reach.next()
    assert asked(command) == BRIDGE
    command.reply(command.expect("hello"), hello("hub"))
    return command


def test_create_options(reach, source):
    doing = Doing(source.create_options)
    command = explicit(reach)
    request = command.expect("sessions.createOptions")
    assert request["params"] == {}
    command.reply(request, {
        "providers": [
            {"id": "gx", "label": "GX", "state": "ready"},
            {"id": "cursor", "state": "unavailable", "reason": "not found", "fix": "install it"},
            5,
        ],
        "defaultProvider": "gx",
        "recentDirs": [{"dir": "/a", "usedAt": "x"}, {"dir": 5}, {"dir": "/b"}],
    })  # fmt: skip
    assert doing.result() == LaneCreateOptions(
        (
            LaneProvider("gx", "GX", "ready"),
            LaneProvider("cursor", "cursor", "unavailable", "not found", "install it"),
        ),
        "gx",
        ("/a", "/b"),
        True,
    )
    command.left()


def test_a_lost_read_may_be_tried_again(reach, source):
    doing = Doing(source.create_options)
    command = explicit(reach)
    command.expect("sessions.createOptions")
    command.end()
    assert doing.failure() == errors.unavailable(
        "sessions.createOptions: craze closed the connection"
    )


def test_a_read_that_is_refused(reach, source):
    doing = Doing(source.saved)
    command = explicit(reach)
    command.refuse(
        command.expect("sessions.saved"), "not_accepting", "start_failed", cause="not a start"
    )
    assert doing.failure() == LaneError(errors.NOT_ACCEPTING)


# What a hub cannot do -> what asking it all the same says, and with which version and pid.
LACKING = [
    (
        "createOptions", lambda source: source.create_options(), {},
        errors.failed("craze on this machine is too old to offer providers; update it"),
    ),
    (
        "sessionCreate", lambda source: source.create(request()), {},
        errors.failed("craze on this machine is too old to create sessions; update it"),
    ),
    (
        "reopen", lambda source: source.saved(), {"crazeVersion": "0.2.0", "pid": 7},
        errors.unavailable(
            "this craze hub (craze 0.2.0) does not offer reopening saved sessions"
        ),
    ),
    (
        "reopen", lambda source: source.reopen("x"), {"crazeVersion": "0.1.1", "pid": 7},
        errors.unavailable(
            "this craze hub (craze 0.1.1) does not offer reopening saved sessions;"
            " end it with kill 7"
        ),
    ),
    (
        "reopen", lambda source: source.reopen("x"), {"crazeVersion": "0.1.1"},
        errors.unavailable(
            "this craze hub (craze 0.1.1) does not offer reopening saved sessions"
        ),
    ),
    (
        "reopen", lambda source: source.saved(), {"crazeVersion": "", "pid": 7},
        errors.unavailable(
            "this craze hub (craze version unknown) does not offer reopening saved sessions"
        ),
    ),
    (
        "reopen", lambda source: source.saved(), {"crazeVersion": "0.10.0", "pid": 7},
        errors.unavailable(
            "this craze hub (craze 0.10.0) does not offer reopening saved sessions"
        ),
    ),
]  # fmt: skip


def request(**changes: Any) -> LaneCreateRequest:
    return LaneCreateRequest(**{"cwd": "/work", "request_id": "r-1", **changes})


@pytest.mark.parametrize(("ability", "act", "endpoint", "error"), LACKING)
def test_an_older_hub(reach, source, ability, act, endpoint, error):
    doing = Doing(lambda: act(source))
    command = reach.next()
    said = hello("hub", endpoint={"kind": "hub", "hostId": HUB, **endpoint})
    del said["capabilities"][ability]
    command.reply(command.expect("hello"), said)
    assert doing.failure() == error
    command.left()
    assert command.written.count(b"\n") == 1 and len(reach.commands) == 1


# ---- create ----


@pytest.mark.parametrize(
    ("changes", "params"),
    [
        ({}, {"cwd": "/work", "requestId": "r-1"}),
        (
            {"prompt": " as typed ", "provider": "gx", "title": " A name "},
            {
                "cwd": "/work", "prompt": " as typed ", "provider": "gx", "requestId": "r-1",
                "title": "A name",
            },
        ),
        ({"title": "  "}, {"cwd": "/work", "requestId": "r-1"}),
    ],
)  # fmt: skip
def test_a_create(reach, source, changes, params):
    doing = Doing(lambda: source.create(request(**changes)))
    command = explicit(reach)
    sent = command.expect("session.create")
    assert sent["params"] == params
    command.reply(sent, {"session": listed(A), "prompt": "accepted"})
    made = doing.result()
    assert (made.session, made.prompt, made.prompt_error) == (session(A), "accepted", None)
    assert source.created_rows() == (session(A),)
    assert source.open(A).session() == session(A)
    command.left()


def test_a_name_goes_only_to_a_hub_that_takes_one(reach, source):
    doing = Doing(lambda: source.create(request(title="T")))
    command = reach.next()
    said = hello("hub")
    del said["capabilities"]["createTitle"]
    command.reply(command.expect("hello"), said)
    sent = command.expect("session.create")
    assert "title" not in sent["params"]
    command.reply(sent, {"session": listed(A), "prompt": "unknown", "promptError": "no answer"})
    assert (doing.result().prompt, doing.result().prompt_error) == ("unknown", "no answer")


@pytest.mark.parametrize("id", ["", "a b", "x" * 65, "é", "a\n"])
def test_a_request_id_is_looked_at_first(reach, source, id):
    with pytest.raises(LaneError) as refused:
        source.create(request(request_id=id))
    assert refused.value == errors.bad_request(
        f'request id "{id}" is not craze\'s form (1–64 of [A-Za-z0-9._-]);'
        " mint one with new_request_id"
    )
    assert reach.commands == []


def test_a_minted_id_is_of_the_form():
    minted = creating.new_request_id()
    creating.check_request_id(minted)
    assert minted.startswith("shed-") and len(minted) == 37


def test_b10_a_lost_answer_is_asked_for_once_more_under_the_same_id(reach, source):
    doing = Doing(lambda: source.create(request(prompt="hi")))
    first = explicit(reach)
    sent = first.expect("session.create")
    first.end()
    second = explicit(reach)
    again = second.expect("session.create")
    assert again["params"] == sent["params"]
    second.reply(again, {"session": listed(A), "prompt": "unknown"})
    assert doing.result().session.id == A
    assert len(reach.commands) == 2


def _dropped(reach: Any) -> None:
    command = explicit(reach)
    command.expect("session.create")
    command.end()


def _never_answered(reach: Any) -> None:
    explicit(reach).expect("session.create")  # until the deadline


def _never_greeted(reach: Any) -> None:
    reach.next().expect("hello")


def _unreachable(reach: Any) -> None:
    reach.next().end(255, b"no route")


def _too_old(reach: Any) -> None:
    command = reach.next()
    said = hello("hub")
    del said["capabilities"]["sessionCreate"]
    command.reply(command.expect("hello"), said)


# Which request of such a try runs out of time.
LATE = {_never_answered: "session.create", _never_greeted: "hello"}


@pytest.fixture
def late(reach, monkeypatch):
    """Has time run out for requests: the number of the connection -> the method."""
    methods: dict[int, str | None] = {}
    result = Pending.result

    def expire(pending: Pending, timeout: float) -> Any:
        if methods.get(len(reach.lines) - 1) == pending._method:
            until(lambda: pending.whole)
            raise Deadline(pending._method, timeout)
        return result(pending, timeout)

    monkeypatch.setattr(Pending, "result", expire)
    return methods


@pytest.mark.parametrize("first", [_dropped, _never_answered, _never_greeted])
@pytest.mark.parametrize(
    ("second", "why"),
    [
        (_dropped, "craze closed the connection"),
        (_never_answered, "craze did not answer session.create within 120s"),
        (_never_greeted, "craze did not answer hello within 30s"),
        (_unreachable, "craze closed the connection; craze said: no route"),
        (_too_old, "craze on this machine is too old to create sessions; update it"),
    ],
)
def test_b10_twice_lost_is_unknown(reach, source, late, first, second, why):
    late.update({0: LATE.get(first), 1: LATE.get(second)})
    doing = Doing(lambda: source.create(request()))
    first(reach)
    second(reach)
    assert doing.failure() == errors.failed(
        f"outcome unknown: craze did not answer the create, twice ({why}); it may have started a"
        " session — check the session list, or try again with the same request id, which craze"
        " answers with that session"
    )
    assert errors.is_outcome_unknown(doing.failure()) and len(reach.commands) == 2
    assert source.created_rows() == ()


@pytest.mark.parametrize("first", [_unreachable, _too_old])
def test_what_was_certainly_not_asked_is_not_tried_again(reach, source, first):
    doing = Doing(lambda: source.create(request()))
    first(reach)
    assert not errors.is_outcome_unknown(doing.failure())
    assert len(reach.commands) == 1


@pytest.mark.parametrize("tries", [1, 2])
@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (
            {"code": "bad_request", "reason": "request_conflict", "message": "used"},
            errors.bad_request("used"),
        ),
        (
            {
                "code": "not_accepting",
                "reason": "start_failed",
                "message": "m",
                "cause": " no key ",
            },
            errors.failed("no key"),
        ),
        (
            {"code": "not_accepting", "reason": "start_failed", "message": "m"},
            errors.failed("the session failed to start"),
        ),
        (
            {"code": "unavailable", "reason": "spawn_failed", "message": "m"},
            errors.unavailable("m"),
        ),
    ],
)
def test_a_definite_answer_is_the_answer(reach, source, tries, refusal, error):
    doing = Doing(lambda: source.create(request()))
    if tries == 2:
        _dropped(reach)
    command = explicit(reach)
    command.refuse(command.expect("session.create"), **refusal)
    assert doing.failure() == error and len(reach.commands) == tries


def test_a_request_that_is_too_long_is_not_sent(reach, source):
    doing = Doing(lambda: source.create(request(prompt="x" * (4 << 20))))
    command = explicit(reach)
    assert doing.failure().variant == "bad_request" and len(reach.commands) == 1
    assert b"session.create" not in command.written


def test_an_answer_that_names_no_host(reach, source):
    doing = Doing(lambda: source.create(request()))
    command = explicit(reach)
    command.reply(command.expect("session.create"), {"session": {}, "prompt": "none"})
    assert doing.failure() == errors.failed("craze answered with a session that names no host")


# ---- saved, reopen ----


def test_saved_sessions(reach, source):
    doing = Doing(source.saved)
    command = explicit(reach)
    sent = command.expect("sessions.saved")
    assert sent["params"] == {}
    row = {
        "id": "gx:p-1", "provider": "gx", "providerSessionId": "p-1", "workspace": "/w",
        "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-02T00:00:00Z",
    }  # fmt: skip
    command.reply(
        sent,
        {
            "sessions": [row, {**row, "id": "c", "crazeSessionId": "c", "title": "T"}, 5],
            "more": True,
        },
    )
    made = doing.result()
    plain = LaneSavedSession(
        id="gx:p-1", provider="gx", provider_session_id="p-1", workspace="/w",
        created_at="2026-01-01T00:00:00Z", updated_at="2026-01-02T00:00:00Z",
    )  # fmt: skip
    assert made.more and made.sessions[0] == plain
    assert (made.sessions[1].craze_session_id, made.sessions[1].title) == ("c", "T")


@pytest.mark.parametrize("joined", [True, False])
def test_a_reopen(reach, source, joined):
    doing = Doing(lambda: source.reopen("gx:p-1"))
    command = explicit(reach)
    sent = command.expect("session.reopen")
    assert sent["params"] == {"id": "gx:p-1"}
    command.reply(sent, {"session": listed(A), "joined": joined})
    assert (doing.result().session, doing.result().joined) == (session(A), joined)
    assert source.created_rows() == (session(A),)


def test_a_reopen_whose_answer_is_lost_is_asked_for_once_more(reach, source):
    doing = Doing(lambda: source.reopen("x"))
    for _ in range(2):
        command = explicit(reach)
        command.expect("session.reopen")
        command.end()
    assert doing.failure() == errors.failed(
        "outcome unknown: craze did not answer the reopen, twice (craze closed the connection);"
        " the session may be running — check the session list"
    )
    assert len(reach.commands) == 2


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (("not_accepting", "not_resumable"), LaneError(errors.NOT_ACCEPTING)),
        (("not_accepting", "start_failed"), errors.failed("why")),
        (("unknown_session", ""), LaneError(errors.UNKNOWN_SESSION)),
        (("unavailable", "busy"), errors.unavailable("no")),
    ],
)
def test_a_reopen_that_is_refused_is_not_tried_again(reach, source, refusal, error):
    doing = Doing(lambda: source.reopen("x"))
    command = explicit(reach)
    command.refuse(command.expect("session.reopen"), *refusal, cause="why")
    assert doing.failure() == error and len(reach.commands) == 1


# ---- created rows and the roster ----


def create(reach, source, id: str) -> None:
    doing = Doing(lambda: source.create(request(request_id=f"r-{id}")))
    command = explicit(reach)
    command.reply(command.expect("session.create"), {"session": listed(id), "prompt": "none"})
    doing.result()


def test_b06_a_created_row_outlives_a_reseed_without_it(reach, make_source, list_of):
    told = []
    source = make_source(on_created_change=lambda: told.append(source.created_rows()))
    stream = list_of(source)
    one = roster(reach).seed(listed(B))
    stream.until(SourceReady)
    create(reach, source, A)
    assert told == [(session(A),)]
    one.note("reset", reason="slow_consumer").seed(listed(B))
    stream.until(SourceReady)
    assert source.created_rows() == (session(A),)
    one.drop()
    two = roster(reach).seed()
    stream.until(SourceReady)
    assert source.created_rows() == (session(A),)
    two.change(listed(A))
    stream.until(SourceSession)
    assert source.created_rows() == ()
    two.change(removes=(A,))
    stream.until(SourceRemoved)
    create(reach, source, A)  # a replayed answer for a session that has ended
    assert source.created_rows() == () and told == [(session(A),)]


def test_a_lane_that_ends_takes_its_created_row(reach, make_source, streams):
    told = []
    source = make_source(on_created_change=lambda: told.append(source.created_rows()))
    create(reach, source, "0123456789ab")
    lane = source.open("0123456789ab")
    watched = LaneStream(lane.subscribe())
    streams.append(watched)
    one: Host = host(reach).greet()
    one.seed(1).reset("session_closed")
    assert ended(watched) == "session_closed"
    assert source.created_rows() == () and told[-1] == () and len(told) == 2
    create(reach, source, "0123456789ab")
    assert source.created_rows() == ()


def test_rows_leave_with_their_hub(reach, source):
    create(reach, source, A)
    source.hub_gone()
    assert source.created_rows() == ()
    create(reach, source, A)
    assert source.created_rows() == (session(A),)


def test_every_explicit_action_wakes_what_waits(reach, source, monkeypatch):
    woken = []
    monkeypatch.setattr("craze_shed.craze.wakes.Wakes.wake", lambda wakes: woken.append(1))
    doing = Doing(source.create_options)
    reach.next().end(127)
    doing.failure()
    create(reach, source, A)
    doing = Doing(lambda: source.create(request()))
    reach.next().end(127)
    doing.failure()
    assert len(woken) == 3 and source.wakes.listed == 1


def test_it_says_what_it_is(source):
    assert repr(source) == "<CrazeSource machine, 0 subscriptions>"
    assert source.kind() == "craze" and frames.NOT_INSTALLED == "not_installed"
