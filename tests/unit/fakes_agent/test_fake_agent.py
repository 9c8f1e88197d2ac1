"""craze-fake-agent as a program: its flags and environment, and every script to its end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.fakes.agent_scripts import SCRIPTS

PROGRAM = str(Path(sys.executable).parent / "craze-fake-agent")

# Every script that people write tests of clients with.
PUBLISHED = """
echo followup tool tasks effort modelconfig modelconfig-refuse modellate preinstall permission ask
plan hang hang-ack sigint-hold authfail noauth todos todos-notify diff bigdiff bash task task-late
commands nocommands callorder markdown title planmode planmode-card env turnfail long-reply
grok-echo grok-ask grok-plan grok-ask-wrapped grok-subagent long-turn grok-long-turn
grok-long-turn-fallback load grok-load load-missing load-hang load-long load-settings permodel
prompt-dump grok-prompt-dump reject-image grok-reject-image exit-two-lines
grok-subagent-fail grok-subagent-two grok-subagent-two-hold grok-subagent-nested grok-subagent-late
grok-subagent-late-hold grok-subagent-hold grok-subagent-cancel grok-subagent-cancel-early
permodel-empty permodel-noreply permodel-refuse permodel-nomodel permodel-pushbefore
permodel-pushafter permodel-pushmodel-after load-turns load-nothing load-held load-late load-twice
load-again load-split remember
""".split()  # noqa: SIM905

PLAYABLE = [
    name
    for name in PUBLISHED
    if name not in ("exit-two-lines", "authfail", "load-missing", "load-hang")
]


class Client:
    """The plainest client there is: lines in, lines out, and an answer to everything asked."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        self.child = subprocess.Popen(
            argv,
            env={"PATH": os.environ["PATH"], **env},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.notes: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.on_note: Callable[[dict[str, Any]], None] | None = None
        self._next = 0

    def send(self, method: str, params: dict[str, Any], number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write({**message, **({"id": number} if number is not None else {})})

    def write(self, message: dict[str, Any]) -> None:
        assert self.child.stdin
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call and read up to the answer, which is returned whole."""
        self._next += 1
        self.send(method, params, self._next)
        return self.answer(self._next)

    def answer(self, number: int) -> dict[str, Any]:
        assert self.child.stdout
        while True:
            line = self.child.stdout.readline()
            assert line, "it closed its output"
            message: dict[str, Any] = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if "method" not in message:
                assert message["id"] == number
                return message
            if "id" in message:
                self.requests.append(message)
                self.write({"jsonrpc": "2.0", "id": message["id"], "result": {}})
            else:
                self.notes.append(message)
                if self.on_note is not None:
                    self.on_note(message)

    def open(self) -> dict[str, Any]:
        assert "result" in self.call("initialize", protocolVersion=1)
        result: dict[str, Any] = self.call("session/new", cwd="/w/dir", mcpServers=[])["result"]
        return result

    def prompt(self, text: str = "hello") -> dict[str, Any]:
        return self.call("session/prompt", prompt=[{"type": "text", "text": text}])

    def said(self) -> str:
        updates = [note["params"].get("update", {}) for note in self.notes]
        return "".join(
            update["content"]["text"]
            for update in updates
            if update.get("sessionUpdate") == "agent_message_chunk"
        )

    def end(self) -> int:
        self.child.communicate(timeout=20)
        return self.child.returncode


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def start(*argv: str, **env: str) -> Client:
        made.append(Client([PROGRAM, *argv], env, tmp_path))
        return made[-1]

    yield start
    for one in made:
        one.child.kill()
        one.child.communicate()


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *argv],
        env={"PATH": os.environ["PATH"], **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )


# ---- the program ----


def test_every_published_script_is_there() -> None:
    assert set(PUBLISHED) == {name for name in SCRIPTS if not name.startswith("bad-")}


def test_an_unknown_script() -> None:
    done = run("--script=nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'craze-fake-agent: unknown script "nope"\n'


def test_help() -> None:
    done = run("-h")
    assert done.returncode == 0
    assert "echo" in done.stdout.split()


@pytest.mark.parametrize(
    ("argv", "env", "script"),
    [
        ([], {}, "echo"),
        ([], {"CRAZE_FAKE_SCRIPT": "title"}, "title"),
        (["-script", "title"], {"CRAZE_FAKE_SCRIPT": "echo"}, "title"),
        (["--script=title", "--force", "acp"], {}, "title"),
        (["--trust", "acp"], {}, "echo"),
    ],
)
def test_how_the_script_is_chosen(
    client: Any, argv: list[str], env: dict[str, str], script: str
) -> None:
    agent = client(*argv, **env)
    agent.open()
    agent.prompt("hi")
    assert agent.said().endswith("echo: hi" if script == "echo" else "titled")


def test_it_ends_with_its_input(client: Any) -> None:
    agent = client()
    agent.open()
    assert agent.end() == 0


def test_it_is_deterministic(client: Any) -> None:
    runs = []
    for _ in range(2):
        agent = client("-script=grok-subagent-nested")
        runs.append([agent.open(), agent.prompt(), agent.notes])
    assert runs[0] == runs[1]


# ---- its environment ----


def test_the_sessions_name(client: Any) -> None:
    assert client().open()["sessionId"] == "fake-session-1"
    assert client(CRAZE_FAKE_SESSION_ID="in-{dir}").open()["sessionId"] == "in-dir"


def test_dumps(client: Any, tmp_path: Path) -> None:
    names = ("ARGV", "AUTH", "PROMPTS", "CALLS")
    env = {f"CRAZE_FAKE_DUMP_{name}": str(tmp_path / name) for name in names}
    agent = client("--trust", "acp", **env)
    agent.open()
    agent.call("authenticate", methodId="cursor_login")
    agent.prompt("hi")
    agent.end()
    dumped = {
        name: [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in names
    }
    assert dumped["ARGV"][0][1:] == ["--trust", "acp"]
    assert dumped["AUTH"] == [{"methodId": "cursor_login"}]
    assert dumped["PROMPTS"] == [{"prompt": [{"type": "text", "text": "hi"}]}]
    assert [call["method"] for call in dumped["CALLS"]] == [
        "initialize",
        "session/new",
        "authenticate",
        "session/prompt",
    ]


def test_words_on_stderr() -> None:
    assert run(CRAZE_FAKE_STDERR="hello").stderr == "hello\n"


def test_a_gate_holds_the_prompt(client: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    agent = client(CRAZE_FAKE_GATE=str(gate))
    agent.open()
    agent.send("session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}, 77)
    assert "result" in agent.call("session/set_mode", modeId="plan")  # answered meanwhile
    assert agent.said() == ""
    gate.write_bytes(b"x")
    assert agent.answer(77)["result"]["stopReason"] == "end_turn"


def test_a_gate_holds_a_setting(client: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    agent = client(CRAZE_FAKE_SET_GATE=str(gate))
    agent.open()
    agent.send("session/set_mode", {"modeId": "plan"}, 77)
    gate.write_bytes(b"x")
    assert agent.answer(77)["result"] == {}


def test_settings_refused(client: Any) -> None:
    agent = client(CRAZE_FAKE_SET_REFUSE="1")
    agent.open()
    for method, params in (
        ("session/set_mode", {"modeId": "plan"}),
        ("session/set_model", {"modelId": "composer"}),
        ("session/set_config_option", {"configId": "effort", "value": "low"}),
    ):
        assert agent.call(method, **params)["error"]["message"] == "the setting was refused"


@pytest.mark.parametrize(
    ("env", "number", "survives"),
    [
        ({"CRAZE_FAKE_LINGER": "1"}, 0, True),
        ({"CRAZE_FAKE_LINGER": "1"}, signal.SIGTERM, False),
        ({"CRAZE_FAKE_STUBBORN": "1"}, signal.SIGTERM, True),
        ({"CRAZE_FAKE_STUBBORN": "1"}, signal.SIGHUP, True),
    ],
)
def test_staying_on(client: Any, env: dict[str, str], number: int, survives: bool) -> None:
    agent = client(**env)
    agent.open()
    agent.child.stdin.close()
    agent.child.stdin = None
    agent.child.send_signal(number)
    if survives:
        time.sleep(0.2)
        assert agent.child.poll() is None
    else:
        assert agent.child.wait(20) == -number


# ---- its scripts ----


@pytest.mark.parametrize("name", PLAYABLE)
def test_every_script_ends_its_turns(client: Any, name: str) -> None:
    agent = client(f"--script={name}")
    session = agent.open()
    assert session["sessionId"] == "fake-session-1"

    def meddle(note: dict[str, Any]) -> None:
        """Cancel what waits to be, once it has begun."""
        if "hold" in name or name in ("long-turn", "hang-ack", "grok-subagent-cancel"):
            agent.send("session/cancel", {})
        elif name in ("grok-long-turn", "grok-long-turn-fallback", "grok-subagent-cancel-early"):
            agent.on_note = None
            agent.send("session/cancel", {})

    for _ in range(2):
        agent.on_note = meddle
        if name == "hang":
            agent.send("session/prompt", {"prompt": [{"type": "text", "text": "x"}]}, 99)
            agent.call("session/set_mode", modeId="plan")
            agent.send("session/cancel", {})
            ended = agent.answer(99)
        else:
            ended = agent.prompt()
        if name == "turnfail":
            assert ended["error"] == {"code": -32000, "message": "the turn failed"}
        else:
            assert ended["result"]["stopReason"] in ("end_turn", "cancelled")
    agent.on_note = None
    assert agent.end() == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("echo", "hi", "NOPEecho: hi"),
        ("tool", "", "after tool"),
        ("tasks", "", "done tasks"),
        ("todos", "", "planningdone todos"),
        ("effort", "", "effort:medium"),
        ("callorder", "", "order: initialize,session/new,session/prompt"),
        ("env", "CRAZE_FAKE_SCRIPT NOPE", "CRAZE_FAKE_SCRIPT=\nNOPE="),
        ("prompt-dump", "hi", '[{"type": "text", "text": "hi"}]'),
        ("permission", "", "decision:error"),
    ],
)
def test_what_they_say(client: Any, name: str, text: str, said: str) -> None:
    agent = client(f"-script={name}")
    agent.open()
    agent.prompt(text)
    assert agent.said() == said


def test_a_session_is_loaded(client: Any) -> None:
    agent = client("-script=load")
    agent.call("initialize", protocolVersion=1)
    result = agent.call("session/load", sessionId="old", cwd="/w", mcpServers=[])["result"]
    assert result["modes"]["currentModeId"] == "agent"
    assert {note["params"]["sessionId"] for note in agent.notes} == {"old"}
    kinds = [note["params"]["update"]["sessionUpdate"] for note in agent.notes]
    assert kinds == ["user_message_chunk", "agent_thought_chunk", "agent_message_chunk"] * 2


def test_an_image_is_rejected(client: Any) -> None:
    agent = client("-script=reject-image")
    agent.open()
    answer = agent.call("session/prompt", prompt=[{"type": "image", "data": ""}])
    assert answer["error"]["code"] == -32602


def test_calls_it_does_not_know(client: Any) -> None:
    agent = client()
    agent.open()
    for method in ("session/load", "session/list", "who/knows"):
        assert agent.call(method)["error"]["code"] == -32601
    agent.send("who/knows", {})
    agent.prompt()


def test_it_starts_without_what_it_does_not_need() -> None:
    line = (
        "import sys; import craze.fakes.agent_scripts; "
        "heavy = ('gevent', 'typer', 'ujson', 'subprocess', 'threading'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0]={sys.path!r}; {line}"],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[]\n", done.stderr
