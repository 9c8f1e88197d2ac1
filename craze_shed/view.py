"""What a reader of one lane, or of one source, sees: frames folded in the order they came.

A reseed is staged and swapped in whole, so a half-seeded transcript never shows. A view never
decides that a lane is over: `craze_shed.course` does, for whoever holds the lane open.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from craze_shed.contract import frames
from craze_shed.contract.approvals import LaneApproval
from craze_shed.contract.capabilities import LaneCapabilities, SourceCapabilities
from craze_shed.contract.frames import LaneFrame, SourceFrame
from craze_shed.contract.rows import MAX_RING_MESSAGES, UNKNOWN, FeedMessage
from craze_shed.contract.sessions import LaneSession
from craze_shed.contract.settings import LaneSettings
from craze_shed.menu import SlashMenu, resolve


@dataclass(frozen=True, slots=True)
class LaneViewSnapshot:
    """What a lane shows. `messages` are all the rows where `full`, else those after the seq that
    was asked; `generation` counts the seeds shown, 0 before the first; `stale` says why it is not
    live, None while it is; `ended` that its stream went down."""

    messages: tuple[FeedMessage, ...]
    full: bool
    activity: str
    session: LaneSession | None
    generation: int
    stale: str | None
    ended: bool
    capabilities: LaneCapabilities | None
    settings: LaneSettings | None
    slash_menu: SlashMenu | None
    approvals: tuple[LaneApproval, ...]

    @property
    def banner(self) -> str | None:
        """The line above a transcript that is not live."""
        if self.stale is None:
            return None
        state = "ended" if self.ended else "not live"
        return f"{state} · {self.stale} — showing the last known transcript"


class _Shown:
    """What one seed has filled, or is filling."""

    __slots__ = (
        "approvals", "capabilities", "catalog", "generation", "messages", "seed", "session",
        "settings",
    )  # fmt: skip

    def __init__(self, generation: int = 0, seed: int | None = None) -> None:
        self.generation = generation  # the view's
        self.seed = seed  # the adapter's; None: no Ready completes it
        self.messages: deque[FeedMessage] = deque(maxlen=MAX_RING_MESSAGES)
        self.approvals: dict[str, LaneApproval] = {}
        self.session: LaneSession | None = None
        self.capabilities: LaneCapabilities | None = None
        self.settings: LaneSettings | None = None
        self.catalog: frames.SlashCatalog | None = None


class LaneView:
    """One lane's frames, from however many subscriptions in a row, folded into what shows."""

    def __init__(self) -> None:
        self._started = 0
        self._stale: str | None = None
        self._ended = False
        self._live = _Shown()
        self._staged: _Shown | None = None
        self._menu: tuple[Any, SlashMenu | None] = ((None, None, None), None)

    def __repr__(self) -> str:
        shown = self._live
        state = "ended" if self._ended else self._stale or "live"
        return f"<LaneView {shown.generation}: {state}, {len(shown.messages)} rows>"

    def apply(self, frame: LaneFrame) -> None:
        """Fold one frame. A kind that this build does not know changes nothing."""
        fold = self._FOLDS.get(type(frame))
        if fold is not None:
            fold(self, frame)

    def snapshot(self, since_seq: int | None = None) -> LaneViewSnapshot:
        """What shows now; of the rows, only those after `since_seq` where that seq is among those
        held."""
        live = self._live
        messages = tuple(live.messages)
        seqs = [row.seq for row in messages]
        full = since_seq is None or not seqs or not min(seqs) <= since_seq <= max(seqs)
        if since_seq is not None and not full:
            messages = tuple(row for row in messages if row.seq > since_seq)
        settled = live.capabilities is not None and live.capabilities.settings
        settings = live.settings if settled else None
        return LaneViewSnapshot(
            messages=messages,
            full=full,
            activity=live.session.activity if live.session else UNKNOWN,
            session=live.session,
            generation=live.generation,
            stale=self._stale,
            ended=self._ended,
            capabilities=live.capabilities,
            settings=settings,
            slash_menu=self._resolved(live.catalog, live.capabilities, settings),
            approvals=tuple(sorted(live.approvals.values(), key=_asked)),
        )

    @property
    def _target(self) -> _Shown:
        return self._live if self._staged is None else self._staged

    def _reset(self, frame: frames.Reset) -> None:
        self._started += 1
        self._staged = _Shown(self._started, frame.generation)

    def _message(self, frame: frames.Message) -> None:
        self._target.messages.append(frame.message)

    def _session(self, frame: frames.Session) -> None:
        self._target.session = frame.session

    def _capabilities(self, frame: frames.Capabilities) -> None:
        target = self._target
        if not frame.capabilities.settings:
            target.settings = None
        target.capabilities = frame.capabilities

    def _settings(self, frame: frames.Settings) -> None:
        self._target.settings = frame.settings

    def _catalog(self, frame: frames.SlashCatalog) -> None:
        self._target.catalog = frame

    def _approval(self, frame: frames.Approval) -> None:
        approval = frame.approval
        self._target.approvals.pop(approval.id, None)
        if approval.pending:
            self._target.approvals[approval.id] = approval

    def _ready(self, frame: frames.Ready) -> None:
        if self._staged is not None:
            if self._staged.seed == frame.generation:
                self._live, self._staged = self._staged, None
                self._stale, self._ended = None, False
        elif self._live.seed == frame.generation:
            self._stale = None

    def _lost(self, frame: frames.Stale | frames.Down) -> None:
        if self._staged is not None:
            self._staged = _Shown()  # what is still on its way of that seed lands nowhere
        self._stale = frame.reason

    def _down(self, frame: frames.Down) -> None:
        self._lost(frame)
        self._ended = True

    def _resolved(
        self,
        catalog: frames.SlashCatalog | None,
        capabilities: LaneCapabilities | None,
        settings: LaneSettings | None,
    ) -> SlashMenu | None:
        sources = (catalog, capabilities, settings)
        if any(new is not old for new, old in zip(sources, self._menu[0], strict=True)):
            menu = None
            if catalog is not None:
                menu = resolve(catalog.items, catalog.aside, capabilities, settings)
            self._menu = (sources, menu)
        return self._menu[1]

    _FOLDS: Final[dict[type, Callable[..., None]]] = {
        frames.Reset: _reset,
        frames.Message: _message,
        frames.Session: _session,
        frames.Capabilities: _capabilities,
        frames.Settings: _settings,
        frames.SlashCatalog: _catalog,
        frames.Approval: _approval,
        frames.Ready: _ready,
        frames.Stale: _lost,
        frames.Down: _down,
    }


def _asked(approval: LaneApproval) -> tuple[bool, int, str]:
    at = approval.created_at_unix_ms
    return at is not None, at or 0, approval.id


# ---- a source ----


class SourceChange(NamedTuple):
    """The sessions that a frame listed, whether they were before or not, and those it took off."""

    listed: tuple[str, ...] = ()
    departed: tuple[str, ...] = ()


class _Listed:
    __slots__ = ("capabilities", "seed", "sessions")

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self.sessions: dict[str, LaneSession] = {}
        self.capabilities: SourceCapabilities | None = None


class SourceView:
    """One source's frames folded into the list that shows. While the source is offline the rows
    last listed stay, and say that they are approximate."""

    def __init__(self) -> None:
        self._live = _Listed()
        self._staged: _Listed | None = None
        self.offline: frames.SourceOffline | None = None
        self.truncated = False

    def __repr__(self) -> str:
        state = self.offline.cause if self.offline else "live"
        return f"<SourceView {state}: {len(self._live.sessions)} sessions>"

    @property
    def sessions(self) -> tuple[LaneSession, ...]:
        """The rows, in the order they were first listed."""
        rows = self._live.sessions.values()
        if self.offline is None:
            return tuple(rows)
        return tuple(replace(row, approximate=True) for row in rows)

    @property
    def capabilities(self) -> SourceCapabilities | None:
        return self._live.capabilities

    def apply(self, frame: SourceFrame) -> SourceChange:
        """Fold one frame; what it changed in the list that shows."""
        fold = self._FOLDS.get(type(frame))
        return SourceChange() if fold is None else fold(self, frame)

    def go_dormant(self) -> SourceChange:
        """What serves the sessions is gone, and its rows with it."""
        departed = tuple(self._live.sessions)
        self._live, self._staged = _Listed(), None
        self.offline, self.truncated = None, False
        return SourceChange(departed=departed)

    @property
    def _target(self) -> _Listed:
        return self._live if self._staged is None else self._staged

    def _reset(self, frame: frames.SourceReset) -> SourceChange:
        self._staged = _Listed(frame.generation)
        return SourceChange()

    def _session(self, frame: frames.SourceSession) -> SourceChange:
        self._target.sessions[frame.session.id] = frame.session
        return SourceChange(listed=(frame.session.id,) if self._staged is None else ())

    def _removed(self, frame: frames.SourceRemoved) -> SourceChange:
        held = self._target.sessions.pop(frame.session_id, None)
        left = held is not None and self._staged is None
        return SourceChange(departed=(frame.session_id,) if left else ())

    def _capable(self, frame: frames.SourceCapabilitiesFrame) -> SourceChange:
        self._target.capabilities = frame.capabilities
        return SourceChange()

    def _ready(self, frame: frames.SourceReady) -> SourceChange:
        seed = self._staged
        if seed is None or seed.seed != frame.generation:
            return SourceChange()
        departed = tuple(one for one in self._live.sessions if one not in seed.sessions)
        self._live, self._staged = seed, None
        self.offline, self.truncated = None, frame.truncated
        return SourceChange(tuple(seed.sessions), departed)

    def _offline(self, frame: frames.SourceOffline) -> SourceChange:
        if self._staged is not None:
            self._staged = _Listed()
        self.offline = frame
        return SourceChange()

    _FOLDS: Final[dict[type, Callable[..., SourceChange]]] = {
        frames.SourceReset: _reset,
        frames.SourceSession: _session,
        frames.SourceRemoved: _removed,
        frames.SourceCapabilitiesFrame: _capable,
        frames.SourceReady: _ready,
        frames.SourceOffline: _offline,
    }
