"""The words for an agent's death."""

import pytest

from craze.agents import limits
from craze.agents.acp import failure
from craze.agents.acp.rpc import _error, seconds


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exit status 0"), (1, "exit status 1"), (-9, "signal: killed"), (-60, "signal: ")],
)
def test_how_it_ended(status: int, words: str) -> None:
    assert failure.exit_text(status).startswith(f"acp: agent exited: {words}")


def test_the_tail_is_only_of_a_failure_after_initialize() -> None:
    assert failure.exit_error(1, False, b"why").message == "acp: agent exited: exit status 1"
    assert failure.exit_error(0, True, b"why").message == "acp: agent exited: exit status 0"
    assert failure.exit_error(1, True, b"why").message == "acp: agent exited: exit status 1: why"
    assert failure.exit_error(1, True, b" \n\n").message == "acp: agent exited: exit status 1"


def test_b71_nothing_of_it_runs_in_a_terminal() -> None:
    said = (
        "\x1b]0;title\x07one\x1b[2J\r\n\n \t \n\x9b31mtwo\u202e\x00\x07\n"
        "\x1b]52;c;AAAA\x1b\\three\tfour\n"
    ).encode()
    assert failure.last_words(said) == "one / two / three four"


def test_it_is_cut_to_its_size() -> None:
    lines = b"".join(b"line %d\n" % n for n in range(200))
    words = failure.last_words(lines)
    assert words.endswith("line 198 / line 199")
    assert words.startswith("line ")
    assert len(words) <= limits.TAIL_TEXT
    assert len(failure.last_words("é".encode() * 600).encode()) <= limits.TAIL_TEXT


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        ({"code": -32603, "message": "Internal error", "data": {"details": "why"}}, "why", -32603),
        ({"code": -32603, "message": "Internal error", "data": "x"}, "Internal error", -32603),
        ({"code": 400, "message": "bad", "data": {"message": "no"}}, "bad", 400),
        ({"code": "x"}, "agent error", 0),
        ({"code": True, "message": 7}, "agent error", 0),
        ("words", "words", 0),
        (False, "False", 0),
    ],
)
def test_error_objects_of_every_kind(error: object, message: str, code: int) -> None:
    read = _error(error)
    assert (read.message, read.kind, read.code) == (message, "rpc", code)


@pytest.mark.parametrize(
    ("bound", "words"), [(90.0, "1m30s"), (120.0, "2m0s"), (45.0, "45s"), (0.2, "0.2s")]
)
def test_bounds_as_people_read_them(bound: float, words: str) -> None:
    assert seconds(bound) == words
