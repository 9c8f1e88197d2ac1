"""Two clients of a busy session lose their connections hundreds of times, in every way there is,
and end up knowing exactly what a client knows that was never disturbed.

One is cut off between it and the host: a reset, an end, half a close, nearly always in the middle
of a line. The other talks through `craze bridge`, which is killed. Each sends prompts all the
while, and each prompt runs once, or is reported unknown and runs at most once.
"""

import os
import random
import signal
import socket as names
import struct
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from gevent import socket

from craze import greenlets
from craze.client import (
    Client,
    ClientError,
    ConnectionLost,
    Cursor,
    Identity,
    Limits,
    Notification,
    OutcomeUnknown,
    Program,
    Refused,
)
from craze.transcript import Model, encode, restore
from craze.wire import json
from craze.wire.limits import SNAPSHOT_MAX
from tests.e2e.machine import BIN, Machine

DISCONNECTS = 500
KILLS = 40  # of these, bridges killed: each costs the start of a process
SESSION = "session-fake-1"
QUICK = Limits(redial_first=0.005, redial_max=0.1)
PATIENCE = 90  # seconds for all of it, on a machine that is busy with something else
SEED = 20261130


class Gremlin:
    """Stands between a client and the host's socket, and ends every connection somehow, some time.

    It listens on TCP, where a reset is a reset. `calm` lets the next connections live.
    """

    def __init__(self, path: str, chance: random.Random) -> None:
        self._path = path
        self._chance = chance
        self._listener = socket.socket(names.AF_INET)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self._pumps: list[gevent.Greenlet] = []
        self.calm = False
        self.ended: Counter[str] = Counter()
        self._accepting = greenlets.spawn("gremlin", self._accept)

    def dial(self) -> Any:
        return socket.create_connection(self._listener.getsockname())

    def close(self) -> None:
        self._accepting.kill()
        self._listener.close()
        gevent.killall(self._pumps)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            host = socket.socket(names.AF_UNIX)
            host.connect(self._path)
            how = self._chance.choice(("reset", "end", "half"))
            down, up = self._chance.randrange(400, 20000), self._chance.randrange(300, 6000)
            self._pumps = [pump for pump in self._pumps if not pump.dead]
            self._pumps += [
                greenlets.spawn("down", self._pump, host, client, down, how, (client, host)),
                greenlets.spawn("up", self._pump, client, host, up, how, (client, host)),
            ]

    def _pump(self, source: Any, to: Any, budget: int, how: str, ends: tuple[Any, Any]) -> None:
        try:
            while data := source.recv(4096):
                if len(data) >= budget and not self.calm:
                    to.sendall(data[:budget])
                    self.ended[how] += 1
                    self._end(how, *ends)
                    break
                budget -= len(data)
                to.sendall(data)
        except OSError:
            pass  # the other pump was first
        finally:
            for end in ends:
                end.close()

    def _end(self, how: str, client: Any, host: Any) -> None:
        if how == "reset":
            client.setsockopt(names.SOL_SOCKET, names.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half":
            client.shutdown(names.SHUT_WR)
            host.shutdown(names.SHUT_WR)
            gevent.sleep(0.01)


class Killer:
    """Dials through bridges and kills each once so many bytes have come out of it."""

    def __init__(self, argv: list[str], env: dict[str, str], chance: random.Random) -> None:
        self._argv, self._env, self._chance = argv, env, chance
        self.calm = False
        self.ended: Counter[str] = Counter()

    def dial(self) -> Program:
        killer, budget = self, self._chance.randrange(600, 100000)

        class Doomed(Program):
            def recv(self, size: int) -> bytes:
                nonlocal budget
                data = super().recv(min(size, 4096))
                budget -= len(data)
                if budget < 0 and not killer.calm and data:
                    budget = 1 << 60
                    killer.ended["kill"] += 1
                    os.kill(self.pid, signal.SIGKILL)
                return data

        return Doomed(self._argv, self._env)


class Reader:
    """Folds a session's stream, whatever it takes to get it, and sends prompts meanwhile."""

    def __init__(self, name: str, dial: Callable[[], Any]) -> None:
        self.name = name
        self._dial = dial
        self._identity: Identity | None = None
        self.client: Client | None = None
        self.cursor: Cursor | None = None
        self.model = Model()
        self.events: dict[int, dict[str, Any]] = {}
        self.outcomes: dict[str, str] = {}
        self.clients = 0
        self.snapshots = 0
        self.until = 0  # the seq to stop at, once it is known

    def read(self) -> None:
        """Until `until`: a new client takes over where the last one had to give up."""
        while not self._there():
            try:
                self.client = Client(
                    self._dial, session=SESSION, resume=self._identity, limits=QUICK
                )
            except (ClientError, OSError):
                gevent.sleep(0.005)
                continue
            self.clients += 1
            try:
                with self.client:
                    self._follow(self.client)
            except ClientError:
                pass  # past a bound: the next one goes on with its name and its place
            finally:
                self._identity = self.client.identity

    def prompt(self, number: int) -> None:
        text = f"{self.name}-{number}"
        try:
            assert self.client is not None
            self.client.command("session.prompt", text=text, mode="queue", timeout=10)
            self.outcomes[text] = "ran"
        except OutcomeUnknown as unknown:
            self.outcomes[text] = unknown.reason
        except ConnectionLost:
            self.outcomes[text] = "never sent"
        except Refused as refused:
            self.outcomes[text] = refused.code

    def _there(self) -> bool:
        return bool(self.until and self.cursor and self.cursor.seq >= self.until)

    def _follow(self, client: Client) -> None:
        with client.attach(cursor=self.cursor) as feed:
            if feed.snapshot is not None:
                self._restart(feed.snapshot)
            self.cursor = feed.cursor
            while not self._there():
                note = feed.next(0.05)
                if note is not None:
                    self._fold(note)
                    self.cursor = feed.cursor

    def _restart(self, snapshot: dict[str, Any]) -> None:
        self.model = restore(snapshot)
        self.snapshots += 1

    def _fold(self, note: Notification) -> None:
        if note.method == "reset":
            self._restart(note.params["snapshot"])
        elif note.method == "event":
            seq, event = note.params["seq"], note.params["event"]
            assert seq not in self.events, f"{self.name} was handed event {seq} twice"
            self.events[seq] = event
            self.model.fold(seq, event)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
        assert not made.wait_empty()
    finally:
        made.close()


def busy(process: subprocess.Popen[bytes], done: threading.Event, chance: random.Random) -> None:
    """Keep the session talking: text in runs, thoughts, tools, a few at a time."""
    assert process.stdin is not None
    number = 0
    while not done.wait(0.01):
        ops = []
        for _ in range(chance.randrange(1, 4)):
            number += 1
            words = f"{number} " + "é漢👩‍👧 w" * chance.randrange(0, 40)
            tool = {"tool": "Shell", "id": f"t-{number}", "status": "completed", "title": words}
            ops.append({"name": chance.choice(("text", "thought")), "text": words})
            if not number % 4:
                ops.append({"name": "tool", **tool})
        process.stdin.write(b"".join(json.dumps(op) + b"\n" for op in ops))
        process.stdin.flush()


def test_500_disconnects_leave_no_trace(machine: Machine) -> None:
    chance = random.Random(SEED)
    host = subprocess.Popen(
        [str(BIN / "craze-fake-host"), "--registry", str(machine.home)],
        env=machine.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert host.stdin is not None
    assert host.stdout is not None
    done = threading.Event()
    talk = threading.Thread(target=busy, args=(host, done, random.Random(SEED)))
    path = json.loads(host.stdout.readline())["socket"]
    gremlin = Gremlin(path, chance)
    try:
        bridge = [str(BIN / "craze"), "bridge", "--session", SESSION]
        killer = Killer(bridge, machine.environment, chance)
        calm = Reader("calm", lambda: _plain(path))
        cut, killed = Reader("cut", gremlin.dial), Reader("killed", killer.dial)
        readers = [calm, cut, killed]
        with gevent.Timeout(PATIENCE, AssertionError("it did not come to its end")):
            reading = [greenlets.spawn(reader.name, reader.read) for reader in readers]
            while not calm.events and not calm.snapshots:
                gevent.sleep(0.01)
            talk.start()
            prompting = [
                greenlets.spawn(f"{reader.name} prompts", _prompt_until, reader, gremlin, killer)
                for reader in (cut, killed)
            ]
            while gremlin.ended.total() + KILLS < DISCONNECTS or killer.ended.total() < KILLS:
                gevent.sleep(0.05)
                gremlin.calm = gremlin.ended.total() + KILLS >= DISCONNECTS
                killer.calm = killer.ended.total() >= KILLS
            gremlin.calm = killer.calm = True
            gevent.joinall(prompting, raise_error=True)
            done.set()
            talk.join()
            host.stdin.write(b'{"name":"text","text":"the last words"}\n')
            host.stdin.flush()
            while not (head := _seq_of(calm.events, "the last words")):
                gevent.sleep(0.01)
            for reader in readers:
                reader.until = head
            gevent.joinall(reading, raise_error=True)
    finally:
        gremlin.close()
        done.set()
        if talk.is_alive():
            talk.join()
        host.stdin.close()
        host.stdout.close()
        host.wait(20)

    assert gremlin.ended.total() + killer.ended.total() >= DISCONNECTS
    assert all(gremlin.ended[how] > 50 for how in ("reset", "end", "half"))
    undisturbed = encode(calm.model, SNAPSHOT_MAX)
    for reader in (cut, killed):
        for seq, event in reader.events.items():
            assert calm.events.get(seq, event) == event
        if reader.snapshots == 1:  # the first attach's, and none to fill a gap since
            assert sorted(reader.events) == list(range(min(reader.events), head + 1))
        assert encode(reader.model, SNAPSHOT_MAX) == undisturbed
        _ran_once(reader, calm.events)


def _seq_of(events: dict[int, dict[str, Any]], text: str) -> int:
    return next((seq for seq, event in events.items() if event.get("text") == text), 0)


def _plain(path: str) -> Any:
    sock = socket.socket(names.AF_UNIX)
    sock.connect(path)
    return sock


def _prompt_until(reader: Reader, gremlin: Gremlin, killer: Killer) -> None:
    number = 0
    while not (gremlin.calm and killer.calm):
        gevent.sleep(0.01)
        if reader.client is not None:
            number += 1
            reader.prompt(number)


def _ran_once(reader: Reader, events: dict[int, dict[str, Any]]) -> None:
    started: Counter[str] = Counter()
    for event in events.values():
        turn = event.get("turn", {})
        if event["type"] == "turn" and turn.get("phase") == "started":
            started[turn.get("text", "")] += 1
    known = Counter(reader.outcomes.values())
    for text, outcome in reader.outcomes.items():
        if outcome == "ran":
            assert started[text] == 1, text
        elif outcome in ("resume_lost", "disconnected", "no_answer"):
            assert started[text] <= 1, text
        else:
            assert started[text] == 0, (text, outcome)
    sent = known.total() - known["never sent"]
    assert known["ran"] > sent / 2, known
