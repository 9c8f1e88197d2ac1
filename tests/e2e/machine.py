"""A machine for one test: a home of its own, a clean environment, and the processes started in it.

Every process gets a mark in its environment, which its children inherit, whatever session or
process group they make for themselves: so the end can tell that nothing is left, not even what an
agent started, and can end exactly what is.
"""

import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

BIN = Path(sys.executable).parent
READY_S = 30
END_S = 20
LOOK_S = 0.02
MARK = "CRAZE_TEST_MARK"


class Host(NamedTuple):
    """A `craze serve` that has said it is ready."""

    process: subprocess.Popen[bytes]
    socket: str
    session: str
    id: str


class Machine:
    """`root` is the test's own folder; `environment` is what every process here starts with."""

    def __init__(self, root: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        for folder in (self.home, self.home / ".craze", self.work, root / "tmp"):
            folder.mkdir(mode=0o700, parents=True)
        # A socket's path is at most 100 bytes, and a test's own folder alone may be longer.
        self.runtime = tempfile.mkdtemp(prefix="craze-", dir="/tmp")
        self.mark = secrets.token_hex(8)
        self.environment = {
            "HOME": str(self.home),
            "TMPDIR": str(root / "tmp"),
            "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
            "CRAZE_RUNTIME_DIR": self.runtime,
            MARK: self.mark,
        }

    def configure(self, text: str) -> None:
        """Write config.toml."""
        (self.home / ".craze" / "config.toml").write_text(text)

    def craze(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a `craze` command; `options` are Popen's."""
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            [str(BIN / "craze"), *arguments], cwd=self.work, env=self.environment, **options
        )

    def serve(self, *flags: str) -> Host:
        """Start a host for a session in the work folder, and wait for its ready line."""
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                [str(BIN / "craze"), "serve", f"--workspace={self.work}", *flags],
                cwd=self.work,
                env=self.environment | {"CRAZE_READY_FD": str(writing), "CRAZE_HOST_CHILD": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[writing],
                start_new_session=True,
            )
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            if not select.select([pipe], [], [], READY_S)[0]:
                raise TimeoutError(f"craze serve: no ready line in {READY_S} s")
            line = pipe.readline()
        ready = json.loads(line) if line else {"ok": False, "exited": process.wait(END_S)}
        assert ready["ok"], ready
        return Host(process, ready["socket"], ready["crazeSessionId"], ready["hostId"])

    def processes(self) -> dict[int, str]:
        """What runs in this machine: each process's command line by its pid."""
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                marked = f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has just gone
            if marked:
                found[int(folder.name)] = command.strip()
        return found

    def wait_empty(self) -> dict[int, str]:
        """What still runs once everything had time to end: nothing, if all is well."""
        until(lambda: not self.processes(), END_S)
        return self.processes()

    def close(self) -> None:
        """End what a failed test left behind, and its sockets."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        shutil.rmtree(self.runtime)


def until(holds: Callable[[], Any], seconds: float) -> bool:
    """Look until `holds`; whether it came to."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK_S)
    return True
