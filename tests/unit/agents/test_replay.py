"""What repeats a replay is told apart from people who repeat themselves."""

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from craze.agents import limits
from craze.agents.acp.replay import Replay

KINDS = {"u": "user_message_chunk", "a": "agent_message_chunk", "t": "agent_thought_chunk"}


def update(words: str, id: str = "") -> dict[str, Any]:
    """`u hi` is the user's, `a hello` the agent's; any other word is a kind of update."""
    kind = KINDS.get(words[0], words) if words[1:2] == " " else words
    told: dict[str, Any] = {"sessionUpdate": kind, "content": {"type": "text", "text": words}}
    if id:
        told["messageId"] = id
    return {"sessionId": "s", "update": told}


def conversation(*words: str, ids: bool = False) -> list[dict[str, Any]]:
    return [update(each, f"m-{number}" if ids else "") for number, each in enumerate(words)]


def told(replay: Replay, updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of a whole replay is told."""
    made = [one for given in updates for one in replay.take(given)]
    return made + replay.settle()


ONE = ("u hi", "a hello")
TWO = ("u hi", "a hello", "u bye", "t hm", "a good bye")


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("ids", [False, True])
def test_a_repeated_conversation_is_told_once(times: int, ids: bool) -> None:
    counters: Counter[str] = Counter()
    replay = Replay(counters)
    whole = conversation(*TWO, ids=ids)
    assert told(replay, whole * times) == whole
    assert counters["replayed_again"] == len(whole) * (times - 1)
    assert replay.count == len(whole) * times


def test_one_exchange_is_known_again_by_its_ids() -> None:
    whole = conversation(*ONE, ids=True)
    assert told(Replay(Counter()), whole * 2) == whole
    later = update("u and then", "m-9")
    assert told(Replay(Counter()), [*whole, *whole, later]) == [*whole, later]


@pytest.mark.parametrize(
    "words",
    [
        ONE * 4,  # somebody says hello every day
        (*TWO, *ONE),
        (*TWO, *TWO, "u more"),
        (*TWO, *TWO, "u hi"),
        ("u hi", "u hi", "a hello"),
        ("a hello", "a hello"),
        ("u a", "u b", "u a", "u a"),
    ],
)
def test_people_repeat_themselves(words: tuple[str, ...]) -> None:
    whole = conversation(*words)
    assert told(Replay(Counter()), whole) == whole


def test_a_beginning_that_is_repeated_does_not_hide_the_whole() -> None:
    whole = conversation("u hi", "a hello", "u hi", "a hello", "u bye", "a good bye")
    assert told(Replay(Counter()), whole * 2) == whole


def test_what_is_no_conversation_is_told_at_once() -> None:
    replay = Replay(Counter())
    whole = conversation(*TWO)
    for given_now in whole:
        replay.take(given_now)
    assert replay.take(whole[0]) == []
    usage = update("usage_update")
    assert replay.take(usage) == [usage]
    assert replay.count == len(whole) + 1
    assert replay.settle() == [whole[0]]


def test_once_it_is_over_only_a_whole_repetition_is_left_out() -> None:
    replay = Replay(Counter())
    whole = conversation(*ONE)
    told(replay, whole)
    replay.open = False
    live = update("a live")
    assert told(replay, [*whole, live]) == [live]
    assert told(replay, [whole[0], live]) == [whole[0], live]
    assert told(replay, [live, live]) == [live, live]


def test_what_is_compared_is_bounded(mocker: Any) -> None:
    mocker.patch.object(limits, "REPLAY_COMPARED", 3)
    whole = conversation(*TWO, ids=True)
    replay = Replay(Counter())
    told(replay, whole)
    assert len(replay._told) == 3


def test_what_is_held_is_bounded(mocker: Any) -> None:
    mocker.patch.object(limits, "REPLAY_HELD", 200)
    whole = conversation("u hi", *(f"a {number}" for number in range(20)), ids=True)
    replay = Replay(Counter())
    assert told(replay, whole * 2) == whole * 2
    assert replay._held == []


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_cannot_be_written_is_compared_all_the_same(number: float) -> None:
    odd = update("u hi")
    odd["update"]["odd"] = number
    assert told(Replay(Counter()), [odd, update("a hello")]) == [odd, update("a hello")]


words = some.lists(some.sampled_from(["u a", "u b", "a a", "a b", "plan", "other"]), max_size=12)


@given(words, some.integers(1, 4))
def test_what_has_ids_is_told_once_whatever_it_is(said: list[str], times: int) -> None:
    number = count()
    whole = [update("u first", "m-first"), *(update(w, f"m-{next(number)}") for w in said)]
    plain = [one for one in whole if one["update"]["sessionUpdate"] != "other"]
    assert told(Replay(Counter()), plain * times) == plain


@given(words)
def test_nothing_is_lost_but_whole_repetitions(said: list[str]) -> None:
    whole = [one for one in conversation(*said) if one["update"]["sessionUpdate"] != "other"]
    made = told(Replay(Counter()), whole)
    assert made == whole[: len(made)]
    if made != whole:
        assert len(whole) % len(made) == 0
        assert made * (len(whole) // len(made)) == whole
