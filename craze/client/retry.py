"""Commands past a gate that had no room: sent again under the same id until it has.

Nothing of such a command has run, or it still runs and the same id asks for its answer; every
other refusal is the caller's to decide about.
"""

from collections.abc import Callable
from typing import TypeVar

import gevent
import tenacity

from craze.client.bounds import Limits
from craze.client.errors import OutcomeUnknown, Refused

T = TypeVar("T")

GATES = frozenset(("unavailable", "in_progress"))


def through_gates(attempt: Callable[[], T], limits: Limits, deadline: float) -> T:
    """`attempt()`, again after each gate refusal, 10 ms to 1 s apart (protocol tables 1.8).

    Past `deadline` seconds of refusals: OutcomeUnknown (`no_answer`), the last of them as its
    cause. Anything else `attempt` raises passes through at once: kills and outer timeouts, too,
    which are no `Exception`s.
    """
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(at_a_gate),
        wait=tenacity.wait_exponential(multiplier=limits.gate_first, max=limits.gate_max),
        stop=tenacity.stop_after_delay(deadline),
        sleep=gevent.sleep,
        reraise=True,
    )
    try:
        return retrying(attempt)
    except Refused as refusal:
        if not at_a_gate(refusal):
            raise
        text = f"refused for {deadline:g} s, last: {refusal}"
        raise OutcomeUnknown("no_answer", text) from refusal


def at_a_gate(failure: BaseException) -> bool:
    """Whether the same command id should simply be sent again."""
    return isinstance(failure, Refused) and failure.code in GATES
