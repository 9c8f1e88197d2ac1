"""The channel of a subscription: full, drained, final, dropped."""

import gc
import subprocess
import sys

import gevent
import pytest

from craze import greenlets
from craze_shed.contract.publisher import (
    LANE_CHANNEL_CAPACITY,
    Lagged,
    ReceiverGone,
    channel,
)


def waiting(work, *args):
    """A greenlet in `work(*args)`, once it has come as far as it can; its outcome is in a list."""
    outcome = []

    def run():
        try:
            outcome.append(work(*args))
        except ReceiverGone as gone:
            outcome.append(gone)

    greenlet = greenlets.spawn("a waiter", run)
    settle()
    return greenlet, outcome


def settle():
    for _ in range(5):
        gevent.sleep(0)


def test_frames_come_in_order():
    publisher, subscription = channel()
    for number in range(3):
        publisher.publish(number)
    assert [subscription.next() for _ in range(3)] == [0, 1, 2]
    subscription.close()


def test_a_full_channel_drops_the_frame_and_says_so():
    publisher, subscription = channel()
    for number in range(LANE_CHANNEL_CAPACITY):
        publisher.publish(number)
    with pytest.raises(Lagged):
        publisher.publish("late")
    assert repr(subscription) == "<Subscription open, 1024 of 1024 frames>"
    assert subscription.next() == 0
    publisher.publish("next")
    assert [*iter(lambda: subscription.next(0), None)] == [*range(1, 1024), "next"]
    subscription.close()


def test_iteration_waits_for_a_frame():
    publisher, subscription = channel()
    greenlet, outcome = waiting(subscription.next)
    assert outcome == []
    publisher.publish("frame")
    greenlet.join()
    assert outcome == ["frame"]
    subscription.close()


def test_a_wait_may_be_bounded():
    publisher, subscription = channel()
    assert subscription.next(timeout=0.001) is None and not subscription.ended
    publisher.publish("frame")
    assert subscription.next(timeout=0) == "frame"
    subscription.close()


def test_drained_means_empty_not_merely_with_room():
    publisher, subscription = channel(4)
    for number in range(4):
        publisher.publish(number)
    greenlet, outcome = waiting(publisher.wait_drained)
    for _ in range(3):
        subscription.next()
        settle()
        assert outcome == []
    subscription.next()
    greenlet.join()
    assert outcome == [None]
    publisher.wait_drained()
    subscription.close()


@pytest.mark.parametrize("wait", ["wait_drained", "publish_waiting"])
def test_a_receiver_that_goes_ends_the_wait(wait):
    publisher, subscription = channel(1)
    publisher.publish("frame")
    args = ("more",) if wait == "publish_waiting" else ()
    greenlet, outcome = waiting(getattr(publisher, wait), *args)
    assert outcome == [] and not publisher.is_closed()
    subscription.close()
    greenlet.join()
    assert isinstance(outcome[0], ReceiverGone) and publisher.is_closed()
    with pytest.raises(ReceiverGone):
        getattr(publisher, wait)(*args)


def test_the_terminal_path_waits_for_room_and_drops_nothing():
    publisher, subscription = channel(1)
    publisher.publish("frame")

    def end():
        publisher.publish_waiting("row")
        publisher.publish_final("down")

    greenlet, outcome = waiting(end)
    assert outcome == []
    assert list(subscription) == ["frame", "row", "down"]
    greenlet.join()
    assert outcome == [None]
    assert subscription.ended and subscription.next() is None
    assert repr(publisher) == "<Publisher ended, 0 of 1 frames>"


def test_nothing_is_published_after_the_final_frame():
    publisher, subscription = channel()
    publisher.publish_final("down")
    for publish in (publisher.publish, publisher.publish_waiting, publisher.publish_final):
        with pytest.raises(RuntimeError, match="published after the final frame"):
            publish("more")
    assert not subscription.ended
    assert list(subscription) == ["down"]


def test_a_final_frame_that_nobody_receives_is_no_failure():
    publisher, subscription = channel()
    subscription.close()
    with pytest.raises(ReceiverGone):
        publisher.publish("frame")
    publisher.publish_final("down")


def test_a_pump_that_fails_ends_the_stream_behind_what_it_sent():
    publisher, subscription = channel()
    publisher.publish("frame")
    publisher.close()
    assert list(subscription) == ["frame"]


def test_closing_drops_what_is_queued_and_ends_a_waiting_reader():
    publisher, subscription = channel()
    publisher.publish("frame")
    subscription.close()
    assert list(subscription) == []
    publisher, other = channel()
    greenlet, outcome = waiting(other.next)
    other.close()
    greenlet.join()
    assert outcome == [None]
    del subscription, publisher


def test_closing_tells_the_pump_once():
    publisher, subscription = channel()
    told = []
    publisher.on_close(lambda: told.append("first"))
    with subscription:
        assert told == []
    subscription.close()
    assert told == ["first"]
    publisher.on_close(lambda: told.append("late"))
    assert told == ["first", "late"]


def test_a_dropped_subscription_ends_its_pump():
    publisher, subscription = channel()
    pump = greenlets.spawn("a pump", lambda: gevent.sleep(60))
    publisher.on_close(lambda: pump.kill(block=False))
    settle()
    assert not pump.dead
    del subscription
    gc.collect()
    pump.join()
    assert publisher.is_closed()


def test_two_subscriptions_are_two_streams():
    (one, first), (two, second) = channel(1), channel(1)
    one.publish("a")
    two.publish("b")
    first.close()
    with pytest.raises(Lagged):
        two.publish("c")
    assert second.next() == "b"
    second.close()


def test_it_works_in_a_program_that_patched_nothing():
    program = (
        "import gevent.monkey, gevent\n"
        "from craze_shed.contract.publisher import channel\n"
        "publisher, subscription = channel(1)\n"
        "def pump():\n"
        "    for number in range(3): publisher.publish_waiting(number)\n"
        "    publisher.publish_final('down')\n"
        "gevent.spawn(pump)\n"
        "assert list(subscription) == [0, 1, 2, 'down']\n"
        "assert not gevent.monkey.is_anything_patched()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
