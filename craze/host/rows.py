"""What a session's documents say of it, taken from its engine when they are asked for.

Every one is a read: nothing here changes anything, and nothing is a cut through the stream.
"""

from typing import Any

from craze.host.session import Session
from craze.transcript import caps, facts
from craze.wire import documents
from craze.wire.cells import one_line
from craze.wire.limits import QUEUE_TEXT, ROW_TEXT_CELLS
from craze.wire.times import format_time

Document = dict[str, Any]


def info(server: Any) -> Document:
    """The session info document (protocol 6.1)."""
    session: Session = server.session
    about, engine = session.facts, session.engine
    return documents.info(
        session_id=about.session_id,
        provider_session_id=engine.provider_session,
        incarnation=session.log.incarnation,
        host_id=server.host_id,
        workspace=about.workspace,
        provider=about.provider,
        label=about.label,
        models=engine.models,
        modes=engine.modes,
        revision=engine.revision,
        capabilities=documents.session_capabilities(about.capabilities),
        permission_mode=about.permission_mode,
        started_at=format_time(about.started_at) if about.started_at else "",
    )


def row(server: Any) -> Document:
    """The host's row (protocol 5.1), with the row facts and the count where it keeps them."""
    session: Session = server.session
    engine, able = session.engine, session.facts.capabilities
    head = engine.asks.open[0] if engine.asks.open else None
    members: Document = {
        "title": engine.title,
        "activity": engine.activity,
        "foreignTurn": engine.foreign is not None,
        "pendingAsks": len(engine.asks.open),
        "lastTurn": engine.last_turn,
    }
    if head is not None:
        members["headAsk"] = _head_ask(head, able.get("rowFacts", False))
    if able.get("rowFacts"):
        members.update(_row_facts(session))
    if able.get("presence"):
        members["attached"] = server.attached
    return documents.row(info(server), **members)


def state(session: Session) -> Document:
    """The result of `session.state` (protocol 7.1)."""
    engine = session.engine
    head = engine.asks.open[0] if engine.asks.open else None
    return documents.build(
        "state",
        activity=engine.activity,
        foreignTurn=engine.foreign is not None,
        turn=engine.turn,
        waiting=False,
        sendNow=engine.send_now,
        queue=[_capped(row) for row in engine.rows],
        pendingAsks=len(engine.asks.open),
        headAsk=None if head is None else _head_ask(head, False),
        err=engine.err,
        startFailed=engine.start_failed,
        prompted=engine.prompted,
        cancelled=engine.cancelled,
        settings=engine.settings(),
        lastTurn=engine.last_turn,
    )


def ask_summary(record: Any) -> Document:
    """An open ask in a list (protocol 9.1)."""
    return documents.build(
        "askSummary",
        id=record.id,
        kind=record.kind,
        label=record.label,
        openedAt=format_time(record.opened_at),
    )


def ask_record(record: Any) -> Document:
    """An ask, whole, its strings within the item cap (protocol 9.2)."""
    body, truncated = caps.ask_body(record.kind, record.body)
    return documents.build(
        "ask",
        id=record.id,
        kind=record.kind,
        status=record.status,
        outcome=record.outcome,
        by=record.by,
        answer=record.answer,
        body={record.kind: body},
        openedAt=format_time(record.opened_at),
        resolvedAt=format_time(record.resolved_at) if record.resolved_at else "",
        truncated=truncated,
    )


def _head_ask(record: Any, summary: bool) -> Document:
    return documents.build(
        "headAsk",
        id=record.id,
        kind=record.kind,
        label=record.label,
        summary=_line(_summary(record)) if summary else "",
    )


def _summary(record: Any) -> str:
    """What the ask is about: its tool, its first question, or the plan's name."""
    body = record.body
    if record.kind == "permission":
        return str(body.get("tool", ""))
    if record.kind == "plan":
        return str(body.get("name", ""))
    prompts = (str(question.get("prompt", "")) for question in body.get("questions", []))
    return next((prompt for prompt in prompts if prompt.strip()), str(body.get("title", "")))


def _row_facts(session: Session) -> Document:
    engine, model = session.engine, session.model
    working = bool(engine.turn) or engine.foreign is not None
    return {
        "doing": _line(facts.doing(model)) if working else "",
        "lastReply": _line(facts.last_reply(model)),
        "since": format_time(engine.since),
        "startFailed": engine.start_failed,
        "startErr": _line(engine.err) if engine.start_failed else "",
        "prompted": engine.prompted,
        "model": model.settings.get("model", ""),
    }


def _line(text: str) -> str:
    return one_line(text, ROW_TEXT_CELLS)


def _capped(row: Document) -> Document:
    text = row.get("text", "").encode()
    if len(text) <= QUEUE_TEXT:
        return row
    return {**row, "text": text[:QUEUE_TEXT].decode(errors="ignore")}
