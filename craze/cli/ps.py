"""`craze ps`: the sessions that run on this machine, or the saved ones that could run again.

The hub is asked, and started where none runs; without one the hosts themselves are. What they say
is read tolerantly, since a session may be served by any build, and shown harmlessly.
"""

import os
import time
from collections import deque
from typing import Any, NamedTuple

import gevent
import typer

from craze import greenlets
from craze.client.errors import Refused
from craze.clock import Clock
from craze.hub import roster
from craze.hub.link import Lost, own_row
from craze.machine import config, index, registry
from craze.machine.errors import MachineError
from craze.machine.index import Load
from craze.machine.paths import Paths
from craze.terminal import table
from craze.wire import documents, json
from craze.wire.cells import graphemes, one_line, width
from craze.wire.limits import HUB_FIND, ROSTER_ASKED_AT_ONCE, ROSTER_ROWS
from craze.wire.plain import plain_line
from craze.wire.times import parse_time

from . import asking, failures
from .failures import Failure

NAME = "craze ps"
ANSWER = 5.0  # seconds for the hub's answer, once it was found
DIRECT = 3.0  # seconds for all hosts, where they are asked themselves

# The states in the order they are listed in.
NEEDS_YOU, WORKING, STARTING, FAILED, IDLE, UNREACHABLE = STATES = (
    "needs you", "working", "starting", "failed", "idle", "unreachable",
)  # fmt: skip

_HEADINGS = ("SESSION", "STATE", "PROVIDER", "MODEL", "DIR", "SINCE", "TITLE")
_SAVED_HEADINGS = ("ID", "PROVIDER", "DIR", "UPDATED", "TITLE")
_SHORT_ID = 8
_MODEL_CELLS = 32
_TITLE_CELLS = 100  # where stdout is no terminal
_LEAST_DIR = 10
_NO_WIDTH = 80  # of a terminal that does not say
_UNCUT = 1 << 20
_AGES = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))

Object = dict[str, Any]


def ps(
    as_json: bool = typer.Option(False, "--json", help="Print the answer as one line of JSON."),
    no_hub: bool = typer.Option(
        False, "--no-hub", help="Ask no hub, and start none: read what is on this machine itself."
    ),
    saved: bool = typer.Option(
        False,
        "--saved",
        help="List the saved sessions that do not run, newest first, each with the id that"
        " `craze new --load` takes.",
    ),
) -> None:
    """
    Lists the sessions that run on this machine: those that need an answer from you first, then
    those at work, starting, failed, idle, and those that cannot be reached.

    The hub is asked, and started if none runs. If it cannot be, the list is read from the sessions
    themselves, and stderr says so.
    """
    asking.interruptible()
    try:
        paths = Paths.of(os.environ)
        answer = _answer(paths, saved=saved, no_hub=no_hub)
    except MachineError as failure:
        raise Failure(failures.named(NAME, str(failure))) from None
    if as_json:
        text = table.raw_line(answer)
    elif saved:
        text = _saved_table(answer, paths)
    else:
        text = _table(answer, paths)
    failures.show(NAME, text)


def _answer(paths: Paths, *, saved: bool, no_hub: bool) -> bytes:
    """The result of sessions.list, or of sessions.saved: the hub's, or our own. Raises
    MachineError."""
    why = "--no-hub: "
    if not no_hub:
        method, needs = ("sessions.saved", ("reopen",)) if saved else ("sessions.list", ())
        try:
            return asking.ask(paths, NAME, method, {}, needs=needs, seconds=HUB_FIND + ANSWER)
        except asking.Unanswered as failure:
            why = f"the hub is not available ({failure}); "
        except Refused as refused:
            why = f"the hub is not available ({refused.message or refused.code}); "
    instead = "the session index" if saved else "each session's host"
    failures.report(f"{NAME}: {why}reading {instead} directly")
    return _saved(paths) if saved else _running(paths)


# ---- without a hub ----


def _running(paths: Paths) -> bytes:
    """What a hub's sessions.list would say of this moment. Raises MachineError."""
    live, unreadable = registry.scan(paths)
    for host_id in unreadable:
        failures.report(f"{NAME}: the registry entry of the live host {host_id} cannot be read")
    until = time.monotonic() + DIRECT
    waiting = deque(filter(roster.listable, live))
    rows: dict[str, bytes] = {}

    def work() -> None:
        while waiting:
            entry = waiting.popleft()
            row = _row(paths, entry, max(0.001, until - time.monotonic()))
            if row:
                rows[entry.hostId] = row

    workers = min(ROSTER_ASKED_AT_ONCE, len(waiting))
    asked = [greenlets.spawn("ask", work) for _ in range(workers)]
    try:
        gevent.joinall(asked, raise_error=True)
    finally:
        gevent.killall(asked)
    listed = sorted(rows)[:ROSTER_ROWS]
    cut = len(rows) > len(listed)
    return documents.list_result("", 0, [rows[host_id] for host_id in listed], truncated=cut)


def _row(paths: Paths, entry: registry.Entry, seconds: float) -> bytes:
    """A host's roster row; b"" where the host is stopping or gone by now."""
    version, row, status = "", b"", roster.UNREACHABLE
    until = time.monotonic() + seconds
    try:
        with asking.greeted(entry.socket, NAME, seconds) as link:
            version = link.version
            left = max(0.001, until - time.monotonic())
            row, status = own_row(link.ask("sessions.list", {}, left)), roster.REACHABLE
    except (Lost, Refused):
        pass
    try:
        # What it said may be from after it was told to stop: its entry tells.
        entry = registry.read(paths, entry.hostId)
    except FileNotFoundError:
        return b""
    except MachineError:
        pass  # it stays as it stood
    return roster.encode(entry, version, status, row) if roster.listable(entry) else b""


def _saved(paths: Paths) -> bytes:
    """What a hub's sessions.saved would say. Raises MachineError."""
    from craze.hub import saved

    live, unreadable = registry.scan(paths)
    if unreadable:
        raise MachineError(f"the registry entry of the live host {unreadable[0]} cannot be read")
    rows = saved.read(paths, lambda text: failures.report(f"{NAME}: {text}"))
    return saved.saved(rows, live, {}, config.load(paths, os.environ))


# ---- the tables ----


class _Session(NamedTuple):
    """One line of the table, and what it is sorted by."""

    state: str
    newest: int
    id: str
    cells: tuple[str, ...]


def _table(answer: bytes, paths: Paths) -> str:
    now = Clock().now()
    titles = _Titles(paths)
    said = json.parse(answer)
    sessions = [_session(row, paths, titles, now) for row in _objects(said)]
    if not sessions:
        return "no sessions running\n"
    if isinstance(said, dict) and said.get("truncated") is True:
        failures.report(f"{NAME}: there are more; these are the first {len(sessions)}")
    sessions.sort(key=lambda it: (STATES.index(it.state), -it.newest, it.id))
    return _fitted([_HEADINGS, *(session.cells for session in sessions)])


def _session(listed: Object, paths: Paths, titles: "_Titles", now: int) -> _Session:
    host, row = _object(listed, "host"), _object(listed, "row")
    id = _text(listed, "sessionId")
    state = _state(_text(listed, "status"), host, row)
    since = _time(row, "since")
    cells = (
        plain_line(id)[-_SHORT_ID:],
        state,
        _text(host, "provider") or _text(_object(row, "provider"), "label"),
        one_line(plain_line(_text(row, "model")), _MODEL_CELLS),
        _directory(_text(host, "workspace"), paths),
        _age(since, now),
        _text(row, "title").strip() or titles.of(id),
    )
    return _Session(state, since or _time(host, "startedAt"), id, cells)


def _state(status: str, host: Object, row: Object) -> str:
    """The state of a session as people are told it (protocol tables 5.2)."""
    if status == roster.UNREACHABLE:
        return UNREACHABLE
    if not row:  # nothing was heard from it in time, or it says too much
        return UNREACHABLE if host.get("ready") is True else STARTING
    activity, foreign = _text(row, "activity"), row.get("foreignTurn") is True
    pending, last = row.get("pendingAsks"), _object(row, "lastTurn")
    if isinstance(pending, int) and pending > 0:
        return NEEDS_YOU
    if row.get("startFailed") is True or last.get("outcome") == "failed":
        return FAILED
    if activity == "error" and not last and not foreign:
        return FAILED
    if activity in ("starting", "replaying"):
        return STARTING
    return WORKING if activity in ("working", "closing") or foreign else IDLE


def _saved_table(answer: bytes, paths: Paths) -> str:
    now = Clock().now()
    result = json.parse(answer)
    more = isinstance(result, dict) and result.get("more") is True
    lines = [
        (
            _text(session, "id"),
            _text(session, "provider"),
            _directory(_text(session, "workspace"), paths),
            _age(_time(session, "updatedAt"), now),
            _text(session, "title"),
        )
        for session in _objects(result)
    ]
    if not lines:
        return "no saved sessions\n"
    if more:
        failures.report(f"{NAME}: there are more; these are the {len(lines)} newest")
    return _fitted([_SAVED_HEADINGS, *lines])


class _Titles:
    """The titles in the session index, which is read when the first is asked for."""

    __slots__ = ("_paths", "_rows")

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._rows: list[index.Row] | None = None

    def of(self, craze_id: str) -> str:
        """The title of a session; "" where the index cannot be read or has none."""
        if self._rows is None:
            try:
                self._rows = index.Index(self._paths).rows()
            except MachineError:
                self._rows = []
        return _text(index.find(self._rows, Load(craze_id=craze_id)) or {}, "title")


def _fitted(lines: list[tuple[str, ...]]) -> str:
    """The table, as wide as the terminal at most: its DIR is cut first, then its TITLE."""
    rows = [[one_line(plain_line(cell), _UNCUT) or "-" for cell in line] for line in lines]
    directory, title = lines[0].index("DIR"), lines[0].index("TITLE")
    screen = _screen()
    if screen:
        for column, least, cut in (
            (directory, _LEAST_DIR, _end),
            (title, len("TITLE"), one_line),
        ):
            widths = [max(width(row[at]) for row in rows) for at in range(len(rows[0]))]
            over = sum(widths) + 2 * (len(widths) - 1) - screen
            if over > 0:
                _cut(rows, column, max(least, widths[column] - over), cut)
    else:
        _cut(rows, title, _TITLE_CELLS, one_line)
    return table.columns(rows)


def _cut(rows: list[list[str]], column: int, cells: int, cut: Any) -> None:
    for row in rows:
        if width(row[column]) > cells:
            row[column] = cut(row[column], cells)


def _end(path: str, cells: int) -> str:
    """The end of a path, which tells more than its beginning, in so many cells."""
    kept, left = "", cells - 1
    for piece in reversed(list(graphemes(path))):
        left -= width(piece)
        if left < 0:
            break
        kept = piece + kept
    return "…" + kept


def _screen() -> int:
    """How many cells wide the terminal on stdout is; 0 where it is none."""
    if not os.isatty(1):
        return 0
    try:
        return os.get_terminal_size(1).columns or _NO_WIDTH
    except OSError:
        return _NO_WIDTH


def _directory(path: str, paths: Paths) -> str:
    if path == paths.home or path.startswith(paths.home + "/"):
        return "~" + path[len(paths.home) :]
    return path


def _age(then: int, now: int) -> str:
    """How long ago, in the largest unit that fits; "" for a time that is not known."""
    if not then:
        return ""
    seconds = max(0, now - then) // 1_000_000_000
    size, unit = next((it for it in _AGES if seconds >= it[0]), _AGES[-1])
    return f"{seconds // size}{unit}"


# ---- what a peer says, of whatever build ----


def _objects(result: Any) -> list[Object]:
    """The sessions of a result."""
    value = result.get("sessions") if isinstance(result, dict) else None
    return [it for it in value if isinstance(it, dict)] if isinstance(value, list) else []


def _object(members: Object, name: str) -> Object:
    value = members.get(name)
    return value if isinstance(value, dict) else {}


def _text(members: Object, name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""


def _time(members: Object, name: str) -> int:
    try:
        return parse_time(_text(members, name))
    except (ValueError, OverflowError):
        return 0
