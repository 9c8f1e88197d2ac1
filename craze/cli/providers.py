"""`craze providers`: which agents can be started, here or by the hub that runs.

It never starts a hub: other machines use it to ask whether there is one.
"""

import os
from typing import Any

import typer

import craze
from craze.machine import config
from craze.machine.errors import MachineError, reason
from craze.machine.paths import Paths
from craze.terminal import table
from craze.wire.plain import plain_line

from . import failures
from .failures import Failure

NAME = "craze providers"

_STATES = {"needs_setup": "needs setup"}  # where the word is not the wire's
_NO_HUB = f"{NAME}: no hub is running"

Result = dict[str, Any]


def providers(
    as_json: bool = typer.Option(False, "--json", help="Print one line of JSON."),
    hub: bool = typer.Option(
        False,
        "--hub",
        help="Ask the hub that runs, and print its default provider and where sessions ran lately,"
        " too. None is started.",
    ),
) -> None:
    """
    Lists the agents that craze knows: whether each can be started, and if not, why and what to do
    about it. That is as of this environment; the hub and the sessions it starts have another, and
    with --hub it answers for them.

    A state says what to expect, no more: whatever it is, a session can be created, and one whose
    agent cannot start says so itself.
    """
    try:
        paths = Paths.of(os.environ)
    except MachineError as failure:
        raise _failed(failure) from None
    result = _of_hub(paths) if hub else _of_this_machine(paths)
    shown = [table.json_line] if as_json else [_table, _rest] if hub else [_table]
    failures.show(NAME, "".join(show(result) for show in shown))


def _of_this_machine(paths: Paths) -> Result:
    from craze.hub.options import listed

    settings = config.load(paths, os.environ)
    for warning in settings.warnings:
        failures.report(warning)
    launch, _ = config.launch_provider(settings, os.environ)
    return {"providers": listed(settings, os.environ, launch=launch)}


def _of_hub(paths: Paths) -> Result:
    from craze.client import Client, ClientError, hubs

    try:
        socket = hubs.find(paths, needs=("createOptions",)).socket
        with Client(socket, kind="cli", name=NAME, version=craze.__version__) as client:
            result: Result = client.request("sessions.createOptions")
    except (hubs.NoHub, FileNotFoundError, ConnectionRefusedError):
        raise Failure(_NO_HUB) from None
    except (MachineError, ClientError, OSError) as failure:
        raise _failed(failure) from None
    return result


def _failed(failure: Exception) -> Failure:
    return Failure(failures.named(NAME, reason(failure)))


# ---- what is printed ----


def _table(result: Result) -> str:
    rows = [("PROVIDER", "STATE", "REASON", "FIX")]
    for provider in _objects(result, "providers"):
        name, state, why, fix = (_text(provider, it) for it in ("id", "state", "reason", "fix"))
        rows.append((name, _STATES.get(state, state), why, fix))
    return table.columns(rows)


def _rest(result: Result) -> str:
    dirs = [_text(recent, "dir") for recent in _objects(result, "recentDirs")]
    lines = [f"default: {_text(result, 'defaultProvider') or '-'}"]
    lines += [f"recent: {directory}" for directory in dirs or ["-"]]
    return "".join(f"{plain_line(line)}\n" for line in lines)


def _objects(members: Result, name: str) -> list[Result]:
    """The objects of a list in what a hub says, whose craze may be another."""
    value = members.get(name)
    return [it for it in value if isinstance(it, dict)] if isinstance(value, list) else []


def _text(members: Result, name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""
