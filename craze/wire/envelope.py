"""The envelope of a line: what a request must be before its method is looked at, and how replies,
errors and notifications are written (protocol tables 2).

A request's id is kept as the bytes it came in and goes back as those bytes.
"""

from typing import Any, Final, NamedTuple

from craze.wire import json
from craze.wire.codes import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Refusal
from craze.wire.limits import INBOUND_LINE
from craze.wire.methods import METHODS
from craze.wire.words import quote

NO_ID: Final = b"null"
ABSENT: Final = json.ABSENT

_MEMBERS: Final = frozenset(("jsonrpc", "id", "method", "params"))
_HEAD: Final = b'{"jsonrpc":"2.0",'


class Request(NamedTuple):
    """A line that passed the checks of the envelope and names a method of protocol 1."""

    id: bytes  # raw JSON, to be echoed
    method: str
    params: Any  # any JSON value, or ABSENT


class BadLine(Exception):
    """A line that is answered without reaching a method: with `refusal`, under `id` (raw JSON)."""

    def __init__(self, id: bytes, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.id = id
        self.refusal = refusal


def blank(line: bytes) -> bool:
    """Whether the line holds nothing: such a one is ignored, unanswered."""
    return not line or line.isspace()


def too_long(endpoint: str) -> Refusal:
    """The answer, under no id, to a line over the inbound limit (2.4, check 1); `endpoint` is host
    or hub."""
    message = "line too long"
    if endpoint == "host":
        message = f"the line is over the {INBOUND_LINE}-byte inbound limit and was discarded"
    return Refusal("line_too_long", message, rpc=INVALID_REQUEST)


def parse(line: bytes) -> Request:
    """The request on `line`: checks 3 to 10 of protocol tables 2.4, in that order.

    Raises BadLine, and nothing else, for every line that is none.
    """
    try:
        text = json.decode(line)
        members = json.members(text)
        value = None if members is not None else json.parse(line)
    except json.NotJSON:
        raise _bad(NO_ID, "not JSON", rpc=PARSE_ERROR) from None
    if members is None:
        batch = "a batch: protocol 1 takes one request per line"
        raise _bad(NO_ID, batch if isinstance(value, list) else "not a JSON object")

    given = {name: (value, begin, end) for name, value, begin, end in members}
    id, begin, end = given.get("id", (None, 0, 0))
    if isinstance(id, bool) or not isinstance(id, int | float | str):
        raise _bad(NO_ID, "no id: a request carries a number or a string")
    raw_id = text[begin:end].encode()
    if unknown := given.keys() - _MEMBERS:
        raise _bad(raw_id, f"unknown member {quote(min(unknown))}")
    if given.get("jsonrpc", (None,))[0] != "2.0":
        raise _bad(raw_id, 'jsonrpc must be "2.0"')
    method = given.get("method", (None,))[0]
    if not isinstance(method, str) or not method:
        raise _bad(raw_id, "no method")
    known = METHODS.get(method)
    if known is None:
        raise _bad(raw_id, f"unknown method {quote(method)}", "unknown_method", METHOD_NOT_FOUND)
    if "params" not in given:
        return Request(raw_id, method, ABSENT)
    params, begin, end = given["params"]
    if known.once:
        params = json.parse(text[begin:end].encode(), duplicates=True)
    return Request(raw_id, method, params)


def _bad(
    id: bytes, message: str, reason: str = "bad_request", rpc: int = INVALID_REQUEST
) -> BadLine:
    return BadLine(id, Refusal(reason, message, rpc=rpc))


def result(id: bytes, body: bytes) -> bytes:
    """The line that answers `id` with the result `body`, which is raw JSON."""
    return result_head(id) + body + RESULT_END


def result_head(id: bytes) -> bytes:
    """What such a line begins with, before its body; `RESULT_END` ends it. For a body that is sent
    in pieces."""
    return b'%b"id":%b,"result":' % (_HEAD, id)


RESULT_END: Final = b"}\n"


def error(id: bytes, refusal: Refusal) -> bytes:
    """The line of a refusal; `id` is raw JSON, `NO_ID` where the request's is not known."""
    return b'%b"id":%b,"error":%b}\n' % (_HEAD, id, json.dumps(refusal.error()))


def notification(method: str, params: bytes | dict[str, Any]) -> bytes:
    """The line of a notification; `params` as raw JSON or as an object in wire order."""
    body = params if isinstance(params, bytes) else json.dumps(params)
    return b'%b"method":"%b","params":%b}\n' % (_HEAD, method.encode(), body)


def request(id: int | str, method: str, params: dict[str, Any]) -> bytes:
    """The line of a request, as a client writes it."""
    head = b'%b"id":%b,"method":"%b"' % (_HEAD, json.dumps(id), method.encode())
    return b'%b,"params":%b}\n' % (head, json.dumps(params))
