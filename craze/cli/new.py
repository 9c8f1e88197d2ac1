"""`craze new`: a session created by the hub, or a saved one that it brings back.

What becomes of a create whose answer is lost is not known here, and never told as a failure of it:
it is asked for once more under the same request id, and then left to `craze ps`.
"""

import os
import secrets
from typing import Annotated, Any

import typer

from craze.client.errors import Refused
from craze.machine import config
from craze.machine.errors import MachineError
from craze.machine.paths import Paths, absolute, current_directory
from craze.terminal import table
from craze.wire import json
from craze.wire.limits import REOPEN_PATIENCE
from craze.wire.plain import plain_line
from craze.wire.titles import normalize
from craze.wire.words import quote

from . import asking, completion, failures
from .failures import Failure

NAME = "craze new"
CREATE_PATIENCE = 120.0  # seconds, finding a hub included
INTERRUPTED = 130  # the exit code after Ctrl-C

_SHORT_ID = 8
_MAY_HAVE = "the session may start all the same: see craze ps"
_NO_DEFAULT = "params.provider is required: this hub has no default provider"  # a hub's words

Object = dict[str, Any]


def new(
    prompt: Annotated[list[str] | None, typer.Argument(metavar="PROMPT")] = None,
    directory: str | None = typer.Option(
        None,
        "--dir",
        "-C",
        metavar="DIR",
        help="Where it runs; the current directory if not given.",
    ),
    provider: str | None = typer.Option(
        None,
        "--provider",
        metavar="P",
        help="The agent: cursor, grok, gx, or another of config.toml's; the one that last started"
        " if not given.",
        autocompletion=completion.providers,
    ),
    model: str | None = typer.Option(None, "--model", metavar="M", help="The model to start with."),
    effort: str | None = typer.Option(
        None, "--effort", metavar="E", help="The reasoning effort to start with."
    ),
    fast: bool = typer.Option(False, "--fast", help="Start in fast mode."),
    no_fast: bool = typer.Option(False, "--no-fast", help="Start with fast mode off."),
    no_force: bool = typer.Option(
        False,
        "--no-force",
        help="Ask about what the agent asks permission for; else it is granted.",
    ),
    title: str | None = typer.Option(
        None, "--title", metavar="T", help="Its title, which no agent's replaces."
    ),
    load: str | None = typer.Option(
        None,
        "--load",
        metavar="ID",
        help="Bring back the saved session that `craze ps --saved` lists under this id, as it was;"
        " one that runs is joined. No prompt and no other flag of a start goes with it.",
    ),
    as_json: bool = typer.Option(
        False,
        "--json",
        help="Print the hub's answer as one line of JSON, and a failure as an object with `error`.",
    ),
) -> None:
    """
    Starts a session that runs on its own, and prints its id. The words of PROMPT, joined by spaces,
    are its first prompt; without any it waits for one. The command ends as soon as the session has
    started and taken its prompt: the agent works on without it.

    The hub creates the session, and is started if none runs. A session starts with the environment
    of the hub, not with the one of this command.
    """
    start = {
        "dir": directory,
        "provider": provider,
        "model": model,
        "effort": effort,
        "fast": fast,
        "no-fast": no_fast,
        "no-force": no_force,
        "title": title,
    }
    text = " ".join(prompt or ())
    try:
        _check(start, text, load)
        asking.interruptible()
        paths = Paths.of(os.environ)
        answer = _created(paths, start, text) if load is None else _reopened(paths, load)
    except (MachineError, Refused, asking.Unanswered) as failure:
        why = _why(failure)
        raise _failed(
            Failure(failures.named(NAME, why)),
            as_json,
            _wire(failure) if isinstance(failure, Refused) else {"message": why},
        ) from None
    except KeyboardInterrupt:
        ended = Failure(f"{NAME}: interrupted; {_MAY_HAVE}", INTERRUPTED)
        raise _failed(ended, as_json) from None
    except Failure as failure:
        raise _failed(failure, as_json) from None
    said = json.parse(answer)
    result = said if isinstance(said, dict) else {}
    failures.show(NAME, table.raw_line(answer) if as_json else _told(result))
    if result.get("prompt") == "refused":
        why = f"the session started and refused its first prompt: {_text(result, 'promptError')}"
        raise Failure(failures.named(NAME, why))


def _failed(failure: Failure, as_json: bool, error: Object | None = None) -> Failure:
    """The failure, told as an object as well where that was asked for."""
    if as_json:
        words = failure.line.removeprefix("craze: ").removeprefix(f"{NAME}: ")
        failures.show(NAME, table.json_line({"error": error or {"message": words}}))
    return failure


def _check(start: Object, prompt: str, load: str | None) -> None:
    """Raise Failure for flags that cannot go together or mean nothing."""
    if load is not None:
        given = [f"--{name}" for name, value in start.items() if value not in (None, False)]
        if prompt.strip():
            given.append("a prompt")
        if given:
            raise _usage(f"--load and {given[0]} are mutually exclusive")
        if not load.strip():
            raise _usage(f"--load {quote(load)} names no session id")
    if start["fast"] and start["no-fast"]:
        raise _usage("--fast and --no-fast are mutually exclusive")
    if (start["title"] or "").strip() and not normalize(start["title"]):
        raise _usage("--title needs a character that shows")


def _created(paths: Paths, start: Object, prompt: str) -> bytes:
    """The hub's answer to a create. Raises Failure, MachineError, Refused, Unanswered."""
    try:
        config.launch_provider(config.load(paths, os.environ), os.environ, start["provider"] or "")
    except ValueError as failure:
        raise Failure(f"craze: {failure}", failures.USAGE) from None
    cwd = current_directory()
    if (start["dir"] or "").strip():
        cwd = absolute(start["dir"], os.environ, cwd)
    if not os.path.isdir(cwd):
        raise MachineError(f"{cwd} is not a directory")
    title = (start["title"] or "").strip()
    params = {
        "cwd": cwd,
        "prompt": prompt if prompt.strip() else None,
        "provider": start["provider"] or None,
        "model": start["model"] or None,
        "effort": start["effort"] or None,
        "fast": True if start["fast"] else False if start["no-fast"] else None,
        "permissionMode": "prompt" if start["no-force"] else None,
        "requestId": f"new-{secrets.token_hex(8)}",
        "title": title or None,
    }
    return asking.ask(
        paths,
        NAME,
        "session.create",
        {name: value for name, value in params.items() if value is not None},
        needs=("sessionCreate", *(("createTitle",) if title else ())),
        seconds=CREATE_PATIENCE,
    )


def _reopened(paths: Paths, id: str) -> bytes:
    """The hub's answer to a reopen. Raises Refused, Unanswered."""
    return asking.ask(
        paths, NAME, "session.reopen", {"id": id}, needs=("reopen",), seconds=REOPEN_PATIENCE
    )


def _told(result: Object) -> str:
    """What is printed of a session that runs."""
    session = _object(result, "session")
    verb = "joined" if result.get("joined") is True else "started"
    id = plain_line(_text(session, "sessionId"))[-_SHORT_ID:]
    line = f"{verb} {id} in {_text(_object(session, 'host'), 'workspace')}"
    if result.get("prompt") == "unknown":
        line += "; the prompt may not have reached it"
    return plain_line(line) + "\n"


def _why(failure: Exception) -> str:
    """A failure in words, for stderr."""
    if isinstance(failure, Refused):
        if failure.message.startswith(_NO_DEFAULT):
            *first, last = config.load(Paths.of(os.environ), os.environ).known_providers
            return f"no default provider yet; pass --provider {', '.join(first)} or {last}"
        told = failure.message or failure.code
        return told if failure.cause in told else f"{told}: {failure.cause}"
    if isinstance(failure, asking.Unanswered) and failure.sent:
        return f"{failure}; {_MAY_HAVE}"
    return str(failure)


def _wire(refused: Refused) -> Object:
    """A refusal as the error object that the hub sent (protocol tables 2.2)."""
    data = {"code": refused.code, "reason": refused.reason}
    if refused.result is not None:
        data["result"] = refused.result
    if refused.cause:
        data["cause"] = refused.cause
    return {"code": refused.rpc, "message": refused.message, "data": data}


def _usage(text: str) -> Failure:
    return Failure(f"{NAME}: {text}", failures.USAGE)


def _object(members: Object, name: str) -> Object:
    value = members.get(name)
    return value if isinstance(value, dict) else {}


def _text(members: Object, name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""
