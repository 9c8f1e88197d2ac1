"""`craze bridge`: find one live session's host, or the hub, and be its socket on stdin and stdout.

It is what a client on another machine runs over ssh, so it starts fast and small: nothing here may
load a command-line library, ujson or OpenSSL. Its failures exit 1, usage included, but for one:
that no hub runs where none was to be started.
"""

import os
import signal

import gevent
from gevent import socket

from craze.cli import failures
from craze.cli.failures import Failure
from craze.machine import peer, registry, sockets
from craze.machine.errors import MachineError, reason
from craze.machine.ids import is_token
from craze.machine.match import match
from craze.machine.paths import Paths
from craze.terminal.flags import BadFlag, Flag, Given, parse

from .pump import Broken, pump

NAME = "craze bridge"
DIAL = 10.0
NO_HUB = 3  # the exit code

FLAGS = (
    Flag(
        "session",
        "ID",
        "Bridge to this session: its craze session id, its provider's id or its host's id in full,"
        " or at least four characters: the end or the beginning of the first, or the beginning of"
        " the last.",
    ),
    Flag("hub", help="Bridge to the hub, which is started if none answers."),
    Flag(
        "no-start",
        help="With --hub: start nothing. Where no hub runs the command says so and exits 3.",
    ),
)


class _NoHub(Failure):
    """No hub runs, and none was to be started."""


def main(arguments: list[str]) -> int:
    """Run the command; its exit code."""
    try:
        given, others = _parse(arguments)
        if given.get("help"):
            from .manual import PAGE, render

            failures.show(NAME, render(PAGE))
            return 0
        if others:
            raise failures.no_arguments(NAME)
        session = given.get("session")
        if given.get("no-start") and not given.get("hub"):
            raise Failure("--no-start needs --hub")
        if given.get("hub") and session is not None:
            raise Failure(
                "--hub and --session cannot be used together:"
                " the hub's session.connect names the session"
            )
        if isinstance(session, str) and not is_token(session):
            from craze.wire.words import quote

            raise Failure(f"--session {quote(session)} is not a valid session id")
        failures.refuse_config(os.environ)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # What a hub prints its failures with: pprint, the default, would load inspect and more.
        gevent.config.format_context = "builtins.repr"
        if given.get("hub"):
            sock = _hub(start=not given.get("no-start"))
        else:
            sock = _host(_find(session if isinstance(session, str) else None))
        pump(sock)
    except _NoHub as failure:
        failures.report(failures.named(NAME, str(failure)))
        return NO_HUB
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


def _host(host: registry.Entry) -> socket.socket:
    """A connection to the host."""
    try:
        return sockets.dial(host.socket, DIAL)
    except (OSError, peer.Stranger) as failure:
        raise Failure(f"session {host.id} is unreachable: {reason(failure)}") from None


def _hub(*, start: bool) -> socket.socket:
    """A connection to the hub, whichever version it is and whatever it can do."""
    from craze.client import hubs  # its hellos are no bridge's to a host

    try:
        paths = Paths.of(os.environ)
        hub = hubs.find_or_start(paths, os.environ) if start else hubs.find(paths)
    except hubs.NoHub as none:
        raise _NoHub(str(none)) from None
    except MachineError as failure:
        raise Failure(f"no hub: {failure}") from None
    try:
        return sockets.dial(hub.socket, DIAL)
    except (OSError, peer.Stranger) as failure:
        raise Failure(f"the hub is unreachable: {reason(failure)}") from None
