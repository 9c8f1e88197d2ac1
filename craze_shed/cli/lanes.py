"""The commands about one session: what it says, what it asks, and what is said to it.

Each returns at the receipt. What comes of it is the session's to say, on its stream: `watch` shows
it.
"""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from craze_shed.cli import output, reaching, text
from craze_shed.cli.machines import JSON, MACHINE
from craze_shed.cli.output import Ending
from craze_shed.contract import answers, frames
from craze_shed.contract.answers import Choice, LaneAnswer, Permission, Question, Reject
from craze_shed.contract.rows import MAX_MESSAGES_LIMIT
from craze_shed.contract.settings import LaneSettingChange, SetConfig, SetMode, SetModel
from craze_shed.keeper import OpenLane

SESSION = Annotated[str, typer.Argument(metavar="SESSION")]
_ANSWERS: Final[dict[str, LaneAnswer]] = {
    "allow-once": Permission("allow_once"),
    "allow-always": Permission("allow_always"),
    "reject": Reject(),
}
_CHOICE, _QUESTION = "choice:", "question:"


def history(session: SESSION, machine: str = MACHINE, as_json: bool = JSON) -> None:
    """
    Prints the newest 200 rows of a session's transcript, oldest first.
    """
    with reaching.lane(machine, session) as lane, output.waiting("reading the transcript…"):
        page = lane.history(limit=MAX_MESSAGES_LIMIT)
    if as_json:
        output.show_json(page.to_wire())
        return
    for line in text.history(page):
        output.show(line)


def watch(session: SESSION, machine: str = MACHINE, as_json: bool = JSON) -> None:
    """
    Prints what a session has said so far and then what happens, until it ends or Ctrl-C. A lost
    connection is made again by itself; whatever was missed meanwhile is printed then.
    """
    reason = None
    with (
        reaching.lane(machine, session) as lane,
        lane.subscribe() as stream,
        output.read_by_somebody(stream.close),
    ):
        for frame in stream:
            if isinstance(frame, frames.Down):
                reason = frame.reason
            if isinstance(frame, frames.Unknown):
                continue
            if as_json:
                output.show_json(frame.to_wire())
            for line in () if as_json else text.lane_frame(frame):
                output.show(line)
    if reason != frames.SESSION_CLOSED:
        raise Ending


def send(
    session: SESSION,
    words: Annotated[list[str], typer.Argument(metavar="TEXT")],
    machine: str = MACHINE,
    as_json: bool = JSON,
) -> None:
    """
    Sends a prompt, the words of TEXT joined by spaces. It runs after what runs already; the command
    ends as soon as the session has it.
    """
    _send(machine, session, words, answers.QUEUE)
    _done(as_json, "sent")


def interject(
    session: SESSION,
    words: Annotated[list[str], typer.Argument(metavar="TEXT")],
    machine: str = MACHINE,
    as_json: bool = JSON,
) -> None:
    """
    Says something into the turn that runs, where the session's agent can hear it then. With no turn
    running it is refused.
    """
    _send(machine, session, words, answers.INTERJECT)
    _done(as_json, "sent")


def cancel(session: SESSION, machine: str = MACHINE, as_json: bool = JSON) -> None:
    """
    Asks for the end of the turn that runs. The session itself goes on.
    """
    with _told(machine, session) as lane:
        lane.cancel()
    _done(as_json, "cancel requested")


def approvals(session: SESSION, machine: str = MACHINE, as_json: bool = JSON) -> None:
    """
    Lists what a session asks and nobody has answered: permissions, questions and plans, each with
    its id and with what `answer` can say to it.
    """
    with reaching.lane(machine, session) as lane, output.waiting("reading what it asks…"):
        pending = lane.approvals()
    for asked in pending if as_json else ():
        output.show_json(asked.to_wire())
    if not (pending or as_json):
        output.show("nothing asked")
    for line in () if as_json else text.approvals(pending):
        output.show(line)


def answer(
    session: SESSION,
    approval: Annotated[str, typer.Argument(metavar="APPROVAL")],
    words: Annotated[list[str], typer.Argument(metavar="ANSWER")],
    machine: str = MACHINE,
    as_json: bool = JSON,
) -> None:
    """
    Answers what a session asks. A decision that more than one of the offered options could mean is
    refused: then name the option.
    """
    said = _answer(words)
    with _told(machine, session) as lane:
        lane.answer(approval, said)
    _done(as_json, "answered")


def settings(session: SESSION, machine: str = MACHINE, as_json: bool = JSON) -> None:
    """
    Lists the models, the modes and the options of a session, and how each is set.
    """
    with reaching.lane(machine, session) as lane, output.waiting("reading the settings…"):
        now = lane.settings()
    if as_json:
        output.show_json(now.to_wire())
        return
    for line in text.settings(now):
        output.show(line)


def set_(
    session: SESSION,
    setting: Annotated[str, typer.Argument(metavar="SETTING")],
    value: Annotated[str, typer.Argument(metavar="VALUE")],
    machine: str = MACHINE,
    as_json: bool = JSON,
) -> None:
    """
    Changes a setting: `model`, `mode`, or an option by its id, to the id of a value. An option is
    the current model's; if the model changes meanwhile, it is refused.
    """
    with _told(machine, session) as lane:
        lane.set(_change(lane, setting, value))
    _done(as_json, "set")


def rename(
    session: SESSION,
    words: Annotated[list[str], typer.Argument(metavar="TITLE")],
    machine: str = MACHINE,
    as_json: bool = JSON,
) -> None:
    """
    Gives a session another title, the words of TITLE joined by spaces.
    """
    with _told(machine, session) as lane:
        warning = lane.set_title(" ".join(words))
    if warning is not None and not as_json:
        output.report(f"craze-shed rename: {warning}")
    _done(as_json, "renamed", warning=warning)


def stop(session: SESSION, machine: str = MACHINE, as_json: bool = JSON) -> None:
    """
    Ends a session and its agent. The command ends when the session has been told; it is over when
    it leaves the list, or when `watch` says so.
    """
    with _told(machine, session) as lane:
        lane.stop()
    _done(as_json, "stop received (the session ends on its stream)")


COMMANDS: Final = (
    history, watch, send, interject, cancel, approvals, answer, settings, set_, rename, stop,
)  # fmt: skip


@contextlib.contextmanager
def _told(machine: str, session: str) -> Iterator[OpenLane]:
    """The lane, for the one thing that is said to it."""
    with reaching.joined(machine, session) as lane:
        try:
            yield lane
        except KeyboardInterrupt:
            raise Ending(
                "interrupted; it may have been done: check the transcript", output.INTERRUPTED
            ) from None


def _done(as_json: bool, words: str, **result: Any) -> None:
    if as_json:
        output.show_json({name: value for name, value in result.items() if value is not None})
    else:
        output.show(words)


def _send(machine: str, session: str, words: list[str], mode: str) -> None:
    text = " ".join(words)
    if not text.strip():
        raise Ending("TEXT says nothing", output.USAGE)
    with _told(machine, session) as lane:
        lane.send(text, mode)


def _answer(words: list[str]) -> LaneAnswer:
    """The answer that is meant. Raises Ending."""
    first = words[0]
    if len(words) == 1 and first in _ANSWERS:
        return _ANSWERS[first]
    if len(words) == 1 and first.startswith(_CHOICE) and first != _CHOICE:
        return Choice(first.removeprefix(_CHOICE))
    if all(word.startswith(_QUESTION) for word in words):
        chosen = (word.removeprefix(_QUESTION).split(",") for word in words)
        return Question(tuple(tuple(filter(None, ids)) for ids in chosen))
    raise Ending(
        "ANSWER is allow-once, allow-always, reject, choice:ID, or question:ID[,ID...] for each"
        " question",
        output.USAGE,
    )


def _change(lane: OpenLane, setting: str, value: str) -> LaneSettingChange:
    if setting == SetModel.kind:
        return SetModel(value)
    if setting == SetMode.kind:
        return SetMode(value)
    known = lane.snapshot().settings
    return SetConfig(setting, value, known.model if known else None)
