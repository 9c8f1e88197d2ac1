"""Put whatever a session asks to the person at the terminal, and answer it:

    python examples/answer_approvals.py local 0123456789ab

What is asked is over when the session says so, not when it was answered: another client may have
been first, and an answer may be lost on its way.
"""

import sys

import gevent
from gevent.event import Event

from craze.wire.plain import plain_line
from craze_shed import LaneError, OpenLane
from craze_shed.config import named
from craze_shed.contract.answers import Choice, LaneAnswer, Question
from craze_shed.contract.approvals import LaneApproval, LaneApprovalOption


def main(machine: str, session: str) -> None:
    with named(machine).source() as source:
        changed = Event()
        lane = OpenLane(source.open(session), on_change=changed.set)
        answered: set[str] = set()
        while changed.wait() and not lane.finished:
            changed.clear()
            pending = lane.snapshot().approvals
            for gone in answered - {approval.id for approval in pending}:
                answered.discard(gone)
                print(f"-- {plain_line(gone)} is answered", flush=True)
            for approval in pending:
                if approval.id not in answered:
                    answered.add(approval.id)
                    put(lane, approval)


def put(lane: OpenLane, approval: LaneApproval) -> None:
    print(plain_line(approval.title), plain_line(approval.detail or ""))
    answer: LaneAnswer
    if approval.questions:
        chosen = []
        for question in approval.questions:
            print(plain_line(question.question))
            chosen.append((pick(question.options),))
        answer = Question(tuple(chosen))
    else:
        answer = Choice(pick(approval.options))
    try:
        lane.answer(approval.id, answer)
    except LaneError as failure:  # it was too late, it does not fit, or nobody knows
        print(f"-- {plain_line(str(failure))}", flush=True)


def pick(options: tuple[LaneApprovalOption, ...]) -> str:
    """The id of the option that the person takes."""
    for number, option in enumerate(options, 1):
        print(f"  {number}  {plain_line(option.label)}")
    while True:
        print("which? ", end="", flush=True)
        # On a thread, for the lane goes on meanwhile.
        line = gevent.get_hub().threadpool.apply(sys.stdin.readline)
        if not line:
            raise SystemExit("nobody answers")
        if line.strip().isdigit() and 1 <= int(line) <= len(options):
            return options[int(line) - 1].id


if __name__ == "__main__":
    gevent.get_hub().NOT_ERROR += (KeyboardInterrupt,)  # which is not to be reported
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
