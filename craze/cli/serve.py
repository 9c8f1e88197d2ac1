"""`craze serve`: its flags, settled into plain options for the host process.

A host imports no command-line library: it stays small for as long as its session lives. Whoever
started it in the background hears of a refusal on the ready pipe as well as on stderr.
"""

import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from craze.machine import config, environment, ready
from craze.machine.errors import MachineError
from craze.machine.ids import is_host_id, is_token
from craze.machine.index import Load
from craze.machine.paths import Paths, absolute, current_directory
from craze.terminal.flags import BadFlag, Flag, Given, parse
from craze.wire.titles import normalize
from craze.wire.words import quote

from . import failures
from .failures import Failure

NAME = "craze serve"

FLAGS = (
    Flag("workspace", "DIR", "The session's directory; the current one unless given."),
    Flag("provider", "P", "The provider; else CRAZE_PROVIDER, config.toml's, cursor."),
    Flag("model", "M", "The model to start with."),
    Flag("effort", "E", "The reasoning effort to start with."),
    Flag("fast", help="Start in fast mode."),
    Flag("no-fast", help="Start with fast mode off."),
    Flag("agent-bin", "P", "The agent's program, in place of the one that is configured or found."),
    Flag("plugin-dir", "D", hidden=True),
    Flag("force", help="Grant the agent what it asks permission for (the default)."),
    Flag("no-force", help="Ask about what the agent asks permission for."),
    Flag("ask", help="Start in the agent's ask mode."),
    Flag("plan", help="Start in the agent's plan mode."),
    Flag("continue", help="Load the workspace's newest saved session.", short="c"),
    Flag(
        "load", "ID", "Load a saved session: its craze session id, or PROVIDER:SESSION for one"
        " without.",
    ),
    Flag("title", "TEXT", "The new session's title."),
    Flag("unattended", help="Nobody is there to answer: the session is another's sub-agent."),
    Flag("log", "FILE", "The log; in craze's own log directory it must be <host id>.log."),
    Flag("host-id", "X", hidden=True),
    Flag("no-host-status", hidden=True),
    Flag("request-id", "R", hidden=True),
    Flag("request-hash", "H", hidden=True),
    Flag("hub-pid", "N", hidden=True),
)  # fmt: skip

_EXCLUSIVE = (("fast", "no-fast"), ("force", "no-force"), ("ask", "plan"), ("continue", "load"))
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_REQUEST_HASH = re.compile(r"[A-Za-z0-9:._-]{1,128}")
_PID_MAX = 2**31 - 1

Options = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Run the command; its exit code."""
    spawned = environment.READY_FD in os.environ or environment.HOST_CHILD in os.environ
    pipe = None
    try:
        pipe = _inherit(os.environ)
        given = _parse(arguments, spawned=spawned)
        if given.get("help"):
            from .serve_manual import PAGE, render

            failures.show(NAME, render(PAGE))
            return 0
        options = settle(given, os.environ, current_directory())
    except (Failure, MachineError) as failure:
        line = str(failure) if isinstance(failure, Failure) else f"{NAME}: {failure}"
        failures.report(line)
        if pipe is not None:
            pipe.refused(line) if isinstance(failure, Failure) else pipe.failed(line)
        return failure.code if isinstance(failure, Failure) else failures.RUNTIME
    from craze.host.options import Options as Settled
    from craze.host.process import Refused, serve

    try:
        return serve(Settled(**options, ready=pipe), os.environ)
    except Refused as refused:
        failures.report(str(refused))
        return refused.code


def settle(given: Given, environ: Mapping[str, str], cwd: str) -> Options:
    """What the flags come to, in this environment. Raises Failure and MachineError.

    Their names and forms are those of craze.host.options.Options.
    """
    for one, other in _EXCLUSIVE:
        if given.get(one, False) is not False and given.get(other, False) is not False:
            raise _usage(f"--{one} and --{other} are mutually exclusive")
    if "plugin-dir" in given:
        raise _usage("--plugin-dir is not served by this version: agents find their own plugins")
    _check_values(given)
    failures.refuse_config(environ)
    paths = Paths.of(environ, cwd)
    settings = config.load(paths, environ)
    # First: a file that cannot be read turns it off, and defines no provider either.
    if not settings.control_socket.on:
        raise _usage(
            f"the control socket is off ({settings.control_socket.why}),"
            f" and a headless host is reachable only through it"
        )
    load = _load(_text(given, "load"), settings) if "load" in given else None
    loads = load is not None or bool(given.get("continue"))
    provider, warning = _provider(given, settings, environ)
    named = _text(given, "workspace")
    workspace = absolute(named, environ, cwd) if named.strip() else cwd
    if not os.path.isdir(workspace) and load is None:
        raise Failure(f"{NAME}: {workspace} is not a directory")
    return {
        "paths": paths,
        "config": settings,
        "warnings": (*settings.warnings, *((warning,) if warning and not loads else ())),
        "workspace": workspace,
        "workspace_given": bool(named.strip()),
        "provider": _text(given, "provider") if loads else provider,
        "model": _text(given, "model"),
        "effort": _text(given, "effort"),
        "fast": True if given.get("fast") else False if given.get("no-fast") else None,
        "agent_bin": _text(given, "agent-bin"),
        "force": not given.get("no-force", False) and given.get("force", True) is True,
        "mode": "ask" if given.get("ask") else "plan" if given.get("plan") else "",
        "newest": bool(given.get("continue")),
        "load": load,
        "title": normalize(_text(given, "title")),
        "unattended": bool(given.get("unattended")),
        "log": _log(given, paths, environ, cwd),
        "host_id": _text(given, "host-id"),
        "host_status": not given.get("no-host-status", False),
        "request_id": _text(given, "request-id"),
        "request_hash": _text(given, "request-hash"),
        "hub_pid": int(_text(given, "hub-pid")) if "hub-pid" in given else None,
    }


def _inherit(environ: MutableMapping[str, str]) -> ready.ReadyPipe | None:
    try:
        return ready.inherit(environ)
    except ValueError as failure:
        raise _usage(str(failure)) from None


def _parse(arguments: list[str], *, spawned: bool) -> Given:
    try:
        given, others = parse(FLAGS, arguments)
        hub = given.get("hub-pid", "1")
        if not isinstance(hub, str) or not _is_pid(hub):
            raise BadFlag("hub-pid")
    except BadFlag as bad:
        raise failures.unknown_flag(NAME, bad.name if spawned else "") from None
    if others:
        raise failures.no_arguments(NAME)
    return given


def _check_values(given: Given) -> None:
    rules: tuple[tuple[str, Callable[[str], object], str], ...] = (
        ("host-id", is_host_id, "is not twelve lowercase hex digits"),
        ("request-id", _REQUEST_ID.fullmatch, "is not 1-64 of [A-Za-z0-9._-]"),
        ("request-hash", _REQUEST_HASH.fullmatch, "is not 1-128 of [A-Za-z0-9:._-]"),
    )
    for name, holds, wrong in rules:
        if name in given and not holds(_text(given, name)):
            raise _usage(f"--{name} {quote(_text(given, name))} {wrong}")
    if _text(given, "title").strip() and not normalize(_text(given, "title")):
        raise _usage("--title needs a character that shows")
    if ("request-id" in given) != ("request-hash" in given):
        raise _usage("--request-id and --request-hash go together")


def _provider(given: Given, settings: config.Config, environ: Mapping[str, str]) -> tuple[str, str]:
    try:
        return config.launch_provider(settings, environ, _text(given, "provider"))
    except ValueError as failure:
        raise Failure(f"craze: {failure}", failures.USAGE) from None


def _load(text: str, settings: config.Config) -> Load:
    provider, colon, session = text.partition(":")
    if not colon:
        if is_token(text):
            return Load(craze_id=text)
        if not text.strip():
            raise _usage(f"--load {quote(text)} names no session id")
    elif provider:
        if provider not in settings.known_providers:
            wanted = config.wanted(settings)
            raise _usage(
                f"--load {quote(text)}: unknown provider {quote(provider)} (want {wanted})"
            )
        if not session.strip():
            raise _usage(f"--load {quote(text)} names no session id")
        return Load(provider=provider, session=session)
    raise _usage(f"--load {quote(text)} is neither a craze session id nor <provider>:<session id>")


def _log(given: Given, paths: Paths, environ: Mapping[str, str], cwd: str) -> str:
    named = _text(given, "log")
    if not named.strip():
        return ""
    path = absolute(named, environ, cwd)
    directory, name = os.path.split(path)
    if os.path.realpath(directory) == os.path.realpath(paths.host_logs):
        host = _text(given, "host-id") or "<host id>"
        if name != host + ".log":
            raise _usage(f"--log: a log in {paths.host_logs} must be named {host}.log")
    return path


def _is_pid(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:11]) <= _PID_MAX


def _text(given: Given, name: str) -> str:
    value = given.get(name, "")
    return value if isinstance(value, str) else ""


def _usage(text: str) -> Failure:
    return Failure(f"{NAME}: {text}", failures.USAGE)
