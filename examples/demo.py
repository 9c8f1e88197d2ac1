"""craze in one minute: a host, two clients, a permission, a lost client that comes back, a stop.

`make demo` runs this. It needs nothing but the package: the agent is craze's own fake one.
"""

import sys
from pathlib import Path

from stage import play

AGENT = Path(sys.executable).parent / "craze-fake-agent"

if __name__ == "__main__":
    play([str(AGENT), "-script", "permission"], "Run the tests, please.", 30.0, {})
