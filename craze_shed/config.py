"""Which machines there are, and the words that name one: `local`, `ssh:HOST`, `paramiko:HOST`, or a
name of the file machines.toml:

    [machines]
    build = "ssh:me@build.example.org"

The file is read anew each time and never written. What is not understood in it is left alone; what
is wrong is wrong for the machine that it is about, and for no other.
"""

import contextlib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from craze_shed.contract.codec import kind_of

if TYPE_CHECKING:
    from craze_shed.craze.dial import Dialer
    from craze_shed.craze.source import CrazeSource
    from craze_shed.machine import CrazeMachine
    from craze_shed.reach import Reach

VARIABLE: Final = "CRAZE_SHED_CONFIG"  # another file
LOCAL, SSH, PARAMIKO = "local", "ssh", "paramiko"

_EXPECTED = 'expected "local", "ssh:HOST" or "paramiko:HOST"'


class ConfigError(Exception):
    """A machine that cannot be made out; the text says what was expected, and what came."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine by the `name` it is given, and how it is reached: `way` is LOCAL, SSH or PARAMIKO,
    `host` what that is told, "" for this machine."""

    name: str
    way: str = LOCAL
    host: str = ""

    @property
    def word(self) -> str:
        """How it is reached, in one word."""
        return f"{self.way}:{self.host}" if self.host else self.way

    def reach(self) -> "Reach":
        """A new way to it, which the caller closes. Raises ReachError."""
        # Each is imported when it is used: paramiko wants a program that is patched.
        from craze_shed import reach

        if self.way == SSH:
            return reach.SshReach(self.host)
        if self.way == PARAMIKO:
            return reach.ParamikoReach(self.host)
        return reach.LocalReach()

    @contextlib.contextmanager
    def source(self, name: str = "craze_shed", version: str = "") -> "Iterator[CrazeSource]":
        """Its sessions, for as long as the block runs; everything opened there ends with it.
        `name` and `version` are what craze is told of this program. Raises ReachError."""
        from craze_shed.craze.source import CrazeSource

        with self._dialer(name, version) as dialer:
            source = CrazeSource(dialer)
            try:
                yield source
            finally:
                source.close()

    @contextlib.contextmanager
    def kept(
        self,
        on_change: Callable[[], object] = lambda: None,
        on_lane: Callable[[str], object] = lambda session_id: None,
        *,
        name: str = "craze_shed",
        version: str = "",
    ) -> "Iterator[CrazeMachine]":
        """What a dashboard holds of it, for as long as the block runs: its rows, its status, and
        the lanes that are open. Raises ReachError."""
        from craze_shed.machine import CrazeMachine

        with self._dialer(name, version) as dialer:
            machine = CrazeMachine(dialer, on_change=on_change, on_lane=on_lane)
            try:
                yield machine
            finally:
                machine.close()

    @contextlib.contextmanager
    def _dialer(self, name: str, version: str) -> "Iterator[Dialer]":
        from craze_shed.craze.dial import Dialer

        with self.reach() as reach:
            # What serves the sessions of the person's own machine may be started at any time.
            yield Dialer(reach, eager=self.way == LOCAL, name=name, version=version)


@dataclass(frozen=True, slots=True)
class Misnamed:
    """An entry of the file that is no machine, and why."""

    name: str
    problem: str


THIS_MACHINE: Final = Machine(LOCAL)


def path(environ: Mapping[str, str] = os.environ) -> str:
    """Where the file is, whether or not there is one."""
    return environ.get(VARIABLE) or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".config/craze-shed/machines.toml"
    )


def named(word: str, environ: Mapping[str, str] = os.environ) -> Machine:
    """The machine that `word` names. The file is read only for a name. Raises ConfigError."""
    if word == LOCAL:
        return THIS_MACHINE
    if ":" in word:
        return _described(word, word)
    entries = _entries(environ)
    if word not in entries:
        known = ", ".join(('"local"', '"ssh:HOST"', '"paramiko:HOST"', *map(_quoted, entries)))
        raise ConfigError(f"no machine is called {_quoted(word)}: there are {known}")
    return _entry(word, entries[word], environ)


def listed(environ: Mapping[str, str] = os.environ) -> list[Machine | Misnamed]:
    """This machine and those of the file, in its order. Raises ConfigError for a file that cannot
    be read as a whole."""
    found: list[Machine | Misnamed] = [THIS_MACHINE]
    for name, value in _entries(environ).items():
        try:
            found.append(_entry(name, value, environ))
        except ConfigError as failure:
            found.append(Misnamed(name, str(failure)))
    return found


def _entries(environ: Mapping[str, str]) -> dict[str, Any]:
    where = path(environ)
    try:
        with open(where, "rb") as file:
            content = tomllib.load(file)
    except FileNotFoundError:
        if environ.get(VARIABLE):
            raise ConfigError(f"{where}: no such file, and {VARIABLE} names it") from None
        return {}
    except OSError as failure:
        raise ConfigError(f"{where}: {(failure.strerror or str(failure)).lower()}") from None
    except (ValueError, RecursionError) as failure:  # no TOML, or no UTF-8
        raise ConfigError(f"{where}: not TOML: {failure}") from None
    entries = content.get("machines", {})
    if not isinstance(entries, dict):
        raise ConfigError(f"{where}: machines: expected a table, got {kind_of(entries)}")
    return entries


def _entry(name: str, value: Any, environ: Mapping[str, str]) -> Machine:
    try:
        if name == LOCAL or ":" in name or not name:
            raise ConfigError('expected a name other than "local", and without a colon')
        if not isinstance(value, str):
            raise ConfigError(f"{_EXPECTED}, got {kind_of(value)}")
        return _described(name, value)
    except ConfigError as failure:
        raise ConfigError(f"{path(environ)}: machines.{name}: {failure}") from None


def _described(name: str, word: str) -> Machine:
    way, colon, host = word.partition(":")
    if word == LOCAL:
        return Machine(name)
    if way not in (SSH, PARAMIKO) or not colon:
        raise ConfigError(f"{_EXPECTED}, got {_quoted(word)}")
    # A program would take it for a flag.
    if not host or host.startswith("-") or not host.isprintable() or " " in host:
        raise ConfigError(f"expected a host after {way}:, got {_quoted(host)}")
    return Machine(name, way, host)


def _quoted(text: str) -> str:
    return f'"{text}"'
