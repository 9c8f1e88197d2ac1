"""What a client says to an ask or sends to a session; strict, for a word that is not understood
must never be taken for another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple

from craze_shed.contract import codec
from craze_shed.contract.approvals import LaneQuestion
from craze_shed.contract.errors import bad_request

Decision = Literal["allow_once", "allow_always", "reject"]
# `queue`: after what is in flight. `interject`: into the turn that runs.
SendMode = Literal["queue", "interject"]
DECISIONS: Final = ("allow_once", "allow_always", "reject")
QUEUE: Final = "queue"
INTERJECT: Final = "interject"
SEND_MODES: Final = (QUEUE, INTERJECT)


@dataclass(frozen=True, slots=True)
class Permission(codec.Variant):
    """A decision, for whichever option means it."""

    kind: ClassVar[str] = "permission"
    reading: ClassVar[str] = codec.STRICT
    decision: Decision


@dataclass(frozen=True, slots=True)
class Choice(codec.Variant):
    """One of the options that were offered, by its id."""

    kind: ClassVar[str] = "choice"
    reading: ClassVar[str] = codec.STRICT
    option_id: str


@dataclass(frozen=True, slots=True)
class Question(codec.Variant):
    """For each question, in order, the ids of the options chosen; and what was typed, None where
    nothing was."""

    kind: ClassVar[str] = "question"
    reading: ClassVar[str] = codec.STRICT
    answers: tuple[tuple[str, ...], ...] = ()
    custom_text: tuple[str | None, ...] = codec.omitted_when_empty()


@dataclass(frozen=True, slots=True)
class Reject(codec.Variant):
    """No. What else the object holds is ignored: that is the safe direction."""

    kind: ClassVar[str] = "reject"


@dataclass(frozen=True, slots=True)
class Raw(codec.Variant):
    """An answer in the agent's own form, raw JSON."""

    kind: ClassVar[str] = "raw"
    reading: ClassVar[str] = codec.STRICT
    json: str


LaneAnswer = Permission | Choice | Question | Reject | Raw
ANSWERS: Final = codec.variants(Permission, Choice, Question, Reject, Raw)


def decode_answer(value: object) -> LaneAnswer:
    """The answer in `value`, parsed JSON. Raises ContractError."""
    return codec.read_variant("LaneAnswer", ANSWERS, value)  # type: ignore[return-value]


def decision(word: object) -> str:
    """`word`, one of DECISIONS. Raises ContractError."""
    return codec.one_of(DECISIONS)(word)  # type: ignore[no-any-return]


def send_mode(word: object) -> str:
    """`word`, one of SEND_MODES. Raises ContractError."""
    return codec.one_of(SEND_MODES)(word)  # type: ignore[no-any-return]


class QuestionReply(NamedTuple):
    """What was said to one question: `labels` are option ids as given, `text` what was typed."""

    labels: tuple[str, ...] = ()
    text: str | None = None


def normalize_question_answer(
    questions: Sequence[LaneQuestion],
    answers: Sequence[Sequence[str]],
    custom_text: Sequence[str | None] = (),
) -> tuple[QuestionReply, ...]:
    """One reply for each question; text is trimmed, and blank text is none.

    Raises LaneError `bad_request` for more answers than questions, and for text to a question that
    takes none.
    """
    count = len(questions)
    if len(answers) > count:
        raise bad_request(f"the approval has {count} questions; {len(answers)} answers were given")
    if len(custom_text) > count:
        raise bad_request(
            f"the approval has {count} questions; free text was given for {len(custom_text)}"
        )
    replies = []
    for at, question in enumerate(questions):
        labels = tuple(answers[at]) if at < len(answers) else ()
        typed = custom_text[at] if at < len(custom_text) else None
        text = (typed or "").strip() or None
        if text and not question.custom:
            raise bad_request(f"question {at} does not accept free text")
        replies.append(QuestionReply(labels, text))
    return tuple(replies)
