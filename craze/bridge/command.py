"""`craze bridge`: find one live session's host and be its socket on stdin and stdout.

It is what a client on another machine runs over ssh, so it starts fast and small: nothing here may
load a command-line library, ujson or OpenSSL. Its failures all exit 1, usage included.
"""

import os
import signal

import gevent

from craze.cli import failures
from craze.cli.failures import Failure
from craze.cli.flags import BadFlag, Flag, Given, parse
from craze.machine import peer, registry, sockets
from craze.machine.errors import MachineError, reason
from craze.machine.ids import is_token
from craze.machine.match import match
from craze.machine.paths import Paths

from .pump import Broken, pump

NAME = "craze bridge"
DIAL = 10.0

FLAGS = (
    Flag(
        "session",
        "ID",
        "Bridge to this session: its craze session id, its provider's id or its host's id in full,"
        " or at least four characters: the end or the beginning of the first, or the beginning of"
        " the last.",
    ),
    Flag("no-start", hidden=True),
)


def main(arguments: list[str]) -> int:
    """Run the command; its exit code."""
    try:
        given, others = _parse(arguments)
        if given.get("help"):
            from .manual import PAGE, render

            failures.show(NAME, render(PAGE))
            return 0
        if "no-start" in given:
            raise Failure("--no-start needs --hub")
        if others:
            raise failures.no_arguments(NAME)
        session = given.get("session")
        if isinstance(session, str) and not is_token(session):
            from craze.wire.words import quote

            raise Failure(f"--session {quote(session)} is not a valid session id")
        failures.refuse_config(os.environ)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # What a hub prints its failures with: pprint, the default, would load inspect and more.
        gevent.config.format_context = "builtins.repr"
        _bridge(_find(session if isinstance(session, str) else None))
    except (Failure, MachineError, Broken) as failure:
        failures.report(failures.named(NAME, str(failure)))
        return failures.RUNTIME
    return 0


def _parse(arguments: list[str]) -> tuple[Given, list[str]]:
    try:
        return parse(FLAGS, arguments)
    except BadFlag:
        raise failures.unknown_flag(NAME) from None


def _find(session: str | None) -> registry.Entry:
    """The one live host that `session` names, or the only one there is."""
    live, unreadable = registry.scan(Paths.of(os.environ))
    found = live if session is None else match(live, session)
    if len(found) == 1 and (session is not None or not unreadable):
        return found[0]
    if len(found) > 1:
        listed = ", ".join(f"{host.id} ({host.provider}, {host.workspace})" for host in found)
        if session is None:
            raise Failure(f"{len(found)} sessions running; pass --session <id>: {listed}")
        raise Failure(f"{len(found)} sessions match --session {session}: {listed}")
    if unreadable:
        raise Failure(f"the registry entry of the live host {unreadable[0]} cannot be read")
    raise Failure("no session running" if session is None else f"no session {session}")


def _bridge(host: registry.Entry) -> None:
    try:
        sock = sockets.dial(host.socket, DIAL)
    except (OSError, peer.Stranger) as failure:
        raise Failure(f"session {host.id} is unreachable: {reason(failure)}") from None
    pump(sock)
