"""A test's machine as another reaches it: by `ssh:box`, over a real server and the ssh program."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.hubs import eventually
from tests.e2e.machine import Machine
from tests.e2e.sshd import Sshd


class Box:
    """`here` is the machine that the commands run on, `server` lets it into the other."""

    def __init__(self, there: Machine, root: Path) -> None:
        (root / "sshd").mkdir()
        # What a login there has; without SHLVL bash would read the user's own .bashrc.
        variables = there.environment | {"SHLVL": "9"}
        environment = " ".join(f"{name}={value}" for name, value in variables.items())
        self.server = Sshd(root / "sshd", SetEnv=environment).start()
        self.here = Machine(root / "here")
        # ssh looks for its configuration in the user's own home, whatever HOME says.
        ssh = root / "bin/ssh"
        ssh.parent.mkdir()
        ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.server.config} "$@"\n')
        ssh.chmod(0o755)
        self.here.environment["PATH"] = f"{ssh.parent}:{self.here.environment['PATH']}"
        self._up = True

    def cut(self) -> None:
        """Be unreachable from now on."""
        if self._up:
            self._up = False
            self.server.stop()


@contextlib.contextmanager
def boxed(there: Machine, root: Path) -> Iterator[Box]:
    """`there` as a box; at the end nothing may be left of what reached it."""
    box = Box(there, root)
    try:
        yield box
        if box._up:
            box.server.until(0)
        eventually(lambda: not box.here.processes())
    finally:
        box.here.close()
        box.cut()
