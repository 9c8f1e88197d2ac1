"""Lanes over real links: a machine behind a real sshd with a login shell that talks, a session that
does what it is told, a link that breaks, and a reader that keeps what a lane tells it."""

import json
import os
import signal
import socket as names
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import gevent
from gevent import socket

from craze import greenlets
from craze_shed import LaneView
from craze_shed.contract import frames, rows
from craze_shed.contract.frames import LaneFrame
from craze_shed.contract.interfaces import AgentLane
from craze_shed.contract.rows import FeedMessage
from craze_shed.craze.limits import Bounds
from craze_shed.reach import Keepalive, LocalReach, SshReach
from tests.e2e.hubs import PATIENCE_S, eventually
from tests.e2e.machine import BIN, END_S, Machine
from tests.e2e.sshd import Sshd
from tests.unit.shed.craze.conformance import LaneStream

HOST_ID = "0123456789ab"
# What a login shell prints before it runs anything: some of it JSON, none of it craze's.
NOISE = r"""printf 'Welcome\n\n42\n{}\n\033[1mmail\033[0m\r\n'; eval "$SSH_ORIGINAL_COMMAND" """
BRISK = Keepalive(interval=1, missed=1)
# Reconnecting costs a process on either side; waiting for it is not what is tried.
QUICK = Bounds(backoff_first=0.02, backoff_most=0.3, reattaches=1000)


class Box:
    """A machine behind an sshd, which calls it `box`."""

    def __init__(self, root: Path, machine: Machine, *, noise: bool = True) -> None:
        self.machine = machine
        folder = root / "sshd"
        folder.mkdir()
        theirs = machine.environment | {"SHLVL": "9"}
        there = " ".join(f"{name}={value}" for name, value in theirs.items())
        self.server = Sshd(folder, SetEnv=there, **({"ForceCommand": NOISE} if noise else {}))

    def __enter__(self) -> "Box":
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def config(self, link: "Link | None" = None) -> str:
        """The ssh configuration in which it is called `box`, behind that link if any."""
        server = self.server
        if link is None:
            return str(server.config)
        path = Path(f"{server.config}-{link.port}")
        path.write_text(server.config.read_text().replace(str(server.port), str(link.port)))
        with server.known_hosts.open("a") as known:
            known.write(f"[{server.host}]:{link.port} {server.host_key}\n")
        return str(path)

    def reach(self, link: "Link | None" = None, **options: Any) -> SshReach:
        return SshReach("box", config=self.config(link), **options)

    def local(self) -> LocalReach:
        """The same machine, without ssh."""
        return LocalReach(env=self.machine.environment)


class Actor:
    """A `craze-fake-host` that the machine's hub lists; `can` is what it can do."""

    def __init__(self, machine: Machine, host_id: str = HOST_ID, **can: Any) -> None:
        self.id = host_id
        self.session = f"session-{host_id}"
        flags = {"stop": True, "presence": True, **can}
        self.process = subprocess.Popen(
            [
                str(BIN / "craze-fake-host"), "--ack", f"--registry={machine.home}",
                f"--host-id={host_id}", f"--session-id={self.session}",
                f"--host={json.dumps(flags)}",
            ],
            env=machine.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.socket: str = self._answer()["socket"]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def do(self, *ops: dict[str, Any]) -> None:
        """Run ops; each is out once this returns."""
        assert self.process.stdin is not None
        for op in ops:
            self.process.stdin.write(json.dumps(op).encode() + b"\n")
            self.process.stdin.flush()
            assert self._answer()["done"] == op["name"]

    def say(self, words: str) -> None:
        self.do({"name": "text", "text": words})

    def tool(self, id: str, status: str = "completed", title: str = "") -> None:
        self.do({"name": "tool", "tool": "Shell", "id": id, "status": status, "title": title or id})

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
            self.process.wait(END_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Link:
    """A TCP way to a port on the loopback, which breaks when it is told to; the next connection
    is whole again."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self.port: int = self._listener.getsockname()[1]
        self._carried: set[tuple[Any, Any]] = set()
        self._dead: set[tuple[Any, Any]] = set()
        self._work = [greenlets.spawn("link", self._accept)]

    def cut(self) -> None:
        """Reset every connection."""
        ends, self._carried = self._carried, set()
        for near, far in ends:
            near.setsockopt(names.SOL_SOCKET, names.SO_LINGER, struct.pack("ii", 1, 0))
            near.close()
            far.close()

    def swallow(self) -> None:
        """Let no byte of any connection through any more, and say nothing of it."""
        self._dead |= self._carried
        self._carried = set()

    def close(self) -> None:
        gevent.killall(self._work)
        self._listener.close()
        self.cut()
        for ends in self._dead:
            for end in ends:
                end.close()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(("127.0.0.1", self._to))
            ends = (near, far)
            self._carried.add(ends)
            self._work += (
                greenlets.spawn("link up", self._carry, ends, near, far),
                greenlets.spawn("link down", self._carry, ends, far, near),
            )

    def _carry(self, ends: tuple[Any, Any], source: Any, sink: Any) -> None:
        try:
            while data := source.recv(65536):
                if ends not in self._dead:
                    sink.sendall(data)
        except OSError:
            pass  # it was cut
        if ends in self._carried:
            self._carried.remove(ends)
            for end in ends:
                end.close()


class Reader:
    """Reads a lane's stream, holding it to what every lane's keeps to, and remembers what it says.

    `rows` are those of the last complete seed and what followed; `outages` says of each Stale what
    ended it, in order: "resumed", or the reason of the Reset.
    """

    def __init__(self, name: str, lane: AgentLane) -> None:
        self.name = name
        self.lane = lane
        self.view = LaneView()
        self.rows: list[FeedMessage] = []
        self.resets: list[str] = []
        self.outages: list[str] = []
        self.down: str | None = None
        self._staged: list[FeedMessage] | None = None
        self._stale = False
        self.stream = LaneStream(lane.subscribe())
        self._reading = greenlets.spawn(f"reader {name}", self._read)

    def __repr__(self) -> str:
        return f"<Reader {self.name}, {self.view!r}, {self.outages}, down: {self.down}>"

    @property
    def live(self) -> bool:
        return self.view.snapshot().generation > 0 and self.view.snapshot().stale is None

    def has(self, words: str) -> bool:
        return self.live and any(
            words == row.text or (row.tool and words == row.tool.detail) for row in self.rows
        )

    def close(self) -> None:
        self._reading.kill()
        self.stream.close()
        self._reading.get()  # what it found to be wrong

    def ended(self) -> str:
        """Why it went down, once it has."""
        self._reading.join(PATIENCE_S)
        if self._reading.ready():
            self._reading.get()
        assert self.down is not None, self
        return self.down

    def _read(self) -> None:
        while (frame := self.stream.next(PATIENCE_S)) is not None:
            self.view.apply(frame)
            self._take(frame)

    def _take(self, frame: LaneFrame) -> None:
        match frame:
            case frames.Message(message=row):
                (self.rows if self._staged is None else self._staged).append(row)
            case frames.Reset(reason=reason):
                self._staged = []
                self.resets.append(reason)
                if self._stale:
                    self.outages.append(reason)
                self._stale = False
            case frames.Ready():
                if self._staged is not None:
                    self.rows, self._staged = self._staged, None
                elif self._stale:
                    self.outages.append("resumed")
                self._stale = False
            case frames.Stale():
                self._staged = None if self._staged is None else []
                self._stale = True
            case frames.Down(reason=reason):
                self.down = reason


def told(found: list[FeedMessage]) -> list[tuple[str, str, str]]:
    """What rows say, however often the runs in them were parted: neighbours of one run joined,
    without the tools, which part no run for good."""
    joined: list[tuple[str, str, str]] = []
    for row in found:
        if row.role == rows.TOOL:
            continue
        role, kind, words = row.role, row.type, row.text or ""
        streamed = kind in (rows.TEXT, rows.REASONING) and role == rows.ASSISTANT
        if streamed and joined and joined[-1][:2] == (role, kind):
            words = joined.pop()[2] + words
        joined.append((role, kind, words))
    return joined


def tools(found: list[FeedMessage]) -> dict[str, list[tuple[str, str | None]]]:
    """The rows of each tool, by its title, which is its id here."""
    by_id: dict[str, list[tuple[str, str | None]]] = {}
    for row in found:
        if row.tool is not None and row.approval is None:
            by_id.setdefault(row.tool.detail or "", []).append((row.type, row.text))
    return by_id


def children(words: str) -> list[int]:
    """The pids of this process's own children with these words in their command line."""
    found = []
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    for pid in path.read_text().split():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if words.encode() in line:
            found.append(int(pid))
    return found


def kill(pid: int) -> bool:
    """SIGKILL to a process that this test has caused to be; whether it was still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Far:
    """A `lane_program`, and what it answers."""

    def __init__(self, when: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.lane_program", when],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> "Far":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def answer(self, do: str, **members: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **members}).encode() + b"\n")
        self.process.stdin.flush()
        line = greenlets.on_thread(self.process.stdout.readline)
        assert line, self.process.communicate()[1].decode()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __call__(self, do: str, **members: Any) -> Any:
        answer = self.answer(do, **members)
        assert "error" not in answer, answer
        return answer["result"]

    def end(self) -> str:
        """Have it end; what it said on stderr."""
        _, said = self.process.communicate(timeout=END_S)
        assert self.process.returncode == 0
        return said.decode()


def settled(actor: Actor, readers: list[Reader], words: str) -> None:
    """Have the session say something last, and wait until every reader is live and has it."""
    actor.tool(words)  # a tool ends what run there was
    eventually(lambda: all(reader.down or reader.has(words) for reader in readers))
    assert not [reader for reader in readers if reader.down], readers
