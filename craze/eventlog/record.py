"""A committed event as the log, the journal and every subscriber share it: encoded once.

A subscriber adds only its envelope around the body's bytes.
"""

from typing import Any


class Record:
    """One committed event.

    `body` is the event's JSON, `at` the event's time as it is written there. An event that no
    client can be sent has no body but `omitted`: its reason, and its size or its error (codecs
    4.3). `size` in bytes is what the record counts for in the ring and in a budget.
    """

    __slots__ = ("_line", "_subscription", "at", "body", "omitted", "seq", "size", "type")

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
        self._subscription = ""
        self._line = b""

    def __repr__(self) -> str:
        what = self.omitted["reason"] if self.omitted else f"{self.size} bytes"
        return f"<Record {self.seq} {self.type} {what}>"

    def line(self, subscription: str) -> bytes:
        """The whole `event` notification for that subscription id, newline included (tables 16).

        Raises ValueError for an omitted record, which ends the attachment instead.
        """
        # Most clients' attachments are their connection's first, so they share one line.
        if subscription == self._subscription:
            return self._line
        if self.omitted is not None:
            raise ValueError(f"record {self.seq} is omitted and has no line")
        # The envelope's one other writer is craze.wire.envelope; this is the hot path.
        self._line = (
            b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"%b","seq":%d,"event":%b}}\n'
            % (subscription.encode(), self.seq, self.body)
        )
        self._subscription = subscription
        return self._line

    def forget_line(self) -> None:
        """Let the cached line go: a record that has been handed round keeps its body alone."""
        self._subscription = ""
        self._line = b""
