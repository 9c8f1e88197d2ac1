"""`craze-shed` run in this process, on a source that says what a test has it say."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze_shed.cli import app, reaching
from craze_shed.contract import errors, frames
from craze_shed.contract.answers import LaneAnswer
from craze_shed.contract.approvals import LaneApproval
from craze_shed.contract.capabilities import LaneCapabilities, SourceCapabilities
from craze_shed.contract.creating import LaneCreated, LaneCreateOptions, LaneCreateRequest
from craze_shed.contract.interfaces import AgentLane, AgentSource
from craze_shed.contract.publisher import Subscription, channel
from craze_shed.contract.sessions import LaneHistory, LaneSession
from craze_shed.contract.settings import LaneSettingChange, LaneSettings

ID = "0123456789ab"
OTHER = "0123cdef0000"

# What a bad peer calls itself: titles, a clipboard, C1, a turned reading, markup, a line of ours.
BAD = "[bold]x[/x]\x1b]0;t\x07\x1b[2J\x9b2J\x9d52;c;eA==\x9c\u202e\r\n--- down: forged"
PLAIN = "[bold]x[/x] --- down: forged"


def session(id: str = ID, **members: Any) -> LaneSession:
    return LaneSession(**{"id": id, "title": "a title", "cwd": "/w", "activity": "idle", **members})


def listed(*rows: LaneSession, truncated: bool = False) -> list[Any]:
    """A source's seed."""
    return [
        frames.SourceReset("connect", 1),
        *map(frames.SourceSession, rows),
        frames.SourceCapabilitiesFrame(SourceCapabilities("craze", True, True)),
        frames.SourceReady(1, truncated),
    ]


SEED = (
    frames.Reset("connect", 1),
    frames.Session(session()),
    frames.Capabilities(LaneCapabilities("craze", True, True, True, True, True, True)),
    frames.Settings(LaneSettings(model="m-1")),
    frames.Ready(1),
)


class ScriptedLane(AgentLane):
    """A lane that streams what it is told to, notes what it is asked, and fails as it is told."""

    agent = "scripted"

    def __init__(self) -> None:
        self.stream: tuple[Any, ...] = SEED
        self.asked: list[Any] = []
        self.fails: Exception | None = None
        self.page = LaneHistory()
        self.pending: tuple[LaneApproval, ...] = ()
        self.stated = LaneSettings()
        self.warning: str | None = None
        self.hang: Callable[[], object] = lambda: None
        self.subscriptions: list[Any] = []

    def session_id(self) -> str:
        return ID

    def session(self) -> LaneSession:
        return session()

    def _asked(self, *what: Any) -> None:
        self.asked.append(what)
        self.hang()
        if self.fails is not None:
            raise self.fails

    def subscribe(self, cursor: str | None = None) -> Subscription[Any]:
        publisher, subscription = channel()  # type: ignore[var-annotated]
        self.subscriptions.append(publisher)
        for frame in self.stream:
            if isinstance(frame, frames.Down):
                publisher.publish_final(frame)
            else:
                publisher.publish(frame)
        return subscription

    def history(self, cursor: str | None = None, limit: int = 0) -> LaneHistory:
        self._asked("history", limit)
        return self.page

    def send(self, text: str, mode: str = "queue") -> None:
        self._asked("send", text, mode)

    def cancel(self) -> None:
        self._asked("cancel")

    def approvals(self) -> tuple[LaneApproval, ...]:
        self._asked("approvals")
        return self.pending

    def answer(self, approval_id: str, answer: LaneAnswer) -> None:
        self._asked("answer", approval_id, answer)

    def settings(self) -> LaneSettings:
        self._asked("settings")
        return self.stated

    def set(self, change: LaneSettingChange) -> None:
        self._asked("set", change)

    def set_title(self, title: str) -> str | None:
        self._asked("set_title", title)
        return self.warning

    def stop(self) -> None:
        self._asked("stop")


class ScriptedSource(AgentSource):
    """The same for a source; `opened` are the ids of the lanes that were."""

    agent = "scripted"

    def __init__(self) -> None:
        self.stream = listed(session())
        self.lane = ScriptedLane()
        self.opened: list[str] = []
        self.asked: list[Any] = []
        self.answers: dict[str, Any] = {"options": LaneCreateOptions()}
        self.hang: Callable[[], object] = lambda: None
        self.ends = False  # its streams do, as no real one's

    def subscribe(self) -> Subscription[Any]:
        publisher, subscription = channel()  # type: ignore[var-annotated]
        for frame in self.stream:
            publisher.publish(frame)
        if self.ends:
            publisher.close()
        return subscription

    def _answer(self, what: str, *about: Any) -> Any:
        self.asked.append((what, *about))
        self.hang()
        answer = self.answers[what]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def create_options(self) -> LaneCreateOptions:
        return self._answer("options")

    def create(self, request: LaneCreateRequest) -> LaneCreated:
        return self._answer("create", request)

    def saved(self) -> Any:
        return self._answer("saved")

    def reopen(self, saved_id: str) -> Any:
        return self._answer("reopen", saved_id)

    def open(self, session_id: str) -> AgentLane:
        self.opened.append(session_id)
        return self.lane


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home of its own, without a file of machines."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CRAZE_SHED_CONFIG", raising=False)
    return tmp_path


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> ScriptedSource:
    """What every machine is, in this test."""
    made = ScriptedSource()

    @contextlib.contextmanager
    def scripted(word: str) -> Iterator[AgentSource]:
        reaching.named(word)
        yield made

    monkeypatch.setattr(reaching, "source", scripted)
    return made


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `craze-shed` with these arguments: its exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        with gevent.Timeout(60):
            code = app.main(list(arguments))
        out, err = capfd.readouterr()
        return code, out, err

    return call


def unknown() -> errors.LaneError:
    return errors.outcome_unknown("the connection to craze dropped; check the transcript")


def interrupt() -> None:
    """Press Ctrl-C, and wait for what comes of it."""
    os.kill(os.getpid(), 2)
    gevent.sleep(60)
