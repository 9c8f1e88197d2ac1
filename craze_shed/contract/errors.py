"""What a verb or a read fails with.

An adapter raises `LaneError`, whose variants are a closed set with a wire form. What happened to a
request that may have run is no variant: it is `failed` with a text that begins with a fixed prefix,
and only `is_outcome_unknown` reads it. A client's own refusals are `ClientError`. Both are
`Failure`, with a `code` that a program decides from and a `message` for people.
"""

from typing import Any, Final

from craze_shed.contract.codec import ContractError, kind_of, string

UNAUTHORIZED, BAD_REQUEST = "unauthorized", "bad_request"
UNKNOWN_SESSION, UNKNOWN_APPROVAL = "unknown_session", "unknown_approval"
ALREADY_SUBMITTED, ALREADY_RESOLVED = "already_submitted", "already_resolved"
NOT_ACCEPTING, UNAVAILABLE, FAILED = "not_accepting", "unavailable", "failed"

# variant -> what people read, "" where the variant carries its own text.
VARIANTS: Final = {
    UNAUTHORIZED: "the agent requires authentication",
    BAD_REQUEST: "",
    UNKNOWN_SESSION: "no such session",
    UNKNOWN_APPROVAL: "no such approval",
    ALREADY_SUBMITTED: "that approval already has an answer in flight",
    ALREADY_RESOLVED: "that approval is already resolved",
    NOT_ACCEPTING: "the session is not accepting that right now",
    UNAVAILABLE: "",
    FAILED: "",
}

# craze's code -> variant; a code that is not here is `failed`.
CRAZE_CODES: Final = {
    "bad_request": BAD_REQUEST,
    "stale_version": BAD_REQUEST,
    "stale_turn": BAD_REQUEST,
    "unknown_session": UNKNOWN_SESSION,
    "unknown_ask": UNKNOWN_APPROVAL,
    "already_submitted": ALREADY_SUBMITTED,
    "already_resolved": ALREADY_RESOLVED,
    "not_accepting": NOT_ACCEPTING,
    "foreign_turn": NOT_ACCEPTING,
    "in_progress": NOT_ACCEPTING,
    "stale_model": NOT_ACCEPTING,
    "unavailable": UNAVAILABLE,
    "unsupported": FAILED,
    "queue_full": FAILED,
    "text_too_long": FAILED,
    "prompt_in_flight": FAILED,
    "prompt_cancelled": FAILED,
    "unknown_row": FAILED,
    "unknown_command": FAILED,
    "unknown_subagent": FAILED,
    "aborted": FAILED,
    "failed": FAILED,
    "index_write": FAILED,
}

OUTCOME_UNKNOWN_PREFIX: Final = "outcome unknown: "
START_FAILED: Final = "start_failed"
START_FAILED_TEXT: Final = "the session failed to start"

# Codes that only a client gives.
LANE_ENDED, OUTCOME_UNKNOWN = "lane_ended", "outcome_unknown"


class Failure(Exception):
    """A refusal or a failure: `code` for programs, `message` for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ClientError(Failure):
    """What a client refuses by itself; nothing was sent."""


class LaneError(Failure):
    """What an adapter fails with. `variant` is one of VARIANTS; `reason` is the agent's own word
    for why, where it gave one, and never on the wire. `code` is the variant, or `outcome_unknown`
    for a request that may have run."""

    def __init__(self, variant: str, message: str = "", reason: str = "") -> None:
        if variant not in VARIANTS:
            raise ValueError(f"no such variant of LaneError: {variant}")
        self.variant = variant
        self.reason = reason
        super().__init__(variant, VARIANTS[variant] or message)
        if is_outcome_unknown(self):
            self.code = OUTCOME_UNKNOWN

    def __repr__(self) -> str:
        return f"LaneError({self.variant}: {self.message})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaneError) and other.to_wire() == self.to_wire()

    def __hash__(self) -> int:
        return hash((self.variant, self.message))

    def to_wire(self) -> str | dict[str, str]:
        """The variant's word, or an object of it and its text."""
        return self.variant if VARIANTS[self.variant] else {self.variant: self.message}

    @classmethod
    def from_wire(cls, value: Any) -> "LaneError":
        """The error in `value`. Raises ContractError: there is no other variant."""
        if isinstance(value, str) and VARIANTS.get(value):
            return cls(value)
        if isinstance(value, dict) and len(value) == 1:
            ((variant, message),) = value.items()
            if VARIANTS.get(variant) == "":
                try:
                    return cls(variant, string(message))
                except ContractError as failure:
                    raise failure.under(f"LaneError.{variant}") from None
        came = value if isinstance(value, str) else kind_of(value)
        raise ContractError(f"expected a variant, got {came}", "LaneError")


def bad_request(message: str) -> LaneError:
    return LaneError(BAD_REQUEST, message)


def unavailable(message: str) -> LaneError:
    """Nothing ran; trying again is safe."""
    return LaneError(UNAVAILABLE, message)


def failed(message: str) -> LaneError:
    return LaneError(FAILED, message)


def outcome_unknown(why: str) -> LaneError:
    """A request that was sent and whose answer never came: it may have run."""
    return LaneError(FAILED, OUTCOME_UNKNOWN_PREFIX + why)


def is_outcome_unknown(error: BaseException) -> bool:
    """Whether the request may have run."""
    return (
        isinstance(error, LaneError)
        and error.variant == FAILED
        and error.message.startswith(OUTCOME_UNKNOWN_PREFIX)
    )


def lane_ended() -> ClientError:
    """A verb on a lane that is over for good."""
    return ClientError(LANE_ENDED, "the session has ended")


def for_code(
    code: str, message: str, reason: str = "", cause: str | None = None, number: int = 0
) -> LaneError:
    """The error that craze's refusal is; decided by its `code` alone.

    `number` is the JSON-RPC error's, for a refusal without words. A request that starts a session
    (create, reopen) passes the `cause` too, "" where there is none: a start that failed says why.
    Every other request leaves it out.
    """
    if code == NOT_ACCEPTING and reason == START_FAILED and cause is not None:
        return LaneError(FAILED, _quoted(cause.strip() or START_FAILED_TEXT), reason)
    text = _quoted(message or code or f"JSON-RPC error {number}")
    return LaneError(CRAZE_CODES.get(code, FAILED), text, reason)


def _quoted(text: str) -> str:
    # craze's own words must not read as ours.
    return f"craze: {text}" if text.startswith(OUTCOME_UNKNOWN_PREFIX) else text
