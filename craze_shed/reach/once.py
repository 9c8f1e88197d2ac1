"""Work that is done once and to its end, however whoever asked for it is interrupted."""

from collections.abc import Callable

import gevent

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
