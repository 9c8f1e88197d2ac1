"""Work that is done to its end, however whoever asked for it is interrupted."""

from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import AsyncResult

from craze import greenlets


class Once:
    """`work` in a greenlet of its own: a timeout that hits a caller does not leave it half done,
    and every call after the first joins it."""

    __slots__ = ("_greenlet", "_name", "_work")

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._greenlet: gevent.Greenlet | None = None

    @property
    def begun(self) -> bool:
        return self._greenlet is not None

    @property
    def over(self) -> bool:
        return self._greenlet is not None and self._greenlet.dead

    def __call__(self, wait: bool = True) -> None:
        """Begin, unless that is done; with `wait` return once it is over. Raises what it raised."""
        if self._greenlet is None:
            self._greenlet = greenlets.spawn(self._name, self._work)
        if wait and self._greenlet is not gevent.getcurrent():
            self._greenlet.get()


def apart(name: str, work: Callable[..., Any], *args: Any) -> AsyncResult:
    """Have `work` done in a greenlet of its own; its outcome. Whoever waits for that may be killed,
    the work is not."""
    done = AsyncResult()

    def run() -> None:
        try:
            done.set(work(*args))
        except Exception as failure:
            done.set_exception(failure)

    greenlets.spawn(name, run)
    return done
