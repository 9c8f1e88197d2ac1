"""Why a cursor cannot be honoured: the seven reasons (codecs 4.4) and the two ways to hear one.

A refusal comes before the attach's reply and is named in it. A replay that fails comes after that
reply, when part of the range may have been delivered; its reason is not on the wire.
"""

from typing import Final

REASONS: Final = (
    "foreign_incarnation",
    "future_seq",
    "backlog_too_large",
    "no_journal",
    "journal_gap",
    "journal_behind",
    "evicted",
)


class CursorRefused(Exception):
    """The cursor was refused before anything was replayed; `reason` is one of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ReplayFailed(Exception):
    """The journal's part of a replay broke off. `reason` is one of REASONS' last four."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
