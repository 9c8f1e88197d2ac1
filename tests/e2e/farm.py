"""Many hosts in one process: `python -m tests.e2e.farm ID…` lists each, and ends with its stdin.

They are sockets, locks and entries like any host's, and say no more than the roster asks: hello,
and a row that is new every time.
"""

import json
import os
import sys

import gevent
from gevent.socket import wait_read

from craze.machine import descriptors, registry
from craze.machine.paths import Paths

PADDING = "x" * 2000
STARTED = {"startedAt": "2026-01-01T00:00:00Z", "provider": "fake", "workspace": "/work"}


class FarmHost:
    def __init__(self, id: str) -> None:
        self.id = id
        self.listing = registry.bind(Paths.of(os.environ), id, STARTED, sleep=gevent.sleep)
        self.listing.update(crazeSessionId=f"session-{id}", ready=True)
        self._asked = 0
        gevent.spawn(self._accept)

    def _accept(self) -> None:
        while True:
            sock, _ = self.listing.listener.accept()
            gevent.spawn(self._serve, sock)

    def _serve(self, sock: "gevent.socket.socket") -> None:
        with sock, sock.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                answer = {"jsonrpc": "2.0", "id": request["id"], "result": self._result(request)}
                sock.sendall(json.dumps(answer).encode() + b"\n")

    def _result(self, request: dict[str, object]) -> dict[str, object]:
        if request["method"] == "hello":
            return {"endpoint": {"kind": "host", "crazeVersion": "1.2.3"}}
        self._asked += 1
        row = {"sessionId": f"session-{self.id}", "title": f"{self._asked}", "doing": PADDING}
        return {"epoch": self.id, "cursor": self._asked, "sessions": [row]}


def main() -> None:
    descriptors.raise_limit()
    hosts = [FarmHost(id) for id in sys.argv[1:]]
    print(len(hosts), flush=True)
    wait_read(0)
    for host in hosts:
        host.listing.unbind()


if __name__ == "__main__":
    main()
