"""A lane held open: reopened where it may be, let go of when it is over."""

import gevent
import pytest
from gevent.event import Event

from craze import greenlets
from craze_shed.contract import errors, frames
from craze_shed.contract.answers import Reject
from craze_shed.contract.interfaces import AgentLane
from craze_shed.contract.publisher import channel
from craze_shed.contract.rows import FeedMessage
from craze_shed.contract.sessions import LaneHistory, LaneSession
from craze_shed.contract.settings import SetModel
from craze_shed.keeper import OpenLane

SEED = (
    frames.Reset("connect", 1),
    frames.Message(FeedMessage(seq=1, text="hi")),
    frames.Ready(1),
)


class ScriptedLane(AgentLane):
    """A lane that streams what it is told to and notes what it is asked."""

    agent = "scripted"

    def __init__(self, *streams):
        self.streams = list(streams)
        self.publishers = []
        self.asked = []
        self.closed = 0
        self.go = None

    def session_id(self):
        return "0123456789ab"

    def session(self):
        return LaneSession(id=self.session_id())

    def history(self, cursor=None, limit=0):
        return LaneHistory()

    def subscribe(self, cursor=None):
        publisher, subscription = channel()
        self.publishers.append(publisher)
        for frame in self.streams.pop(0) if self.streams else ():
            if isinstance(frame, Exception):
                raise frame
            publish = (
                publisher.publish_final if isinstance(frame, frames.Down) else publisher.publish
            )
            publish(frame)
        return subscription

    def send(self, text, mode="queue"):
        self.asked.append((text, mode))
        if self.go is not None:
            self.go.wait()

    def cancel(self):
        self.asked.append("cancel")

    def approvals(self):
        return ()

    def answer(self, approval_id, answer):
        self.asked.append((approval_id, answer))

    def close(self):
        self.closed += 1


def opened(*streams, chance=lambda: -1.0):
    """An open lane of these streams, and the lane; waits before a reopening are none."""
    lane = ScriptedLane(*streams)
    kept = OpenLane(lane, chance=chance)
    settle()
    return kept, lane


def settle():
    for _ in range(20):
        gevent.sleep(0)


def until(condition):
    with gevent.Timeout(30):
        while not condition():
            gevent.sleep(0.001)


VERBS = {
    "send": ("text",), "cancel": (), "answer": ("a", Reject()), "set": (SetModel("m"),),
    "set_title": ("t",), "stop": (),
}  # fmt: skip


def test_a_lane_is_followed_into_its_view():
    kept, lane = opened(SEED)
    assert [row.text for row in kept.snapshot().messages] == ["hi"]
    assert repr(kept) == "<OpenLane 0123456789ab: <LaneView 1: live, 1 rows>>"
    kept.send("go")
    kept.answer("a", Reject())
    assert lane.asked == [("go", "queue"), ("a", Reject())]
    kept.close()
    assert lane.publishers[0].is_closed() and lane.closed == 1
    kept.close()
    assert lane.closed == 1


@pytest.mark.parametrize("verb,args", VERBS.items())
def test_a_finished_lane_stays_readable_and_refuses_every_verb(verb, args):
    kept, lane = opened((*SEED, frames.Down("session_closed")))
    assert kept.finished and lane.closed == 1
    assert [row.text for row in kept.snapshot().messages] == ["hi"]
    assert kept.snapshot().banner == "ended · session_closed — showing the last known transcript"
    with pytest.raises(errors.ClientError) as caught:
        getattr(kept, verb)(*args)
    assert (caught.value.code, str(caught.value)) == ("lane_ended", "the session has ended")
    assert lane.asked == [] and len(lane.publishers) == 1
    assert repr(kept) == "<OpenLane 0123456789ab: finished>"
    kept.close()


def test_a_lane_that_only_went_down_is_opened_again_and_refuses_nothing():
    kept, lane = opened((*SEED, frames.Down("unreachable")), SEED)
    until(lambda: len(lane.publishers) == 2 and kept.snapshot().generation == 2)
    assert lane.publishers[0].is_closed()
    assert not kept.finished and kept.snapshot().stale is None
    kept.cancel()
    assert lane.asked == ["cancel"]
    kept.close()


def test_while_it_waits_to_be_opened_again_verbs_still_go_out():
    kept, lane = opened((*SEED, frames.Down("unreachable")), chance=lambda: 1000.0)
    assert kept.snapshot().ended and not kept.finished and len(lane.publishers) == 1
    kept.cancel()
    assert lane.asked == ["cancel"]
    kept.close()


def test_a_stale_lane_keeps_its_subscription():
    kept, lane = opened((*SEED, frames.Stale("reconnecting")), SEED)
    assert len(lane.publishers) == 1 and kept.snapshot().stale == "reconnecting"
    kept.close()


@pytest.mark.parametrize("failure,final,reason", [
    (errors.LaneError("unknown_session"), True, "unknown_session"),
    (errors.unavailable("no answer"), False, "no answer"),
])  # fmt: skip
def test_a_subscription_that_is_refused_is_as_good_as_a_down(failure, final, reason):
    kept, lane = opened((failure,), SEED, chance=(lambda: 1000.0) if not final else float)
    assert kept.finished is final and kept.snapshot().stale == reason
    assert len(lane.publishers) == 1
    kept.close()


def test_a_stream_that_ends_without_a_word_is_opened_again():
    kept, lane = opened(SEED, SEED)
    lane.publishers[0].close()
    until(lambda: kept.snapshot().generation == 2)
    assert len(lane.publishers) == 2
    kept.close()


@pytest.mark.parametrize("reason", ["session_gone", "hub_gone", "host_removed"])
def test_the_client_ends_a_lane_itself_once(reason):
    kept, lane = opened(SEED)
    kept.end(reason)
    kept.end("host_removed")
    settle()
    assert kept.finished and kept.snapshot().stale == reason and kept.snapshot().ended
    assert lane.publishers[0].is_closed() and lane.closed == 1
    with pytest.raises(errors.ClientError):
        kept.send("late")
    kept.close()


def test_a_verb_under_way_when_the_lane_finishes_runs_its_course():
    kept, lane = opened(SEED)
    lane.go = Event()
    sent = []
    asking = greenlets.spawn("a verb", lambda: sent.append(kept.send("go")))
    settle()
    kept.end("session_gone")
    assert lane.closed == 0
    lane.go.set()
    asking.join()
    assert sent == [None] and lane.closed == 1
    kept.close()


def test_what_cannot_be_done_fails_and_says_for_which_agent():
    kept, _ = opened(SEED)
    with pytest.raises(errors.LaneError) as caught:
        kept.set(SetModel("m"))
    assert str(caught.value) == "changing a session's settings is not supported by scripted"
    with pytest.raises(errors.LaneError) as caught:
        kept.stop()
    assert str(caught.value) == "stopping a session is not supported by scripted"
    kept.close()


def test_every_change_is_told():
    told = []
    kept = OpenLane(ScriptedLane((*SEED, frames.Down("session_closed"))), lambda: told.append(1))
    settle()
    assert len(told) == 4
    kept.close()


def test_a_reader_may_close_the_lane_where_it_is_told():
    kept = OpenLane(ScriptedLane(SEED), lambda: kept.close())
    settle()
    assert kept.finished
    kept.close()


def test_a_fault_in_the_adapter_finishes_the_lane_shows_and_is_told():
    told = []
    lane = ScriptedLane((RuntimeError("boom"),))
    kept = OpenLane(lane, lambda: told.append(kept.finished))
    settle()
    assert kept.finished and lane.closed == 1 and told == [True]
    assert kept.snapshot().stale == "internal error: RuntimeError('boom')"
    kept.close()
