"""The asks of one session: opened once, ended once, in that order (codecs 5.7, protocol tables 9).

The first valid resolution wins. An ask has no timeout: it stays open until somebody answers it, the
agent gives up, a cancel or its turn's end ends it, or the session closes. Every ending is an event
and is told to the agent.
"""

import re
from typing import Any, Final, NamedTuple

from craze.engine.port import AnswerAsk, AskRaised
from craze.engine.refusals import refusal
from craze.engine.stage import Stage
from craze.events import build
from craze.events.members import payload
from craze.wire.codes import Refusal
from craze.wire.limits import ASKS_KEPT
from craze.wire.words import quote

Body = dict[str, Any]
Answer = dict[str, Any]

_PREFIX: Final = {"permission": "perm", "question": "ask", "plan": "plan"}
_ID = re.compile(r"((?:perm|ask|plan)-x?)([1-9][0-9]{0,17})")


class Ask:
    """One ask. `body` is its payload, `answer` the wire's answer object where it was given one,
    `ending` the payload of its ending event; times are nanoseconds."""

    __slots__ = (
        "answer", "body", "ending", "id", "key", "kind", "label", "opened_at", "resolved_at",
        "turn",
    )  # fmt: skip

    def __init__(self, key: Any, kind: str, body: Body, turn: str, now: int) -> None:
        self.key = key
        self.id: str = body["id"]
        self.kind = kind
        self.body = body
        self.label = _label(kind, body)
        self.turn = turn  # the turn whose end ends it; "" for none
        self.opened_at = now
        self.answer: Answer | None = None
        self.ending: dict[str, Any] | None = None
        self.resolved_at = 0

    def __repr__(self) -> str:
        return f"<Ask {self.id} {self.outcome or 'open'}>"

    @property
    def status(self) -> str:
        return "open" if self.ending is None else "resolved"

    @property
    def outcome(self) -> str:
        return str(self.ending["outcome"]) if self.ending else ""

    @property
    def by(self) -> str:
        return str(self.ending["by"]) if self.ending else ""


class Asks:
    """The registry. `force` has permissions allowed without asking; where nobody is `interactive`,
    questions take their first options and plans are accepted."""

    __slots__ = (
        "_counts", "_ended", "_force", "_given", "_interactive", "_open", "_stage", "last_end",
    )  # fmt: skip

    def __init__(self, stage: Stage, *, force: bool, interactive: bool) -> None:
        self.last_end = 0  # when the last ask that was open to clients ended, nanoseconds
        self._stage = stage
        self._force = force
        self._interactive = interactive
        self._open: dict[str, Ask] = {}
        self._ended: dict[str, Ask] = {}
        self._counts: dict[str, int] = {}
        self._given: set[str] = set()

    @property
    def open(self) -> list[Ask]:
        """The open asks, in opening order."""
        return list(self._open.values())

    def get(self, ask: str) -> Ask | None:
        """The ask of that id, open or among the last 256 ended."""
        return self._open.get(ask) or self._ended.get(ask)

    def __len__(self) -> int:
        return len(self._open)

    def raised(self, given: AskRaised, turn: str) -> None:
        """The agent asks: open it to clients, or answer it by policy. `turn` is the turn that runs,
        "" for none."""
        if given.kind == "permission" and self._force:
            self._allow(given, turn)
        elif given.kind != "permission" and not self._interactive:
            self._accept(given, turn)
        else:
            ask = self._ask(given, turn, self._name(given))
            self._open[ask.id] = ask
            self._stage.commit(build.opening(ask.kind, ask.body))

    def turn_away(self, given: AskRaised) -> None:
        """The agent asks, and the session is over: never raised, ended for the agent alone."""
        ending = payload("ask", kind=given.kind, outcome="closing", by="close")
        self._stage.do(AnswerAsk(given.key, ending))

    def withdrawn(self, key: Any) -> None:
        """The agent no longer waits for the answer."""
        for ask in self.open:
            if ask.key == key:
                self._record(ask, "cancelled", "call")

    def answer(self, ask_id: str, answer: Answer, cause: str) -> None:
        """A client's answer. Raises Refusal `unknown_ask`, `already_resolved` or `bad_answer`, and
        then the ask stays as it was."""
        ask = self._open.get(ask_id)
        if ask is None:
            if ask_id in self._ended:
                raise refusal("already_resolved", ask_id)
            if self._issued(ask_id):
                raise refusal("already_resolved", f"{ask_id}, whose record has been evicted")
            raise refusal("unknown_ask", ask_id)
        verdict = _JUDGES[ask.kind](ask.body, answer)
        ask.answer = verdict.answer
        self._end(ask, verdict.outcome, "client", cause, **verdict.members)

    def end_all(self, outcome: str, by: str, cause: str = "") -> None:
        """End every open ask, in opening order."""
        for ask in self.open:
            self._end(ask, outcome, by, cause)

    def end_turn(self, turn: str) -> None:
        """A turn is over: end what was asked in it."""
        for ask in self.open:
            if ask.turn == turn:
                self._end(ask, "turn_ended", "turn")

    def _ask(self, given: AskRaised, turn: str, ask_id: str) -> Ask:
        return Ask(given.key, given.kind, {"id": ask_id, **given.body}, turn, self._stage.now)

    def _allow(self, given: AskRaised, turn: str) -> None:
        hidden = self._ask(given, turn, self._next(given.kind, hidden=True))
        option = _widest(given.body.get("options", ()))
        if option is None:
            self._end(hidden, "cancelled", "policy", body={given.kind: hidden.body})
            return
        hidden.answer = {"optionId": option["optionId"]}
        self._end(hidden, "automatic", "policy", body={given.kind: hidden.body},
                  optionId=option["optionId"], label=option.get("name", ""))  # fmt: skip

    def _accept(self, given: AskRaised, turn: str) -> None:
        answers = accepted = None
        if given.kind == "question":
            answers = {
                _id_of(asked): [_id_of(asked["options"][0])] if asked.get("options") else None
                for asked in sorted(given.body.get("questions", ()), key=_id_of)
            } or None
            given = given._replace(body=payload(
                "question", **{**given.body, "auto": True, "answers": answers}
            ))  # fmt: skip
        else:
            accepted = True
            given = given._replace(body=payload(
                "plan", **{**given.body, "auto": True, "accepted": True}
            ))  # fmt: skip
        ask = self._ask(given, turn, self._name(given))
        ask.answer = {"accept": True} if accepted else {"answers": answers or {}}
        self._stage.commit(build.opening(ask.kind, ask.body))
        self._end(ask, "automatic", "policy", answers=answers, accepted=accepted)

    def _end(self, ask: Ask, outcome: str, by: str, cause: str = "", **members: Any) -> None:
        ending = self._record(ask, outcome, by, cause, **members)
        self._stage.do(AnswerAsk(ask.key, ending))

    def _record(
        self, ask: Ask, outcome: str, by: str, cause: str = "", **members: Any
    ) -> dict[str, Any]:
        if self._open.pop(ask.id, None) is not None:
            self.last_end = self._stage.now
        ending = payload("ask", id=ask.id, kind=ask.kind, outcome=outcome, by=by, **members)
        ask.ending = ending
        ask.resolved_at = self._stage.now
        self._ended[ask.id] = ask
        if len(self._ended) > ASKS_KEPT:
            del self._ended[next(iter(self._ended))]
        self._stage.commit(build.ending(ending, cause))
        return ending

    def _name(self, given: AskRaised) -> str:
        """The new ask's id: the next of its kind, or the one it came with (an open ask of that id
        is then given up)."""
        if not given.id:
            return self._next(given.kind)
        if given.id in self._open:
            self._end(self._open[given.id], "cancelled", "call")
        form = _ID.fullmatch(given.id)
        if form is None:
            self._given.add(given.id)
        else:
            self._counts[form[1]] = max(self._counts.get(form[1], 0), int(form[2]))
        return given.id

    def _next(self, kind: str, hidden: bool = False) -> str:
        prefix = _PREFIX[kind] + ("-x" if hidden else "-")
        self._counts[prefix] = number = self._counts.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def _issued(self, ask: str) -> bool:
        form = _ID.fullmatch(ask)
        return ask in self._given or (
            form is not None and int(form[2]) <= self._counts.get(form[1], 0)
        )


def _label(kind: str, body: Body) -> str:
    if kind == "permission":
        return f"permission {body.get('tool', '')}".rstrip()
    return f"plan {body.get('name') or 'plan'}" if kind == "plan" else kind


def _id_of(item: dict[str, Any]) -> str:
    return str(item.get("id", ""))  # an empty id is no member


def _widest(options: Any) -> dict[str, Any] | None:
    """The option that allows most: the first that allows always, else once."""
    for kind in ("allow_always", "allow_once"):
        for option in options:
            if option.get("kind") == kind:
                return dict(option)
    return None


# ---- whether an answer fits (protocol tables 9.4) ----


class _Verdict(NamedTuple):
    outcome: str
    members: dict[str, Any]  # of the ending
    answer: Answer


def _bad(detail: str) -> Refusal:
    return refusal("bad_answer", detail)


def _others(answer: Answer, own: tuple[str, ...]) -> bool:
    """Whether the answer holds another kind's member; `""`, false and null are nothing."""
    return any(value not in ("", False, None) for name, value in answer.items() if name not in own)


def _permission(body: Body, answer: Answer) -> _Verdict:
    option, cancel = answer.get("optionId", ""), answer.get("cancel", False)
    if _others(answer, ("optionId", "cancel")) or not (option or cancel):
        raise _bad("a permission takes an option id or an explicit cancel")
    if cancel:
        if option:
            raise _bad("a cancelled permission names no option")
        return _Verdict("cancelled", {}, {"cancel": True})
    for offered in body.get("options", ()):
        if offered.get("optionId") == option:
            members = {"optionId": option, "label": offered.get("name", "")}
            return _Verdict("answered", members, {"optionId": option})
    raise _bad(f"{quote(option)} is not an option this permission offered")


def _question(body: Body, answer: Answer) -> _Verdict:
    answers, skip = answer.get("answers"), answer.get("skip", False)
    asked = {_id_of(question): question for question in body.get("questions", ())}
    if _others(answer, ("answers", "skip")):
        raise _bad("a question takes its answers or a skip")
    if skip:
        if answers is not None:
            raise _bad("a skipped question carries no answers")
        return _Verdict("answered", {"skip": True}, {"skip": True})
    if answers is None or (not answers and asked):
        raise _bad("a question takes its answers or a skip")
    for question, chosen in answers.items():
        _choice(asked.get(question), question, chosen or ())
    answers = {question: answers[question] for question in sorted(answers)}
    return _Verdict("answered", {"answers": answers or None}, {"answers": answers})


def _choice(asked: dict[str, Any] | None, question: str, chosen: Any) -> None:
    if asked is None:
        raise _bad(f"{quote(question)} is not a question this ask asked")
    offered = {_id_of(option) for option in asked.get("options", ())}
    for option in chosen:
        if option not in offered:
            raise _bad(f"{quote(option)} is not an option question {quote(question)} offered")
    if len(chosen) > 1 and not asked.get("allowMultiple"):
        raise _bad(f"question {quote(question)} takes one option")


def _plan(body: Body, answer: Answer) -> _Verdict:
    accept, reject = answer.get("accept", False), answer.get("reject", False)
    if _others(answer, ("accept", "reject")) or not (accept or reject):
        raise _bad("a plan takes an accept or a reject")
    if accept and reject:
        raise _bad("a plan takes exactly one of accept and reject")
    if accept:
        return _Verdict("answered", {"accepted": True}, {"accept": True})
    return _Verdict("answered", {}, {"reject": True})


_JUDGES = {"permission": _permission, "question": _question, "plan": _plan}
