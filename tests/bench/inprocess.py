"""A served session in this process, as the benchmarks of the host's own work need it.

Everything a real host has between an agent's event and a client's socket, and no agent: the
benchmark posts the events itself, to a turn that never ends.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gevent import socket

from craze.clock import Clock
from craze.engine import port
from craze.eventlog.journal import Journal
from craze.eventlog.record import Record
from craze.fakes.stub import CAPABILITIES, Stub
from craze.host.server import Server
from craze.host.session import Facts, Session
from craze.wire import json
from craze.wire.times import format_time

SESSION = "bench-session"


class Served(NamedTuple):
    path: str
    server: Server
    session: Session
    journal: Journal

    def event(self, event: dict[str, Any]) -> None:
        """Give the session an event of its agent's."""
        self.session.post(port.AgentEvent(event))


@contextlib.contextmanager
def served() -> Iterator[Served]:
    """The session, its turn running, its journal on disk."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        clock = Clock()
        header = {"incarnation": "bench", "cwd": "/bench"}
        journal = Journal(str(Path(folder) / "journal"), header, clock, notice=lambda line: None)
        facts = Facts(SESSION, "/bench", "bench", "bench", {**CAPABILITIES, "rowFacts": True})
        session = Session(facts, "bench", clock, make_agent, journal=journal)
        path = str(Path(folder) / "host.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(128)
        server = Server(
            listener,
            session,
            host_id="0123456789ab",
            version="bench",
            pid=1,
            draw_token=lambda: "0" * 32,
            report=fail,
        )
        session.start()
        prompt = {"mode": "queue", "text": "go"}
        session.command(session.engine.mint_client(), "1", "session.prompt", prompt, False)
        try:
            yield Served(path, server, session, journal)
        finally:
            session.close()
            server.close()
            server.hang_up()


def make_agent(post: Callable[[Any], None]) -> Stub:
    stub = Stub(post, {})
    stub.hang_next()
    return stub


def fail(where: str, error: BaseException) -> None:
    raise error


def text_for(line_bytes: int) -> str:
    """The text that makes an event's whole line about `line_bytes` long."""
    body = json.dumps({"type": "text", "text": "", "at": format_time(Clock().now())})
    return "x" * (line_bytes - len(Record(10_000, "text", "", body).line("s-1")))
