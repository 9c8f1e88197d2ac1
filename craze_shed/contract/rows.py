"""A transcript's rows, the words for what a session is doing, and the ring that numbers rows.

Rows are only ever appended: none changes after the ring has numbered it. The ring is given the
time; it reads no clock.
"""

from collections import deque
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from craze.wire.times import format_time
from craze_shed.contract import codec
from craze_shed.contract.text import (
    MAX_APPROVAL_TOKEN_BYTES,
    cap,
    displayed,
    sanitize_text,
    sanitize_token,
    size,
)

MAX_RING_MESSAGES: Final = 500
MAX_RING_BYTES: Final = 1_048_576
MAX_APPROVAL_DECISIONS: Final = 8
DEFAULT_MESSAGES_LIMIT: Final = 100
MAX_MESSAGES_LIMIT: Final = 200

# What a row's `role` and `type` say.
USER, ASSISTANT, TOOL, SYSTEM = "user", "assistant", "tool", "system"
TEXT, TOOL_USE, TOOL_RESULT = "text", "tool_use", "tool_result"
REASONING, STATUS, APPROVAL_REQUEST = "reasoning", "status", "approval_request"

# What a session is doing.
WORKING, NEEDS_INPUT, NEEDS_APPROVAL = "working", "needs_input", "needs_approval"
IDLE, UNKNOWN = "idle", "unknown"
ACTIVITIES: Final = frozenset((WORKING, NEEDS_INPUT, NEEDS_APPROVAL, IDLE, UNKNOWN))


def _activity(value: object) -> str:
    word = codec.string(value)
    return word if word in ACTIVITIES else UNKNOWN


def _shown(value: object) -> str | None:
    return displayed(codec.string(value)) or None


Activity = Annotated[str, _activity]  # a word that is none of ACTIVITIES reads as `unknown`
Shown = Annotated[str, _shown]


@dataclass(frozen=True, slots=True)
class FeedTool(codec.Document):
    """The tool of a row."""

    reading: ClassVar[str] = codec.FORGIVING
    name: Shown | None = None
    detail: Shown | None = None


@dataclass(frozen=True, slots=True)
class FeedApproval(codec.Document):
    """The ask of an `approval_request` row: `status` is `pending` or `resolved`, `decision` and
    `decisions` are `allow`, `allow_always`, `deny`."""

    reading: ClassVar[str] = codec.FORGIVING
    id: str = ""
    status: str = ""
    decision: str | None = None
    decisions: tuple[str, ...] = codec.omitted_when_empty()


@dataclass(frozen=True, slots=True)
class FeedMessage(codec.Document):
    """One row of a transcript. `seq` is the ring's to give, `ts` is RFC 3339 and kept verbatim.

    Reading one never fails: what cannot be read is at its default.
    """

    reading: ClassVar[str] = codec.FORGIVING
    reads_anything: ClassVar[bool] = True
    seq: codec.U64 = 0
    ts: str | None = None
    role: str = ""
    type: str = ""
    text: Shown | None = None
    tool: FeedTool | None = None
    approval: FeedApproval | None = None


class Ring:
    """The newest rows of one transcript, bounded in number and bytes."""

    __slots__ = ("_bytes", "_last", "_rows", "dropped")

    def __init__(self, after: int = 0) -> None:
        """The first row is the one after `after`."""
        self._rows: deque[tuple[FeedMessage, int]] = deque()
        self._bytes = 0
        self._last = after
        self.dropped = False  # whether any row was ever let go

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<Ring: {len(self._rows)} rows, {self._bytes} bytes, last {self._last}>"

    def append(self, row: FeedMessage, now_ms: int) -> FeedMessage:
        """`row` as it is kept: sanitized, numbered, and stamped `now_ms` (milliseconds since 1970)
        if it has no time. Older rows are dropped to make room, never the new one."""
        self._last += 1
        kept = FeedMessage(
            self._last,
            row.ts or format_time(now_ms // 1000 * 1_000_000_000),
            row.role,
            row.type,
            _clean(row.text),
            row.tool and FeedTool(_clean(row.tool.name), _clean(row.tool.detail)),
            row.approval and _bounded(row.approval),
        )
        weight = _weight(kept)
        self._rows.append((kept, weight))
        self._bytes += weight
        while len(self._rows) > 1 and (
            len(self._rows) > MAX_RING_MESSAGES or self._bytes > MAX_RING_BYTES
        ):
            self._bytes -= self._rows.popleft()[1]
            self.dropped = True
        return kept

    def page(self, limit: int = 0) -> tuple[tuple[FeedMessage, ...], bool]:
        """The newest rows, oldest first, and whether there are or were rows before them. A `limit`
        of 0 or less is DEFAULT_MESSAGES_LIMIT; more than MAX_MESSAGES_LIMIT are never given."""
        count = min(limit if limit > 0 else DEFAULT_MESSAGES_LIMIT, MAX_MESSAGES_LIMIT)
        rows = tuple(row for row, _ in self._rows)
        return rows[-count:], self.dropped or len(rows) > count


def _clean(text: str | None) -> str | None:
    return None if text is None else sanitize_text(text)


def _token(text: str) -> str:
    return cap(sanitize_token(text), MAX_APPROVAL_TOKEN_BYTES, "")


def _bounded(approval: FeedApproval) -> FeedApproval:
    return FeedApproval(
        _token(approval.id),
        _token(approval.status),
        None if approval.decision is None else _token(approval.decision),
        tuple(map(_token, approval.decisions[:MAX_APPROVAL_DECISIONS])),
    )


def _weight(row: FeedMessage) -> int:
    texts = [row.text]
    if row.tool:
        texts += [row.tool.name, row.tool.detail]
    if row.approval:
        asked = row.approval
        texts += [asked.id, asked.status, asked.decision, *asked.decisions]
    return sum(size(text) for text in texts if text)
