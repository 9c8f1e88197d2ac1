"""The snapshot codec, version 1: a session's state as one JSON object within a byte budget.

What has to be there goes in first, every entry as its ledger record. Then entries take the place
of their records, newest first, as long as the whole stays within the budget: exactly counted,
none skipped. Entries are encoded many at a time; only where the budget ends is each measured.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from craze.transcript import caps
from craze.transcript.entries import Record, Transcript
from craze.transcript.restore import VERSION
from craze.transcript.restore import restore as restore
from craze.transcript.state import CAPPED_SECTIONS, SECTIONS, Agent, Ask, State, Turn
from craze.wire import json, words
from craze.wire.documents import Piece

_BATCH_BYTES: Final = 256 * 1024  # of entries encoded together
_ENTRY_FRAME: Final = 160  # about what an entry's document adds to its strings


class SnapshotTooLarge(Exception):
    """Not even what a snapshot must hold is within its budget."""

    def __init__(self) -> None:
        super().__init__("transcript: snapshot too large for its byte budget")


class UnknownSubagent(Exception):
    """The snapshot was asked for a sub-agent that the session does not have."""

    def __init__(self, agent: str) -> None:
        super().__init__(
            f"transcript: no sub-agent {words.quote(agent)} in the model: agent: no such sub-agent"
        )


def encode(state: State, budget: int, agent: str = "") -> bytes:
    """The snapshot of `state` in at most `budget` bytes (codecs 2), as `pieces` has it."""
    return b"".join(pieces(state, budget, agent))


def pieces(state: State, budget: int, agent: str = "") -> list[Piece]:
    """The snapshot of `state` in at most `budget` bytes, in pieces: whoever puts it into something
    larger joins them once, and megabytes are not copied to be copied again.

    `agent` names the sub-agent whose entries go in before the older ones of the session's own.
    Raises SnapshotTooLarge and UnknownSubagent.
    """
    if agent and agent not in state.subs and agent not in state.agents:
        raise UnknownSubagent(agent)
    main = _Window(state.main, {})
    subs = [_Window(sub, {"id": sub.agent}) for sub in state.subs.values()]
    main.require_newest()
    body = len(b',"main":}') + main.size
    if subs:
        body += len(b',"subs":[]') + sum(sub.size for sub in subs) + len(subs) - 1
    header = _header(state, budget - body)[:-1]  # its closing brace comes last
    room = budget - body - len(header)
    if room < 0:
        raise SnapshotTooLarge
    # The sub-agent asked for, the session's own, the others: sorting keeps their order.
    for window in sorted((main, *subs), key=lambda window: window.agent != agent):
        room -= window.fill(room)
    parts: list[Piece] = [header, b',"main":', *main.encoded()]
    lead = b',"subs":['
    for sub in subs:
        parts += (lead, *sub.encoded())
        lead = b","
    parts.append(b"]}" if subs else b"}")
    return parts


class _Window:
    """The part of one transcript that goes into a snapshot: its newest entries and a ledger.

    `size` is the bytes of the transcript's object as it stands.
    """

    __slots__ = (
        "_content", "_documents", "_lead", "_ledger", "_pieces", "_records", "_taken",
        "_transcript", "agent", "size",
    )  # fmt: skip

    def __init__(self, transcript: Transcript, lead: dict[str, Any]) -> None:
        self.agent = transcript.agent
        self._transcript = transcript
        self._lead = lead
        self._documents = transcript.documents()
        self._records: list[Record] = [*transcript.ledger]
        self._records += [
            [entry.size, entry["tool"]["id"]]
            if "tool" in entry and entry["tool"].get("id")
            else [entry.size]
            for entry in transcript.entries
        ]
        self._taken = 0  # entries that are in
        self._pieces: list[Piece] = []  # their bytes, newest first, without the brackets
        self._content = 0  # how many bytes those are, with the commas between
        self._ledger = len(json.dumps(self._records)) - 2
        self.size = self._measure(0, 0, self._ledger)

    def require_newest(self) -> None:
        """Takes the newest entry in, whatever the budget says."""
        if self._documents:
            self._take(1, None)

    def fill(self, room: int) -> int:
        """Takes entries in, newest first, as long as they fit. Gives the bytes they took."""
        before = self.size
        limit = before + room
        singly = False
        while left := len(self._documents) - self._taken:
            count = 1 if singly else self._batch(left, limit - self.size)
            if not self._take(count, limit):
                if count == 1:
                    break
                singly = True  # the budget ends within this batch
        return self.size - before

    def encoded(self) -> list[Piece]:
        """The transcript's object, in pieces."""
        members: list[list[Piece]] = []
        scalars = json.dumps(self._scalars(self._taken))[1:-1]
        if scalars:
            members.append([scalars])
        omitted = self._records[: len(self._records) - self._taken]
        if omitted:
            members.append([b'"omitted":', json.dumps(omitted)])
        if self._pieces:
            joined: list[Piece] = [b'"entries":[']
            for piece in reversed(self._pieces):
                joined += (piece, b",")
            joined[-1] = b"]"
            members.append(joined)
        parts: list[Piece] = [b"{"]
        for member in members:
            parts += member
            parts.append(b",")
        if members:
            parts.pop()
        parts.append(b"}")
        return parts

    def _batch(self, left: int, room: int) -> int:
        """How many of the `left` entries to encode together next.

        The oldest goes alone: with it the marks of a window go too, so that only there the object
        can shrink, and only there a batch could fit though not each entry before its last did.
        """
        wanted = min(room, _BATCH_BYTES)
        count = 0
        for record in islice(reversed(self._records), self._taken, self._taken + left - 1):
            wanted -= record[0] + _ENTRY_FRAME
            count += 1
            if wanted <= 0:
                break
        return max(count, 1)

    def _take(self, count: int, limit: int | None) -> bool:
        """Puts the next `count` entries in if the object then has at most `limit` bytes."""
        end = len(self._documents) - self._taken
        piece = memoryview(json.dumps(self._documents[end - count : end]))[1:-1]
        content = self._content + len(piece) + (1 if self._content else 0)
        end = len(self._records) - self._taken
        freed = len(json.dumps(self._records[end - count : end])) - 2
        ledger = self._ledger - freed - (1 if end > count else 0)
        size = self._measure(self._taken + count, content, ledger)
        if limit is not None and size > limit:
            return False
        self._taken += count
        self._pieces.append(piece)
        self._content, self._ledger, self.size = content, ledger, size
        return True

    def _measure(self, taken: int, content: int, ledger: int) -> int:
        members = [len(json.dumps(self._scalars(taken))) - 2]
        if taken < len(self._records):
            members.append(len(b'"omitted":[]') + ledger)
        if taken:
            members.append(len(b'"entries":[]') + content)
        present = [member for member in members if member]
        return len(b"{}") + sum(present) + max(len(present) - 1, 0)

    def _scalars(self, taken: int) -> dict[str, Any]:
        """The members before `omitted` and `entries` when so many entries are in."""
        held = self._transcript
        run = held.run
        left_out = len(self._documents) - taken
        members = {
            "trimmed": held.trimmed,
            "windowed": held.windowed or left_out > 0,
            "dropped": held.dropped + left_out,
            "streamOpen": run is not None,
            "tailCut": run is not None and taken > 0 and run.cut,
            "todoPlanned": held.todo_planned,
            "todoDone": held.todo_done,
            "omittedRun": run.kind if run is not None and not taken else "",
        }
        made = {**self._lead, **{name: value for name, value in members.items() if value}}
        if held.compacting is not None:
            made["compacting"] = held.compacting
        return made


def _header(state: State, room: int) -> bytes:
    """Everything but the transcripts. The slash catalog, then its mark, yield to `room`."""
    slash, cut = caps.slash(state.settings["slash"]) if "slash" in state.settings else ({}, False)
    cut = cut or "slash" in state.cut_sections
    choices: list[tuple[Mapping[str, Any], bool]] = [(slash, cut)]
    if slash:
        choices.append(({}, True))
    if slash or cut:
        choices.append(({}, False))
    before = {"version": VERSION, **_present(
        incarnation=state.incarnation,
        seq=state.seq,
        local=state.names.local,
        finishSeq=state.finish_seq,
        agents=[_agent(row) for row in state.agents.values()],
    )}  # fmt: skip
    todos, todos_cut = caps.capped(state.todos)
    before |= _present(
        todos=todos,
        todosTruncated=todos_cut or state.todos_truncated,
        asks=[_ask(ask) for ask in state.asks.values()],
        ended=list(state.ended.values()),
        turn=_turn(state.turn),
        replaying=state.replaying,
    )
    sections, marks = _sections(state)
    after = _queue(state)
    header = b""
    for section, mark in choices:
        settings = dict(sections)
        if section:
            settings["slash"] = section
        truncated = {**marks, "slash": True} if mark else marks
        if truncated:
            settings["truncated"] = truncated
        header = json.dumps({**before, **_present(settings=settings), **after})
        if len(header) - 1 <= room:
            break
    return header


def _sections(state: State) -> tuple[dict[str, Any], dict[str, bool]]:
    """The settings but for `slash`, capped, and the marks of what was cut."""
    made: dict[str, Any] = {}
    marks: dict[str, bool] = {}
    for name in SECTIONS[:-1]:
        value, cut = state.settings.get(name), False
        if name in CAPPED_SECTIONS:
            value, cut = caps.capped(value)
        if value:
            made[name] = value
        if cut or name in state.cut_sections:
            marks[name] = True
    return made, marks


def _queue(state: State) -> dict[str, Any]:
    rows, cut_rows = [], []
    for held in state.queue:
        row, cut = caps.only(held, "text")
        rows.append(row)
        ident = row.get("id", "")
        if cut or ident in state.cut_rows:
            cut_rows.append(ident)
    return _present(queue=rows, truncatedQueue=cut_rows)


def _agent(row: Agent) -> dict[str, Any]:
    info, cut = caps.only(row.info, "prompt", "output")
    return {"info": info, **_present(finish=row.finish, truncated=cut or row.truncated)}


def _ask(ask: Ask) -> dict[str, Any]:
    ident, ident_cut = caps.capped(ask.id)
    body, body_cut = caps.ask_body(ask.kind, ask.body)
    return _present(
        id=ident,
        kind=ask.kind,
        body={ask.kind: body},
        at=ask.at,
        truncated=ident_cut or body_cut or ask.truncated,
    )


def _turn(turn: Turn) -> dict[str, Any]:
    text, cut = caps.capped(turn.text)
    made = _present(id=turn.id, text=text, origin=turn.origin, at=turn.at)
    if turn.foreign is not None:
        made["foreign"] = turn.foreign
    return made | _present(truncated=cut or turn.truncated)


def _present(**members: Any) -> dict[str, Any]:
    """The members that are not at their zero value."""
    return {name: value for name, value in members.items() if value}
