"""Params: decoded and judged by the method table and by each method's own rules.

Everything that is refused here is -32602 and decided before a session is looked up (protocol tables
2.5, checks 1 to 4); a rule that needs to know the endpoint or the session is a function of its own.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from craze.wire import json, limits, titles
from craze.wire.codes import INVALID_PARAMS, Refusal
from craze.wire.methods import Member, Method
from craze.wire.words import quote

try:  # hashlib brings OpenSSL along, which costs a host megabytes
    from _blake2 import blake2b
except ImportError:  # an interpreter that keeps it elsewhere
    from hashlib import blake2b

PROTOCOLS: Final = (1,)  # what this build speaks

Args = dict[str, Any]

_COMMAND_ID = re.compile(r"[1-9][0-9]{0,19}", re.ASCII)
_COMMAND_ID_MAX = 2**64 - 1
_TOKEN = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

# What a value of another kind is told it must be.
_MUST_BE = {
    "string": "a string",
    "bool": "true or false",
    "int": "an integer",
    "object": "an object",
    "list": "an array",
    "map": "an object",
}
_TYPES: Final[dict[str, type]] = {
    "string": str, "bool": bool, "int": int, "object": dict, "list": list, "map": dict,
}  # fmt: skip

# What the lack of a required member is called, where it is more than `is required`.
_MISSING: Final = {
    ("hello", "params.protocols"):
        "params.protocols is required: every protocol version the client speaks",
    ("hello", "params.client"): "params.client.kind is required",
    ("session.connect", "params.sessionId"):
        "params.sessionId is required: the session to connect to",
    ("session.create", "params.cwd"): "params.cwd is required: the session's directory",
}  # fmt: skip


def decode(
    method: Method, params: Any, *, rules: bool = True, without: Collection[str] = ()
) -> Args:
    """The arguments of a request: the members that were given, checked.

    `params` is what `envelope.parse` read, ABSENT included. An optional object, list or map that is
    null is absent (protocol tables 2.5). A title comes normalized, a create's cwd cleaned. `rules`
    off leaves out the method's own rules (check 4), for a session that refuses the method whatever
    its params say; `without` names members that this endpoint does not take.

    Raises Refusal with rpc -32602.
    """
    if params is json.ABSENT:
        params = {}
    if not isinstance(params, dict):
        raise _bad(f"params must be an object, not {_kind(params)}")
    if isinstance(params, json.Repeated):
        raise _bad(f"params.{params.member} is given twice")
    args = _Reader(method, without).object(params, "params", method.params)
    if method.mutating and not canonical(args["commandId"]):
        raise _bad(
            f"params.commandId {quote(args['commandId'])} is not a canonical positive decimal"
        )
    rule = _RULES.get(method.name)
    if rules and rule is not None:
        rule(args)
    return args


def canonical(command: str) -> bool:
    """Whether `command` is a commandId: a positive decimal without leading zeros, in 64 bits."""
    return _COMMAND_ID.fullmatch(command) is not None and int(command) <= _COMMAND_ID_MAX


def agree(protocols: Sequence[int], endpoint: str) -> int:
    """The highest protocol version shared with a client; `endpoint` is host or hub (tables 3.4)."""
    shared = set(PROTOCOLS).intersection(protocols)
    if not shared:
        spoken = " ".join(map(str, PROTOCOLS))
        raise Refusal(
            "protocol_version",
            f"no protocol version in common: this {endpoint} speaks [{spoken}]",
            result={"supported": list(PROTOCOLS)},
        )
    return max(shared)


def aside_bounds(args: Args) -> None:
    """Refuse a side question whose texts are over their bounds (tables 10.6), in UTF-8 bytes."""
    pairs = args.get("prior", ())
    for text, most in (
        (args["question"], limits.ASIDE_QUESTION),
        *((pair["question"], limits.ASIDE_QUESTION) for pair in pairs),
        *((pair["answer"], limits.ASIDE_ANSWER) for pair in pairs),
    ):
        if len(text.encode()) > most:
            raise Refusal("text_too_long", "agent: message too long")


def payload_hash(method: str, args: Args) -> str:
    """What tells whether a commandId was sent again with the same payload (tables 11.3).

    Equal for equal methods and arguments only, however the JSON was spelt; empty is the same as
    absent, and `sessionId` and `commandId` are no part of it.
    """
    payload = {k: v for k, v in args.items() if k not in ("sessionId", "commandId")}
    text = json.dumps([method, _canonical(payload)])
    return text.decode() if len(text) <= 256 else blake2b(text, digest_size=32).hexdigest()


def _canonical(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    made = {}
    for name in sorted(value):
        inner = value[name]
        if name == "answers" and inner:  # by question: each says something, null as empty
            made[name] = {question: inner[question] or [] for question in sorted(inner)}
        elif inner or (inner == 0 and inner is not False):  # version 0 is a condition
            made[name] = _canonical(inner)
    return made


class _Reader:
    """One walk over a params object along its method's table."""

    def __init__(self, method: Method, without: Collection[str]) -> None:
        self._method = method
        self._without = without

    def object(self, value: Args, path: str, fields: tuple[Member, ...]) -> Args:
        top = path == "params"
        taken = [field for field in fields if not (top and field.name in self._without)]
        if not self._method.tolerant and (
            unknown := value.keys() - {field.name for field in taken}
        ):
            raise _bad(f"unknown field {path}.{_clipped(min(unknown))}", "unknown_field")
        return {
            field.name: read
            for field in taken
            if (read := self._member(value, f"{path}.{field.name}", field)) is not json.ABSENT
        }

    def _member(self, holder: Args, path: str, field: Member) -> Any:
        value = holder.get(field.name, json.ABSENT)
        if value is json.ABSENT:
            if field.required:
                raise _missing(self._method.name, path)
            return value
        if value is None:
            if self._method.tolerant:
                if field.required:
                    raise _missing(self._method.name, path)
                return json.ABSENT
            if field.required or self._method.strict or field.kind not in ("object", "list", "map"):
                raise _bad(f"{path} must not be null")
            return json.ABSENT
        return self._value(value, path, field.kind, field)

    def _value(self, given: Any, path: str, kind: str, field: Member) -> Any:
        if kind == "reserved":
            raise _bad(f"{path} is reserved and must be absent or null in protocol 1")
        if type(given) is not _TYPES[kind]:
            raise _bad(f"{path} must be {_MUST_BE[kind]}")
        value: Any = given  # whose type the line above has settled
        if kind == "int" and not field.least <= value <= field.most:
            raise _bad(f"{path} is out of range")
        if kind == "object":
            return self.object(value, path, field.fields) if field.fields else value
        if kind == "list":
            return [
                self._value(item, f"{path}[{at}]", field.items, field)
                for at, item in enumerate(value)
            ]
        if kind == "map":
            for name, items in value.items():
                self._choices(items, f"{path}.{_clipped(name)}")
        return value

    def _choices(self, value: Any, path: str) -> None:
        if value is None:
            return
        if not isinstance(value, list):
            raise _bad(f"{path} must be an array")
        if not all(isinstance(item, str) for item in value):
            raise _bad(f"{path} must hold strings")


def _missing(method: str, path: str) -> Refusal:
    return _bad(_MISSING.get((method, path), f"{path} is required"))


def _bad(message: str, reason: str = "bad_request") -> Refusal:
    return Refusal(reason, message, rpc=INVALID_PARAMS)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "a number"


def _clipped(name: str) -> str:
    return name if len(name) <= 256 else name[:255] + "…"


# ---- each method's own rules ----


def _hello(args: Args) -> None:
    if not args["protocols"]:
        raise _missing("hello", "params.protocols")
    if not args["client"]["kind"]:
        raise _missing("hello", "params.client.kind")


def _attach(args: Args) -> None:
    when = args.get("when", "ready")
    if when not in ("ready", "now"):
        raise _bad(f"params.when {quote(when)} is neither ready nor now")
    if any(asked < 1 for asked in args.get("budget", {}).values()):
        raise _bad("params.budget's members must be positive")


def _snapshot(args: Args) -> None:
    if args.get("budget", {}).get("snapshotBytes", 1) < 1:
        raise _bad("params.budget.snapshotBytes must be positive")


def _prompt(args: Args) -> None:
    mode = args["mode"]
    if mode not in ("queue", "send_now", "interject"):
        raise _bad(f"params.mode {quote(mode)} is none of queue, send_now, interject")
    if mode == "interject" and args.get("fromRow"):
        raise _bad("params.fromRow cannot go with mode interject: an interjection takes text")


def _set(args: Args) -> None:
    kind = args["setting"]["kind"]
    if kind not in ("model", "mode", "config"):
        raise _bad(f"params.setting.kind {quote(kind)} is none of model, mode, config")


def _title(args: Args) -> None:
    if "title" in args:
        args["title"] = titles.normalize(args["title"])
        if not args["title"]:
            raise _bad("params.title is blank")


def _models_refresh(args: Args) -> None:
    path = args.get("nativeDir")
    if path is None:
        return
    _filled(args, "nativeDir", limits.NATIVE_DIR_CHARS)
    if not path.startswith("/"):
        raise _bad(f"params.nativeDir {quote(path)} is not an absolute path")


def _aside_id(args: Args) -> None:
    if not _TOKEN.fullmatch(args["asideId"]):
        raise _bad("params.asideId must be 1-64 of [A-Za-z0-9._-]")


def _aside(args: Args) -> None:
    _aside_id(args)
    _filled(args, "question")
    if len(args.get("prior", ())) > limits.ASIDE_PRIOR:
        raise _bad(f"params.prior holds more than {limits.ASIDE_PRIOR} pairs")


def _connect(args: Args) -> None:
    _filled(args, "sessionId")


_CREATE_CHARS: Final = {
    "cwd": limits.CWD_CHARS,
    "prompt": None,
    "provider": limits.PROVIDER_CHARS,
    "model": limits.MODEL_CHARS,
    "effort": limits.EFFORT_CHARS,
}


def _create(args: Args) -> None:
    for name, most in _CREATE_CHARS.items():
        _filled(args, name, most)
    if args.get("permissionMode", "bypass") not in ("bypass", "prompt"):
        raise _bad("params.permissionMode must be bypass or prompt")
    if "requestId" in args and not _TOKEN.fullmatch(args["requestId"]):
        raise _bad("params.requestId must be 1-64 of [A-Za-z0-9._-]")
    cwd = args["cwd"]
    if not cwd.startswith("/"):
        raise _bad(f"params.cwd {quote(cwd)} is not an absolute path")
    for name in ("cwd", "provider", "model", "effort"):
        if _CONTROL.search(args.get(name, "")):
            raise _bad(f"params.{name} holds a control character")
    if "prompt" in args and not args["prompt"].strip():
        raise _bad("params.prompt is blank: send none instead")
    _title(args)
    args["cwd"] = "/" + posixpath.normpath(cwd).lstrip("/")


def _saved(args: Args) -> None:
    _filled(args, "workspace")
    if not args.get("workspace", "/").startswith("/"):
        raise _bad(f"params.workspace {quote(args['workspace'])} is not an absolute path")
    if not 1 <= args.get("limit", limits.SAVED_LIMIT) <= limits.SAVED_LIMIT_MAX:
        raise _bad(f"params.limit must be 1 to {limits.SAVED_LIMIT_MAX}")


def _reopen(args: Args) -> None:
    _filled(args, "id")
    if len(args["id"].encode()) > limits.REOPEN_ID:
        raise _bad(f"params.id is longer than {limits.REOPEN_ID} bytes")


def _filled(args: Args, name: str, most: int | None = None) -> None:
    text = args.get(name)
    if text == "":
        raise _bad(f"params.{name} must not be empty")
    if text is not None and most is not None and len(text) > most:
        raise _bad(f"params.{name} is longer than {most} characters")


_RULES: Final[dict[str, Callable[[Args], None]]] = {
    "hello": _hello,
    "session.attach": _attach,
    "session.snapshot": _snapshot,
    "session.prompt": _prompt,
    "session.set": _set,
    "session.setTitle": _title,
    "session.models.refresh": _models_refresh,
    "session.aside": _aside,
    "session.aside.cancel": _aside_id,
    "session.connect": _connect,
    "session.create": _create,
    "sessions.saved": _saved,
    "session.reopen": _reopen,
}
