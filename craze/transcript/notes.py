"""The words the fold draws by itself: exact strings, since every folder draws the same."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from craze.transcript import text
from craze.wire import limits

CANCELLED: Final = "cancelled"
RESTORED: Final = "restored"

_WAKES: Final = {
    "subagent_wake": "sub-agent finished — the agent continues",
    "job_wake": "background command finished — the agent continues",
}
_OWN_TURN: Final = "agent continued on its own (interjection fallback)"
FOREIGN_TURNS: Final = frozenset((*_WAKES.values(), _OWN_TURN))

_COMPACTED: Final = {
    "manual": "context compacted on request",
    "overflow": "context was too large — compacted",
}
_SHARED_OPTION: Final = "…"


def foreign_turn(reason: str) -> str:
    """The note of a turn the agent runs on its own."""
    return _WAKES.get(reason, _OWN_TURN)


def command(expanded: Mapping[str, Any]) -> str:
    """The note of a plugin command's expansion; "" when it has no name."""
    plugin = expanded.get("pluginCommand") or {}
    name = text.one_line(plugin.get("qualified") or "")
    kind = text.one_line(plugin.get("kind") or "")
    if not name:
        return ""
    return f"⤷ {name} ({kind})" if kind else f"⤷ {name}"


def compaction(ended: Mapping[str, Any]) -> str:
    """The note of a compaction's end."""
    if failure := ended.get("err"):
        words = text.one_line(failure)
        return f"compaction failed: {words}" if words else "compaction failed"
    head = _COMPACTED.get(ended.get("reason") or "", "context compacted")
    before, after = (tokens(ended.get(name) or 0) for name in ("tokensBefore", "tokensAfter"))
    return f"{head} · {before} → {after} tokens"


def tokens(count: int) -> str:
    """A number of tokens in three significant figures: `950`, `12.3k`, `1.21M`."""
    if count < 1000:
        return str(max(count, 0))
    scaled, unit = _rounded(count / 1000), "k"
    if scaled >= 1000:
        scaled, unit = _rounded(count / 1_000_000), "M"
    return f"{scaled:.10g}{unit}"


def outcome(kind: str, body: Mapping[str, Any], ending: Mapping[str, Any]) -> Iterator[str]:
    """The notes of an answered question or plan, each at most 4096 bytes (codecs 3.3).

    `body` is the opening's payload with the item caps applied.
    """
    made = _question_outcome(body, ending) if kind == "question" else _plan_outcome(body, ending)
    return (text.head_marked(words, limits.OUTCOME_NOTE) for words in made)


def _question_outcome(body: Mapping[str, Any], ending: Mapping[str, Any]) -> Iterator[str]:
    questions = body.get("questions") or ()
    if ending.get("skip"):
        first = questions[0].get("prompt") if questions else ""
        yield f"? {body.get('title') or first or 'question'} → skipped"
        return
    answers = ending.get("answers") or {}
    for question in questions:
        labels = _labels(question)
        picked = answers.get(question.get("id", "")) or ()
        words = ", ".join(labels.get(option, option) for option in _capped(picked))
        yield f"? {question.get('prompt', '')} → {words if picked else 'nothing'}"


def _plan_outcome(body: Mapping[str, Any], ending: Mapping[str, Any]) -> Iterator[str]:
    verdict = "accepted" if ending.get("accepted") else "rejected"
    yield f"plan {body.get('name') or 'plan'} → {verdict}"


def _labels(question: Mapping[str, Any]) -> dict[str, str]:
    """A sub-question's labels by option id; an id two options share (capped) names neither."""
    labels: dict[str, str] = {}
    for option in question.get("options") or ():
        ident = option.get("id", "")
        labels[ident] = _SHARED_OPTION if ident in labels else option.get("label", "")
    return labels


def _capped(picked: Sequence[str]) -> list[str]:
    return [text.head(option, limits.ITEM_CAP) for option in picked]


def _rounded(value: float) -> float:
    return float(f"{value:.2e}")
