"""What becomes of a lane that is held open: it goes on, is opened again, or is over for good."""

from enum import Enum
from typing import Final

from craze_shed import backoff
from craze_shed.contract import frames
from craze_shed.contract.frames import LaneFrame

REOPEN_FIRST: Final = 0.2  # seconds before a lane that went down is opened again
REOPEN_MAX: Final = 5.0


class Next(Enum):
    """What the holder of a lane does after a frame."""

    GO_ON = "go on"
    REOPEN = "reopen"  # after `delay`, subscribe again
    FINISH = "finish"  # let everything go: the lane is over for good


class Course:
    """Whether a lane goes on: a Down for a final reason finishes it, any other is reopened after
    a wait that doubles until a Ready."""

    __slots__ = ("_next", "delay", "finished")

    def __init__(self) -> None:
        self._next = REOPEN_FIRST
        self.delay = 0.0  # seconds before the reopening that was decided last, unjittered
        self.finished = False

    def after(self, frame: LaneFrame) -> Next:
        """What to do once `frame` has been folded."""
        if self.finished:
            return Next.FINISH
        if isinstance(frame, frames.Ready):
            self._next = REOPEN_FIRST
        if not isinstance(frame, frames.Down):
            return Next.GO_ON
        if frames.is_final(frame.reason):
            self.finished = True
            return Next.FINISH
        self.delay = self._next
        self._next = backoff.next_delay(self._next, REOPEN_FIRST, REOPEN_MAX, worked=False)
        return Next.REOPEN
