"""The processes of a scenario: its fake hosts and, where it has one, the hub in front of them.

Each says one JSON line when it is ready, and ends with its stdin. Nothing here knows a scenario.
"""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import craze

PATIENCE = 10.0
ROOT = Path(__file__).resolve().parents[2]


class Difference(AssertionError):
    """What a line should have been, and what it was."""


class Child:
    """`python -m MODULE ARGUMENTS…` in `environment`; `ready` is what it said of itself."""

    def __init__(self, module: str, arguments: list[str], environment: dict[str, str]) -> None:
        self._start(module, arguments, environment)
        try:
            self.ready = self.read()
        except BaseException:
            self.close()
            raise

    def _start(
        self, module: str, arguments: list[str], environment: dict[str, str], **more: Any
    ) -> None:
        self.module = module
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
            **more,
        )

    def read(self) -> dict[str, Any]:
        """The next line it says."""
        assert self.process.stdout is not None and self.process.stderr is not None
        both = [self.process.stdout, self.process.stderr]
        readable, _, _ = select.select(both, [], [], PATIENCE)
        if self.process.stdout not in readable:
            said = os.read(self.process.stderr.fileno(), 1 << 16) if readable else b"nothing"
            raise Difference(f"{self.module} gave no line: {said.decode()}")
        line: dict[str, Any] = json.loads(self.process.stdout.readline() or b"{}")
        return line

    def write(self, line: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> str:
        """End it; what it said on stderr."""
        try:
            said: bytes = self.process.communicate(timeout=PATIENCE)[1]
            return said.decode()
        finally:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()


class CrazeHub(Child):
    """A `craze hub`, ready."""

    def __init__(self, environment: dict[str, str]) -> None:
        reading, writing = os.pipe()
        told = {"CRAZE_READY_FD": str(writing), "CRAZE_HUB_CHILD": "1"}
        try:
            self._start("craze", ["hub"], environment | told, pass_fds=(writing,))
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            line = pipe.readline() if select.select([pipe], [], [], PATIENCE)[0] else b""
        if not line:
            raise Difference(f"craze hub did not come up: {self.close()}")
        self.ready = json.loads(line) | {"version": craze.__version__, "pid": self.process.pid}

    def close(self) -> str:
        self.process.terminate()
        return super().close()


class FakeHost(Child):
    """A `craze-fake-host --ack`; members of `build` beside `host` make it the tests' own
    (`tests.conformance.host`). `where` says where it serves."""

    def __init__(
        self, where: list[str], build: dict[str, Any], environment: dict[str, str]
    ) -> None:
        own = {name: value for name, value in build.items() if name not in ("dir", "host", "hub")}
        super().__init__(
            "tests.conformance.host" if own else "craze.fakes.host",
            ["--ack", *where, "--host", json.dumps(build.get("host", {}))],
            environment | {"CRAZE_TEST_HOST": json.dumps(own)},
        )
        self.incarnations = [self.ready["incarnation"]]

    def op(self, op: dict[str, Any]) -> None:
        """Run an op to its end."""
        self.write(op)
        answer = self.read()
        assert answer["done"] == op["name"], answer
        if "incarnation" in answer:
            self.incarnations.append(answer["incarnation"])
