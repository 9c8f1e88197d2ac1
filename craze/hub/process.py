"""The life of a hub process: `craze hub`, from its lock to its exit.

It takes its namespace's place, tells whoever started it, and serves until somebody stops it, its
place is lost, or nothing on the machine needs it. Sessions never end with it: their hosts run on,
and the next hub finds them in the registry.
"""

import os
import signal
from collections.abc import Mapping
from typing import Any

import gevent
from gevent.event import Event

import craze
from craze import greenlets
from craze.clock import Clock
from craze.hub import saved
from craze.hub.admission import Admission
from craze.hub.create import Creates
from craze.hub.directories import Directories
from craze.hub.options import create_options, recent_dirs
from craze.hub.poll import UNREADABLE
from craze.hub.reopen import Reopens
from craze.hub.server import Hub
from craze.hub.spawn import Spawner
from craze.machine import config, descriptors, environment, faults, hubs, logs, registry, trees
from craze.machine.durations import format_duration, parse_duration
from craze.machine.errors import MachineError, reason
from craze.machine.ids import host_id
from craze.machine.paths import Paths
from craze.machine.ready import ReadyPipe
from craze.wire.codes import Refusal
from craze.wire.limits import HUB_IDLE
from craze.wire.times import format_time

NAME = "craze hub"
TICK = 1.0
REGISTRY_LOOK = 5.0
ORPHAN_SWEEP = 600.0
_LEAST_IDLE = 1.0  # for whoever has just started it to come


class Held(Exception):
    """Another process is this namespace's hub: there is nothing to do."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"another hub runs already (pid {pid or '?'})")


def serve(paths: Paths, environ: Mapping[str, str], cwd: str, pipe: ReadyPipe | None) -> None:
    """Be the namespace's hub until it is over, in `environ` as it reads in the directory `cwd`.

    Raises Held and MachineError, having said so on the ready pipe.
    """
    ready = pipe or ReadyPipe()
    try:
        _Process(paths, environment.handed_on(environ, cwd), ready).run()
    except hubs.Held as held:
        ready.hub_held(held.pid, held.hub)
        raise Held(held.pid) from None
    except (MachineError, OSError) as failure:
        ready.failed(reason(failure))
        raise MachineError(reason(failure)) from None
    finally:
        ready.close()


class _Process:
    """One run of a hub."""

    def __init__(self, paths: Paths, environ: Mapping[str, str], ready: ReadyPipe) -> None:
        self._paths = paths
        self._environ = environ
        self._ready = ready
        self._clock = Clock()
        self._id = host_id()
        self._hub: Hub | None = None
        self._directories = Directories()
        self._stopped = Event()
        self._cause = ""
        self._idle_after, self._idle_words = _idle(environ)

    def run(self) -> None:
        descriptors.raise_limit()
        greenlets.on_thread(int)  # what a thread takes is loaded while it is there
        self._directories.warm()
        place = hubs.take(
            self._paths,
            self._id,
            version=craze.__version__,
            started_at=format_time(self._clock.now()),
            sleep=gevent.sleep,
        )
        try:
            self._place = place
            self._open_log()
            self._watch_signals()
            self._serve()
        finally:
            place.leave()

    def _serve(self) -> None:
        admission = Admission(self._report)
        self._admission = admission
        hub = self._hub = Hub(
            self._place.listener,
            self._paths,
            hub_id=self._id,
            version=craze.__version__,
            pid=os.getpid(),
            report=self._report,
            say=self._log,
            failed=lambda: self._stop("its own fault"),
            clock=self._clock,
        )
        self._log(f"hub {self._id} serving namespace {self._paths.namespace}")
        self._serve_more(hub)
        if self._idle_words:
            self._log(self._idle_words)
        if not self._ready.hub_ok(self._id, self._paths.namespace, self._place.record.socket):
            self._stop("its launcher went before it was ready")
        watch = greenlets.spawn("watch", self._watch, hub, on_error=self._failed)
        self._stopped.wait()
        watch.kill()
        hub.close(admission.wait)

    def _serve_more(self, hub: Hub) -> None:
        """Have the hub serve what it needs the machine for."""
        paths, environ, clock = self._paths, self._environ, self._clock
        admission = self._admission
        spawner = Spawner(paths, environ, pid=os.getpid(), say=self._log)
        sockets = os.path.dirname(self._place.record.socket)
        seen = hub.poll.seen
        looks = self._directories
        creates = Creates(paths, environ, sockets, admission, spawner, clock, seen, looks)
        reopens = Reopens(paths, environ, admission, spawner, clock, seen, looks)
        hub.titles = True
        hub.handlers.update(
            {
                "session.create": creates.create,
                "session.reopen": reopens.reopen,
                "sessions.createOptions": self._options,
                "sessions.saved": self._saved,
            }
        )

    def _options(self, args: dict[str, Any]) -> bytes:
        told: list[str] = []  # the log is the loop's
        rows = greenlets.on_thread(saved.read, self._paths, told.append)
        result: bytes = greenlets.on_thread(
            create_options,
            self._paths,
            self._environ,
            pid=os.getpid(),
            report=told.append,
            recent=recent_dirs(rows, self._directories.check),
        )
        for line in told:
            self._log(line)
        return result

    def _saved(self, args: dict[str, Any]) -> bytes:
        try:
            live, unreadable = registry.scan(self._paths)
        except MachineError as failure:
            live, unreadable = [], [f"the registry: {failure}"]
        if unreadable:
            self._log(f"a saved list was refused: {unreadable[0]} cannot be read")
            raise Refusal("host_unreachable", UNREADABLE)
        told: list[str] = []
        rows = greenlets.on_thread(saved.read, self._paths, told.append)
        for line in told:
            self._log(line)
        settings = greenlets.on_thread(config.load, self._paths, self._environ)
        return saved.saved(rows, live, args, settings)

    # ---- the watch ----

    def _watch(self, hub: Hub) -> None:
        """Look once a second whether the hub still has a place, and a use."""
        used = self._clock.monotonic()
        looked = swept = used - ORPHAN_SWEEP
        while True:
            now = self._clock.monotonic()
            lost = self._place.lost()
            if lost:
                self._stop(lost)
                return
            if now - swept >= ORPHAN_SWEEP:
                swept = now
                self._sweep()
            if hub.clients or self._admission.running:
                used = now
            elif now - looked >= REGISTRY_LOOK or now - used >= self._idle_after:
                looked = now
                if self._needed():
                    used = now
            if now - used >= self._idle_after:
                self._stop(f"idle for {format_duration(self._idle_after)}")
                return
            gevent.sleep(TICK)

    def _needed(self) -> bool:
        """Whether a host lives on this machine, or may."""
        try:
            return registry.any_live(self._paths)
        except MachineError:
            return True

    def _sweep(self) -> None:
        try:
            swept = registry.sweep(self._paths, self._clock)
        except MachineError as failure:
            self._log(f"orphan sweep: {failure}")
            return
        if any(swept):
            self._log(
                f"orphan sweep: {swept.locks} orphan locks, {swept.temporaries} registry"
                f" temporaries and {swept.sockets} refused sockets removed"
            )

    def _watch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            gevent.signal_handler(number, self._stop, signal.Signals(number).name)
        gevent.signal_handler(signal.SIGHUP, self._log, "hangup ignored; the hub runs on")

    def _stop(self, cause: str) -> None:
        """Bring about the end; the first cause counts."""
        if not self._cause:
            self._cause = cause
            if self._hub is not None:
                self._hub.closing = True  # from this instant: nobody comes in between
            self._stopped.set()
            self._log(f"stopping: {cause}")

    def _failed(self, failure: BaseException) -> None:
        self._report("watch", failure)
        self._stop("its own fault")

    # ---- what is said ----

    def _open_log(self) -> None:
        trees.cache(self._paths, self._paths.host_logs)
        self._log = logs.LogFile(self._paths.hub_log, NAME, self._clock).write
        faults.catch(self._report)

    def _report(self, where: str, failure: BaseException) -> None:
        self._log(faults.describe(where, failure))


def _idle(environ: Mapping[str, str]) -> tuple[float, str]:
    """After how long without a use the hub goes, and what is wrong with CRAZE_HUB_IDLE."""
    given = environ.get("CRAZE_HUB_IDLE", "").strip()
    if not given:
        return HUB_IDLE, ""
    try:
        seconds = parse_duration(given)
        if seconds < 0:
            raise ValueError
    except ValueError:
        return HUB_IDLE, "CRAZE_HUB_IDLE is no duration: 1m0s holds"
    return max(seconds, _LEAST_IDLE), ""
