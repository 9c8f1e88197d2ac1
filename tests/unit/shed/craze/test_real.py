"""Lanes and a source against a real hub and real hosts: what they show is what there is."""

import time
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze_shed.contract import answers
from craze_shed.contract.errors import LaneError
from craze_shed.contract.frames import HOST_REMOVED, Down, Ready, Reset, Stale
from craze_shed.contract.settings import SetConfig, SetMode, SetModel
from craze_shed.craze.dial import Dialer
from craze_shed.craze.lane import CrazeLane
from craze_shed.craze.limits import CONNECTED
from craze_shed.view import LaneView, LaneViewSnapshot
from tests.unit.shed.craze.conformance import LaneStream
from tests.unit.shed.craze.conftest import QUICK
from tests.unit.shed.craze.scripting import until

ID = "0123456789ab"


class Reader:
    """A lane that is read into a view, in a greenlet of the test's own."""

    def __init__(self, real: Any, streams: list[LaneStream], id: str = ID, **bounds: float) -> None:
        self.lane = CrazeLane(Dialer(real, eager=False), id, bounds=QUICK._replace(**bounds))
        self.stream = LaneStream(self.lane.subscribe())
        streams.append(self.stream)
        self.view = LaneView()
        self.failures: list[BaseException] = []
        greenlets.spawn(
            "reader", self.stream.follow, self.view.apply, on_error=self.failures.append
        )

    def read(self) -> LaneViewSnapshot:
        """What shows now."""
        assert not self.failures, self.failures
        return self.view.snapshot()

    def until(self, holds: Any) -> LaneViewSnapshot:
        until(lambda: holds(self.read()))
        return self.read()

    def live(self) -> LaneViewSnapshot:
        return self.until(lambda shown: shown.generation and shown.stale is None)

    def resets(self) -> list[str]:
        return [frame.reason for frame in self.stream.seen if isinstance(frame, Reset)]


@pytest.fixture
def reader(real, streams):
    return lambda *args, **options: Reader(real, streams, *args, **options)


def op(host: Any, name: str, **members: Any) -> None:
    host.run({"name": name, **members})


def texts(shown: LaneViewSnapshot) -> list[tuple[str, str | None]]:
    return [(row.type, row.text) for row in shown.messages]


def whole(shown: LaneViewSnapshot) -> list[tuple[Any, ...]]:
    """The rows without their seqs, neighbouring pieces of a run joined."""
    made: list[tuple[Any, ...]] = []
    for row in shown.messages:
        piece = (row.role, row.type, row.text, row.tool, row.approval)
        if row.role == "assistant" and made and made[-1][:2] == piece[:2]:
            piece = (*piece[:2], f"{made[-1][2]}{row.text}", *piece[3:])
            made.pop()
        made.append(piece)
    return made


def test_a_session_is_driven(real, reader):
    host = real.host()
    lane = reader(flush=0.01)
    shown = lane.live()
    assert shown.session is not None and shown.capabilities is not None
    assert (shown.session.id, shown.session.cwd, shown.session.activity) == (ID, "/work", "idle")
    assert shown.session.permission_mode == "prompt" and shown.capabilities.stop
    lane.lane.send("hi")
    shown = lane.until(lambda shown: len(shown.messages) == 2 and shown.activity == "idle")
    assert texts(shown) == [("text", "hi"), ("text", "echo: hi")]
    op(
        host,
        "permission",
        id="p",
        tool="ls",
        options=[{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
    )
    shown = lane.until(lambda shown: shown.approvals)
    assert shown.activity == "needs_approval" and lane.lane.approvals() == shown.approvals
    lane.lane.answer(shown.approvals[0].id, answers.Permission("allow_once"))
    shown = lane.until(lambda shown: not shown.approvals)
    assert [row.approval.status for row in shown.messages if row.approval] == [
        "pending",
        "resolved",
    ]
    lane.lane.set(SetModel("fast"))
    lane.lane.set(SetMode("plan"))
    lane.lane.set(SetConfig("effort", "high"))
    shown = lane.until(lambda shown: shown.settings and shown.settings.mode == "plan")
    shown = lane.until(lambda shown: shown.settings.options[0].current == "high")
    assert shown.settings is not None and shown.settings.model == "fast"
    assert lane.lane.settings() == shown.settings
    with pytest.raises(LaneError) as refused:
        lane.lane.set(SetConfig("effort", "low", "grok"))
    assert refused.value.code == "not_accepting"
    assert lane.lane.set_title("A name") is None
    lane.until(lambda shown: shown.session and shown.session.title == "A name")
    with pytest.raises(LaneError) as refused:
        lane.lane.cancel()
    assert refused.value.code == "not_accepting"
    history = lane.lane.history()
    assert [row.text for row in history.messages][:2] == [
        "hi",
        "echo: hi",
    ] and not history.truncated


def test_b01_what_is_cut_off_in_the_midst_of_a_turn_shows_what_was_never_cut(real, reader):
    host = real.host()
    cut, kept = reader(), reader()
    cut.live()
    kept.live()
    op(host, "hang_next")
    cut.lane.send("go")
    op(host, "text", text="before ")
    cut.until(lambda shown: shown.messages)
    for number in range(50):
        if number % 10 == 5:
            for link in list(real._links)[:1]:
                link.shutdown(2)
        op(host, "thought" if number % 3 else "text", text=f"{number} ")
        if number == 25:
            op(host, "tool", id="t", toolName="shell", title="Run", status="in_progress")
            op(host, "permission", id="p-1", tool="ls", options=[])
        gevent.sleep(0)
    real.cut()
    op(host, "tool", id="t", toolName="shell", title="Run", status="completed")
    op(host, "question", id="q-1", title="which", questions=[{"id": "q", "prompt": "which"}])
    op(host, "end")
    op(host, "permission", id="p-2", tool="rm", options=[])
    for lane in (cut, kept):
        lane.until(
            lambda shown: not shown.stale and [one.title for one in shown.approvals] == ["rm"]
        )
        assert lane.resets() == ["connect"]
        assert isinstance(next(f for f in lane.stream.seen if isinstance(f, Stale)), Stale)
    assert whole(cut.read()) == whole(kept.read())
    fresh = reader()
    shown = fresh.live()
    assert shown.approvals == cut.read().approvals == kept.read().approvals


def test_b04_a_restarted_host_is_seeded_anew(real, reader):
    host = real.host()
    lane = reader(flush=0.01)
    lane.live()
    lane.lane.send("hi")
    lane.until(lambda shown: len(shown.messages) == 2)
    op(host, "restart")
    lane.until(lambda shown: lane.resets()[1:] and shown.generation == 2)
    assert texts(lane.live()) == []
    assert lane.resets()[1] in ("server_reset:session_replaced", "cursor_lost:foreign_incarnation")


def test_a_consumer_that_is_slow_goes_on_where_it_was(real, reader):
    host = real.host()
    lane = reader()
    lane.live()
    op(host, "stall_writes")
    for number in range(1200):
        op(host, "foreign_turn", id="w", running=number % 2 == 0)
    op(host, "resume_writes")
    shown = lane.until(lambda shown: len(shown.messages) == 500 and shown.messages[-1].seq == 600)
    assert lane.resets() == ["connect"] and shown.stale is None


def test_a_record_that_nobody_can_fold_is_seeded_over(real, reader):
    host = real.host()
    lane = reader()
    lane.live()
    op(host, "oversized_event")
    lane.until(lambda shown: shown.generation == 2)
    assert lane.resets() == ["connect", "server_reset:omitted"]
    assert "stale" not in [frame.kind for frame in lane.stream.seen]


def test_b16_a_sub_agents_ask_and_a_lost_end(real, reader):
    host = real.host()
    lane = reader()
    lane.live()
    op(host, "hang_next")
    lane.lane.send("go")
    lane.until(lambda shown: shown.activity == "working")
    path, real.hub.path = real.hub.path, "/nowhere"
    real.cut()
    lane.until(lambda shown: shown.stale)
    op(host, "permission", id="p-1", tool="ls", options=[])
    op(host, "end")
    op(host, "permission", id="p-2", tool="rm", options=[])
    real.hub.path = path
    shown = lane.until(lambda shown: shown.stale is None)
    assert [one.title for one in shown.approvals] == ["rm"]
    assert lane.resets() == ["connect"] and shown.session is not None
    assert shown.session.pending_approvals == 1


def test_a_stopped_session_ends_its_lane_with_its_last_rows(real, reader):
    host = real.host()
    lane = reader()
    lane.live()
    op(host, "hang_next")
    lane.lane.send("go")
    op(host, "text", text="last words")
    lane.lane.stop()
    op(host, "run_stop")
    shown = lane.until(lambda shown: shown.ended)
    assert shown.stale == "session_closed"
    assert ("text", "last words") in texts(shown)
    assert isinstance(lane.stream.seen[-1], Down)
    with pytest.raises(LaneError):
        CrazeLane(lane.lane._dialer, ID, bounds=QUICK, connected_wait=0.01).cancel()


def test_a_session_that_is_nowhere(real, reader):
    lane = reader("bbbbbbbbbbbb")
    shown = lane.until(lambda shown: shown.ended)
    assert shown.stale == "unknown_session"


def test_b12_a_lane_opened_before_its_machine_is_there(real, reader):
    host = real.host()
    real.stop()
    lane = reader(flush=0.01)
    assert lane.until(lambda shown: shown.stale).generation == 0
    op(host, "text", text="meanwhile")
    real.start()
    assert texts(lane.until(lambda shown: shown.messages)) == [("text", "meanwhile")]
    assert lane.resets() == ["connect"]


def test_a_hub_that_restarts_is_a_blip(real, reader):
    host = real.host()
    lane = reader(flush=0.01)
    lane.live()
    op(host, "text", text="before")
    lane.until(lambda shown: shown.messages)
    real.stop()
    lane.until(lambda shown: shown.stale)
    op(host, "text", text="during")
    real.start()
    shown = lane.until(lambda shown: shown.stale is None and len(shown.messages) == 2)
    assert texts(shown) == [("text", "before"), ("text", "during")] and lane.resets() == ["connect"]


def test_verbs_of_one_that_cannot_be_reached_are_not_sent(real, reader):
    real.host()
    lane = reader()
    lane.live()
    lane.lane._connected_wait = 0.01
    real.stop()
    lane.until(lambda shown: shown.stale)
    with pytest.raises(LaneError, match="the prompt was not sent"):
        lane.lane.send("never")
    real.start()
    lane.live()
    assert texts(lane.read()) == []


def test_presence_counts_the_watchers(real, reader):
    real.host()
    first = reader()
    first.live()
    second = reader()
    first.until(lambda shown: shown.session.attached == 2)
    second.stream.close()
    first.until(lambda shown: shown.session.attached == 1)


def test_ready_is_told_once_a_seed(real, reader):
    real.host()
    lane = reader()
    lane.live()
    assert sum(isinstance(frame, Ready) for frame in lane.stream.seen) == 1


def test_a_lane_outlives_no_way_to_its_machine(real, reader):
    real.host()
    lane = reader()
    lane.live()
    real.close()
    lane.until(lambda shown: shown.stale == HOST_REMOVED)
    assert isinstance(lane.stream.seen[-1], Down)
    begun = time.monotonic()
    with pytest.raises(LaneError) as told:
        lane.lane.send("hi")
    assert str(told.value) == "real: this way to it is closed; the prompt was not sent — try again"
    assert time.monotonic() - begun < CONNECTED
