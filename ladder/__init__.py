"""Find craze on a machine and run it there: the line that does it, and what came of it.

    subprocess.run(ladder.argv(ladder.line(ladder.BRIDGE)))                       # on this machine
    subprocess.run(["ssh", host, "--", ladder.remote(ladder.line(ladder.PROBE))])  # on another

Nothing here starts anything. `python -m ladder --where` says where craze is looked for.
"""

from ladder.line import (
    BRIDGE,
    BRIDGE_NO_START,
    PROBE,
    argv,
    attach,
    line,
    remote,
    where,
)
from ladder.outcome import Kind, Noise, Outcome, dialled, no_hub_on, probed

__all__ = [
    "BRIDGE",
    "BRIDGE_NO_START",
    "PROBE",
    "Kind",
    "Noise",
    "Outcome",
    "argv",
    "attach",
    "dialled",
    "line",
    "no_hub_on",
    "probed",
    "remote",
    "where",
]
