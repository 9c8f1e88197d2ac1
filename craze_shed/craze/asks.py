"""A session's asks: which are open, how each is shown, and the body of an answer to one.

Membership is the engine's registry, read at every seed and every resume and kept current by
events. An automatic ask is never shown, nor a question or plan that the session's cards leave out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from craze.transcript.text import head_marked
from craze.wire import json
from craze.wire.limits import OUTCOME_NOTE
from craze_shed.contract import answers, approvals
from craze_shed.contract.approvals import (
    LaneApproval,
    LaneApprovalOption,
    LaneQuestion,
    option_for,
)
from craze_shed.contract.errors import LaneError, bad_request, failed
from craze_shed.contract.text import sanitize_line, sanitize_text
from craze_shed.craze.values import filled, members, milliseconds, objects, text

MOST = 256  # remembered; one that is pending is never let go

# craze's kind of ask -> the contract's, and the session capability that shows it.
_KINDS = {
    "permission": (approvals.PERMISSION, ""),
    "question": (approvals.QUESTION, "askCards"),
    "plan": (approvals.PLAN_APPROVAL, "planCards"),
}
_ASKS = {kind: ask for ask, (kind, _) in _KINDS.items()}
_PLAN = (
    LaneApprovalOption("accept", "Accept plan", kind=approvals.ALLOW_ONCE),
    LaneApprovalOption("reject", "Reject plan", kind=approvals.REJECT_ONCE),
)


class Ask:
    """One ask: its `kind` as craze says it, its `body` as it came, its `approval`. `member` says
    whether the engine has it. `shown` says that the transcript has a row of its opening and none of
    its end; the registry may know of that end before its event comes."""

    __slots__ = ("approval", "body", "kind", "member", "shown")

    def __init__(self, kind: str, body: Mapping[str, Any], approval: LaneApproval) -> None:
        self.kind = kind
        self.body = body
        self.approval = approval
        self.member = False
        self.shown = False


class Book:
    """The asks of one session, `session` being the id that a lane goes by. `changes` counts what
    has moved them."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._can: Mapping[str, bool] = {}
        self._asks: dict[str, Ask] = {}
        self.changes = 0

    def expose(self, can: Mapping[str, bool]) -> None:
        """The session's capabilities: which kinds of ask are shown."""
        self._can = can

    def approvals(self) -> dict[str, LaneApproval]:
        """Every member by id, in id order; those that have ended are resolved."""
        return {id: ask.approval for id, ask in sorted(self._asks.items()) if ask.member}

    @property
    def pending(self) -> int:
        return sum(ask.member and ask.approval.pending for ask in self._asks.values())

    def read(self, kind: str, body: Any, opened_at: Any) -> Ask | None:
        """The ask that a record, an event or a snapshot says; None for one that is not shown."""
        if kind not in _KINDS or not isinstance(body, Mapping) or body.get("auto") is True:
            return None
        _, card = _KINDS[kind]
        if not text(body.get("id")) or (card and not self._can.get(card)):
            return None
        try:
            return Ask(kind, body, approval(self._session, kind, body, milliseconds(opened_at)))
        except ValueError:  # it holds what JSON has no form for
            return None

    def open(self, ask: Ask, *, member: bool) -> None:
        """An ask was opened. One that is pending already takes its new body."""
        self.changes += 1
        ask.member = member
        id = ask.approval.id
        held = self._asks.get(id)
        if held is not None and held.approval.pending:
            _continue(held, ask)
        else:
            self._asks.pop(id, None)
        self._asks[id] = ask
        self._evict()

    def end(self, id: str) -> Ask | None:
        """An ask has ended: it, where it is held."""
        held = self._asks.get(id)
        if held is not None:
            self.changes += 1
            _resolve(held)
        return held

    def adopt(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Make the engine's registry, as read just now, what is pending."""
        self.changes += 1
        listed: dict[str, Ask] = {}
        for record in records:
            if record.get("status") != "open":
                continue
            kind, body = text(record.get("kind")), record.get("body")
            ask = self.read(
                kind, body.get(kind) if isinstance(body, Mapping) else None, record.get("openedAt")
            )
            if ask is not None and ask.approval.id == record.get("id"):
                listed[ask.approval.id] = ask
        for id, held in self._asks.items():
            if held.member and held.approval.pending and id not in listed:
                _resolve(held)
        for id, ask in listed.items():
            ask.member = True
            if id in self._asks:
                _continue(self._asks[id], ask)
            self._asks[id] = ask
        self._evict()

    def _evict(self) -> None:
        settled = [id for id, ask in self._asks.items() if not ask.approval.pending]
        for id in settled[: max(0, len(self._asks) - MOST)]:
            del self._asks[id]


def _continue(held: Ask, ask: Ask) -> None:
    """Have `ask` be what `held` was: the same ask, as it reads now."""
    ask.member = ask.member or held.member
    ask.shown = held.shown
    created = held.approval.created_at_unix_ms
    if created is not None:
        ask.approval = replace(ask.approval, created_at_unix_ms=created)


def _resolve(ask: Ask) -> None:
    ask.approval = replace(ask.approval, status=approvals.RESOLVED)


# ---- how an ask is shown ----


def approval(session: str, kind: str, body: Mapping[str, Any], created: int | None) -> LaneApproval:
    """The approval of an open ask of a known kind."""
    title, detail, options, questions = _SHOWN[kind](body)
    return LaneApproval(
        id=text(body.get("id")),
        session_id=session,
        kind=_KINDS[kind][0],
        status=approvals.PENDING,
        title=sanitize_text(title),
        detail=sanitize_text(detail) if detail else None,
        options=options,
        questions=questions,
        request_json=json.dumps(dict(body)).decode(),
        created_at_unix_ms=created,
    )


Shown = tuple[str, str, tuple[LaneApprovalOption, ...], tuple[LaneQuestion, ...]]


def _permission(body: Mapping[str, Any]) -> Shown:
    options = tuple(
        LaneApprovalOption(
            text(option.get("optionId")),
            text(option.get("name")),
            kind=filled(option.get("kind")),
        )
        for option in objects(body.get("options"))
    )
    return sanitize_line(text(body.get("tool"))) or "permission", "", options, ()


def _question(body: Mapping[str, Any]) -> Shown:
    questions = tuple(
        LaneQuestion(
            id=text(question.get("id")),
            question=text(question.get("prompt")),
            options=tuple(
                LaneApprovalOption(
                    text(option.get("id")),
                    text(option.get("label")),
                    description=filled(option.get("description")),
                )
                for option in objects(question.get("options"))
            ),
            multiple=question.get("allowMultiple") is True,
        )
        for question in objects(body.get("questions"))
    )
    first = questions[0].question if questions else ""
    title = sanitize_line(text(body.get("title"))) or sanitize_line(first) or "question"
    return title, "", (), questions


def _plan(body: Mapping[str, Any]) -> Shown:
    name, overview = text(body.get("name")), text(body.get("overview"))
    detail = "\n".join(part for part in (name, overview) if part)
    return sanitize_line(name) or "plan", detail, _PLAN, ()


_SHOWN = {"permission": _permission, "question": _question, "plan": _plan}


def decisions(ask: Ask) -> tuple[str, ...]:
    """The distinct words of what may be decided, in the order offered."""
    if ask.kind == "question":
        return ()
    words = (word(option) for option in ask.approval.options)
    return tuple(dict.fromkeys(one for one in words if one))


def word(option: LaneApprovalOption | None) -> str:
    """What choosing an option decides: `allow`, `allow_always`, `deny`; "" where that is not
    said."""
    kind = option.kind or "" if option is not None else ""
    if kind.startswith(approvals.REJECT):
        return "deny"
    return {approvals.ALLOW_ONCE: "allow", approvals.ALLOW_ALWAYS: "allow_always"}.get(kind, "")


def decided(ask: Ask, ending: Mapping[str, Any]) -> str:
    """What an answered ask came to, as a word; "" where the ending does not say."""
    if ask.kind == "plan":
        return "allow" if ending.get("accepted") is True else "deny"
    if ask.kind == "question":
        return ""
    chosen = text(ending.get("optionId"))
    return word(next((option for option in ask.approval.options if option.id == chosen), None))


def notes(ask: Ask, ending: Mapping[str, Any]) -> list[str]:
    """What the transcript says of an answered question or plan."""
    if ask.kind == "plan":
        verdict = "accepted" if ending.get("accepted") is True else "rejected"
        made = [f"plan {text(ask.body.get('name')) or 'plan'} → {verdict}"]
    elif ask.kind == "question":
        made = _question_notes(ask, ending)
    else:
        made = []
    return [head_marked(note, OUTCOME_NOTE) for note in made]


def _question_notes(ask: Ask, ending: Mapping[str, Any]) -> list[str]:
    questions = ask.approval.questions
    if ending.get("skip") is True:
        first = questions[0].question if questions else ""
        return [f"? {text(ask.body.get('title')) or first or 'question'} → skipped"]
    given = members(ending.get("answers"))
    made = []
    for question in questions:
        picked = given.get(question.id or "")
        labels = [_label(question, id) for id in picked] if isinstance(picked, list) else []
        named = [label for label in labels if label is not None]
        made.append(f"? {question.question} → {', '.join(named) if named else 'nothing'}")
    return made


def _label(question: LaneQuestion, id: Any) -> str | None:
    """What an option is called; None where the id names none, an ellipsis where it names
    several."""
    labels = [option.label for option in question.options if option.id == id]
    return labels[0] if len(labels) == 1 else "…" if labels else None


# ---- how one is answered ----


def not_answerable(id: str) -> LaneError:
    """What an answer to such an ask fails with."""
    return failed(
        f"craze's ask {id} is not one shed can answer"
        " (an automatic one, or a kind it does not know)"
    )


def body(ask: LaneApproval, answer: answers.LaneAnswer) -> dict[str, Any]:
    """The `answer` object of `asks.answer` (lane contract 4.11). Raises LaneError."""
    kind = _ASKS.get(ask.kind)
    if kind is None:
        raise not_answerable(ask.id)
    if isinstance(answer, answers.Raw):
        return _raw(answer)
    made = _BODIES[kind](ask, answer)
    if made is None:
        raise bad_request(f"craze's {kind} approval takes no {answer.kind} answer")
    return made


def _raw(answer: answers.Raw) -> dict[str, Any]:
    try:
        value = json.parse(answer.json.encode("utf-8", "replace"))
    except json.NotJSON:
        value = None
    if not isinstance(value, dict):
        raise bad_request("a raw answer must be one JSON object")
    return value


def _permission_body(ask: LaneApproval, answer: answers.LaneAnswer) -> dict[str, Any] | None:
    if isinstance(answer, answers.Reject):
        return {"cancel": True}
    if isinstance(answer, answers.Choice):
        if all(option.id != answer.option_id for option in ask.options):
            raise bad_request(f'craze did not offer option "{answer.option_id}" on this permission')
        return {"optionId": answer.option_id}
    if isinstance(answer, answers.Permission):
        return {"optionId": _decided(ask, answer)}
    return None


def _plan_body(ask: LaneApproval, answer: answers.LaneAnswer) -> dict[str, Any] | None:
    if isinstance(answer, answers.Reject):
        return {"reject": True}
    if isinstance(answer, answers.Choice):
        if answer.option_id not in ("accept", "reject"):
            raise bad_request(
                f'a craze plan offers only "accept" and "reject", not "{answer.option_id}"'
            )
        return {answer.option_id: True}
    if isinstance(answer, answers.Permission):
        return {_decided(ask, answer): True}
    return None


def _decided(ask: LaneApproval, answer: answers.Permission) -> str:
    """The id of the one option that a decision means."""
    option = option_for(ask.options, answer.decision)
    if option is None:
        raise bad_request(
            f"craze offered no single {answer.decision} option on this permission;"
            " answer with the option's id"
        )
    return option.id


def _question_body(ask: LaneApproval, answer: answers.LaneAnswer) -> dict[str, Any] | None:
    if isinstance(answer, answers.Reject):
        return {"skip": True}
    if not isinstance(answer, answers.Question):
        return None
    replies = answers.normalize_question_answer(ask.questions, answer.answers, answer.custom_text)
    return {
        "answers": {
            question.id or "": [_picked(at, question, value) for value in reply.labels]
            for at, (question, reply) in enumerate(zip(ask.questions, replies, strict=True))
        }
    }


_BODIES = {"permission": _permission_body, "question": _question_body, "plan": _plan_body}


def _picked(at: int, question: LaneQuestion, value: str) -> str:
    """The id of the option that an answer names, by its id or else by its label."""
    same = [option for option in question.options if option.id == value]
    if len(same) > 1:
        raise bad_request(f'question {at} offers several options with id "{value}"')
    if not same:
        same = [option for option in question.options if option.label == value]
        if len(same) > 1:
            raise bad_request(
                f'question {at} offers several options labelled "{value}";'
                " answer with the option's id"
            )
    if not same:
        raise bad_request(f'question {at} offers no option "{value}"')
    return same[0].id
