"""What is in flight: its places, its outcomes, and that nobody who waits waits for ever."""

from collections.abc import Callable

import gevent
import pytest
from gevent.event import Event

from craze.hub.admission import Admission, Outcome
from craze.wire.codes import Refusal
from craze.wire.limits import CREATES_IN_FLIGHT


class Faults(list[tuple[str, BaseException]]):
    def __call__(self, where: str, failure: BaseException) -> None:
        self.append((where, failure))


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def admission(faults: Faults) -> Admission:
    return Admission(faults)


def begin(admission: Admission, work: Callable[[], bytes]) -> Outcome:
    outcome = Outcome()
    admission.run("create", work, outcome)
    return outcome


def test_every_waiter_has_the_same_result(admission: Admission) -> None:
    go = Event()

    def work() -> bytes:
        go.wait()
        return b"{}"

    outcome = begin(admission, work)
    waiting = [gevent.spawn(outcome.wait) for _ in range(3)]
    gevent.sleep(0)
    waiting[0].kill()
    assert admission.running == 1
    go.set()
    assert [waiter.get() for waiter in waiting[1:]] == [b"{}", b"{}"]
    assert outcome.wait() == b"{}"
    assert admission.running == 0


def test_every_waiter_has_the_same_refusal(admission: Admission, faults: Faults) -> None:
    refusal = Refusal("busy", "no", cause="because")

    def work() -> bytes:
        raise refusal

    outcome = begin(admission, work)
    for _ in range(2):
        with pytest.raises(Refusal) as caught:
            outcome.wait()
        assert caught.value is refusal
    assert not faults


@pytest.mark.parametrize("failure", [KeyError("x"), gevent.Timeout(1)])
def test_a_fault_of_ours_is_reported_and_is_an_outcome(
    admission: Admission, faults: Faults, failure: BaseException
) -> None:
    def work() -> bytes:
        raise failure

    with pytest.raises(Refusal) as caught:
        begin(admission, work).wait()
    assert (caught.value.code, caught.value.message) == (
        "failed",
        "the create failed inside this hub",
    )
    assert faults == [("create", failure)]
    admission.wait()


def test_places_are_taken_and_given_back(admission: Admission) -> None:
    with pytest.raises(ZeroDivisionError), admission.place():
        raise ZeroDivisionError
    held = [admission.place() for _ in range(CREATES_IN_FLIGHT)]
    assert len(held) == 16
    for place in held:
        place.__enter__()
    with pytest.raises(Refusal) as caught, admission.place():
        pass
    assert (caught.value.code, caught.value.reason) == ("unavailable", "busy")
    held.pop().__exit__(None, None, None)
    with admission.place():
        pass
    assert admission.running == 0  # a place is not yet something in flight


def test_waiting_ends_when_nothing_is_in_flight(admission: Admission) -> None:
    admission.wait()
    first, second = Event(), Event()
    for event in (first, second):
        begin(admission, lambda event=event: event.wait() and b"")  # type: ignore[misc]
    waiting = gevent.spawn(admission.wait)
    first.set()
    gevent.sleep(0.01)
    assert not waiting.ready() and admission.running == 1
    second.set()
    waiting.get()
    assert admission.running == 0
