"""Every greenlet is owned: spawned here with a name, its failure handed to what it serves.

Nothing fails silently: an exception that is not a kill goes to `on_error`, and where the owner gave
none, to the loop's own report on stderr.
"""

from collections.abc import Callable
from typing import Any

import gevent


def spawn(
    name: str,
    work: Callable[..., Any],
    *args: Any,
    on_error: Callable[[BaseException], None] | None = None,
) -> gevent.Greenlet:
    """Run `work(*args)` in a greenlet called `name`; `on_error(exception)` hears of its failure.

    `on_error` runs in the failed greenlet as it ends, for every exception but GreenletExit: also
    for a stray gevent.Timeout, which is no `Exception`.
    """

    def run() -> None:
        try:
            work(*args)
        except gevent.GreenletExit:
            raise
        except BaseException as failure:
            if on_error is None:
                raise
            on_error(failure)

    greenlet = gevent.Greenlet(run)
    greenlet.name = name
    greenlet.start()
    return greenlet
