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


def on_thread(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Wait while a thread of the loop's pool does `work`; what it returns or raises.

    A pool reports by itself what is raised on a thread of its own, whoever handles it: so nothing
    is.
    """

    def run() -> tuple[Any, Exception | None]:
        try:
            return work(*args, **options), None
        except Exception as failure:
            return None, failure

    result, failure = gevent.get_hub().threadpool.apply(run)
    if failure is not None:
        raise failure
    return result
