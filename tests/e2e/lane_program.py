"""A program that holds a lane: `python -m tests.e2e.lane_program WHEN`.

WHEN says when it patches the standard library: `first`, before anything is imported; `last`, once
the library is imported; or `never`.
"""

import sys


def main() -> None:
    when = sys.argv[1]
    if when == "first":
        patch()
    from tests.e2e import lane_holder

    if when == "last":
        patch()
    lane_holder.main()


def patch() -> None:
    from gevent import monkey

    monkey.patch_all()


if __name__ == "__main__":
    main()
