"""The client against a host that misbehaves on request: what survives a loss, a swap, a stall."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import gevent.os
import pytest

import craze.client
from craze import greenlets
from craze.client import Attachment, Client, Limits
from craze.transcript import Model, encode, restore
from craze.wire import json
from craze.wire.limits import MIB, SNAPSHOT_MAX
from tests.e2e.machine import BIN

QUICK = Limits(redial_first=0.01, redial_max=0.1)
ASK = {"name": "permission", "id": "perm-1", "tool": "Shell",
       "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}  # fmt: skip


class Fake:
    """craze-fake-host, and the ops it is told, each run to its end."""

    def __init__(self, root: Path) -> None:
        self.path = str(root / "s")
        self._process = subprocess.Popen(
            [str(BIN / "craze-fake-host"), f"--socket={self.path}", "--ack"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def op(self, name: str, **members: Any) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"name": name, **members}) + b"\n")
        self._process.stdin.flush()
        out = self._process.stdout.fileno()
        gevent.os.make_nonblocking(out)
        answer = b""
        while not answer.endswith(b"\n"):  # the loop runs meanwhile: clients go on reading
            answer += gevent.os.nb_read(out, 4096)
        assert json.loads(answer)["done"] == name

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Fake]:
    host = Fake(tmp_path)
    try:
        with gevent.Timeout(60, AssertionError("the test hung")):
            yield host
    finally:
        host.close()


class Folded:
    """A stream folded as it is taken."""

    def __init__(self, feed: Attachment) -> None:
        assert feed.snapshot is not None
        self.feed = feed
        self.model: Model = restore(feed.snapshot)
        self.resets: list[str] = []

    def until(self, text: str) -> None:
        """Take what comes until `text` has come, as an event or in a snapshot."""
        while True:
            note = self.feed.next(20)
            assert note is not None, f"{text} never came"
            if note.method == "reset":
                self.resets.append(note.params["reason"])
                self.model = restore(note.params["snapshot"])
                if text in str(note.params["snapshot"]):
                    return
            elif note.method == "event":
                self.model.fold(note.params["seq"], note.params["event"])
                if note.params["event"].get("text") == text:
                    return

    def same(self, client: Client) -> bool:
        """Whether it is what the host would tell a newcomer."""
        theirs = restore(client.request("session.snapshot")["snapshot"])
        return encode(self.model, SNAPSHOT_MAX) == encode(theirs, SNAPSHOT_MAX)


def started(host_client: Client) -> int:
    """How many turns the session has had, by its state's own word for the last."""
    turn = host_client.request("session.state")["lastTurn"]["turnId"]
    return int(turn.rpartition("-")[2])


def test_b01_what_came_while_we_were_away_is_told(fake: Fake) -> None:
    with Client(fake.path, limits=QUICK) as client, client.attach() as feed:
        folded = Folded(feed)
        for round in range(10):
            fake.op("text", text=f"before {round}")
            fake.op("drop_connections")
            for n in range(50):
                fake.op("text", text=f"{round}.{n}")
            folded.until(f"{round}.49")
        assert folded.resets == []
        assert folded.same(client)


def test_b04_a_host_that_began_anew_meanwhile_is_a_new_beginning(fake: Fake) -> None:
    with Client(fake.path, limits=QUICK) as client, client.attach() as feed:
        folded = Folded(feed)
        before = client.identity
        fake.op("text", text="old")
        folded.until("old")
        fake.op("restart")
        fake.op("text", text="new")
        folded.until("new")
        assert folded.resets == ["session_replaced"]
        assert folded.same(client)
        assert before is not None and client.identity is not None
        assert client.identity.token != before.token
        assert client.command("session.prompt", text="hi", mode="queue")["turn"] == "turn-1"


def test_b09_a_command_whose_answer_was_lost_has_run_once(fake: Fake) -> None:
    with Client(fake.path, limits=QUICK) as client:
        answers: list[Any] = []

        def prompt(text: str) -> None:
            answers.append(client.command("session.prompt", text=text, mode="queue"))

        assert client.session  # one connection is up, and knows its session
        for n in range(1, 6):
            fake.op("stall_writes")  # it runs, and its answer goes nowhere
            caller = greenlets.spawn("prompt", prompt, f"p{n}")
            gevent.sleep(0.05)
            assert not caller.dead
            fake.op("drop_connections")
            caller.get()
        assert [a["text"] for a in answers] == [f"p{n}" for n in range(1, 6)]
        assert [a["turn"] for a in answers] == [f"turn-{n}" for n in range(1, 6)]
        assert started(client) == 5


def test_b17_an_ask_outlives_the_client_that_saw_it(fake: Fake) -> None:
    with Client(fake.path) as first, first.attach():
        fake.op(**ASK)
        assert [a["id"] for a in first.request("asks.list")["asks"]] == ["perm-1"]
    with Client(fake.path) as second, second.attach() as feed:
        folded = Folded(feed)
        assert "perm-1" in str(feed.snapshot)
        second.command("asks.answer", askId="perm-1", answer={"optionId": "yes"})
        fake.op("text", text="on")
        folded.until("on")
        assert folded.same(second)


def test_b76_a_caller_that_stops_reading_catches_up(fake: Fake) -> None:
    """40 MiB pass a caller that takes nothing; it holds one of them, and misses none or is told."""
    limits = QUICK._replace(buffer=MIB)
    with Client(fake.path, limits=limits) as client, client.attach() as feed:
        folded = Folded(feed)
        for _ in range(40):
            fake.op("text", bytes=MIB)
        assert client.request("session.sync")["seq"] > 40  # and calls are still answered
        assert sum(size for _, size in feed._buffer) <= MIB + 1024
        fake.op("text", text="the end")
        folded.until("the end")
        assert folded.same(client)


def test_an_event_nobody_can_be_sent_is_a_new_snapshot(fake: Fake) -> None:
    with Client(fake.path, limits=QUICK) as client, client.attach() as feed:
        folded = Folded(feed)
        fake.op("oversized_event")
        fake.op("text", text="after")
        folded.until("after")
        assert folded.resets == ["omitted"]
        assert folded.same(client)


def test_the_ten_lines_of_the_docstring_are_a_program(fake: Fake) -> None:
    assert craze.client.__doc__ is not None
    code = textwrap.dedent(craze.client.__doc__.partition("Ten lines are a program:\n")[2])
    code = code.replace("/path/of/the/session.sock", fake.path)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert ran.stderr == ""
    shown = [line.partition(" ")[2] for line in ran.stdout.splitlines()]
    assert "'phase': 'started'" in shown[0]
    assert "echo: hello" in shown[1]
    assert "'phase': 'ended'" in shown[-1]
