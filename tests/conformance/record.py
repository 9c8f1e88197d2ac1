"""Fills in a scenario's bare `s2c` steps from a run: `python -m tests.conformance.record FILE…`.

What it writes is what the host says, right or wrong: hold it against the protocol's tables.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.conformance.runner import Runner


def record(path: Path) -> None:
    """Run the scenario at `path` and write it back with every message in place."""
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(path, Path(folder), record=True)
        try:
            runner.run()
        finally:
            lines = []
            said = iter(runner.recorded)
            for line in path.read_text().splitlines():
                step = json.loads(line) if line.strip() else {}
                if step.get("dir") == "s2c" and "msg" not in step:
                    message = next(said, "")
                    line = (
                        f'{{"conn":{step["conn"]},"dir":"s2c","msg":{message}}}'
                        if message
                        else line
                    )
                lines.append(line)
            path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        record(Path(name))
