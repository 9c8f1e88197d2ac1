"""The documents that hosts and hubs send, each with its members in wire order.

`DOCUMENTS` is the one statement of that order (protocol tables 3, 5 to 9 and 16); the tests hold
the published schema against it. What embeds bytes that were encoded before (a snapshot, a row as a
host sent it) is built as bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from craze.wire import json
from craze.wire.limits import INBOUND_LINE, OUTBOUND_LINE, RETRY_AGE_MS, RETRY_COMMANDS

Document = dict[str, Any]
Piece = bytes | memoryview

# document -> its members in order; one that ends in "?" is left out when it is unset.
DOCUMENTS: Final[dict[str, tuple[str, ...]]] = {
    # hello
    "hostHello": (
        "protocol", "endpoint", "clientId", "token", "resumed", "capabilities", "codecs", "limits",
        "retryHorizon",
    ),
    "hubHello": ("protocol", "endpoint", "capabilities", "codecs", "limits"),
    "endpoint": ("kind", "hostId", "crazeVersion", "pid"),
    "hostCapabilities": (
        "rosterSubscribe", "sessionCreate", "multiplex", "connect", "snapshot", "attachWhenNow",
    ),
    "hubCapabilities": (
        "rosterSubscribe", "sessionCreate", "multiplex", "connect", "snapshot", "attachWhenNow",
        "createOptions?", "createTitle?", "reopen?",
    ),
    # the session
    "info": (
        "sessionId", "providerSessionId", "incarnation", "hostId", "workspace", "provider",
        "catalogs", "capabilities", "retryHorizon", "permissionMode?", "startedAt?",
    ),
    "provider": ("name", "label"),
    "catalogs": ("models", "modes", "revision?"),
    "mode": ("id", "name", "description"),
    "capabilities": (
        "interject", "subagentCancel", "subagentBackground", "modes", "effort", "fastToggle",
        "subagentRows", "subagentTranscript", "todos", "askCards", "planCards",
        "parameterizedPicker", "cancel", "approvals", "historyCursor", "stop", "rowFacts?",
        "presence?", "modelsRefresh?", "aside?", "slashCatalog?", "effortFacts?",
    ),
    "rowFacts": (
        "title", "activity", "foreignTurn", "pendingAsks", "headAsk?", "lastTurn?", "doing?",
        "lastReply?", "since?", "startFailed?", "startErr?", "prompted?", "model?", "attached?",
    ),
    "headAsk": ("id", "kind", "label", "summary?"),
    "lastTurn": ("outcome", "err?", "endedAt", "turnId"),
    "state": (
        "activity", "foreignTurn", "turn", "waiting", "sendNow?", "queue", "pendingAsks",
        "headAsk?", "err", "startFailed", "prompted", "cancelled", "settings", "lastTurn?",
    ),
    "armed": ("text", "fromRow", "turn", "cause"),
    "settings": ("model", "mode", "config", "usage?", "catalog?"),
    "refresh": ("status", "revision", "sameDir?"),
    "cut": ("incarnation", "seq"),
    # asks
    "askSummary": ("id", "kind", "label", "openedAt"),
    "ask": (
        "id", "kind", "status", "outcome?", "by?", "answer?", "body", "openedAt", "resolvedAt?",
        "truncated",
    ),
    "answer": ("optionId?", "cancel?", "answers?", "skip?", "accept?", "reject?"),
    # side questions
    "aside": ("text", "model", "usage?"),
    "asideUsage": ("input?", "output?", "reasoning?", "cacheRead?", "cacheCreation?"),
    # slash rows
    "slashRow": (
        "name", "description", "source", "plugin?", "qualified?", "requires?", "whileWorking?",
        "run",
    ),
    "slashRun": (
        "kind", "method?", "param?", "setting?", "arg?", "argHint?", "picker?", "local?", "reason?",
    ),
    # the hub's
    "rosterHost": (
        "pid", "crazeVersion", "protocol", "provider", "workspace", "startedAt", "ready",
    ),
    "rosterRow": ("hostId", "sessionId", "host", "status", "approximate", "row?"),
    "createOptions": ("providers", "defaultProvider?", "recentDirs"),
    "createProvider": ("id", "label", "state", "reason?", "fix?"),
    "recentDir": ("dir", "usedAt"),
    "saved": ("sessions", "more"),
    "savedSession": (
        "id", "crazeSessionId?", "provider", "providerSessionId", "workspace", "title?",
        "createdAt", "updatedAt", "subagent?",
    ),
    # notifications' params
    "synchronized": ("subscription", "seq"),
    "ready": ("subscription", "session", "startFailed", "err?"),
    "reset": ("subscription", "reason"),
    "presence": ("subscription", "attached"),
    "asideNotice": ("asideId", "seq", "text"),
}  # fmt: skip

SESSION_CAPABILITIES: Final = tuple(name.rstrip("?") for name in DOCUMENTS["capabilities"])
ALWAYS_CAPABLE: Final = frozenset(("cancel", "approvals", "historyCursor"))

RETRY_HORIZON: Final = {"commands": RETRY_COMMANDS, "ageMs": RETRY_AGE_MS}
CODECS: Final = {"event": 1, "snapshot": 1}
LIMITS: Final = {"inboundLine": INBOUND_LINE, "outboundLine": OUTBOUND_LINE}
HOST_CAPABILITIES: Final = {
    "rosterSubscribe": False,
    "sessionCreate": False,
    "multiplex": False,
    "connect": False,
    "snapshot": True,
    "attachWhenNow": True,
}

_ORDER = {
    kind: tuple((member.rstrip("?"), member.endswith("?")) for member in members)
    for kind, members in DOCUMENTS.items()
}


def build(document: str, **members: Any) -> Document:
    """A document of that kind: `members` in wire order, by their wire names.

    An optional member that is None, "", 0, False or an empty list is left out; an empty object
    stays. Raises ValueError for a member the document lacks, or a required one that is not given.
    """
    made: Document = {}
    for name, optional in _ORDER[document]:
        value = members.pop(name, None)
        if value or isinstance(value, dict) or not optional:
            if value is None:
                raise ValueError(f"{document} needs {name}")
            made[name] = value
    if members:
        raise ValueError(f"{document} has no {min(members)}")
    return made


# ---- hello ----


def host_hello(
    host_id: str, version: str, pid: int, client_id: str, token: str, resumed: bool
) -> Document:
    """A host's answer to hello (tables 3.2)."""
    return build(
        "hostHello",
        protocol=1,
        endpoint=build("endpoint", kind="host", hostId=host_id, crazeVersion=version, pid=pid),
        clientId=client_id,
        token=token,
        resumed=resumed,
        capabilities=HOST_CAPABILITIES,
        codecs=CODECS,
        limits=LIMITS,
        retryHorizon=RETRY_HORIZON,
    )


def hub_hello(
    hub_id: str,
    version: str,
    pid: int,
    *,
    create: bool,
    create_options: bool,
    create_title: bool,
    reopen: bool,
) -> Document:
    """A hub's answer to hello; the flags are what this hub serves (tables 3.2, 3.3)."""
    capabilities = build(
        "hubCapabilities",
        rosterSubscribe=True,
        sessionCreate=create,
        multiplex=False,
        connect=True,
        snapshot=False,
        attachWhenNow=False,
        createOptions=create_options,
        createTitle=create_title,
        reopen=reopen,
    )
    return build(
        "hubHello",
        protocol=1,
        endpoint=build("endpoint", kind="hub", hostId=hub_id, crazeVersion=version, pid=pid),
        capabilities=capabilities,
        codecs=CODECS,
        limits=LIMITS,
    )


# ---- the session ----


def session_capabilities(able: Mapping[str, bool]) -> Document:
    """The capabilities document of a session that is `able`, by wire name (tables 6.3).

    Names that are not given are false; what every session can is true whatever is given. Raises
    ValueError for an unknown name.
    """
    unknown = able.keys() - set(SESSION_CAPABILITIES)
    if unknown:
        raise ValueError(f"capabilities has no {min(unknown)}")
    return build(
        "capabilities",
        **{
            name: name in ALWAYS_CAPABLE or bool(able.get(name, False))
            for name in SESSION_CAPABILITIES
        },
    )


def info(
    *,
    session_id: str,
    provider_session_id: str,
    incarnation: str,
    host_id: str,
    workspace: str,
    provider: str,
    label: str,
    models: list[Document],
    modes: list[Document],
    revision: int,
    capabilities: Document,
    permission_mode: str = "",
    started_at: str = "",
) -> Document:
    """The session info document (tables 6.1). `provider` is the provider's name, "" for none, and
    `label` what people call it."""
    return build(
        "info",
        sessionId=session_id,
        providerSessionId=provider_session_id,
        incarnation=incarnation,
        hostId=host_id,
        workspace=workspace,
        provider=build("provider", name=provider, label=label),
        catalogs=build("catalogs", models=models, modes=modes, revision=revision),
        capabilities=capabilities,
        retryHorizon=RETRY_HORIZON,
        permissionMode=permission_mode,
        startedAt=started_at,
    )


def row(session: Document, **members: Any) -> Document:
    """A host's row: the info document `session`, then the members of `rowFacts` (tables 5.1)."""
    return {**session, **build("rowFacts", **members)}


# ---- results that embed encoded parts ----


def encoded(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A JSON object of members whose values are raw JSON already."""
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), value) for name, value in members)


def attach_result(
    *,
    subscription: str,
    session: Document,
    ready: bool,
    after: tuple[str, int],
    snapshot: Sequence[Piece] = (),
    reset: str = "",
) -> list[Piece]:
    """The attach reply's result (tables 8.3), in pieces; `after` is an incarnation and a seq,
    `snapshot` raw JSON."""
    incarnation, seq = after
    members = [
        ("subscription", json.dumps(subscription)),
        ("session", json.dumps(session)),
        ("ready", json.dumps(ready)),
        ("after", json.dumps({"incarnation": incarnation, "seq": seq})),
    ]
    parts: list[Piece] = [encoded(members)[:-1]]
    if snapshot:
        parts += (b',"snapshot":', *snapshot)
    parts.append(b',"reset":%b}' % json.dumps(reset) if reset else b"}")
    return parts


def snapshot_result(snapshot: Iterable[Piece]) -> list[Piece]:
    """The result of `session.snapshot`, in pieces; `snapshot` is raw JSON."""
    return [b'{"snapshot":', *snapshot, b"}"]


def list_result(
    epoch: str,
    cursor: int,
    rows: Iterable[bytes],
    *,
    truncated: bool = False,
    subscription: str = "",
) -> bytes:
    """The result of `sessions.list`, and with a `subscription` of `sessions.subscribe` (tables 4.1,
    4.2, 5.4); the rows are raw JSON."""
    members = [("subscription", json.dumps(subscription))] if subscription else []
    members += [
        ("epoch", json.dumps(epoch)),
        ("cursor", json.dumps(cursor)),
        ("sessions", b"[%b]" % b",".join(rows)),
    ]
    if truncated:
        members.append(("truncated", b"true"))
    return encoded(members)


def roster_row(
    *,
    host_id: str,
    session_id: str,
    host: Document,
    status: str,
    approximate: bool,
    row: bytes = b"",
) -> bytes:
    """A hub's row (tables 5.4); `row` is the host's own, as it sent it."""
    head = {
        "hostId": host_id,
        "sessionId": session_id,
        "host": host,
        "status": status,
        "approximate": approximate,
    }
    members = [(name, json.dumps(value)) for name, value in head.items()]
    if row:
        members.append(("row", row))
    return encoded(members)


def roster_change(
    subscription: str, epoch: str, cursor: int, upserts: Iterable[bytes], removes: list[str]
) -> bytes:
    """The params of a `roster` notification; `upserts` are raw roster rows (tables 16)."""
    return encoded(
        [
            ("subscription", json.dumps(subscription)),
            ("epoch", json.dumps(epoch)),
            ("cursor", json.dumps(cursor)),
            ("upserts", b"[%b]" % b",".join(upserts)),
            ("removes", json.dumps(removes)),
        ]
    )
