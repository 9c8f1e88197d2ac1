"""What a session asks its user (permissions, questions, plans), and which option a decision is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from craze_shed.contract import codec

# `kind` and `status` are open: another word is kept as it came.
PERMISSION, QUESTION = "permission", "question"
PLAN_APPROVAL, MCP_ELICITATION = "plan_approval", "mcp_elicitation"
PENDING, SUBMITTED, RESOLVED = "pending", "submitted", "resolved"

# An option's kind, and a decision's words where they are the same.
ALLOW_ONCE, ALLOW_ALWAYS = "allow_once", "allow_always"
REJECT_ONCE, REJECT_ALWAYS = "reject_once", "reject_always"
REJECT: Final = "reject"


@dataclass(frozen=True, slots=True)
class LaneApprovalOption(codec.Document):
    """One way to answer. `id` is opaque; only `kind` says what it does."""

    id: str
    label: str
    description: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class LaneQuestion(codec.Document):
    """One question of an ask; `custom` says whether it takes free text."""

    id: str | None = None
    header: str = codec.required("")
    question: str = codec.required("")
    options: tuple[LaneApprovalOption, ...] = ()
    multiple: bool = False
    custom: bool = False


@dataclass(frozen=True, slots=True)
class LaneApproval(codec.Document):
    """One ask. It has `options` or `questions`, never both; `request_json` is the agent's own
    request as raw JSON."""

    id: str
    session_id: str
    kind: str
    status: str
    title: str
    detail: str | None = None
    options: tuple[LaneApprovalOption, ...] = ()
    questions: tuple[LaneQuestion, ...] = ()
    request_json: str = codec.required("")
    created_at_unix_ms: codec.I64 | None = None

    @property
    def pending(self) -> bool:
        """Whether it can be answered; a status this build does not know cannot."""
        return self.status == PENDING


def option_for(options: Iterable[LaneApprovalOption], decision: str) -> LaneApprovalOption | None:
    """The one option that `decision` (`allow_once`, `allow_always`, `reject`) means, or None.

    Two options of the wanted kind are never chosen between: one of them may allow far more. Only
    a rejection settles for less than its own kind, the first option that rejects at all.
    """
    offered = [option for option in options if option.kind]
    wanted = REJECT_ONCE if decision == REJECT else decision
    exact = [option for option in offered if option.kind == wanted]
    if exact:
        return exact[0] if len(exact) == 1 else None
    if decision != REJECT:
        return None
    return next((option for option in offered if (option.kind or "").startswith(REJECT)), None)
