"""Every path that craze knows on a machine, each with its one home here; no disk is touched.

Two trees: the cache tree under HOME, which all craze directories of one HOME share, and the craze
directory (`~/.craze` or CRAZE_HOME) with its configuration and saved sessions. Sockets lie in a
third, the runtime base, which `runtime` chooses.
"""

import os
from collections.abc import Mapping

from .digest import sha256_hex
from .errors import MachineError, reason


def clean(path: str) -> str:
    """`path` without `.`, `..` and doubled slashes; symbolic links are not looked at."""
    cleaned = os.path.normpath(path)
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def home(environ: Mapping[str, str]) -> str:
    """The user's home: HOME, else the account's. Raises MachineError when neither is absolute."""
    value = environ.get("HOME", "").strip()
    if not value:
        import pwd

        try:
            value = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            raise MachineError("no home directory: set HOME to an absolute path") from None
    if not value.startswith("/"):
        raise MachineError(f"HOME={value!r} is not an absolute path")
    return clean(value)


def current_directory() -> str:
    """Where we are. Raises MachineError when that directory is gone."""
    try:
        return os.getcwd()
    except OSError as failure:
        raise MachineError(f"the current directory: {reason(failure)}") from None


def absolute(value: str, environ: Mapping[str, str], cwd: str | None = None) -> str:
    """A directory that a variable names, made absolute: trimmed, a leading `~` taken as HOME, the
    rest as from `cwd`, cleaned. Raises MachineError for a `~` with no home."""
    value = value.strip()
    if value == "~" or value.startswith("~/"):
        value = home(environ) + value[1:]
    if not value.startswith("/"):
        value = os.path.join(current_directory() if cwd is None else cwd, value)
    return clean(value)


def craze_home(environ: Mapping[str, str], cwd: str | None = None) -> str:
    """The craze directory: CRAZE_HOME made absolute, else `~/.craze`. Raises MachineError."""
    value = environ.get("CRAZE_HOME", "")
    if not value.strip():
        return os.path.join(home(environ), ".craze")
    return absolute(value, environ, cwd)


def namespace(directory: str) -> str:
    """The namespace of a craze directory: eight hex digits of the SHA-256 of its path's bytes."""
    return sha256_hex(os.fsencode(directory))[:8]


class Paths:
    """The paths of one user's craze directory on this machine."""

    __slots__ = ("cache", "craze", "home", "runtime", "xdg_runtime")

    def __init__(
        self, home_directory: str, craze_directory: str, runtime: str = "", xdg_runtime: str = ""
    ) -> None:
        self.home = home_directory
        self.craze = craze_directory
        self.cache = os.path.join(home_directory, ".cache", "craze")
        self.runtime = runtime.strip()  # CRAZE_RUNTIME_DIR, as given
        self.xdg_runtime = xdg_runtime.strip()  # XDG_RUNTIME_DIR, as given

    @classmethod
    def of(cls, environ: Mapping[str, str], cwd: str | None = None) -> "Paths":
        """The paths that an environment names. Raises MachineError when it names none."""
        return cls(
            home(environ),
            craze_home(environ, cwd),
            environ.get("CRAZE_RUNTIME_DIR", ""),
            environ.get("XDG_RUNTIME_DIR", ""),
        )

    @property
    def namespace(self) -> str:
        return namespace(self.craze)

    # ---- the cache tree ----

    @property
    def hosts(self) -> str:
        return os.path.join(self.cache, "hosts")

    @property
    def hubs(self) -> str:
        return os.path.join(self.cache, "hubs")

    @property
    def locks(self) -> str:
        return os.path.join(self.cache, "locks")

    @property
    def host_logs(self) -> str:
        return os.path.join(self.cache, "host-logs")

    @property
    def catalogs(self) -> str:
        return os.path.join(self.cache, "catalogs")

    def entry(self, host_id: str) -> str:
        return os.path.join(self.hosts, host_id + ".json")

    def host_lock(self, host_id: str) -> str:
        return os.path.join(self.hosts, host_id + ".lock")

    def claim(self, session_id: str) -> str:
        return os.path.join(self.locks, session_id + ".lock")

    def host_log(self, host_id: str) -> str:
        return os.path.join(self.host_logs, host_id + ".log")

    def pgids(self, host_id: str) -> str:
        return os.path.join(self.host_logs, host_id + ".pgids")

    @property
    def hub_record(self) -> str:
        return os.path.join(self.hubs, self.namespace + ".json")

    @property
    def hub_lock(self) -> str:
        return os.path.join(self.hubs, self.namespace + ".lock")

    @property
    def hub_log(self) -> str:
        return os.path.join(self.host_logs, f"hub-{self.namespace}.log")

    # ---- the craze directory ----

    @property
    def config(self) -> str:
        return os.path.join(self.craze, "config.toml")

    @property
    def index(self) -> str:
        return os.path.join(self.craze, "sessions.jsonl")

    @property
    def journals(self) -> str:
        return os.path.join(self.craze, "journal")


def lock_beside(path: str) -> str:
    """The lock file under which `path` is rewritten."""
    return path + ".lock"


def host_socket(base: str, namespace: str, host_id: str) -> str:
    """A host's socket under the runtime base."""
    return os.path.join(base, namespace, host_id + ".sock")


def hub_socket(directory: str) -> str:
    """The hub's socket in its namespace's directory of sockets."""
    return os.path.join(directory, "hub.sock")
