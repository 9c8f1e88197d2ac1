"""What holds a lane and is told what to do by lines of JSON, each answered with one: the work of
`lane_program`."""

import contextlib
import gc
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import gevent
from gevent import socket

import craze_shed
import craze_shed.reach
from craze_shed.contract import answers, creating, frames
from craze_shed.contract.errors import Failure
from craze_shed.craze.limits import Bounds

PATIENCE = 20.0
BRISK = Bounds(backoff_first=0.02, backoff_most=0.3)


def reach(way: str, **options: Any) -> craze_shed.reach.Reach:
    """A way to a machine: `local`, `ssh` or `paramiko`, with what its class is given."""
    if way == "local":
        return craze_shed.reach.LocalReach(**options)
    if "keepalive" in options:
        options["keepalive"] = craze_shed.reach.Keepalive(*options["keepalive"])
    kind: Any = getattr(craze_shed.reach, "SshReach" if way == "ssh" else "ParamikoReach")
    made: craze_shed.reach.Reach = kind("box", **options)
    return made


class Held:
    """A machine, and a lane to one of its sessions at a time."""

    def __init__(self) -> None:
        gevent.sleep(0)  # what the loop itself opens, it opens now
        self._before = left()
        self.lane: Any = None

    def reach(self, way: str, **options: Any) -> None:
        self._reach = reach(way, **options)
        dialer = craze_shed.Dialer(self._reach, eager=False)
        self.source = craze_shed.CrazeSource(dialer, bounds=BRISK)

    def roster(self) -> dict[str, Any]:
        """What a new subscription comes to: a list, or an outage."""
        with self.source.subscribe() as stream:
            view = craze_shed.SourceView()
            while frame := stream.next(PATIENCE):
                view.apply(frame)
                if isinstance(frame, frames.SourceOffline):
                    return {"offline": frame.cause, "why": frame.reason}
                if isinstance(frame, frames.SourceReady):
                    return {"sessions": [one.id for one in view.sessions]}
        raise AssertionError("the roster said nothing")

    def options(self) -> list[str]:
        return [one.id for one in self.source.create_options().providers if one.state == "ready"]

    def create(self, **request: Any) -> str:
        made = self.source.create(
            creating.LaneCreateRequest(request_id=creating.new_request_id(), **request)
        )
        return made.session.id

    def open(self, id: str) -> None:
        if self.lane is not None:
            self.lane.close()
        self.lane = craze_shed.OpenLane(self.source.open(id))

    def until(self, text: str = "", banner: str = "", asks: int = -1) -> dict[str, Any]:
        """What the lane shows once it is that."""
        with gevent.Timeout(PATIENCE):
            while True:
                shown = self.lane.snapshot()
                said = [row.text or (row.tool and row.tool.detail) for row in shown.messages]
                if (
                    text in ("", *said)
                    and (banner in shown.banner if shown.banner else not banner)
                    and asks in (-1, len(shown.approvals))
                    and shown.generation
                ):
                    return {
                        "rows": said,
                        "asks": [one.to_wire() for one in shown.approvals],
                        "generation": shown.generation,
                    }
                gevent.sleep(0.01)

    def rows(self) -> list[dict[str, Any]]:
        return [row.to_wire() for row in self.lane.snapshot().messages]

    def send(self, text: str) -> None:
        self.lane.send(text)

    def answer(self, id: str, answer: dict[str, Any]) -> None:
        self.lane.answer(id, answers.decode_answer(answer))

    def stop(self) -> None:
        self.lane.stop()

    def close(self) -> list[str]:
        """Let everything go; what there is that was not there at the start."""
        self.lane.close()
        self.source.close()
        self._reach.close()
        del self.lane, self.source, self._reach
        deadline = time.monotonic() + PATIENCE
        while (more := left() - self._before) and time.monotonic() < deadline:
            gevent.sleep(0.05)
        return sorted(more)


def left() -> set[str]:
    """Everything this process has that can leak."""
    gc.collect()
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        found = {f"child {pid}" for pid in file.read().split()}
    for one in gc.get_objects():
        if isinstance(one, gevent.Greenlet) and not one.dead:
            found.add(f"greenlet {one!r}")
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            found.add(f"descriptor {fd} {os.readlink(f'/proc/self/fd/{fd}')}")
    return found


def lines() -> Iterator[bytes]:
    """The lines of stdin, the loop running meanwhile."""
    rest = b""
    while True:
        socket.wait_read(0)
        data = os.read(0, 65536)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole


def main() -> None:
    held = Held()
    for line in lines():
        asked = json.loads(line)
        try:
            answer = {"result": getattr(held, asked.pop("do"))(**asked)}
        except Failure as failure:
            answer = {"error": failure.code, "message": failure.message}
        except (Exception, gevent.Timeout) as failure:
            answer = {"error": type(failure).__name__, "message": str(failure)}
        print(json.dumps(answer), flush=True)
