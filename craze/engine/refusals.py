"""The engine's refusals: each reason's words, in one table (protocol tables 12.1)."""

from typing import Final

from craze.wire.codes import Refusal

MESSAGES: Final[dict[str, str]] = {
    "not_accepting": "engine: not accepting that now",
    "closing": "engine: the host is deciding whether the session ends: try again",
    "not_in_turn": "agent: no running turn to interject into",
    "already_submitted": "engine: a send-now is already pending",
    "stale_turn": "engine: that turn is no longer current",
    "stale_version": "engine: the queued message changed",
    "unknown_row": "engine: no such queued message",
    "bad_request": "engine: bad request",
    "unknown_command": "engine: that command id has expired",
    "in_progress": "engine: that command is still running",
    "command_aborted": "engine: the command's outcome is unknown",
    "not_run": "engine: the settings change was not made: its time was over before its turn came",
    "set_outcome_unknown": "engine: the settings change may or may not have landed",
    "index_write": "engine: the session index could not be written",
    "stale_model": "agent: the model that option was chosen for is no longer the session's",
    "option_gone": "agent: the agent's catalog no longer has that option",
    "bad_catalog": "agent: the agent's answer holds no usable catalog",
    "queue_full": "agent: queue is full",
    "text_too_long": "agent: message too long",
    "foreign_turn": "acp: agent is running a turn of its own",
    "unsupported": "acp: not supported by this agent",
    "unknown_subagent": "agent: no such sub-agent",
    "context": "context deadline exceeded",
    "unknown_ask": "agent: no such ask",
    "already_resolved": "agent: that ask is already resolved",
    "bad_answer": "agent: that answer does not fit the ask",
    "failed": "",
}


def refusal(reason: str, detail: str = "", cause: str = "") -> Refusal:
    """The refusal of `reason`, its words followed by `detail` where there is one."""
    words = MESSAGES[reason]
    return Refusal(
        reason, f"{words}: {detail}" if words and detail else words or detail, cause=cause
    )
