"""The host's socket: who may connect, who is connected, and how the session's end reaches them.

A connection is refused before a byte of it is read unless its peer runs as this user. The server
holds one session at a time; a replaced session ends every connection with nothing but its reset.
"""

from collections.abc import Callable
from typing import Any

from gevent import sleep

from craze import greenlets
from craze.clock import Clock
from craze.engine import port
from craze.host import rows
from craze.host.asides import Asides
from craze.host.bindings import Bindings
from craze.host.connection import Connection
from craze.host.session import Session
from craze.machine import peer
from craze.wire.codes import Refusal
from craze.wire.limits import ACCEPT_BACKOFF_FIRST, ACCEPT_BACKOFF_MAX, COMMANDS_PER_HOST


class Server:
    """A host. `listener` is bound and listening; `draw_token()` gives the next resume token.

    `on_stop()` is called once, after the first `session.stop`'s receipt is queued, and must bring
    about the end; `mark_stopping()` before it. `on_started` and `on_ended` are the session's own,
    passed on. `report(where, error)` hears of our own faults.
    """

    def __init__(
        self,
        listener: Any,
        session: Session,
        *,
        host_id: str,
        version: str,
        pid: int,
        draw_token: Callable[[], str],
        report: Callable[[str, BaseException], None],
        on_stop: Callable[[], None] = lambda: None,
        mark_stopping: Callable[[], None] = lambda: None,
        on_started: Callable[[port.Started], None] = lambda started: None,
        on_ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.host_id = host_id
        self.version = version
        self.pid = pid
        self.draw_token = draw_token
        self.report = report
        self.pace = Clock()
        self.hang_up_poll = 1.0
        self.asides = Asides()
        self.connections: set[Connection] = set()
        self.stopping = False
        self.fenced = False
        self.ever_attached = False
        self.commands = 0
        self._on_stop = on_stop
        self._mark_stopping = mark_stopping
        self._on_started = on_started
        self._on_ended = on_ended
        self._listener = listener
        self.bindings = Bindings(session.engine)
        self._serve(session)
        self._acceptor = greenlets.spawn("accept", self._accept)

    def __repr__(self) -> str:
        return f"<Server {self.host_id} {self.session} {len(self.connections)} connections>"

    @property
    def attached(self) -> int:
        """The clients attached: pending, live or closing, less those that have half-closed."""
        return sum(
            1
            for connection in self.connections
            if connection.attachment is not None and not connection.half_closed
        )

    def presence_changed(self) -> None:
        """An attachment came, went, synchronized or half-closed."""
        if self.session.facts.capabilities.get("presence"):
            count = self.attached
            for connection in list(self.connections):
                connection.tell_presence(count)

    def admit_command(self) -> None:
        """Take one of the host's command slots. Raises Refusal `busy`."""
        if self.commands >= COMMANDS_PER_HOST:
            raise Refusal(
                "busy",
                f"the host has {COMMANDS_PER_HOST} commands in flight; resend the same commandId",
            )
        self.commands += 1

    def begin_stop(self) -> bool:
        """Mark the entry and refuse attachments; True for the first stop, whose caller calls
        `stop` once its receipt is queued."""
        if self.stopping:
            return False
        self.stopping = True
        self._mark_stopping()
        return True

    def stop(self) -> None:
        """Bring about the end that `begin_stop` announced."""
        self._on_stop()

    def replace(self, session: Session) -> None:
        """Serve another session: every connection ends, with `session_replaced` where attached."""
        self.bindings = Bindings(session.engine, self.bindings)
        self._serve(session)
        for connection in list(self.connections):
            connection.terminate()

    def hang_up(self) -> None:
        """Close every connection at once."""
        for connection in list(self.connections):
            connection.hang_up()

    def close(self) -> None:
        """Take no more connections."""
        self._acceptor.kill()
        self._listener.close()

    def gone(self, connection: Connection) -> None:
        """A connection has closed."""
        self.connections.discard(connection)
        self.asides.cancel_all(connection)
        if connection.binding is not None:
            self.bindings.release(connection.binding, connection, self.session.clock.now())

    def _serve(self, session: Session) -> None:
        self.session = session
        session.on_started = self._started
        session.on_ended = self._ended

    def _started(self, started: port.Started) -> None:
        session = rows.info(self)
        for connection in list(self.connections):
            connection.session_started(started, session)
        self._on_started(started)

    def _ended(self) -> None:
        # An attached connection goes on to its reset, and each until what it is owed is written.
        self.asides.cancel_all()
        for connection in list(self.connections):
            connection.finish()
        self._on_ended()

    def _accept(self) -> None:
        pause = ACCEPT_BACKOFF_FIRST
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as failure:
                self.report("accept", failure)
                sleep(pause)
                pause = min(2 * pause, ACCEPT_BACKOFF_MAX)
                continue
            pause = ACCEPT_BACKOFF_FIRST
            try:
                peer.check(sock)
            except peer.Stranger as stranger:
                self.report("accept", stranger)
                sock.close()
            else:
                self.connections.add(Connection(self, sock))
            sleep(0)  # who keeps dialling keeps nobody else from running
