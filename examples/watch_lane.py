"""Print a session's transcript as it grows, whatever happens to the connection:

    python examples/watch_lane.py local 0123456789ab
    python examples/watch_lane.py ssh:that-machine 0123456789ab

The session's ids are what `craze-shed sessions` lists.
"""

import sys

import gevent
from gevent.event import Event

from craze.wire.plain import plain
from craze_shed import OpenLane
from craze_shed.config import named
from craze_shed.contract.rows import FeedMessage


def main(machine: str, session: str) -> None:
    with named(machine).source() as source:
        changed = Event()
        lane = OpenLane(source.open(session), on_change=changed.set)
        seen: int | None = None
        told: str | None = ""
        while changed.wait():
            changed.clear()
            shown = lane.snapshot(seen)  # the rows after the last one that was printed, or all
            if shown.full and seen is not None:
                print("-- once more, from the beginning")
            for row in shown.messages:
                seen = row.seq
                show(row)
            if shown.generation and shown.banner != told:
                told = shown.banner  # not live, or ended; None: live
                print(f"-- {plain(told) if told else 'live'}", flush=True)
            if lane.finished:
                return


def show(row: FeedMessage) -> None:
    said = row.text or ""
    if row.tool:
        said += f" ({row.tool.name}: {row.tool.detail})"
    print(plain(f"{row.role:>9} | {said.strip()}"), flush=True)  # nothing acts on the terminal


if __name__ == "__main__":
    gevent.get_hub().NOT_ERROR += (KeyboardInterrupt,)  # which is not to be reported
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
