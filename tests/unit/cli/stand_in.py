"""A hub's stand-in in this process: it takes the place as a hub does, and answers as it is told."""

import json
from typing import Any, Final

import gevent

from craze import greenlets
from craze.machine import hubs
from craze.machine.paths import Paths
from craze.wire import documents

ID: Final = "0a1b2c3d4e5f"
HANG_UP: Final = {"hang": "up"}  # instead of an answer
SILENT: Final = {"hang": "on"}

Answer = dict[str, Any] | bytes


class StandIn:
    """`answers` has for each method what it is answered, the last for all that follow: a reply's
    members, a raw result, HANG_UP or SILENT. `lacks` are abilities that its hello has not.

    `asked` are the requests but for the hellos, `clients` what each hello said of its client.
    """

    def __init__(self, paths: Paths, *, lacks: tuple[str, ...] = ()) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[dict[str, Any]] = []
        self.clients: list[dict[str, Any]] = []
        self._place = hubs.take(paths, ID, version="9.9", started_at="2026-01-01T00:00:00Z")
        able = {"create": "sessionCreate", "create_options": "createOptions",
                "create_title": "createTitle", "reopen": "reopen"}  # fmt: skip
        self._hello = documents.hub_hello(
            ID, "9.9", self._place.record.pid, **{k: v not in lacks for k, v in able.items()}
        )
        self._serving = [greenlets.spawn("stand-in", self._accept)]

    def close(self) -> None:
        gevent.killall(self._serving)
        self._place.leave()

    def _accept(self) -> None:
        while True:
            sock, _ = self._place.listener.accept()
            self._serving.append(greenlets.spawn("stand-in", self._serve, sock))

    def _serve(self, sock: Any) -> None:
        with sock, sock.makefile("rwb") as file:
            for line in file:
                request = json.loads(line)
                answer = self._answer(request)
                if answer is HANG_UP:
                    return
                if answer is SILENT:
                    gevent.sleep(60)
                id = json.dumps(request["id"]).encode()
                file.write(b'{"jsonrpc":"2.0","id":%b,%b}\n' % (id, answer))
                file.flush()

    def _answer(self, request: dict[str, Any]) -> Any:
        if request["method"] == "hello":
            self.clients.append(request["params"]["client"])
            return b'"result":' + json.dumps(self._hello).encode()
        self.asked.append(request)
        scripted = self.answers[request["method"]]
        answer = scripted.pop(0) if len(scripted) > 1 else scripted[0]
        if isinstance(answer, bytes):
            return b'"result":' + answer
        return answer if "hang" in answer else json.dumps(answer).encode()[1:-1]


def refusal(code: str, reason: str, message: str, **data: Any) -> dict[str, Any]:
    """A reply's members that refuse."""
    return {"error": {"code": -32000, "message": message,
                      "data": {"code": code, "reason": reason, **data}}}  # fmt: skip
