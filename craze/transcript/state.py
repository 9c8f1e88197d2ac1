"""What a session's events add up to, beside the transcripts: asks, roster, turn, settings, queue.

The parts only hold; `craze.transcript.rules` changes them. Payloads are the events' own objects,
held by reference, and never changed.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from craze.transcript.entries import Names, Transcript
from craze.wire import limits

# The sections of `settings`, in the snapshot's order; usage and catalog are never cut.
SECTIONS: Final = (
    "title", "mode", "model", "config", "commands", "plugins", "sendNow", "usage", "catalog",
    "slash",
)  # fmt: skip
CAPPED_SECTIONS: Final = tuple(name for name in SECTIONS if name not in ("usage", "catalog"))


class Bounds(NamedTuple):
    """How much is kept; every folder of a session keeps the same."""

    main_entries: int = limits.MAIN_ENTRIES
    main_bytes: int = limits.MAIN_BYTES
    child_entries: int = limits.CHILD_ENTRIES
    child_bytes: int = limits.CHILD_BYTES
    finished: int = limits.FINISHED_AGENTS
    ended: int = limits.ASKS_KEPT


BOUNDS: Final = Bounds()


class Ask:
    """An open ask: `body` is the payload of its kind, `at` the opening's time."""

    __slots__ = ("at", "body", "id", "kind", "truncated")

    def __init__(
        self, id: str, kind: str, body: Mapping[str, Any], at: str, truncated: bool = False
    ) -> None:
        self.id = id
        self.kind = kind
        self.body = body
        self.at = at
        self.truncated = truncated


class Agent:
    """A roster row; `finish` is its place in the order of finishing, 0 while it has none."""

    __slots__ = ("finish", "info", "truncated")

    def __init__(self, info: Mapping[str, Any], finish: int = 0, truncated: bool = False) -> None:
        self.info = info
        self.finish = finish
        self.truncated = truncated


class Turn:
    """The last turn of craze's to start (`id` is "" once it has ended), and the last bracket of
    one the agent ran itself."""

    __slots__ = ("at", "foreign", "id", "origin", "text", "truncated")

    def __init__(self) -> None:
        self.id = self.text = self.origin = self.at = ""
        self.foreign: Mapping[str, Any] | None = None
        self.truncated = False


class State:
    """A session as its events left it (codecs 3)."""

    __slots__ = (
        "agents", "ask_cards", "asks", "bounds", "cut_rows", "cut_sections", "ended", "finish_seq",
        "incarnation", "last_turn", "main", "names", "plan_cards", "queue", "replaying", "seq",
        "settings", "subs", "todos", "todos_truncated", "turn",
    )  # fmt: skip

    def __init__(
        self,
        incarnation: str = "",
        *,
        ask_cards: bool = True,
        plan_cards: bool = True,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.incarnation = incarnation
        self.seq = 0
        self.ask_cards = ask_cards
        self.plan_cards = plan_cards
        self.bounds = bounds
        self.names = Names()
        self.main = Transcript("", self.names, bounds.main_entries, bounds.main_bytes)
        self.subs: dict[str, Transcript] = {}
        self.agents: dict[str, Agent] = {}
        self.finish_seq = 0
        self.todos: list[dict[str, Any]] = []
        self.todos_truncated = False
        self.asks: dict[str, Ask] = {}
        self.ended: dict[str, dict[str, Any]] = {}  # wire records, oldest first
        self.turn = Turn()
        self.replaying = False
        self.settings: dict[str, Any] = {}  # sections that hold something
        self.cut_sections: set[str] = set()
        self.queue: list[Mapping[str, Any]] = []
        self.cut_rows: set[str] = set()  # queue rows whose text a snapshot cut
        self.last_turn: dict[str, Any] | None = None

    def child(self, agent: str) -> Transcript:
        """A sub-agent's transcript, made on first use."""
        found = self.subs.get(agent)
        if found is None:
            bounds = self.bounds
            found = Transcript(agent, self.names, bounds.child_entries, bounds.child_bytes)
            self.subs[agent] = found
        return found
