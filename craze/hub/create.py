"""`session.create`: a new session in a host that the hub starts, once for each request id.

An answer is kept, a failure's too, and given again to whoever repeats the request. A hub that does
not remember the id looks for it among the live hosts of its own craze directory before it starts
anything: their registry entries carry it.
"""

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from craze import greenlets
from craze.client.errors import Refused
from craze.clock import Clock
from craze.hub import spawn, start
from craze.hub.admission import Admission, Outcome
from craze.hub.hash import request_hash
from craze.hub.link import Link, Lost
from craze.hub.options import provider_for
from craze.hub.spawn import Spawned, Spawner
from craze.machine import config, registry
from craze.machine.errors import MachineError, reason
from craze.machine.paths import Paths
from craze.machine.registry import Entry
from craze.wire import documents, json
from craze.wire.codes import Refusal
from craze.wire.limits import CREATE_ANSWERS, CREATE_ANSWERS_AGE, CREATE_DIAL, CREATE_START
from craze.wire.times import format_time

Args = dict[str, Any]
Seen = Callable[[Entry, str, bytes], None]

_NEVER_HEARD = "the create was answered by another hub, which this one never heard from"


class _Kept:
    """A create under a request id, and what came of it; `at` is when that was known."""

    __slots__ = ("at", "hash", "outcome")

    def __init__(self, hash: str) -> None:
        self.hash = hash
        self.outcome = Outcome()
        self.at: float | None = None


class Creates:
    """The creates of one hub. `seen` hears of a row that was read on the way."""

    def __init__(
        self,
        paths: Paths,
        environ: Mapping[str, str],
        sockets: str,
        admission: Admission,
        spawner: Spawner,
        clock: Clock,
        seen: Seen,
    ) -> None:
        self._paths = paths
        self._environ = environ
        self._sockets = sockets  # the directory of this namespace's
        self._admission = admission
        self._spawner = spawner
        self._clock = clock
        self._seen = seen
        self._kept: dict[str, _Kept] = {}

    def create(self, args: Args) -> bytes:
        """The result of a create with these decoded params, as raw JSON (protocol tables 10.1).
        Raises Refusal."""
        request = args.get("requestId", "")
        kept = _Kept(request_hash(args) if request else "")
        if request:
            before = self._known(request)
            if before is not None:
                if before.hash != kept.hash:
                    raise _conflict(request)
                return before.outcome.wait()
            self._kept[request] = kept
        try:
            self._begin(args, kept)
        except Refusal as refusal:
            # Nothing was started: the next try is judged afresh.
            self._kept.pop(request, None)
            kept.outcome.settle(refusal)
            raise
        return kept.outcome.wait()

    def _known(self, request: str) -> _Kept | None:
        oldest = self._clock.monotonic() - CREATE_ANSWERS_AGE
        answered = {id: kept.at for id, kept in self._kept.items() if kept.at is not None}
        most = sorted(answered, key=lambda id: answered[id])
        for count, id in enumerate(most):
            if len(most) - count > CREATE_ANSWERS or answered[id] < oldest:
                del self._kept[id]
        return self._kept.get(request)

    def _begin(self, args: Args, kept: _Kept) -> None:
        """Have the create under way. Raises Refusal where it begins nothing."""
        request = args.get("requestId", "")
        there = self._started(request) if request else None
        work: Callable[[], bytes]
        if there is not None:
            if there.requestHash != kept.hash:
                raise _conflict(request)
            work = functools.partial(self._join, there, request)
        else:
            greenlets.on_thread(_check_directory, args["cwd"])
            settings = greenlets.on_thread(config.load, self._paths, self._environ)
            provider = provider_for(args.get("provider", ""), settings)
            work = functools.partial(self._start, args, provider, kept.hash)

        def run() -> bytes:
            try:
                return work()
            finally:
                kept.at = self._clock.monotonic()

        self._admission.run("create", run, kept.outcome, counted=there is None)

    def _started(self, request: str) -> Entry | None:
        """The live host of this namespace that a create under this id started. Raises Refusal."""
        unknown = (
            f"so whether a create of requestId {request} started a session already cannot be known:"
            " try again"
        )
        try:
            live, unreadable = registry.scan(self._paths)
        except MachineError:
            raise Refusal(
                "host_unreachable", f"the registry of session hosts cannot be read, {unknown}"
            ) from None
        for entry in live:
            ours = os.path.dirname(entry.socket) == self._sockets
            if ours and entry.requestId == request and not entry.stopping:
                return entry
        if unreadable:
            raise Refusal(
                "host_unreachable",
                f"the registry entry of a live session host cannot be read, {unknown}",
            )
        return None

    # ---- a new session ----

    def _start(self, args: Args, provider: str, hash: str) -> bytes:
        fast = args.get("fast")
        flags: dict[str, str | bool] = {
            "workspace": args["cwd"],
            "provider": provider,
            "model": args.get("model", ""),
            "effort": args.get("effort", ""),
            "fast": fast is True,
            "no-fast": fast is False,
            "no-force": args.get("permissionMode") == "prompt",
            "request-id": args.get("requestId", ""),
            "request-hash": hash,
            "title": args.get("title", ""),
        }
        try:
            host = self._spawner.start(flags, args["cwd"])
        except (spawn.Held, spawn.SessionRefused) as refused:
            raise Refusal("spawn_failed", f"the session host could not start: {refused}") from None
        try:
            outcome, why = self._first_prompt(host, args.get("prompt", ""))
        except BaseException:
            self._spawner.end(host)
            raise
        return self._result(self._entry(host, args["cwd"], provider), host.version, outcome, why)

    def _first_prompt(self, host: Spawned, text: str) -> tuple[str, str]:
        try:
            link = Link(host.socket, CREATE_DIAL)
        except Lost:
            raise Refusal("spawn_failed", "the session host cannot be reached") from None
        with link:
            try:
                link.hello(start.NAME, CREATE_DIAL)
                subscription = start.wait(link, host.session, CREATE_START, bound=CREATE_START)
            except (Lost, Refused):
                raise Refusal(
                    "spawn_failed", "the session host went before its session started"
                ) from None
            return start.prompt(link, host.session, subscription, text)

    def _entry(self, host: Spawned, cwd: str, provider: str) -> Entry:
        """What is known of a host, should the registry say nothing more."""
        return Entry(
            protocol=1,
            hostId=host.host_id,
            pid=host.child.pid,
            startedAt=format_time(self._clock.now()),
            socket=host.socket,
            crazeSessionId=host.session,
            provider=provider,
            workspace=cwd,
            ready=True,
        )

    # ---- one that another hub began ----

    def _join(self, entry: Entry, request: str) -> bytes:
        try:
            with Link(entry.socket, CREATE_DIAL) as link:
                link.hello(start.NAME, CREATE_DIAL)
                session = entry.crazeSessionId
                subscription = start.wait(link, session, CREATE_START, bound=CREATE_START)
                start.leave(link, session, subscription)
                version = link.version
        except Refusal:
            spawn.stop(entry.socket, entry.crazeSessionId)
            raise
        except (Lost, Refused):
            raise Refusal(
                "host_unreachable",
                f"the session a create of requestId {request} started cannot be reached",
            ) from None
        return self._result(entry, version, "unknown", _NEVER_HEARD)

    # ---- the answer ----

    def _result(self, known: Entry, version: str, prompt: str, why: str) -> bytes:
        fresh = start.Fresh(self._paths, known, version, self._clock)
        if fresh.row:
            self._seen(fresh.entry, fresh.version, fresh.row)
        members = [("session", fresh.line), ("prompt", json.dumps(prompt))]
        if why:
            members.append(("promptError", json.dumps(why)))
        return documents.encoded(members)


def _conflict(request: str) -> Refusal:
    return Refusal(
        "request_conflict", f"requestId {request} was used already for a create with other params"
    )


def _check_directory(path: str) -> None:
    """Raise Refusal unless `path` is a directory. Blocks."""
    try:
        os.stat(os.path.join(path, ""))
    except FileNotFoundError:
        raise Refusal("bad_request", f"params.cwd {path} does not exist") from None
    except NotADirectoryError:
        raise Refusal("bad_request", f"params.cwd {path} is not a directory") from None
    except (OSError, ValueError) as failure:
        raise Refusal("bad_request", f"params.cwd {path}: {reason(failure)}") from None
