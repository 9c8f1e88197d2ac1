"""Which session a person means by `--session`: the first tier with any match decides.

Exact ids, then a suffix of the craze session id (what the session list shows), then its prefix,
then a prefix of the host id.
"""

from collections.abc import Callable, Iterable

from .registry import Entry

_PART = 4  # fewer characters of an id name nothing

_TIERS: tuple[tuple[int, Callable[[Entry, str], bool]], ...] = (
    (1, lambda entry, text: text in (entry.crazeSessionId, entry.providerSessionId, entry.hostId)),
    (_PART, lambda entry, text: entry.crazeSessionId.endswith(text)),
    (_PART, lambda entry, text: entry.crazeSessionId.startswith(text)),
    (_PART, lambda entry, text: entry.hostId.startswith(text)),
)


def match(entries: Iterable[Entry], text: str) -> list[Entry]:
    """The live hosts that `text`, a token, names: none, one, or several it cannot tell apart."""
    hosts = list(entries)
    for least, names in _TIERS:
        if len(text) >= least and (found := [entry for entry in hosts if names(entry, text)]):
            return found
    return []
