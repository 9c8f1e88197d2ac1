"""Replays a wire scenario against `craze-fake-host` as a process of its own, byte for byte.

A scenario is NDJSON, one step a line, run strictly in order:

    {"dir":"host","host":{…}}           how the host is built; first line or absent
    {"dir":"op","op":{"name":…}}        something done on the host itself
    {"conn":N,"dir":"c2s","msg":{…}}    a line sent on connection N, dialled when first named
    {"conn":N,"dir":"s2c","msg":{…}}    the next line read from connection N

and, for what the recorded form has no words for:

    {"conn":N,"dir":"raw","text":…}     bytes sent as they stand ("times" repeats them)
    {"conn":N,"dir":"half"}             our writing half closed
    {"conn":N,"dir":"closed"}           the host closes connection N, with nothing more written
    {"conn":N,"dir":"quiet"}            nothing has come from connection N
    {"dir":"wait","ms":…}               real time passes

Every line is held to the published schema in both directions, unless the step says so:
`"invalid":true`.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from craze.wire import schema

PATIENCE = 10.0


class Difference(AssertionError):
    """What a line should have been, and what it was."""


def steps(path: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    """The steps of a scenario: line number, step, and the raw JSON of its message."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        step = json.loads(line)
        raw = ""
        if "msg" in step:
            start = line.index('"msg":') + len('"msg":')
            _, end = json.JSONDecoder().raw_decode(line, start)
            raw = line[start:end]
        yield number, step, raw


class Line:
    """One connection of a scenario."""

    def __init__(self, path: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(PATIENCE)
        self._sock.connect(path)
        self._buffer = b""
        self.methods: dict[Any, str] = {}

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def half_close(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    def read(self) -> bytes:
        """The next line without its newline; b"" at the end."""
        pieces = [self._buffer]
        while b"\n" not in pieces[-1]:
            piece = self._sock.recv(1 << 16)
            if not piece:
                if any(pieces):
                    raise Difference(f"the connection ended inside a line: {b''.join(pieces)!r}")
                return b""
            pieces.append(piece)
        line, _, self._buffer = b"".join(pieces).partition(b"\n")
        return line

    def quiet(self) -> bool:
        """Whether nothing has come."""
        readable, _, _ = select.select([self._sock], [], [], 0)
        return not self._buffer and not readable

    def close(self) -> None:
        self._sock.close()


class FakeHost:
    """A `craze-fake-host --ack` process on a socket in `folder`; members of `build` beside `host`
    make it the tests' own (`tests.conformance.host`)."""

    def __init__(self, folder: Path, build: dict[str, Any]) -> None:
        self.path = str(folder / "host.sock")
        host = build.pop("host", {})
        build.pop("dir", None)
        module = "tests.conformance.host" if build else "craze.fakes.host"
        command = [sys.executable, "-m", module, "--ack"]
        self.process = subprocess.Popen(
            [*command, "--socket", self.path, "--host", json.dumps(host)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "HOME": str(folder), "CRAZE_TEST_HOST": json.dumps(build)},
        )
        self.incarnations: list[str] = []
        try:
            self._read("incarnation")
        except BaseException:
            self.close()
            raise

    def op(self, op: dict[str, Any]) -> None:
        """Run an op to its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(op).encode() + b"\n")
        self.process.stdin.flush()
        answer = self._read("done")
        assert answer["done"] == op["name"], answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()

    def _read(self, member: str) -> dict[str, Any]:
        assert self.process.stdout is not None and self.process.stderr is not None
        both = [self.process.stdout, self.process.stderr]
        readable, _, _ = select.select(both, [], [], PATIENCE)
        if self.process.stdout not in readable:
            said = os.read(self.process.stderr.fileno(), 1 << 16) if readable else b"nothing"
            raise Difference(f"craze-fake-host gave no {member}: {said.decode()}")
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or b"{}")
        if "incarnation" in answer:
            self.incarnations.append(answer["incarnation"])
        return answer


class Runner:
    """One run of one scenario. While it is recorded, an s2c step without a `msg` takes what
    comes: `recorded` holds what did, in order. Read it before you believe it."""

    def __init__(self, path: Path, folder: Path, *, record: bool = False) -> None:
        self._steps = list(steps(path))
        self._name = path.name
        first = self._steps[0][1]
        self._host = FakeHost(folder, dict(first) if first["dir"] == "host" else {})
        self._lines: dict[int, Line] = {}
        self._record = record
        self.recorded: list[str] = []

    def run(self) -> None:
        """Raises Difference at the first step that does not go as written."""
        try:
            for number, step, raw in self._steps:
                try:
                    self._step(step, raw)
                except Exception as failure:
                    raise Difference(f"{self._name}:{number}: {failure}") from failure
        finally:
            for line in self._lines.values():
                line.close()
            self._host.close()

    def _step(self, step: dict[str, Any], raw: str) -> None:
        match step["dir"]:
            case "host":
                pass
            case "op":
                self._host.op(step["op"])
            case "wait":
                time.sleep(step["ms"] / 1000)
            case "c2s":
                self._send(self._line(step), step, self._real(raw))
            case "s2c":
                self._expect(self._line(step), step, raw)
            case "raw":
                text = self._real(step["text"]) * step.get("times", 1)
                self._line(step).send(text.encode("utf-8", "surrogateescape"))
            case "half":
                self._line(step).half_close()
            case "closed":
                if line := self._line(step).read():
                    raise Difference(f"expected the end, got {line!r}")
            case "quiet":
                if not self._line(step).quiet():
                    raise Difference(f"expected nothing, got {self._line(step).read()!r}")
            case other:
                raise Difference(f"no such step: {other}")

    def _line(self, step: dict[str, Any]) -> Line:
        number = step["conn"]
        if number not in self._lines:
            self._lines[number] = Line(self._host.path)
        return self._lines[number]

    def _send(self, line: Line, step: dict[str, Any], raw: str) -> None:
        message = json.loads(raw)
        if not step.get("invalid"):
            schema.check_request(message["method"], message.get("params", {}))
        line.methods[message.get("id")] = message.get("method", "")
        line.send(raw.encode() + b"\n")

    def _expect(self, line: Line, step: dict[str, Any], raw: str) -> None:
        got = self._placeholders(line.read().decode())
        if self._record and not raw:
            self.recorded.append(got)
            raw = got
        if got != raw:
            raise Difference(f"\nexpected {_around(raw, got)}\n     got {_around(got, raw)}")
        schema.check_line(json.loads(got), line.methods)

    def _real(self, text: str) -> str:
        for count, incarnation in enumerate(self._host.incarnations, 1):
            text = text.replace(
                f'"incarnation":"INCARNATION-{count}"', f'"incarnation":"{incarnation}"'
            )
        return text

    def _placeholders(self, text: str) -> str:
        for count, incarnation in enumerate(self._host.incarnations, 1):
            text = text.replace(
                f'"incarnation":"{incarnation}"', f'"incarnation":"INCARNATION-{count}"'
            )
        return text


def _around(text: str, other: str) -> str:
    """The text, or where it is long, the part around its first difference from `other`."""
    if len(text) <= 400:
        return text
    at = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    return f"…{text[max(0, at - 150) : at + 200]}… (at character {at} of {len(text)})"
