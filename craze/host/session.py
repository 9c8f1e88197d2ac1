"""One session at run time: the engine with its log, its transcript, its journal and its agent.

The engine decides and never waits; this runner feeds it inputs one at a time, carries out its
effects, and posts what becomes of them. Everything runs on one loop, so what one input commits is
atomic for every reader.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import Event

from craze import greenlets
from craze.clock import Clock
from craze.engine import port
from craze.engine.engine import Engine
from craze.eventlog import EventLog
from craze.eventlog.journal import Journal
from craze.machine.errors import MachineError
from craze.transcript import Model
from craze.wire.codes import Refusal
from craze.wire.limits import COMMAND_TIMEOUT, RING_EVENTS
from craze.wire.params import payload_hash


class Facts:
    """What a session is, as its documents say it; fixed for the session's life."""

    __slots__ = (
        "capabilities",
        "label",
        "permission_mode",
        "provider",
        "session_id",
        "started_at",
        "workspace",
    )

    def __init__(
        self,
        session_id: str,
        workspace: str,
        provider: str,
        label: str,
        capabilities: dict[str, bool],
        permission_mode: str = "",
        started_at: int = 0,
    ) -> None:
        self.session_id = session_id
        self.workspace = workspace
        self.provider = provider
        self.label = label
        self.capabilities = capabilities  # every session capability, by wire name
        self.permission_mode = permission_mode
        self.started_at = started_at


class _Pending:
    """A command waiting for its answer; the token its inputs and effects carry."""

    __slots__ = ("_told", "answer")

    def __init__(self) -> None:
        self.answer: Any = None
        self._told: Event | None = None

    def resolve(self, answer: Any) -> None:
        self.answer = answer
        if self._told:
            self._told.set()

    def wait(self, seconds: float | None) -> bool:
        if self.answer is None:
            self._told = Event()
            self._told.wait(seconds)
        return self.answer is not None


class Session:
    """A running session. `make_agent(post)` builds what drives its agent; `write_title(title,
    pinned)` records a title in the index (it may wait) and raises MachineError where it cannot;
    `title` is the one that the session comes with, `pinned` where a user gave it; `on_turn(text)`
    hears of each turn of craze's that starts.

    `on_started(started)` hears the start's end, `on_ended()` the session's.
    """

    def __init__(
        self,
        facts: Facts,
        incarnation: str,
        clock: Clock,
        make_agent: Callable[[Callable[[Any], None]], port.Agent],
        *,
        journal: Journal | None = None,
        force: bool = False,
        interactive: bool = True,
        title: str = "",
        pinned: bool = True,
        write_title: Callable[[str, bool], None] | None = None,
        on_turn: Callable[[str], None] | None = None,
        command_timeout: float = COMMAND_TIMEOUT,
        ring_events: int = RING_EVENTS,
    ) -> None:
        self.facts = facts
        self.clock = clock
        self.journal = journal
        self.agent = make_agent(self.post)
        self.model = Model(
            incarnation,
            ask_cards=facts.capabilities.get("askCards", False),
            plan_cards=facts.capabilities.get("planCards", False),
        )
        self._on_turn = on_turn
        self.log = EventLog(
            incarnation,
            clock,
            observer=self._observe if on_turn else self.model.fold,
            journal=journal,
            ring_events=ring_events,
        )
        self.engine = Engine(
            self.log,
            self.model,
            force=force,
            interactive=interactive,
            capabilities=facts.capabilities,
            title=title,
            pinned=pinned,
            now=clock.now(),
        )
        self.started: port.Started | None = None
        self.on_started: Callable[[port.Started], None] = lambda started: None
        self.on_ended: Callable[[], None] = lambda: None
        self._told_started = Event()
        self._write_title = write_title
        self._command_timeout = command_timeout
        self._inputs: deque[Any] = deque()
        self._stepping = False
        self._timers: dict[str, gevent.Greenlet] = {}
        self._closing: dict[str, gevent.Greenlet] = {}

    def __repr__(self) -> str:
        return f"<Session {self.facts.session_id} {self.engine.activity} at {self.log.head}>"

    def start(self) -> None:
        """Start the agent; `on_started` hears of the outcome."""
        self.agent.start()

    def post(self, given: Any) -> None:
        """Give the engine an input. Callable from any greenlet, and from within an effect."""
        if self._stepping:
            self._inputs.append(given)
            return
        self._stepping = True
        try:
            while True:
                for effect in self.engine.step(given, self.clock.now()):
                    _CARRY_OUT[type(effect)](self, effect)
                if not self._inputs:
                    return
                given = self._inputs.popleft()
        finally:
            self._stepping = False

    def command(
        self, client: str, command: str, method: str, args: dict[str, Any], waits: bool
    ) -> dict[str, Any]:
        """Run one mutating command and wait for its answer; a refusal is raised.

        One that `waits` for the agent (interject, cancel, set) is bounded by the command timeout:
        past it the engine says what is known of it.
        """
        pending = _Pending()
        self.post(port.Command(pending, client, command, method, args, payload_hash(method, args)))
        if not pending.wait(self._command_timeout if waits else None):
            self.post(port.CommandExpired(pending))
            pending.wait(None)
        if isinstance(pending.answer, Refusal):
            raise pending.answer
        answer: dict[str, Any] = pending.answer
        return answer

    def wait_started(self, seconds: float) -> bool:
        """Wait for the start's end; False when it has not come."""
        return bool(self._told_started.wait(seconds))

    def close(self) -> None:
        """End the session and its agent; every record of it is in the log on return, and nothing
        of the agent runs. A second call joins the first."""
        if not self.engine.closed:
            self.post(port.Close())
        gevent.joinall(list(self._closing.values()))

    def _observe(self, seq: int, event: dict[str, Any]) -> None:
        self.model.fold(seq, event)
        if event["type"] == "turn" and event["turn"]["phase"] == "started" and self._on_turn:
            self._on_turn(event["turn"].get("text", ""))

    def _close(self, what: str, close: Callable[[], None]) -> None:
        # Apart, because both may wait: the agent for its process, the log for its journal.
        if what not in self._closing:
            self._closing[what] = greenlets.spawn(f"{what}-close", close)

    def _end(self, effect: port.Ended) -> None:
        for timer in self._timers.values():
            timer.kill(block=False)
        self._timers.clear()
        self._close("log", self.log.close)
        self._told_started.set()
        self.on_ended()

    def _start_ended(self, effect: port.Started) -> None:
        self.started = effect
        self._told_started.set()
        self.on_started(effect)

    def _arm(self, effect: port.Timer) -> None:
        earlier = self._timers.pop(effect.name, None)
        if earlier is not None:
            earlier.kill(block=False)

        def fire() -> None:
            gevent.sleep(effect.seconds)
            self._timers.pop(effect.name, None)
            self.post(port.TimerFired(effect.name))

        self._timers[effect.name] = greenlets.spawn(f"timer {effect.name}", fire)

    def _title(self, effect: port.WriteTitle) -> None:
        def write() -> None:
            error = ""
            if self._write_title is not None:
                try:
                    self._write_title(effect.title, effect.pinned)
                except MachineError as failure:
                    error = str(failure)
            self.post(port.TitleWritten(effect.token, error))

        if self._write_title is None:
            self.post(port.TitleWritten(effect.token))
        else:
            greenlets.spawn("title", write)

    def _note(self, effect: port.JournalNote) -> None:
        if self.journal is not None:
            self.journal.note(effect.kind, effect.fields)


_CARRY_OUT: dict[type, Callable[[Session, Any], None]] = {
    port.Reply: lambda session, effect: effect.token.resolve(effect.answer),
    port.SendPrompt: lambda session, effect: session.agent.prompt(*effect),
    port.SendCancel: lambda session, effect: session.agent.cancel(*effect),
    port.SendInterject: lambda session, effect: session.agent.interject(*effect),
    port.SendSetting: lambda session, effect: session.agent.set(*effect),
    port.SendSubagentCancel: lambda session, effect: session.agent.cancel_subagent(*effect),
    port.AnswerAsk: lambda session, effect: session.agent.answer(*effect),
    port.CloseAgent: lambda session, effect: session._close("agent", session.agent.close),
    port.Timer: Session._arm,
    port.WriteTitle: Session._title,
    port.JournalNote: Session._note,
    port.Started: Session._start_ended,
    port.Ended: Session._end,
}
