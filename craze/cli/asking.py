"""One question of a command's to the hub, which is found or started for it.

The answer is handed on as the bytes it came in. A connection that is lost before it, or a hub that
is leaving, costs one more try with the very same question: only what may be repeated is asked so.
"""

import os
import time
from collections.abc import Iterable
from typing import Any

import gevent

import craze
from craze.client import hubs
from craze.client.errors import Refused
from craze.hub.link import Link, Lost, NoAnswer
from craze.machine.durations import format_duration
from craze.machine.errors import MachineError
from craze.machine.paths import Paths
from craze.wire import json
from craze.wire.limits import HUB_FIND

_LAST_TRY = 2


class Unanswered(Exception):
    """There is no answer; its text is why. `sent` says whether a hub may have heard the question,
    and may have done what it asks for."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


def ask(
    paths: Paths,
    name: str,
    method: str,
    params: dict[str, Any],
    *,
    seconds: float,
    needs: Iterable[str] = (),
) -> bytes:
    """What the hub answers to `method`, as raw JSON, within `seconds`.

    `name` is the command's, `needs` what the hub has to be able to do (keys of hubs.ABILITIES).
    Raises Unanswered, and Refused.
    """
    until = time.monotonic() + seconds
    needs = tuple(needs)
    sent = False
    tries = 0
    while True:
        tries += 1
        try:
            found = hubs.find_or_start(
                paths, os.environ, needs=needs, budget=min(HUB_FIND, _left(until))
            )
            with greeted(found.socket, name, _left(until)) as link:
                sent = True
                return link.ask(method, params, _left(until))
        except MachineError as failure:
            raise Unanswered(str(failure), sent=sent) from None
        except NoAnswer:
            why = f"the hub gave no answer within {format_duration(seconds)}"
            raise Unanswered(why, sent=sent) from None
        except Lost:
            if tries == _LAST_TRY:
                why = "the connection to the hub was lost before it answered"
                raise Unanswered(why, sent=sent) from None
        except Refused as refused:
            if tries == _LAST_TRY or refused.reason != "closing":
                raise


def interruptible() -> None:
    """Let Ctrl-C end what waits in the loop without the loop's own report of it."""
    loop = gevent.get_hub()
    if KeyboardInterrupt not in loop.NOT_ERROR:
        loop.NOT_ERROR = (*loop.NOT_ERROR, KeyboardInterrupt)


def greeted(path: str, name: str, seconds: float) -> Link:
    """A connection to the hub or host at `path`, to which the command `name` has said hello.

    Raises Lost, and Refused.
    """
    until = time.monotonic() + seconds
    link = Link(path, seconds)
    try:
        client = {"kind": "cli", "name": name, "version": craze.__version__}
        hello = json.parse(link.ask("hello", {"protocols": [1], "client": client}, _left(until)))
        endpoint = hello.get("endpoint") if isinstance(hello, dict) else None
        version = endpoint.get("crazeVersion") if isinstance(endpoint, dict) else None
        link.version = version if isinstance(version, str) else ""
    except BaseException:
        link.close()
        raise
    return link


def _left(until: float) -> float:
    return max(0.001, until - time.monotonic())
