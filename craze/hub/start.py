"""A session that is coming up in its host: waiting for its start, prompting it, reading its row,
and asking it to stop."""

import gevent

from craze.client.errors import Refused
from craze.hub import roster
from craze.hub.link import Link, Lost, NoAnswer, own_row
from craze.machine import registry
from craze.machine.durations import format_duration
from craze.machine.errors import MachineError
from craze.machine.paths import Paths
from craze.wire import json
from craze.wire.codes import Refusal
from craze.wire.limits import CREATE_DETACH, CREATE_PROMPT, CREATE_ROW, KIB, SPAWN_STOP
from craze.wire.plain import plain_line

NAME = "craze hub create"

# Nobody reads what the attachment says, so it is to say little.
_BUDGET = {"snapshotBytes": 64 * KIB}


def reach(socket: str, timeout: float) -> Link:
    """A link to the host at `socket`, which said hello, within `timeout` seconds in all. Raises
    Lost, Refused."""
    with gevent.Timeout(timeout, NoAnswer(f"no answer within {timeout:g}s")):
        link = Link(socket, timeout)
        try:
            link.hello(NAME, timeout)
        except BaseException:
            link.close()
            raise
        return link


def up(link: Link, session: str, timeout: float, *, bound: float) -> str:
    """Wait for the start of the session behind `link`; the attachment's subscription, "" for none.

    Raises Refusal `start_failed`: for a start that failed, and for one that did not end in time,
    which is told as `bound` seconds. Raises Lost, and Refused for a host that serves no such
    session or is on its way out.
    """
    params = {"sessionId": session, "when": "ready", "budget": _BUDGET}
    try:
        answer = json.parse(link.ask("session.attach", params, timeout))
    except NoAnswer:
        words = f"the session did not start within {format_duration(bound)}"
        raise Refusal("start_failed", words, cause=words) from None
    except Refused as refused:
        if refused.reason == "start_failed":
            cause = plain_line(refused.cause or refused.message)
            words = f"the session did not start: {cause}"
            raise Refusal("start_failed", words, cause=cause) from None
        if refused.reason == "snapshot_too_large":
            return ""  # it is up
        raise
    return str(answer.get("subscription", "")) if isinstance(answer, dict) else ""


def prompt(link: Link, session: str, subscription: str, text: str) -> tuple[str, str]:
    """Send the first prompt: what became of it, and why where that is not `accepted`.

    The attachment is ended after an answer; without one there is nobody to end it with.
    """
    outcome = "none", ""
    if text:
        params = {"sessionId": session, "commandId": "1", "text": text, "mode": "queue"}
        try:
            link.ask("session.prompt", params, CREATE_PROMPT)
            outcome = "accepted", ""
        except NoAnswer:
            return "unknown", f"no answer to the prompt within {CREATE_PROMPT:g}s"
        except Lost as lost:
            return "unknown", f"the answer to the prompt was lost: {lost}"
        except Refused as refused:
            outcome = "refused", refused.message
    leave(link, session, subscription)
    return outcome


def leave(link: Link, session: str, subscription: str) -> None:
    """End the attachment, if it is still there to be ended."""
    try:
        if subscription:
            params = {"sessionId": session, "subscription": subscription}
            link.ask("session.detach", params, CREATE_DETACH)
    except (Lost, Refused):
        return


def stop(socket: str, session: str) -> None:
    """Ask a host to stop its session; it may not hear, or not do it."""
    params = {"sessionId": session, "commandId": "1"}
    try:
        with gevent.Timeout(SPAWN_STOP, NoAnswer()), reach(socket, SPAWN_STOP) as link:
            link.ask("session.stop", params, SPAWN_STOP)
    except (Lost, Refused):
        return


class Fresh:
    """A session's roster row, read from its host just now: `line` as raw JSON, `session` the craze
    session id that host and registry name, "" where they name two."""

    __slots__ = ("entry", "line", "row", "session", "version")

    def __init__(self, paths: Paths, known: registry.Entry, version: str) -> None:
        """`known` is what is known of the host, should the registry say nothing more."""
        self.version = version
        self.row = b""
        named = ""
        try:
            with gevent.Timeout(CREATE_ROW, NoAnswer()), reach(known.socket, CREATE_ROW) as link:
                self.version = link.version
                self.row = own_row(link.ask("sessions.list", {}, CREATE_ROW))
                named = _session(self.row)
        except (Lost, Refused):
            pass
        try:
            self.entry = registry.read(paths, known.hostId)
        except (FileNotFoundError, MachineError):
            self.entry = known
        status = roster.REACHABLE if self.row else roster.UNREACHABLE
        self.line = roster.encode(self.entry, self.version, status, self.row)
        own = self.entry.crazeSessionId
        self.session = own if named in ("", own) else ""


def _session(row: bytes) -> str:
    """The session that a host's row names."""
    session = json.parse(row).get("sessionId") if row else ""
    return session if isinstance(session, str) else ""
