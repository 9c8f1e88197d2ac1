"""Faults of our own, as a log says them: what failed, where in the code, and nothing it was given.

The words of an exception may hold a client's text; only the system's own are repeated.
"""

import traceback
from collections.abc import Callable

import gevent


def describe(where: str, failure: BaseException) -> str:
    """One line: `where` it came up, its kind, and the last of our frames."""
    frames = traceback.extract_tb(failure.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    words = f": {failure.strerror}" if isinstance(failure, OSError) and failure.strerror else ""
    return f"{where}: {type(failure).__name__}{at}{words}"


def catch(report: Callable[[str, BaseException], None]) -> None:
    """Have `report`, and not stderr, hear of each greenlet's failure that nobody answers for."""

    def unowned(context: object, kind: type, failure: BaseException, _: object) -> None:
        report(getattr(context, "name", "loop"), failure)

    gevent.get_hub().print_exception = unowned
