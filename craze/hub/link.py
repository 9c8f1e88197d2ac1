"""One connection of the hub's to a host: a request at a time, each answered within its bound.

What a host says unasked is passed over. An answer is kept as the bytes it came in, so that a row
can be handed on as its host wrote it.
"""

from typing import Any

import gevent

from craze.client.errors import Refused
from craze.machine import peer, sockets
from craze.machine.errors import reason
from craze.wire import envelope, json
from craze.wire.framing import LineDecoder, TooLong
from craze.wire.limits import CHUNK, OUTBOUND_LINE

_NOTIFICATION = b'{"jsonrpc":"2.0","method":'


class Lost(Exception):
    """The host cannot be reached, or its connection ended, or it says what no host says."""


class NoAnswer(Lost):
    """The bound of a request passed. What it asked for may have happened."""


class Link:
    """A connection to the host at `path`, dialled within `timeout` seconds. Raises Lost."""

    __slots__ = ("_decoder", "_ids", "_lines", "_sock", "version")

    def __init__(self, path: str, timeout: float) -> None:
        try:
            self._sock = sockets.dial(path, timeout)
        except TimeoutError as failure:
            raise NoAnswer(reason(failure)) from None
        except (OSError, peer.Stranger) as failure:
            raise Lost(reason(failure)) from None
        self._decoder = LineDecoder(OUTBOUND_LINE)
        self._lines: list[bytes | TooLong] = []
        self._ids = 0
        self.version = ""  # the host's craze, once it said hello

    def hello(self, name: str, timeout: float) -> None:
        """Say who we are, and learn the host's version. Raises Lost, Refused."""
        client = {"kind": "hub", "name": name}
        hello = json.parse(self.ask("hello", {"protocols": [1], "client": client}, timeout))
        endpoint = hello.get("endpoint") if isinstance(hello, dict) else None
        version = endpoint.get("crazeVersion") if isinstance(endpoint, dict) else None
        if not isinstance(version, str):
            raise Lost("a hello that is no host's")
        self.version = version

    def ask(self, method: str, params: dict[str, Any], timeout: float) -> bytes:
        """Send a request and return its result as raw JSON.

        Raises Refused for an error, NoAnswer past `timeout` seconds, Lost for all else; after the
        last two the link is of no more use.
        """
        self._ids += 1
        wanted = b'"%d"' % self._ids
        try:
            with gevent.Timeout(timeout, NoAnswer(f"no answer within {timeout:g}s")):
                self._sock.sendall(envelope.request(str(self._ids), method, params))
                while True:
                    line = self._line()
                    if not line.startswith(_NOTIFICATION):
                        return _result(line, wanted)
        except OSError as failure:
            raise Lost(reason(failure)) from None

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _line(self) -> bytes:
        while not self._lines:
            data = self._sock.recv(CHUNK)
            if not data:
                raise Lost("the host closed the connection")
            gevent.sleep(0)  # who never stops talking keeps neither us nor the bound waiting
            self._lines = self._decoder.feed(data)
        line = self._lines.pop(0)
        if isinstance(line, TooLong):
            raise Lost("a line over the limit")
        return line


def _result(line: bytes, wanted: bytes) -> bytes:
    try:
        text = json.decode(line)
        members = json.members(text) or []
    except json.NotJSON:
        raise Lost("a line that is not JSON") from None
    given = {name: (value, begin, end) for name, value, begin, end in members}
    if "error" in given:
        raise Refused.read(given["error"][0])
    id, result = given.get("id"), given.get("result")
    if id is None or result is None or text[id[1] : id[2]].encode() != wanted:
        raise Lost("an answer to another request")
    return text[result[1] : result[2]].encode()


def own_row(listed: bytes) -> bytes:
    """The one row in the result of a host's `sessions.list`, as its host wrote it; b"" where there
    is none that is an object. Raises Lost for what is no such result."""
    try:
        text = json.decode(listed)
        sessions = next(
            text[begin:end]
            for name, _, begin, end in json.members(text) or []
            if name == "sessions"
        )
        rows = json.elements(sessions)
    except (json.NotJSON, StopIteration):
        rows = None
    if rows is None or len(rows) != 1:
        raise Lost("a list that is not of one session")
    row, begin, end = rows[0]
    return sessions[begin:end].encode() if isinstance(row, dict) else b""
