"""How long to wait before the next try. Pure: it neither waits nor rolls dice."""


def next_delay(current: float, base: float, limit: float, *, worked: bool) -> float:
    """The seconds of the next wait after one of `current`: the base once what was tried has
    worked, else twice as long, up to `limit`."""
    return base if worked else min(2 * current, limit)


def jittered(delay: float, chance: float) -> float:
    """`delay` shortened to somewhere in its upper half; `chance` is random, in [0, 1)."""
    return delay * (0.5 + chance / 2)
