"""Where a command runs, and the command while it runs: what every way to a machine has in common.

Every implementation passes one suite of tests. Blocking on gevent; a way may be used by many
greenlets at once, a stream by one that reads and one that writes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import gevent

from craze import greenlets
from craze_shed.reach.errors import closed
from craze_shed.reach.forwards import Forwards, Share
from craze_shed.reach.once import Once


class Keepalive(NamedTuple):
    """How a link is noticed that carries nothing any more and says nothing of it.

    After `interval` seconds without a word the other side is asked for one, and after `missed`
    more intervals without any the link is given up: within `noticed` seconds. An interval of 0
    asks for nothing.
    """

    interval: int = 10
    missed: int = 2

    @property
    def noticed(self) -> int:
        """Seconds from the last word to the end of the link."""
        return self.interval * (self.missed + 1)


KEEPALIVE = Keepalive()


class Running(ABC):
    """A command that was started: a stream of its input and output, and its stderr and exit code.

    Its stderr is read all the time, whoever reads its output. `close` must be called, and leaves
    nothing of it here; a command elsewhere sees its input end and its output closed.
    """

    @abstractmethod
    def recv(self, size: int, /) -> bytes:
        """At most `size` bytes of its output; none at its end, and once this is closed. Waits for
        the first. Raises ReachError."""

    @abstractmethod
    def sendall(self, data: bytes, /) -> None:
        """Give it all of `data`. Raises ReachError where it reads no more."""

    @abstractmethod
    def half_close(self) -> None:
        """End its input. Doing so twice is harmless."""

    @abstractmethod
    def close(self) -> None:
        """End it; whoever waits in `recv` is woken. Bounded in time; closing twice is harmless."""

    @property
    @abstractmethod
    def stderr(self) -> bytes:
        """The last 4096 bytes of its stderr so far."""

    @abstractmethod
    def exit(self, timeout: float) -> int | None:
        """Its exit code, once there is one and what it said on stderr before is read; negative
        for a signal. None where that takes longer than `timeout` seconds, or none ever comes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_Any = TypeVar("_Any", bound=Running)


class Reach(ABC):
    """A machine, and a way to run commands there. `label` is what messages call it.

    `close` leaves nothing: no child, socket, greenlet or folder; what runs is closed with it.
    """

    def __init__(self, label: str, connect: Callable[[int], Running] | None = None) -> None:
        """`connect(port)` makes a connection to a TCP port of the machine's own loopback, a stream
        without stderr or exit code; none is needed where that loopback is ours."""
        self.label = label
        self._running: set[Running] = set()
        self._forwards = None if connect is None else Forwards(connect)
        self._close = Once(f"reach-close {label}", self._closing)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._running)} running"
        return f"<{type(self).__name__} {self.label}, {state}>"

    @property
    def closed(self) -> bool:
        """Whether it was closed: nothing more will ever go through here."""
        return self._close.begun

    @abstractmethod
    def run(self, line: str) -> Running:
        """Start an sh line there. Raises ReachError; what befalls a command that was started is
        told by its exit code and stderr. ValueError for more than one line."""

    def forward(self, port: int) -> Share:
        """A share of a port on 127.0.0.1 here that leads to `port` on the machine's own loopback.

        All shares of a port are of one forward, which ends with the last. Raises ReachError.
        """
        self._check_open()
        return Share(port, lambda: None) if self._forwards is None else self._forwards.share(port)

    def close(self) -> None:
        """End everything that goes through here. Bounded in time; closing twice is harmless."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise closed(self.label)

    def _closing(self) -> None:
        if self._forwards is not None:
            self._forwards.close()
        gevent.joinall([greenlets.spawn("reach-close", one.close) for one in self._running])
        self._end()

    def _end(self) -> None:  # noqa: B027 -- not every way has something
        """End what commands were run through; nothing runs any more."""

    def _started(self, running: _Any) -> _Any:
        """What was started, held from now on. Raises ReachError where all was closed meanwhile."""
        self._running.add(running)
        if self.closed:
            running.close()
            raise closed(self.label)
        return running
