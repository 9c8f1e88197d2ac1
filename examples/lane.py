"""The demo's last act, as a dashboard has it: a session that a source creates, driven over a lane
whose link is cut on the way.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from stage import Stage, title

from craze_shed import CrazeSource, Dialer, Subscription
from craze_shed.cli.text import created, lane_frame
from craze_shed.contract import frames
from craze_shed.contract.answers import Question
from craze_shed.contract.creating import LaneCreateRequest, new_request_id
from craze_shed.contract.frames import LaneFrame
from craze_shed.contract.rows import IDLE
from craze_shed.reach import LocalReach, Running

AGENT = Path(sys.executable).parent / "craze-fake-agent"


class Link(LocalReach):
    """A way to the machine that can be cut, as a network can."""

    newest: Running

    def run(self, line: str) -> Running:
        self.newest = super().run(line)
        return self.newest

    def cut(self) -> None:
        self.newest.close()


def act(stage: Stage, patience: float) -> None:
    """A lane from its creation to its end; raises SystemExit where it says nothing for so long."""
    with Link(env=stage.environment) as link:
        source = CrazeSource(Dialer(link, eager=True))

        title("As a dashboard does it: a source creates a session, and opens a lane to it")
        stage.take_for_cursor([str(AGENT), "-script", "ask"])  # which asks questions
        made = source.create(LaneCreateRequest(str(stage.work), "cursor", None, new_request_id()))
        say(created(made))
        lane = source.open(made.session.id)
        with lane.subscribe() as stream:
            until(stream, lambda frame: isinstance(frame, frames.Ready), patience)

            title("A prompt, whose turn asks something")
            lane.send("Which one?")
            asked = until(stream, lambda frame: isinstance(frame, frames.Approval), patience)
            assert isinstance(asked, frames.Approval)

            title("The link is cut, and made again: nothing is told anew, and the question stands")
            link.cut()
            until(stream, lambda frame: isinstance(frame, frames.Ready), patience)
            first, second = asked.approval.questions
            answer = (first.options[0].id,), tuple(option.id for option in second.options[:2])
            lane.answer(asked.approval.id, Question(answer))
            until(stream, is_idle, patience)

            title("A stop: the lane is down, for good")
            lane.stop()
            down = until(stream, lambda frame: isinstance(frame, frames.Down), patience)
            assert down == frames.Down(frames.SESSION_CLOSED)


def until(
    stream: Subscription[LaneFrame], holds: Callable[[LaneFrame], bool], patience: float
) -> LaneFrame:
    """Show a lane's frames up to the first of which `holds` says so."""
    deadline = time.monotonic() + patience
    while (left := deadline - time.monotonic()) > 0:
        frame = stream.next(left)
        if frame is None:
            break
        if not isinstance(frame, frames.Session | frames.Capabilities | frames.Settings):
            for line in lane_frame(frame):
                say(line)
        if holds(frame):
            return frame
    raise SystemExit(f"the lane said nothing of that within {patience:g} s")


def is_idle(frame: LaneFrame) -> bool:
    return isinstance(frame, frames.Session) and frame.session.activity == IDLE


def say(words: str) -> None:
    print(f"  {'lane':>6} | {words}", flush=True)
