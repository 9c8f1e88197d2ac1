"""Which agents craze knows, how each is found and started, and what a session on it can do.

cursor, grok and gx are rows of one table; a provider that the user names in config.toml
(`[providers.NAME]`) is one more row of the same kind, for any other agent that speaks ACP.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .config import Config

# The first twelve session capabilities, in wire order (protocol tables 6.3).
CAPABILITIES = (
    "interject",
    "subagentCancel",
    "subagentBackground",
    "modes",
    "effort",
    "fastToggle",
    "subagentRows",
    "subagentTranscript",
    "todos",
    "askCards",
    "planCards",
    "parameterizedPicker",
)


class Provider(NamedTuple):
    """One kind of agent: how it is found, started and logged in to, and how it speaks."""

    name: str
    label: str
    binaries: tuple[str, ...]  # looked for on PATH, in this order
    dialect: str  # cursor, grok, or "" for the plain protocol
    before: tuple[str, ...] = ()  # arguments
    force: tuple[str, ...] = ()  # added among them when permissions are bypassed
    after: tuple[str, ...] = ()
    login: str = ""  # what to run to log in
    auth: tuple[str, ...] = ()  # the methods that can be used, the first preferred
    modes: tuple[dict[str, str], ...] = ()  # where the agent advertises none
    task_tools: frozenset[str] = frozenset()
    task_title: str = ""
    can: frozenset[str] = frozenset()
    env: tuple[tuple[str, str], ...] = ()

    def capabilities(self) -> dict[str, bool]:
        """The first twelve session capabilities, by wire name."""
        return {name: name in self.can for name in CAPABILITIES}


class Launch(NamedTuple):
    """Everything that starting one agent takes."""

    provider: Provider
    argv: list[str]
    env: dict[str, str]
    cwd: str


class Missing(NamedTuple):
    """A provider's program is not there: why, what to do, and a start's failure for it."""

    reason: str
    fix: str

    def error(self, provider: Provider) -> str:
        """The text of a start that failed for want of the program (cli and machine 9)."""
        first, *others = provider.binaries
        reason = self.reason
        if reason == f"{first} not found on PATH":
            also = f" (also tried {', '.join(others)})" if others else ""
            return (
                f"agent binary not found: {first} is not on PATH{also}; "
                f"{self.fix.replace(f'install {first}', 'install it')}"
            )
        return f"agent binary not found: {reason}; {self.fix}"


# xAI's key is read under either name.
XAI_KEYS = ("XAI_API_KEY", "GROK_CODE_XAI_API_KEY")

_COMMON = frozenset(
    ("modes", "effort", "subagentRows", "todos", "askCards", "planCards", "parameterizedPicker")
)


def _grok(name: str) -> Provider:
    return Provider(
        name=name,
        label=name,
        binaries=(name,),
        dialect="grok",
        before=("--no-auto-update", "agent"),
        force=("--always-approve",),
        after=("stdio",),
        login=f"{name} login",
        auth=("xai.api_key", "cached_token"),
        modes=tuple(
            {"id": mode, "name": mode.capitalize(), "description": ""}
            for mode in ("default", "plan", "ask")
        ),
        task_tools=frozenset(("spawn_subagent",)),
        can=_COMMON | {"interject", "subagentTranscript"},
    )


PROVIDERS: dict[str, Provider] = {
    "cursor": Provider(
        name="cursor",
        label="cursor",
        binaries=("cursor-agent", "agent"),
        dialect="cursor",
        force=("--force",),
        after=("--trust", "acp"),
        login="agent login",
        auth=("cursor_login",),
        task_tools=frozenset(("task",)),
        task_title="Task:",
        can=_COMMON | {"fastToggle"},
    ),
    "grok": _grok("grok"),
    "gx": _grok("gx"),
}


def custom(name: str, label: str, command: Sequence[str], env: Mapping[str, str]) -> Provider:
    """A provider of the user's own: any agent that speaks ACP, started by `command` (at least one
    word) with `env` added to its environment."""
    return Provider(
        name=name,
        label=label or name,
        binaries=(command[0],),
        dialect="",
        after=tuple(command[1:]),
        env=tuple(env.items()),
        can=frozenset(("modes", "effort", "todos", "askCards", "parameterizedPicker")),
    )


def named(settings: Config, name: str) -> Provider | None:
    """What is known of a provider; None for one that cannot be started here."""
    own = settings.providers.get(name)
    if own is None:
        return PROVIDERS.get(name)
    return custom(name, own.label, own.command, own.env)


def resolve(
    provider: Provider,
    *,
    path: str,
    config: str,
    agents: Mapping[str, str] | None = None,
    flag: str = "",
    variable: str = "",
) -> str | Missing:
    """The provider's program: `--agent-bin` (`flag`), `CRAZE_AGENT_BIN` (`variable`), config.toml's
    `[agents]`, then PATH. One that was named and is not there is not passed over.

    `config` is config.toml's path, for the words; flag and variable are of a launch only.
    """
    name = provider.name
    named = (agents or {}).get(name, "")
    for given, knob, fix in (
        (flag, "--agent-bin", "point --agent-bin at an existing binary"),
        (
            variable,
            "CRAZE_AGENT_BIN",
            "point CRAZE_AGENT_BIN at an existing binary, or unset it",
        ),
        (
            named,
            f"[agents].{name}",
            f"point [agents].{name} at an existing binary in {config}",
        ),
    ):
        if given:
            return given if os.path.isfile(given) else Missing(f"{knob} {given} not found", fix)
    for binary in provider.binaries:
        found = _which(binary, path)
        if found:
            return found
    first = provider.binaries[0]
    key = f"[agents].{name}" if name in PROVIDERS else f"[providers.{name}].command"
    return Missing(f"{first} not found on PATH", f"install {first}, or set {key} in {config}")


def _which(binary: str, path: str) -> str:
    """An executable file on PATH. A word with a slash in it is a path already; a relative one is
    passed over, and so is an empty or relative entry: a session's directory never chooses its
    agent."""
    if "/" in binary:
        return binary if os.path.isabs(binary) and _executable(binary) else ""
    for folder in path.split(os.pathsep):
        if os.path.isabs(folder) and _executable(os.path.join(folder, binary)):
            return os.path.join(folder, binary)
    return ""


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def launch(
    provider: Provider,
    program: str,
    *,
    env: Mapping[str, str],
    cwd: str,
    force: bool,
    extra: Sequence[str] = (),
) -> Launch:
    """What starts the agent: its whole command line, its environment and its directory."""
    argv = [
        program,
        *extra,
        *provider.before,
        *(provider.force if force else ()),
        *provider.after,
    ]
    return Launch(provider, argv, {**env, **dict(provider.env)}, cwd)
