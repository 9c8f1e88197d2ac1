"""A session as a source lists it and a lane restates it, and a page of its history."""

from dataclasses import dataclass

from craze_shed.contract import codec
from craze_shed.contract.rows import UNKNOWN, Activity, FeedMessage


@dataclass(frozen=True, slots=True)
class LaneSession(codec.Document):
    """One row of a source. `id` is what a lane is opened with; `provider_session_id` is only for
    matching terminal tabs; `tab_id` is set by that matching and by nothing else. Times are
    milliseconds since 1970."""

    id: str = codec.required("")
    title: str = codec.required("")
    cwd: str = codec.required("")
    activity: Activity = codec.required(UNKNOWN)  # noqa: RUF009
    pending_approvals: codec.U32 = codec.required(0)  # noqa: RUF009
    approximate: bool = codec.required(False)
    parent_id: str | None = None
    last_change_unix_ms: codec.I64 | None = None
    provider: str | None = None
    model: str | None = None
    doing: str | None = None
    head_ask_summary: str | None = None
    last_reply: str | None = None
    since_unix_ms: codec.I64 | None = None
    attached: codec.U32 | None = None
    start_error: str | None = None
    provider_session_id: str | None = None
    permission_mode: str | None = None
    tab_id: codec.I64 | None = None


@dataclass(frozen=True, slots=True)
class LaneHistory(codec.Document):
    """The newest rows of a transcript, oldest first; `truncated` says that there were more."""

    messages: tuple[FeedMessage, ...] = ()
    truncated: bool = codec.required(False)
    cursor: str | None = None
