"""craze-fake-agent: an ACP agent that says what a script says, for anyone who tests a client.

It speaks the agent's side of the protocol on its stdin and stdout with the standard library alone:
one thread, no clock, no chance. A script decides what its prompts do; while a prompt runs, requests
and cancels are still read and answered, so a script may wait for either.
"""

import json
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_USAGE = "usage: craze-fake-agent [-script NAME]"


class Refused(Exception):
    """A call that the agent answers with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Ended(Exception):
    """The client closed our stdin."""


class Turn(NamedTuple):
    """One prompt: its id (grok's), its place among the session's, its words and its blocks."""

    id: str
    number: int
    text: str
    blocks: list[dict[str, Any]]


class Script(NamedTuple):
    """What one script does: `turn` runs a prompt and returns its stop reason (None: `end_turn`);
    `calls` replaces what a method answers; `begin` runs before anything is read."""

    turn: Callable[["Agent", Turn], str | None]
    grok: bool = False
    load: bool = False
    calls: Mapping[str, Callable[["Agent", dict[str, Any]], Any]] = {}
    begin: Callable[["Agent"], None] | None = None


class Flavour(NamedTuple):
    """What sets the two kinds of agent apart."""

    auth: list[dict[str, str]]
    modes: list[dict[str, str]]
    models: list[tuple[str, str]]
    options: list[dict[str, Any]]


def _rows(*names: str) -> list[dict[str, str]]:
    return [{"id": name, "name": name.capitalize()} for name in names]


def select_option(
    number: str, name: str, category: str, current: str, *values: tuple[str, str]
) -> dict[str, Any]:
    """A `select` config option."""
    return {
        "id": number,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": [{"value": value, "name": label} for value, label in values],
    }


CURSOR = Flavour(
    auth=[{"id": "cursor_login", "name": "Cursor login"}],
    modes=_rows("agent", "plan", "ask"),
    models=[("default", "Default"), ("composer", "Composer")],
    options=[
        select_option(
            "effort", "Effort", "thought_level", "medium",
            ("low", "Low"), ("medium", "Medium"), ("high", "High"),
        ),
        select_option(
            "fast", "Fast", "model_config", "false",
            ("false", "Off"), ("true", "Fast\u200b\u200b"),
        ),
    ],
)  # fmt: skip

GROK = Flavour(
    auth=[
        {"id": "xai.api_key", "name": "xAI API key"},
        {"id": "cached_token", "name": "Cached token"},
    ],
    modes=_rows("default", "plan", "ask"),
    models=[("grok-4.6", "Grok 4.6")],
    options=[
        select_option(
            "reasoning_effort", "Reasoning Effort", "thought_level", "high",
            ("low", "Low"), ("high", "High"),
        ),
    ],
)  # fmt: skip

COMMANDS = [{"name": "research", "description": "Agent-advertised command"}]


class Agent:
    """The agent: its settings, what it has been told, and what a script may do."""

    def __init__(self, script: Script, env: Mapping[str, str], argv: list[str]) -> None:
        self.script = script
        self.env = env
        self.flavour = GROK if script.grok else CURSOR
        self.session = ""
        self.cwd = ""
        self.mode = self.flavour.modes[0]["id"]
        self.models = list(self.flavour.models)
        self.model = self.models[0][0]
        self.options = [dict(option) for option in self.flavour.options]
        self.commands = list(COMMANDS)
        self.called: list[str] = []
        self.cancelled = False
        self.answering: dict[str, Any] = {}  # the request that a method's hook is answering
        self.interjections: deque[dict[str, Any]] = deque()
        self._turns = 0
        self._running = False
        self._prompts: deque[dict[str, Any]] = deque()
        self._replies: dict[int, dict[str, Any]] = {}
        self._sent = 0
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._dump("CRAZE_FAKE_DUMP_ARGV", argv)

    # ---- the wire ----

    def write(self, data: bytes) -> None:
        """Bytes on stdout, whatever they are."""
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def send(self, message: dict[str, Any]) -> None:
        """One JSON-RPC message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send({"method": method, "params": params})

    def reply(self, request: dict[str, Any], result: Any) -> None:
        self.send({"id": request["id"], "result": result})

    def ask(self, method: str, params: dict[str, Any]) -> int:
        """Send a request of our own; its id."""
        number = self._sent
        self._sent += 1
        self.send({"id": number, "method": method, "params": params})
        return number

    def answered(self, number: int) -> dict[str, Any]:
        """Wait for the answer to a request of ours."""
        self.until(lambda: number in self._replies)
        return self._replies.pop(number)

    def answer(self, number: int) -> Any:
        """Wait for the answer to a request of ours: its result, or None for an error."""
        return self.answered(number).get("result")

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Ask and wait for the answer."""
        return self.answer(self.ask(method, params))

    def until(self, done: Callable[[], Any], seconds: float | None = None) -> bool:
        """Read and answer the client until `done()`; False when `seconds` passed first."""
        end = None if seconds is None else time.monotonic() + seconds
        while not done():
            left = None if end is None else max(0.0, end - time.monotonic())
            message = self.read(left)
            if message is None:
                return False
            self.take(message)
        return True

    def read(self, seconds: float | None = None, gate: int = -1) -> dict[str, Any] | None:
        """The client's next message; None when `seconds` passed or the `gate` became readable.
        Raises Ended."""
        while not self._lines:
            ready, _, _ = select.select([0] if gate < 0 else [0, gate], [], [], seconds)
            if not ready or gate in ready:
                return None
            data = os.read(0, 65536)
            if not data:
                raise Ended
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(line for line in lines if line.strip())
        message: dict[str, Any] = json.loads(self._lines.popleft())
        return message

    def gate(self, variable: str) -> None:
        """Wait for one byte from the FIFO that the variable names, if it names one."""
        path = self.env.get(variable, "")
        if not path:
            return
        fd = os.open(path, os.O_RDWR)  # never at its end for want of a writer
        try:
            while not select.select([fd], [], [], 0)[0]:
                message = self.read(None, fd)
                if message is not None:
                    self.take(message)
            os.read(fd, 1)
        finally:
            os.close(fd)

    def _dump(self, variable: str, value: Any) -> None:
        path = self.env.get(variable, "")
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(value) + "\n")

    # ---- what a script says ----

    def update(self, kind: str, session: str = "", /, **members: Any) -> None:
        """One `session/update`, of our session or another."""
        params = {
            "sessionId": session or self.session,
            "update": {"sessionUpdate": kind, **members},
        }
        self.notify("session/update", params)

    def text(self, words: str, session: str = "") -> None:
        content = {"type": "text", "text": words}
        self.update("agent_message_chunk", session, content=content)

    def thought(self, words: str, session: str = "") -> None:
        content = {"type": "text", "text": words}
        self.update("agent_thought_chunk", session, content=content)

    def user(self, words: str, session: str = "") -> None:
        self.update("user_message_chunk", session, content={"type": "text", "text": words})

    def advertise(self) -> None:
        """Tell which commands there are."""
        self.update("available_commands_update", availableCommands=self.commands)

    def set_mode(self, mode: str) -> None:
        """Change the mode of our own accord."""
        self.mode = mode
        self.update("current_mode_update", currentModeId=mode)

    def hold(self) -> None:
        """Wait until the turn is cancelled."""
        self.until(lambda: self.cancelled)

    # ---- what the client says ----

    def run(self) -> None:
        """Serve until the client closes our stdin."""
        if self.script.begin is not None:
            self.script.begin(self)
        while True:
            if self._prompts and not self._running:
                self._prompted(self._prompts.popleft())
                continue
            message = self.read()
            if message is not None:
                self.take(message)

    def take(self, message: dict[str, Any]) -> None:
        """Answer one message; a prompt waits for its turn."""
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            self._replies[message.get("id", -1)] = message
            return
        self.called.append(method)
        self._dump("CRAZE_FAKE_DUMP_CALLS", {"method": method, "params": params})
        if method == "session/cancel":
            self.cancelled = True
        elif method == "session/prompt":
            self._dump("CRAZE_FAKE_DUMP_PROMPTS", params)
            self._prompts.append(message)
        elif "id" in message:
            self._call(message, method, params)

    def _call(self, message: dict[str, Any], method: str, params: dict[str, Any]) -> None:
        handler = self.script.calls.get(method) or _CALLS.get(method)
        self.answering = message
        try:
            if handler is None:
                raise Refused(-32601, f"Method not found: {method}")
            result = handler(self, params)
        except Refused as refusal:
            error = {"code": refusal.code, "message": refusal.message}
            self.send({"id": message["id"], "error": error})
            return
        if result is not NOTHING:
            self.reply(message, result)
        if method in _AFTER:
            _AFTER[method](self)

    def _prompted(self, message: dict[str, Any]) -> None:
        blocks = message["params"]["prompt"]
        words = "".join(block.get("text", "") for block in blocks)
        self._turns += 1
        turn = Turn(f"prompt-{self._turns}", self._turns, words, blocks)
        self._running, self.cancelled = True, False
        try:
            if self.script.grok:
                self.queue(turn.id, words)
            self.gate("CRAZE_FAKE_GATE")
            reason = self.script.turn(self, turn) or "end_turn"
        except Refused as refusal:
            error = {"code": refusal.code, "message": refusal.message}
            self.send({"id": message["id"], "error": error})
            return
        finally:
            self._running = False
        result: dict[str, Any] = {"stopReason": reason}
        if self.script.grok:
            result["_meta"] = {"promptId": turn.id}
            self.complete(turn.id, reason)
        self.reply(message, result)

    def queue(self, number: str, words: str) -> None:
        """grok's word on which prompt is running."""
        running = {"runningPromptId": number, "runningText": words, "runningKind": "prompt"}
        params = {"sessionId": self.session, "entries": [], **running}
        self.notify("_x.ai/queue/changed", params)

    def complete(self, number: str, reason: str) -> None:
        """grok's two notifications of a turn's end."""
        self.notice("turn_completed", prompt_id=number, stop_reason=reason)
        self.notify(
            "_x.ai/session/prompt_complete",
            {"sessionId": self.session, "promptId": number, "stopReason": reason},
        )

    def notice(self, kind: str, **members: Any) -> None:
        """A grok session notification."""
        update = {"sessionUpdate": kind, **members}
        self.notify("_x.ai/session_notification", {"sessionId": self.session, "update": update})

    # ---- settings ----

    def model_list(self) -> dict[str, Any]:
        models = [{"modelId": number, "name": name} for number, name in self.models]
        return {"currentModelId": self.model, "availableModels": models}

    def settings(self) -> dict[str, Any]:
        """What `session/new` and `session/load` say of the session."""
        return {
            "modes": {"currentModeId": self.mode, "availableModes": self.flavour.modes},
            "models": self.model_list(),
            "configOptions": self.options,
        }

    def option(self, number: str) -> dict[str, Any]:
        """A config option; raises Refused for one that there is not."""
        for option in self.options:
            if option["id"] == number:
                return option
        raise Refused(-32602, f"no such option: {number}")


NOTHING = object()  # a call that is answered later, or never


def initialize(agent: Agent, params: dict[str, Any]) -> Any:
    """The answer to `initialize`."""
    return {
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": agent.script.load},
        "authMethods": agent.flavour.auth,
        "agentInfo": {"name": "craze-fake-agent", "version": "test"},
    }


def _authenticate(agent: Agent, params: dict[str, Any]) -> Any:
    agent._dump("CRAZE_FAKE_DUMP_AUTH", params)
    return {}


def _name_session(agent: Agent, params: dict[str, Any]) -> None:
    agent.cwd = params.get("cwd", "")
    name = agent.env.get("CRAZE_FAKE_SESSION_ID") or "fake-session-1"
    agent.session = name.replace("{dir}", os.path.basename(agent.cwd))


def new_session(agent: Agent, params: dict[str, Any]) -> Any:
    """Open the session: the answer to `session/new`."""
    _name_session(agent, params)
    return {"sessionId": agent.session, **agent.settings()}


def load_session(agent: Agent, params: dict[str, Any]) -> Any:
    """Replay two turns: the answer to `session/load`."""
    if not agent.script.load:
        raise Refused(-32601, "Method not found: session/load")
    agent.cwd, agent.session = params.get("cwd", ""), params["sessionId"]
    for number in (1, 2):
        agent.user(f"question {number}")
        agent.thought(f"thinking {number}")
        agent.text(f"answer {number}")
    return agent.settings()


def _advertise(agent: Agent) -> None:
    late = agent.env.get("CRAZE_FAKE_LATE_CATALOG", "")
    if late:  # milliseconds; anything else is one long look away
        agent.until(lambda: False, (int(late) if late.isdigit() else 200) / 1000)
    if agent.commands:
        agent.advertise()


def _setting(
    apply: Callable[[Agent, dict[str, Any]], Any],
) -> Callable[[Agent, dict[str, Any]], Any]:
    def call(agent: Agent, params: dict[str, Any]) -> Any:
        request = agent.answering
        agent.gate("CRAZE_FAKE_SET_GATE")
        agent.answering = request
        if agent.env.get("CRAZE_FAKE_SET_REFUSE"):
            raise Refused(-32602, "the setting was refused")
        return apply(agent, params)

    return call


def _set_mode(agent: Agent, params: dict[str, Any]) -> Any:
    if params["modeId"] not in [mode["id"] for mode in agent.flavour.modes]:
        raise Refused(-32602, f"no such mode: {params['modeId']}")
    agent.mode = params["modeId"]
    return {}


def _set_model(agent: Agent, params: dict[str, Any]) -> Any:
    if params["modelId"] not in [number for number, _ in agent.models]:
        raise Refused(-32602, f"no such model: {params['modelId']}")
    agent.model = params["modelId"]
    return {}


def set_option(agent: Agent, params: dict[str, Any]) -> Any:
    """The plain answer to `session/set_config_option`."""
    option = agent.option(params["configId"])
    if params["value"] not in [value["value"] for value in option["options"]]:
        raise Refused(-32602, f"no such value: {params['value']}")
    option["currentValue"] = params["value"]
    return {"configOptions": agent.options}


def _interject(agent: Agent, params: dict[str, Any]) -> Any:
    agent.interjections.append(params)
    return {"result": {"status": "queued"}}


_CALLS: dict[str, Callable[[Agent, dict[str, Any]], Any]] = {
    "initialize": initialize,
    "authenticate": _authenticate,
    "session/new": new_session,
    "session/load": load_session,
    "session/set_mode": _setting(_set_mode),
    "session/set_model": _setting(_set_model),
    "session/set_config_option": _setting(set_option),
    "_x.ai/interject": _interject,
}

_AFTER: dict[str, Callable[[Agent], None]] = {
    "session/new": _advertise,
    "session/load": _advertise,
}


def _named(argv: list[str], env: Mapping[str, str]) -> str:
    """The script's name; "" for a call of help. A flag wins over the variable."""
    name = ""
    arguments = iter(argv)
    for argument in arguments:
        if argument in ("-h", "-help", "--help"):
            return ""
        if argument in ("-script", "--script"):
            name = next(arguments, "")
        elif argument.startswith(("-script=", "--script=")):
            name = argument.partition("=")[2]
    return name or env.get("CRAZE_FAKE_SCRIPT") or "echo"


def main() -> None:
    """The console script."""
    from craze.fakes.agent_scripts import SCRIPTS

    name = _named(sys.argv[1:], os.environ)
    if not name:
        print(_USAGE)
        print("scripts: " + " ".join(sorted(SCRIPTS)))
        return
    if name not in SCRIPTS:
        print(f'craze-fake-agent: unknown script "{name}"', file=sys.stderr)
        sys.exit(2)
    stubborn = os.environ.get("CRAZE_FAKE_STUBBORN") == "1"
    if stubborn:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
    if os.environ.get("CRAZE_FAKE_STDERR"):
        print(os.environ["CRAZE_FAKE_STDERR"], file=sys.stderr, flush=True)
    try:
        Agent(SCRIPTS[name], os.environ, sys.argv).run()
    except (Ended, BrokenPipeError):
        if stubborn:
            time.sleep(90)
        elif os.environ.get("CRAZE_FAKE_LINGER") == "1":
            time.sleep(30)
    except KeyboardInterrupt:
        sys.exit(130)
