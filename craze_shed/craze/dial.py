"""Reaching a machine's hub: a command run there, craze found by the ladder, hello judged.

Two ways of asking exist. An explicit action of the person's may start a hub on that machine; what
runs in the background may not, unless the machine is the person's own. An older craze, which knows
no `--no-start`, is probed first, from the first refusal on for as long as the dialer is kept.
"""

import time
from typing import Any, NamedTuple

import gevent

import ladder
from craze import __version__
from craze.client.errors import Refused
from craze_shed.contract import errors, frames
from craze_shed.craze import limits
from craze_shed.craze.connection import Connection, Deadline, Ended
from craze_shed.craze.values import filled, members
from craze_shed.reach import Reach, ReachError, Running
from craze_shed.reach.errors import closed, reason
from ladder import outcome
from ladder.outcome import Kind

# Kinds of failure besides the ladder's.
TIMED_OUT, FAILED, CLOSED = "timed_out", frames.FAILED, "closed"

_UNAVAILABLE = frozenset((Kind.NOT_INSTALLED, Kind.NO_HUB, Kind.UNREACHABLE, TIMED_OUT, CLOSED))


class NotReached(Exception):
    """There is no hub to talk to: `kind` says why, `str()` in words."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind

    def error(self) -> errors.LaneError:
        """As what a verb or a read fails with; nothing was sent."""
        return (errors.unavailable if self.kind in _UNAVAILABLE else errors.failed)(str(self))


class Hub(NamedTuple):
    """A connection to a hub that said hello."""

    connection: Connection
    hello: dict[str, Any]

    def can(self, ability: str) -> bool:
        return members(self.hello.get("capabilities")).get(ability) is True

    @property
    def id(self) -> str:
        return str(members(self.hello.get("endpoint")).get("hostId", ""))

    @property
    def version(self) -> str:
        """Of its craze; in words for people where it does not say one."""
        return _version(self.hello)


class Dialer:
    """How one machine's hub is reached. `eager` is for the person's own machine, where a
    connection in the background may start the hub."""

    def __init__(
        self, reach: Reach, *, eager: bool, name: str = "craze_shed", version: str = __version__
    ) -> None:
        self.reach = reach
        self.eager = eager
        self._about = {"kind": "shed", "name": name, "version": version}
        self._old = False  # that craze knows no --no-start

    def __repr__(self) -> str:
        return f"<Dialer {self.reach.label}>"

    def connect(self, *, explicit: bool = False, timeout: float = limits.DIAL) -> Hub:
        """Connect within `timeout` seconds, and say hello. Raises NotReached: CLOSED where it is of
        no use to try again."""
        if self.reach.closed:
            raise NotReached(CLOSED, str(closed(self.reach.label)))
        until = time.monotonic() + timeout
        if self.eager or explicit:
            return self._dial(ladder.BRIDGE, timeout)
        if not self._old:
            try:
                return self._dial(ladder.BRIDGE_NO_START, timeout)
            except NotReached as failure:
                if failure.kind != Kind.OLD_BRIDGE:
                    raise
                self._old = True
        found = self.probe(max(until - time.monotonic(), 0.0))
        if found.kind == Kind.NO_HUB:
            raise NotReached(Kind.NO_HUB, outcome.no_hub_on(self.reach.label))
        if found.kind != Kind.HUB:
            raise NotReached(found.kind, found.text)
        return self._dial(ladder.BRIDGE, max(until - time.monotonic(), 0.0))

    def probe(self, timeout: float = limits.DIAL) -> outcome.Outcome:
        """Whether a hub runs there; this never starts one."""
        running = None
        try:
            with gevent.Timeout(timeout, False):
                running = self.reach.run(ladder.line(ladder.PROBE))
                output = _all_of(running)
                return outcome.probed(
                    exit=running.exit(limits.EXIT), stdout=output, stderr=running.stderr
                )
            late = f"craze providers --hub did not end within {timeout:g}s"
            return outcome.Outcome(Kind.UNREACHABLE, late)
        except (ReachError, OSError) as failure:
            return outcome.Outcome(Kind.UNREACHABLE, reason(failure))
        finally:
            if running is not None:
                running.close()

    def hello_params(self) -> dict[str, Any]:
        """What this program says of itself, to hubs and hosts alike."""
        about = {name: value for name, value in self._about.items() if value}
        return {"protocols": [1], "client": about}

    def _dial(self, arguments: tuple[str, ...], timeout: float) -> Hub:
        timer = gevent.Timeout.start_new(timeout)
        try:
            running = self.reach.run(ladder.line(arguments))
        except ReachError as failure:
            raise NotReached(Kind.UNREACHABLE, str(failure)) from None
        except gevent.Timeout as fired:
            if fired is not timer:
                raise
            text = f"{self.reach.label} did not answer within {timeout:g}s"
            raise NotReached(TIMED_OUT, text) from None
        finally:
            timer.close()
        held = _Held(running)
        connection = Connection(held)
        try:
            hello = connection.ask("hello", self.hello_params(), limits.HELLO)
            _judge_hub(hello)
            held.release()
            return Hub(connection, hello)
        except Refused as refused:
            raise refused_hello(refused) from None
        except Deadline as late:
            raise NotReached(TIMED_OUT, str(late)) from None
        except Ended as ended:
            running.half_close()  # whatever still runs there has nothing to wait for
            no_start = arguments is ladder.BRIDGE_NO_START
            said = outcome.dialled(
                str(ended),
                exit=running.exit(limits.EXIT),
                stderr=running.stderr,
                noise=connection.noise.lines,
                no_start=no_start,
            )
            raise NotReached(*said) from None
        finally:
            if not held.released:
                try:
                    connection.close()
                finally:  # though whoever dialled is killed a second time
                    running.close()


class _Held:
    """A command's stream that outlives its connection until `release`: what it said as it ended
    is still to be asked for."""

    __slots__ = ("_closed", "_running", "released")

    def __init__(self, running: Running) -> None:
        self._running = running
        self._closed = False
        self.released = False

    def recv(self, size: int) -> bytes:
        return self._running.recv(size)

    def sendall(self, data: bytes) -> None:
        self._running.sendall(data)

    def release(self) -> None:
        self.released = True
        if self._closed:
            self._running.close()

    def close(self) -> None:
        self._closed = True
        if self.released:
            self._running.close()


def _all_of(running: Running) -> bytes:
    output = b""
    while len(output) < limits.PROBE_OUTPUT and (
        part := running.recv(limits.PROBE_OUTPUT - len(output))
    ):
        output += part
    return output


# ---- hello ----


def refused_hello(refused: Refused) -> NotReached:
    """What a refused hello comes to."""
    if refused.reason != "protocol_version":
        return NotReached(FAILED, f"craze refused hello: {refused}")
    supported = members(refused.result).get("supported")
    return NotReached(
        Kind.TOO_OLD,
        "craze on this machine shares no protocol with shed"
        f" (shed speaks [1], craze answered {supported}); update craze",
    )


def _judge_hub(hello: dict[str, Any]) -> None:
    """Raise NotReached for a hello that is no hub's, or of one that lacks what shed needs."""
    judge_kind(hello, "hub", "expected craze's hub to answer")
    can = members(hello.get("capabilities"))
    lists, splices = can.get("rosterSubscribe") is True, can.get("connect") is True
    if not (lists and splices):
        raise NotReached(
            Kind.TOO_OLD,
            f"craze's hub on this machine ({_version(hello)}) cannot list or reach sessions"
            f" (rosterSubscribe {_word(lists)}, connect {_word(splices)}); update craze",
        )


def judge_kind(hello: dict[str, Any], kind: str, expected: str) -> None:
    """Raise NotReached for a hello of another kind of endpoint, protocol or codecs."""
    got = members(hello.get("endpoint")).get("kind")
    if got != kind:
        raise NotReached(FAILED, f'{expected}, got a "{got}" endpoint')
    protocol = hello.get("protocol")
    if protocol != 1 or isinstance(protocol, bool):
        raise NotReached(
            Kind.TOO_OLD, f"craze answered protocol {protocol}, shed speaks 1; update craze"
        )
    codecs = members(hello.get("codecs"))
    if codecs.get("event") != 1 or codecs.get("snapshot") != 1:
        said = (
            f"event {codecs.get('event')} and snapshot {codecs.get('snapshot')}"
            if codecs
            else "unstated"
        )
        raise NotReached(
            Kind.TOO_OLD,
            f"craze's codecs are {said}, shed folds event 1 and snapshot 1; update shed or craze",
        )


def _version(hello: dict[str, Any]) -> str:
    return filled(members(hello.get("endpoint")).get("crazeVersion")) or "version unknown"


def _word(flag: bool) -> str:
    return "true" if flag else "false"
