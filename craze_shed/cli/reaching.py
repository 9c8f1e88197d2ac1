"""From the words on a command line to a machine's source, a session of its, and a lane held open.

A session is named by its id, or by the beginning or the end of it, and by nothing else: a title is
for the agent to choose.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from gevent.event import Event
from gevent.monkey import is_module_patched

import craze
from craze_shed import config
from craze_shed.cli import output
from craze_shed.contract import errors, frames
from craze_shed.contract.errors import ClientError
from craze_shed.contract.interfaces import AgentLane, AgentSource
from craze_shed.contract.sessions import LaneSession
from craze_shed.craze.driver import NO_HUB
from craze_shed.keeper import OpenLane
from craze_shed.reach import ReachError
from craze_shed.view import SourceView

JOIN: Final = 60.0  # seconds for a lane to show its session

_LEAST = 4  # characters of an id that will do
_WHOLE = 12  # … that are all of it
_CANDIDATES = 8  # that an error lists


class NeedsPatching(Exception):
    """The machine is reached by a library that wants its program patched, which this one is not."""


@contextlib.contextmanager
def source(word: str) -> Iterator[AgentSource]:
    """The source of the machine that `word` names. Raises ClientError, NeedsPatching."""
    machine = named(word)
    check_patched(machine)
    with contextlib.ExitStack() as held:
        try:
            yield held.enter_context(machine.source("craze-shed", craze.__version__))
        except ReachError as failure:
            raise ClientError(errors.UNAVAILABLE, str(failure)) from None


def named(word: str) -> config.Machine:
    """The machine that `word` names. Raises ClientError."""
    try:
        return config.named(word)
    except config.ConfigError as failure:
        raise ClientError(errors.BAD_REQUEST, str(failure)) from None


def check_patched(machine: config.Machine) -> None:
    """Raise NeedsPatching where this program, as it is, cannot reach the machine."""
    if machine.way == config.PARAMIKO and not is_module_patched("socket"):
        raise NeedsPatching


def sessions(of: AgentSource, word: str) -> SourceView:
    """What the source lists now. Raises ClientError where it is offline."""
    view = SourceView()
    with output.waiting(f"connecting to {word}…"), of.subscribe() as stream:
        for frame in stream:
            view.apply(frame)
            if isinstance(frame, frames.SourceOffline):
                raise offline(frame)
            if isinstance(frame, frames.SourceReady):
                break
    return view


def offline(frame: frames.SourceOffline) -> ClientError:
    """A machine that lists nothing, as a failure."""
    definite = frame.cause in (frames.NOT_INSTALLED, frames.TOO_OLD)
    advice = "; options, new, saved and resume start one" if frame.cause == NO_HUB else ""
    return ClientError(
        frame.cause if definite else errors.UNAVAILABLE,
        f"craze is offline ({frame.cause}): {frame.reason}{advice}",
    )


def session_id(listed: Iterable[LaneSession], word: str) -> str:
    """The id of the session that `word` names. Raises ClientError, which says what could be meant.

    A whole id names its session whether it is listed or not: one that was just created may not be.
    """
    rows = list(listed)
    if len(word) < _LEAST:
        raise ClientError(
            errors.BAD_REQUEST,
            f"a session is named by {_LEAST} characters at least of the beginning or the end of its"
            f' id, got "{word}"',
        )
    if any(row.id == word for row in rows):
        return word
    meant = [row for row in rows if row.id.startswith(word) or row.id.endswith(word)]
    if len(meant) == 1:
        return meant[0].id
    if meant:
        raise ClientError(errors.BAD_REQUEST, f'"{word}" names several: {_candidates(meant)}')
    if len(word) == _WHOLE:
        return word
    raise _no_session(rows, word)


def _no_session(rows: list[LaneSession], word: str) -> ClientError:
    there = f"there are {_candidates(rows)}" if rows else "no session runs there"
    return ClientError(errors.UNKNOWN_SESSION, f'no session "{word}": {there}')


def _candidates(rows: list[LaneSession]) -> str:
    named = [f"{row.id} ({row.title})" if row.title else row.id for row in rows[:_CANDIDATES]]
    if len(rows) > _CANDIDATES:
        named.append("…")
    return ", ".join(named)


@contextlib.contextmanager
def lane(machine: str, word: str) -> Iterator[AgentLane]:
    """A lane to the session that `word` names. Raises ClientError, LaneError."""
    with source(machine) as of:
        rows = sessions(of, machine).sessions
        try:
            yield of.open(session_id(rows, word))
        except errors.Failure as failure:
            if failure.code == errors.UNKNOWN_SESSION:
                raise _no_session(list(rows), word) from None
            raise


@contextlib.contextmanager
def joined(machine: str, word: str) -> Iterator[OpenLane]:
    """The same held open, and live. Raises ClientError, LaneError."""
    with lane(machine, word) as opened:
        changed = Event()
        held = OpenLane(opened, changed.set)
        try:
            with output.waiting(f"connecting to {machine}…"):
                _until_live(held, changed, machine)
            yield held
        finally:
            held.close()


def _until_live(held: OpenLane, changed: Event, machine: str) -> None:
    """Wait for the lane's first seed. Raises ClientError."""
    while True:
        changed.clear()
        shown = held.snapshot()
        if shown.ended:
            raise down(shown.stale or "")
        if shown.generation:
            return
        if not changed.wait(JOIN):
            raise ClientError(
                errors.UNAVAILABLE, f"{machine} did not answer within {JOIN:g}s; nothing was sent"
            )


def down(reason: str) -> ClientError:
    """The end of a lane, as a failure."""
    if reason == frames.UNKNOWN_SESSION:
        return ClientError(errors.UNKNOWN_SESSION, errors.VARIANTS[errors.UNKNOWN_SESSION])
    cause = frames.why_start_failed(reason)
    if cause is not None:
        why = f": {cause}" if cause else ""
        return ClientError(errors.FAILED, errors.START_FAILED_TEXT + why)
    if frames.is_final(reason):
        return errors.lane_ended()
    return ClientError(errors.UNAVAILABLE, f"{reason}; nothing was sent")
