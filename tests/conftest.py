"""What every test leaves behind is looked at: greenlets, descriptors, children, and files."""

import os
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import gevent
import pytest

from craze import greenlets

_LIVE: "weakref.WeakSet[gevent.Greenlet]" = weakref.WeakSet()
_spawn = greenlets.spawn


def _recorded(*args: object, **options: object) -> gevent.Greenlet:
    greenlet = _spawn(*args, **options)  # type: ignore[arg-type]
    _LIVE.add(greenlet)
    return greenlet


greenlets.spawn = _recorded  # type: ignore[assignment]


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the listing's own
    return found


def _children() -> set[str]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(path.read_text().split()) if path.exists() else set()


def _settled(left: Callable[[], object]) -> object:
    """What `left` still finds after a second of the loop running."""
    deadline = time.monotonic() + 1
    while (found := left()) and time.monotonic() < deadline:
        gevent.sleep(0.01)
    return found


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a greenlet, a descriptor or a child process behind."""
    gevent.get_hub().threadpool.apply(lambda: None)  # what the loop itself opens, it opens now
    before, children = _descriptors(), _children()
    yield

    def left() -> list[str]:
        found = [repr(greenlet) for greenlet in list(_LIVE) if not greenlet.dead]
        found += [
            f"descriptor {number} on {target}"
            for number, target in _descriptors().items()
            if number not in before
        ]
        return found + [f"child {pid}" for pid in _children() - children]

    found = _settled(left)
    assert not found, f"{request.node.nodeid} left behind: {found}"
