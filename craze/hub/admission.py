"""The creates and reopens in flight: so many at once, each in a greenlet of its own, so that a
client that leaves does not cancel what it asked for."""

from collections.abc import Callable

from gevent.event import AsyncResult, Event

from craze import greenlets
from craze.wire.codes import Refusal
from craze.wire.limits import CREATES_IN_FLIGHT


class Outcome:
    """What came, or will come, of one request: a result as raw JSON, or a refusal."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = AsyncResult()

    @property
    def known(self) -> bool:
        return bool(self._value.ready())

    def settle(self, result: bytes | BaseException) -> None:
        if isinstance(result, BaseException):
            self._value.set_exception(result)
        else:
            self._value.set(result)

    def wait(self) -> bytes:
        """The result. Raises Refusal."""
        result: bytes = self._value.get()
        return result


class Admission:
    """How many may be in flight. `report(where, error)` hears of our own faults."""

    def __init__(
        self, report: Callable[[str, BaseException], None], most: int = CREATES_IN_FLIGHT
    ) -> None:
        self._report = report
        self._most = most
        self._idle = Event()
        self._idle.set()
        self._counted = 0
        self.running = 0

    def run(
        self, name: str, work: Callable[[], bytes], outcome: Outcome, *, counted: bool = True
    ) -> None:
        """Begin `work`, whose end settles `outcome`. What is `counted` needs one of the places.
        Raises Refusal `busy`."""
        if counted and self._counted >= self._most:
            raise Refusal(
                "busy", f"{self._most} sessions are being created or reopened already: try again"
            )
        self._counted += counted
        self.running += 1
        self._idle.clear()
        greenlets.spawn(name, self._run, name, work, outcome, counted)

    def wait(self) -> None:
        """Wait until nothing is in flight."""
        self._idle.wait()

    def _run(self, name: str, work: Callable[[], bytes], outcome: Outcome, counted: bool) -> None:
        try:
            outcome.settle(work())
        except Refusal as refusal:
            outcome.settle(refusal)
        except Exception as failure:
            self._report(name, failure)
            outcome.settle(Refusal("failed", f"the {name} failed inside this hub"))
        finally:
            self._counted -= counted
            self.running -= 1
            if not self.running:
                self._idle.set()
