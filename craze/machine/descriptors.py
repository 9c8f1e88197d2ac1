"""How many descriptors this process may hold: raised for a hub, as it was for what it starts.

A program that still waits with `select` breaks on a number past 1024, so no child inherits more
than this process was given.
"""

import contextlib
import resource
from collections.abc import Iterator

_given: list[tuple[int, int]] = []  # the limit before it was raised


def raise_limit() -> None:
    """Allow this process as many descriptors as it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return  # macOS has a lower limit of its own than the one it tells
    _given[:] = [(soft, hard)]


@contextlib.contextmanager
def as_given() -> Iterator[None]:
    """The limit as this process was given it, for a child to inherit."""
    if not _given:
        yield
        return
    raised = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, _given[0])
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, raised)
