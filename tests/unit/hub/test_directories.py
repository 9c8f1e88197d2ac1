"""Looks at directories that may never come back: bounded, shared, and nobody else's wait."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import gevent
import pytest

from craze import greenlets
from craze.hub import directories
from craze.hub.directories import Directories, NoAnswer


@pytest.fixture
def looks() -> Iterator[Directories]:
    made = Directories(seconds=0.05)
    yield made
    made._pool.kill()


@pytest.fixture
def hung() -> Iterator[Callable[[str], bool]]:
    """A look that hangs until the test is over."""
    over = threading.Event()

    def look(path: str) -> bool:
        over.wait()
        return True

    yield look
    over.set()


def test_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    made = Directories()
    (tmp_path / "file").touch()
    assert made.check(str(tmp_path))
    assert not made.check(str(tmp_path / "file"))
    assert not made.check(str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        made.ask(os.stat, str(tmp_path / "gone"))
    made._pool.kill()


def test_a_dead_mount_holds_one_thread_however_often_it_is_asked_for(
    looks: Directories, hung: Callable[[str], bool], tmp_path: Path
) -> None:
    for _ in range(20):
        with pytest.raises(NoAnswer, match="its file system does not answer within 2s"):
            looks.ask(hung, "/dead")
    assert len(looks._looking) == 1
    assert looks.check(str(tmp_path))


def test_as_many_dead_mounts_as_there_are_threads_are_refused_at_once(
    looks: Directories, hung: Callable[[str], bool]
) -> None:
    for number in range(directories._AT_ONCE + 3):
        with pytest.raises(NoAnswer):
            looks.ask(hung, f"/dead/{number}")
    assert len(looks._looking) == directories._AT_ONCE


def test_one_that_wakes_up_answers_again(looks: Directories) -> None:
    asleep = threading.Event()

    def look(path: str) -> bool:
        asleep.wait()
        return True

    with pytest.raises(NoAnswer):
        looks.ask(look, "/slow")
    asleep.set()
    with gevent.Timeout(10):
        while looks._looking:
            gevent.sleep(0.01)
    assert looks.ask(look, "/slow")


def test_who_waits_for_a_look_keeps_the_loop_going(
    looks: Directories, hung: Callable[[str], bool]
) -> None:
    turns = []
    waiting = greenlets.spawn("look", looks.check, "/dead")
    with pytest.raises(NoAnswer):
        looks.ask(hung, "/dead")
    turns.append(waiting.ready())
    waiting.join()
    assert turns
