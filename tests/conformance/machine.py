"""Where a scenario plays: one fake host on a socket, or a machine's registry with a hub before it.

It also knows the names that a run cannot pin, and what stands for each in a scenario.
"""

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from craze.machine import registry
from craze.machine.ids import is_host_id
from craze.machine.paths import Paths
from tests.conformance.children import PATIENCE, Child, CrazeHub, Difference, FakeHost

FIRST = "0123456789ab"
CREATED = ("cccccccccccc", "dddddddddddd")  # those that a hub started, as they come up in lines
NO_PID = 999999999


class Stage(Protocol):
    """What a runner drives."""

    def socket(self, which: str) -> str:
        """Where `host` or `hub` listens."""

    def add(self, step: dict[str, Any]) -> None:
        """List one more host."""

    def op(self, step: dict[str, Any]) -> None:
        """Run an op on a host, to its end."""

    def do(self, step: dict[str, Any]) -> None:
        """Do something to the machine."""

    def real(self, text: str) -> str:
        """A scenario's text with what its placeholders stand for."""

    def placeholders(self, text: str) -> str:
        """The other way round."""

    def close(self) -> None:
        """End it. Raises Difference where a process failed by itself."""


class Alone:
    """A fake host on a socket in `folder`."""

    def __init__(self, folder: Path, build: dict[str, Any]) -> None:
        self._path = str(folder / "host.sock")
        environment = {**os.environ, "HOME": str(folder)}
        self._host = FakeHost(["--socket", self._path], build, environment)

    def socket(self, which: str) -> str:
        return self._path

    def add(self, step: dict[str, Any]) -> None:
        raise Difference("a second host takes a scenario with a hub")

    do = add

    def op(self, step: dict[str, Any]) -> None:
        self._host.op(step["op"])

    def real(self, text: str) -> str:
        for placeholder, real in _incarnations(self._host):
            text = text.replace(placeholder, real)
        return text

    def placeholders(self, text: str) -> str:
        for placeholder, real in _incarnations(self._host):
            text = text.replace(real, placeholder)
        return text

    def close(self) -> None:
        self._host.close()


class Listed:
    """A home with listed fake hosts, and a hub."""

    def __init__(self, build: dict[str, Any]) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="craze-", dir="/tmp"))
        self._undo = contextlib.ExitStack()
        self._undo.callback(shutil.rmtree, self._root)
        home, run = self._root / "home", self._root / "run"
        home.mkdir(mode=0o700)
        lifeline = str(self._root / "lifeline")
        os.mkfifo(lifeline)
        self._environment = {
            **{name: value for name, value in os.environ.items() if name[:6] != "CRAZE_"},
            "HOME": str(home),
            "CRAZE_RUNTIME_DIR": str(run),
            "CRAZE_TEST_LIFELINE": lifeline,
        }
        self._paths = Paths.of(self._environment)
        self._hosts: dict[str, FakeHost] = {}
        self._named: dict[str, registry.Entry] = {}  # hosts of the hub's that a line has told of
        try:
            self.add({**build, "id": FIRST, "session": "session-fake-1"})
            self._hub = self._start_hub(build)
            self._undo.callback(self._end_hub)
            self._undo.callback(self._end_created, os.open(lifeline, os.O_RDWR))
        except BaseException:
            self._undo.close()
            raise

    def socket(self, which: str) -> str:
        if which == "hub":
            return str(self._hub.ready["socket"])
        return str(self._hosts[FIRST].ready["socket"])

    def add(self, step: dict[str, Any]) -> None:
        id, session = step["id"], step["session"]
        where = ["--registry", self._environment["HOME"], "--host-id", id, "--session-id", session]
        build = {name: value for name, value in step.items() if name not in ("id", "session")}
        host = self._hosts[id] = FakeHost(where, build, self._environment)
        self._undo.callback(host.close)

    def op(self, step: dict[str, Any]) -> None:
        self._host(step).op(step["op"])

    def do(self, step: dict[str, Any]) -> None:
        _DONE[step["do"]](self, step)

    def real(self, text: str) -> str:
        for placeholder, real in self._names():
            text = text.replace(placeholder, real)
        return text

    def placeholders(self, text: str) -> str:
        for id in self._created():
            if f'"{id}"' in text and id not in self._named:
                self._named[id] = registry.read(self._paths, id)
        for placeholder, real in self._names():
            text = text.replace(real, placeholder)
        return text

    def close(self) -> None:
        self._undo.close()

    def _start_hub(self, build: dict[str, Any]) -> Child:
        if build.get("hub") == "craze":
            return CrazeHub(self._environment)
        where = ["--socket", str(self._root / "hub.sock")]
        host = json.dumps(build.get("host", {}))
        return Child("tests.conformance.hub", [*where, "--host", host], self._environment)

    def _end_created(self, lifeline: int) -> None:
        os.close(lifeline)
        deadline = time.monotonic() + PATIENCE
        while left := self._created():
            if time.monotonic() > deadline:
                raise Difference(f"what the hub started lives on: {left}")
            time.sleep(0.01)

    def _end_hub(self) -> None:
        if said := self._hub.close():
            raise Difference(f"the hub failed: {said}")

    def _host(self, step: dict[str, Any]) -> FakeHost:
        return self._hosts[step.get("on", FIRST)]

    def _names(self) -> Iterator[tuple[str, str]]:
        """Placeholders and what they stand for, each a piece of JSON unlike any other."""
        hub = self._hub.ready
        endpoint = '"endpoint":{{"kind":"hub","hostId":"{}","crazeVersion":"{}","pid":{}}}'
        yield (
            endpoint.format("HUB-ID", "HUB-VERSION", NO_PID),
            endpoint.format(hub["hubId"], hub["version"], hub["pid"]),
        )
        yield '"epoch":"HUB-ID"', f'"epoch":"{hub["hubId"]}"'
        for id, host in self._hosts.items():
            yield _pid(NO_PID), _pid(host.process.pid)
            yield from _incarnations(host, "" if id == FIRST else f"{id}-")
        for count, (name, id) in enumerate(zip(CREATED, self._named, strict=False), 1):
            entry = self._named[id]
            yield f'"{name}"', f'"{id}"'
            yield _pid(NO_PID), _pid(entry.pid)
            suffix = f"-{count}" if count > 1 else ""
            yield _incarnation(f"CREATED-INCARNATION{suffix}"), _incarnation(entry.incarnation)

    def _created(self) -> list[str]:
        """The ids of the registered hosts that the hub started."""
        try:
            names = [name.partition(".json") for name in os.listdir(self._paths.hosts)]
        except FileNotFoundError:
            return []
        return [id for id, json, _ in names if json and is_host_id(id) and id not in self._hosts]

    # ---- what a `machine` step does ----

    def _kill(self, step: dict[str, Any]) -> None:
        self._host(step).kill()

    def _spoil(self, step: dict[str, Any]) -> None:
        spoilt = self._root / "spoilt"
        spoilt.write_text("{")
        spoilt.rename(self._paths.entry(step.get("on", FIRST)))

    def _unlink(self, step: dict[str, Any]) -> None:
        os.unlink(self._host(step).ready["socket"])

    def _open(self, step: dict[str, Any]) -> None:
        os.chmod(self._paths.hosts, 0o700)

    def _index(self, step: dict[str, Any]) -> None:
        os.makedirs(self._paths.craze, mode=0o700, exist_ok=True)
        Path(self._paths.index).write_text("".join(json.dumps(row) + "\n" for row in step["rows"]))

    def _close(self, step: dict[str, Any]) -> None:
        os.chmod(self._paths.hosts, 0o755)


_DONE: dict[str, Callable[[Listed, dict[str, Any]], None]] = {
    "kill": Listed._kill,  # the host is killed
    "spoil": Listed._spoil,  # its registry entry is no JSON any more
    "unlink": Listed._unlink,  # its socket's name goes
    "close registry": Listed._close,  # others could read the registry: no craze will
    "open registry": Listed._open,
    "index": Listed._index,  # the session index has these `rows`
}


def _incarnations(host: FakeHost, prefix: str = "") -> Iterator[tuple[str, str]]:
    for count, incarnation in enumerate(host.incarnations, 1):
        yield _incarnation(f"{prefix}INCARNATION-{count}"), _incarnation(incarnation)


def _incarnation(text: str) -> str:
    return f'"incarnation":"{text}"'


def _pid(pid: int) -> str:
    return f'"host":{{"pid":{pid},'
