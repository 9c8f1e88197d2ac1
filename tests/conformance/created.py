"""A fake `craze serve`: what a hub of a scenario starts for a create.

It takes the flags of a host, says its ready line on the pipe it inherits, and is the default fake
host but for this: its session is `session-created` in the directory it was told, can be stopped,
hangs the first prompt, and under the model `start-fails` does not start. It ends when it is asked
to stop, and with the scenario: at the end of the FIFO that CRAZE_TEST_LIFELINE names.
"""

import os
import signal
import sys
from typing import Any

import gevent
from gevent.event import Event
from gevent.socket import wait_read

from craze import greenlets
from craze.engine import port
from craze.fakes.host import END_WAIT, VERSION, FakeHost, Options
from craze.fakes.stub import Stub
from craze.host.session import Facts, Session
from craze.machine import ready

SESSION = "session-created"
FAILING = "start-fails"
FAILURE = "the agent could not start: no such binary"


class Agent(Stub):
    """A stub that hangs its first prompt, and may not start."""

    def start(self) -> None:
        if self._host.get("model") == FAILING:
            self._post(port.StartFailed(port.AgentError(FAILURE)))
            return
        self.hang_next()
        super().start()


class Created(FakeHost):
    """`flags` are those of `craze serve`, by name."""

    def __init__(self, flags: dict[str, str]) -> None:
        self._flags = flags
        self.over = Event()
        options = Options(
            registry=os.environ["HOME"],
            host_id=flags["host-id"],
            session_id=SESSION,
            host='{"stop":true}',
        )
        super().__init__(options)

    def serve(self) -> dict[str, Any]:
        said = super().serve()
        assert self._listing is not None
        self._listing.update(
            workspace=self._flags["workspace"],
            requestId=self._flags.get("request-id", ""),
            requestHash=self._flags.get("request-hash", ""),
        )
        return said

    def _make(self, facts: Facts, incarnation: str) -> Session:
        facts.workspace = self._flags["workspace"]
        host = {**self._host, "model": self._flags.get("model", "")}
        title = self._flags.get("title", "")
        return Session(facts, incarnation, self._clock, lambda post: Agent(post, host), title=title)

    def _heard_stop(self) -> None:
        self.over.set()

    def close(self) -> None:
        self._session.close()
        assert self._server is not None
        with gevent.Timeout(END_WAIT, False):
            while self._server.connections:  # each still hears of the end
                gevent.sleep(0.001)
        super().close()


def main() -> None:
    pipe = ready.inherit(os.environ)
    assert pipe is not None and sys.argv[1] == "serve", sys.argv
    words = [word.removeprefix("--").partition("=") for word in sys.argv[2:]]
    host = Created({name: value for name, _, value in words})
    lifeline = os.open(os.environ["CRAZE_TEST_LIFELINE"], os.O_RDONLY | os.O_NONBLOCK)
    gevent.signal_handler(signal.SIGTERM, host.over.set)
    said = host.serve()
    pipe.ok(said["hostId"], said["socket"], said["sessionId"], VERSION)
    watch = greenlets.spawn("lifeline", wait_read, lifeline)
    watch.rawlink(lambda _: host.over.set())
    host.over.wait()
    host.close()


if __name__ == "__main__":
    main()
