"""One list over several machines of the sessions that want the person, and why:

    python examples/who_needs_me.py local ssh:that-machine

It is printed anew whenever it changes. A machine that cannot be reached keeps its rows, marked:
they may not be so any more.
"""

import contextlib
import sys
from collections.abc import Mapping

import gevent
from gevent.event import Event

from craze.wire.plain import plain_line
from craze_shed.config import named
from craze_shed.contract.rows import NEEDS_APPROVAL, NEEDS_INPUT
from craze_shed.lines import LIVE
from craze_shed.machine import CrazeMachine


def wanting(machines: Mapping[str, CrazeMachine]) -> list[str]:
    """The list's lines: whoever has waited longest comes first."""
    rows = []
    for word, machine in machines.items():
        status = machine.status
        mark = "" if status.state == LIVE else f"  ({status.cause}, as last known)"
        for row in machine.rows:
            if row.activity in (NEEDS_APPROVAL, NEEDS_INPUT):
                why = row.head_ask_summary or f"{row.pending_approvals} answers"
                line = plain_line(f"{word}  {row.id}  {row.title}: {why}")
                rows.append((row.since_unix_ms or 0, line + mark))
    return [line for _, line in sorted(rows)]


def main(words: list[str]) -> None:
    changed = Event()
    told = None
    with contextlib.ExitStack() as held:
        machines = {
            word: held.enter_context(named(word).kept(on_change=changed.set)) for word in words
        }
        while changed.wait():
            changed.clear()
            lines = wanting(machines)
            if lines != told:
                told = lines
                print("\n".join(lines) or "nobody", end="\n\n", flush=True)


if __name__ == "__main__":
    gevent.get_hub().NOT_ERROR += (KeyboardInterrupt,)  # which is not to be reported
    try:
        main(sys.argv[1:] or ["local"])
    except KeyboardInterrupt:
        sys.exit(130)
