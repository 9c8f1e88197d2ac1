"""A roster subscription: what its client holds, and the net change from there to the roster.

The client's view moves only with a line that is on its way to it: the cursor of one connection
never goes back, whatever changes while a slow client is being written to.
"""

from collections.abc import Callable

import gevent
from gevent.event import Event

from craze import greenlets
from craze.hub.roster import Roster, View, change
from craze.wire import documents, envelope
from craze.wire.limits import ROSTER_FLUSH


class Subscription:
    """The subscription `id` of a connection, begun by the reply that told `view`.

    `tell(compose, reset)` writes the line that `compose()` returns, after all that is being
    written; b"" writes nothing. It returns False where the client has fallen behind and heard
    `reset`: the subscription is over then. `ended` is called once.
    """

    def __init__(
        self,
        id: str,
        epoch: str,
        roster: Roster,
        view: View,
        *,
        tell: Callable[[Callable[[], bytes], bytes], bool],
        ended: Callable[[], None],
        failed: Callable[[BaseException], None],
        flush: float = ROSTER_FLUSH,
    ) -> None:
        self.id = id
        self._epoch = epoch
        self._roster = roster
        self._view = view
        self._tell = tell
        self._ended = ended
        self._flush = flush
        self._moved = Event()
        self._worker = greenlets.spawn(f"roster {id}", self._run, on_error=failed)

    def __repr__(self) -> str:
        return f"<Subscription {self.id} at {self._view.cursor} of {self._roster.cursor}>"

    def moved(self) -> None:
        """The roster may have changed."""
        if self._roster.cursor != self._view.cursor:
            self._moved.set()

    def told(self, view: View) -> None:
        """Another line of the connection has told the roster as it stood."""
        self._view = view

    def reset(self, reason: str) -> bytes:
        """The line that ends the subscription."""
        params = documents.build("reset", subscription=self.id, reason=reason)
        return envelope.notification("reset", params)

    def close(self) -> None:
        """Say no more."""
        self._worker.kill(block=gevent.getcurrent() is not self._worker)

    def _run(self) -> None:
        while True:
            self._moved.wait()
            self._moved.clear()
            if not self._tell(self._compose, self.reset("slow_consumer")):
                break
            if self._roster.view().truncated != self._view.truncated:
                self._tell(lambda: self.reset("omitted"), b"")
                break
            gevent.sleep(self._flush)
        self._ended()

    def _compose(self) -> bytes:
        """The notification of what changed since the client's view; b"" for nothing."""
        view = self._roster.view()
        if view.cursor == self._view.cursor or view.truncated != self._view.truncated:
            return b""
        upserts, removes = change(self._view, view)
        self._view = view
        if not upserts and not removes:
            return b""
        return envelope.notification(
            "roster",
            documents.roster_change(self.id, self._epoch, view.cursor, upserts, removes),
        )
