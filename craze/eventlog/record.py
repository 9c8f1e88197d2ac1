"""A committed event as the log, the journal and every subscriber share it: encoded once.

A subscriber adds only its envelope around the body's bytes.
"""

from typing import Any, Final


class Record:
    """One committed event.

    `body` is the event's JSON, `at` the event's time as it is written there. An event that no
    client can be sent has no body but `omitted`: its reason, and its size or its error (codecs
    4.3). `size` in bytes is what the record counts for in the ring and in a budget.
    """

    __slots__ = ("at", "body", "omitted", "seq", "size", "type")

    def __init__(
        self,
        seq: int,
        type: str,
        at: str,
        body: bytes,
        omitted: dict[str, Any] | None = None,
    ) -> None:
        self.seq = seq
        self.type = type
        self.at = at
        self.body = body
        self.omitted = omitted
        self.size = len(body)
        if omitted is not None:
            self.size += len(omitted.get("error", "").encode(errors="replace"))

    def __repr__(self) -> str:
        what = self.omitted["reason"] if self.omitted else f"{self.size} bytes"
        return f"<Record {self.seq} {self.type} {what}>"

    def line(self, subscription: str) -> bytes:
        """The whole `event` notification for that subscription id, newline included (tables 16).

        Raises ValueError for an omitted record, which ends the attachment instead.
        """
        global _latest
        record, shared, line = _latest
        if record is self and shared == subscription:
            return line
        if self.omitted is not None:
            raise ValueError(f"record {self.seq} is omitted and has no line")
        head = _heads.get(subscription)
        if head is None:
            if len(_heads) == _HEADS:
                _heads.clear()
            head = _heads[subscription] = _HEAD % subscription.encode()
        line = b'%b%d,"event":%b}}\n' % (head, self.seq, self.body)
        _latest = self, subscription, line
        return line


# The envelope's one other writer is craze.wire.envelope; this is the hot path.
_HEAD: Final = b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"%b","seq":'
_HEADS: Final = 256  # subscription ids that it is kept for: `s-1`, `s-2`, …
_heads: dict[str, bytes] = {}

# A record goes to its readers one after the other, and most clients' attachments are their
# connection's first: they share one line. It is the only one kept.
_latest: tuple[Record | None, str, bytes] = (None, "", b"")
