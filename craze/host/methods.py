"""What each method of protocol 1 does on a host: one handler each, found by the method's name.

A handler is given the connection, the request's raw id and its decoded params, and queues exactly
one reply, or raises Refusal.
"""

from collections.abc import Callable
from typing import Any

from craze.eventlog import CursorRefused
from craze.host import rows
from craze.host.attachment import Attachment
from craze.transcript import snapshot
from craze.wire import documents, json
from craze.wire.codes import Refusal
from craze.wire.documents import Piece
from craze.wire.limits import (
    ATTACH_READY_WAIT,
    KIB,
    MIB,
    SNAPSHOT_DEFAULT,
    SNAPSHOT_MAX,
    SUBSCRIPTION_BYTES,
    SUBSCRIPTION_BYTES_MAX,
    SUBSCRIPTION_ITEMS,
    SUBSCRIPTION_ITEMS_MAX,
)
from craze.wire.methods import METHODS
from craze.wire.params import agree, aside_bounds
from craze.wire.words import quote

Connection = Any  # craze.host.connection.Connection, which imports this table
Params = dict[str, Any]


_BESIDE_SNAPSHOT = MIB  # more than what an attach's reply says besides its snapshot


class Gone(Exception):
    """The request is not run and gets no reply: its connection is closing (2.5, check 7)."""


def hello(connection: Connection, request: bytes, params: Params) -> None:
    """Bind the connection to a client id, fresh or taken back (protocol 3)."""
    server = connection.server
    if connection.binding is not None:
        raise Refusal(
            "bad_request",
            "hello was already answered on this connection: a connection is bound once",
        )
    agree(params["protocols"], "host")
    binding, resumed, before = server.bindings.hello(
        connection, params.get("resume"), server.draw_token(), server.session.clock.now()
    )
    connection.binding = binding
    if before is not None:
        before.supersede()
    connection.reply(
        request,
        documents.host_hello(
            host_id=server.host_id,
            version=server.version,
            pid=server.pid,
            client_id=binding.client,
            token=binding.token,
            resumed=resumed,
        ),
    )


def sessions_list(connection: Connection, request: bytes, params: Params) -> None:
    """The host's one session as a row."""
    session = connection.server.session
    if session.engine.closed:
        raise Refusal(
            "not_accepting", "the session is closing: there is no seq to vouch for the rows"
        )
    row = json.dumps(rows.row(connection.server))
    connection.reply(
        request, documents.list_result(connection.server.host_id, session.log.head, [row])
    )


def session_attach(connection: Connection, request: bytes, params: Params) -> None:
    """Put the connection on the event stream: by cursor where it can be honoured, else by a
    snapshot (protocol 8)."""
    server = connection.server
    session = server.session
    attachment = connection.begin_attachment()
    try:
        _refuse_while_closing(server)
        server.presence_changed()
        if params.get("when", "ready") == "ready":
            _wait_ready(session)
        budget = params.get("budget", {})
        snapshot_bytes = min(budget.get("snapshotBytes", SNAPSHOT_DEFAULT), SNAPSHOT_MAX)
        connection.outbox.wait_room(snapshot_bytes + _BESIDE_SNAPSHOT)
        if attachment.closed:
            raise Gone
        _refuse_while_closing(server)
        if session.engine.closed:
            raise Refusal("not_accepting", "the session has closed")
        # From here to the queued reply nothing waits, so no event can come between the snapshot
        # and the subscription.
        after, seen, reset = _subscribe(
            session, params.get("cursor"), budget, snapshot_bytes, attachment
        )
        started = session.started is not None
        connection.reply(
            request,
            documents.attach_result(
                subscription=attachment.id,
                session=rows.info(server),
                ready=started,
                after=(session.log.incarnation, after),
                snapshot=seen,
                reset=reset,
            ),
        )
        server.ever_attached = True
        if not started:
            connection.owe_ready(attachment)
        attachment.go_live(session.log, after)
    except BaseException:
        attachment.close()
        raise


def _refuse_while_closing(server: Any) -> None:
    if server.stopping or server.fenced:
        raise Refusal(
            "closing",
            "the session is closing, or its host is deciding whether to: "
            "attach again once it has ended or stayed",
        )


def _wait_ready(session: Any) -> None:
    if not session.wait_started(ATTACH_READY_WAIT):
        raise Refusal("not_ready", "the session did not come up within 10m0s; attach again")
    if session.started is not None and session.started.error is not None:
        cause = session.started.error.message
        raise Refusal("start_failed", f"the session failed to start: {cause}", cause=cause)


def _subscribe(
    session: Any,
    cursor: dict[str, Any] | None,
    budget: dict[str, int],
    snapshot_bytes: int,
    attachment: Attachment,
) -> tuple[int, list[Piece], str]:
    """Where the stream continues, the snapshot unless the cursor was honoured, and the reason of a
    refused cursor."""
    log = session.log
    max_items = min(budget.get("maxItems", SUBSCRIPTION_ITEMS), SUBSCRIPTION_ITEMS_MAX)
    max_bytes = min(budget.get("maxBytes", SUBSCRIPTION_BYTES), SUBSCRIPTION_BYTES_MAX)
    reset = ""
    if cursor is not None:
        try:
            attachment.subscribe(log, cursor["seq"], cursor["incarnation"], max_items, max_bytes)
            return cursor["seq"], [], ""
        except CursorRefused as refused:
            reset = refused.reason
    seen = _snapshot(session, snapshot_bytes)
    attachment.subscribe(log, None, None, max_items, max_bytes)
    return log.head, seen, reset


def _snapshot(session: Any, budget: int, agent: str = "") -> list[Piece]:
    try:
        return snapshot.pieces(session.model, budget, agent)
    except snapshot.SnapshotTooLarge as failure:
        raise Refusal("snapshot_too_large", str(failure)) from None
    except snapshot.UnknownSubagent as failure:
        raise Refusal("unknown_subagent", str(failure)) from None


def session_detach(connection: Connection, request: bytes, params: Params) -> None:
    """End the connection's attachment; the reply is the attachment's last line."""
    attachment = connection.attachment
    if attachment is None or attachment.id != params["subscription"] or not attachment.live:
        raise Refusal(
            "bad_request",
            f"subscription {quote(params['subscription'])} is not this connection's attachment",
        )
    attachment.silence()
    connection.reply(request, {})
    attachment.close()


def session_state(connection: Connection, request: bytes, params: Params) -> None:
    """Where the session is: a read, not a cut."""
    connection.reply(request, rows.state(connection.server.session))


def session_snapshot(connection: Connection, request: bytes, params: Params) -> None:
    """The transcript within a byte budget."""
    budget = params.get("budget", {}).get("snapshotBytes", SNAPSHOT_DEFAULT)
    budget = min(budget, SNAPSHOT_MAX)
    connection.outbox.wait_room(budget + KIB)
    seen = _snapshot(connection.server.session, budget, params.get("agentId", ""))
    connection.reply(request, documents.snapshot_result(seen))


def session_sync(connection: Connection, request: bytes, params: Params) -> None:
    """The reply barrier with no command: the log's head."""
    session = connection.server.session
    if session.engine.closed:
        raise Refusal("not_accepting", "the session is closing: there is no seq to wait for")
    seq = session.log.head
    connection.barrier()
    connection.reply(request, {"seq": seq})


def command(name: str) -> Callable[[Connection, bytes, Params], None]:
    """The handler of a mutating method: the engine's to run, answered behind the barrier."""

    method = METHODS[name]

    def handler(connection: Connection, request: bytes, params: Params) -> None:
        server = connection.server
        binding = connection.binding
        server.admit_command()
        try:
            if not server.bindings.holds(binding, connection):
                raise Gone
            args = {
                name: value
                for name, value in params.items()
                if name not in ("sessionId", "commandId")
            }
            answer: dict[str, Any] | Refusal
            try:
                answer = server.session.command(
                    binding.client, params["commandId"], name, args, method.blocks(args)
                )
            except Refusal as refusal:
                answer = refusal
        finally:
            server.commands -= 1
        connection.barrier()
        if isinstance(answer, Refusal):
            raise answer
        connection.reply(request, answer)

    return handler


def session_stop(connection: Connection, request: bytes, params: Params) -> None:
    """End the session and its host. The reply is a receipt: the end follows on the stream."""
    server = connection.server
    if not server.session.facts.capabilities.get(OPTIONAL["session.stop"]):
        raise Refusal(
            "stop_unsupported", "session.stop is not served: this session's host does not stop"
        )
    first = server.begin_stop()
    connection.reply(request, {})
    if first:
        server.stop()


def models_refresh(connection: Connection, request: bytes, params: Params) -> None:
    """Take up the models there are now, where the session can."""
    session = connection.server.session
    if not session.facts.capabilities.get(OPTIONAL["session.models.refresh"]):
        raise Refusal(
            "models_refresh_unsupported",
            "session.models.refresh is not served for this session: "
            "it cannot take up models while it runs",
        )
    _refuse_unless_running(session)
    result = session.agent.refresh_models(params.get("nativeDir"))
    if result["status"] == "applied" and session.engine.models_pending:
        result["status"] = "pending"
    result["revision"] = session.engine.revision
    connection.barrier()
    connection.reply(request, result)


def session_aside(connection: Connection, request: bytes, params: Params) -> None:
    """A side question, answered to this connection alone."""
    server = connection.server
    _refuse_without_asides(server.session)
    aside_bounds(params)
    _refuse_unless_running(server.session)
    server.asides.ask(
        connection,
        connection.outbox,
        server.session.agent,
        params,
        reply=lambda result: connection.reply(request, result),
        refuse=lambda refusal: connection.refuse(request, refusal),
    )


def session_aside_cancel(connection: Connection, request: bytes, params: Params) -> None:
    """Cancel one of this connection's side questions; its own reply comes first."""
    _refuse_without_asides(connection.server.session)
    connection.server.asides.cancel(connection, params["asideId"])
    connection.reply(request, {})


def _refuse_without_asides(session: Any) -> None:
    if not session.facts.capabilities.get(OPTIONAL["session.aside"]):
        raise Refusal("aside_unsupported", "this session answers no side questions")


def _refuse_unless_running(session: Any) -> None:
    if not session.engine.ready or session.engine.closed:
        raise Refusal("not_accepting", "engine: not accepting that now")


def asks_list(connection: Connection, request: bytes, params: Params) -> None:
    """The open asks, in opening order."""
    asks = connection.server.session.engine.asks
    connection.reply(request, {"asks": [rows.ask_summary(record) for record in asks.open]})


def asks_get(connection: Connection, request: bytes, params: Params) -> None:
    """One ask, whole."""
    record = connection.server.session.engine.asks.get(params["askId"])
    if record is None:
        raise Refusal("unknown_ask", f"no ask {quote(params['askId'])} in this session")
    connection.reply(request, {"ask": rows.ask_record(record)})


# The methods that a session serves only where it has a capability: without it, they are refused
# whatever else their params say.
OPTIONAL = {
    "session.stop": "stop",
    "session.models.refresh": "modelsRefresh",
    "session.aside": "aside",
    "session.aside.cancel": "aside",
}

# The methods that wait for more than their own connection to take their reply.
WAITING = frozenset(
    (
        "session.attach",
        "session.prompt",
        "session.cancel",
        "session.set",
        "session.setTitle",
        "session.subagent.cancel",
        "session.models.refresh",
        "session.aside",
        "session.aside.cancel",
    )
)

HANDLERS: dict[str, Callable[[Connection, bytes, Params], None]] = {
    "hello": hello,
    "sessions.list": sessions_list,
    "session.attach": session_attach,
    "session.detach": session_detach,
    "session.state": session_state,
    "session.snapshot": session_snapshot,
    "session.sync": session_sync,
    "session.stop": session_stop,
    "session.models.refresh": models_refresh,
    "session.aside": session_aside,
    "session.aside.cancel": session_aside_cancel,
    "asks.list": asks_list,
    "asks.get": asks_get,
    **{
        method: command(method)
        for method in (
            "session.prompt",
            "session.cancel",
            "session.disarm",
            "session.queue.add",
            "session.queue.edit",
            "session.queue.remove",
            "session.queue.clear",
            "session.set",
            "session.setTitle",
            "session.subagent.cancel",
            "asks.answer",
        )
    },
}
