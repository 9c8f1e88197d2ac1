"""A session under test: the real engine, log and fold, driven one input at a time by hand."""

from typing import Any

import pytest

from craze.clock import ManualClock
from craze.engine import port
from craze.engine.engine import Engine
from craze.eventlog.log import EventLog
from craze.transcript import Model
from craze.wire.codes import Refusal
from craze.wire.params import payload_hash
from craze.wire.times import parse_time

START = parse_time("2026-01-01T00:00:00Z")
CAPABILITIES = {"interject": True, "subagentCancel": True}
STATE = {"mode": "agent", "model": "grok"}
OPTIONS = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
]


class Token:
    """A command's handle; `answers` are the replies it got."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"{len(self.answers)} replies"
        return self.answers[0]


class Driver:
    """`feed` an input, or `send` a command as a client; `events` and `effects` are what came."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock(START)
        self.model = Model("I")
        self.events: list[dict[str, Any]] = []
        self.effects: list[Any] = []
        self.log = EventLog("I", self.clock, observer=self._observe)
        options.setdefault("capabilities", CAPABILITIES)
        options.setdefault("force", False)
        self.engine = Engine(self.log, self.model, now=START, **options)
        self.client = self.engine.mint_client()
        self.number = 0

    def _observe(self, seq: int, event: dict[str, Any]) -> None:
        self.model.fold(seq, event)
        self.events.append(event)

    def minutes(self, minutes: float) -> None:
        self.clock.advance(int(minutes * 60e9))

    def feed(self, given: Any) -> list[Any]:
        """The effects of one input, but for notes to the journal."""
        effects = self.engine.step(given, self.clock.now())
        self.effects += effects
        for effect in effects:
            if isinstance(effect, port.Reply):
                effect.token.answers.append(effect.answer)
        return [e for e in effects if not isinstance(e, port.JournalNote)]

    def command(self, method: str, *, id: str = "", client: str = "", **args: Any) -> Token:
        """Send a command; its token, answered or not."""
        if not id:
            self.number += 1
            id = str(self.number)
        token = Token()
        self.feed(
            port.Command(token, client or self.client, id, method, args, payload_hash(method, args))
        )
        return token

    def ok(self, method: str, **args: Any) -> Any:
        """The result of a command that is answered at once."""
        answer = self.command(method, **args).answer
        assert not isinstance(answer, Refusal), f"{answer.reason}: {answer.message}"
        return answer

    def refused(self, method: str, **args: Any) -> Refusal:
        answer = self.command(method, **args).answer
        assert isinstance(answer, Refusal), f"answered {answer}"
        return answer

    def ready(self, **state: Any) -> "Driver":
        self.feed(port.AgentReady("p-1", [{"id": "grok", "name": "Grok"}], [], {**STATE, **state}))
        return self

    def prompt(self, text: str = "hi", mode: str = "queue", **args: Any) -> Any:
        return self.ok("session.prompt", text=text, mode=mode, **args)

    def end(self, turn: str = "", stop: str = "end_turn") -> list[Any]:
        """The agent's answer to a prompt."""
        return self.feed(port.PromptEnded(turn or self.engine.turn, stop))

    def fail(self, kind: str = "rpc", message: str = "boom") -> list[Any]:
        error = port.AgentError(message, kind)
        return self.feed(port.PromptEnded(self.engine.turn, error=error))

    def say(self, event: dict[str, Any]) -> list[Any]:
        return self.feed(port.AgentEvent(event))

    def foreign(self, running: bool) -> list[Any]:
        bracket: dict[str, Any] = {"id": "wake-1", "reason": "subagent_wake"}
        if running:
            bracket["running"] = True
        return self.say({"type": "foreign_turn", "foreignTurn": bracket})

    def ask(self, kind: str = "permission", body: Any = None, key: Any = "k", id: str = "") -> str:
        """Raise an ask; its id, if it is open."""
        body = body or {"tool": "Shell", "options": OPTIONS}
        self.feed(port.AskRaised(key, kind, body, id))
        asks = self.engine.asks.open
        return asks[-1].id if asks else ""

    def cancels(self) -> list[int]:
        """The tokens of the cancels sent so far."""
        return [e.token for e in self.effects if isinstance(e, port.SendCancel)]

    def sent(self, kind: type) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def since(self, mark: int) -> list[str]:
        """The events past `mark`, in short."""
        return [short(event) for event in self.events[mark:]]


def short(event: dict[str, Any]) -> str:
    """An event in one line: what it is, what it says, what caused it."""
    kind = event["type"]
    words: list[Any] = [kind]
    if kind == "turn":
        turn = event["turn"]
        words += [turn["id"], turn["phase"]]
        words += [
            f"{name}={turn[name]}"
            for name in ("text", "origin", "stopReason", "errClass", "synthetic", "next", "pending")
            if name in turn
        ]
    elif kind == "queue":
        words += [event["queueChange"], event["queue"]["id"], event.get("queuePos", 0)]
    elif kind == "ask":
        words += [event["ask"]["id"], event["ask"]["outcome"], event["ask"]["by"]]
    elif kind == "meta":
        state = event["state"]
        words += [f"{name}={state[name]}" for name in state]
    elif kind == "done":
        words.append(event.get("stopReason", ""))
    elif kind == "error":
        words += [event["err"]["class"], event["err"]["message"]]
    elif kind in ("permission", "question", "plan"):
        words.append(event[kind]["id"])
    if event.get("replayed"):
        words.append("replayed")
    if "cause" in event:
        words.append(f"<{event['cause']}>")
    return " ".join(map(str, words))


@pytest.fixture
def fresh() -> type[Driver]:
    """Makes sessions that have not started."""
    return Driver


@pytest.fixture
def session() -> Driver:
    """A session that has started and is idle."""
    return Driver().ready()
