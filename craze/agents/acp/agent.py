"""One ACP agent under an engine: its process started, its session opened, prompted, and ended.

Implements `craze.engine.port.Agent`. What the agent writes is taken line by line in the order it
came, by the one greenlet that reads it, and posted to the engine from there; a request that has to
wait for a user is parked and the reader goes on. No method waits but `close`.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import gevent
import gevent.event

from craze import __version__, greenlets
from craze.agents import limits
from craze.agents.acp import asks, read
from craze.agents.acp.catalog import BadCatalog, Call
from craze.agents.acp.failure import exit_error, with_tail
from craze.agents.acp.replay import Replay, is_prompt
from craze.agents.acp.rpc import CANCELLED, AgentFailure, Rpc
from craze.agents.acp.updates import Session, changed
from craze.agents.process import Outgoing, Process, SpawnError
from craze.clock import Clock
from craze.engine import port
from craze.engine.port import AgentError
from craze.events import build
from craze.machine.providers import XAI_KEYS, Launch
from craze.wire.times import format_time

PROTOCOL = 1

_CLIENT = {
    "protocolVersion": PROTOCOL,
    "clientInfo": {"name": "craze", "version": __version__},
    "clientCapabilities": {
        "_meta": {"parameterizedModelPicker": True},
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    },
}


class _Prompt:
    """craze's prompt that the agent is running."""

    __slots__ = ("call", "cancelled", "text", "turn")

    def __init__(self, turn: str, text: str) -> None:
        self.turn = turn
        self.text = text
        self.call = 0
        self.cancelled = False


class _Held:
    """A request of the agent's that waits for its answer."""

    __slots__ = ("ask", "request")

    def __init__(self, request: Any, ask: asks.Ask) -> None:
        self.request = request
        self.ask = ask


class AcpAgent:
    """Drives the agent that `launch` describes; `post(input)` is the engine's.

    `mode`, `model`, `effort` and `fast` are set once the session is open, `load` is the agent's own
    id of a session to take up again. `on_spawn(pgid)` records the agent's process group
    before anything is said to it. `counters` counts what the agent wrote that meant nothing.
    """

    def __init__(
        self,
        post: Callable[[Any], None],
        *,
        launch: Launch,
        clock: Clock,
        mode: str = "",
        model: str = "",
        effort: str = "",
        fast: bool | None = None,
        load: str = "",
        on_spawn: Callable[[int], None] | None = None,
    ) -> None:
        self.capabilities = launch.provider.capabilities()
        self.counters: Counter[str] = Counter()
        self._post_to = post
        self._launch = launch
        self._provider = launch.provider
        self._wanted = {"mode": mode, "model": model, "effort": effort}
        self._fast = fast
        self._load = load
        self._replay: Replay | None = None  # of a session that was loaded, until it is prompted
        self._bracket = False  # a replay's bracket is open
        self._on_spawn = on_spawn
        self._session = Session(self._provider, lambda: format_time(clock.now()), self.counters)
        self._rpc = Rpc(self._requested, self._notified, self.counters)
        self._process: Process | None = None
        self._prompt: _Prompt | None = None
        self._asks: dict[int, _Held] = {}
        self._next_ask = 0
        self._interjections = 0
        self._models: dict[str, Any] = {}  # a model list that came before the session's
        self._early: list[dict[str, Any]] | None = None  # updates of a session not named yet
        self._held: list[dict[str, Any]] = []  # events of a session not up yet
        self._initialized = False
        self._gone: AgentError | None = None  # how the process ended
        self._ready = False
        self._silent = False  # nothing is posted any more
        self._working: set[gevent.Greenlet] = set()
        self._closer: gevent.Greenlet | None = None

    def __repr__(self) -> str:
        state = "closing" if self._closer else "ready" if self._ready else "starting"
        return f"<acp agent {self._provider.name} {state} {self._process}>"

    def _post(self, made: Any) -> None:
        if not self._silent:
            self._post_to(made)

    def _emit(self, events: list[dict[str, Any]]) -> None:
        """Hand events over. Until the session is up its state is left to the install delta, and
        the rest waits for that, but for a replay, which precedes it."""
        for event in events:
            if self._ready:
                self._post(port.AgentEvent(event))
            elif event["type"] == "meta":
                continue
            elif self._load:
                self._post(port.AgentEvent(event))
            else:
                self._held.append(event)

    def _spawn(self, name: str, work: Callable[..., None], *args: Any) -> None:
        greenlet = greenlets.spawn(name, work, *args, on_error=self._broke)
        self._working.add(greenlet)
        greenlet.rawlink(self._working.discard)

    def _broke(self, failure: BaseException) -> None:
        """A fault of our own, in one of our greenlets: it ends the agent, and says so."""
        if self._ready and self._process is not None:
            self._process.broken(failure)
        else:
            self._fail(AgentError(f"agent: craze failed: {failure!r}"))

    # ---- the start ----

    def start(self) -> None:
        self._spawn(f"agent-start {self._provider.name}", self._start)

    def _start(self) -> None:
        try:
            self._open()
        except SpawnError as failure:
            self._fail(AgentError(f"agent: {failure}"))
        except AgentFailure as failure:
            error = failure.error
            if error.kind == "deadline_exceeded" and self._process is not None:
                error = error._replace(message=with_tail(error.message, self._process.stderr))
            self._fail(error)

    def _fail(self, error: AgentError) -> None:
        self._post(port.StartFailed(error))
        self._silent = True
        if self._process is not None:
            self._process.stop()

    def _open(self) -> None:
        launch = self._launch
        self._process = Process(
            launch.argv,
            cwd=launch.cwd,
            env=launch.env,
            on_data=self._rpc.feed,
            on_exit=self._exited,
            on_spawn=self._on_spawn,
        )
        self._rpc.connect(self._process)
        if self._process.exited.is_set():  # while its group was recorded
            self._exited()
        self._initialized = True
        hello = self._rpc.ask("initialize", _CLIENT, limits.INITIALIZE)
        spoken = hello.get("protocolVersion") if isinstance(hello, dict) else None
        if spoken != PROTOCOL:
            raise AgentFailure(
                AgentError(f"acp: agent speaks protocol version {spoken}, not {PROTOCOL}")
            )
        self._log_in(hello)
        where = {"cwd": launch.cwd, "mcpServers": []}
        self._models = read.inner(hello, "_meta", "modelState")
        if self._load:
            if not read.flag(read.inner(hello, "agentCapabilities"), "loadSession"):
                raise AgentFailure(
                    AgentError(f"agent: {self._provider.name} does not support session/load")
                )
            self._session.id = self._load
            self._session.replaying = True
            self._replay = Replay(self.counters)
            self._begin_replay()
            named = {"sessionId": self._load, **where}
            self._rpc.ask("session/load", named, limits.LOAD_SESSION, self._loaded)
            self._hear_out(self._replay)
        else:
            self._early = []
            self._rpc.ask("session/new", where, limits.NEW_SESSION, self._opened)
            if not self._session.id:
                raise AgentFailure(AgentError("acp: agent opened a session without an id"))
        self._choose()
        self._up()

    def _log_in(self, hello: dict[str, Any]) -> None:
        """Authenticate where the provider has a way that the agent offers and we can use."""
        offered = [read.text(method, "id") for method in read.items(hello, "authMethods")]
        provider = self._provider
        if not provider.auth or not offered:
            return
        env = self._launch.env
        keyed = any(env.get(name) for name in XAI_KEYS)
        usable = [m for m in provider.auth if m in offered and (m != "xai.api_key" or keyed)]
        hint = f"(run `{provider.login}`)"
        if not usable:
            raise AgentFailure(AgentError(f"agent: no supported auth method {hint}"))
        params: dict[str, Any] = {"methodId": usable[0]}
        if provider.dialect == "grok":
            params["_meta"] = {"headless": True}
        try:
            self._rpc.ask("authenticate", params)
        except AgentFailure as failure:
            error = failure.error
            if error.kind != "rpc":
                raise
            raise AgentFailure(error._replace(message=f"{error.message} {hint}")) from None

    def _opened(self, result: Any, error: AgentError | None) -> None:
        early, self._early = self._early or [], None
        if error is not None:
            return
        self._session.id = read.text(result, "sessionId")
        self._install(result)
        for params in early:
            self._updated(params)

    def _loaded(self, result: Any, error: AgentError | None) -> None:
        if error is None:
            self._install(result)

    def _install(self, result: Any) -> None:
        self._count_bad(lambda: self._session.catalog.install(result, self._models))

    def _count_bad(self, take: Callable[[], None]) -> None:
        """Take what the agent says of its settings; one that cannot be read is counted."""
        try:
            take()
        except BadCatalog:
            self.counters["bad_catalog"] += 1

    def _choose(self) -> None:
        """The settings that the start was given, in the order mode, model, effort, fast."""
        catalog = self._session.catalog
        mode, model, effort = (self._wanted[name] for name in ("mode", "model", "effort"))
        if mode and mode != catalog.mode:
            if not catalog.advertises(mode):
                raise AgentFailure(_no_mode(mode))
            self._change("mode", "", mode)
        if model and model != catalog.model:
            self._change("model", "", model)
        if effort:
            self._option(catalog.effort(), "effort", effort)
        if self._fast is not None:
            held = catalog.option("fast")
            if self._fast or held is not None:
                self._option(held, "fast", "true" if self._fast else "false")

    def _option(self, held: dict[str, Any] | None, what: str, value: str) -> None:
        if held is None:
            raise AgentFailure(AgentError(f'agent: session did not advertise option "{what}"'))
        if held["current"] != value:
            self._change("config", held["id"], value)

    def _change(self, kind: str, option: str, value: str) -> None:
        call = self._session.catalog.call(kind, option, value)
        if call is None:
            return

        def take(result: Any, error: AgentError | None) -> None:
            if error is None:
                self._count_bad(lambda: self._session.catalog.answered(kind, option, value, result))

        params = {"sessionId": self._session.id, **call.params}
        self._rpc.ask(call.method, params, limits.SETTING, take)

    def _up(self) -> None:
        if self._gone is not None:
            raise AgentFailure(self._gone)
        self._settle_replay()
        catalog = self._session.catalog
        ready = port.AgentReady(
            self._session.id, catalog.models, catalog.modes, catalog.installed()
        )
        self._post(ready)
        self._ready = True
        held, self._held = self._held, []
        self._emit(held)
        self._end_replay()

    # ---- a replay, and where it ends ----

    def _hear_out(self, replay: Replay) -> None:
        """Wait until the agent has no more to replay. It should have had none once it answered the
        load; some answer first, and then nothing tells the end but silence."""
        quiet = limits.REPLAY_QUIET if replay.count else limits.REPLAY_BEGINS
        with gevent.Timeout(limits.REPLAY_LATE, False):
            heard = -1
            while heard != replay.count and self._gone is None:
                heard = replay.count
                gevent.sleep(quiet)
                quiet = limits.REPLAY_QUIET

    def _begin_replay(self) -> None:
        if not self._bracket:
            self._bracket = True
            self._post(port.AgentEvent(build.replay("start")))

    def _settle_replay(self) -> None:
        """The replay is over: tell what was held back of it, and end what it left open."""
        replay = self._replay
        if replay is not None and replay.open:
            self._replayed(replay.settle())
            self._emit(self._session.replayed())
            replay.open = False

    def _end_replay(self) -> None:
        if self._bracket:
            self._bracket = False
            self._post(port.AgentEvent(build.replay("end")))

    def _replayed(self, updates: list[dict[str, Any]]) -> None:
        for params in updates:
            if self._session.replaying:
                self._begin_replay()
            self._tell(params)

    def _late_replay(self, replay: Replay) -> None:
        self._hear_out(replay)
        self._settle_replay()
        self._end_replay()

    # ---- what the agent says ----

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        vendor = method.removeprefix("_")
        if method == "session/update":
            if self._early is None:
                self._updated(params)
            elif len(self._early) < limits.EARLY_UPDATES:
                self._early.append(params)
            else:
                self.counters["early_update"] += 1
        elif method == "$/cancel_request":
            self._withdrawn(params.get("requestId"))
        elif self._provider.dialect == "cursor" and method == "cursor/update_todos":
            self._map(lambda: self._session.todos(params)[0])
        elif self._provider.dialect == "cursor" and method == "cursor/task":
            self._map(lambda: self._session.task(params))
        elif self._provider.dialect == "grok" and vendor == "x.ai/session/prompt_complete":
            self._completed(read.peel(params))
        elif self._provider.dialect == "grok" and vendor.startswith("x.ai/"):
            self._map(lambda: self._session.vendor(vendor, params))

    def _updated(self, params: dict[str, Any]) -> None:
        replay = self._replay
        if replay is None or self._echoes(params):
            self._tell(params)
            return
        if self._begins_late(params) and not replay.open:
            replay.open = self._session.replaying = True
            self._spawn("agent-replay", self._late_replay, replay)
        self._replayed(replay.take(params))

    def _tell(self, params: dict[str, Any]) -> None:
        self._map(lambda: self._session.update(params))

    def _begins_late(self, params: dict[str, Any]) -> bool:
        """Whether the agent, which has said that the session is loaded, begins to replay it: it
        tells what the user said, and nobody has prompted it."""
        session = self._session
        idle = self._ready and self._prompt is None and not session.turns.foreign
        return idle and is_prompt(params) and session.stream(params) is session.main

    def _echoes(self, params: dict[str, Any]) -> bool:
        """Whether this is craze's own prompt coming back, or a piece of it."""
        words = read.block(read.inner(params, "update").get("content"))
        return self._prompt is not None and is_prompt(params) and words in self._prompt.text

    def _map(self, events: Callable[[], list[dict[str, Any]]]) -> None:
        """Emit what a message makes; one that cannot be read costs nothing but itself."""
        try:
            made = events()
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            self.counters["unreadable_update"] += 1
            return
        self._emit(made)

    def _requested(self, request: Any, method: str, params: dict[str, Any]) -> None:
        dialect, vendor = self._provider.dialect, method.removeprefix("_")
        if method == "session/request_permission":
            self._raise(request, asks.PERMISSION, params)
        elif dialect == "cursor" and method in asks.CURSOR:
            self._raise(request, asks.CURSOR[method], params)
        elif dialect == "grok" and vendor in asks.GROK:
            self._raise(request, asks.GROK[vendor], read.peel(params))
        elif dialect == "cursor" and method == "cursor/update_todos":
            events, todos = self._session.todos(params)
            self._emit(events)
            self._rpc.reply(request, {"outcome": {"outcome": "accepted", "todos": todos}})
        elif dialect == "cursor" and method == "cursor/task":
            self._map(lambda: self._session.task(params))
            self._rpc.reply(request, {"outcome": _receipt(params)})
        else:
            self._rpc.unknown(request, method)

    # ---- asks ----

    def _raise(self, request: Any, ask: asks.Ask, params: dict[str, Any]) -> None:
        body = ask.read(params)
        if body is None:
            self._rpc.invalid(request, ask.invalid)
            return
        if self._prompt is not None and self._prompt.cancelled:
            self._rpc.reply(request, ask.cancelled)
            return
        if ask.kind == "permission":
            body = self._permission(body, params)
        self._next_ask += 1
        self._asks[self._next_ask] = _Held(request, ask)
        self._post(port.AskRaised(self._next_ask, ask.kind, body))

    def _permission(self, body: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        """The body with its tool's title, which the session may know better, the tool shown
        first: some agents announce it nowhere else."""
        stream = self._session.stream(params) or self._session.main
        call = params["toolCall"]
        self._map(lambda: self._session.called(stream, call, call.get("_meta")))
        title = body.get("tool") or stream.tools.title(read.text(call, "toolCallId"))
        return {"tool": title or read.text(call, "kind") or "tool", "options": body["options"]}

    def answer(self, key: Any, ending: dict[str, Any]) -> None:
        held = self._asks.pop(key, None)
        if held is not None:
            self._rpc.reply(held.request, held.ask.answer(ending))

    def _withdrawn(self, request: Any) -> None:
        """`$/cancel_request` of the agent's: its ask is over, and is answered so, once."""
        for key, held in self._asks.items():
            if held.request == request and type(held.request) is type(request):
                del self._asks[key]
                self._rpc.refuse(request, CANCELLED, "request cancelled")
                self._post(port.AskWithdrawn(key))
                return

    def _cancel_asks(self) -> None:
        held, self._asks = self._asks, {}
        for parked in held.values():
            self._rpc.reply(parked.request, parked.ask.cancelled)

    # ---- prompts ----

    def prompt(self, turn: str, text: str) -> None:
        if self._prompt is not None:
            refusal = AgentError("acp: a prompt is already in flight", "prompt_in_flight")
        elif self._session.turns.foreign:
            refusal = AgentError("acp: agent is running a turn of its own", "foreign_turn")
        else:
            self._settle_replay()
            self._end_replay()
            prompt = self._prompt = _Prompt(turn, text)
            self._session.turns.begin()
            params = {
                "sessionId": self._session.id,
                "prompt": [{"type": "text", "text": text}],
            }
            prompt.call = self._rpc.call(
                "session/prompt", params, lambda r, e: self._answered(prompt, r, e)
            )
            return
        self._post(port.PromptEnded(turn, error=refusal))

    def _answered(self, prompt: _Prompt, result: Any, error: AgentError | None) -> None:
        number = read.text(read.inner(result, "_meta"), "promptId")
        if prompt is not self._prompt:
            self._session.turns.twin(number)
            return
        if error is not None and error.kind == "rpc" and prompt.cancelled:
            self._end("cancelled", number)  # how some agents answer a prompt that was aborted
        elif error is not None:
            self._end("", number, error)
        else:
            self._end(read.text(result, "stopReason") or "end_turn", number)

    def _completed(self, params: dict[str, Any]) -> None:
        """grok's word that a prompt is over, which may come before its reply."""
        number = read.text(params, "promptId")
        if self._session.turns.ours(number):
            self._end(read.text(params, "stopReason") or "end_turn", number)

    def _end(self, stop_reason: str, number: str, error: AgentError | None = None) -> None:
        prompt, self._prompt = self._prompt, None
        if prompt is None:
            return
        self._session.turns.end(number)
        if self._replay is not None:
            self._replayed(self._replay.settle())
            self._replay = None
        self._emit(self._session.ended(stop_reason, error is not None))
        self._post(port.PromptEnded(prompt.turn, stop_reason, error))

    def cancel(self, token: int) -> None:
        self._cancel_asks()
        prompt = self._prompt
        if prompt is not None and self._rpc.withdraw(prompt.call):
            self._prompt = None
            self._session.turns.end()
            withdrawn = AgentError("agent: prompt cancelled before it was sent", "prompt_cancelled")
            self._post(port.PromptEnded(prompt.turn, error=withdrawn))
            self._post(port.CancelReturned(token))
            return
        if prompt is not None:
            prompt.cancelled = True
        written = gevent.event.Event()
        line = self._rpc.notify("session/cancel", {"sessionId": self._session.id}, written.set)
        self._spawn(f"agent-cancel {token}", self._await_cancel, token, line, written)

    def _await_cancel(self, token: int, line: Outgoing, written: gevent.event.Event) -> None:
        process = self._process
        if process is None or process.exited.is_set():
            self._post(port.CancelReturned(token, AgentError("acp: agent exited", "closed")))
        elif written.wait(limits.CANCEL_WRITE):
            self._post(port.CancelReturned(token))
        else:
            begun = not process.withdraw(line)
            error = AgentError("acp: agent does not read its input: the cancel was not written")
            self._post(port.CancelReturned(token, error, possibly_written=begun))

    def interject(self, token: int, text: str) -> None:
        prompt = self._prompt
        if not self.capabilities["interject"]:
            self._post(port.InterjectReturned(token, refused="unsupported"))
        elif prompt is None or prompt.cancelled:
            self._post(port.InterjectReturned(token, refused="not_in_turn"))
        else:
            self._interjections += 1
            params = {
                "sessionId": self._session.id,
                "text": text,
                "interjectionId": f"craze-{self._interjections}",
            }
            self._spawn(f"agent-interject {token}", self._interject, token, params)

    def _interject(self, token: int, params: dict[str, Any]) -> None:
        try:
            self._rpc.ask("_x.ai/interject", params, limits.INTERJECT)
        except AgentFailure as failure:
            self._post(port.InterjectReturned(token, failure.error))
        else:
            self._post(port.InterjectReturned(token))

    # ---- settings ----

    def set(self, token: int, kind: str, option: str, value: str) -> None:
        catalog = self._session.catalog
        call = catalog.call(kind, option, value)
        if call is None:
            self._post(port.SettingReturned(token, refused="option_gone"))
        elif kind == "mode" and not catalog.advertises(value):
            self._post(port.SettingReturned(token, error=_no_mode(value)))
        else:
            wanted = port.SendSetting(token, kind, option, value)
            self._spawn(f"agent-set {token}", self._set, wanted, call)

    def _set(self, wanted: port.SendSetting, call: Call) -> None:
        params = {"sessionId": self._session.id, **call.params}
        try:
            self._rpc.ask(
                call.method,
                params,
                limits.SETTING,
                lambda result, error: self._post(self._setting(wanted, result, error)),
            )
        except AgentFailure as failure:
            if failure.error.kind == "deadline_exceeded":
                self._post(port.SettingReturned(wanted.token, error=failure.error))

    def _setting(
        self, wanted: port.SendSetting, result: Any, error: AgentError | None
    ) -> port.SettingReturned:
        """What became of a setting, read in the place of its reply among the agent's lines."""
        token, kind, option, value = wanted
        if error is not None:
            return port.SettingReturned(token, error=error)
        catalog = self._session.catalog
        before = catalog.settings()
        try:
            catalog.answered(kind, option, value, result)
        except BadCatalog:
            return port.SettingReturned(token, refused="bad_catalog")
        confirmed = catalog.confirmed(kind, option)
        if confirmed is None:
            return port.SettingReturned(token, refused="option_gone")
        after = catalog.settings()
        news = {**changed(before, after), kind: after[kind]}
        state = {name: news[name] for name in after if name in news}
        return port.SettingReturned(token, confirmed, state)

    def cancel_subagent(self, token: int, agent: str) -> None:
        self._post(port.SubagentCancelReturned(token, refused="unsupported"))

    # ---- the end ----

    def _exited(self) -> None:
        """The process has ended, whether it was told to or not."""
        process = self._process
        if process is None:
            return
        self._rpc.finish()
        if process.fault:
            error = AgentError(with_tail(f"acp: {process.fault}", process.stderr), "closed")
        else:
            error = exit_error(process.returncode or 0, self._initialized, process.stderr)
        self._gone = error
        held, self._asks = self._asks, {}
        for key in held:
            self._post(port.AskWithdrawn(key))
        if self._ready:
            turns = self._session.turns
            self._emit(turns.completed(turns.foreign))
            if self._prompt is not None:
                self._prompt = None
                self._emit(self._session.ended("", failed=True))
            self._post(port.AgentExited(error))
        self._rpc.lose(error)

    def close(self) -> None:
        self._silent = True
        if self._closer is None:
            self._closer = greenlets.spawn(f"agent-close {self._provider.name}", self._close)
        self._closer.join()

    def _close(self) -> None:
        process = self._process
        if process is not None and not process.exited.is_set():
            self._cancel_asks()
            if self._prompt is not None:
                self._prompt.cancelled = True
                self._rpc.notify("session/cancel", {"sessionId": self._session.id})
            process.flush(limits.CLOSE_WRITE)
        gevent.killall(list(self._working))
        if process is not None:
            process.stop()


def _no_mode(mode: str) -> AgentError:
    return AgentError(f'agent: session did not advertise mode "{mode}"')


def _receipt(params: dict[str, Any]) -> dict[str, Any]:
    """The answer to `cursor/task`: what it said, back."""
    told: dict[str, Any] = {"outcome": "completed"}
    if read.text(params, "agentId"):
        told["agentId"] = params["agentId"]
    if read.number(params, "durationMs"):
        told["durationMs"] = read.number(params, "durationMs")
    return told
