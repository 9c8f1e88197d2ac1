"""config.toml: what a user has set, read so that a mistake never turns something on by itself.

Three switches fail closed: `detach`, `control_socket`, `journal` are on only when absent or a
literal `true` in a file that parses, and their variables can only turn them off. The rest fail
open. Keys that are not known here are left alone. Reading gives warnings, one line each.
"""

import os
import re
import time
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from craze.wire.words import quote

from . import files, locks, toml, trees
from .durations import parse_duration
from .errors import MachineError, reason
from .paths import Paths, lock_beside

BUILT_IN = ("cursor", "grok", "gx", "native")
_AGENTS = ("cursor", "grok", "gx")
IDLE_EXIT = 3600.0
_BYTES = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LOCK_PATIENCE = 2.0

# key -> what it is called in a warning, its variable.
_CLOSED = {
    "detach": ("detached sessions", "CRAZE_DETACH"),
    "control_socket": ("control socket", "CRAZE_CONTROL_SOCKET"),
    "journal": ("journal", "CRAZE_JOURNAL"),
}
_YES = ("1", "t", "true", "y", "yes", "on")
_NO = ("0", "f", "false", "n", "no", "off")


class Provider(NamedTuple):
    """A provider of the user's own: `[providers.NAME]`."""

    name: str
    command: tuple[str, ...]
    label: str
    env: dict[str, str]


class Switch(NamedTuple):
    on: bool
    why: str = ""  # it is off


class Config(NamedTuple):
    """The settings as they are in force; `idle_exit` is seconds, None for never."""

    path: str
    provider: str
    idle_exit: float | None
    detach: Switch
    control_socket: Switch
    journal: Switch
    terminal_title: bool
    background: bool
    host_status: bool
    theme: str
    agents: dict[str, str]  # provider -> absolute path of its binary
    providers: dict[str, Provider]
    warnings: tuple[str, ...]
    fault: str = ""  # why the file could not be read, and counts as an empty one

    @property
    def known_providers(self) -> tuple[str, ...]:
        """Every provider that a launch may name, the built-in ones first."""
        return (*BUILT_IN, *self.providers)


def load(paths: Paths, environ: Mapping[str, str]) -> Config:
    """The settings of this user; a file that is not there is an empty one."""
    warnings: list[str] = []
    broken = ""
    document: dict[str, Any] = {}
    try:
        document = _read(paths.config)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as failure:
        broken = f"{paths.config}: {reason(failure)}"
    switches = {key: _closed(key, document, environ, broken, paths, warnings) for key in _CLOSED}
    if not switches["control_socket"].on and switches["detach"].on:
        switches["detach"] = Switch(False, switches["control_socket"].why)
    return Config(
        path=paths.config,
        provider=_text(document, "provider", warnings),
        idle_exit=_idle_exit(document, warnings),
        detach=switches["detach"],
        control_socket=switches["control_socket"],
        journal=switches["journal"],
        terminal_title=document.get("terminal_title") is not False,
        background=document.get("background") is not False,
        host_status=document.get("host_status") is not False,
        theme=_text(document, "theme", warnings),
        agents=_agents(document, warnings),
        providers=_providers(document, warnings),
        warnings=tuple(warnings),
        fault=broken,
    )


def launch_provider(config: Config, environ: Mapping[str, str], flag: str = "") -> tuple[str, str]:
    """The provider of a launch and a warning: the flag's, CRAZE_PROVIDER's, the file's, cursor.

    Raises ValueError, whose text is the flag's error, for a flag that names none.
    """
    if flag:
        if flag not in config.known_providers:
            raise ValueError(f"unknown provider {quote(flag)} (want {wanted(config)})")
        return flag, ""
    chosen = environ.get("CRAZE_PROVIDER", "").strip() or config.provider
    if not chosen or chosen in config.known_providers:
        return chosen or "cursor", ""
    return "cursor", f"craze: unknown provider {quote(chosen)}, using cursor"


def wanted(config: Config) -> str:
    """The known providers as a refusal lists them: `cursor, grok, gx, or native`."""
    *first, last = config.known_providers
    return ", ".join(first) + f", or {last}"


def save_provider(paths: Paths, provider: str, *, sleep: locks.Sleep = time.sleep) -> None:
    """Make `provider` the default of later launches, every other key kept; comments go.

    Blocks on the disk. Raises MachineError; a file that cannot be parsed is never overwritten.
    """
    try:
        trees.home(paths.craze)
        with locks.take(lock_beside(paths.config), sleep=sleep, patience=_LOCK_PATIENCE):
            try:
                document = _read(paths.config)
            except FileNotFoundError:
                document = {}
            if document.get("provider") == provider:
                return
            text = toml.dumps({**document, "provider": provider})
            if tomllib.loads(text) != {**document, "provider": provider}:
                raise ValueError("it holds something that cannot be written back")
            files.replace(os.path.realpath(paths.config), text.encode())
    except locks.Held:
        raise MachineError(f"{paths.config} is being changed by another craze") from None
    except (OSError, ValueError, TypeError) as failure:
        raise MachineError(f"{paths.config}: {reason(failure)}") from None


def _read(path: str) -> dict[str, Any]:
    # Through links: a configuration kept elsewhere is the user's own doing.
    data = files.read(os.path.realpath(path), _BYTES)
    try:
        return tomllib.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _closed(
    key: str,
    document: dict[str, Any],
    environ: Mapping[str, str],
    broken: str,
    paths: Paths,
    warnings: list[str],
) -> Switch:
    name, variable = _CLOSED[key]
    value = document.get(key, True)
    given = environ.get(variable, "").strip().lower()
    if value is False:
        return Switch(False, f"{key} = false in {paths.config}")
    if given in _NO:
        return Switch(False, f"{variable}={given}")
    why = broken
    if not why and value is not True:
        why = f"{key} in {paths.config} is neither true nor false"
    if not why and given and given not in _YES:
        why = f"{variable}={quote(given)} is neither true nor false"
    if not why:
        return Switch(True)
    warnings.append(f"craze: {name} off: {why}")
    return Switch(False, why)


def _text(document: dict[str, Any], key: str, warnings: list[str]) -> str:
    value = document.get(key, "")
    if isinstance(value, str):
        return value.strip()
    warnings.append(f"craze: config.toml: {key} is not a string, ignored")
    return ""


def _idle_exit(document: dict[str, Any], warnings: list[str]) -> float | None:
    value = document.get("host_idle_exit")
    if value is None:
        return IDLE_EXIT
    try:
        if not isinstance(value, str):
            raise ValueError
        if value.strip().lower() == "never":
            return None
        seconds = parse_duration(value.strip())
        if seconds < 0:
            raise ValueError
    except ValueError:
        shown = quote(value) if isinstance(value, str) else "its value"
        warnings.append(f'craze: config.toml: host_idle_exit: {shown} is no duration, using "1h"')
        return IDLE_EXIT
    return seconds


def _agents(document: dict[str, Any], warnings: list[str]) -> dict[str, str]:
    found = {}
    for name, path in _section(document, "agents", warnings).items():
        if name not in _AGENTS:
            continue
        if isinstance(path, str) and path.startswith("/"):
            found[name] = path
        elif path != "":
            warnings.append(f"craze: config.toml: [agents].{name} is not an absolute path, ignored")
    return found


def _providers(document: dict[str, Any], warnings: list[str]) -> dict[str, Provider]:
    found = {}
    for name, given in _section(document, "providers", warnings).items():
        wrong = _wrong(name, given)
        if wrong:
            shown = name if _NAME.fullmatch(name) else quote(name)
            warnings.append(f"craze: config.toml: [providers.{shown}] {wrong}, ignored")
            continue
        found[name] = Provider(
            name, tuple(given["command"]), given.get("label") or name, given.get("env", {})
        )
    return found


def _wrong(name: str, given: Any) -> str:
    """What keeps `[providers.NAME]` from being a provider; "" when nothing does."""
    if name in BUILT_IN:
        return "is built in (set [agents] for its binary)"
    if not _NAME.fullmatch(name):
        return "has a name that is not 1-64 of [A-Za-z0-9_-]"
    if not isinstance(given, dict):
        return "is not a table"
    command, env = given.get("command"), given.get("env", {})
    words = isinstance(command, list) and all(map(_is_text, command))
    if not words or not command or not command[0].strip():
        return 'needs command = ["program", "argument", …]'
    if not isinstance(given.get("label", ""), str):
        return "has a label that is not a string"
    if not isinstance(env, dict) or not all(map(_is_text, env.values())):
        return "has an env that is not a table of strings"
    return ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _section(document: dict[str, Any], key: str, warnings: list[str]) -> dict[str, Any]:
    value = document.get(key, {})
    if isinstance(value, dict):
        return value
    warnings.append(f"craze: config.toml: {key} is not a table, ignored")
    return {}
