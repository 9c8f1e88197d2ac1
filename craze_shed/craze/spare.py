"""A connection to a machine's hub that is made ahead: opening a lane does not wait for a process to
be started there.

There is one for a machine whose roster is followed. It is used once, for the first connection of a
lane and for nothing else: should it have gone bad unnoticed, a lane simply makes another, where a
create could no longer say what had become of it.
"""

import gevent
from gevent.event import Event

from craze import greenlets
from craze_shed.craze import limits
from craze_shed.craze.dial import Dialer, Hub, NotReached


class Spare:
    """The one of the machine that `dialer` reaches, from `keep` until `drop`."""

    def __init__(self, dialer: Dialer, pause: float = limits.SPARE_PAUSE) -> None:
        self._dialer = dialer
        self._pause = pause
        self._hub: Hub | None = None
        self._keeper: gevent.Greenlet | None = None
        self._taken = Event()
        self._idle = Event()  # no connection is being made
        self._idle.set()

    def __repr__(self) -> str:
        state = "there" if self.there else "not there" if self._idle.is_set() else "on its way"
        return f"<Spare {self._dialer.reach.label}, {state}>"

    @property
    def there(self) -> bool:
        """Whether there is one to be taken at once."""
        return self._hub is not None

    def keep(self) -> None:
        """Have one from now on, in the background."""
        if self._keeper is None:
            self._keeper = greenlets.spawn(f"spare {self._dialer.reach.label}", self._keep)

    def take(self, timeout: float) -> Hub | None:
        """The connection, which is the caller's then. One that is on its way is waited for, as the
        caller's own could hardly be there before; None where none comes."""
        self._idle.wait(timeout)
        hub, self._hub = self._hub, None
        self._taken.set()
        return hub

    def drop(self) -> None:
        """Have none any more."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.kill()
        hub, self._hub = self._hub, None
        if hub is not None:
            hub.connection.close("it was not needed")

    def _keep(self) -> None:
        while True:
            self._taken.clear()
            self._idle.clear()
            try:
                self._hub = self._dialer.connect()
            except NotReached:
                pass  # the next lane says why, if that is still so
            finally:
                self._idle.set()
            self._taken.wait()
            while self._hub is not None:  # whoever asked for it had no time left
                self._taken.clear()
                self._taken.wait()
            gevent.sleep(self._pause)
