"""The fake host's agent: no process, no waiting, every answer the same on every run.

It is what protocol 1's recorded scenarios were made against: two models, three modes, an effort and
a fast option, one command; a prompt is echoed unless the next one is told to hang.
"""

from collections.abc import Callable
from typing import Any

import gevent

from craze.agents import slash
from craze.engine import port
from craze.events import build
from craze.events.members import payload
from craze.host.asides import Answer
from craze.wire.limits import ASIDE_FLUSH

MODELS = [{"id": "grok", "name": "Grok"}, {"id": "fast", "name": "Fast"}]
MODES = [
    {
        "id": "agent",
        "name": "Agent",
        "description": "Full agent capabilities with tool access",
    },
    {
        "id": "plan",
        "name": "Plan",
        "description": "Read-only mode for planning and designing before implementation",
    },
    {"id": "ask", "name": "Ask", "description": "Q&A mode - no edits or command execution"},
]
COMMANDS = [{"name": "research", "description": "Agent-advertised command"}]
CAPABILITIES = {
    "interject": False,
    "subagentCancel": False,
    "subagentBackground": False,
    "modes": True,
    "effort": True,
    "fastToggle": True,
    "subagentRows": True,
    "subagentTranscript": False,
    "todos": True,
    "askCards": True,
    "planCards": True,
    "parameterizedPicker": True,
}
NATIVE_DIR = "/home/fake/.craze/native"


def _select(option: str, name: str, category: str, current: str, *values: tuple[str, str]) -> Any:
    return payload(
        "option",
        id=option,
        name=name,
        category=category,
        type="select",
        current=current,
        selectValues=[{"value": value, "name": label} for value, label in values],
    )


class Stub:
    """An agent for the engine's port. `host` is the scenario's host object."""

    def __init__(self, post: Callable[[Any], None], host: dict[str, Any]) -> None:
        self.capabilities = CAPABILITIES
        self._post = post
        self._host = host
        self._prompts = 0
        self._hang_next = False
        self._hung = ""
        self._model = "grok"
        self._mode = "agent"
        self._effort = "medium"
        self._fast = "false"
        self._commands: list[dict[str, str]] = COMMANDS
        self._skills: list[dict[str, str]] = []
        self._models = host.get("models", MODELS)
        self._staged: list[dict[str, Any]] | None = None
        self._revision = 0
        self._asides = 0
        self._hold_aside = False

    # ---- the engine's port ----

    def start(self) -> None:
        state: dict[str, Any] = {
            "mode": self._mode,
            "model": self._model,
            "config": self._config(),
            "commands": {"commands": self._commands},
            "plugins": {},
        }
        if self._host.get("plugins"):
            state["plugins"] = {"plugins": self._host["plugins"]}
        if self._host.get("slash"):
            state["slash"] = self._slash()
        self._post(port.AgentReady("stub-session-1", self._models, MODES, state))

    def prompt(self, turn: str, text: str) -> None:
        self._prompts += 1
        if self._hang_next:
            self._hang_next = False
            self._hung = turn
            return
        word = "echo" if self._prompts == 1 else "follow-up"
        self._post(port.AgentEvent(build.text(f"{word}: {text}")))
        self._post(port.PromptEnded(turn, "end_turn"))

    def cancel(self, token: int) -> None:
        self._post(port.CancelReturned(token))
        if self._hung:
            turn, self._hung = self._hung, ""
            self._post(port.PromptEnded(turn, "cancelled"))

    def interject(self, token: int, text: str) -> None:
        self._post(port.InterjectReturned(token, refused="unsupported"))

    def set(self, token: int, kind: str, option: str, value: str) -> None:
        offered = {
            ("model", ""): [model["id"] for model in self._models],
            ("mode", ""): [mode["id"] for mode in MODES],
            ("config", "effort"): ["low", "medium", "high"],
            ("config", "fast"): ["false", "true"],
        }.get((kind, option))
        if offered is None:
            self._post(port.SettingReturned(token, refused="option_gone"))
            return
        if value not in offered:
            error = port.AgentError(f'{kind} "{value}" is not one the agent offers', "rpc", -32602)
            self._post(port.SettingReturned(token, error=error))
            return
        setattr(self, f"_{option or kind}", value)
        state = {kind: value} if kind != "config" else {"config": self._config()}
        self._post(port.SettingReturned(token, value, state))

    def cancel_subagent(self, token: int, agent: str) -> None:
        self._post(port.SubagentCancelReturned(token, refused="unsupported"))

    def answer(self, key: Any, ending: dict[str, Any]) -> None:
        """An ask opened by an op waits for nothing."""

    def close(self) -> None:
        """Nothing runs."""

    # ---- what an opted-in host can do besides ----

    def refresh_models(self, native_dir: str | None) -> dict[str, Any]:
        """`session.models.refresh`: take up the staged list."""
        status = "current"
        if self._staged is not None and self._staged != self._models:
            self._models = self._staged
            self._revision += 1
            self._post(port.ModelsRefreshed(self._models, self._revision))
            status = "applied"
        self._staged = None
        result: dict[str, Any] = {"status": status, "revision": self._revision}
        if native_dir is not None:
            result["sameDir"] = native_dir.rstrip("/") == NATIVE_DIR
        return result

    def aside(
        self, question: str, prior: list[dict[str, str]], piece: Callable[[str], None]
    ) -> Answer:
        """`session.aside`: four pieces that name the question and count the side questions."""
        self._asides += 1
        pieces = (
            "You asked: ",
            question,
            f" (side question {self._asides}).",
            " The session goes on.",
        )
        for number, words in enumerate(pieces):
            piece(words)
            gevent.sleep(2 * ASIDE_FLUSH)  # so that each piece is a notification of its own
            if self._hold_aside and number == 0:
                self._hold_aside = False
                gevent.get_hub().switch()  # until the cancel throws
        return Answer("".join(pieces), "Grok", {"input": 1000, "output": 4, "cacheRead": 800})

    # ---- what the ops ask for ----

    def hang_next(self) -> None:
        """The next prompt's turn stays open."""
        self._hang_next = True

    def hold_aside(self) -> None:
        """The next side question is parked after its first piece, until it is cancelled."""
        self._hold_aside = True

    def stage_models(self, models: list[dict[str, Any]]) -> None:
        """What the next refresh takes up."""
        self._staged = models

    def set_commands(self, commands: list[dict[str, str]]) -> None:
        """The agent's whole command list is now this one."""
        if commands == self._commands:
            return
        self._commands = commands
        state: dict[str, Any] = {"commands": {"commands": commands} if commands else {}}
        if self._host.get("slash"):
            plugins = self._host.get("plugins")
            state["plugins"] = {"plugins": plugins} if plugins else {}
            state["slash"] = self._slash()
        self._post(port.AgentEvent(build.meta(state)))

    def set_skills(self, skills: list[dict[str, str]]) -> None:
        """A scan found these disk skills."""
        if not self._host.get("slash"):
            return
        before = self._slash()
        self._skills = skills
        if self._slash() != before:
            self._post(port.AgentEvent(build.meta({"slash": self._slash()})))

    def _config(self) -> dict[str, Any]:
        levels = (("low", "Low"), ("medium", "Medium"), ("high", "High"))
        switch = (("false", "Off"), ("true", "Fast"))
        return {
            "options": [
                _select("effort", "Effort", "thought_level", self._effort, *levels),
                _select("fast", "Fast", "model_config", self._fast, *switch),
            ]
        }

    def _slash(self) -> dict[str, Any]:
        return {
            "items": slash.catalog(
                modes=[mode["id"] for mode in MODES],
                native=self._host.get("provider") == "native",
                commands=self._commands,
                plugins=self._host.get("plugins", []),
                skills=self._skills,
            )
        }
