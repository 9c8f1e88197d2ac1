"""A small scripted endpoint: it hands each accepted connection to the test as a `Peer`, whose
blocking `read` and `write` are the whole script language."""

import os
import socket as names
import struct
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import gevent
from gevent import socket
from gevent.queue import Queue

from craze import greenlets
from craze.wire import json

TOKEN = "0f" * 16
HOST = "00000000000a"


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._held = b""

    def read(self) -> dict[str, Any]:
        """The next request; fails the test where the client closes instead."""
        while b"\n" not in self._held:
            data = self.sock.recv(65536)
            assert data, f"the client closed; unread: {self._held!r}"
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def ended(self, peek: bool = False) -> bool:
        """Whether the client closes next, without another byte (which `peek` leaves to read)."""
        try:
            return not self._held and not self.sock.recv(1, names.MSG_PEEK if peek else 0)
        except OSError:
            return True

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def write(self, *messages: dict[str, Any]) -> None:
        self.raw(b"".join(json.dumps({"jsonrpc": "2.0", **m}) + b"\n" for m in messages))

    def reply(self, request: dict[str, Any], result: dict[str, Any]) -> None:
        self.write({"id": request["id"], "result": result})

    def refuse(
        self, request: dict[str, Any], code: str, reason: str = "", message: str = "no", **data: Any
    ) -> None:
        error = {"code": -32000, "message": message,
                 "data": {"code": code, "reason": reason or code, **data}}  # fmt: skip
        self.write({"id": request["id"], "error": error})

    def expect(self, method: str) -> dict[str, Any]:
        """Read the next request, which must be of `method`."""
        request = self.read()
        assert request["method"] == method, request
        return request

    def hello(self, **changes: Any) -> dict[str, Any]:
        """Read a hello and answer it, as a host that takes a client back; returns its params."""
        request = self.expect("hello")
        resume = request["params"].get("resume")
        self.reply(request, hello_result(resumed=resume is not None, **changes))
        params: dict[str, Any] = request["params"]
        return params

    def attach(
        self, seq: int = 0, *, incarnation: str = "i-1", sub: str = "s-1", **changes: Any
    ) -> dict[str, Any]:
        """Read an attach and honour its cursor, or answer with a snapshot at `seq`; its params."""
        request = self.expect("session.attach")
        params: dict[str, Any] = request["params"]
        result: dict[str, Any] = {"subscription": sub, "session": {"sessionId": "one"}}
        result["ready"] = True
        cursor = params.get("cursor")
        if cursor and not changes:
            result["after"] = cursor
        else:
            result["after"] = {"incarnation": incarnation, "seq": seq}
            result["snapshot"] = {"version": 1, "seq": seq}
        self.reply(request, {**result, **changes})
        return params

    def note(self, method: str, sub: str = "s-1", **params: Any) -> None:
        self.write({"method": method, "params": {"subscription": sub, **params}})

    def events(self, *seqs: int, sub: str = "s-1", text: str = "x") -> None:
        for seq in seqs:
            self.note("event", sub, seq=seq, event={"type": "text", "text": text})

    def synchronized(self, seq: int, sub: str = "s-1") -> None:
        self.note("synchronized", sub, seq=seq)

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Close so that what was not read yet is lost: a Unix socket's RST."""
        self.sock.setsockopt(names.SOL_SOCKET, names.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def hello_result(
    resumed: bool = False, host: str = HOST, client: str = "c-1", token: str = TOKEN, **more: Any
) -> dict[str, Any]:
    return {
        "protocol": 1,
        "endpoint": {"kind": "host", "hostId": host, "crazeVersion": "0", "pid": 1},
        "clientId": client,
        "token": token,
        "resumed": resumed,
        "capabilities": {},
        "codecs": {"event": 1, "snapshot": 1},
        "limits": {"inboundLine": 4 << 20, "outboundLine": 16 << 20},
        "retryHorizon": {"commands": 1024, "ageMs": 600000},
        **more,
    }


class Stub:
    """Listens at `path`; `accept()` is the next connection. `script` runs beside the test."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="stub")
        self.path = os.path.join(self._folder.name, "s")
        self._listener = socket.socket(names.AF_UNIX, names.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(16)
        self._peers: list[Peer] = []
        self._scripts: list[gevent.Greenlet] = []
        self.failures: Queue = Queue()

    def accept(self) -> Peer:
        sock, _ = self._listener.accept()
        peer = Peer(sock)
        self._peers.append(peer)
        return peer

    def script(self, run: Callable[[], Any]) -> gevent.Greenlet:
        """Run the server's side of the test; its failure fails the test at its end."""
        greenlet = greenlets.spawn("stub script", run, on_error=self.failures.put)
        self._scripts.append(greenlet)
        return greenlet

    def finish(self) -> None:
        """Wait for the scripts and close everything; raises a script's failure."""
        done = gevent.joinall(self._scripts, timeout=5)
        stuck = len(self._scripts) - len(done)
        gevent.killall(self._scripts)
        self.stop()
        if not self.failures.empty():
            raise self.failures.get()
        assert not stuck, f"{stuck} scripts wait for what the client never did"

    def stop(self) -> None:
        """Close the listener and every connection."""
        self._listener.close()
        for peer in self._peers:
            peer.close()
        self._folder.cleanup()


def serving() -> Iterator[Stub]:
    stub = Stub()
    try:
        yield stub
    except BaseException:
        stub.stop()
        raise
    stub.finish()
