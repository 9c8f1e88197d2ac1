"""`craze hub`: the machine's hub, which whoever needs one starts in the background.

It imports no command-line library. Whoever started it hears of its end on the ready pipe; one that
is started by hand says it on stderr.
"""

import os

from craze.machine import environment, ready
from craze.machine.errors import MachineError
from craze.machine.paths import Paths, current_directory
from craze.terminal.flags import BadFlag, parse

from . import failures
from .failures import Failure

NAME = "craze hub"


def main(arguments: list[str]) -> int:
    """Run the command; its exit code."""
    try:
        pipe = ready.inherit(os.environ, environment.HUB_CHILD)
    except ValueError as failure:
        failures.report(f"{NAME}: {failure}")
        return failures.USAGE
    try:
        given, others = _parse(arguments)
        if given.get("help"):
            from .hub_manual import PAGE, render

            failures.show(NAME, render(PAGE))
            return 0
        if others:
            raise failures.no_arguments(NAME)
        failures.refuse_config(os.environ)
        return _serve(pipe)
    except (Failure, MachineError) as failure:
        line = str(failure) if isinstance(failure, Failure) else f"{NAME}: {failure}"
        failures.report(line)
        if pipe is not None:
            pipe.failed(line)
        return failure.code if isinstance(failure, Failure) else failures.RUNTIME


def _parse(arguments: list[str]) -> tuple[dict[str, str | bool], list[str]]:
    try:
        return parse((), arguments)
    except BadFlag as bad:
        raise failures.unknown_flag(NAME, bad.name) from None


def _serve(pipe: ready.ReadyPipe | None) -> int:
    from craze.hub.process import Held, serve

    try:
        serve(Paths.of(os.environ), os.environ, current_directory(), pipe)
    except Held as held:
        failures.report(f"{NAME}: {held}")
    return 0
