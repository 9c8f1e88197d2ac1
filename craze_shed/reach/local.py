"""This machine: its commands are children, and its ports are our own."""

import os
from collections.abc import Mapping

import ladder
from craze_shed.reach.child import Program
from craze_shed.reach.interface import Reach


class LocalReach(Reach):
    """Runs lines with /bin/sh, in the environment that this process has then, or in exactly the
    one that is given."""

    def __init__(
        self, *, env: Mapping[str, str] | None = None, label: str = "this machine"
    ) -> None:
        super().__init__(label)
        self._env = env

    def run(self, line: str) -> Program:
        """Start an sh line as a child. Raises ReachError."""
        self._check_open()
        env = os.environ if self._env is None else self._env
        return self._started(Program(ladder.argv(line), env, closed=self._running.discard))
