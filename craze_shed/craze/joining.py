"""Joining a session: through the hub's splice to its host, and to the one row that the host has.

What every connection of a lane begins with, a watcher's and a single read's alike.
"""

import contextlib
from typing import Any, NamedTuple

from craze.client.errors import Refused
from craze_shed.contract.frames import SESSION_CLOSED, UNKNOWN_SESSION
from craze_shed.craze import limits
from craze_shed.craze.connection import Connection, Deadline, Ended
from craze_shed.craze.dial import Dialer, Hub, judge_kind, refused_hello
from craze_shed.craze.values import members, objects, text


class Joined(NamedTuple):
    """A connection to the session's host, and the host's row."""

    connection: Connection
    row: dict[str, Any]

    @property
    def session(self) -> str:
        """The craze session id, which every later request carries."""
        return text(self.row.get("sessionId"))


class NoSession(Exception):
    """There is no such session, or none any more; `str()` is what the lane goes down for."""


class ConnectRefused(Exception):
    """The hub would not connect us; `str()` is the code and reason."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(f"{refused.code}/{refused.reason}")
        self.refused = refused


class WrongHost(Exception):
    """Another host answered, or the host's row cannot be read; `str()` says what came."""


def join(
    dialer: Dialer, host_id: str, *, timeout: float = limits.DIAL, spare: Hub | None = None
) -> Joined:
    """Join the session of a host, over `spare` if that still leads anywhere. The connection is the
    caller's to close.

    Raises NotReached, NoSession, ConnectRefused, WrongHost, Ended, Deadline.
    """
    if spare is not None:
        with contextlib.suppress(Ended, Deadline):
            return _joined(dialer, spare, host_id)
    return _joined(dialer, dialer.connect(timeout=timeout), host_id)


def _joined(dialer: Dialer, hub: Hub, host_id: str) -> Joined:
    connection = hub.connection
    try:
        return Joined(connection, _host_row(connection, dialer, host_id))
    except BaseException as failure:
        connection.close(str(failure) or "it was given up")
        raise


def open_asks(connection: Connection, session: str) -> list[dict[str, Any]]:
    """The records of the session's open asks. Raises Refused, Ended, Deadline."""
    about = {"sessionId": session}
    records = []
    for ask in objects(connection.ask("asks.list", about, limits.ASK).get("asks")):
        try:
            records.append(ask_record(connection, session, text(ask.get("id"))))
        except Refused as refused:
            if refused.code != "unknown_ask":  # it has ended meanwhile
                raise
    return records


def ask_record(connection: Connection, session: str, id: str) -> dict[str, Any]:
    """One ask's record. Raises Refused, Ended, Deadline."""
    found = connection.ask("asks.get", {"sessionId": session, "askId": id}, limits.ASK)
    return members(found.get("ask"))


def _host_row(connection: Connection, dialer: Dialer, host_id: str) -> dict[str, Any]:
    connect = connection.send("session.connect", {"sessionId": host_id})
    greet = connection.send("hello", dialer.hello_params())
    try:
        connect.result(limits.ASK)
    except Refused as refused:
        if refused.code == "unknown_session":
            raise NoSession(UNKNOWN_SESSION) from None
        raise ConnectRefused(refused) from None
    try:
        hello = greet.result(limits.ASK)
    except Refused as refused:
        raise refused_hello(refused) from None
    judge_kind(hello, "host", "expected the session's host to answer through the splice")
    _same_host(members(hello.get("endpoint")).get("hostId"), host_id)
    try:
        sessions = connection.ask("sessions.list", {}, limits.ASK).get("sessions")
    except Refused as refused:
        if refused.code == "not_accepting":
            raise NoSession(SESSION_CLOSED) from None  # it has closed, and the host goes, too
        raise Ended(f"the host's list was refused: {refused}") from None
    if sessions == []:
        raise NoSession(UNKNOWN_SESSION)
    if not isinstance(sessions, list) or len(sessions) != 1 or not isinstance(sessions[0], dict):
        raise WrongHost("the host's list is not of one session")
    row: dict[str, Any] = sessions[0]
    _same_host(row.get("hostId"), host_id)
    if not text(row.get("sessionId")):
        raise WrongHost("the host's row names no session")
    return row


def _same_host(got: Any, wanted: str) -> None:
    if got != wanted:
        raise WrongHost(f'the splice reached host "{got}", not "{wanted}"')
