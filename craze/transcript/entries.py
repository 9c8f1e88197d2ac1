"""A transcript: a bounded list of entries, the run that is still streaming, and what was left out.

An entry is its own wire document (codecs 2.4), so a snapshot encodes it as it stands. The text of
the open run is kept in pieces and joined only when somebody asks for it: a busy session adds a
piece thousands of times for each time it is read.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from craze.transcript import text
from craze.wire import limits

Record = list[Any]  # an omitted entry: [bytes], or [bytes, "tool id"]

_PIECE_COST: Final = 64  # what a piece costs beside its text
_PIECES_COST: Final = 4 * limits.STREAM_TEXT

_TOOL_STRINGS: Final = (
    "id", "name", "status", "kind", "title", "toolName", "rawInput", "contentText",
)  # fmt: skip
_OUTPUT_STRINGS: Final = ("stdout", "stderr", "content", "stdoutHead", "stderrHead")
_DIFF_STRINGS: Final = ("path", "oldText", "newText")
_TASK_STRINGS: Final = ("description", "prompt", "model", "agentId", "subagentType", "status")
_PLAN_STRINGS: Final = ("id", "name", "overview", "plan")
_TODO_STRINGS: Final = ("id", "content", "status")


class Entry(dict[str, Any]):
    """An entry's wire document, and its `size` in bytes for the transcript's bounds."""

    __slots__ = ("size",)
    size: int


class Run:
    """The open run: the last entry, growing by pieces until something closes it.

    `entry` is None when the entry itself was left out of the snapshot this was restored from; its
    ledger record then grows instead and nothing is drawn.
    """

    __slots__ = ("_cost", "_pieces", "entry", "kind", "length")

    def __init__(self, kind: str, entry: Entry | None) -> None:
        self.kind = kind
        self.entry = entry
        self.length = 0  # bytes streamed
        self._pieces: list[str] = []
        self._cost = 0

    def add(self, words: str) -> int:
        """Takes the next piece; gives by how many bytes the kept text grew."""
        count = len(words) if words.isascii() else text.size(words)
        self._pieces.append(words)
        self._cost += count + _PIECE_COST
        if self._cost > _PIECES_COST:
            self._compact()
        room = limits.STREAM_TEXT - self.length
        self.length += count
        if room >= count:
            return count
        return room if room > 0 else 0

    @property
    def cut(self) -> bool:
        """Whether the text has lost its beginning."""
        return self.length > limits.STREAM_TEXT

    def text(self) -> str:
        """The text so far: whole, or `…` and its tail."""
        whole = self._compact()
        if not self.cut:
            return whole
        return text.ELLIPSIS + text.tail(whole, limits.STREAM_TEXT - text.size(text.ELLIPSIS))

    def document(self) -> dict[str, Any]:
        """The wire document of the open entry."""
        assert self.entry is not None
        made = dict(self.entry, text=self.text())
        if self.kind == "thought":
            made["open"] = True
        made["streaming"] = True
        if self.cut:
            made["cut"] = True
        return made

    def _compact(self) -> str:
        # As many characters as the cap has bytes hold every byte that can still be shown.
        whole = "".join(self._pieces)[-limits.STREAM_TEXT :]
        self._pieces = [whole]
        self._cost = len(whole)
        return whole


class Names:
    """The ids of entries: `<seq>.<n>` by the event being folded, else `0.<k>` by a counter."""

    __slots__ = ("index", "local", "seq")

    def __init__(self) -> None:
        self.seq = 0  # of the event being folded; 0 when it has none of its own
        self.index = 0  # of the next entry that event makes
        self.local = 0

    def next(self) -> str:
        if self.seq:
            self.index += 1
            return f"{self.seq}.{self.index - 1}"
        self.local += 1
        return f"0.{self.local}"


class Transcript:
    """One conversation, the session's own (`agent` is "") or a sub-agent's.

    `entries` are the retained ones, oldest first (the open run's text is not in its entry: read
    `documents`). `ledger` holds a record for each older entry that a snapshot left out. Both count
    toward the bounds; `size` is their bytes.
    """

    __slots__ = (
        "_max_bytes", "_max_entries", "_names", "_tools", "agent", "compacting", "dropped",
        "entries", "ledger", "run", "size", "todo_done", "todo_planned", "trimmed", "windowed",
    )  # fmt: skip

    def __init__(self, agent: str, names: Names, max_entries: int, max_bytes: int) -> None:
        self.agent = agent
        self.entries: deque[Entry] = deque()
        self.ledger: deque[Record] = deque()
        self.size = 0
        self.run: Run | None = None
        self.trimmed = False
        self.windowed = False
        self.dropped = 0
        self.todo_planned = 0
        self.todo_done = False
        self.compacting: dict[str, Any] | None = None
        self._tools: dict[str, Entry | Record] = {}
        self._names = names
        self._max_entries = max_entries
        self._max_bytes = max_bytes

    def documents(self) -> list[dict[str, Any]]:
        """The retained entries' wire documents, oldest first, the open run's with its text."""
        made: list[dict[str, Any]] = list(self.entries)
        if self.run is not None and self.run.entry is not None:
            made[-1] = self.run.document()
        return made

    def stream(self, kind: str, words: str, at: str) -> None:
        """Adds a piece (not empty) to the open run of `kind`, or begins one."""
        run = self.run
        if run is None or run.kind != kind:
            run = self._begin(kind, at)
        entry = run.entry
        if entry is None:
            self._grow_omitted(words)
            return
        grown = run.add(words)
        if at:
            entry["end"] = at
        if grown:
            entry.size += grown
            self.size += grown
            if self.size > self._max_bytes:
                self._trim()

    def close_run(self, at: str) -> None:
        """Ends the open run, if there is one; `at` is the time of what ended it."""
        run = self.run
        if run is None:
            return
        self.run = None
        entry = run.entry
        if entry is None:
            return
        entry["text"] = run.text()
        if run.kind == "thought" and at:
            entry["end"] = at
        if run.cut:
            entry["cut"] = True

    def append(
        self, kind: str, at: str, size: int, content: Mapping[str, Any], interject: bool = False
    ) -> Entry:
        """Adds an entry after closing the run. `content` is its payload members, in wire order."""
        self.close_run(at)
        entry = Entry(id=self._names.next(), kind=kind, **content)
        if at:
            entry["at"] = entry["end"] = at
        if interject:
            entry["interject"] = True
        entry.size = size
        self.entries.append(entry)
        self.size += size
        self._trim()
        return entry

    def words(self, kind: str, words: str, at: str, interject: bool = False) -> None:
        """Adds an entry that is only text: a prompt, a note, an error."""
        self.append(kind, at, text.size(words), {"text": words} if words else {}, interject)

    def note(self, words: str, at: str) -> None:
        self.words("note", words, at)

    def tool(self, call: Mapping[str, Any], at: str) -> None:
        """Puts a tool's whole state in its entry's place, or adds an entry for it."""
        self.close_run(call.get("at") or at)
        ident = call.get("id")
        size = tool_size(call)
        held = self._tools.get(ident) if ident else None
        if held is None:
            entry = self.append("tool", at, size, {"tool": call})
            if ident:
                self._tools[ident] = entry
        elif isinstance(held, Entry):
            self.size += size - held.size
            held.size = size
            held["tool"] = call
        else:
            self.size += size - held[0]
            held[0] = size

    def adopt(self, entry: Entry) -> None:
        """Takes an entry over from a snapshot, as it is and after the others."""
        self.entries.append(entry)
        self.size += entry.size
        ident = entry["tool"].get("id") if "tool" in entry else None
        if ident:
            self._tools[ident] = entry

    def adopt_record(self, record: Record) -> None:
        """Takes over a snapshot's record of an entry it left out."""
        self.ledger.append(record)
        self.size += record[0]
        if len(record) > 1:
            self._tools[record[1]] = record

    def _begin(self, kind: str, at: str) -> Run:
        # The text is put in when the run closes; its place among the members is taken now.
        entry = self.append(kind, at, 0, {"text": ""})
        run = self.run = Run(kind, entry)
        return run

    def _grow_omitted(self, words: str) -> None:
        record = self.ledger[-1]
        grown = min(record[0] + text.size(words), limits.STREAM_TEXT) - record[0]
        if grown > 0:
            record[0] += grown
            self.size += grown
            self._trim()

    def _trim(self) -> None:
        while len(self.entries) + len(self.ledger) > self._max_entries:
            self._drop_oldest()
        while self.size > self._max_bytes and len(self.entries) + len(self.ledger) > 1:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self.trimmed = True
        dropped: Entry | Record
        if self.ledger:
            dropped = self.ledger.popleft()
            self.size -= dropped[0]
            ident = dropped[1] if len(dropped) > 1 else ""
        else:
            dropped = self.entries.popleft()
            self.size -= dropped.size
            ident = dropped["tool"].get("id") if "tool" in dropped else ""
        if ident and self._tools.get(ident) is dropped:
            del self._tools[ident]


def tool_size(call: Mapping[str, Any]) -> int:
    """The bytes a tool's strings count for (codecs 2.4)."""
    total = _sum(call, _TOOL_STRINGS)
    for path in call.get("locations") or ():
        total += text.size(path)
    output = call.get("output")
    if output:
        total += _sum(output, _OUTPUT_STRINGS)
    for diff in call.get("diffs") or ():
        total += _sum(diff, _DIFF_STRINGS)
    task = call.get("task")
    if task:
        total += _sum(task, _TASK_STRINGS)
    return total


def plan_size(plan: Mapping[str, Any]) -> int:
    """The bytes a plan's strings count for (codecs 2.4)."""
    todos = sum(_sum(todo, _TODO_STRINGS) for todo in plan.get("todos") or ())
    return _sum(plan, _PLAN_STRINGS) + todos


def _sum(holder: Mapping[str, Any], names: tuple[str, ...]) -> int:
    total = 0
    for name in names:
        value = holder.get(name)
        if value:
            total += text.size(value)
    return total
