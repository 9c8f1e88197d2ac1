import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from craze.machine import ready

OK = {
    "ok": True, "hostId": "0123456789ab", "socket": "/s", "crazeSessionId": "s-1",
    "crazeVersion": "0.2.0",
}  # fmt: skip


class Pipe:
    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def line(self) -> bytes:
        """All that was written; fails unless the writing end is closed."""
        os.set_blocking(self.reading, False)
        found = os.read(self.reading, 100_000)
        assert os.read(self.reading, 1) == b""
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    for fd in (pipe.reading, pipe.writing):
        try:
            os.close(fd)
        except OSError:
            continue


def inherited(pipe: Pipe) -> ready.ReadyPipe:
    environ = {"CRAZE_READY_FD": str(pipe.writing), "CRAZE_HOST_CHILD": "1", "A": "b"}
    os.set_inheritable(pipe.writing, True)
    taken = ready.inherit(environ)
    assert taken is not None and environ == {"A": "b"}
    assert not os.get_inheritable(pipe.writing)
    return taken


def test_nothing_was_passed() -> None:
    environ = {"CRAZE_HOST_CHILD": "1"}
    assert ready.inherit(environ) is None
    assert environ == {}


@pytest.mark.parametrize("given", ["", "x", "-1", "2", "3.0", "99999", "9" * 40, "٣"])
def test_what_is_no_pipe(given: str) -> None:
    environ = {"CRAZE_READY_FD": given}
    with pytest.raises(ValueError, match="CRAZE_READY_FD is not the descriptor of a pipe"):
        ready.inherit(environ)
    assert environ == {}


def test_a_file_is_no_pipe(root: Path) -> None:
    with open(root / "f", "w") as file, pytest.raises(ValueError):
        ready.inherit({"CRAZE_READY_FD": str(file.fileno())})


def test_each_line(pipe: Pipe) -> None:
    taken = inherited(pipe)
    assert taken.ok("0123456789ab", "/s", "s-1", "0.2.0")
    assert taken.failed("too late")
    line = pipe.line()
    assert line.endswith(b"\n") and json.loads(line) == OK
    assert list(json.loads(line)) == list(OK)
    assert ready.parse(line) == OK
    taken.close()


@pytest.mark.parametrize(
    ("say", "said"),
    [
        (lambda p: p.failed("e"), {"ok": False, "error": "e"}),
        (lambda p: p.refused("e"), {"ok": False, "error": "e", "refused": True}),
        (
            lambda p: p.held("e", "s-1", "0123456789ab", 7),
            {"ok": False, "error": "e",
             "held": {"hostId": "0123456789ab", "pid": 7, "crazeSessionId": "s-1"}},
        ),
        (
            lambda p: p.held("e", "s-1", "0123456789ab"),
            {"ok": False, "error": "e",
             "held": {"hostId": "0123456789ab", "crazeSessionId": "s-1"}},
        ),
        (
            lambda p: p.held("e", "s-1", "", 7),
            {"ok": False, "error": "e", "held": {"crazeSessionId": "s-1"}},
        ),
    ],
)  # fmt: skip
def test_what_failed(pipe: Pipe, say: object, said: dict[str, object]) -> None:
    assert say(inherited(pipe))  # type: ignore[operator]
    assert ready.parse(pipe.line()) == said


def test_a_starter_that_went(pipe: Pipe) -> None:
    taken = inherited(pipe)
    assert not taken.gone
    os.close(pipe.reading)
    assert taken.gone
    assert not taken.ok("0123456789ab", "/s", "s-1", "0.2.0")
    assert not taken.gone


def test_an_end_without_a_line(pipe: Pipe) -> None:
    inherited(pipe).close()
    assert pipe.line() == b""


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"[]", b"{}", b'{"ok":1}', b'{"ok":false}', b'{"ok":false,"error":1}',
        b"[" * 30_000,
        *(json.dumps(OK | {"more": change} | change).encode() for change in (
            {"hostId": "x"}, {"socket": "s"}, {"crazeSessionId": "a/b"}, {"crazeVersion": ""},
            {"error": "e"}, {"held": {}}, {"refused": False},
        )),
        *(json.dumps({"ok": False, "error": "e", "held": held}).encode() for held in (
            None, [], {}, {"crazeSessionId": ""}, {"crazeSessionId": "s", "pid": -1},
            {"crazeSessionId": "s", "pid": 2**31, "hostId": "0123456789ab"},
            {"crazeSessionId": "s", "pid": True}, {"crazeSessionId": "s", "pid": 7},
        )),
    ],
)  # fmt: skip
def test_what_is_no_ready_line(line: bytes) -> None:
    with pytest.raises(ValueError):
        ready.parse(line)


def test_unknown_members_are_ignored() -> None:
    assert ready.parse(json.dumps(OK | {"newer": 1}).encode())["hostId"] == "0123456789ab"
