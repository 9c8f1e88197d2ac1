"""What a person reads of a lane, a source and what they answer: each thing's lines.

What a peer said stays within its own line, or is set in below it; no text of its can pass for a
line of ours.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from craze.wire.plain import plain, plain_line
from craze_shed.contract import frames
from craze_shed.contract.approvals import LaneApproval
from craze_shed.contract.creating import LaneCreated, LaneCreateOptions, LaneReopened
from craze_shed.contract.frames import LaneFrame, SourceFrame
from craze_shed.contract.rows import FeedMessage
from craze_shed.contract.sessions import LaneHistory, LaneSession
from craze_shed.contract.settings import LaneSettings

EARLIER: Final = "… (earlier transcript not shown)"
TRUNCATED: Final = "… (truncated at craze's 512 rows)"

_BELOW = "\n" + " " * 7


def row(message: FeedMessage) -> str:
    """One row of a transcript; what has several lines is set in."""
    parts = [f"[{message.seq:>4}] {_line(message.role)}/{_line(message.type)}  "]
    parts.append(plain(message.text or "").replace("\n", _BELOW))
    if message.tool:
        told = filter(None, (message.tool.name, message.tool.detail))
        parts.append(f"  ({_line(' '.join(told))})")
    return "".join(parts).rstrip()


def history(page: LaneHistory) -> Iterator[str]:
    yield from map(row, page.messages)
    if page.truncated:
        yield EARLIER


def session(listed: LaneSession) -> str:
    """A session as a list has it."""
    told = _line(listed.doing or listed.title)
    return (
        f"{_line(listed.id)}  {listed.activity:14} {listed.pending_approvals:>2} waiting"
        f"  {_line(listed.provider or '-'):8} {_line(listed.cwd)}  {told}"
    ).rstrip()


def source_frame(frame: SourceFrame) -> Iterator[str]:
    """What a source has just said."""
    match frame:
        case frames.SourceReset():
            yield f"--- reset ({_line(frame.reason)}) generation {frame.generation}"
        case frames.SourceSession():
            yield session(frame.session)
        case frames.SourceRemoved():
            yield f"{_line(frame.session_id)}  (gone)"
        case frames.SourceCapabilitiesFrame():
            can = frame.capabilities
            yield _flags(create=can.create, create_options=can.create_options)
        case frames.SourceReady():
            if frame.truncated:
                yield TRUNCATED
            yield "--- ready"
        case frames.SourceOffline():
            yield f"--- offline ({_line(frame.cause)}): {_line(frame.reason)}"


def lane_frame(frame: LaneFrame) -> Iterator[str]:
    """What a lane has just said."""
    match frame:
        case frames.Message():
            yield row(frame.message)
        case frames.Session():
            now = frame.session
            doing = f" — {_line(now.doing)}" if now.doing else ""
            yield f"--- {now.activity} {now.pending_approvals} waiting{doing}"
        case frames.Approval():
            asked = frame.approval
            yield f"--- approval {_line(asked.id)} [{_line(asked.status)}] {_line(asked.title)}"
            if asked.pending:
                yield from _choices(asked, "      ")
        case frames.Capabilities():
            can = frame.capabilities
            yield _flags(
                interject=can.interject,
                cancel=can.cancel,
                approvals=can.approvals,
                settings=can.settings,
                stop=can.stop,
            )
        case frames.Settings():
            stated = frame.settings
            yield f"+++ model {_line(stated.model or '-')} mode {_line(stated.mode or '-')}"
        case frames.Stale():
            yield f"--- stale: {_line(frame.reason)}"
        case frames.Reset():
            yield f"--- reset ({_line(frame.reason)}) generation {frame.generation}"
        case frames.Ready():
            yield f"--- ready ({frame.generation})"
        case frames.Down():
            yield f"--- down: {_line(frame.reason)}"


def approvals(pending: Iterable[LaneApproval]) -> Iterator[str]:
    for asked in pending:
        yield f"{_line(asked.id)}  {_line(asked.kind)}  {_line(asked.title)}"
        yield from _choices(asked, "    ")


def options(offered: LaneCreateOptions) -> Iterator[str]:
    for provider in offered.providers:
        fix = f" — {_line(provider.fix)}" if provider.fix else ""
        why = _line(provider.reason or "") + fix
        yield f"{_line(provider.id):8} {_line(provider.state):12} {why}".rstrip()
    yield f"default: {_line(offered.default_provider or '-')}"
    for folder in offered.recent_dirs:
        yield f"recent:  {_line(folder)}"


def created(made: LaneCreated) -> str:
    error = f": {_line(made.prompt_error)}" if made.prompt_error else ""
    return (
        f"{_line(made.session.id)}  {_line(made.session.cwd)}  prompt {_line(made.prompt)}{error}"
    )


def reopened(made: LaneReopened) -> str:
    how = "joined" if made.joined else "resumed"
    return f"{_line(made.session.id)}  {_line(made.session.cwd)}  {how}"


def settings(now: LaneSettings) -> Iterator[str]:
    yield f"model: {_line(now.model or '-')}"
    for model in now.models:
        yield f"  {_line(model.id)}  {_line(model.name)}"
    yield f"mode:  {_line(now.mode or '-')}"
    for mode in now.modes:
        yield f"  {_line(mode.id)}  {_line(mode.name)}"
    for option in now.options:
        known = f"{_line(option.name)} ({_line(option.category)})"
        yield f"{known}: {_line(option.current)}"
        for value in option.values:
            yield f"  {_line(option.id)} {_line(value.id)}  {_line(value.name)}"


def _choices(asked: LaneApproval, indent: str) -> Iterator[str]:
    """What can be answered, as `answer` takes it."""
    for option in asked.options:
        yield f"{indent}choice:{_line(option.id)}  {_line(option.label)}"
    for question in asked.questions:
        several = "  (several)" if question.multiple else ""
        yield f"{indent}{_line(question.question)}{several}"
        for option in question.options:
            yield f"{indent}question:{_line(option.id)}  {_line(option.label)}"


def _flags(**offered: bool) -> str:
    return "+++ " + " ".join(f"{name}={str(is_so).lower()}" for name, is_so in offered.items())


def _line(text: Any) -> str:
    return plain_line(str(text))
