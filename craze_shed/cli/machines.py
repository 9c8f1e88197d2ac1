"""The commands about a machine: which there are, what runs there, what can be started."""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import gevent
import typer

from craze import greenlets
from craze_shed import config, forms
from craze_shed.cli import output, reaching, text
from craze_shed.cli.output import Ending
from craze_shed.contract import creating, errors, frames
from craze_shed.contract.creating import LaneCreated, LaneCreateRequest
from craze_shed.contract.errors import ClientError, Failure
from craze_shed.lines import ABSENT, DORMANT, LIVE, OFFLINE
from craze_shed.reach import ReachError
from ladder.outcome import Kind

_TOLD: Final = {LIVE: "a hub is running", DORMANT: "craze is installed; no hub is running"}

MACHINE: Final = typer.Option(
    config.LOCAL,
    "--machine",
    "-m",
    metavar="MACHINE",
    help="The machine: local, ssh:HOST, paramiko:HOST, or a name of machines.toml.",
)
JSON: Final = typer.Option(False, "--json", help="Print JSON, one object a line.")


def machines(as_json: bool = JSON) -> None:
    """
    Lists this machine and those of machines.toml, each with what craze does there. All are asked at
    once. None is changed: where no hub runs, none is started.
    """
    try:
        listed = config.listed()
    except config.ConfigError as failure:
        raise ClientError(errors.BAD_REQUEST, str(failure)) from None
    for one in listed:
        if isinstance(one, config.Machine):
            reaching.check_patched(one)
    with output.waiting("asking every machine…"):
        found = _together([lambda one=one: _status(one) for one in listed])
    if as_json:
        for status in found:
            output.show_json({name: value for name, value in status.items() if value is not None})
        return
    rows = [(one["machine"], one.get("reach") or "-", _words(one)) for one in found]
    output.columns([("MACHINE", "REACHED AS", "STATUS"), *rows])


def _status(listed: config.Machine | config.Misnamed) -> dict[str, Any]:
    """A machine's status, as its JSON has it."""
    from craze_shed.craze.dial import Dialer
    from craze_shed.craze.driver import Driver, cause_of

    if isinstance(listed, config.Misnamed):
        return {"machine": listed.name, "state": ABSENT, "cause": errors.BAD_REQUEST,
                "reason": listed.problem}  # fmt: skip
    cause: str | None
    why: str | None
    try:
        with listed.reach() as reach:
            found = Dialer(reach, eager=False).probe()
    except ReachError as failure:
        state, cause, why = OFFLINE, frames.UNREACHABLE, str(failure)
    else:
        driver = Driver()
        if found.kind == Kind.HUB:
            driver.ready()
        else:
            driver.found(cause_of(found.kind))
        state, cause = driver.state, driver.cause
        why = found.text if cause else None
    return {"machine": listed.name, "reach": listed.word, "state": state, "cause": cause,
            "reason": why}  # fmt: skip


def _words(status: dict[str, Any]) -> str:
    told = f"offline ({status['cause']}): {status['reason']}"
    return _TOLD.get(status["state"], told)


def _together(calls: list[Any]) -> list[Any]:
    """What the calls return, made at once."""
    found: list[Any] = [None] * len(calls)

    def call(number: int) -> None:
        found[number] = calls[number]()

    jobs = [greenlets.spawn("machine", call, number) for number in range(len(calls))]
    try:
        gevent.joinall(jobs, raise_error=True)
    finally:
        gevent.killall(jobs)
    return found


def sessions(
    machine: str = MACHINE,
    watch: bool = typer.Option(False, "--watch", help="Go on with what changes, until Ctrl-C."),
    as_json: bool = JSON,
) -> None:
    """
    Lists the sessions of a machine: id, activity, how many answers it waits for, provider,
    directory, and what it does or is called. On this machine a hub is started if none runs; on
    another one never.
    """
    with reaching.source(machine) as source:
        if not watch:
            view = reaching.sessions(source, machine)
            for row in view.sessions:
                output.show_json(row.to_wire()) if as_json else output.show(text.session(row))
            if view.truncated:
                output.report(text.TRUNCATED)
            if not view.sessions and not as_json:
                output.show("no sessions running")
            return
        with source.subscribe() as stream, output.read_by_somebody(stream.close):
            for frame in stream:
                if isinstance(frame, frames.SourceUnknown):
                    continue
                if as_json:
                    output.show_json(frame.to_wire())
                for line in () if as_json else text.source_frame(frame):
                    output.show(line)
        raise Ending  # a source's stream does not end: nobody reads any more


def options(machine: str = MACHINE, as_json: bool = JSON) -> None:
    """
    Says which providers a session can be created with, which one is the default, and in which
    directories sessions ran lately. A hub is started there if none runs.
    """
    with reaching.source(machine) as source, output.waiting(f"connecting to {machine}…"):
        offered = source.create_options()
    if as_json:
        output.show_json(offered.to_wire())
        return
    for line in text.options(offered):
        output.show(line)


def new(
    prompt: Annotated[list[str] | None, typer.Argument(metavar="PROMPT")] = None,
    machine: str = MACHINE,
    directory: str = typer.Option(
        "",
        "--dir",
        "-C",
        metavar="DIR",
        help="Where it runs, an absolute path there; on this machine the current directory if not"
        " given.",
    ),
    provider: str | None = typer.Option(
        None, "--provider", metavar="P", help="The agent; craze's default one if not given."
    ),
    title: str | None = typer.Option(None, "--title", metavar="T", help="Its title."),
    request_id: str | None = typer.Option(
        None,
        "--request-id",
        metavar="ID",
        help="Ask again for what a command that ended with exit 4 asked for: the same id, and"
        " everything else the same, is never a second session.",
    ),
    as_json: bool = JSON,
) -> None:
    """
    Creates a session, and prints its id, its directory, and what became of its first prompt. The
    words of PROMPT, joined by spaces, are that prompt; without any the session waits for one. A hub
    is started there if none runs.

    A create whose answer is lost is asked for once more by itself, under the same request id.
    """
    words = " ".join(prompt or ())
    cwd = _directory(reaching.named(machine), directory)
    request = LaneCreateRequest(
        cwd=cwd,
        provider=(provider or "").strip() or None,
        prompt=words if words.strip() else None,
        request_id=creating.new_request_id() if request_id is None else request_id,
        title=(title or "").strip() or None,
    )
    with (
        reaching.source(machine) as source,
        _asked_again(request.request_id, as_json),
        output.waiting("Creating…"),
    ):
        made = source.create(request)
    output.show_json(made.to_wire()) if as_json else output.show(text.created(made))
    if made.prompt == creating.REFUSED:
        raise Ending(_refused(made))


def _directory(machine: config.Machine, given: str) -> str:
    cwd = given.strip()
    if machine.way == config.LOCAL:
        return os.path.abspath(cwd)
    if not cwd.startswith("/"):
        raise ClientError(
            errors.BAD_REQUEST,
            f'the session\'s directory must be an absolute path, got "{cwd}"; give it with --dir',
        )
    return cwd


@contextlib.contextmanager
def _asked_again(request_id: str, as_json: bool) -> Iterator[None]:
    """Where nobody knows whether a session was created, say how to ask for the same one again."""
    try:
        yield
    except Failure as failure:
        if failure.code != errors.OUTCOME_UNKNOWN:
            raise
        if as_json:
            error = {"code": failure.code, "message": failure.message, "request_id": request_id}
            output.show_json({"error": error})
        raise Ending(
            f"{failure.message} (request id {request_id})", output.OUTCOME_UNKNOWN
        ) from None
    except KeyboardInterrupt:
        raise Ending(
            "interrupted; the session may start all the same: see craze-shed sessions, or ask again"
            f" with --request-id={request_id}",
            output.INTERRUPTED,
        ) from None


def _refused(made: LaneCreated) -> str:
    return (
        f"the session runs and refused its first prompt: {made.prompt_error or 'no reason given'}"
    )


def saved(machine: str = MACHINE, as_json: bool = JSON) -> None:
    """
    Lists the sessions that a machine remembers and that nothing runs now, newest first, each with
    the id that `resume` takes. A hub is started there if none runs.
    """
    with reaching.source(machine) as source, output.waiting(f"connecting to {machine}…"):
        known = source.saved()
    if as_json:
        output.show_json(known.to_wire())
        return
    if not known.sessions:
        output.show("no saved sessions")
        return
    local = reaching.named(machine).way == config.LOCAL
    home, now = os.environ.get("HOME") if local else None, time.time_ns() // 1_000_000
    rows = []
    for one in known.sessions:
        row = forms.saved_row(one, home, now)
        rows.append((one.id, row.provider, row.workspace, row.age, row.title))
    output.columns([("ID", "PROVIDER", "DIR", "ACTIVE", "TITLE"), *rows])
    if known.more:
        output.report(forms.MORE_SAVED)


def resume(
    saved_id: Annotated[str, typer.Argument(metavar="SAVED")],
    machine: str = MACHINE,
    as_json: bool = JSON,
) -> None:
    """
    Runs a saved session again, or joins it where it runs already, and prints its id, its directory
    and which of the two it was. That can take minutes. A hub is started there if none runs.
    """
    with reaching.source(machine) as source, output.waiting(forms.RESUMING):
        made = source.reopen(saved_id)
    output.show_json(made.to_wire()) if as_json else output.show(text.reopened(made))


COMMANDS: Final = (machines, sessions, options, new, saved, resume)
