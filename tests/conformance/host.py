"""A fake host with what the shipped one has not: a journal, a small ring, a start that waits.

Scenarios ask for it with members beside the host object:

    {"dir":"host","host":{…},"ring":4,"journal":true,"start":"held"}

and steer it with ops of its own: `finish_start`, `fail_start`, `replay`, `stall_journal`,
`resume_journal`, `break_journal`.
"""

import json
import os
import threading
from pathlib import Path
from typing import Any

from craze.engine import port
from craze.eventlog import journal
from craze.events import build
from craze.fakes.host import FakeHost, main
from craze.fakes.stub import Stub
from craze.host.session import Facts, Session
from craze.wire.limits import RING_EVENTS

SETTINGS: dict[str, Any] = json.loads(os.environ.get("CRAZE_TEST_HOST", "{}"))


class HeldStart(Stub):
    """A stub whose start waits for an op."""

    def start(self) -> None:
        if SETTINGS.get("start") != "held":
            self.finish()

    def finish(self) -> None:
        super().start()

    def fail(self, words: str) -> None:
        self._post(port.StartFailed(port.AgentError(words)))


class TestHost(FakeHost):
    """The fake host with a journal and a ring of its own size."""

    def _make(self, facts: Facts, incarnation: str) -> Session:
        self.gate = threading.Event()
        self.gate.set()
        kept = None
        if SETTINGS.get("journal"):
            root = str(Path(os.environ["HOME"]) / "journal")
            header = {"incarnation": incarnation, "cwd": "/work"}
            kept = journal.Journal(
                root, header, self._clock, opener=self._open, notice=lambda words: None,
                flush_seconds=0.01, catch_up=0.3,
                queue_entries=SETTINGS.get("queue", 4096),
            )  # fmt: skip
        self.kept = kept
        return Session(
            facts,
            incarnation,
            self._clock,
            lambda post: HeldStart(post, self._host),
            journal=kept,
            ring_events=SETTINGS.get("ring", RING_EVENTS),
        )

    def _open(self, path: str) -> int:
        self.gate.wait()
        return journal.create(path)

    def _agent(self) -> HeldStart:
        assert isinstance(self.stub, HeldStart)
        return self.stub

    def _replay(self, op: dict[str, Any]) -> None:
        self._event(build.replay(op["phase"]))

    def _break_journal(self, op: dict[str, Any]) -> None:
        """Make one complete line of the file no line of a journal's."""
        assert self.kept is not None
        path = Path(self.kept.path)
        data = path.read_bytes()
        path.write_bytes(data.replace(op["was"].encode(), op["is"].encode()))


TestHost.ops = {
    **FakeHost.ops,
    "finish_start": lambda host, op: host._agent().finish(),  # type: ignore[attr-defined]
    "fail_start": lambda host, op: host._agent().fail(op["error"]),  # type: ignore[attr-defined]
    "replay": TestHost._replay,  # type: ignore[dict-item]
    "stall_journal": lambda host, op: host.gate.clear(),  # type: ignore[attr-defined]
    "resume_journal": lambda host, op: host.gate.set(),  # type: ignore[attr-defined]
    "break_journal": TestHost._break_journal,  # type: ignore[dict-item]
}

if __name__ == "__main__":
    main(TestHost)
