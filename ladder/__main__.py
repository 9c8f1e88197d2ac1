"""`python -m ladder bridge --hub` prints the line that runs that; `--where` runs the one that says
where craze is looked for on this machine."""

import os
import sys

from ladder.line import SHELL, argv, line, where

USAGE = """\
usage: python -m ladder ARGUMENT...   print the sh line that finds craze and runs it with these
       python -m ladder --where       print where craze is looked for here, and what is there
"""


def main(arguments: list[str]) -> int:
    if arguments == ["--where"]:
        os.execv(SHELL, argv(where()))
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    try:
        print(line(arguments))
    except ValueError as failure:
        print(f"ladder: {failure}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
