"""Looking at directories that are not craze's: a file system may hang, and nobody else waits.

Each look is made on a thread of a pool of its own, within a bound. Whoever asks the same of a path
whose look has not come back waits for that one, so that one dead mount holds one thread however
often it is asked for.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import gevent
from gevent.threadpool import ThreadPool

T = TypeVar("T")

LOOK = 2.0  # seconds
_AT_ONCE = 8


class NoAnswer(Exception):
    """A file system says nothing of a path; `str()` is one line."""

    def __init__(self) -> None:
        super().__init__(f"its file system does not answer within {LOOK:g}s")


class Directories:
    """The looks of one hub. A thread that hangs is given up with the process."""

    def __init__(self, seconds: float = LOOK) -> None:
        self._seconds = seconds
        self._pool = ThreadPool(_AT_ONCE)
        self._looking: dict[tuple[Any, str], Any] = {}

    def warm(self) -> None:
        """Load what a thread takes, while that is still there."""
        self.ask(os.path.isdir, "/")

    def check(self, path: str) -> bool:
        """Whether `path` is a directory; one that does not answer is none."""
        try:
            return self.ask(os.path.isdir, path)
        except NoAnswer:
            return False

    def ask(self, look: Callable[[str], T], path: str) -> T:
        """What `look(path)` gives or raises. Raises NoAnswer."""
        key = look, path
        outcome = self._looking.get(key)
        if outcome is None:
            if len(self._looking) >= _AT_ONCE:
                raise NoAnswer
            outcome = self._looking[key] = self._pool.spawn(self._look, look, path)
            outcome.rawlink(lambda _: self._looking.pop(key, None))
        with gevent.Timeout(self._seconds, NoAnswer()):
            result, failure = outcome.get()
        if failure is not None:
            raise failure
        return result  # type: ignore[no-any-return]

    @staticmethod
    def _look(look: Callable[[str], T], path: str) -> tuple[T | None, Exception | None]:
        # A pool reports by itself what is raised on a thread of its own.
        try:
            return look(path), None
        except Exception as failure:
            return None, failure
