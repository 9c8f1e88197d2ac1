"""A lane held open by a client: its subscription folded into a view, opened again where it may be,
and let go of the moment the session is over.

An ended lane stays readable. It holds no connection, and every new verb on it is refused; one that
is under way runs its course.
"""

import random
from collections.abc import Callable
from typing import TypeVar

import gevent
from gevent.event import Event

from craze import greenlets
from craze_shed import backoff
from craze_shed.contract import errors, frames
from craze_shed.contract.answers import LaneAnswer
from craze_shed.contract.frames import LaneFrame
from craze_shed.contract.interfaces import AgentLane
from craze_shed.contract.publisher import Subscription
from craze_shed.contract.settings import LaneSettingChange
from craze_shed.course import Course, Next
from craze_shed.view import LaneView, LaneViewSnapshot

T = TypeVar("T")

STREAM_ENDED = "the stream ended"  # a lane's that never said Down


class OpenLane:
    """One lane, from its opening until its panel closes. The lane is this object's to close.

    `on_change()` is called after each frame that was folded, and by whoever ends the lane; it must
    not wait or raise. `chance()` is what jitters the waits before a reopening, in [0, 1).
    """

    def __init__(
        self,
        lane: AgentLane,
        on_change: Callable[[], object] = lambda: None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.session_id = lane.session_id()
        self.view = LaneView()
        self._lane: AgentLane | None = lane
        self._course = Course()
        self._on_change = on_change
        self._chance = chance
        self._subscription: Subscription[LaneFrame] | None = None
        self._under_way = 0
        self._over = Event()
        self._pump = greenlets.spawn(f"lane {self.session_id}", self._follow, on_error=self._broken)

    def __repr__(self) -> str:
        state = "finished" if self.finished else repr(self.view)
        return f"<OpenLane {self.session_id}: {state}>"

    @property
    def finished(self) -> bool:
        """Whether the lane is over for good: nothing will open it again."""
        return self._course.finished

    def snapshot(self, since_seq: int | None = None) -> LaneViewSnapshot:
        """What the lane shows, also after its end."""
        return self.view.snapshot(since_seq)

    # The verbs, as AgentLane has them. On a finished lane each raises ClientError `lane_ended`.

    def send(self, text: str, mode: str = "queue") -> None:
        self._ask(lambda lane: lane.send(text, mode))

    def cancel(self) -> None:
        self._ask(lambda lane: lane.cancel())

    def answer(self, approval_id: str, answer: LaneAnswer) -> None:
        self._ask(lambda lane: lane.answer(approval_id, answer))

    def set(self, change: LaneSettingChange) -> None:
        self._ask(lambda lane: lane.set(change))

    def set_title(self, title: str) -> str | None:
        return self._ask(lambda lane: lane.set_title(title))

    def stop(self) -> None:
        self._ask(lambda lane: lane.stop())

    def end(self, reason: str) -> None:
        """End the lane for one of the client's own final reasons. Ending it twice is harmless:
        the first reason stays."""
        if not self.finished:
            self._fold(frames.Down(reason))

    def close(self) -> None:
        """Let everything go, the panel with it. Closing twice is harmless."""
        self._course.finished = True
        self._let_go()
        if self._pump is not gevent.getcurrent():
            self._pump.join()

    def _ask(self, verb: Callable[[AgentLane], T]) -> T:
        lane = self._lane
        if self.finished or lane is None:
            raise errors.lane_ended()
        self._under_way += 1
        try:
            return verb(lane)
        finally:
            self._under_way -= 1
            if self.finished:
                self._release()

    def _follow(self) -> None:
        while not self.finished:
            self._subscribe()
            if not self.finished:
                self._over.wait(backoff.jittered(self._course.delay, self._chance()))

    def _subscribe(self) -> None:
        """Fold one subscription to its end."""
        lane = self._lane
        assert lane is not None  # it is let go of only when finished
        try:
            self._subscription = lane.subscribe()
        except errors.LaneError as failure:
            unknown = failure.variant == errors.UNKNOWN_SESSION
            self._fold(frames.Down(frames.UNKNOWN_SESSION if unknown else failure.message))
            return
        with self._subscription as stream:
            if self.finished:  # while it subscribed
                return
            for frame in stream:
                if self._fold(frame) is not Next.GO_ON:
                    return
        if not self.finished:
            self._fold(frames.Down(STREAM_ENDED))

    def _fold(self, frame: LaneFrame) -> Next:
        self.view.apply(frame)
        step = self._course.after(frame)
        if step is Next.FINISH:
            self._let_go()
        self._on_change()
        return step

    def _broken(self, failure: BaseException) -> None:
        # A fault of ours or of the adapter's; to try again would only meet it again.
        self.view.apply(frames.Down(f"internal error: {failure!r}"))
        self._course.finished = True
        self._let_go()
        self._on_change()

    def _let_go(self) -> None:
        self._over.set()
        if self._subscription is not None:
            self._subscription.close()
        self._release()

    def _release(self) -> None:
        if self._lane is not None and not self._under_way:
            lane, self._lane = self._lane, None
            lane.close()
