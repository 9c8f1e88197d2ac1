"""What a call of the client can end in besides its result, and texts that are safe to print.

Three outcomes are kept apart, because only the caller can decide what each means for it: the
endpoint refused, the call certainly did not change anything, or nobody knows. An unknown outcome
is never reported as a failure, since repeating the call under a new id could run it twice.
"""

from typing import Any

from craze.wire.codes import REFUSED


def printable(text: str) -> str:
    """`text` with everything a terminal could obey (controls, escapes, bidi marks) spelt out.

    Line breaks stay: a start's failure carries the last lines of an agent's stderr.
    """
    return "".join(c if c.isprintable() or c == "\n" else _spelt(c) for c in text)


def _spelt(char: str) -> str:
    return (
        char.encode("ascii", "backslashreplace").decode()
        if ord(char) > 0x7F
        else (f"\\x{ord(char):02x}")
    )


class ClientError(Exception):
    """The base of what this package raises; its text is always safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class Refused(ClientError):
    """The endpoint answered with an error (protocol tables 2.2).

    Decide from `code` alone; `reason` is for wording; `message` and `cause` are as they came, for
    display only after `printable`. `result` is what `data.result` carried, or None. `rpc` is the
    JSON-RPC code.
    """

    def __init__(
        self,
        code: str,
        reason: str = "",
        message: str = "",
        *,
        cause: str = "",
        result: Any = None,
        rpc: int = REFUSED,
    ) -> None:
        named = code if reason in ("", code) else f"{code}/{reason}"
        told = cause and cause not in message  # a message may have its cause in it already
        super().__init__(f"{message or 'refused'} ({named})" + (f": {cause}" if told else ""))
        self.code = code
        self.reason = reason or code
        self.message = message
        self.cause = cause
        self.result = result
        self.rpc = rpc

    @classmethod
    def read(cls, error: Any) -> "Refused":
        """The refusal in a reply's `error`, read tolerantly: an unknown shape is `failed`."""
        error = error if isinstance(error, dict) else {}
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        rpc = error.get("code")
        return cls(
            _text(data, "code") or "failed",
            _text(data, "reason"),
            _text(error, "message"),
            cause=_text(data, "cause"),
            result=data.get("result"),
            rpc=rpc if isinstance(rpc, int) else REFUSED,
        )


class ConnectionLost(ClientError):
    """The connection went, and with it a call that is not repeated: one that changes nothing, or
    a command that was never sent. Making it again is safe."""


class OutcomeUnknown(ClientError):
    """A command was sent and no answer came: it may have run. Read the session's state before
    anything else; never send the same intent again unseen.

    `reason` says why: `resume_lost` (the host came back without our client id), `disconnected`
    (it did not come back), `no_answer` (the deadline passed). No endpoint ever sends these.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{message} ({reason})")
        self.reason = reason


class PeerFault(Exception):
    """The peer broke the protocol: a fault of its own, which costs it the connection."""


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""
