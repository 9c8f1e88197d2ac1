"""A roster row as a session's row, member by member."""

from typing import Any

import pytest

from craze_shed.contract.sessions import LaneSession
from craze_shed.craze import roster_rows

HOST = "0123456789ab"
MOMENT = "2026-01-01T00:00:00.5Z"
MOMENT_MS = 1_767_225_600_500
STARTED = "2025-12-31T23:00:00Z"
STARTED_MS = 1_767_222_000_000


def listed(row: Any = None, host: Any = None, **more: Any) -> dict[str, Any]:
    made = {
        "hostId": HOST,
        "sessionId": "s",
        "host": {"workspace": "/code/repo", "provider": "gx", "startedAt": STARTED},
        "status": "reachable",
        "approximate": False,
        "row": {"title": "", "activity": "idle", **(row or {})} if row != "none" else None,
        **more,
    }
    if host is not None:
        made["host"] = host
    return made


def session(*args: Any, **options: Any) -> LaneSession:
    return roster_rows.session(listed(*args, **options))


def test_a_whole_row() -> None:
    row = {
        "title": " The title ", "activity": "working", "foreignTurn": False, "pendingAsks": 0,
        "headAsk": {"summary": "rm -rf", "label": "permission Shell"}, "doing": "Responding",
        "lastReply": "done", "since": MOMENT, "model": "grok", "attached": 2, "startErr": "no",
        "providerSessionId": "p-1", "permissionMode": "bypass",
    }  # fmt: skip
    assert session(row) == LaneSession(
        id=HOST,
        title=" The title ",
        cwd="/code/repo",
        activity="working",
        pending_approvals=0,
        approximate=False,
        last_change_unix_ms=MOMENT_MS,
        provider="gx",
        model="grok",
        doing="Responding",
        head_ask_summary="rm -rf",
        last_reply="done",
        since_unix_ms=MOMENT_MS,
        attached=2,
        provider_session_id="p-1",
        permission_mode="bypass",
    )


@pytest.mark.parametrize(
    ("row", "more", "activity"),
    [
        ({"pendingAsks": 1, "activity": "working"}, {}, "needs_approval"),
        ({"pendingAsks": 1}, {"status": "unreachable"}, "needs_approval"),
        ("none", {}, "unknown"),
        ({"activity": "working"}, {"status": "unreachable"}, "unknown"),
        ({"activity": "working"}, {"status": "connecting"}, "working"),
        ({"activity": "idle", "foreignTurn": True}, {}, "working"),
        ({"activity": "error", "foreignTurn": True}, {}, "working"),
        ({"activity": "working"}, {}, "working"),
        ({"activity": "starting"}, {}, "working"),
        ({"activity": "replaying"}, {}, "working"),
        ({"activity": "idle"}, {}, "idle"),
        ({"activity": "error"}, {}, "unknown"),
        ({"activity": "closing"}, {}, "unknown"),
        ({"activity": "dreaming"}, {}, "unknown"),
        ({"activity": ["working"]}, {}, "unknown"),
        ({"activity": "idle", "pendingAsks": "1"}, {}, "idle"),
    ],
)
def test_activity(row: Any, more: dict[str, Any], activity: str) -> None:
    assert session(row, **more).activity == activity


@pytest.mark.parametrize(
    ("options", "approximate"),
    [
        ({}, False),
        ({"approximate": True}, True),
        ({"status": "connecting"}, True),
        ({"status": "unreachable"}, True),
        ({"status": None}, True),
        ({"host": "no host"}, True),
        ({"host": []}, True),
    ],
)
def test_approximate(options: dict[str, Any], approximate: bool) -> None:
    assert session(**options).approximate is approximate


def test_halves_that_do_not_read_are_dropped() -> None:
    torn = roster_rows.session({**listed(), "row": "torn"})
    assert (torn.approximate, torn.activity, torn.title, torn.provider) == (
        True, "unknown", "repo", "gx",
    )  # fmt: skip
    torn = roster_rows.session({**listed({"title": "T", "model": "m"}), "host": 5})
    assert (torn.approximate, torn.title, torn.cwd, torn.provider, torn.model) == (
        True, "T", "", None, "m",
    )  # fmt: skip
    bare = roster_rows.session({"hostId": HOST, "sessionId": "s"})
    assert bare == LaneSession(id=HOST, approximate=True)


@pytest.mark.parametrize(
    ("title", "workspace", "shown"),
    [
        ("T", "/a/b", "T"),
        (" ", "/a/b", "b"),
        (None, "/a/b/", "b"),
        ("", "/", "/"),
        ("", "b", "b"),
        ("", "", ""),
    ],
)
def test_title(title: Any, workspace: str, shown: str) -> None:
    assert session({"title": title}, {"workspace": workspace}).title == shown


def test_the_last_change_is_the_states_or_the_hosts_start() -> None:
    made = session({})
    assert (made.since_unix_ms, made.last_change_unix_ms) == (None, STARTED_MS)
    assert session({"since": "soon"}, {}).last_change_unix_ms is None


def test_the_head_ask_by_its_summary_or_its_label() -> None:
    label = {"id": "perm-1", "kind": "permission", "label": "permission Shell"}
    assert session({"headAsk": {**label, "summary": "ls"}}).head_ask_summary == "ls"
    assert session({"headAsk": {**label, "summary": " "}}).head_ask_summary == "permission Shell"
    assert session({"headAsk": {}}).head_ask_summary is None


def test_a_start_error_only_of_a_failed_start() -> None:
    assert session({"startErr": "no key"}).start_error is None
    assert session({"startFailed": True, "startErr": "no key"}).start_error == "no key"
    assert session({"startFailed": True}).start_error == "the session failed to start"


@pytest.mark.parametrize(
    ("said", "shown"), [(0, 0), (3, 3), (-1, None), (True, None), (2**32, None)]
)
def test_attached(said: Any, shown: int | None) -> None:
    assert session({"attached": said}).attached == shown


def test_pending_asks_are_bounded() -> None:
    assert session({"pendingAsks": 2**40}).pending_approvals == 2**32 - 1


def test_a_hosts_own_row_needs_no_roster() -> None:
    row = {
        "hostId": HOST, "workspace": "/w", "provider": {"name": "gx", "label": "GX"},
        "startedAt": STARTED, "providerSessionId": "", "activity": "idle", "title": "",
    }  # fmt: skip
    made = roster_rows.of_host(HOST, {}, row)
    assert made == LaneSession(
        id=HOST, title="w", cwd="/w", activity="idle", provider="gx", last_change_unix_ms=STARTED_MS
    )
