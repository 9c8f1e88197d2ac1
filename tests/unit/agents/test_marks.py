"""The mark of an agent's processes, against real ones."""

import os
import subprocess
import time

import pytest

from craze.agents import marks


def test_b20_what_carries_the_mark_is_found_in_any_session_and_killed() -> None:
    mark = marks.fresh()
    agent = subprocess.Popen(
        ["/bin/sh", "-c", "setsid sleep 60 & exec sleep 60"],
        env={**os.environ, marks.NAME: mark},
        start_new_session=True,
    )
    deadline = time.monotonic() + 10
    while len(marks.carriers(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert agent.pid in marks.carriers(mark)
    assert len(marks.carriers(mark)) == 2
    while marks.kill(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert marks.carriers(mark) == []
    assert agent.wait() == -9


@pytest.mark.parametrize("mark", ["", "0", "=", marks.fresh()[:-1]])
def test_what_is_no_mark_never_matches(mark: str) -> None:
    with pytest.raises(ValueError, match="no mark"):
        marks.kill(mark)


def test_nothing_carries_a_fresh_mark() -> None:
    assert not marks.kill(marks.fresh())
