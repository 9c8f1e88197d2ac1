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

`"sock":"hub"` on a connection's first line dials the hub instead. Where one does, the host is
listed in a registry of the scenario's own and a hub runs in front of it, with the abilities that
the host object says (`tests.conformance.hub`). Such a scenario has two steps more:

    {"dir":"host","id":…,"session":…}   one more host is listed; "on":ID sends it an op
    {"dir":"machine","do":…,"on":ID}    something else happens (`tests.conformance.machine`)

Every line is held to the published schema in both directions, unless the step says so:
`"invalid":true`.
"""

import json
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from craze.wire import schema
from tests.conformance.children import PATIENCE, Difference
from tests.conformance.machine import Alone, Listed, Stage


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


class Runner:
    """One run of one scenario. While it is recorded, an s2c step without a `msg` takes what
    comes: `recorded` holds what did, in order. Read it before you believe it."""

    def __init__(self, path: Path, folder: Path, *, record: bool = False) -> None:
        self._steps = list(steps(path))
        self._name = path.name
        first = self._steps[0][1]
        build = first if first["dir"] == "host" else {}
        with_hub = any(step.get("sock") == "hub" for _, step, _ in self._steps)
        self._stage: Stage = Listed(build) if with_hub else Alone(folder, build)
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
            self._stage.close()

    def _step(self, step: dict[str, Any], raw: str) -> None:
        match step["dir"]:
            case "host":
                if "id" in step:
                    self._stage.add(step)
            case "op":
                self._stage.op(step)
            case "machine":
                self._stage.do(step)
            case "wait":
                time.sleep(step["ms"] / 1000)
            case "c2s":
                self._send(self._line(step), step, self._stage.real(raw))
            case "s2c":
                self._expect(self._line(step), raw)
            case "raw":
                text = self._stage.real(step["text"]) * step.get("times", 1)
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
            self._lines[number] = Line(self._stage.socket(step.get("sock", "host")))
        return self._lines[number]

    def _send(self, line: Line, step: dict[str, Any], raw: str) -> None:
        message = json.loads(raw)
        if not step.get("invalid"):
            schema.check_request(message["method"], message.get("params", {}))
        line.methods[message.get("id")] = message.get("method", "")
        line.send(raw.encode() + b"\n")

    def _expect(self, line: Line, raw: str) -> None:
        written = line.read().decode()
        got = self._stage.placeholders(written)
        if self._record and not raw:
            self.recorded.append(got)
            raw = got
        if got != raw:
            raise Difference(f"\nexpected {_around(raw, got)}\n     got {_around(got, raw)}")
        schema.check_line(json.loads(written), line.methods)


def _around(text: str, other: str) -> str:
    """The text, or where it is long, the part around its first difference from `other`."""
    if len(text) <= 400:
        return text
    at = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    return f"…{text[max(0, at - 150) : at + 200]}… (at character {at} of {len(text)})"
