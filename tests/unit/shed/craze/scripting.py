"""What stands in for craze: a stream, and a machine whose commands a test serves line by line."""

import json
import time
from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import Event
from gevent.queue import Queue

from craze import greenlets
from craze_shed.reach import ReachError, ScriptedReach
from craze_shed.reach.scripted import Peer

PATIENCE = 10.0


def until(holds: Callable[[], Any]) -> Any:
    """What `holds` comes to say, the loop running meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to that"
        gevent.sleep(0.001)
    return found


def settle() -> None:
    """Let everybody come as far as they can without waiting for time to pass."""
    for _ in range(30):
        gevent.sleep(0)


class Speaker:
    """Says what craze says: by `feed`, having read what was `written`."""

    written: bytes
    closed: bool
    _read = 0  # of what was written

    def feed(self, data: bytes) -> None:
        raise NotImplementedError

    def write(self, **message: Any) -> None:
        self.feed(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def note(self, method: str, **params: Any) -> None:
        self.write(method=method, params=params)

    def reply(self, request: dict[str, Any], result: Any = None) -> None:
        self.write(id=request["id"], result={} if result is None else result)

    def refuse(
        self, request: dict[str, Any], code: str, reason: str = "", message: str = "no", **data: Any
    ) -> None:
        data = {"code": code, "reason": reason or code, **data}
        self.write(id=request["id"], error={"code": -32000, "message": message, "data": data})

    def request(self) -> dict[str, Any]:
        """The next request; a test fails where none comes."""
        end = until(lambda: self.written.find(b"\n", self._read) + 1 or self.closed)
        assert end is not True, "it was closed instead of asked"
        line, self._read = self.written[self._read : end], end
        made: dict[str, Any] = json.loads(line)
        return made

    def expect(self, method: str) -> dict[str, Any]:
        request = self.request()
        assert request["method"] == method, request
        return request

    def left(self) -> bool:
        """Wait until whoever ran it has let go of it."""
        return bool(until(lambda: self.closed))


class Wire(Speaker):
    """A stream of which every piece is the test's, and so is every failure."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self.stuck = Event()  # while it is clear, nothing that is written leaves
        self.stuck.set()
        self._input: Queue = Queue()
        self._ended = False

    def recv(self, size: int, /) -> bytes:
        if self.closed:
            return b""
        piece = self._input.get()
        if isinstance(piece, Exception):
            raise piece
        data: bytes = piece[:size]
        if piece[size:]:
            self._input.queue.appendleft(piece[size:])
        return data

    def sendall(self, data: bytes, /) -> None:
        if self.closed or self._ended:
            raise ReachError("it reads no more input: Broken pipe")
        self.stuck.wait()
        self.written += data

    def close(self) -> None:
        self.closed = True
        self._input.put(b"")

    def feed(self, data: bytes) -> None:
        assert data, "that would be the end"
        self._input.put(data)

    def fail(self, failure: Exception) -> None:
        self._input.put(failure)

    def end(self) -> None:
        self._ended = True
        self._input.put(b"")


class Command(Speaker):
    """A command of a machine, from the command's side."""

    def __init__(self, line: str, peer: Peer) -> None:
        self.line = line
        self.written = b""
        self.closed = False
        self.half_closed = False
        self.reads = Event()  # while it is clear, it reads nothing
        self.reads.set()
        self._peer = peer
        self._over = Event()
        self._code: int | None = None

    def play(self) -> int | None:
        """Live until `end`, or until whoever ran it lets go."""
        reader = greenlets.spawn("reads", self._take)
        try:
            self._over.wait()
            return self._code
        finally:
            reader.kill()
            self.closed = True

    def _take(self) -> None:
        while True:
            self.reads.wait()
            data = self._peer.recv(65536)
            if not data:
                break
            self.written += data
        self.half_closed = True

    def feed(self, data: bytes) -> None:
        assert data, "that would be the end"
        self._peer.sendall(data)

    def end(self, code: int | None = None, said: bytes = b"") -> None:
        """It ends."""
        self._peer.say(said)
        self._code = code
        self._over.set()


class Machine(ScriptedReach):
    """A machine whose commands come to the test by `next`, or are given to `serve` where that is
    set: it has each in a greenlet of its own, whose failure fails the test."""

    def __init__(self, label: str = "machine") -> None:
        super().__init__(self._played, label=label)
        self.commands: list[Command] = []
        self.serve: Callable[[Command], Any] | None = None
        self.failures: list[BaseException] = []
        self._taken = 0

    def _played(self, line: str, peer: Peer) -> int | None:
        command = Command(line, peer)
        self.commands.append(command)
        script = None
        if self.serve is not None:
            script = greenlets.spawn("script", self.serve, command, on_error=self.failures.append)
        try:
            return command.play()
        finally:
            if script is not None:
                script.kill()

    def next(self) -> Command:
        """The next command that is run."""
        until(lambda: len(self.commands) > self._taken)
        self._taken += 1
        return self.commands[self._taken - 1]

    def finish(self) -> None:
        """Nothing may run any more, and no script may have failed."""
        assert not self.failures, self.failures
        until(lambda: not self._running)
        self.close()
