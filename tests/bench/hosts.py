"""A `craze serve` on the fake agent, as the benchmarks of whole processes need it."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.machine import BIN, Host, Machine


@contextlib.contextmanager
def machine() -> Iterator[Machine]:
    """A private machine whose provider `fake` is craze-fake-agent."""
    with tempfile.TemporaryDirectory() as root:
        machine = Machine(Path(root))
        try:
            command = json.dumps([str(BIN / "craze-fake-agent")])
            machine.configure(f'[providers.fake]\nlabel = "fake"\ncommand = {command}\n')
            yield machine
        finally:
            machine.close()


@contextlib.contextmanager
def host(machine: Machine) -> Iterator[Host]:
    """A host in it, ended by a signal."""
    host = machine.serve("--provider=fake")
    try:
        yield host
    finally:
        host.process.terminate()
        host.process.wait(timeout=20)
