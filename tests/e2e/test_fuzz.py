"""Nothing that a client sends makes a host answer outside its tables, or die.

Every example is a host of its own, in this process, so that a failure shrinks to the few bytes that
matter. What goes in are requests that are right, nearly right and wrong, cut and joined anywhere,
between bytes that are nothing. What comes out must be one answer a line, of the published shape,
its code and reason a pair the tables know, under the id that was asked; and a second client is
served as if nothing had happened.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from gevent import socket
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import craze.fakes.host as fake
from craze.client import Client
from craze.wire import codes, schema
from craze.wire.methods import METHODS, Member

SESSION = "session-fake-1"
ABLE = json.dumps(
    {
        **dict.fromkeys(("rowFacts", "presence", "modelsRefresh", "aside", "slash"), True),
        "effortFacts": True,
        "provider": "native",
    }
)
PATIENCE_S = 10
OPS = [
    {"name": "text", "text": "words"},
    {"name": "permission", "id": "perm-1", "tool": "Shell",
     "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]},
    {"name": "question", "questions": [
        {"id": "q", "prompt": "?", "options": [{"id": "a", "label": "A"}]}]},
    {"name": "plan", "planName": "P", "plan": "p"},
    {"name": "hang_next"},
    {"name": "foreign_turn", "id": "wake-1", "reason": "wake", "running": True},
    {"name": "stage_models", "models": [{"id": "new", "name": "New"}]},
]  # fmt: skip

# Which codes of JSON-RPC a reason may come under (tables 2.3); the rest come under -32000 alone.
RPC = {
    "bad_request": {-32700, -32600, -32602, -32000},
    "line_too_long": {-32600},
    "unknown_method": {-32601},
    "unknown_field": {-32602},
}

# What a host serves is asked for more often; a stop would end what the example is about.
METHOD_NAMES = [
    name
    for name, method in METHODS.items()
    if name != "session.stop"
    for _ in range(4 if method.host and method.scoped else 1)
]

# Words that mean something to a session, so that a request can get past the first checks.
WORDS = st.sampled_from(
    [SESSION, "1", "2", "3", "17", "queue", "send_now", "interject", "perm-1", "ask-1", "plan-1",
     "q-1", "turn-1", "s-1", "s-2", "ready", "now", "model", "mode", "config", "effort", "fast",
     "grok", "plan", "low", "yes", "a-1", "c-1", "/tmp", "hi"]
)  # fmt: skip
TEXTS = st.one_of(WORDS, st.text(max_size=12))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-2, 3), st.floats(), TEXTS,
    st.sampled_from([10**30, -(10**400), 1e308, 2**63, 2**64, 0.0, 1.0]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def fitting(member: Member) -> st.SearchStrategy[Any]:
    """Values of the kind that `member` takes."""
    if member.kind == "object":
        return whole(member.fields)
    if member.kind == "list":
        items = whole(member.fields) if member.fields else of_kind(member.items)
        return st.lists(items, max_size=3)
    if member.kind == "map":
        return st.dictionaries(TEXTS, st.none() | st.lists(TEXTS, max_size=2), max_size=2)
    return of_kind(member.kind)


def of_kind(kind: str) -> st.SearchStrategy[Any]:
    return {"string": TEXTS, "int": st.integers(-1, 5000), "bool": st.booleans()}.get(kind, VALUES)


def whole(members: tuple[Member, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {m.name: fitting(m) for m in members if m.required},
        optional={m.name: fitting(m) for m in members if not m.required},
    )


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request that is right, or is not in a place or two."""
    method = draw(st.sampled_from(METHOD_NAMES))
    known = METHODS[method]
    params: Any = draw(whole(known.params))
    if known.scoped and draw(st.integers(0, 9)):
        params["sessionId"] = SESSION
    if known.mutating and draw(st.integers(0, 9)):
        params["commandId"] = str(draw(st.integers(1, 40)))
    request: dict[str, Any] = {"jsonrpc": "2.0", "id": draw(st.integers(0, 99) | TEXTS)}
    request |= {"method": method, "params": params}
    spoilt = draw(st.sampled_from([""] * 12 + ["params", "member", "envelope", "method"]))
    if spoilt == "params":
        request["params"] = draw(VALUES)
    elif spoilt == "member":
        params[draw(st.sampled_from([m.name for m in known.params] or ["x"]) | TEXTS)] = draw(
            VALUES
        )
    elif spoilt == "envelope":
        request[draw(st.sampled_from(["jsonrpc", "id", "method", "params", "more"]))] = draw(VALUES)
    elif spoilt == "method":
        request["method"] = draw(st.text(min_size=1, max_size=8))
    return request


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """One line without its newline: a request as some client writes it, or bytes that are none."""
    what = draw(st.integers(0, 20))
    if what == 0:
        return draw(st.binary(max_size=40)).replace(b"\n", b"")
    if what == 1:
        return json.dumps(draw(VALUES)).encode()
    line = json.dumps(draw(requests()), ensure_ascii=draw(st.booleans()))
    data = line.encode("utf-8", "surrogatepass")
    if what == 2:
        return data[: draw(st.integers(0, len(data)))]
    if what == 3:
        at = draw(st.integers(0, len(data)))
        return data[:at] + draw(st.binary(max_size=3)).replace(b"\n", b"") + data[at:]
    if what == 4:
        return draw(
            st.sampled_from([b"[" * 9000, b'{"id":' * 3000, b'{"id":1' + b"0" * 6000 + b"}"])
        )
    return data + draw(st.sampled_from([b"", b"", b"\r", b"  ", b"\t\r"]))


class Served:
    """A fake host, in this process, and what it says of its own faults."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz")
        self.path = str(Path(self._folder.name) / "s")
        self.host = fake.FakeHost(fake.Options(socket=self.path, host=ABLE))
        self.host.serve()

    def close(self) -> None:
        self.host.close()
        self._folder.cleanup()


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What hosts report of themselves: nothing may be in it."""
    heard: list[str] = []
    monkeypatch.setattr(fake, "report", lambda where, error: heard.append(f"{where}: {error!r}"))
    yield heard


HELLO = {"jsonrpc": "2.0", "id": "hello", "method": "hello",
         "params": {"protocols": [1], "client": {"kind": "test"}}}  # fmt: skip


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    greet=st.integers(0, 7),
    sent=st.lists(lines(), min_size=1, max_size=12),
    last=st.booleans(),
    ops=st.lists(st.sampled_from(OPS), max_size=3),
)
def test_b60_every_answer_is_in_the_tables(
    faults: list[str],
    greet: int,
    sent: list[bytes],
    last: bool,
    ops: list[dict[str, Any]],
) -> None:
    if greet:
        sent = [json.dumps(HELLO).encode(), *sent]
    data = b"\n".join(sent) + (b"\n" if last else b"")
    with gevent.Timeout(PATIENCE_S, AssertionError(f"not all was answered: {data!r}")):
        served = Served()
        try:
            for op in ops:
                served.host.run(op)
            answers = talk(served.path, data, sum(1 for line in data.split(b"\n") if line.strip()))
            judge(sent, answers)
            with Client(served.path) as client:  # and nobody else noticed
                assert client.session == SESSION
                with client.attach() as feed:
                    assert feed.snapshot is not None
            assert not faults, faults
        finally:
            served.close()


def talk(path: str, data: bytes, expected: int) -> list[dict[str, Any]]:
    """Send `data`, in pieces, and take lines until `expected` of them were answers."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
        sender = gevent.spawn(send, sock, data)
        taken: list[dict[str, Any]] = []
        held = b""
        while expected:
            piece = sock.recv(65536)
            assert piece, f"the host hung up, owing {expected} answers"
            *whole_lines, held = (held + piece).split(b"\n")
            for line in whole_lines:
                taken.append(json.loads(line, parse_constant=pytest.fail))
                expected -= "method" not in taken[-1]
        sender.join()
        return taken
    finally:
        sock.close()


def send(sock: Any, data: bytes) -> None:
    at = 0
    while at < len(data):
        size = 1 + (at * 7919) % 613  # any sizes will do, so long as they are the same each time
        sock.sendall(data[at : at + size])
        at += size
        gevent.sleep(0)
    sock.shutdown(socket.SHUT_WR)


def judge(sent: list[bytes], answers: list[dict[str, Any]]) -> None:
    """Hold every line to the schema and the tables."""
    asked: Counter[str] = Counter()
    methods: dict[str, set[str]] = {}
    for line in sent:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(request, dict) and "id" in request:
            key = json.dumps(request["id"])
            asked[key] += 1
            methods.setdefault(key, set()).add(str(request.get("method")))
    for answer in answers:
        if "method" in answer:
            schema.check_line(answer, {})
            continue
        assert answer["jsonrpc"] == "2.0"
        key = json.dumps(answer["id"])
        if answer["id"] is not None:
            assert asked[key] > 0, f"an answer to nothing: {answer}"
            asked[key] -= 1
        if "error" in answer:
            assert answer.keys() == {"jsonrpc", "id", "error"}
            error = answer["error"]
            reason = error["data"]["reason"]
            assert codes.REASONS[reason] == error["data"]["code"]
            assert error["code"] in RPC.get(reason, {-32000})
            assert isinstance(error["message"], str) and error["message"]
            assert (answer["id"] is None) <= (error["code"] in (-32700, -32600))
        else:
            assert answer.keys() == {"jsonrpc", "id", "result"}
            assert fits(answer["result"], methods[key]), (answer, methods[key])


def fits(result: Any, methods: set[str]) -> bool:
    """Whether it is a result of one of `methods`: an id may have been used twice."""
    for method in methods:
        try:
            schema.check_result(method, result)
        except (schema.jsonschema.ValidationError, KeyError):
            continue
        return True
    return False
