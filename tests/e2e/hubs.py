"""The hub of a test's machine, from outside: bridges that start it, connections to it, its end."""

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent

import craze.wire.limits
from craze import greenlets
from craze.client import Client, Limits, Program, dial, splice
from craze.machine import hubs, processes, registry
from craze.machine.hubs import Record
from craze.machine.paths import Paths
from craze.machine.registry import Entry
from tests.e2e.machine import BIN, END_S, LOOK_S, Machine, until

AGENT = str(BIN / "craze-fake-agent")
CRAZE = str(BIN / "craze")
PATIENCE_S = 60
NEVER = "00000000-0000-7000-8000-000000000000"
QUICK = Limits(redial_first=0.02, redial_max=0.2, window=PATIENCE_S, redials=200)


def provider(*command: str, **variables: str) -> str:
    """A config.toml whose default provider is the agent `command`."""
    entries = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
    return (
        'provider = "fake"\n[providers.fake]\n'
        f"command = {json.dumps(list(command))}\nenv = {{{entries}}}\n"
    )


def script(name: str, **variables: str) -> str:
    """The same for a script of craze-fake-agent."""
    return provider(AGENT, f"--script={name}", **variables)


def gated(path: Path, then: str) -> str:
    """The same for an agent that does nothing until the file `path` is there, and then runs the
    shell command `then`."""
    return provider("/bin/sh", "-c", f"while [ ! -e {path} ]; do sleep 0.05; done; {then}")


def row(machine: Machine, session: str = "saved-1", **members: Any) -> dict[str, Any]:
    """A saved session's row of the index."""
    stamp = "2026-01-01T00:00:00Z"
    return {
        "sessionId": session, "provider": "fake", "cwd": str(machine.work), "title": "a title",
        "pinned": False, "createdAt": stamp, "updatedAt": stamp, "crazeId": NEVER, **members,
    }  # fmt: skip


class Wire:
    """Lines over a stream; each answer is kept as it came."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._data = b""
        self._ids = itertools.count(1)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()

    def send(self, method: str, **params: Any) -> int:
        id = next(self._ids)
        request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self._stream.sendall(json.dumps(request).encode() + b"\n")
        return id

    def line(self) -> bytes:
        """The next line; b"" at the end."""
        with gevent.Timeout(PATIENCE_S):
            while b"\n" not in self._data:
                try:
                    data = self._stream.recv(65536)
                except ConnectionError:
                    data = b""
                if not data:
                    return b""
                self._data += data
        line, _, self._data = self._data.partition(b"\n")
        return line

    def lines(self) -> Iterator[dict[str, Any]]:
        """What comes until the end."""
        while line := self.line():
            yield json.loads(line)

    def answer(self, id: int) -> bytes:
        """The answer to a request; notifications before it are passed over."""
        while line := self.line():
            if json.loads(line).get("id") == id:
                return line
        raise ConnectionResetError("it ended instead of an answer")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(self.answer(self.send(method, **params)))
        return reply

    def hello(self) -> dict[str, Any]:
        client = {"kind": "test", "name": "e2e"}
        result: dict[str, Any] = self.ask("hello", protocols=[1], client=client)["result"]
        return result


class Hub:
    """The hub of one craze directory; every bridge is started with `variables` besides the
    machine's own."""

    def __init__(self, machine: Machine, **variables: str) -> None:
        self.machine = machine
        self.environment = machine.environment | variables
        self.paths = Paths.of(self.environment)
        Path(self.paths.craze).mkdir(mode=0o700, exist_ok=True)

    @property
    def record(self) -> Record:
        found = hubs.read(self.paths)
        assert found is not None, "there is no record of a hub"
        return found.record

    @property
    def log(self) -> str:
        return Path(self.paths.hub_log).read_text()

    def configure(self, text: str) -> None:
        Path(self.paths.config).write_text(text)

    def save(self, *rows: dict[str, Any]) -> None:
        """Write the index."""
        Path(self.paths.index).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def index(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(self.paths.index).read_text().splitlines()]

    def bridge(self) -> Program:
        """A `craze bridge --hub`, as a stream."""
        return Program([CRAZE, "bridge", "--hub"], self.environment)

    def start(self) -> int:
        """Have a hub run; its pid."""
        with Wire(self.bridge()) as wire:
            pid: int = wire.hello()["endpoint"]["pid"]
        return pid

    def dial(self) -> Any:
        """A connection to the hub that runs."""
        return dial(self.record.socket, PATIENCE_S)

    def wire(self) -> Wire:
        return Wire(self.dial())

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The reply to one request, on a connection of its own."""
        with self.wire() as wire:
            wire.hello()
            return wire.ask(method, **params)

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        reply = self.ask(method, **params)
        assert "result" in reply, reply["error"]
        result: dict[str, Any] = reply["result"]
        return result

    def refusal(self, method: str, **params: Any) -> dict[str, Any]:
        """The error's data of a request that is refused, and its message."""
        reply = self.ask(method, **params)
        assert "error" in reply, reply
        return {"message": reply["error"]["message"], **reply["error"]["data"]}

    def create(self, **params: Any) -> dict[str, Any]:
        """The roster row of a new session in the work folder."""
        made: dict[str, Any] = self.result("session.create", cwd=str(self.machine.work), **params)
        session: dict[str, Any] = made["session"]
        return session

    def client(self, session: str, **options: Any) -> Client:
        """A client of a session through bridges and hubs, each found or started as needed."""
        return Client(splice(self.bridge, session), session=session, limits=QUICK, **options)

    def hosts(self) -> list[Entry]:
        live, unreadable = registry.scan(self.paths)
        assert not unreadable
        return live

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send the hub that runs a signal that ends it; the pid it had."""
        pid = self.record.pid
        os.kill(pid, number)
        assert until(lambda: processes.dead(pid), END_S)
        return pid


def stop(host: Entry) -> None:
    """Stop a session and see its host out."""
    with Client(host.socket, session=host.crazeSessionId) as client:
        client.command("session.stop")
    assert until(lambda: processes.dead(host.pid), END_S)


def settle(machine: Machine) -> dict[int, str]:
    """Ask every hub and host to end; what is left when they had time to."""
    for pid, line in machine.processes().items():
        if f"{CRAZE} hub" in line or "craze serve " in line:
            os.kill(pid, signal.SIGTERM)
    return machine.wait_empty()


def running(machine: Machine, words: str) -> list[int]:
    """The pids of what runs with these words in its command line."""
    return [pid for pid, line in machine.processes().items() if words in line]


def eventually(holds: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """What `holds` comes to say, the loop running meanwhile."""
    with gevent.Timeout(seconds):
        while not (found := holds()):
            gevent.sleep(LOOK_S)
    return found


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What calls that are made at once return."""
    made: dict[int, Any] = {}

    def make(number: int, call: Callable[[], Any]) -> None:
        made[number] = call()

    with gevent.Timeout(PATIENCE_S):
        jobs = [greenlets.spawn("together", make, *numbered) for numbered in enumerate(calls)]
        gevent.joinall(jobs, raise_error=True)
    return [made[number] for number in range(len(calls))]


def customize(machine: Machine, code: str = "", **limits: float) -> None:
    """Have every Python of the machine run `code` before its program, and then have other limits:
    a bound is tried by passing it, and some are long."""
    if limits:
        code += "import craze.wire.limits\n"
    for name, seconds in limits.items():
        assert hasattr(craze.wire.limits, name)
        code += f"craze.wire.limits.{name} = {seconds}\n"
    folder = machine.work.parent / "customized"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    machine.environment["PYTHONPATH"] = str(folder)


# The command named in STALL stops itself right before it binds its socket. Every other one, when it
# ends by itself, leaves a file of its name in the folder LEAVES.
STALL = """
import atexit, os, signal, sys
command = sys.orig_argv[2] if len(sys.orig_argv) > 2 else ""
if command == os.environ.get("STALL"):
    def _hook(event, args):
        if event == "socket.bind":
            os.kill(os.getpid(), signal.SIGSTOP)
    sys.addaudithook(_hook)
elif "LEAVES" in os.environ:
    atexit.register(lambda: open(os.path.join(os.environ["LEAVES"], command), "w").close())
"""


def stalled(machine: Machine, command: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """A command that STALL has stopped; a signal makes it go on."""
    process = subprocess.Popen(
        [CRAZE, command, *arguments],
        cwd=machine.work,
        env=machine.environment | {"STALL": command},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stat = Path(f"/proc/{process.pid}/stat")
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    return process
