"""The roster of a full machine: hosts that stand still, and a subscriber that does not read."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hubs import Hub, Wire, customize, eventually, settle
from tests.e2e.machine import Machine

ROOT = Path(__file__).parents[2]
LISTED, STOPPED, EACH = 512, 50, 100
BOUND_S = 10.0  # many times what a list may take
QUIET = ("connecting", "unreachable")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
        assert not settle(made)
    finally:
        made.close()


@pytest.fixture
def farm(machine: Machine) -> Iterator[Callable[..., list["subprocess.Popen[bytes]"]]]:
    """Lists hosts, so many to a process."""
    started: list[subprocess.Popen[bytes]] = []

    def grow(ids: list[str]) -> list["subprocess.Popen[bytes]"]:
        new = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.farm", *ids[begin : begin + EACH]],
                cwd=ROOT,
                env=machine.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for begin in range(0, len(ids), EACH)
        ]
        started.extend(new)
        for process in new:
            assert process.stdout is not None and process.stdout.readline()
        return new

    yield grow
    for process in started:
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)


class Roster:
    """What a subscriber holds, folded from what it is told."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        reply = wire.ask("sessions.subscribe")["result"]
        self.truncated = reply.get("truncated", False)
        self.cursor = reply["cursor"]
        self.rows: dict[str, Any] = {row["hostId"]: row for row in reply["sessions"]}

    def hear(self, told: dict[str, Any]) -> None:
        assert told["method"] == "roster", told
        params = told["params"]
        assert params["cursor"] > self.cursor
        self.cursor = params["cursor"]
        for row in params["upserts"]:
            self.rows[row["hostId"]] = row
        for id in params["removes"]:
            del self.rows[id]

    def until(self, holds: Callable[[], bool]) -> None:
        """Hear what comes until `holds`."""

        def heard() -> bool:
            if not holds():
                self.hear(next(self._wire.lines()))
            return holds()

        eventually(heard)

    def round(self) -> int:
        """How often every host was asked at least."""
        asked = [int(row["row"]["title"]) for row in self.rows.values() if "row" in row]
        return min(asked, default=0)

    def having(self, *statuses: str) -> set[str]:
        return {id for id, row in self.rows.items() if row["status"] in statuses}


def hung_up(sock: Any) -> bool:
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))


def ids(count: int, digit: str) -> list[str]:
    return [f"{digit}{number:011x}" for number in range(count)]


def test_b28_fifty_of_512_hosts_stand_still_and_hold_up_nobody(
    machine: Machine, farm: Callable[..., list["subprocess.Popen[bytes]"]]
) -> None:
    # Those that stand still are asked first, by their ids.
    still, well = ids(STOPPED, "0"), ids(LISTED - STOPPED, "a")
    farm(well)
    (stopped,) = farm(still)
    stopped.send_signal(signal.SIGSTOP)
    hub = Hub(machine)
    hub.start()
    with hub.wire() as wire:
        wire.hello()
        began = time.monotonic()
        listed = wire.ask("sessions.list")["result"]
        assert time.monotonic() - began < BOUND_S
        assert [row["hostId"] for row in listed["sessions"]] == still + well
        assert "truncated" not in listed
        for row in listed["sessions"]:
            if row["status"] == "reachable":
                assert row["hostId"] in well and row["row"]["title"]
            else:  # not heard from, or not in time
                assert row["status"] in QUIET
                assert row["approximate"] and "row" not in row
                assert row["sessionId"] == f"session-{row['hostId']}"

        roster = Roster(wire)
        roster.until(lambda: roster.having("reachable") >= set(well))
        roster.until(lambda: roster.having("unreachable") >= set(still))
        assert set(roster.rows) == {*still, *well}

        # Nothing else waits for them either.
        began = time.monotonic()
        with hub.wire() as other:
            other.hello()
            assert other.ask("session.connect", sessionId=f"session-{well[0]}")["result"] == {}
            assert other.hello()["endpoint"]["kind"] == "host"
        assert time.monotonic() - began < BOUND_S

        stopped.send_signal(signal.SIGCONT)
        roster.until(lambda: roster.having("reachable") >= set(still))
        stopped.kill()
        roster.until(lambda: not roster.rows.keys() & set(still))
        assert roster.rows.keys() == set(well)


def test_b76_a_subscriber_that_does_not_read_is_reset_and_disturbs_nobody(
    machine: Machine, farm: Callable[..., list["subprocess.Popen[bytes]"]]
) -> None:
    customize(machine, ROSTER_WRITE=1.0)
    hosts = ids(200, "a")  # each of whose rows is new in every round: half a megabyte
    farm(hosts)
    hub = Hub(machine)
    pid = hub.start()
    silent = hub.dial()
    with hub.wire() as wire, Wire(silent) as deaf:
        for each in (wire, deaf):
            each.hello()
        roster = Roster(wire)
        assert deaf.ask("sessions.subscribe")["result"]["subscription"] == "r-1"
        # It reads neither what changed nor its reset: in the end it is let go of.
        roster.until(lambda: hung_up(silent))
        rounds = roster.round()
        roster.until(lambda: roster.round() > rounds + 2)
        told = [line["method"] for line in deaf.lines()]
        assert set(told) <= {"roster", "reset"}
        with hub.wire() as new:
            new.hello()
            assert len(new.ask("sessions.list")["result"]["sessions"]) == len(hosts)
    assert hub.record.pid == pid
    if os.path.isdir("/proc/self"):
        status = Path(f"/proc/{pid}/status").read_text()
        (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
        assert int(peak) * 1024 < 128 * 1024 * 1024
