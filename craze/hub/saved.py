"""Which sessions of the index are saved ones, and what a reopen of an id would load.

Both decide by the same two functions, `resolve` and `resumable`: what is listed can be reopened,
and what would be loaded is what was listed. Nothing here touches the disk but `read`; no directory
of a session is ever looked at, so that a file system that hangs stalls no listing.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from craze.machine import index, providers
from craze.machine.config import Config
from craze.machine.errors import MachineError
from craze.machine.ids import is_token
from craze.machine.index import Load, Row, Unattended
from craze.machine.paths import Paths
from craze.machine.registry import Entry
from craze.wire import documents, json
from craze.wire.limits import SAVED_ID, SAVED_LIMIT, SAVED_RESULT, SAVED_WORKSPACE
from craze.wire.times import format_time, parse_time
from craze.wire.titles import normalize
from craze.wire.words import quote

MALFORMED = "that session's index row is malformed"


def read(paths: Paths, report: Callable[[str], None]) -> list[Row]:
    """The rows of the index; none where it cannot be read, which `report` then hears. Blocks."""
    try:
        return index.Index(paths).rows()
    except MachineError as failure:
        report(f"the session index cannot be read: {failure}")
        return []


def saved(
    rows: Iterable[Row], running: Collection[Entry], args: dict[str, Any], settings: Config
) -> bytes:
    """The result of `sessions.saved` (protocol tables 10.4), as raw JSON.

    `rows` are the index's, `running` the live hosts' entries, `args` the decoded params.
    """
    workspace, subagents = args.get("workspace"), args.get("subagents", False)
    ids = {entry.crazeSessionId for entry in running if not entry.stopping}
    keys = {(entry.provider, entry.providerSessionId) for entry in running if not entry.stopping}
    kept = [
        row
        for row in _loadable(rows)
        if not resumable(row, settings)
        and not (row.get("crazeId") and row["crazeId"] in ids)
        and index.key(row) not in keys
        and (workspace is None or row["cwd"] == workspace)
        and (subagents or Unattended.read(row) is None)
    ]
    kept.sort(key=lambda row: (-index.updated(row), id_of(row)))
    listed: list[bytes] = []
    left = SAVED_RESULT - len(_result([], more=False)) + 1  # the first has no comma before it
    for row in kept[: args.get("limit", SAVED_LIMIT)]:
        session = json.dumps(_document(row))
        left -= len(session) + 1
        if left < 0:
            break
        listed.append(session)
    return _result(listed, more=len(listed) < len(kept))


def resolve(rows: Iterable[Row], id: str) -> Row | None:
    """The row that a load of `id` loads: a craze id's newest row, or the one of a provider and its
    session id; where that has a craze id by now, the newest row of this. None if no row has it."""
    rows = list(rows)
    provider, colon, session = id.partition(":")
    if not colon:
        return index.find(rows, Load(craze_id=id))
    row = index.find(rows, Load(provider=provider, session=session))
    if row is not None and row.get("crazeId"):
        return index.find(rows, Load(craze_id=row["crazeId"]))
    return row


def resumable(row: Row, settings: Config) -> str:
    """Why the session of a row that `resolve` gave cannot be loaded again; "" when it can be."""
    if providers.named(settings, row["provider"]) is None:
        named = quote(row["provider"])
        return f"that session's provider {named} is not one this craze can resume"
    return "" if _well_formed(row) else MALFORMED


def id_of(row: Row) -> str:
    """The id that a load of the row takes."""
    return row.get("crazeId") or ":".join(index.key(row))


def utc(time: Any) -> str:
    """An index's time as the wire writes it; "" where it has none or cannot be written so."""
    try:
        return format_time(parse_time(time)) if isinstance(time, str) else ""
    except (ValueError, OverflowError):
        return ""


def _loadable(rows: Iterable[Row]) -> list[Row]:
    """The rows that a load of some id takes: the newest of each craze id, and those without one."""
    same: dict[Any, list[Row]] = {}
    for row in rows:
        same.setdefault(row.get("crazeId") or index.key(row), []).append(row)
    return [newest for group in same.values() if (newest := index.newest(group)) is not None]


def _well_formed(row: Row) -> bool:
    try:
        return (
            (not row.get("crazeId") or is_token(row["crazeId"]))
            and len(id_of(row).encode()) <= SAVED_ID
            and len(row["sessionId"].encode()) <= SAVED_ID
            and row["cwd"].startswith("/")
            and len(row["cwd"].encode()) <= SAVED_WORKSPACE
            and all(utc(row.get(member)) for member in ("createdAt", "updatedAt"))
        )
    except UnicodeEncodeError:  # half a surrogate pair: as text it would come back as another
        return False


def _document(row: Row) -> documents.Document:
    title = row.get("title")
    return documents.build(
        "savedSession",
        id=id_of(row),
        crazeSessionId=row.get("crazeId"),
        provider=row["provider"],
        providerSessionId=row["sessionId"],
        workspace=row["cwd"],
        title=normalize(title) if isinstance(title, str) else "",
        createdAt=utc(row["createdAt"]),
        updatedAt=utc(row["updatedAt"]),
        subagent=Unattended.read(row) is not None,
    )


def _result(sessions: list[bytes], *, more: bool) -> bytes:
    return documents.encoded(
        [("sessions", b"[%b]" % b",".join(sessions)), ("more", json.dumps(more))]
    )
