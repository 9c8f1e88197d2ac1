"""What a session can do, and what a source can. A client hides what is not offered."""

from dataclasses import dataclass

from craze_shed.contract import codec


@dataclass(frozen=True, slots=True)
class LaneCapabilities(codec.Document):
    """What one session can do; it rides the stream, since it may change. `kind` names the agent's
    adapter; `history_cursor` says that the stream may resume without a reseed."""

    kind: str
    interject: bool
    cancel: bool
    approvals: bool
    history_cursor: bool
    settings: bool = False
    stop: bool = False


@dataclass(frozen=True, slots=True)
class SourceCapabilities(codec.Document):
    """What a machine's source can do."""

    kind: str
    create: bool
    create_options: bool
    create_title: bool = False
    reopen: bool = False
