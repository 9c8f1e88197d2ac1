"""What an agent may ask, as one table: how each request is read, and how each ending is answered.

A row's `read` turns params into the codec's ask body (without its id) or None where they cannot be
read; `answer` turns the ask's ending (codecs 1.4, `ask`) into the result the agent waits for; and
`cancelled` is the result that says the user will not answer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from craze.agents.acp import read
from craze.events.members import payload
from craze.wire import json

Body = dict[str, Any]

NO_PLAN = "# No plan written yet\n\n(The agent exited plan mode without writing a plan.)"

_WORDS = {
    "inProgress": "in_progress",
    "complete": "completed",
    "done": "completed",
    "canceled": "cancelled",
}
_STATES = frozenset(("in_progress", "completed", "cancelled"))


class Ask(NamedTuple):
    kind: str  # permission, question, plan
    read: Callable[[dict[str, Any]], Body | None]
    answer: Callable[[dict[str, Any]], Any]
    cancelled: Any
    invalid: str


def todo_status(word: Any) -> str:
    """A todo's status in the codec's words, whatever the agent calls it."""
    if not isinstance(word, str):
        return "pending"
    word = word.removeprefix("TODO_STATUS_").lower() if word.startswith("TODO_STATUS_") else word
    word = _WORDS.get(word, word)
    return word if word in _STATES else "pending"


def todos(holder: Any, name: str, prefix: str) -> list[Body]:
    """An agent's list of todos; an item without an id is called `<prefix>-<index>`, one without
    words is left out."""
    made = []
    for index, item in enumerate(read.items(holder, name)):
        content = read.text(item, "content")
        if content.strip():
            number = read.text(item, "id") or f"{prefix}-{index}"
            status = todo_status(item.get("status"))
            made.append(payload("todo", id=number, content=content, status=status))
    return made


def _permission(params: dict[str, Any]) -> Body | None:
    options = [
        payload(
            "permissionOption",
            optionId=option["optionId"],
            name=read.text(option, "name") or option["optionId"],
            kind=read.text(option, "kind"),
        )
        for option in read.items(params, "options")
        if read.text(option, "optionId")
    ]
    if not options or not isinstance(params.get("toolCall"), dict):
        return None
    return payload("permission", tool=read.text(params["toolCall"], "title"), options=options)


def _permitted(ask: Body) -> Any:
    chosen = ask.get("optionId", "")
    if not chosen:
        return _PERMISSION_CANCELLED
    return {"outcome": {"outcome": "selected", "optionId": chosen}}


_PERMISSION_CANCELLED = {"outcome": {"outcome": "cancelled"}}


def _questions(params: dict[str, Any]) -> Body | None:
    questions = []
    for index, item in enumerate(read.items(params, "questions")):
        options = [
            payload(
                "questionOption",
                id=read.text(option, "id"),
                label=read.text(option, "label"),
                description=read.text(option, "description"),
            )
            for option in read.items(item, "options")
        ] or [{"label": "OK"}]
        questions.append(
            payload(
                "subQuestion",
                id=read.text(item, "id") or f"q-{index}",
                prompt=read.text(item, "prompt"),
                options=options,
                allowMultiple=read.flag(item, "allowMultiple"),
            )
        )
    if not isinstance(params.get("questions"), list):
        return None
    return payload("question", title=read.text(params, "title"), questions=questions)


def _answered(ask: Body) -> Any:
    if ask.get("skip"):
        return {"outcome": {"outcome": "skipped"}}
    if "answers" not in ask and ask.get("outcome") not in ("answered", "automatic"):
        return _PERMISSION_CANCELLED
    answers = [
        {"questionId": number, "selectedOptionIds": [chosen for chosen in picked or () if chosen]}
        for number, picked in ask.get("answers", {}).items()
    ]
    return {"outcome": {"outcome": "answered", "answers": answers}}


def _plan(params: dict[str, Any]) -> Body | None:
    plan = params.get("plan")
    if isinstance(plan, dict):
        plan = read.text(plan, "content", "text", "markdown") or json.dumps(plan).decode()
    return payload(
        "plan",
        name=read.text(params, "name", "title"),
        overview=read.text(params, "overview"),
        plan=plan if isinstance(plan, str) else "",
        todos=todos(params, "todos", "todo"),
    )


def _decided(accepted: str, rejected: str, nested: bool) -> Callable[[Body], Any]:
    def answer(ask: Body) -> Any:
        word = "cancelled"
        if ask.get("outcome") in ("answered", "automatic"):
            word = accepted if ask.get("accepted") else rejected
        return {"outcome": {"outcome": word} if nested else word}

    return answer


def _grok_questions(params: dict[str, Any]) -> Body | None:
    if not isinstance(params.get("questions"), list):
        return None
    questions = []
    for item in read.items(params, "questions"):
        words = read.text(item, "question")
        options = [
            payload(
                "questionOption",
                id=option["label"],
                label=option["label"],
                description=read.text(option, "description"),
            )
            for option in read.items(item, "options")
            if read.text(option, "label")
        ] or [{"label": "OK"}]
        questions.append(
            payload(
                "subQuestion",
                id=words,
                prompt=words,
                options=options,
                allowMultiple=read.flag(item, "multiSelect"),
            )
        )
    return payload("question", questions=questions)


def _grok_answered(ask: Body) -> Any:
    if ask.get("skip"):
        return {"outcome": "skip_interview"}
    if ask.get("outcome") not in ("answered", "automatic"):
        return {"outcome": "cancelled"}
    answers = {
        words: [label for label in picked or () if label]
        for words, picked in ask.get("answers", {}).items()
    }
    return {"outcome": "accepted", "answers": answers}


def _grok_plan(params: dict[str, Any]) -> Body | None:
    return payload("plan", plan=read.text(params, "planContent") or NO_PLAN)


PERMISSION = Ask(
    "permission", _permission, _permitted, _PERMISSION_CANCELLED, "invalid permission request"
)
CURSOR = {
    "cursor/ask_question": Ask(
        "question",
        _questions,
        _answered,
        _PERMISSION_CANCELLED,
        "invalid cursor/ask_question params",
    ),
    "cursor/create_plan": Ask(
        "plan",
        _plan,
        _decided("accepted", "rejected", nested=True),
        _PERMISSION_CANCELLED,
        "invalid cursor/create_plan params",
    ),
}
GROK = {
    "x.ai/ask_user_question": Ask(
        "question",
        _grok_questions,
        _grok_answered,
        {"outcome": "cancelled"},
        "invalid x.ai/ask_user_question params",
    ),
    "x.ai/exit_plan_mode": Ask(
        "plan",
        _grok_plan,
        _decided("approved", "abandoned", nested=False),
        {"outcome": "cancelled"},
        "invalid x.ai/exit_plan_mode params",
    ),
}
