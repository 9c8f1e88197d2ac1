"""A machine that is played in memory: for tests of what runs commands, without any process.

Each command is a function of the test's, in a greenlet of its own. Its streams are bounded as real
ones are, so that a player which does not read clogs its user.
"""

from collections import deque
from collections.abc import Callable

import gevent
import gevent.event

from craze import greenlets
from craze_shed.reach import limits
from craze_shed.reach.errors import ReachError
from craze_shed.reach.interface import Reach, Running
from craze_shed.reach.once import Once

PIPE = 64 * 1024  # bytes that each stream holds

# Plays a command: is given its line (for a forwarded port, `127.0.0.1:PORT`) and its side of the
# streams; returns the exit code, or None for a command that ends without one.
Player = Callable[[str, "Peer"], int | None]


class Pipe:
    """Bytes one way, at most `PIPE` of them under way."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._ended = False  # no more is written
        self._shut = False  # no more is read
        self._changed = gevent.event.Event()

    def read(self, size: int) -> bytes:
        """At most `size` bytes, or none at the end."""
        while not self._pieces:
            if self._ended or self._shut:
                return b""
            self._wait()
        piece = self._pieces.popleft()
        if len(piece) > size:
            self._pieces.appendleft(piece[size:])
        self._held -= len(piece[:size])
        self._notify()
        return piece[:size]

    def write(self, data: bytes) -> None:
        """All of `data`. Raises ReachError where nobody reads it, or the end was written."""
        while data:
            while self._held >= PIPE and not (self._shut or self._ended):
                self._wait()
            if self._shut or self._ended:
                raise ReachError("it reads no more input: the stream is closed")
            part = data[: PIPE - self._held]
            self._pieces.append(bytes(part))
            self._held += len(part)
            self._notify()
            data = data[len(part) :]

    def end(self) -> None:
        self._ended = True
        self._notify()

    def shut(self) -> None:
        self._shut = True
        self._pieces.clear()
        self._notify()

    def _wait(self) -> None:
        self._changed.wait()

    def _notify(self) -> None:
        changed, self._changed = self._changed, gevent.event.Event()
        changed.set()


class Peer:
    """The command's side: its stdin is received, its stdout sent."""

    def __init__(self) -> None:
        self.stdin = Pipe()
        self.stdout = Pipe()
        self.stderr = b""

    def recv(self, size: int) -> bytes:
        """What the user gave it; none at the end."""
        return self.stdin.read(size)

    def sendall(self, data: bytes) -> None:
        """Print `data`."""
        self.stdout.write(data)

    def say(self, data: bytes) -> None:
        """Print `data` on stderr."""
        self.stderr = (self.stderr + data)[-limits.STDERR_TAIL :]

    def close_output(self) -> None:
        """End stdout, and go on."""
        self.stdout.end()


class Played(Running):
    """A command that is played."""

    def __init__(self, line: str, play: Player, closed: Callable[["Played"], None]) -> None:
        self.line = line
        self._peer = Peer()
        self._play = play
        self._over = gevent.event.Event()
        self._code: int | None = None
        self._closed = closed
        self._close = Once("played-close", self._closing)
        self._player = greenlets.spawn(f"player of {line[:40]}", self._run)

    def __repr__(self) -> str:
        state = "closed" if self._close.begun else "over" if self._over.is_set() else "running"
        return f"<played {self.line[:40]!r} {state}>"

    @property
    def stderr(self) -> bytes:
        return self._peer.stderr

    def recv(self, size: int, /) -> bytes:
        return b"" if self._close.begun else self._peer.stdout.read(size)

    def sendall(self, data: bytes, /) -> None:
        self._peer.stdin.write(data)

    def half_close(self) -> None:
        self._peer.stdin.end()

    def exit(self, timeout: float) -> int | None:
        self._over.wait(timeout)
        return self._code

    def close(self) -> None:
        self._close()

    def _run(self) -> None:
        try:
            self._code = self._play(self.line, self._peer)
        except ReachError:
            self._code = 1  # its user has gone, and it wrote
        finally:
            self._peer.stdin.shut()
            self._peer.stdout.end()
            self._over.set()

    def _closing(self) -> None:
        self._peer.stdin.end()
        self._peer.stdout.shut()
        self._player.kill()
        self._closed(self)


class ScriptedReach(Reach):
    """A machine whose commands `play` plays. `lines` is what was run so far, in order; with
    `unreachable`, which may be set and cleared at any time, nothing can be, and that is why."""

    def __init__(self, play: Player, *, label: str = "scripted") -> None:
        super().__init__(label, self._started_play)
        self._play = play
        self.lines: list[str] = []
        self.unreachable = ""

    def run(self, line: str) -> Played:
        """Have an sh line played. Raises ReachError while the machine is unreachable."""
        self._check_open()
        if self.unreachable:
            raise ReachError(f"{self.label}: {self.unreachable}")
        self.lines.append(line)
        return self._started(Played(line, self._play, self._running.discard))

    def _started_play(self, port: int) -> Played:
        return self.run(f"127.0.0.1:{port}")
