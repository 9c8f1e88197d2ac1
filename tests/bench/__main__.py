"""`python -m tests.bench [NAME...]`: run the benchmarks, all of them or those named."""

import importlib
import sys

from tests.bench.measure import HEADING

NAMES = (
    "decoder", "roundtrip", "fanout", "attach", "start", "memory", "idle", "splice", "hub", "fold",
    "lanes",
)  # fmt: skip


def main() -> None:
    asked = sys.argv[1:] or NAMES
    unknown = [name for name in asked if name not in NAMES]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    print(HEADING)
    for name in asked:
        bench = importlib.import_module(f"tests.bench.{name}")
        for measure in bench.run():
            print(measure, flush=True)


if __name__ == "__main__":
    main()
