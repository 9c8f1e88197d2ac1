"""Keeps a session's row of the index true: from its first prompt on, and its titles.

The writes go to the disk on a thread, one after the other in the order they were asked for; the
session never waits for them. A row is written because somebody prompted or named the session, never
because one merely started.
"""

from collections.abc import Callable
from typing import Any

from gevent.event import AsyncResult
from gevent.queue import SimpleQueue

from craze import greenlets
from craze.clock import Clock
from craze.machine.errors import MachineError
from craze.machine.index import Index, Unattended
from craze.wire.titles import normalize

CLOSE_WAIT = 5.0


class Indexing:
    """One session's row. `failed(text)` hears of a write that nobody waits for. `unattended` is
    said of a session that nobody answers for."""

    def __init__(
        self,
        index: Index,
        provider: str,
        workspace: str,
        session: str,
        clock: Clock,
        failed: Callable[[str], None],
        unattended: Unattended | None = None,
    ) -> None:
        self._index = index
        self._about = (provider, workspace, session)
        self._clock = clock
        self._failed = failed
        self._unattended = unattended
        self._provider_session = ""
        self._writes: SimpleQueue[Any] = SimpleQueue()
        self._writer = greenlets.spawn("index", self._write)

    def named(self, provider_session: str) -> None:
        """The session has its provider's id: from now on there can be a row."""
        self._provider_session = provider_session

    def prompted(self, text: str) -> None:
        """A turn has started: the row is renewed, and named after its first prompt if nameless."""
        self._put(normalize(text), "fallback", None)

    def write_title(self, title: str, pinned: bool) -> None:
        """Record a title and wait until that is done. Raises MachineError."""
        done: AsyncResult = AsyncResult()
        self._put(title, "user" if pinned else "agent", done)
        done.get()

    def close(self) -> None:
        """Write what is asked for, within a few seconds."""
        self._writes.put(None)
        self._writer.join(CLOSE_WAIT)
        self._writer.kill(block=False)

    def _put(self, title: str, source: str, done: AsyncResult | None) -> None:
        if self._provider_session:
            self._writes.put((title, source, self._clock.now(), done))
        elif done is not None:
            done.set_exception(MachineError("the session has no provider session id yet"))

    def _write(self) -> None:
        provider, workspace, session = self._about
        while (asked := self._writes.get()) is not None:
            title, source, now, done = asked
            named = (provider, self._provider_session, workspace, session, now)
            try:
                greenlets.on_thread(
                    self._index.record,
                    *named,
                    title=title,
                    source=source,
                    unattended=self._unattended,
                )
            except MachineError as failure:
                if done is None:
                    self._failed(str(failure))
                else:
                    done.set_exception(failure)
            else:
                if done is not None:
                    done.set(None)
