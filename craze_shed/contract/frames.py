"""The frames that a lane and a source stream, and the reasons that end a lane for good."""

from dataclasses import dataclass
from typing import ClassVar, Final

from craze.wire import json
from craze_shed.contract import codec
from craze_shed.contract.approvals import LaneApproval
from craze_shed.contract.capabilities import LaneCapabilities, SourceCapabilities
from craze_shed.contract.rows import FeedMessage
from craze_shed.contract.sessions import LaneSession
from craze_shed.contract.settings import LaneSettings
from craze_shed.contract.slash import SlashRows

# ---- a lane's ----


@dataclass(frozen=True, slots=True)
class Message(codec.Variant):
    """A row."""

    kind: ClassVar[str] = "message"
    message: FeedMessage
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Session(codec.Variant):
    """The session's own row changed; its activity is in it."""

    kind: ClassVar[str] = "session"
    session: LaneSession


@dataclass(frozen=True, slots=True)
class Approval(codec.Variant):
    """An ask as it stands now; the last one of an id counts."""

    kind: ClassVar[str] = "approval"
    approval: LaneApproval


@dataclass(frozen=True, slots=True)
class Capabilities(codec.Variant):
    """What the session can do: in every seed, and on change."""

    kind: ClassVar[str] = "capabilities"
    capabilities: LaneCapabilities


@dataclass(frozen=True, slots=True)
class Settings(codec.Variant):
    """The settings: where the capabilities say so, in every seed, and on change."""

    kind: ClassVar[str] = "settings"
    settings: LaneSettings


@dataclass(frozen=True, slots=True)
class SlashCatalog(codec.Variant):
    """The session's `/` commands, where it has a catalog: in the seed after Settings, and on
    change. `aside` says whether the session takes side questions, which some rows require."""

    kind: ClassVar[str] = "slash_catalog"
    items: SlashRows = ()
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Stale(codec.Variant):
    """The transport is lost and the adapter tries again; nothing ends."""

    kind: ClassVar[str] = "stale"
    reason: str


@dataclass(frozen=True, slots=True)
class Reset(codec.Variant):
    """A reseed begins: what follows up to its Ready replaces everything."""

    kind: ClassVar[str] = "reset"
    reason: str
    generation: codec.U64


@dataclass(frozen=True, slots=True)
class Ready(codec.Variant):
    """The seed of this generation is complete; alone, a silent resume is."""

    kind: ClassVar[str] = "ready"
    generation: codec.U64


@dataclass(frozen=True, slots=True)
class Down(codec.Variant):
    """The lane has ended; the last frame, and the only one that ends it."""

    kind: ClassVar[str] = "down"
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown(codec.Variant):
    """A frame of a kind that this build does not know, as read; never sent."""

    kind: ClassVar[str] = "unknown"


LaneFrame = (
    Message | Session | Approval | Capabilities | Settings | SlashCatalog | Stale | Reset | Ready
    | Down | Unknown
)  # fmt: skip
LANE_FRAMES: Final = codec.variants(
    Message, Session, Approval, Capabilities, Settings, SlashCatalog, Stale, Reset, Ready, Down
)

# ---- a source's ----


@dataclass(frozen=True, slots=True)
class SourceReset(codec.Variant):
    """The list is sent anew."""

    kind: ClassVar[str] = "reset"
    reason: str
    generation: codec.U64


@dataclass(frozen=True, slots=True)
class SourceSession(codec.Variant):
    """A session, new or changed."""

    kind: ClassVar[str] = "session"
    session: LaneSession


@dataclass(frozen=True, slots=True)
class SourceRemoved(codec.Variant):
    """A session left the list."""

    kind: ClassVar[str] = "removed"
    session_id: str


@dataclass(frozen=True, slots=True)
class SourceCapabilitiesFrame(codec.Variant):
    """What the source can do: in every seed, and on change."""

    kind: ClassVar[str] = "capabilities"
    capabilities: SourceCapabilities


@dataclass(frozen=True, slots=True)
class SourceReady(codec.Variant):
    """The list of this generation is complete; `truncated` says that it was cut."""

    kind: ClassVar[str] = "ready"
    generation: codec.U64
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class SourceOffline(codec.Variant):
    """The source cannot be reached; it tries again. `cause` is one of OFFLINE_CAUSES or another
    word."""

    kind: ClassVar[str] = "offline"
    reason: str
    cause: codec.Word


@dataclass(frozen=True, slots=True)
class SourceUnknown(codec.Variant):
    """A frame of a kind that this build does not know, as read; never sent."""

    kind: ClassVar[str] = "unknown"


SourceFrame = (
    SourceReset | SourceSession | SourceRemoved | SourceCapabilitiesFrame | SourceReady
    | SourceOffline | SourceUnknown
)  # fmt: skip
SOURCE_FRAMES: Final = codec.variants(
    SourceReset, SourceSession, SourceRemoved, SourceCapabilitiesFrame, SourceReady, SourceOffline
)

NOT_INSTALLED, TOO_OLD = "not_installed", "too_old"
UNREACHABLE, FAILED = "unreachable", "failed"
OFFLINE_CAUSES: Final = frozenset((NOT_INSTALLED, TOO_OLD, UNREACHABLE, FAILED))

# ---- how a lane ends ----

UNKNOWN_SESSION, SESSION_CLOSED, START_FAILED = "unknown_session", "session_closed", "start_failed"
# Those that the client says itself.
SESSION_GONE, HUB_GONE, HOST_REMOVED = "session_gone", "hub_gone", "host_removed"
FINAL: Final = frozenset((UNKNOWN_SESSION, SESSION_CLOSED, SESSION_GONE, HUB_GONE, HOST_REMOVED))


def start_failed(cause: str) -> str:
    """The reason of a session that failed to start."""
    return f"{START_FAILED}:{cause}"


def why_start_failed(reason: str) -> str | None:
    """The cause in such a reason, "" where it gives none; None for any other reason."""
    word, _, cause = reason.partition(":")
    return cause if word == START_FAILED else None


def is_final(reason: str) -> bool:
    """Whether a lane that went down for `reason` is over for good. Any other is opened again."""
    return reason in FINAL or why_start_failed(reason) is not None


# ---- as text ----


def lane_frame(value: object) -> LaneFrame:
    """The lane frame in `value`, parsed JSON. Raises ContractError."""
    return codec.read_variant("LaneFrame", LANE_FRAMES, value, Unknown())  # type: ignore[return-value]


def source_frame(value: object) -> SourceFrame:
    """The source frame in `value`, parsed JSON. Raises ContractError."""
    return codec.read_variant("SourceFrame", SOURCE_FRAMES, value, SourceUnknown())  # type: ignore[return-value]


def encode(frame: LaneFrame | SourceFrame) -> bytes:
    """The frame as compact JSON. Raises ValueError for a frame of unknown kind."""
    if isinstance(frame, Unknown | SourceUnknown):
        raise ValueError("a frame of unknown kind is never sent")
    return json.dumps(frame.to_wire())


def decode_lane(data: bytes) -> LaneFrame:
    """The lane frame in JSON. Raises ValueError."""
    return lane_frame(json.parse(data))


def decode_source(data: bytes) -> SourceFrame:
    """The source frame in JSON. Raises ValueError."""
    return source_frame(json.parse(data))
