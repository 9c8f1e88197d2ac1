"""A hub's stand-in, a program: it takes the place as a hub does, then behaves as FAKE_HUB says.

FAKE_HUB is a list of JSON objects, one for each birth of it, the last for all that follow:

says      its ready line, raw, instead of a hub's; "" to hang up without one; null for silence
place     false: it takes no place
stubborn  it ignores SIGTERM
hello     answer; silent, spin: it does neither answer nor end; closing: it says so for `for`
          seconds, then gives up its place and ends
result    members of its hello's result that are other than a hub's
exits     it ends with this code once it has said its line

FAKE_HUB_BIRTHS is the file in which each leaves a line: its pid, its folder and its group.
"""

import json
import os
import signal
import sys
import time
from typing import Any

from craze.machine import hubs
from craze.machine.ids import host_id
from craze.machine.paths import Paths


def main() -> None:
    number = _born()
    plans = json.loads(os.environ.get("FAKE_HUB", "[{}]"))
    plan = plans[min(number, len(plans) - 1)]
    fd = int(os.environ["CRAZE_READY_FD"])
    if plan.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    place = None
    says = plan.get("says", "hub")
    if plan.get("place", True):
        try:
            place = hubs.take(Paths.of(os.environ), host_id(), version="9.9", started_at="t")
        except hubs.Held as held:
            os.write(fd, _json({"ok": False, "held": {"pid": held.pid, "hubId": held.hub}}))
            sys.exit(0)
    if says == "hub":
        assert place is not None
        record = place.record
        said = {"ok": True, "hubId": record.hubId, "ns": record.ns, "socket": record.socket}
        says = json.dumps(said) + "\n"
    if says is not None:
        os.write(fd, says.encode())
        os.close(fd)
    if "exits" in plan:
        sys.exit(plan["exits"])
    if place is None:
        time.sleep(60)
    else:
        _serve(place, plan)


def _born() -> int:
    """How many there were before."""
    fd = os.open(os.environ["FAKE_HUB_BIRTHS"], os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    before = os.read(fd, 1 << 20).count(b"\n")
    os.write(fd, f"{os.getpid()} {os.getcwd()} {os.getsid(0)}\n".encode())
    os.close(fd)
    return before


def _serve(place: hubs.Place, plan: dict[str, Any]) -> None:
    how = plan.get("hello", "answer")
    if how == "silent":
        time.sleep(60)
    if how == "spin":
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass
    end = time.monotonic() + plan.get("for", 60)
    while how == "answer" or time.monotonic() < end:
        sock, _ = place.listener.accept()
        with sock:
            sock.recv(65536)
            if how == "answer":
                said = {"result": answer(place.record) | plan.get("result", {})}
            else:
                data = {"code": "unavailable", "reason": "closing"}
                said = {"error": {"code": -32000, "message": "the hub is closing", "data": data}}
            sock.sendall(_json({"jsonrpc": "2.0", "id": 1} | said))
    place.leave()


def answer(record: hubs.Record) -> dict[str, Any]:
    """The hello result of a hub that can do everything."""
    return {
        "protocol": 1,
        "endpoint": {
            "kind": "hub", "hostId": record.hubId, "crazeVersion": "9.9", "pid": record.pid,
        },
        "capabilities": {
            "rosterSubscribe": True, "sessionCreate": True, "multiplex": False, "connect": True,
            "snapshot": False, "attachWhenNow": False, "createOptions": True,
            "createTitle": True, "reopen": True,
        },
    }  # fmt: skip


def _json(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


if __name__ == "__main__":
    main()
