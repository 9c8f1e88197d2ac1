"""A session of a real agent is loaded: what was said in it comes back, once."""

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.client import Client
from tests.e2e.machine import END_S, Host, Machine, until
from tests.e2e.peers.agents import AGENTS, Agent, model_server

PATIENCE_S = 60

pytestmark = pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)


@contextlib.contextmanager
def running(machine: Machine, *flags: str) -> Iterator[tuple[Host, Client]]:
    """A host and a client of it; stopped at the block's end, and nothing of it runs then."""
    host = machine.serve(*flags)
    try:
        with Client(host.socket) as client:
            yield host, client
    finally:
        host.process.terminate()
        assert host.process.wait(END_S) in (0, -signal.SIGKILL)
    assert machine.wait_empty() == {}


def prompt(client: Client, *lines: str) -> None:
    """A whole prompt."""
    client.command("session.prompt", mode="queue", text="\n".join(lines))
    state: dict[str, Any] = {}

    def over() -> bool:
        state.update(client.request("session.state"))
        return bool(state["activity"] != "working" and not state["turn"])

    assert until(over, PATIENCE_S), state
    assert state["activity"] == "idle", state


def entries(client: Client) -> list[dict[str, Any]]:
    with client.attach(timeout=PATIENCE_S) as notes:
        assert notes.snapshot is not None
        made: list[dict[str, Any]] = notes.snapshot["main"].get("entries", [])
        return made


def texts(entries: list[dict[str, Any]], kind: str) -> list[str]:
    return [entry["text"] for entry in entries if entry["kind"] == kind]


def test_b08_a_loaded_session_is_shown_once_and_goes_on(agent: Agent, tmp_path: Path) -> None:
    agent.require()
    machine = Machine(tmp_path)
    try:
        with model_server() as port:
            variables = agent.set_up(machine.home, port)
            env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
            machine.configure(
                f"[providers.{agent.name}]\ncommand = {json.dumps(agent.argv())}\nenv = {{{env}}}\n"
            )
            with running(machine, f"--provider={agent.name}") as (host, client):
                assert entries(client) == []
                prompt(client, "FAKE:text one two three")
                prompt(client, agent.shell_step("echo ran > ran"), "FAKE:text it ran")
                before = entries(client)
            asked = ["FAKE:text one two three", texts(before, "user")[1]]
            spoken = ["one two three", "it ran"]
            assert texts(before, "assistant") == spoken
            for count in (1, 2):
                with running(machine, f"--load={host.session}") as (again, client):
                    assert again.session == host.session
                    seen = entries(client)
                    assert texts(seen, "user") == asked
                    assert texts(seen, "assistant") == spoken
                    assert [e["tool"]["status"] for e in seen if "tool" in e] == ["completed"]
                    state = client.request("session.state")
                    assert (state["activity"], state["prompted"]) == ("idle", False)
                    prompt(client, f"FAKE:text again {count}")
                    asked.append(f"FAKE:text again {count}")
                    spoken.append(f"again {count}")
                    assert texts(entries(client), "user") == asked
                    assert texts(entries(client), "assistant") == spoken
    finally:
        machine.close()
