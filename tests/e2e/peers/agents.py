"""The real agents as a table: how each is started offline against the fake model, and what a script
must say to make it run a shell command.

An agent gets a private home, an environment with nothing of the tester's (a real key or login in it
would be used), and a configuration that looks up no name and downloads nothing.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.peers import install

REQUIRED = "CRAZE_REQUIRE_PEERS"  # set by .ci/run: a missing peer is a failure, not a skip
MODEL_SERVER = Path(__file__).with_name("model_server.py")
FAKE_KEY = "fake-key"


class Agent(NamedTuple):
    """One agent. `home` is its private home folder, `port` the fake model's."""

    name: str
    argv: Callable[[], list[str]]
    environment: Callable[[Path, int], dict[str, str]]
    files: Callable[[int], dict[str, str]]  # path under home -> text
    run_shell: Callable[[str], dict[str, Any]]  # a command line -> the `tool` step that runs it
    peers: tuple[str, ...]  # what must be installed

    def require(self) -> None:
        """Skip the test (fail it where peers are required), saying what would bring the agent."""
        lacking = [name for name in self.peers if not install.PEERS_BY_NAME[name].installed()]
        if lacking:
            missing(f"not in .peers: python tests/e2e/peers/install.py {' '.join(lacking)}")

    def set_up(self, home: Path, port: int) -> dict[str, str]:
        """Write the agent's files into `home`; returns the variables it needs, HOME among them."""
        for path, text in self.files(port).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        return {"HOME": str(home), "SHELL": "/bin/bash"} | self.environment(home, port)

    def shell_step(self, command: str) -> str:
        return "FAKE:tool " + json.dumps(self.run_shell(command))


def missing(reason: str) -> None:
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason)


def program(name: str) -> str:
    return str(install.PEERS_BY_NAME[name].path)


@contextlib.contextmanager
def model_server() -> Iterator[int]:
    """The fake model as a process of its own, for the time of the block; gives its port."""
    server = subprocess.Popen(
        [sys.executable, "-I", str(MODEL_SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        yield json.loads(server.stdout.readline())["port"]
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(timeout=10)


# -- codex-acp ----------------------------------------------------------------------------------


def codex_files(port: int) -> dict[str, str]:
    # The model must be one that the build knows, or every turn begins with a warning.
    config = f"""
model = "gpt-5.4"
model_provider = "fake"
approval_policy = "on-request"
sandbox_mode = "read-only"
[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[features]
plugins = false
"""
    return {".codex/config.toml": config}


CODEX = Agent(
    name="codex-acp",
    argv=lambda: [program("codex-acp")],
    environment=lambda home, _port: {
        "CODEX_HOME": str(home / ".codex"),
        "OPENAI_API_KEY": FAKE_KEY,
        "NO_BROWSER": "1",
    },
    files=codex_files,
    run_shell=lambda command: {
        "name": "exec_command",
        "input": {
            "cmd": command,
            "sandbox_permissions": "require_escalated",
            "justification": "the test wants it",
        },
    },
    peers=("codex-acp",),
)

# -- opencode -----------------------------------------------------------------------------------

OPENCODE_PLUGIN = {"@opencode-ai/plugin": install.PEERS_BY_NAME["opencode"].version}


def opencode_files(port: int) -> dict[str, str]:
    model = {"name": "Fake 1", "tool_call": True, "limit": {"context": 32000, "output": 4096}}
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "fake/fake-1",
        "small_model": "fake/fake-1",
        "enabled_providers": ["fake"],
        "provider": {
            "fake": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Fake",
                "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": FAKE_KEY},
                "models": {"fake-1": model},
            }
        },
        "permission": {"bash": "ask", "edit": "ask"},
    }
    # It installs a plugin package beside its configuration unless the three below say it is there.
    lock = {"lockfileVersion": 3, "packages": {"": {"dependencies": OPENCODE_PLUGIN}}}
    return {
        ".config/opencode/opencode.json": json.dumps(config),
        ".config/opencode/package.json": json.dumps({"dependencies": OPENCODE_PLUGIN}),
        ".config/opencode/package-lock.json": json.dumps(lock),
        ".config/opencode/node_modules/.keep": "",
    }


OPENCODE = Agent(
    name="opencode",
    argv=lambda: [program("opencode"), "acp"],
    environment=lambda _home, _port: {
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    },
    files=opencode_files,
    run_shell=lambda command: {
        "name": "bash",
        "input": {"command": command, "description": "the test wants it"},
    },
    peers=("opencode",),
)

# -- claude-agent-acp ---------------------------------------------------------------------------

CLAUDE = Agent(
    name="claude-agent-acp",
    argv=lambda: [program("node"), program("claude-agent-acp")],
    environment=lambda _home, port: {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": FAKE_KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    },
    # It would decide by itself what to ask about; `default` asks.
    files=lambda _port: {
        ".claude/settings.json": json.dumps({"permissions": {"defaultMode": "default"}})
    },
    run_shell=lambda command: {
        "name": "Bash",
        "input": {"command": command, "description": "the test wants it"},
    },
    peers=("node", "claude-agent-acp"),
)

AGENTS = (CODEX, OPENCODE, CLAUDE)
