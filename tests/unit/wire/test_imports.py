"""What importing the wire brings along: nothing that waits, and nothing heavy."""

import pkgutil
import subprocess
import sys

import craze.wire

UNWANTED = (
    "gevent", "greenlet", "socket", "select", "threading", "asyncio", "subprocess", "jsonschema",
    "referencing", "hashlib", "uuid", "secrets", "tempfile", "dataclasses", "inspect",
)  # fmt: skip


def test_the_wire_is_pure_and_light():
    modules = [found.name for found in pkgutil.iter_modules(craze.wire.__path__)]
    modules.remove("schema")  # for tests and peers that check: nothing that serves imports it
    program = "import sys\n" + "".join(f"import craze.wire.{name}\n" for name in modules)
    program += f"print(*sorted(set({UNWANTED!r}) & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []
