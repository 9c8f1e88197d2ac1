"""The hub's socket: who may connect, who is connected, what this hub serves, and its end.

A connection is refused before a byte of it is read unless its peer runs as this user. The hub mints
no client ids and keeps no receipts: those are a host's, reached through the splice.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

import gevent
from gevent import socket

from craze import greenlets
from craze.clock import Clock
from craze.hub.bounds import BOUNDS, Bounds
from craze.hub.connection import Connection
from craze.hub.poll import Poll
from craze.hub.roster import Roster
from craze.machine import peer, registry, sockets
from craze.machine.errors import MachineError
from craze.machine.paths import Paths
from craze.wire import documents
from craze.wire.codes import Refusal
from craze.wire.limits import (
    ACCEPT_BACKOFF_FIRST,
    ACCEPT_BACKOFF_MAX,
    SPLICE_DIAL,
)

_STEP = 0.010


def _spare() -> int:
    """A descriptor to be given up when there are no others; -1 where there is none even for it."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


Handler = Callable[[dict[str, Any]], bytes]


class Hub:
    """A hub of the hosts in `paths`' registry. `listener` is bound and listening.

    `handlers` are the methods that this hub serves besides its own four, by name: each takes the
    decoded params and returns the result as raw JSON, or raises Refusal. `titles` says whether its
    create takes one. `report(where, error)` hears of our own faults, `say(line)` of the machine's,
    and `failed()` is called when the hub cannot go on.
    """

    def __init__(
        self,
        listener: Any,
        paths: Paths,
        *,
        hub_id: str,
        version: str,
        pid: int,
        report: Callable[[str, BaseException], None],
        say: Callable[[str], None],
        failed: Callable[[], None],
        handlers: dict[str, Handler] | None = None,
        titles: bool = False,
        clock: Clock | None = None,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.id = hub_id
        self.report = report
        self.closing = False
        self.handlers = handlers if handlers is not None else {}
        self.titles = titles
        self.connections: set[Connection] = set()
        self.roster = Roster(bounds.fresh)
        self.bounds = bounds
        self._version = version
        self._pid = pid
        self._paths = paths
        self._failed = failed
        self._listener = listener
        self.poll = Poll(
            paths,
            self.roster,
            clock or Clock(),
            changed=self._moved,
            report=say,
            failed=self._died,
            bounds=bounds,
        )
        self._spare = _spare()
        self._acceptor = greenlets.spawn("accept", self._accept, on_error=self._died)

    def __repr__(self) -> str:
        return f"<Hub {self.id} {len(self.connections)} connections>"

    @property
    def clients(self) -> int:
        """The connections past hello, spliced ones included."""
        return sum(connection.greeted for connection in self.connections)

    @property
    def not_taken(self) -> tuple[str, ...]:
        """The members of params that this hub does not know."""
        return () if self.titles else ("title",)

    def hello(self) -> dict[str, Any]:
        """The result of hello."""
        serves = self.handlers.keys()
        return documents.hub_hello(
            self.id,
            self._version,
            self._pid,
            create="session.create" in serves,
            create_options="sessions.createOptions" in serves,
            create_title=self.titles,
            reopen={"sessions.saved", "session.reopen"} <= serves,
        )

    def dial(self, session: str) -> socket.socket:
        """A connection to the one host that `session` names (protocol tables 15). Raises
        Refusal."""
        try:
            live, unreadable = registry.scan(self._paths)
            unread = "the registry entry of a live session host"
        except MachineError:
            live, unreadable, unread = [], ["all"], "the registry"
        ids = ("crazeSessionId", "providerSessionId", "hostId")
        found = [entry for entry in live if session in [getattr(entry, id) for id in ids]]
        if len(found) > 1:
            hosts = " ".join(entry.hostId for entry in found)
            raise Refusal(
                "ambiguous_session",
                f"{len(found)} sessions match {session};"
                f" name the one you mean by its host id: [{hosts}]",
            )
        if not found and unreadable:
            raise Refusal(
                "host_unreachable",
                f"{unread} cannot be read, so no session's host can be found",
            )
        if not found:
            raise Refusal("unknown_session", f"no session {session}")
        try:
            return sockets.dial(found[0].socket, SPLICE_DIAL)
        except (OSError, peer.Stranger):
            raise Refusal(
                "host_unreachable", f"session {session}'s host {found[0].hostId} cannot be reached"
            ) from None

    def close(self, wait: Callable[[], None] = lambda: None) -> None:
        """Refuse new work, `wait` for what is in flight, tell every client, and close."""
        self.closing = True
        with gevent.Timeout(self.bounds.teardown, False):
            wait()
            while any(connection.serving for connection in self.connections):
                gevent.sleep(_STEP)
        self._acceptor.kill()
        self._listener.close()
        leaving = list(self.connections)
        gevent.joinall([greenlets.spawn("closing", each.shut_down) for each in leaving])
        for connection in leaving:
            connection.join()
        self.poll.close()
        spare, self._spare = self._spare, -1
        if spare >= 0:
            os.close(spare)

    def gone(self, connection: Connection) -> None:
        """A connection has closed."""
        self.connections.discard(connection)

    def _moved(self) -> None:
        for connection in list(self.connections):
            connection.moved()

    def _turn_away(self, failure: OSError) -> None:
        """Close the next connection where there is no descriptor left for one: who is not answered
        at all would take this hub for one that stands still."""
        if failure.errno not in (errno.EMFILE, errno.ENFILE) or self._spare < 0:
            return
        os.close(self._spare)
        try:
            with gevent.Timeout(ACCEPT_BACKOFF_MAX, False):
                self._listener.accept()[0].close()
        except OSError:
            pass  # somebody else took it
        self._spare = _spare()

    def _died(self, failure: BaseException) -> None:
        self.report("hub", failure)
        self._failed()

    def _accept(self) -> None:
        pause = ACCEPT_BACKOFF_FIRST
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as failure:
                self.report("accept", failure)
                self._turn_away(failure)
                gevent.sleep(pause)
                pause = min(2 * pause, ACCEPT_BACKOFF_MAX)
                continue
            pause = ACCEPT_BACKOFF_FIRST
            try:
                peer.check(sock)
            except peer.Stranger as stranger:
                self.report("accept", stranger)
                sock.close()
                continue
            if len(self.connections) >= self.bounds.connections:
                sock.close()
            else:
                self.connections.add(Connection(self, sock))
            gevent.sleep(0)  # who keeps dialling keeps nobody else from running
