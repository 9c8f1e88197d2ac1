"""A hub's roster row as a session's row, and what a session's own row says it is doing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from craze_shed.contract import rows
from craze_shed.contract.errors import START_FAILED_TEXT
from craze_shed.contract.sessions import LaneSession
from craze_shed.craze.values import count, filled, members, milliseconds, text, whole

MOST = 2**32 - 1  # of what a row counts

_WORKING = frozenset(("working", "starting", "replaying"))


def work(row: Mapping[str, Any]) -> str:
    """What a host's row says of its work, asks aside."""
    activity = text(row.get("activity"))
    if row.get("foreignTurn") is True or activity in _WORKING:
        return rows.WORKING
    return rows.IDLE if activity == "idle" else rows.UNKNOWN


def session(listed: Mapping[str, Any]) -> LaneSession:
    """The session of a roster row whose ids were read. What of the row cannot be read leaves it
    approximate."""
    host, row = listed.get("host"), listed.get("row")
    halves = isinstance(host, dict) and (row is None or isinstance(row, dict))
    reachable = listed.get("status") == "reachable"
    made = of_host(str(listed["hostId"]), members(host), members(row))
    exact = halves and reachable and listed.get("approximate") is not True
    activity = made.activity
    if not members(row) or listed.get("status") == "unreachable":
        activity = rows.NEEDS_APPROVAL if made.pending_approvals else rows.UNKNOWN
    return replace(made, activity=activity, approximate=not exact)


def of_host(host_id: str, host: Mapping[str, Any], row: Mapping[str, Any]) -> LaneSession:
    """The session of a host's own row; `host` is what the roster says of the host."""
    workspace = filled(host.get("workspace")) or filled(row.get("workspace")) or ""
    since = milliseconds(row.get("since"))
    started = milliseconds(host.get("startedAt")) or milliseconds(row.get("startedAt"))
    asks = count(row.get("pendingAsks"))
    ask = members(row.get("headAsk"))
    provider = filled(host.get("provider")) or filled(members(row.get("provider")).get("name"))
    failed = row.get("startFailed") is True
    return LaneSession(
        id=host_id,
        title=filled(row.get("title")) or title_of(workspace),
        cwd=workspace,
        activity=rows.NEEDS_APPROVAL if asks else work(row),
        pending_approvals=min(asks, MOST),
        last_change_unix_ms=since if since is not None else started,
        provider=provider,
        model=filled(row.get("model")),
        doing=filled(row.get("doing")),
        head_ask_summary=filled(ask.get("summary")) or filled(ask.get("label")),
        last_reply=filled(row.get("lastReply")),
        since_unix_ms=since,
        attached=attached(row.get("attached")),
        start_error=filled(row.get("startErr")) or START_FAILED_TEXT if failed else None,
        provider_session_id=filled(row.get("providerSessionId")),
        permission_mode=filled(row.get("permissionMode")),
    )


def title_of(workspace: str) -> str:
    """What a session without a title is called: its directory's name."""
    return workspace.rstrip("/").rpartition("/")[2] or workspace


def attached(value: Any) -> int | None:
    """A number of attached clients, where it is one."""
    clients = whole(value)
    return clients if clients is not None and clients <= MOST else None
