"""The life of a host process: `craze serve`, from its flags to its exit.

It claims a session, binds and lists a socket, tells whoever spawned it, starts the agent, and
serves until somebody stops it, nobody uses it, its place on the machine is lost, or its session
ends. On the way out nothing of it stays: no entry, no socket, no agent, no claim.
"""

import os
import platform
import signal
from collections.abc import Callable, Mapping
from typing import Any

import gevent
from gevent.event import Event

import craze
from craze import greenlets
from craze.agents.acp import AcpAgent
from craze.agents.unstartable import Unstartable
from craze.clock import Clock
from craze.engine import port
from craze.eventlog.journal import Journal
from craze.host.idle import Idle
from craze.host.indexing import Indexing
from craze.host.options import Options
from craze.host.server import Server
from craze.host.session import Facts, Session
from craze.machine import (
    claims,
    config,
    faults,
    index,
    logs,
    pgids,
    providers,
    registry,
    stderr,
    trees,
)
from craze.machine.errors import MachineError, reason
from craze.machine.ids import host_id as new_host_id
from craze.machine.ids import session_id as new_session_id
from craze.machine.ready import ReadyPipe
from craze.wire.times import format_time
from craze.wire.titles import normalize

NAME = "craze serve"
TICK = 1.0
RELIST = 10.0  # after a registry entry could not be written: a full disk may be emptied
DRAIN = 5.0  # for the connections to take what they are owed, once the session is over

# What a host serves for every session, besides what its agent can do.
HOST_CAPABILITIES = {"stop": True, "rowFacts": True, "presence": True}


class Refused(Exception):
    """The host cannot serve: `str()` is the line that says why, `code` the exit code."""

    def __init__(self, line: str, code: int = 1) -> None:
        super().__init__(line)
        self.code = code


def serve(options: Options, environ: Mapping[str, str]) -> int:
    """Serve one session until it ends; the exit code.

    Raises Refused when it cannot, having said so on the ready pipe.
    """
    pipe = options.ready or ReadyPipe()
    try:
        return _Host(options, environ, pipe).run()
    except claims.Claimed as held:
        pipe.held(str(held), held.session, held.host, held.pid)
        running = f" (pid {held.pid})" if held.pid else ""
        raise Refused(f"{NAME}: that session is already running{running}") from None
    except index.LoadRefused as refused:
        pipe.refused(str(refused))
        raise Refused(f"{NAME}: {refused}", refused.exit) from None
    except index.IndexBusy as busy:
        pipe.refused(str(busy))
        raise Refused(str(busy)) from None
    except (MachineError, OSError) as failure:
        pipe.failed(reason(failure))
        raise Refused(f"{NAME}: {reason(failure)}") from None
    finally:
        pipe.close()


class _Host:
    """One run of a host process."""

    def __init__(self, options: Options, environ: Mapping[str, str], ready: ReadyPipe) -> None:
        self._options = options
        self._environ = environ
        self._ready = ready
        self._clock = Clock()
        self._paths = options.paths
        self._config = options.config
        self._id = options.host_id or new_host_id()
        trees.cache(self._paths, self._paths.host_logs)  # of the log and of the agent's groups
        self._log = self._open_log()
        faults.catch(self._report)
        self._stopped = Event()
        self._cause = ""

    def run(self) -> int:
        self._watch_signals()
        for warning in self._options.warnings:
            self._warn(warning)
        logs.sweep(self._paths, self._clock)
        started_at = self._clock.now()
        row = self._row()
        workspace = row["cwd"] if row else self._options.workspace
        name = row["provider"] if row else self._options.provider
        session_id = self._session_id(row, started_at)
        claim = claims.claim(self._paths, session_id, self._id, sleep=gevent.sleep)
        try:
            return self._serve(row, workspace, name, session_id, started_at)
        finally:
            claim.release()

    # ---- the start ----

    def _serve(
        self,
        row: index.Row | None,
        workspace: str,
        name: str,
        session_id: str,
        started_at: int,
    ) -> int:
        options = self._options
        members = {
            "startedAt": format_time(started_at),
            "provider": name,
            "workspace": workspace,
            "requestId": options.request_id,
            "requestHash": options.request_hash,
        }
        try:
            listing = registry.bind(self._paths, self._id, members, sleep=gevent.sleep)
        except MachineError as failure:
            raise MachineError(f"the control socket: {failure}") from None
        try:
            self._listing = listing
            session = self._make_session(row, workspace, name, session_id, started_at)
            self._session = session
            server = Server(
                listing.listener,
                session,
                host_id=self._id,
                version=craze.__version__,
                pid=os.getpid(),
                draw_token=lambda: os.urandom(16).hex(),
                report=self._report,
                on_stop=lambda: self._stop("a client's session.stop"),
                mark_stopping=self._mark_stopping,
                on_started=self._started,
                on_ended=lambda: self._stop("its session ended"),
            )
            listing.update(crazeSessionId=session_id, incarnation=session.log.incarnation)
            self._log(f"host {self._id} serving session {session_id} ({name}) in {workspace}")
            taken = self._ready.ok(self._id, listing.socket, session_id, craze.__version__)
            if taken:
                session.start()
                greenlets.spawn("idle", self._watch, server, on_error=self._failed)
            else:
                self._stop("its launcher went before it was ready")
            self._stopped.wait()
            self._end(server)
        finally:
            listing.unbind()
        return 0

    def _make_session(
        self,
        row: index.Row | None,
        workspace: str,
        name: str,
        session_id: str,
        started_at: int,
    ) -> Session:
        options = self._options
        provider = providers.named(self._config, name)
        incarnation = new_session_id(started_at)
        able = provider.capabilities() if provider else {}
        permission_mode = "bypass" if options.force else "prompt"
        make_agent, program = self._agent(row, workspace, name, provider)
        self._indexing = Indexing(
            index.Index(self._paths),
            name,
            workspace,
            session_id,
            self._clock,
            self._index_failed,
            index.Unattended(options.mode, permission_mode, options.model, options.effort)
            if options.unattended
            else None,
        )
        header = {
            "incarnation": incarnation,
            "crazeVersion": craze.__version__,
            "os": platform.system().lower(),
            "arch": platform.machine(),
            "provider": name,
            "agentBinary": program,
            "cwd": workspace,
            "force": options.force,
            "interactive": not options.unattended,
            "mode": options.mode,
            "pid": os.getpid(),
        }
        journal = None
        if self._config.journal.on:
            journal = Journal(self._paths.journals, header, self._clock, notice=self._warn)
        facts = Facts(
            session_id,
            workspace,
            name,
            provider.label if provider else name,
            {**able, **HOST_CAPABILITIES},
            permission_mode=permission_mode,
            started_at=started_at,
        )
        return Session(
            facts,
            incarnation,
            self._clock,
            make_agent,
            journal=journal,
            force=options.force,
            interactive=not options.unattended,
            title=options.title or _title(row),
            pinned=bool(options.title or (row and row.get("pinned"))),
            write_title=self._indexing.write_title,
            on_turn=self._indexing.prompted,
        )

    def _agent(
        self,
        row: index.Row | None,
        workspace: str,
        name: str,
        provider: providers.Provider | None,
    ) -> tuple[Callable[[Callable[[Any], None]], port.Agent], str]:
        """What makes the agent, and its program's path. One that cannot be started is an agent all
        the same: its start fails, and the host says why to whoever attaches."""
        if provider is None:
            return lambda post: Unstartable(post, f"{name} is not part of this craze"), ""
        options = self._options
        environ = dict(self._environ)
        program = providers.resolve(
            provider,
            path=environ.get("PATH", ""),
            config=self._config.path,
            agents=self._config.agents,
            flag=options.agent_bin,
            variable=environ.get("CRAZE_AGENT_BIN", ""),
        )
        if isinstance(program, providers.Missing):
            words = program.error(provider)
            return lambda post: Unstartable(post, words, provider.capabilities()), ""
        launch = providers.launch(
            provider, program, env=environ, cwd=workspace, force=options.force
        )
        load = row["sessionId"] if row else ""

        def make(post: Callable[[Any], None]) -> port.Agent:
            return AcpAgent(
                post,
                launch=launch,
                clock=self._clock,
                mode=options.mode,
                model=options.model,
                effort=options.effort,
                fast=options.fast,
                load=load,
                on_spawn=lambda group: pgids.record(self._paths.pgids(self._id), group),
            )

        return make, program

    def _row(self) -> index.Row | None:
        """The saved session to load, or None for a new one."""
        options, saved = self._options, index.Index(self._paths)
        if options.load is not None:
            return index.find_load(
                saved, options.load, options.workspace if options.workspace_given else ""
            )
        if options.newest:
            row = saved.newest(options.workspace)
            if row is None:
                raise index.LoadRefused(f"no saved session in {options.workspace}")
            return row
        return None

    def _session_id(self, row: index.Row | None, now: int) -> str:
        if row is None:
            return new_session_id(now)
        saved = index.Index(self._paths)
        return row.get("crazeId") or saved.mint(row, new_session_id(now))

    def _started(self, started: port.Started) -> None:
        session = self._session
        if started.error is not None:
            self._log(f"the session did not start: {started.error.message}")
            return
        self._indexing.named(session.engine.provider_session)
        greenlets.spawn("listed", self._list_ready, session.engine.provider_session)

    def _list_ready(self, provider_session: str) -> None:
        while not self._mark(providerSessionId=provider_session, ready=True):
            if self._stopped.wait(RELIST):
                return
        if self._options.load is None and not self._options.newest:
            provider = self._session.facts.provider
            try:
                greenlets.on_thread(config.save_provider, self._paths, provider)
            except MachineError as failure:
                self._log(str(failure))

    # ---- the watch ----

    def _watch(self, server: Server) -> None:
        """Look once a second whether the host still has a place, and a use."""
        session = self._session
        clock = Idle(self._config.idle_exit, self._clock.monotonic())
        while not self._stopped.is_set():
            gevent.sleep(TICK)
            lost = self._listing.lost()
            if lost:
                self._stop(lost)
                return
            if self._due(clock, server, session):
                # Behind both fences nobody can come in between the last look and the end.
                server.fenced = True
                session.post(port.Fence(True))
                cause = self._due(clock, server, session)
                if cause:
                    self._stop(cause)
                    return
                session.post(port.Fence(False))
                server.fenced = False
                clock.stayed(self._clock.monotonic())

    def _due(self, clock: Idle, server: Server, session: Session) -> str:
        engine = session.engine
        return clock.due(
            self._clock.monotonic(),
            attached=server.attached,
            ever_attached=server.ever_attached,
            busy=engine.busy,
            turns=engine.turn_count,
            start_failed=engine.start_failed,
            prompted=engine.prompted,
        )

    def _watch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            gevent.signal_handler(number, self._stop, f"{signal.Signals(number).name}")
        gevent.signal_handler(signal.SIGHUP, self._log, "hangup ignored; the session runs on")

    # ---- the end ----

    def _stop(self, cause: str) -> None:
        """Bring about the end; the first cause counts."""
        if not self._cause:
            self._cause = cause
            self._stopped.set()
            self._log(f"stopping: {cause}")

    def _failed(self, failure: BaseException) -> None:
        self._report("watch", failure)
        self._stop("its own fault")

    def _end(self, server: Server) -> None:
        session = self._session
        server.begin_stop()
        if session.journal is not None:
            fields = {"kind": "host_stop", "fields": {"cause": self._cause}}
            session.journal.note("diag", fields)
        session.close()
        self._indexing.close()
        with gevent.Timeout(DRAIN, False):
            while server.connections:
                gevent.sleep(0.01)
        server.close()
        server.hang_up()
        _remove(self._paths.pgids(self._id))

    def _mark_stopping(self) -> None:
        self._mark(stopping=True)

    def _mark(self, **members: Any) -> bool:
        """Whether the registry entry says so now."""
        try:
            self._listing.update(**members)
        except OSError as failure:
            self._log(f"the registry entry could not be marked: {reason(failure)}")
            return False
        return True

    # ---- what is said ----

    def _open_log(self) -> Callable[[str], None]:
        """Where lines go: the log file when there is one, stderr for a host started by hand."""
        path = self._options.log
        if not path and self._options.ready is None:
            return lambda line: stderr.say(f"{NAME}: {line}")
        log = logs.LogFile(path or self._paths.host_log(self._id), NAME, self._clock)
        return log.write

    def _warn(self, warning: str) -> None:
        self._log(warning.removeprefix("craze: "))

    def _report(self, where: str, failure: BaseException) -> None:
        self._log(faults.describe(where, failure))

    def _index_failed(self, error: str) -> None:
        self._session.post(port.TitleWritten(None, error))


def _title(row: index.Row | None) -> str:
    """The title that a saved session has, whoever gave it."""
    return normalize(str(row.get("title", ""))) if row else ""


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
