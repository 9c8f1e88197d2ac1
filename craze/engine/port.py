"""What passes between the engine and everything around it.

The engine is a function of its inputs: `step(input, now) -> effects`. It never waits, never calls
an agent and never reads a clock. A runner feeds it these inputs, carries out these effects, and
feeds what becomes of them back as further inputs.
"""

from typing import Any, NamedTuple, Protocol

Event = dict[str, Any]


class AgentError(NamedTuple):
    """A failure of the agent's; `kind` is the wire's error class (codecs 1.4, `err`)."""

    message: str
    kind: str = "other"
    code: int = 0


# ---- inputs: from the host's clients ----


class Command(NamedTuple):
    """A mutating command past the socket layer: answered by exactly one `Reply(token, …)`."""

    token: Any  # the runner's own handle
    client: str
    command: str
    method: str
    args: dict[str, Any]  # decoded params without sessionId and commandId
    hash: str  # of the method and its arguments


class CommandExpired(NamedTuple):
    """The bound of a waiting command (interject, cancel, set) has passed."""

    token: Any


class Close(NamedTuple):
    """The session ends: stop, signal, idle exit, or its agent's death during the start."""


class CancelTurn(NamedTuple):
    """The host itself cancels whatever runs; nobody waits for what becomes of it."""


class Fence(NamedTuple):
    """The host is deciding whether to idle out: up refuses admissions with `closing`."""

    up: bool


class TimerFired(NamedTuple):
    name: str


# ---- inputs: from the agent ----


class AgentReady(NamedTuple):
    """The start has finished. `state` is the install delta's sections, in wire order."""

    provider_session: str
    models: list[dict[str, Any]]
    modes: list[dict[str, Any]]
    state: dict[str, Any]


class StartFailed(NamedTuple):
    error: AgentError


class AgentEvent(NamedTuple):
    """An event the session authors: text, thought, tool, todos, user, meta, subagent, command,
    foreign_turn, replay, compaction. (`done`, `error`, asks and turns the engine writes itself.)"""

    event: Event


class PromptEnded(NamedTuple):
    """The agent's answer to `SendPrompt`. With an error of kind `prompt_cancelled`,
    `prompt_in_flight` or `foreign_turn` the prompt never reached the agent."""

    turn: str
    stop_reason: str = ""
    error: AgentError | None = None


class CancelReturned(NamedTuple):
    token: int
    error: AgentError | None = None
    possibly_written: bool = False  # it gave up after a possible write: outcome unknown


class InterjectReturned(NamedTuple):
    token: int
    error: AgentError | None = None
    refused: str = ""  # a reason when the agent cannot: not_in_turn, unsupported


class SettingReturned(NamedTuple):
    """`value` is the confirmed one and `state` the delta's sections, in wire order."""

    token: int
    value: str = ""
    state: dict[str, Any] | None = None
    error: AgentError | None = None
    refused: str = ""  # option_gone, bad_catalog, unsupported


class SubagentCancelReturned(NamedTuple):
    token: int
    refused: str = ""
    error: AgentError | None = None


class AskRaised(NamedTuple):
    """The agent asks. `key` is its own handle, `body` the payload without an id: the engine gives
    it one, unless it came with an `id` of its own. The end of the turn it comes in ends it."""

    key: Any
    kind: str  # permission, question, plan
    body: dict[str, Any]
    id: str = ""


class AskWithdrawn(NamedTuple):
    """The agent gave up waiting for an answer; no `AnswerAsk` follows for it."""

    key: Any


class AgentExited(NamedTuple):
    """The agent's process ended by itself."""

    error: AgentError


class TitleWritten(NamedTuple):
    """The index write asked for by `WriteTitle` is done; `error` is its failure's text. With a
    token of None: an index write of the runner's own, whose failure the session tells."""

    token: Any
    error: str = ""


class ModelsRefreshed(NamedTuple):
    """A session that takes up models while it runs has: the new list, or None for no change."""

    models: list[dict[str, Any]] | None
    revision: int


# ---- effects ----


class Reply(NamedTuple):
    """The answer of a command: a result object, or a `craze.wire.codes.Refusal`."""

    token: Any
    answer: Any


class SendPrompt(NamedTuple):
    turn: str
    text: str


class SendCancel(NamedTuple):
    token: int


class SendInterject(NamedTuple):
    token: int
    text: str


class SendSetting(NamedTuple):
    token: int
    kind: str  # model, mode, config
    option: str
    value: str


class SendSubagentCancel(NamedTuple):
    token: int
    agent: str


class AnswerAsk(NamedTuple):
    """How an ask ended, for the agent: `ending` is the `ask` payload of its ending event."""

    key: Any
    ending: dict[str, Any]


class CloseAgent(NamedTuple):
    pass


class Timer(NamedTuple):
    name: str
    seconds: float


class WriteTitle(NamedTuple):
    token: Any
    title: str
    pinned: bool


class JournalNote(NamedTuple):
    """A journal line that is no event: `prompt`, `prompt_end`, `session`, `diag`."""

    kind: str
    fields: dict[str, Any]


class Started(NamedTuple):
    """The start has finished (or failed); `seq` is the log's head at that moment."""

    seq: int
    error: AgentError | None = None


class Ended(NamedTuple):
    """The session is over: its last record is in the log."""


class Agent(Protocol):
    """What drives one agent. No method waits: what becomes of each call is posted to the sink
    given to the constructor, `post(input)`, from any greenlet, at once or later."""

    capabilities: dict[str, bool]  # the first twelve session capabilities, by wire name

    def start(self) -> None:
        """Begin: posts `AgentReady` or `StartFailed`."""

    def prompt(self, turn: str, text: str) -> None: ...
    def cancel(self, token: int) -> None: ...
    def interject(self, token: int, text: str) -> None: ...
    def set(self, token: int, kind: str, option: str, value: str) -> None: ...
    def cancel_subagent(self, token: int, agent: str) -> None: ...
    def answer(self, key: Any, ending: dict[str, Any]) -> None: ...

    def close(self) -> None:
        """End the agent: first answers what is open, then stdin, TERM, KILL. Waits until nothing
        of it runs (the one method that waits; a second call joins the first)."""
