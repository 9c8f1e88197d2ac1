"""The creates and reopens in flight: so many at once, each in a greenlet of its own, so that a
client that leaves does not cancel what it asked for."""

import contextlib
from collections.abc import Callable, Iterator

from gevent.event import AsyncResult, Event

from craze import greenlets
from craze.wire.codes import Refusal
from craze.wire.limits import CREATES_IN_FLIGHT


class Outcome:
    """What came, or will come, of one request: a result as raw JSON, or a refusal."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = AsyncResult()

    def settle(self, result: bytes | BaseException) -> None:
        self._value.set(result)  # a failure, too: gevent's own way loads pickle for it

    def wait(self) -> bytes:
        """The result. Raises Refusal."""
        result: bytes | BaseException = self._value.get()
        if isinstance(result, BaseException):
            raise result
        return result


class Admission:
    """What is in flight, and the places for what starts a host. `report(where, error)` hears of our
    own faults."""

    def __init__(
        self, report: Callable[[str, BaseException], None], most: int = CREATES_IN_FLIGHT
    ) -> None:
        self._report = report
        self._most = most
        self._taken = 0
        self._idle = Event()
        self._idle.set()
        self.running = 0

    def run(self, name: str, work: Callable[[], bytes], outcome: Outcome) -> None:
        """Begin `work`, whose end settles `outcome`."""
        self.running += 1
        self._idle.clear()
        greenlets.spawn(name, self._run, name, work, outcome)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """One of the places, for as long as it is used. Raises Refusal `busy` when none is free."""
        if self._taken >= self._most:
            raise Refusal(
                "busy", f"{self._most} sessions are being created or reopened already: try again"
            )
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    def wait(self) -> None:
        """Wait until nothing is in flight."""
        self._idle.wait()

    def _run(self, name: str, work: Callable[[], bytes], outcome: Outcome) -> None:
        try:
            outcome.settle(work())
        except Refusal as refusal:
            outcome.settle(refusal)
        except BaseException as failure:  # a stray gevent.Timeout, too: somebody waits for an end
            self._report(name, failure)
            outcome.settle(Refusal("failed", f"the {name} failed inside this hub"))
        finally:
            self.running -= 1
            if not self.running:
                self._idle.set()
