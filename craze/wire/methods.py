"""The methods of protocol 1, as data: who serves each, what its params are, how it is answered.

Dispatch, params decoding, the published schema's tests and the refusals of a method at the wrong
place read this table instead of repeating it (protocol tables 4).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from craze.wire.codes import Refusal

INT_MAX: Final = 2**63 - 1
SEQ_MAX: Final = 2**64 - 1


class Member(NamedTuple):
    """One member of a params object.

    `kind` is string, bool, int, object, list, map (of lists of strings, or null) or reserved
    (absent or null). `fields` are an object's members, or those of a list's items where the items
    are objects; `items` is a list's kind of item. `least` and `most` bound an int.
    """

    name: str
    kind: str = "string"
    required: bool = False
    fields: tuple["Member", ...] = ()
    items: str = ""
    least: int = -INT_MAX - 1
    most: int = INT_MAX


class Method(NamedTuple):
    """One method of protocol 1.

    `scoped`: carries `sessionId`. `mutating`: carries `commandId`, has a receipt. `blocking`: a
    resend of a running one waits for its answer. `barrier`: what its reply waits for: `command`,
    `sync` or nothing. `refused_by_host`: a host's reason for not serving it. `strict`: null is
    refused for optional members of every kind. `once`: a member given twice is refused.
    `tolerant`: unknown members are ignored at any depth.
    """

    name: str
    params: tuple[Member, ...] = ()
    host: bool = False
    hub: bool = False
    scoped: bool = False
    mutating: bool = False
    blocking: bool = False
    barrier: str = ""
    refused_by_host: str = ""
    strict: bool = False
    once: bool = False
    tolerant: bool = False

    def blocks(self, args: Mapping[str, Any]) -> bool:
        """Whether a resend of it while it runs waits (tables 11.3); a prompt's mode decides."""
        return self.blocking or args.get("mode") == "interject"


def _string(name: str, required: bool = False) -> Member:
    return Member(name, required=required)


_SESSION = _string("sessionId", True)
_COMMAND = _string("commandId", True)


def _read(name: str, *params: Member, barrier: str = "") -> Method:
    """A host's method that changes nothing: it has no commandId."""
    return Method(name, (_SESSION, *params), host=True, scoped=True, barrier=barrier)


def _command(name: str, *params: Member, blocking: bool = False) -> Method:
    """A host's mutating method."""
    return Method(name, (_SESSION, _COMMAND, *params), host=True, scoped=True, mutating=True,
                  blocking=blocking, barrier="command")  # fmt: skip


def _hub(name: str, *params: Member, strict: bool = False, once: bool = False,
         reason: str = "hub_only") -> Method:  # fmt: skip
    return Method(name, params, hub=True, refused_by_host=reason, strict=strict, once=once)


_TABLE: Final = (
    Method(
        "hello",
        (
            Member("protocols", "list", True, items="int", least=1),
            Member("client", "object", True, (
                _string("kind", True), _string("name"), _string("version"),
                Member("capabilities", "object"),
            )),
            Member("auth", "reserved"),
            Member("via", "reserved"),
            Member("resume", "object", fields=(_string("clientId", True), _string("token", True))),
        ),
        host=True, hub=True, tolerant=True,
    ),
    Method("sessions.list", host=True, hub=True),
    _read("session.attach",
          Member("cursor", "object", fields=(
              _string("incarnation", True),
              Member("seq", "int", True, least=0, most=SEQ_MAX),
          )),
          _string("when"),
          Member("budget", "object", fields=(
              Member("maxItems", "int"), Member("maxBytes", "int"), Member("snapshotBytes", "int"),
          ))),
    _read("session.detach", _string("subscription", True)),
    _read("session.state"),
    _read("session.snapshot", _string("agentId"),
          Member("budget", "object", fields=(Member("snapshotBytes", "int"),))),
    _read("session.sync", barrier="sync"),
    _command("session.prompt", _string("text"), _string("fromRow"), _string("mode", True)),
    _command("session.cancel", _string("turnId"), blocking=True),
    _command("session.disarm"),
    _command("session.queue.add", _string("text", True)),
    _command("session.queue.edit", _string("rowId", True), _string("text", True),
             Member("expectedVersion", "int", least=0)),
    _command("session.queue.remove", _string("rowId", True)),
    _command("session.queue.clear"),
    _command("session.set",
             Member("setting", "object", True, (
                 _string("kind", True), _string("id"), _string("value", True), _string("forModel"),
             )), blocking=True),
    _command("session.setTitle", _string("title", True)),
    _command("session.subagent.cancel", _string("agentId", True)),
    # A stop's receipt is at once: nothing to wait for, nothing stored.
    _command("session.stop")._replace(barrier=""),
    _read("session.models.refresh", _string("nativeDir"), barrier="sync"),
    _read("session.aside", _string("asideId", True), _string("question", True),
          Member("prior", "list", items="object",
                 fields=(_string("question", True), _string("answer", True)))),
    _read("session.aside.cancel", _string("asideId", True)),
    _read("asks.list"),
    _read("asks.get", _string("askId", True)),
    _command("asks.answer", _string("askId", True),
             Member("answer", "object", True, (
                 _string("optionId"), Member("cancel", "bool"), Member("answers", "map"),
                 Member("skip", "bool"), Member("accept", "bool"), Member("reject", "bool"),
             ))),
    _hub("sessions.subscribe", reason="roster_unsupported"),
    _hub("session.connect", _string("sessionId", True)),
    _hub("session.create", _string("cwd", True), _string("prompt"), _string("provider"),
         _string("model"), _string("effort"), Member("fast", "bool"), _string("permissionMode"),
         _string("requestId"), _string("title"), strict=True),
    _hub("sessions.createOptions"),
    _hub("sessions.saved", _string("workspace"), Member("limit", "int"),
         Member("subagents", "bool"), strict=True, once=True),
    _hub("session.reopen", _string("id", True), strict=True, once=True),
)  # fmt: skip

METHODS: Final[dict[str, Method]] = {method.name: method for method in _TABLE}


def before_hello(method: str) -> Refusal:
    """The refusal of a known method on a connection that has not said hello (2.4, check 12)."""
    return Refusal(
        "hello_required", f"{method} before hello: every method but hello needs one first"
    )


def not_served(method: Method, endpoint: str) -> Refusal:
    """The refusal of a method that the `endpoint`, host or hub, does not serve (2.4, check 13)."""
    if endpoint == "host":
        return Refusal(method.refused_by_host, f"{method.name} is not served by a session host")
    if method.scoped:
        return Refusal(
            "host_only",
            f"{method.name} is a session host's: "
            "connect to the session (session.connect) and send it there",
        )
    return Refusal("unsupported", f"{method.name} is not served by the hub")
