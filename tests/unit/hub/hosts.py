"""A machine of its own for each test: its registry and index, hosts that are played here, and what
a hub starts instead of `craze serve`."""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from gevent import socket

from craze import greenlets
from craze.clock import Clock
from craze.hub.admission import Admission
from craze.hub.create import Creates
from craze.hub.reopen import Reopens
from craze.hub.spawn import Spawner
from craze.machine import locks, reexec, registry, runtime, trees
from craze.machine.paths import Paths
from craze.machine.registry import Entry
from craze.wire import schema
from craze.wire.codes import Refusal
from tests.unit.hub.stand_in import Answers, refused, reply

PROGRAM = Path(__file__).with_name("stand_in.py")
PATIENCE = 20.0
HUB_PID = 5150
SESSION = "0190ab12-cd34-7ef0-8123-456789abcdef"

NOT_STARTED = refused(
    "not_accepting", "start_failed", "the session failed to start: no key", cause="no key"
)
CLOSING = refused("unavailable", "closing")
NO_SESSION = refused("unknown_session")

Request = tuple[str, dict[str, Any]]


class LateClock(Clock):
    """The machine's clock, `late` seconds ahead of it."""

    __slots__ = ("late",)

    def __init__(self) -> None:
        self.late = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late


class Start:
    """A host that was started."""

    def __init__(self, play: Path, number: int) -> None:
        self._requests = play / f"requests-{number}"
        self.told: dict[str, Any] = json.loads((play / f"start-{number}.json").read_text())
        self.pid: int = self.told["pid"]
        self.flags: list[str] = self.told["arguments"][1:]

    @property
    def given(self) -> dict[str, str]:
        return dict(flag.removeprefix("--").partition("=")[::2] for flag in self.flags)

    @property
    def methods(self) -> list[str]:
        """What it was asked, in order."""
        return [method for method, _ in self.requests]

    @property
    def requests(self) -> list[Request]:
        if not self._requests.exists():
            return []
        return [tuple(json.loads(line)) for line in self._requests.read_text().splitlines()]

    @property
    def ended(self) -> bool:
        """Whether it has ended and is reaped: only then do none of its threads hold its locks."""
        return not os.path.exists(f"/proc/{self.pid}")


class Played:
    """A live host in this process: its lock, entry and socket, and what it answers.

    `answers` are those of a stand-in, and besides functions of the params that return one.
    """

    def __init__(
        self, paths: Paths, host_id: str, session: str, answers: dict[str, Any], **members: Any
    ) -> None:
        self.id = host_id
        self.session = session
        self.requests: list[Request] = []
        self._paths = paths
        self._answers = Answers(session, answers)
        started = {"startedAt": "2026-01-01T00:00:00Z", "crazeSessionId": session, "ready": True}
        self.listing = registry.bind(paths, host_id, {**started, **members})
        self._claim: locks.Lock | None = None
        self._socks: list[socket.socket] = []
        self._serving = [greenlets.spawn("played host", self._accept)]

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.requests]

    @property
    def entry(self) -> Entry:
        return self.listing.entry

    def answer(self, **answers: Any) -> None:
        """Answer otherwise from now on; methods with `_` for `.`."""
        given = {name.replace("_", ".", 1): answer for name, answer in answers.items()}
        self._answers = Answers(self.session, given)

    def claim(self) -> None:
        """Hold the session's claim."""
        trees.cache(self._paths, self._paths.locks)
        self._claim = locks.take(self._paths.claim(self.session))
        self._claim.write(f"{self.entry.pid} {self.id}")

    def let_go(self) -> None:
        """Release the claim and its own lock: its process has gone, as far as can be seen."""
        if self._claim is not None:
            self._claim.release()
        self.listing.unbind()

    def hang_up(self) -> None:
        """Serve nobody any more, and listen no more."""
        gevent.killall(self._serving)
        self._serving.clear()
        self.listing.listener.close()
        for sock in self._socks:
            sock.close()

    def close(self) -> None:
        self.hang_up()
        self.let_go()

    def _accept(self) -> None:
        while True:
            sock, _ = self.listing.listener.accept()
            self._socks.append(sock)
            self._serving.append(greenlets.spawn("played link", self._serve, sock))

    def _serve(self, sock: socket.socket) -> None:
        held = b""
        try:
            while data := sock.recv(65536):
                held += data
                while b"\n" in held:
                    line, _, held = held.partition(b"\n")
                    if not self._request(sock, json.loads(line)):
                        return
            self.requests.append(("end", {}))
        except OSError:
            return
        finally:
            sock.close()

    def _request(self, sock: socket.socket, request: dict[str, Any]) -> bool:
        self.requests.append((request["method"], request["params"]))
        answer = self._answers.next(request["method"])
        if callable(answer):
            answer = answer(request["params"])
        if answer == "close":
            return False
        if answer != "silent":
            sock.sendall(reply(request["id"], answer))
        return True


class Machine:
    """One user's machine, with what a hub on it is made of."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.play = root / "play"
        self.work = root / "work"
        for directory in (root / "home", self.play, self.work):
            directory.mkdir(mode=0o700)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "home"),
            "CRAZE_RUNTIME_DIR": str(root / "run"),
            "CRAZE_FAKE_PLAY": str(self.play),
        }
        self.paths = Paths.of(self.environ)
        for directory in (self.paths.hosts, self.paths.locks, self.paths.host_logs):
            trees.cache(self.paths, directory)
        trees.home(self.paths.craze)
        self.sockets = runtime.socket_directory(self.paths)
        self.environ["CRAZE_FAKE_SOCKETS"] = self.sockets
        self.clock = LateClock()
        self.log: list[str] = []
        self.faults: list[str] = []
        self.seen: list[tuple[Entry, str, bytes]] = []
        self.admission = Admission(lambda where, failure: self.faults.append(f"{where}: {failure}"))
        self.spawner = Spawner(self.paths, self.environ, pid=HUB_PID, say=self.log.append)
        self.reopens = Reopens(
            self.paths, self.environ, self.admission, self.spawner, self.clock, self._saw
        )
        self.script({})
        self._played: list[Played] = []
        self._asked: list[gevent.Greenlet] = []

    def creates(self) -> Creates:
        """A hub's creates; another hub's remember nothing of the first one's."""
        return Creates(
            self.paths,
            self.environ,
            self.sockets,
            self.admission,
            self.spawner,
            self.clock,
            self._saw,
        )

    # ---- what is on it ----

    def script(self, *acts: dict[str, Any]) -> None:
        """What the hosts that are started do, each in turn; as Start has them."""
        (self.play / "script.json").write_text(json.dumps(acts))

    def index(self, *rows: dict[str, Any]) -> None:
        """The session index, its rows' members over those of a usual one."""
        usual = {
            "provider": "grok",
            "sessionId": "p-1",
            "crazeId": SESSION,
            "cwd": str(self.work),
            "createdAt": "2026-10-12T09:00:00Z",
            "updatedAt": "2026-10-12T10:00:00Z",
        }
        lines = [json.dumps({**usual, **row}) for row in rows or [{}]]
        Path(self.paths.index).write_text("".join(f"{line}\n" for line in lines))

    def config(self, text: str) -> None:
        Path(self.paths.config).write_text(text)

    def host(
        self,
        host_id: str = "0123456789ab",
        session: str = SESSION,
        answers: dict[str, Any] | None = None,
        **members: Any,
    ) -> Played:
        """A host that lives already; methods in `answers`, members of its entry besides."""
        played = Played(self.paths, host_id, session, answers or {}, **members)
        self._played.append(played)
        return played

    def other(self) -> Paths:
        """The same user's paths with another craze directory."""
        return Paths.of({**self.environ, "CRAZE_HOME": str(self.root / "other")})

    def elsewhere(self, host_id: str, session: str, **members: Any) -> Played:
        """A host that another craze directory's hub started."""
        played = Played(self.other(), host_id, session, {}, **members)
        self._played.append(played)
        return played

    @property
    def starts(self) -> list[Start]:
        """The hosts that were started, in turn."""
        numbers = [int(path.stem.partition("-")[2]) for path in self.play.glob("start-*.json")]
        return [Start(self.play, number) for number in sorted(numbers)]

    # ---- asking ----

    def asking(self, ask: Callable[..., bytes], *args: Any) -> gevent.Greenlet:
        """Ask in a greenlet of its own, whose value is the result or the refusal."""

        def run() -> Any:
            try:
                return ask(*args)
            except Refusal as refusal:
                return refusal

        greenlet = gevent.spawn(run)
        self._asked.append(greenlet)
        return greenlet

    def close(self) -> None:
        gevent.killall(self._asked)
        for start in self.starts:
            _kill(start.pid)
        for played in self._played:
            played.hang_up()
        with gevent.Timeout(PATIENCE, AssertionError("something is in flight for ever")):
            self.admission.wait()
            while not all(start.ended for start in self.starts):
                gevent.sleep(0.01)
        for played in self._played:
            played.close()
        assert not self.faults, self.faults

    def _saw(self, entry: Entry, version: str, row: bytes) -> None:
        self.seen.append((entry, version, row))


def _kill(pid: int) -> None:
    """SIGKILL to a host of ours that was not reaped yet: its number is its own until then."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            ours = int(file.read().rpartition(")")[2].split()[1]) == os.getpid()
        if ours:
            os.kill(pid, signal.SIGKILL)
    except (OSError, IndexError):
        return


def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A fixture's machine, in which this program is the stand-in."""
    monkeypatch.setattr(reexec, "_prefix", [sys.executable, "-SE", str(PROGRAM)])
    root = Path(tempfile.mkdtemp(prefix="craze-", dir="/tmp"))
    machine = Machine(root)
    try:
        with gevent.Timeout(3 * PATIENCE, AssertionError("the test hung")):
            yield machine
    finally:
        try:
            machine.close()
        finally:
            shutil.rmtree(root)


def until(true: Callable[[], object]) -> None:
    """Wait until `true` returns something true."""
    with gevent.Timeout(PATIENCE, AssertionError("it never came")):
        while not true():
            gevent.sleep(0.005)


def refusal(ask: Callable[..., bytes], *args: Any) -> Refusal:
    """What asking is refused with."""
    with pytest.raises(Refusal) as caught:
        ask(*args)
    return caught.value


def told(caught: Refusal) -> tuple[str, str, str]:
    """A refusal as it is compared: its code, reason and message."""
    return caught.code, caught.reason, caught.message


def result(method: str, data: bytes) -> dict[str, Any]:
    """A result, checked against the schema."""
    read: dict[str, Any] = json.loads(data)
    schema.check_result(method, read)
    return read
