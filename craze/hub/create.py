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
from craze.hub import start
from craze.hub.admission import Admission, Outcome
from craze.hub.directories import Directories, NoAnswer
from craze.hub.hash import request_hash
from craze.hub.link import Lost
from craze.hub.options import provider_for
from craze.hub.spawn import Held, SessionRefused, Spawner
from craze.machine import config, registry
from craze.machine.errors import MachineError, reason
from craze.machine.paths import Paths
from craze.machine.registry import Entry
from craze.wire import documents, json
from craze.wire.codes import Refusal
from craze.wire.limits import CREATE_ANSWERS, CREATE_ANSWERS_AGE, CREATE_DIAL, CREATE_START
from craze.wire.plain import plain_line
from craze.wire.times import format_time

Args = dict[str, Any]
Seen = Callable[[Entry, str, bytes], None]

_NEVER_HEARD = "the create was answered by another hub, which this one never heard from"

# The failures that are answers: those of a host. Every other refusal began nothing.
_ANSWERS = ("spawn_failed", "start_failed")


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
        directories: Directories | None = None,
    ) -> None:
        self._paths = paths
        self._environ = environ
        self._sockets = sockets  # the directory of this namespace's
        self._admission = admission
        self._spawner = spawner
        self._clock = clock
        self._seen = seen
        self._directories = directories or Directories()
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
        self._admission.run("create", functools.partial(self._run, args, kept), kept.outcome)
        return kept.outcome.wait()

    def _known(self, request: str) -> _Kept | None:
        old = self._clock.monotonic() - CREATE_ANSWERS_AGE
        answered = sorted((kept.at, id) for id, kept in self._kept.items() if kept.at is not None)
        for newer, (at, id) in enumerate(reversed(answered)):
            if newer >= CREATE_ANSWERS or at < old:
                del self._kept[id]
        return self._kept.get(request)

    def _run(self, args: Args, kept: _Kept) -> bytes:
        try:
            result = self._answer(args, kept.hash)
        except BaseException as failure:
            if isinstance(failure, Refusal) and failure.reason in _ANSWERS:
                kept.at = self._clock.monotonic()
            else:
                self._kept.pop(args.get("requestId", ""), None)  # the next try is judged afresh
            raise
        kept.at = self._clock.monotonic()
        return result

    def _answer(self, args: Args, hash: str) -> bytes:
        request = args.get("requestId", "")
        there = self._started(request) if request else None
        if there is not None:
            if there.requestHash != hash:
                raise _conflict(request)
            return self._join(there, request)
        self._check_directory(args["cwd"])
        settings = greenlets.on_thread(config.load, self._paths, self._environ)
        provider = provider_for(args.get("provider", ""), settings)
        with self._admission.place():
            return self._start(args, provider, hash)

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

    def _check_directory(self, path: str) -> None:
        """Raise Refusal unless `path` is a directory."""
        named = f"params.cwd {plain_line(path)}"
        try:
            self._directories.ask(os.stat, os.path.join(path, ""))
        except FileNotFoundError:
            raise Refusal("bad_request", f"{named} does not exist") from None
        except NotADirectoryError:
            raise Refusal("bad_request", f"{named} is not a directory") from None
        except (OSError, ValueError, NoAnswer) as failure:
            raise Refusal("bad_request", f"{named}: {reason(failure)}") from None

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
        except (Held, SessionRefused) as refused:
            raise Refusal("spawn_failed", f"the session host could not start: {refused}") from None
        session = host.session
        with self._spawner.link(host, CREATE_DIAL) as link:
            subscription = start.up(link, session, CREATE_START, bound=CREATE_START)
            prompt, why = start.prompt(link, session, subscription, args.get("prompt", ""))
        known = host.entry(provider, args["cwd"], format_time(self._clock.now()))
        return self._result(known, host.version, prompt, why)

    # ---- one that another hub began ----

    def _join(self, entry: Entry, request: str) -> bytes:
        session = entry.crazeSessionId
        try:
            with start.reach(entry.socket, CREATE_DIAL) as link:
                subscription = start.up(link, session, CREATE_START, bound=CREATE_START)
                start.leave(link, session, subscription)
        except Refusal:
            start.stop(entry.socket, session)
            raise
        except (Lost, Refused):
            raise Refusal(
                "host_unreachable",
                f"the session a create of requestId {request} started cannot be reached",
            ) from None
        return self._result(entry, link.version, "unknown", _NEVER_HEARD)

    # ---- the answer ----

    def _result(self, known: Entry, version: str, prompt: str, why: str) -> bytes:
        fresh = start.Fresh(self._paths, known, version)
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
