"""The connections to one machine that its commands share: opened one at a time, and when one has no
room the next.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import gevent
from gevent.event import AsyncResult

from craze import greenlets
from craze_shed.reach.errors import closed
from craze_shed.reach.once import Once


class Connection(ABC):
    """A connection that is ready. How many use it is counted, and whether the server took no more
    is learned from it: what a server allows cannot be asked."""

    def __init__(self, name: str) -> None:
        self.users = 0
        self.full = False
        self._served = False
        self.end = Once(f"end {name}", self._end)

    @property
    @abstractmethod
    def usable(self) -> bool:
        """Whether it is still there."""

    def left(self) -> None:
        """One that used it is gone: there is room."""
        self.users -= 1
        self.full = False
        self._served = True

    def refused(self) -> bool:
        """The server refused the last that came. True where it need not be tried on another: this
        one was used by nobody else, now or before."""
        self.users -= 1
        self.full = True
        return not self.users and not self._served

    @abstractmethod
    def _end(self) -> None:
        """Leave nothing of it."""


_Of = TypeVar("_Of", bound=Connection)


class Connections(Generic[_Of]):
    """`login` makes a connection, or raises ReachError; killed, it leaves nothing."""

    def __init__(self, label: str, login: Callable[[], _Of]) -> None:
        self.all: list[_Of] = []
        self._gone: list[_Of] = []  # and perhaps still ending
        self._label = label
        self._login = login
        self._opening: gevent.Greenlet | None = None
        self._opened = AsyncResult()
        self._over = False

    def taken(self) -> _Of:
        """A connection with room, one more using it. Where none is there one is opened, and
        whoever comes meanwhile waits for the same. Raises ReachError."""
        while True:
            if self._over:
                raise closed(self._label)
            for connection in self._there():
                if not connection.full:
                    connection.users += 1
                    return connection
            if self._opening is None:
                self._opened = AsyncResult()
                self._opening = greenlets.spawn(f"login {self._label}", self._open)
            self._opened.get()

    def tidy(self) -> None:
        """Of those that nobody uses keep one that has room, and none where others are in use."""
        there = self._there()
        idle = sorted((one for one in there if not one.users), key=lambda one: one.full)
        kept = idle[:1] if len(idle) == len(there) else []
        for connection in idle:
            if connection not in kept or connection.full:
                connection.end(wait=False)

    def close(self) -> None:
        """End them all, one that is being opened included."""
        self._over = True
        if self._opening is not None:
            self._opening.kill()
            self._opened.set_exception(closed(self._label))
        ends = [connection.end for connection in (*self.all, *self._gone)]
        gevent.joinall([greenlets.spawn("end", end) for end in ends])

    def _there(self) -> list[_Of]:
        """Those that are still there; what is left of the others is ended."""
        for connection in self.all:
            if not connection.usable:
                connection.end(wait=False)
                self._gone.append(connection)
        self._gone = [connection for connection in self._gone if not connection.end.over]
        self.all = [connection for connection in self.all if connection.usable]
        return self.all

    def _open(self) -> None:
        opened = self._opened
        try:
            connection = self._login()
        except Exception as failure:  # whatever it is, whoever waits must hear of it
            opened.set_exception(failure)
        else:
            self.all.append(connection)
            opened.set()
        self._opening = None
