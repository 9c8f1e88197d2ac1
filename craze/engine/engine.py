"""One session's engine: a function of its inputs that commits events and asks for effects.

`step` never waits. Whatever one input leads to is committed before it returns, so its records stand
side by side in the log and every reader sees all of them or none. The parts (commands, turns,
queue, asks, settings, receipts) hold the rules; here is what joins them: the session's phases, who
hears of which input, and what is read of it all.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from craze.engine import port
from craze.engine.asks import Asks
from craze.engine.commands import Commands
from craze.engine.queue import Queue
from craze.engine.receipts import Receipts
from craze.engine.settings import Settings
from craze.engine.stage import Event, Log, Stage
from craze.engine.title import Title
from craze.engine.turns import Turns
from craze.events import build

# What the agent reports and the engine only passes on.
_PLAIN: Final = frozenset(("text", "thought", "tool", "todos", "user", "command", "compaction"))


class Model(Protocol):
    """What the engine reads of the fold (`craze.transcript.Model`)."""

    @property
    def settings(self) -> dict[str, Any]: ...

    @property
    def last_turn(self) -> dict[str, Any] | None: ...


class Engine:
    """The engine of one incarnation of a session.

    `log` is committed to and `model` is its fold. `force` allows permissions without asking;
    `capabilities` are the session's by wire name; `title` is published at once, and `pinned` where
    a user gave it; `now` is the host's birth, nanoseconds.
    """

    __slots__ = (
        "_born",
        "_changed",
        "_children",
        "_commands",
        "_failure",
        "_installed",
        "_model",
        "_new_models",
        "_passing",
        "_queue",
        "_receipts",
        "_replay_ended",
        "_settings",
        "_stage",
        "_title",
        "_turns",
        "asks",
        "closed",
        "provider_session",
        "ready",
    )

    def __init__(
        self,
        log: Log,
        model: Model,
        *,
        force: bool,
        interactive: bool = True,
        capabilities: dict[str, bool],
        title: str = "",
        pinned: bool = True,
        now: int = 0,
    ) -> None:
        self._stage = Stage(log, now)
        self._model = model
        self._receipts = Receipts(self._stage)
        self._queue = Queue(self._stage)
        self._settings = Settings(
            self._stage, self._receipts, lambda: str(model.settings.get("model") or "")
        )
        self._title = Title(self._stage)
        self.asks = Asks(self._stage, force=force, interactive=interactive)  # `open`, `get(id)`
        self._turns = Turns(self._stage, self._queue, self.asks, self._receipts)
        self._commands = Commands(
            self._stage, self._receipts, self._queue, self.asks, self._turns, self._settings,
            self._title, capabilities,
        )  # fmt: skip
        self.provider_session = ""
        self.ready = False  # the start has finished well
        self.closed = False
        self._installed = False  # the agent has said what the session is; a replay may go on
        self._failure = ""  # why the start failed, or the agent is gone
        self._passing = True  # plain agent events go straight to the log
        self._children: set[str] = set()  # running sub-agents
        self._new_models: tuple[str, port.ModelsRefreshed] | None = None  # held while a turn runs
        self._born = self._changed = now
        self._replay_ended = 0
        if title:
            self._title.begin(title, pinned)

    def __repr__(self) -> str:
        return f"<Engine {self.state} {self._turns.running or 'no turn'}>"

    def step(self, given: Any, now: int) -> list[Any]:
        """Take one input (`craze.engine.port`) at `now` nanoseconds; the effects, in order."""
        if self._passing and type(given) is port.AgentEvent and given.event["type"] in _PLAIN:
            self._stage.log.commit(given.event)
            return []
        stage = self._stage
        stage.now = now
        stage.effects = []
        before = self.activity
        _INPUTS[type(given)](self, given)
        if self._new_models is not None:
            self._offer_models()
        if self.activity != before:
            self._changed = now
        effects, stage.effects = stage.effects, []
        return effects

    # ---- clients, and what is read of the session ----

    def mint_client(self) -> str:
        """A fresh client id, `c-N`, taken as connected."""
        return self._receipts.mint()

    def release_client(self, client: str) -> None:
        """The client's connection is gone."""
        self._receipts.release(client)

    def resume_client(self, client: str) -> bool:
        """The client is back; False when its id was retired early, and it needs a new one."""
        return self._receipts.resume(client)

    def retirable(self, client: str, now: int) -> bool:
        """Whether no receipt of the client's is held, running or answered, at `now` nanoseconds."""
        return self._receipts.retirable(client, now)

    @property
    def state(self) -> str:
        """The gate table's row."""
        if self.closed:
            return "closing"
        if self.start_failed:
            return "start failed"
        if self._stage.replaying:
            return "replaying"
        if not self.ready:
            return "starting"
        turns = self._turns
        if turns.foreign is not None:
            return "foreign"
        if turns.current is not None:
            return "cancelling" if turns.current.cancelled else "working"
        return "held" if turns.cancelling else "idle"

    @property
    def activity(self) -> str:
        """starting, replaying, idle, working, error or closing (codecs 5.1)."""
        if self.closed:
            return "closing"
        if self.start_failed:
            return "error"
        if self._turns.current is not None:
            return "working"
        if self._stage.replaying:
            return "replaying"
        if not self.ready:
            return "starting"
        return "error" if self._turns.failed else "idle"

    @property
    def foreign(self) -> dict[str, Any] | None:
        """The bracket of the turn that the agent runs on its own, or None."""
        return self._turns.foreign

    @property
    def turn(self) -> str:
        """The id of craze's turn that runs, or ""."""
        return self._turns.current.id if self._turns.current is not None else ""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The queue's rows as the wire writes them, head first."""
        return self._queue.rows

    @property
    def err(self) -> str:
        """The last turn's or the start's error, or ""."""
        return self._failure or self._turns.err

    @property
    def start_failed(self) -> bool:
        return bool(self._failure) and not self.ready

    @property
    def prompted(self) -> bool:
        """Whether a turn of craze's was ever started."""
        return self._turns.prompted

    @property
    def turn_count(self) -> int:
        """How many turns, craze's and the agent's own, have started."""
        return self._turns.count

    @property
    def cancelled(self) -> bool:
        """Whether craze's last turn was cancelled."""
        return self._turns.cancelled

    @property
    def send_now(self) -> dict[str, Any] | None:
        """The armed send-now {text, fromRow, turn, cause}, or None."""
        armed = self._turns.armed
        if armed is None:
            return None
        return {
            "text": armed.text, "fromRow": armed.row, "turn": armed.turn, "cause": armed.cause
        }  # fmt: skip

    @property
    def last_turn(self) -> dict[str, Any] | None:
        """How the latest turn ended (codecs 3.4), or None."""
        return self._model.last_turn

    def settings(self) -> dict[str, Any]:
        """The settings document (protocol tables 7.3)."""
        held = self._model.settings
        made: dict[str, Any] = {
            "model": held.get("model") or "",
            "mode": held.get("mode") or "",
            "config": held.get("config") or {},
        }
        for section in ("usage", "catalog"):
            if held.get(section):
                made[section] = held[section]
        return made

    @property
    def models(self) -> list[dict[str, Any]]:
        """The models offered now, as the wire writes them."""
        return self._settings.models

    @property
    def modes(self) -> list[dict[str, Any]]:
        return self._settings.modes

    @property
    def revision(self) -> int:
        """The revision of `models`; 0 for the start's."""
        return self._settings.revision

    @property
    def models_pending(self) -> bool:
        """Whether a newer list waits for the turn, or the replay, that it came in."""
        return self._new_models is not None

    @property
    def title(self) -> str:
        return self._title.text

    @property
    def busy(self) -> bool:
        """Whether something is under way that an idle exit must not end (codecs 5.12)."""
        if self.start_failed:
            return bool(self.asks)
        return bool(
            self.activity in ("starting", "replaying", "working", "closing")
            or self._turns.cancelling
            or self._turns.armed
            or self._turns.foreign is not None
            or self._queue.rows
            or self._receipts
            or self._settings.busy
            or self.asks
            or self._children
        )

    @property
    def since(self) -> int:
        """When the state that the session's row shows began, nanoseconds (protocol tables 5.2)."""
        asks, turns = self.asks.open, self._turns
        if asks:
            return asks[0].opened_at
        last = self._model.last_turn
        activity = self.activity
        if last is not None and last["outcome"] == "failed":
            began = turns.ended_at
        elif self.start_failed:
            began = self._changed
        elif activity in ("starting", "replaying"):
            began = self._born
        elif turns.foreign is not None:
            began = max(turns.foreign_at, self._changed)
        elif activity in ("working", "closing"):
            began = self._changed
        else:
            began = max(self._changed, self._replay_ended, turns.ended_at)
        return max(began, self.asks.last_end)

    # ---- commands ----

    def _command(self, given: port.Command) -> None:
        self._commands.take(given, self.state)

    def _expired(self, given: port.CommandExpired) -> None:
        self._commands.expired(given.token)

    def _called(self, given: port.InterjectReturned | port.SubagentCancelReturned) -> None:
        self._commands.returned(given)

    def _title_written(self, given: port.TitleWritten) -> None:
        owed = self._commands.title_written(given)
        if given.error and not owed and not self.closed:
            self._stage.commit(build.meta({"indexErr": given.error}))

    # ---- the start and the end ----

    def _agent_ready(self, given: port.AgentReady) -> None:
        if self.closed or self._installed or self.start_failed:
            return
        self._installed = True
        self.provider_session = given.provider_session
        self._settings.models, self._settings.modes = given.models, given.modes
        retitled = given.state.get("title") and not self._title.pinned
        self._settings.publish(self._title.allow(given.state))
        self._stage.do(port.JournalNote("session", {"providerSessionId": given.provider_session}))
        if self._title.pinned or retitled:
            self._title.write(self._stage.token())
        if not self._stage.replaying:
            self._started()

    def _started(self) -> None:
        self.ready = True
        self._admit()
        self._stage.do(port.Started(self._stage.log.head))

    def _start_failed(self, given: port.StartFailed) -> None:
        if self.closed or self.ready or self.start_failed:
            return
        self._failure = given.error.message or "the start failed"
        self._stage.replaying = False
        self._admit()
        self.asks.end_all("cancelled", "call")
        self._note("start_failed", {"error": self._failure})
        self._stage.do(port.Started(self._stage.log.head, given.error))

    def _agent_exited(self, given: port.AgentExited) -> None:
        if self.closed or self.start_failed:
            return
        if not self.ready:
            self._start_failed(port.StartFailed(given.error))
            return
        self._stage.accepting = self._stage.replaying = False
        if self._turns.current is None:
            # Nothing ran whose ending could tell why the session ends.
            self._stage.commit(build.error(*given.error))
        self._turns.agent_lost(given.error)
        self._failure = given.error.message
        self._end()

    def _cancel_turn(self, given: port.CancelTurn) -> None:
        if not self.closed:
            self._turns.cancel_all()

    def _close(self, given: port.Close) -> None:
        if not self.closed:
            self._end()

    def _end(self) -> None:
        self.closed = True
        self._stage.replaying = False
        self._admit()
        self._turns.close()
        self.asks.end_all("closing", "close")
        self._settings.close()
        self._commands.close()
        self._stage.do(port.CloseAgent())
        self._stage.do(port.Ended())

    def _admit(self) -> None:
        """Work out what may pass, after a change of phase."""
        over = self.closed or self.start_failed
        self._passing = not (over or self._stage.replaying)
        self._stage.accepting = self.ready and self._passing

    def _fence(self, given: port.Fence) -> None:
        self._stage.fenced = given.up
        if not given.up:
            self._turns.unfenced()

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        self._stage.do(port.JournalNote("diag", {"kind": kind, "fields": fields}))

    # ---- what the agent says ----

    def _agent_event(self, given: port.AgentEvent) -> None:
        if self.closed or self.start_failed:
            return
        event = given.event
        _EVENTS.get(event["type"], Engine._pass_on)(self, event)

    def _pass_on(self, event: Event) -> None:
        self._stage.commit(event)

    def _foreign_turn(self, event: Event) -> None:
        self._turns.foreign_turn(event)

    def _replay(self, event: Event) -> None:
        phase = event["replay"].get("phase")
        self._stage.replaying = False  # the brackets themselves are not marked
        self._stage.commit(event)
        self._stage.replaying = phase == "start"
        self._admit()
        if phase != "end":
            return
        self._replay_ended = self._stage.now
        if self._installed and not self.ready:
            self._started()
        self._turns.proceed()

    def _subagent(self, event: Event) -> None:
        child = event["subagent"]
        if child.get("status", "running") == "running" and not self._stage.replaying:
            self._children.add(child.get("id", ""))
        else:
            self._children.discard(child.get("id", ""))
        self._stage.commit(event)

    def _meta(self, event: Event) -> None:
        state = event.get("state", {})
        allowed = self._title.allow(state)
        self._settings.note(allowed)
        if allowed is not state:
            if not allowed:
                return
            event = {**event, "state": allowed}
            event.pop("text", None)
        self._stage.commit(event)
        if allowed.get("title"):
            self._title.write(self._stage.token())

    def _models_refreshed(self, given: port.ModelsRefreshed) -> None:
        if given.models is not None and not self.closed and not self.start_failed:
            self._new_models = (self._turns.running, given)

    def _offer_models(self) -> None:
        """Publish a refreshed list, once the turn or the replay that it came in is over."""
        assert self._new_models is not None
        turn, given = self._new_models
        if self.closed:
            self._new_models = None
        elif self._stage.accepting and not (turn and turn == self._turns.running):
            self._new_models = None
            if given.revision > self._settings.revision:
                catalog = {"models": given.models, "revision": given.revision}
                self._settings.publish({"catalog": catalog})

    def _ask_raised(self, given: port.AskRaised) -> None:
        if self.closed or self.start_failed:
            self.asks.turn_away(given)
        else:
            self.asks.raised(given, self._turns.running)

    def _ask_withdrawn(self, given: port.AskWithdrawn) -> None:
        self.asks.withdrawn(given.key)

    def _prompt_ended(self, given: port.PromptEnded) -> None:
        self._turns.returned(given)

    def _cancel_returned(self, given: port.CancelReturned) -> None:
        self._turns.cancel_returned(given)

    def _setting_returned(self, given: port.SettingReturned) -> None:
        self._settings.returned(given)

    def _timer(self, given: port.TimerFired) -> None:
        self._turns.timer(given.name)


_INPUTS: Final[dict[type, Callable[[Engine, Any], None]]] = {
    port.Command: Engine._command,
    port.CommandExpired: Engine._expired,
    port.CancelTurn: Engine._cancel_turn,
    port.Close: Engine._close,
    port.Fence: Engine._fence,
    port.TimerFired: Engine._timer,
    port.AgentReady: Engine._agent_ready,
    port.StartFailed: Engine._start_failed,
    port.AgentEvent: Engine._agent_event,
    port.PromptEnded: Engine._prompt_ended,
    port.CancelReturned: Engine._cancel_returned,
    port.InterjectReturned: Engine._called,
    port.SettingReturned: Engine._setting_returned,
    port.SubagentCancelReturned: Engine._called,
    port.AskRaised: Engine._ask_raised,
    port.AskWithdrawn: Engine._ask_withdrawn,
    port.AgentExited: Engine._agent_exited,
    port.TitleWritten: Engine._title_written,
    port.ModelsRefreshed: Engine._models_refreshed,
}

_EVENTS: Final[dict[str, Callable[[Engine, Event], None]]] = {
    "foreign_turn": Engine._foreign_turn,
    "meta": Engine._meta,
    "replay": Engine._replay,
    "subagent": Engine._subagent,
}
