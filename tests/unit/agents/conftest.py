"""An agent under test: the real fake agent in a real process, its posts kept in a list."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.agents.acp import AcpAgent
from craze.clock import ManualClock
from craze.engine import port
from craze.machine import providers

PROGRAM = str(Path(sys.executable).parent / "craze-fake-agent")
PATIENCE = 20.0  # for what must happen; a test that passes never waits for it


class Driven:
    """An `AcpAgent` and what it posted."""

    def __init__(self) -> None:
        self.posts: list[Any] = []
        self.agent: Any = None
        self.on_post: Callable[[Any], None] | None = None
        self._turns = 0

    def post(self, made: Any) -> None:
        self.posts.append(made)
        if self.on_post is not None:
            self.on_post(made)

    def until(self, done: Callable[[], Any]) -> Any:
        """Run the loop until `done()` is true; its value."""
        with gevent.Timeout(PATIENCE):
            while not (found := done()):
                gevent.sleep(0.002)
        return found

    def all(self, kind: type) -> list[Any]:
        return [made for made in self.posts if isinstance(made, kind)]

    def wait(self, kind: type, count: int = 1) -> Any:
        """The last of the first `count` posts of a kind."""
        return self.until(lambda: len(self.all(kind)) >= count and self.all(kind)[count - 1])

    def start(self) -> "Driven":
        self.agent.start()
        self.until(lambda: self.all(port.AgentReady) or self.all(port.StartFailed))
        failed = self.all(port.StartFailed)
        assert not failed, failed
        return self

    def failed(self) -> port.AgentError:
        """Start it and have it fail; with what."""
        self.agent.start()
        error: port.AgentError = self.wait(port.StartFailed).error
        return error

    def prompt(self, text: str = "hello") -> str:
        """Send a prompt; its turn."""
        self._turns += 1
        turn = f"turn-{self._turns}"
        self.agent.prompt(turn, text)
        return turn

    def turn(self, text: str = "hello") -> port.PromptEnded:
        """A whole prompt."""
        turn = self.prompt(text)
        ended: port.PromptEnded = self.until(
            lambda: next((e for e in self.all(port.PromptEnded) if e.turn == turn), None)
        )
        return ended

    def events(self, *types: str) -> list[dict[str, Any]]:
        """The events posted, of these types only where any are named."""
        made = [post.event for post in self.all(port.AgentEvent)]
        return [event for event in made if not types or event["type"] in types]

    def said(self) -> str:
        """All the agent's text, main transcript."""
        return "".join(e["text"] for e in self.events("text") if "agent" not in e)

    def setting(self, kind: str, option: str, value: str) -> port.SettingReturned:
        token = 100 + len(self.all(port.SettingReturned))
        self.agent.set(token, kind, option, value)
        returned: port.SettingReturned = self.until(
            lambda: next((r for r in self.all(port.SettingReturned) if r.token == token), None)
        )
        return returned

    @property
    def process(self) -> Any:
        return self.agent._process


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., Driven]]:
    """Make an agent that runs a script of the fake agent; it is closed at the test's end."""
    made: list[Driven] = []

    def make(
        script: str,
        provider: str | providers.Provider = "",
        *,
        env: dict[str, str] | None = None,
        argv: list[str] | None = None,
        **options: Any,
    ) -> Driven:
        if not provider:
            provider = "grok" if script.startswith("grok-") else "cursor"
        known = providers.PROVIDERS[provider] if isinstance(provider, str) else provider
        launch = providers.launch(
            known,
            PROGRAM,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "CRAZE_FAKE_SCRIPT": script,
                **(env or {}),
            },
            cwd=str(tmp_path),
            force=False,
        )
        if argv is not None:
            launch = launch._replace(argv=argv)
        driven = Driven()
        driven.agent = AcpAgent(
            driven.post, launch=launch, clock=ManualClock(1_767_225_600_000_000_000), **options
        )
        made.append(driven)
        return driven

    yield make
    for driven in made:
        driven.agent.close()


@pytest.fixture
def marked() -> Callable[[str], list[int]]:
    """The processes that have a word in their environment."""

    def found(word: str) -> list[int]:
        pids = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    environ = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if word.encode() in environ:
                    pids.append(int(entry.name))
        return pids

    return found
