"""Sessions on real agents, each driven as a user would: `craze serve`, and a client on its socket.

The agents are real programs that talk to a fake model: what they are asked to do is scripted, what
they say on the way is their own.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.client import Client
from tests.e2e.machine import END_S, Host, Machine
from tests.e2e.peers.agents import AGENTS, Agent, model_server

PATIENCE_S = 60
# An agent behind a shell, as those that a package runner starts are: the shell waits for it.
WRAPPER = ["/bin/sh", "-c", '"$@"; exit $?', "wrapper"]

pytestmark = pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)


class Seat:
    """A session on an agent, and a client that follows it."""

    def __init__(self, machine: Machine, host: Host, client: Client) -> None:
        self.machine, self.host, self.client = machine, host, client
        self.attachment = client.attach(timeout=PATIENCE_S)
        self.events: list[dict[str, Any]] = []

    def prompt(self, *lines: str) -> None:
        self.client.command("session.prompt", mode="queue", text="\n".join(lines))

    def until(self, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Take events up to the first that `holds`: that one."""
        end = time.monotonic() + PATIENCE_S
        while (left := end - time.monotonic()) > 0:
            note = self.attachment.next(left)
            assert note is not None, f"no more came after {self.events[-3:]}"
            if note.method == "event":
                self.events.append(note.params["event"])
                if holds(self.events[-1]):
                    return self.events[-1]
        raise TimeoutError(f"not among {self.events}")

    def turn(self) -> dict[str, Any]:
        """Take events up to the end of the turn: how it ended."""
        return self.until(turn_ended)["turn"]

    def answer(self, kind: str) -> None:
        """Wait for the agent to ask for permission, and give its first option of `kind`."""
        asked = self.until(lambda event: event["type"] == "permission")["permission"]
        option = next(one["optionId"] for one in asked["options"] if one["kind"] == kind)
        self.client.command("asks.answer", askId=asked["id"], answer={"optionId": option})

    def text(self) -> str:
        return "".join(event["text"] for event in self.events if event["type"] == "text")

    def tools(self) -> list[dict[str, Any]]:
        """Each tool call as it last stood."""
        last = {event["tool"]["id"]: event["tool"] for event in self.events if "tool" in event}
        return list(last.values())


def turn_ended(event: dict[str, Any]) -> bool:
    return event.get("turn", {}).get("phase") == "ended"


@contextlib.contextmanager
def seated(agent: Agent, root: Path, wrapper: list[str]) -> Iterator[Seat]:
    machine = Machine(root)
    try:
        with model_server() as port:
            variables = agent.set_up(machine.home, port)
            entries = ", ".join(
                f"{name} = {json.dumps(value)}" for name, value in variables.items()
            )
            machine.configure(
                f"[providers.{agent.name}]\n"
                f"command = {json.dumps([*wrapper, *agent.argv()])}\n"
                f"label = {json.dumps(agent.name)}\n"
                f"env = {{{entries}}}\n"
            )
            host = machine.serve(f"--provider={agent.name}", "--no-force")
            with Client(host.socket, kind="test") as client:
                yield Seat(machine, host, client)
            host.process.terminate()  # if it has not ended by then
            assert host.process.wait(END_S) in (0, -signal.SIGKILL)
            assert machine.wait_empty() == {}
    finally:
        machine.close()


@pytest.fixture
def seat(agent: Agent, tmp_path: Path) -> Iterator[Seat]:
    agent.require()
    with seated(agent, tmp_path, []) as seat:
        yield seat


@pytest.fixture
def wrapped(agent: Agent, tmp_path: Path) -> Iterator[Seat]:
    agent.require()
    with seated(agent, tmp_path, WRAPPER) as seat:
        yield seat


def test_a_prompt_streams_the_agents_text(agent: Agent, seat: Seat) -> None:
    seat.prompt("FAKE:text one two three")
    assert seat.turn()["stopReason"] == "end_turn"
    assert seat.text() == "one two three"
    pieces = [event for event in seat.events if event["type"] == "text"]
    assert len(pieces) == 3, "each word is an event of its own"
    # What a client that comes now is given says the same.
    model = json.dumps(seat.client.request("session.snapshot")["snapshot"])
    assert "one two three" in model


def test_a_permission_is_asked_and_the_answer_obeyed(agent: Agent, seat: Seat) -> None:
    allowed, rejected = seat.machine.work / "allowed", seat.machine.work / "rejected"

    seat.prompt(agent.shell_step(f"echo ran > {allowed.name}"), "FAKE:text it ran")
    seat.answer("allow_once")
    assert seat.turn()["stopReason"] == "end_turn"
    assert allowed.read_text() == "ran\n"
    assert [tool["status"] for tool in seat.tools()] == ["completed"]
    assert seat.text() == "it ran"

    seat.prompt(agent.shell_step(f"echo ran > {rejected.name}"), "FAKE:text it did not")
    seat.answer("reject_once")
    assert "err" not in seat.turn()
    assert not rejected.exists()
    assert seat.client.request("asks.list")["asks"] == []


def test_a_cancel_ends_the_turn_and_the_session_goes_on(agent: Agent, seat: Seat) -> None:
    seat.prompt("FAKE:slow 300")
    seat.until(lambda event: event["type"] == "text")
    seat.client.command("session.cancel")
    assert seat.turn()["stopReason"] == "cancelled"

    # Also while the agent waits for an answer.
    seat.prompt(agent.shell_step("echo ran > cancelled"))
    seat.until(lambda event: event["type"] == "permission")
    seat.client.command("session.cancel")
    assert "err" not in seat.turn()
    assert seat.client.request("asks.list")["asks"] == []
    assert not (seat.machine.work / "cancelled").exists()

    seat.events.clear()
    seat.prompt("FAKE:text still here")
    assert seat.turn()["stopReason"] == "end_turn"
    assert seat.text() == "still here"


def test_a_failing_model_fails_the_turn_alone(agent: Agent, seat: Seat) -> None:
    seat.prompt("FAKE:error 400")
    assert "the script asked for 400" in seat.turn()["err"]
    seat.prompt("FAKE:text better now")
    assert seat.turn()["stopReason"] == "end_turn"


def test_an_agent_killed_in_mid_turn_ends_the_session_with_its_cause(
    agent: Agent, seat: Seat
) -> None:
    seat.prompt("FAKE:slow 300")
    seat.until(lambda event: event["type"] == "text")
    recorded = seat.machine.home / ".cache/craze/host-logs" / f"{seat.host.id}.pgids"
    leader = int(recorded.read_text().split()[0])
    os.kill(leader, signal.SIGKILL)

    failure = seat.until(lambda event: event["type"] == "error")["err"]
    assert failure["message"].startswith("acp: agent exited: signal: killed")
    assert (failure["class"], failure["code"]) == ("agent_exit_status", -1)
    ended = seat.turn()
    assert (ended["err"], ended["errClass"]) == (failure["message"], failure["class"])

    last = seat.attachment.next(PATIENCE_S)
    assert last == ("reset", {"reason": "session_closed"})
    assert seat.host.process.wait(END_S) == 0


def test_b20_b21_a_stop_in_mid_turn_leaves_no_process(agent: Agent, wrapped: Seat) -> None:
    seat = wrapped
    seat.prompt(agent.shell_step("tail -f /dev/null"))
    seat.answer("allow_once")
    running = until_runs(seat.machine, "tail -f /dev/null")
    assert any(agent.peers[-1] in command for command in running.values()), running
    seat.client.command("session.stop")
    assert seat.host.process.wait(END_S) == 0
    assert seat.machine.wait_empty() == {}


def test_b20_a_host_killed_outright_leaves_no_process(agent: Agent, wrapped: Seat) -> None:
    wrapped.prompt(agent.shell_step("tail -f /dev/null"))
    wrapped.answer("allow_once")
    until_runs(wrapped.machine, "tail -f /dev/null")
    wrapped.host.process.kill()
    assert wrapped.host.process.wait(END_S) == -signal.SIGKILL
    assert wrapped.machine.wait_empty() == {}


def until_runs(machine: Machine, command: str) -> dict[int, str]:
    """What runs, once `command` is among it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        running = machine.processes()
        if command in running.values():
            return running
        time.sleep(0.05)
    raise TimeoutError(f"{command!r} is not among {machine.processes()}")
