"""The documents that hosts and hubs send, byte for byte."""

import json as stdlib

import pytest

from craze.wire import documents, envelope, json, schema

NOW = "2026-01-01T00:00:00Z"
HUB = "aaaaaaaaaaaa"
HOST = "0123456789ab"

CURSOR = (
    "modes", "effort", "fastToggle", "subagentRows", "todos", "askCards", "planCards",
    "parameterizedPicker",
)  # fmt: skip


def info(**changes):
    given = {
        "session_id": "s", "provider_session_id": "p", "incarnation": "i", "host_id": HOST,
        "workspace": "/work", "provider": "", "label": "cursor",
        "models": [{"id": "grok", "name": "Grok"}],
        "modes": [{"id": "agent", "name": "Agent", "description": ""}], "revision": 0,
        "capabilities": documents.session_capabilities(dict.fromkeys(CURSOR, True)),
    }  # fmt: skip
    return documents.info(**{**given, **changes})


INFO = (
    b'{"sessionId":"s","providerSessionId":"p","incarnation":"i","hostId":"0123456789ab",'
    b'"workspace":"/work","provider":{"name":"","label":"cursor"},"catalogs":{"models":'
    b'[{"id":"grok","name":"Grok"}],"modes":[{"id":"agent","name":"Agent","description":""}]},'
    b'"capabilities":{"interject":false,"subagentCancel":false,"subagentBackground":false,'
    b'"modes":true,"effort":true,"fastToggle":true,"subagentRows":true,'
    b'"subagentTranscript":false,"todos":true,"askCards":true,"planCards":true,'
    b'"parameterizedPicker":true,"cancel":true,"approvals":true,"historyCursor":true,'
    b'"stop":false},"retryHorizon":{"commands":1024,"ageMs":600000}'
)


def test_a_host_s_hello():
    hello = documents.host_hello(HOST, "0.2.0", 42, "c-1", "0" * 32, False)
    assert json.dumps(hello) == (
        b'{"protocol":1,"endpoint":{"kind":"host","hostId":"0123456789ab","crazeVersion":"0.2.0",'
        b'"pid":42},"clientId":"c-1","token":"00000000000000000000000000000000","resumed":false,'
        b'"capabilities":{"rosterSubscribe":false,"sessionCreate":false,"multiplex":false,'
        b'"connect":false,"snapshot":true,"attachWhenNow":true},"codecs":{"event":1,"snapshot":1},'
        b'"limits":{"inboundLine":4194304,"outboundLine":16777216},'
        b'"retryHorizon":{"commands":1024,"ageMs":600000}}'
    )
    schema.check_result("hello", hello)


def test_a_hub_s_hello_names_only_the_later_abilities_it_has():
    able = {"create": True, "create_options": True, "create_title": False, "reopen": True}
    hello = documents.hub_hello(HUB, "0.2.0", 42, **able)
    assert json.dumps(hello) == (
        b'{"protocol":1,"endpoint":{"kind":"hub","hostId":"aaaaaaaaaaaa","crazeVersion":"0.2.0",'
        b'"pid":42},"capabilities":{"rosterSubscribe":true,"sessionCreate":true,'
        b'"multiplex":false,"connect":true,"snapshot":false,"attachWhenNow":false,'
        b'"createOptions":true,"reopen":true},"codecs":{"event":1,"snapshot":1},'
        b'"limits":{"inboundLine":4194304,"outboundLine":16777216}}'
    )
    schema.check_result("hello", hello)
    bare = documents.hub_hello(HUB, "", 1, **dict.fromkeys(able, False))
    assert "createOptions" not in bare["capabilities"]
    schema.check_result("hello", bare)


def test_the_session_s_info():
    assert json.dumps(info()) == INFO + b"}"
    able = documents.session_capabilities({"presence": True, "stop": True})
    late = info(provider="grok", label="grok", revision=3, permission_mode="prompt", started_at=NOW,
                capabilities=able)  # fmt: skip
    assert late["provider"] == {"name": "grok", "label": "grok"}
    assert late["catalogs"]["revision"] == 3
    assert list(late)[-2:] == ["permissionMode", "startedAt"]
    assert list(late["capabilities"])[-2:] == ["stop", "presence"]
    schema.validator("info").validate(late)
    with pytest.raises(ValueError, match="capabilities has no flying"):
        documents.session_capabilities({"flying": True})


def test_a_row_is_the_info_and_then_its_own_members():
    row = documents.row(
        info(), title="", activity="working", foreignTurn=False, pendingAsks=1,
        headAsk=documents.build("headAsk", id="perm-1", kind="permission", label="permission Shell",
                                summary="ls"),
        lastTurn=None, doing="Thinking", since=NOW, startFailed=False, prompted=True, model="grok",
        attached=0,
    )  # fmt: skip
    assert json.dumps(row) == (
        INFO + b',"title":"","activity":"working","foreignTurn":false,"pendingAsks":1,'
        b'"headAsk":{"id":"perm-1","kind":"permission","label":"permission Shell","summary":"ls"},'
        b'"doing":"Thinking","since":"2026-01-01T00:00:00Z","prompted":true,"model":"grok"}'
    )
    listed = documents.list_result(HOST, 4, [json.dumps(row)])
    assert listed.startswith(b'{"epoch":"0123456789ab","cursor":4,"sessions":[{"sessionId":"s",')
    schema.check_result("sessions.list", stdlib.loads(listed))


def test_the_session_s_state():
    state = documents.build(
        "state", activity="idle", foreignTurn=False, turn="", waiting=False, queue=[],
        pendingAsks=0, err="", startFailed=False, prompted=True, cancelled=True,
        settings=documents.build("settings", model="grok", mode="agent", config={}),
        lastTurn=documents.build("lastTurn", outcome="done", endedAt=NOW, turnId="turn-1"),
    )  # fmt: skip
    assert json.dumps(state) == (
        b'{"activity":"idle","foreignTurn":false,"turn":"","waiting":false,"queue":[],'
        b'"pendingAsks":0,"err":"","startFailed":false,"prompted":true,"cancelled":true,'
        b'"settings":{"model":"grok","mode":"agent","config":{}},'
        b'"lastTurn":{"outcome":"done","endedAt":"2026-01-01T00:00:00Z","turnId":"turn-1"}}'
    )
    schema.check_result("session.state", state)


def test_an_ask():
    ask = documents.build(
        "ask", id="perm-1", kind="permission", status="resolved", outcome="answered", by="client",
        answer={}, body={"permission": {"id": "perm-1"}}, openedAt=NOW, resolvedAt=NOW,
        truncated=False,
    )  # fmt: skip
    assert list(ask) == [name.rstrip("?") for name in documents.DOCUMENTS["ask"]]
    schema.check_result("asks.get", {"ask": ask})


def test_an_attach_reply_holds_its_snapshot_as_it_was_encoded():
    snapshot = b'{"version":1,"main":{}}'
    result = b"".join(documents.attach_result(
        subscription="s-1", session=info(), ready=True, after=("i", 3),
        snapshot=[snapshot[:5], memoryview(snapshot)[5:]], reset="no_journal",
    ))  # fmt: skip
    assert result == (
        b'{"subscription":"s-1","session":' + INFO + b'},"ready":true,'
        b'"after":{"incarnation":"i","seq":3},"snapshot":' + snapshot + b',"reset":"no_journal"}'
    )
    schema.check_result("session.attach", stdlib.loads(result))
    short = documents.attach_result(subscription="s-2", session=info(), ready=False, after=("i", 0))
    assert b"".join(short).endswith(b'"after":{"incarnation":"i","seq":0}}')
    whole = documents.snapshot_result([snapshot])
    assert b"".join(whole) == b'{"snapshot":' + snapshot + b"}"


def test_the_hub_s_rows_forward_a_host_s_bytes():
    host = documents.build(
        "rosterHost", pid=42, crazeVersion="", protocol=1, provider="", workspace="/work",
        startedAt=NOW, ready=False,
    )  # fmt: skip
    row = documents.roster_row(host_id=HOST, session_id="s", host=host, status="reachable",
                               approximate=False, row=b'{ "as" : "sent" }')  # fmt: skip
    assert row == (
        b'{"hostId":"0123456789ab","sessionId":"s","host":{"pid":42,"crazeVersion":"",'
        b'"protocol":1,"provider":"","workspace":"/work","startedAt":"2026-01-01T00:00:00Z",'
        b'"ready":false},"status":"reachable","approximate":false,"row":{ "as" : "sent" }}'
    )
    bare = documents.roster_row(host_id=HOST, session_id="s", host=host, status="connecting",
                                approximate=True)  # fmt: skip
    listed = documents.list_result(HUB, 2, [row, bare], truncated=True)
    schema.check_result("sessions.list", stdlib.loads(listed))
    assert listed.endswith(b',"truncated":true}')
    subscribed = documents.list_result(HUB, 2, [], subscription="r-1")
    assert subscribed == (b'{"subscription":"r-1","epoch":"aaaaaaaaaaaa","cursor":2,"sessions":[]}')
    schema.check_result("sessions.subscribe", stdlib.loads(subscribed))
    change = documents.roster_change("r-1", HUB, 3, [row], [])
    assert change.startswith(b'{"subscription":"r-1","epoch":"aaaaaaaaaaaa","cursor":3,"upserts":[')
    schema.check_line(stdlib.loads(envelope.notification("roster", change)), {})


def test_a_document_is_built_whole_or_not_at_all():
    built = documents.build("reset", reason="omitted", subscription="s-1")
    assert list(built) == ["subscription", "reason"]
    assert documents.build("answer", answers={}) == {"answers": {}}
    assert documents.build("refresh", status="current", revision=0, sameDir=None) == {
        "status": "current", "revision": 0,
    }  # fmt: skip
    with pytest.raises(ValueError, match="reset needs reason"):
        documents.build("reset", subscription="s-1")
    with pytest.raises(ValueError, match="reset has no extra"):
        documents.build("reset", subscription="s-1", reason="omitted", extra=1)
