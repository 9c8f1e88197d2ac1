"""A lane step by step, without a view: each thing is asked for, and then read off the stream.

    python examples/drive_by_hand.py local /home/me/project "Say hello."

It creates a session, sends it the prompt, changes its title, stops it, and prints every frame.
"""

import sys
from collections.abc import Callable

import gevent

from craze.wire.plain import plain_line
from craze_shed import LaneError, Subscription
from craze_shed.config import named
from craze_shed.contract import errors, frames
from craze_shed.contract.creating import LaneCreateRequest, new_request_id
from craze_shed.contract.frames import LaneFrame
from craze_shed.contract.rows import IDLE

PATIENCE_S = 120.0


def until(stream: Subscription[LaneFrame], what: str, holds: Callable[[LaneFrame], bool]) -> None:
    """Print frames up to the first of which `holds` says so."""
    while (frame := stream.next(PATIENCE_S)) is not None:
        print("  " + plain_line(frames.encode(frame).decode()), flush=True)
        if holds(frame):
            return
    raise SystemExit(f"the stream ended before {what}, or said nothing for {PATIENCE_S:g} s")


def main(machine: str, directory: str, prompt: str) -> None:
    with named(machine).source() as source:
        request = LaneCreateRequest(cwd=directory, request_id=new_request_id())
        try:
            made = source.create(request)
        except LaneError as failure:
            if not errors.is_outcome_unknown(failure):
                raise SystemExit(plain_line(str(failure))) from None
            made = source.create(request)  # the same id: there will be no second session
        print(f"created {plain_line(made.session.id)}")

        lane = source.open(made.session.id)
        with lane.subscribe() as stream:
            until(stream, "the seed", lambda frame: isinstance(frame, frames.Ready))

            lane.send(prompt)
            print("sent")
            until(stream, "the turn", lambda frame: is_row(frame, "user"))
            until(stream, "its end", lambda frame: is_idle(frame))

            lane.set_title("Driven by hand")
            print("renamed")
            until(stream, "the title", lambda frame: "Driven by hand" in str(frame))

            lane.stop()
            print("stopped")  # which is a receipt: the end is the stream's
            until(stream, "the end", lambda frame: isinstance(frame, frames.Down))


def is_row(frame: LaneFrame, role: str) -> bool:
    return isinstance(frame, frames.Message) and frame.message.role == role


def is_idle(frame: LaneFrame) -> bool:
    return isinstance(frame, frames.Session) and frame.session.activity == IDLE


if __name__ == "__main__":
    gevent.get_hub().NOT_ERROR += (KeyboardInterrupt,)  # which is not to be reported
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
