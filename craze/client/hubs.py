"""Finding the machine's hub, and starting one where none answers (cli and machine 5).

A hub is found through its namespace's record, and believed once it says hello as the hub that the
record names. One that does not answer is not therefore dead: it is ended only when its process is
certainly the one of the record and its processor time stands still. Nothing is ever unlinked here:
whoever becomes the hub clears its place, under its lock.

A bridge loads this: no ujson, no OpenSSL, and no subprocess until a hub has to be started.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import gevent
from gevent import socket

from craze import greenlets
from craze.machine import hubs, locks, peer, processes, sockets
from craze.machine.errors import MachineError, reason
from craze.machine.hubs import Record
from craze.machine.ids import is_host_id
from craze.machine.paths import Paths
from craze.wire.limits import (
    CHUNK,
    HUB_ASK,
    HUB_FIND,
    HUB_GRACE,
    HUB_MEET,
    HUB_PAUSE,
    HUB_POLL,
    HUB_READY,
    READY_LINE,
)
from craze.wire.words import quote

if TYPE_CHECKING:
    from craze.machine.background import Background

# What a hub may be needed for: the name of the capability in its hello, and the words for people.
ABILITIES = {
    "sessionCreate": "create sessions",
    "rosterSubscribe": "subscribe to the session roster",
    "connect": "connect to a session",
    "multiplex": "multiplex sessions",
    "snapshot": "take a snapshot",
    "attachWhenNow": "attach with when now",
    "createOptions": "list what it can create",
    "createTitle": "set a title at create",
    "reopen": "reopen a saved session",
}

_HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"hello","params":'
    b'{"protocols":[1],"client":{"kind":"cli","name":"craze hub ensure"}}}\n'
)
_ANSWER = 64 * 1024  # bytes: a hello's answer is some hundreds
_ASKED_AT_START = 2  # hellos to a hub that has just said it is ready
_PID_MAX = 2**31 - 1


class HubError(MachineError):
    """Why there is no hub to talk to, in one line."""


class NoHub(HubError):
    """None runs, and none was to be started."""


class Lacks(HubError):
    """A hub answers, and cannot do what is needed."""


class Hub(NamedTuple):
    """A hub that has just answered: where it listens, its record, and its hello's result."""

    socket: str
    record: Record
    hello: dict[str, Any]


class _Elsewhere(HubError):
    """The hub that was started is another namespace's: starting it again would change nothing."""


class _Passing(HubError):
    """The hub that was in the way is leaving or gone: the next round may well end better."""


class _Absent(Exception):
    """No hub is at the socket, or one that is closing."""


class _Another(_Absent):
    """A hub is there, but not the one that was expected."""


def find(paths: Paths, *, needs: Iterable[str] = (), budget: float = HUB_FIND) -> Hub:
    """The namespace's hub, which must be able to do what `needs` names (keys of ABILITIES).

    Starts and ends nothing. A hub that does not answer is asked again for `budget` seconds. Raises
    NoHub where none runs, Lacks, and MachineError.
    """
    found = hubs.read(paths)
    if found is not None and _may_run(found.record):
        hub = _answering(found.record, time.monotonic() + budget, replace=False)
        if hub is not None:
            return _able(hub, needs)
    raise NoHub("no hub is running")


def find_or_start(
    paths: Paths,
    environ: Mapping[str, str],
    *,
    needs: Iterable[str] = (),
    budget: float = HUB_FIND,
) -> Hub:
    """The namespace's hub as `find` has it, or else a new one, started with what of `environ` is
    handed on, all within `budget` seconds.

    A hub that has certainly stopped working is ended first. Raises Lacks, and MachineError.
    """
    until = time.monotonic() + budget
    failed = False
    while True:
        try:
            return _able(_round(paths, environ, until), needs)
        except (Lacks, _Elsewhere):
            raise
        except HubError as failure:
            ours = not isinstance(failure, _Passing)
            if _left(until) <= HUB_PAUSE or (failed and ours):
                raise
            failed = failed or ours
        gevent.sleep(HUB_PAUSE)


def _able(hub: Hub, needs: Iterable[str]) -> Hub:
    can = _object(hub.hello.get("capabilities"))
    lacking = [ABILITIES[need] for need in needs if can.get(need) is not True]
    if lacking:
        raise Lacks(
            f"this hub (craze {_version(hub.hello)}) cannot {' or '.join(lacking)};"
            f" it exits when idle"
        )
    return hub


def _round(paths: Paths, environ: Mapping[str, str], until: float) -> Hub:
    """The hub that answers, or that is started because none does."""
    found = hubs.read(paths)
    if found is not None and _may_run(found.record):
        hub = _answering(found.record, until, replace=True)
        if hub is not None:
            return hub
    return _start(paths, environ, until)


# ---- a hub with a record ----


def _may_run(record: Record) -> bool:
    """Whether the process of the record may still be there: where that cannot be told, it may."""
    if processes.dead(record.pid):
        return False
    token = processes.start_token(record.pid)
    return not (token and record.startToken) or token == record.startToken


def _runs(record: Record) -> bool:
    """Whether the process of the record is certainly there."""
    return (
        record.startToken != ""
        and not processes.dead(record.pid)
        and processes.start_token(record.pid) == record.startToken
    )


def _answering(record: Record, until: float, *, replace: bool) -> Hub | None:
    """The hub of the record, once it answers; None where it is gone, or was ended to be replaced.

    Raises HubError when it does neither until then.
    """
    spent = None
    while (wait := min(HUB_ASK, _left(until))) > 0:
        try:
            return Hub(record.socket, record, _ask(record.socket, record.hubId, wait))
        except _Absent:
            return None
        except TimeoutError:
            before, spent = spent, processes.cpu_time(record.pid)
        # Less than a whole wait proves nothing: a busy hub may not have had its turn in it.
        stands_still = wait == HUB_ASK and spent is not None and spent == before
        if replace and stands_still and _runs(record):
            _end(record, until)
            return None
    if not replace:
        raise _silent(record)
    if not record.startToken:
        raise _silent(
            record, "its record carries no start token to tell it from another process by"
        )
    if not _runs(record) or processes.cpu_time(record.pid) is None:
        raise _silent(record, "its identity cannot be verified")
    raise _silent(record, "it may be busy")


def _silent(record: Record, why: str = "") -> HubError:
    kept = f", and {why}, so it is not replaced" if why else ""
    return HubError(f"the hub (pid {record.pid}) does not answer{kept}")


def _end(record: Record, until: float) -> None:
    """End the process of the record. Raises HubError when it stays, or the time is over."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _runs(record):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(record.pid, number)
        patience = min(until, time.monotonic() + HUB_GRACE)
        while _runs(record) and _left(patience) > 0:
            gevent.sleep(HUB_POLL)
        if _left(until) <= 0:
            raise _silent(record)
    if _runs(record):
        raise _silent(record, f"it is still running {HUB_GRACE:g}s after SIGKILL")


# ---- a hub that is started ----


def _start(paths: Paths, environ: Mapping[str, str], until: float) -> Hub:
    """A hub started now, or the one that was quicker."""
    # It loads subprocess, which only who starts a hub shall pay for.
    from craze.machine import background, environment

    if _left(until) <= 0:
        raise HubError("start craze hub: there is no time left for it")
    home = paths.home if os.access(os.path.join(paths.home, "."), os.X_OK) else "/"
    try:
        child = background.start(["hub"], environ=environ, cwd=home, child=environment.HUB_CHILD)
    except (background.Gone, OSError) as failure:
        raise HubError(f"start craze hub: {reason(failure)}") from None
    said = _ready(child, until)
    if said["ok"]:
        return _started(paths, child, said, until)
    greenlets.spawn(f"leave of child {child.pid}", _see_off, child)
    if "held" in said:
        held = said["held"]
        return _meet(paths, locks.Holder(held.get("pid", 0), held.get("hubId", "")), until)
    raise HubError(f"craze hub could not start: {_words(said['error'])}")


def _ready(child: "Background", until: float) -> dict[str, Any]:
    """What the ready line says. Raises HubError without one; the child is ended then."""
    it = f"the hub it started (pid {child.pid})"
    try:
        line = child.line(max(0, min(HUB_READY, _left(until))), READY_LINE)
        if line:
            return _parse(line)
    except TimeoutError:
        ended = _dismiss(child, until)
        raise HubError(f"{it} did not answer within {HUB_READY:g}s, and {ended}") from None
    except ValueError as failure:
        why = reason(failure)
    except BaseException:
        _dismiss(child, 0)  # we are killed, or out of a time that is not ours
        raise
    else:
        if child.exited.wait(max(0, min(HUB_GRACE, _left(until)))):
            raise HubError(f"{it} exited before it answered")
        why = "its pipe ended without one"
    raise HubError(f"{it} answered no ready line ({why}), and {_dismiss(child, until)}")


def _parse(line: bytes) -> dict[str, Any]:
    """A hub's ready line, unknown members ignored. Raises ValueError."""
    try:
        said = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(said, dict) or type(said.get("ok")) is not bool:
        raise ValueError("it does not say whether it is ready")
    if said["ok"]:
        named = is_host_id(_text(said, "hubId")) and _text(said, "ns") != ""
        if not named or not _text(said, "socket").startswith("/"):
            raise ValueError("it does not say which hub is where")
    elif "held" in said:
        held = said["held"]
        pid = _object(held).get("pid", 0)
        if not isinstance(held, dict) or type(pid) is not int or not 0 <= pid <= _PID_MAX:
            raise ValueError("it does not say who holds the lock")
        held["hubId"] = _text(held, "hubId")
    elif not _text(said, "error"):
        raise ValueError("a failure without its error")
    return said


def _started(paths: Paths, child: "Background", said: dict[str, Any], until: float) -> Hub:
    """The hub that says it is ready, once it answers."""
    if said["ns"] != paths.namespace:
        raise _Elsewhere(
            f"the hub it started serves namespace {said['ns']}, not this craze's {paths.namespace}"
        )
    path = said["socket"]
    for _ in range(_ASKED_AT_START):
        try:
            hello = _ask(path, said["hubId"], max(0, min(HUB_ASK, _left(until))))
        except TimeoutError:
            continue
        except _Another:
            raise HubError(
                f"another hub than the one it started ({said['hubId']}) answers at {path}"
            ) from None
        except _Absent:
            break
        found = hubs.read(paths)
        if found is not None and found.record.hubId == said["hubId"]:
            return Hub(path, found.record, hello)
        break  # it has lost its record: it is about to go
    raise HubError(f"the hub it started (pid {child.pid}) does not answer at {path}")


def _meet(paths: Paths, holder: locks.Holder, until: float) -> Hub:
    """The hub that holds the lock, once it answers."""
    patience = min(until, time.monotonic() + HUB_MEET)
    tried: hubs.Found | None = None
    leaving = False
    while True:
        found = hubs.read(paths)
        # The whole of it is compared: a file system gives a number away again at once.
        if found is not None and found != tried and _may_run(found.record):
            record = found.record
            try:
                wait = max(0, min(HUB_ASK, _left(patience)))
                return Hub(record.socket, record, _ask(record.socket, record.hubId, wait))
            except _Absent:
                tried = found
                leaving = leaving or record.hubId == holder.id
            except TimeoutError:
                pass
        now = locks.holder(paths.hub_lock)
        if holder.pid and now.pid != holder.pid:
            raise _Passing("the hub that held the lock exited before it answered")
        holder = now if now.pid else holder
        if _left(patience) <= 0:
            break
        gevent.sleep(HUB_POLL)
    known = [f"pid {holder.pid}"] if holder.pid else []
    known += [f"hub {holder.id}"] if holder.id else []
    who = ", ".join(known) or "a hub that has not written its line yet"
    if leaving:
        raise _Passing(
            f"the hub holding the namespace's lock neither answered nor let it go ({who})"
            f" within {HUB_MEET:g}s"
        )
    raise HubError(
        f"the hub holding the namespace's lock ({who}) did not answer within {HUB_MEET:g}s"
    )


def _see_off(child: "Background") -> None:
    """See that a process which has said that it is not the hub ends."""
    if not child.exited.wait(HUB_GRACE):
        child.end(HUB_GRACE)


def _dismiss(child: "Background", until: float) -> str:
    """End a process that became no hub; how far that came in time."""
    ending = greenlets.spawn(f"end of child {child.pid}", child.end, HUB_GRACE)
    gevent.sleep(0)  # it is told to end, whatever becomes of us
    ending.join(max(0, _left(until)))
    return "was ended" if child.exited.is_set() else "is being ended"


# ---- hello ----


def _ask(path: str, hub_id: str, seconds: float) -> dict[str, Any]:
    """What the hub `hub_id` at `path` says to one hello.

    Raises TimeoutError, _Absent, and HubError for what is no hub of ours or no answer.
    """
    try:
        with (
            gevent.Timeout(seconds, TimeoutError(f"no answer within {seconds:g}s")),
            sockets.dial(path, seconds) as sock,
        ):
            sock.sendall(_HELLO)
            answer = json.loads(_line(sock))
    except TimeoutError:
        raise
    except (ConnectionError, FileNotFoundError):
        raise _Absent from None
    except (OSError, peer.Stranger) as failure:
        raise HubError(f"the hub's socket {path}: {reason(failure)}") from None
    except (ValueError, RecursionError) as failure:
        raise HubError(f"the hub's hello answer: {reason(failure)}") from None
    if not isinstance(answer, dict) or answer.get("id") != 1:
        raise HubError("the hub's hello answer: it answers another question")
    if "error" in answer:
        raise _refused(_object(answer["error"]))
    return _checked(_object(answer.get("result")), path, hub_id)


def _line(sock: socket.socket) -> bytes:
    """One line from a socket. Raises OSError, and ValueError for one that is too long."""
    said = b""
    while b"\n" not in said:
        piece = sock.recv(CHUNK)
        if not piece:
            raise ConnectionResetError
        said += piece
        if len(said) > _ANSWER:
            raise ValueError(f"longer than {_ANSWER} bytes")
    return said.partition(b"\n")[0]


def _refused(error: dict[str, Any]) -> Exception:
    if _object(error.get("data")).get("reason") == "closing":
        return _Absent()
    why = _words(_text(error, "message")) or "it does not say why"
    return HubError(f"the hub refused hello: {why}")


def _checked(hello: dict[str, Any], path: str, hub_id: str) -> dict[str, Any]:
    """A hello's result, if it is that of the hub `hub_id`. Raises _Another and HubError."""
    endpoint = _object(hello.get("endpoint"))
    kind, protocol = _text(endpoint, "kind"), hello.get("protocol")
    if not kind:
        raise HubError("the hub's hello answer: it names no endpoint")
    if kind != "hub":
        raise HubError(f"an endpoint of kind {quote(kind)} answers at the hub's socket {path}")
    if endpoint.get("hostId") != hub_id:
        raise _Another
    if type(protocol) is not int:
        raise HubError("the hub's hello answer: it names no protocol")
    if protocol != 1:
        raise HubError(
            f"the hub (craze {_version(hello)}) chose protocol {protocol},"
            f" which this craze does not speak"
        )
    return hello


def _version(hello: dict[str, Any]) -> str:
    return _text(_object(hello.get("endpoint")), "crazeVersion") or "?"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""


def _words(text: str) -> str:
    """What another process says, in one line."""
    return " ".join(text.split())


def _left(until: float) -> float:
    return until - time.monotonic()
