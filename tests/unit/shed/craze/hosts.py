"""A hub and a session's host in front of a lane, saying what a test has them say."""

from typing import Any

from tests.unit.shed.craze.scripting import Command, Machine

HOST, HUB, SESSION = "0123456789ab", "f0f0f0f0f0f0", "session-1"
AT = "2026-01-01T00:00:01Z"
CAPABILITIES = {
    "interject": True, "modes": True, "askCards": True, "planCards": True, "cancel": True,
    "approvals": True, "historyCursor": True, "stop": True,
}  # fmt: skip
MODELS = [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]
MODES = [{"id": "plan", "name": "Plan", "description": ""}]


def hello(kind: str = "host", **changes: Any) -> dict[str, Any]:
    host = kind == "host"
    return {
        "protocol": 1,
        "endpoint": {
            "kind": kind, "hostId": HOST if host else HUB, "crazeVersion": "0.2.0", "pid": 42,
        },
        "capabilities": {
            "rosterSubscribe": not host, "connect": not host, "sessionCreate": not host,
            "createOptions": not host, "createTitle": not host, "reopen": not host,
        },
        "codecs": {"event": 1, "snapshot": 1},
        "limits": {"inboundLine": 4 << 20, "outboundLine": 16 << 20},
        **changes,
    }  # fmt: skip


def info(**changes: Any) -> dict[str, Any]:
    """The session info document."""
    return {
        "sessionId": SESSION, "providerSessionId": "p-1", "incarnation": "i-1", "hostId": HOST,
        "workspace": "/work", "provider": {"name": "gx", "label": "gx"},
        "catalogs": {"models": MODELS, "modes": MODES},
        "capabilities": CAPABILITIES, "permissionMode": "bypass", **changes,
    }  # fmt: skip


def row(**changes: Any) -> dict[str, Any]:
    """The host's own row."""
    return {
        **info(), "title": "", "activity": "idle", "foreignTurn": False, "pendingAsks": 0,
        "attached": 1, **changes,
    }  # fmt: skip


def snapshot(seq: int, *entries: dict[str, Any], incarnation: str = "i-1", **more: Any) -> Any:
    main = {"entries": list(entries)} if entries else {}
    settings = {"model": "a", "mode": "plan"}
    made = {"version": 1, "incarnation": incarnation, "main": main, "settings": settings, **more}
    return {**made, "seq": seq} if seq else made


def entry(words: str, kind: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"id": "1.0", "kind": kind, "text": words, "at": AT, "end": AT, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "at": AT}


def record(id: str, kind: str = "permission", status: str = "open", **body: Any) -> dict[str, Any]:
    """An ask's record."""
    whole = {"id": id, "tool": f"run {id}", "options": [], **body}
    return {
        "id": id, "kind": kind, "status": status, "body": {kind: whole}, "openedAt": AT,
        "truncated": False,
    }  # fmt: skip


class Host:
    """One connection through the splice, step by step; `sub` is the attachment's id."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.sub = ""
        self._attachments = 0

    def greet(self, **changes: Any) -> "Host":
        """The hub's hello, the splice, the host's hello and its row; `changes` are the row's."""
        self.hub()
        return self.splice(**changes)

    def splice(self, **changes: Any) -> "Host":
        """All of that but the hub's hello, which was said before."""
        connect = self.expect("session.connect")
        assert connect["params"] == {"sessionId": HOST}
        self.reply(connect)
        self.reply(self.expect("hello"), hello())
        self.reply(self.expect("sessions.list"), {"sessions": [row(**changes)]})
        return self

    def hub(self) -> None:
        self.reply(self.expect("hello"), hello("hub"))

    def attach(self, seq: int = 0, *entries: Any, **changes: Any) -> dict[str, Any]:
        """Answer an attach: its cursor honoured where it has one, or with a snapshot at `seq` where
        that or an entry or `snapshot` is given. Its params."""
        request = self.expect("session.attach")
        params: dict[str, Any] = request["params"]
        self._attachments += 1
        self.sub = f"s-{self._attachments}"
        result = {"subscription": self.sub, "session": info(), "ready": True}
        if params.get("cursor") and not (seq or entries or changes):
            result["after"] = params["cursor"]
        else:
            incarnation = changes.pop("incarnation", "i-1")
            result["after"] = {"incarnation": incarnation, "seq": seq}
            result["snapshot"] = snapshot(seq, *entries, incarnation=incarnation)
        self.reply(request, {**result, **changes})
        return params

    def registry(self, fence: int = 0, *records: Any) -> "Host":
        """Answer the reading of the asks."""
        listed = [{"id": one["id"], "kind": one["kind"]} for one in records]
        self.reply(self.expect("asks.list"), {"asks": listed})
        for one in records:
            request = self.expect("asks.get")
            assert request["params"] == {"sessionId": SESSION, "askId": one["id"]}
            self.reply(request, {"ask": one})
        self.reply(self.expect("session.sync"), {"seq": fence})
        return self

    def seed(self, seq: int = 0, *entries: Any, asks: Any = (), **changes: Any) -> "Host":
        """A whole seed, to its end."""
        self.attach(seq, *entries, **changes)
        self.registry(seq, *asks)
        return self.synchronized(seq)

    def synchronized(self, seq: int) -> "Host":
        return self.note("synchronized", seq=seq)

    def events(self, first: int, *events: Any) -> "Host":
        for seq, event in enumerate(events, first):
            self.note("event", seq=seq, event=event)
        return self

    def reset(self, reason: str) -> "Host":
        return self.note("reset", reason=reason)

    def note(self, method: str, **params: Any) -> "Host":
        self.command.note(method, **{"subscription": self.sub, **params})
        return self

    def expect(self, method: str) -> dict[str, Any]:
        return self.command.expect(method)

    def reply(self, request: dict[str, Any], result: Any = None) -> None:
        self.command.reply(request, result)

    def refuse(self, request: dict[str, Any], code: str, reason: str = "", **more: Any) -> None:
        self.command.refuse(request, code, reason, **more)

    def drop(self) -> None:
        """The connection is lost."""
        self.command.end()
        self.command.left()


def host(reach: Machine) -> Host:
    """The next connection that is made."""
    return Host(reach.next())
