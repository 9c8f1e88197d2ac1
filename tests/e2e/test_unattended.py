"""A session that nobody answers for: what its row of the index keeps for starting it again."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.client import Client
from tests.e2e.machine import BIN, Machine, until


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    command = json.dumps([str(BIN / "craze-fake-agent"), "--script=echo"])
    made.configure(f"[providers.fake]\ncommand = {command}\n")
    yield made
    left = made.processes()
    made.close()
    assert not left


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (
            ["--unattended", "--no-force", "--plan", "--effort=high"],
            {"unattended": True, "permissionMode": "prompt", "mode": "plan", "effort": "high"},
        ),
        (["--unattended"], {"unattended": True, "permissionMode": "bypass"}),
        (["--no-force", "--plan", "--effort=high"], {}),
    ],
)
def test_how_it_was_started_is_in_its_row(
    machine: Machine, flags: list[str], kept: dict[str, Any]
) -> None:
    host = machine.serve("--provider=fake", *flags)
    with Client(host.socket) as client, client.attach() as notes:
        client.command("session.prompt", text="one", mode="queue")
        index = machine.home / ".craze" / "sessions.jsonl"
        assert until(index.exists, 10)
        assert next(notes).method
    host.process.send_signal(signal.SIGTERM)
    assert host.process.wait(20) == 0
    row = json.loads(index.read_text())
    said = ("unattended", "permissionMode", "mode", "model", "effort")
    assert {name: row[name] for name in said if name in row} == kept
