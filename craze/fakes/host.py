"""craze-fake-host: a real host of protocol 1 with nothing behind it, scripted over stdin.

It serves the real engine, log and socket layer over a stub agent, so that a client can be tried
against everything a host says. Its clock, ids and tokens are the same on every run; ops, one JSON
object a line on stdin, make the session do things. It ends at the end of stdin or at `quit`.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import gevent
import gevent.os
from gevent.socket import wait_read

from craze import greenlets
from craze.clock import ManualClock
from craze.engine import port
from craze.events import build
from craze.events.members import payload
from craze.fakes.stub import CAPABILITIES, Stub
from craze.host.server import Server
from craze.host.session import Facts, Session
from craze.machine import registry, sockets, title
from craze.machine.errors import MachineError, reason
from craze.machine.ids import is_host_id, is_token, session_id
from craze.machine.paths import Paths
from craze.wire import json
from craze.wire.framing import TOO_LONG, LineDecoder
from craze.wire.limits import CHUNK, MIB, OUTBOUND_LINE
from craze.wire.times import format_time, parse_time

NAME = "craze-fake-host"
VERSION = "0.0.0-fakehost"
PID = 4242
START = parse_time("2026-01-01T00:00:00Z")
WORKSPACE = "/work"
END_WAIT = 10.0
OVERSIZED = 9 * MIB

USAGE = f"""\
usage: {NAME} (--socket PATH | --registry ROOT) [--host-id H] [--session-id S]
                       [--host JSON] [--ack]

Serves protocol 1 on a Unix socket with nothing behind it, for testing a client.

  --socket PATH    serve at PATH, listed nowhere
  --registry ROOT  serve in the runtime tree and list the host under ROOT as HOME
  --host-id H      twelve lowercase hex digits (default 0123456789ab)
  --session-id S   the session's id (default session-fake-1)
  --host JSON      what the host can do: an object with any of stop, permissionMode,
                   startedAt, rowFacts, presence, modelsRefresh, aside, slash,
                   effortFacts, models, provider, plugins
  --ack            print {{"done":"<op>"}} when an op has run and its events are out

Prints one ready line, then reads ops from stdin, one JSON object a line.
"""

# The recorded head of the token stream; what follows is a counter's SHA-256.
TOKENS = (
    "52fdfc072182654f163f5f0f9a621d72",
    "9566c74d10037c4d7bbb0407d1e2c649",
    "81855ad8681d0d86d1e91e00167939cb",
    "6694d2c422acd208a0072939487f6999",
    "eb9d18a44784045d87f3c67cf22746e9",
)


def tokens() -> Iterator[str]:
    """The resume tokens, in the order they are drawn."""
    from hashlib import sha256

    yield from TOKENS
    draw = len(TOKENS)
    while True:
        draw += 1
        yield sha256(str(draw).encode()).hexdigest()[:32]


class Failure(Exception):
    """What is wrong with an op or the command line, in words for its writer."""


class Options(NamedTuple):
    socket: str = ""
    registry: str = ""
    host_id: str = "0123456789ab"
    session_id: str = "session-fake-1"
    host: str = "{}"
    ack: bool = False


class FakeHost:
    """One fake host and the ops it takes."""

    ops: ClassVar["dict[str, Op]"] = {}  # filled below: the table names the methods

    def __init__(self, options: Options) -> None:
        self._options = options
        self._host = json.loads(options.host.encode())
        if not isinstance(self._host, dict):
            raise Failure("usage: --host takes a JSON object")
        self._clock = ManualClock(START)
        self._tokens = tokens()
        self._stop_heard = 0
        self._listing: registry.Listing | None = None
        self.quitting = False
        self._session = self._new_session()
        self._server: Server | None = None

    def serve(self) -> dict[str, Any]:
        """Bind, list and serve: the ready line. Raises MachineError, OSError."""
        options = self._options
        if options.registry:
            members = {
                "startedAt": format_time(START),
                "provider": self._host.get("provider", ""),
                "workspace": WORKSPACE,
            }
            paths = Paths.of({**os.environ, "HOME": options.registry})
            self._listing = registry.bind(paths, options.host_id, members, sleep=gevent.sleep)
            listener, path = self._listing.listener, self._listing.socket
        else:
            listener, path = sockets.bind(options.socket), options.socket
        self._server = Server(
            listener,
            self._session,
            host_id=options.host_id,
            version=VERSION,
            pid=PID,
            draw_token=self._tokens.__next__,
            report=report,
            on_stop=self._heard_stop,
            mark_stopping=self._mark,
        )
        self._session.start()
        self._list()
        return {"socket": path, "sessionId": options.session_id, "hostId": options.host_id}

    @property
    def incarnation(self) -> str:
        return self._session.log.incarnation

    def run(self, op: dict[str, Any]) -> None:
        """Run one op to its end. Raises Failure."""
        name = op.get("name")
        work = self.ops.get(name) if isinstance(name, str) else None
        if work is None:
            raise Failure(f'fakehost: unknown op "{name}"')
        try:
            work(self, {key: value for key, value in op.items() if key != "name"})
        except (KeyError, TypeError, ValueError) as failure:
            raise Failure(f"{name}: {failure!r}") from failure

    def close(self) -> None:
        """Unlist and end."""
        if self._server is not None:
            self._server.close()
            self._server.hang_up()
        if self._listing is not None:
            self._listing.unbind()
        else:
            os.unlink(self._options.socket)

    # ---- the session ----

    def _new_session(self) -> Session:
        host = self._host
        flags = {name: bool(host.get(name)) for name in ("stop", "rowFacts", "presence")}
        flags["modelsRefresh"] = bool(host.get("modelsRefresh"))
        flags["aside"] = bool(host.get("aside"))
        flags["slashCatalog"] = bool(host.get("slash"))
        flags["effortFacts"] = bool(host.get("effortFacts"))
        provider = host.get("provider", "")
        facts = Facts(
            self._options.session_id,
            WORKSPACE,
            provider,
            provider or "cursor",
            {**CAPABILITIES, **flags},
            permission_mode=host.get("permissionMode", ""),
            started_at=self._clock.now() if host.get("startedAt") else 0,
        )
        return self._make(facts, session_id(time.time_ns()))

    def _make(self, facts: Facts, incarnation: str) -> Session:
        return Session(facts, incarnation, self._clock, lambda post: Stub(post, self._host))

    def _heard_stop(self) -> None:
        self._stop_heard += 1

    def _mark(self) -> None:
        if self._listing is not None:
            self._listing.update(stopping=True)

    def _list(self) -> None:
        if self._listing is not None:
            self._listing.update(
                crazeSessionId=self._options.session_id,
                providerSessionId=self._session.engine.provider_session,
                incarnation=self.incarnation,
                ready=True,
            )

    # ---- the ops ----

    def _event(self, event: dict[str, Any]) -> None:
        self._session.post(port.AgentEvent(event))

    def _text(self, op: dict[str, Any]) -> None:
        words = op.get("text") or "x" * op.get("bytes", 0)
        self._event(build.text(words, op.get("agent", "")))

    def _thought(self, op: dict[str, Any]) -> None:
        self._event(build.thought(op.get("text", ""), op.get("agent", "")))

    def _tool(self, op: dict[str, Any]) -> None:
        call = payload(
            "tool",
            id=op.get("id"),
            name=op.get("toolName") or op.get("tool"),
            status=op.get("status"),
            title=op.get("title"),
        )
        self._event(build.tool(call, op.get("agent", "")))

    def _spawn_subagent(self, op: dict[str, Any]) -> None:
        row = payload("subagent", id=op["id"], status="running")
        self._event(build.subagent(row, "spawned"))

    def _ask(self, kind: str, op: dict[str, Any], body: dict[str, Any]) -> None:
        self._session.post(port.AskRaised(object(), kind, body, op.get("id", "")))

    def _permission(self, op: dict[str, Any]) -> None:
        options = [payload("permissionOption", **option) for option in op.get("options", [])]
        self._ask("permission", op, payload("permission", tool=op.get("tool"), options=options))

    def _question(self, op: dict[str, Any]) -> None:
        questions = [
            payload(
                "subQuestion",
                id=question.get("id"),
                prompt=question.get("prompt"),
                options=[
                    payload("questionOption", **option) for option in question.get("options", [])
                ],
                allowMultiple=question.get("allowMultiple"),
            )
            for question in op.get("questions", [])
        ]
        body = payload("question", title=op.get("title"), questions=questions)
        self._ask("question", op, body)

    def _plan(self, op: dict[str, Any]) -> None:
        body = payload(
            "plan",
            name=op.get("planName"),
            overview=op.get("overview"),
            plan=op.get("plan"),
            todos=[payload("todo", **todo) for todo in op.get("todos", [])],
        )
        self._ask("plan", op, body)

    def _foreign_turn(self, op: dict[str, Any]) -> None:
        self._event(build.foreign_turn(payload("foreignTurn", **op)))

    def _oversized(self, op: dict[str, Any]) -> None:
        self._event(build.text("o" * OVERSIZED))

    def _end(self, op: dict[str, Any]) -> None:
        engine = self._session.engine
        if not engine.turn:
            raise Failure("end: no turn is open")
        self._session.post(port.CancelTurn())
        with gevent.Timeout(END_WAIT, Failure("end: the turn did not settle within 10s")):
            while engine.turn:
                gevent.sleep(0.001)

    def _hold(self, held: bool, milliseconds: int = 0) -> None:
        assert self._server is not None
        for connection in self._server.connections:
            connection.outbox.hold(held)
        if held and milliseconds:
            greenlets.spawn("stall", self._release_later, milliseconds / 1000)

    def _release_later(self, seconds: float) -> None:
        gevent.sleep(seconds)
        self._hold(False)

    def _drop_connections(self, op: dict[str, Any]) -> None:
        assert self._server is not None
        self._server.hang_up()

    def _restart(self, op: dict[str, Any]) -> None:
        assert self._server is not None
        self._session = self._new_session()
        self._server.replace(self._session)
        self._session.start()
        self._list()

    def _run_stop(self, op: dict[str, Any]) -> None:
        if self._stop_heard != 1:
            raise Failure(f"run_stop: {self._stop_heard} stops were heard, not one")
        self._stop_heard = 0
        self._session.close()

    def _advance_clock(self, op: dict[str, Any]) -> None:
        self._clock.advance(op["ms"] * 1_000_000)

    def _unlist(self, op: dict[str, Any]) -> None:
        if self._listing is None:
            raise Failure("unlist: this host is listed nowhere")
        self._listing.unlist()

    def _mark_stopping(self, op: dict[str, Any]) -> None:
        if self._listing is None:
            raise Failure("mark_stopping: this host is listed nowhere")
        self._mark()

    def _quit(self, op: dict[str, Any]) -> None:
        self.quitting = True

    @property
    def stub(self) -> Stub:
        agent = self._session.agent
        assert isinstance(agent, Stub)
        return agent


Op = Callable[[FakeHost, dict[str, Any]], None]

FakeHost.ops = {
    "text": FakeHost._text,
    "thought": FakeHost._thought,
    "tool": FakeHost._tool,
    "permission": FakeHost._permission,
    "question": FakeHost._question,
    "plan": FakeHost._plan,
    "end": FakeHost._end,
    "foreign_turn": FakeHost._foreign_turn,
    "stall_writes": lambda host, op: host._hold(True, op.get("ms", 0)),
    "resume_writes": lambda host, op: host._hold(False),
    "drop_connections": FakeHost._drop_connections,
    "restart": FakeHost._restart,
    "quit": FakeHost._quit,
    "spawn_subagent": FakeHost._spawn_subagent,
    "oversized_event": FakeHost._oversized,
    "advance_clock": FakeHost._advance_clock,
    "hang_next": lambda host, op: host.stub.hang_next(),
    "run_stop": FakeHost._run_stop,
    "stage_models": lambda host, op: host.stub.stage_models(op["models"]),
    "hold_aside": lambda host, op: host.stub.hold_aside(),
    "set_commands": lambda host, op: host.stub.set_commands(op["commands"]),
    "set_skills": lambda host, op: host.stub.set_skills(op["skills"]),
    "unlist": FakeHost._unlist,
    "mark_stopping": FakeHost._mark_stopping,
}


def report(where: str, error: BaseException) -> None:
    """Say on stderr that the fake itself failed, and where."""
    import traceback

    print(f"{NAME}: {where}:", file=sys.stderr)
    traceback.print_exception(error)


def parse(arguments: list[str]) -> Options:
    """The command line. Raises Failure."""
    flags = {"--socket", "--registry", "--host-id", "--session-id", "--host"}
    given: dict[str, Any] = {}
    rest = iter(arguments)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag == "--ack" and not equals:
            given["ack"] = True
        elif flag in flags:
            if not equals:
                value = next(rest, "")
            given[flag[2:].replace("-", "_")] = value
        else:
            raise Failure(f"usage: unknown flag; see {NAME} --help")
    options = Options(**given)
    if bool(options.socket) == bool(options.registry):
        raise Failure("usage: exactly one of --socket and --registry is required")
    if not is_host_id(options.host_id):
        raise Failure("usage: --host-id takes twelve lowercase hex digits")
    if not is_token(options.session_id):
        raise Failure("usage: --session-id takes 1 to 128 of A-Z a-z 0-9 . _ -")
    return options


def _op_lines() -> Iterator[Any]:
    """The lines of stdin as they come, without ever changing how stdin is shared."""
    decoder = LineDecoder(OUTBOUND_LINE)
    while True:
        with suppress(OSError):  # a plain file, which no loop can watch, never blocks either
            wait_read(0)
        data = os.read(0, CHUNK)
        yield from decoder.feed(data) if data else decoder.finish()
        if not data:
            return


def _say(line: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(line) + b"\n")
    sys.stdout.buffer.flush()


def main(kind: type[FakeHost] = FakeHost) -> None:
    """The console script; `kind` is what a test makes of it."""
    if "--help" in sys.argv[1:] or "-h" in sys.argv[1:]:
        print(USAGE, end="")
        return
    title.show(NAME)
    try:
        host = kind(options := parse(sys.argv[1:]))
    except (Failure, ValueError) as failure:
        print(f"{NAME}: {failure}", file=sys.stderr)
        sys.exit(2)
    try:
        ready = host.serve()
    except (MachineError, OSError) as failure:
        print(f"{NAME}: {reason(failure)}", file=sys.stderr)
        sys.exit(1)
    if options.ack:
        ready["incarnation"] = host.incarnation
    _say(ready)
    for line in _op_lines():
        if line is not TOO_LONG and not line.strip():
            continue
        try:
            op = None if line is TOO_LONG else json.loads(line)
            if not isinstance(op, dict):
                raise Failure("not a JSON object")
            host.run(op)
        except (Failure, ValueError) as failure:
            print(f"{NAME}: op: {failure}", file=sys.stderr)
            continue
        if options.ack:
            done = {"done": op["name"]}
            if op["name"] == "restart":
                done["incarnation"] = host.incarnation
            gevent.sleep(0)
            _say(done)
        if host.quitting:
            break
    host.close()


if __name__ == "__main__":
    main()
