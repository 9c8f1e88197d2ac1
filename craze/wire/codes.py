"""The closed sets of codes and reasons (protocol tables 11 and 12) and the one refusal type.

A reason belongs to exactly one code, so a refusal is raised by its reason alone and carries the
code along. A client decides from the code; the reason is for wording.
"""

from typing import Any, Final

# reason -> code.
REASONS: Final[dict[str, str]] = {
    "not_accepting": "not_accepting",
    "not_in_turn": "not_accepting",
    "start_failed": "not_accepting",
    "not_resumable": "not_accepting",
    "command_aborted": "aborted",
    "set_outcome_unknown": "aborted",
    "bad_catalog": "aborted",
    "context": "aborted",
    "log_backed_up": "unavailable",
    "ask_unavailable": "unavailable",
    "set_unavailable": "unavailable",
    "not_run": "unavailable",
    "attach_raced": "unavailable",
    "not_ready": "unavailable",
    "busy": "unavailable",
    "closing": "unavailable",
    "aside_busy": "unavailable",
    "spawn_failed": "unavailable",
    "host_unreachable": "unavailable",
    "failed": "failed",
    "option_gone": "failed",
    "response_too_large": "failed",
    "snapshot_too_large": "failed",
    "bad_request": "bad_request",
    "bad_answer": "bad_request",
    "hello_required": "bad_request",
    "unknown_field": "bad_request",
    "line_too_long": "bad_request",
    "protocol_version": "bad_request",
    "bad_token": "bad_request",
    "already_attached": "bad_request",
    "connect_not_first": "bad_request",
    "ambiguous_session": "bad_request",
    "already_subscribed": "bad_request",
    "request_conflict": "bad_request",
    "unsupported": "unsupported",
    "unknown_method": "unsupported",
    "stop_unsupported": "unsupported",
    "models_refresh_unsupported": "unsupported",
    "aside_unsupported": "unsupported",
    "roster_unsupported": "unsupported",
    "hub_only": "unsupported",
    "host_only": "unsupported",
    "unknown_session": "unknown_session",
    "unknown_ask": "unknown_ask",
    "already_submitted": "already_submitted",
    "already_resolved": "already_resolved",
    "queue_full": "queue_full",
    "text_too_long": "text_too_long",
    "prompt_in_flight": "prompt_in_flight",
    "foreign_turn": "foreign_turn",
    "prompt_cancelled": "prompt_cancelled",
    "stale_version": "stale_version",
    "stale_turn": "stale_turn",
    "unknown_row": "unknown_row",
    "unknown_command": "unknown_command",
    "in_progress": "in_progress",
    "stale_model": "stale_model",
    "index_write": "index_write",
    "unknown_subagent": "unknown_subagent",
}

CODES: Final[frozenset[str]] = frozenset(REASONS.values())

# The codes under which nothing ran: the same commandId may be sent again, and none is ever stored.
RETRYABLE: Final[frozenset[str]] = frozenset(
    ("unavailable", "not_accepting", "in_progress", "stale_model")
)

# Reasons that only a client gives itself; no endpoint ever sends them.
CLIENT_REASONS: Final[frozenset[str]] = frozenset(("resume_lost", "disconnected", "no_answer"))

# JSON-RPC's own codes.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
REFUSED: Final = -32000


class Refusal(Exception):
    """A refusal of protocol 1: `reason` (and through it `code`), words for people, and the details.

    `cause` is the text of a wrapped failure (`index_write`, `start_failed`), `result` what
    `data.result` carries, `rpc` the JSON-RPC code.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        cause: str = "",
        result: dict[str, Any] | None = None,
        rpc: int = REFUSED,
    ) -> None:
        super().__init__(message)
        self.code = REASONS[reason]
        self.reason = reason
        self.message = message
        self.cause = cause
        self.result = result
        self.rpc = rpc

    def error(self) -> dict[str, Any]:
        """The wire's error object, members in wire order (protocol tables 2.2)."""
        data: dict[str, Any] = {"code": self.code, "reason": self.reason}
        if self.result is not None:
            data["result"] = self.result
        if self.cause:
            data["cause"] = self.cause
        return {"code": self.rpc, "message": self.message, "data": data}


def retryable(code: str) -> bool:
    """Whether a command refused with `code` may be sent again under the same commandId."""
    return code in RETRYABLE
