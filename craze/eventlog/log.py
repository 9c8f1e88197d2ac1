"""The event log of one session: it numbers events, encodes each once, and hands them round.

A commit is one step that never waits: number, encode, ring, observer (the fold), every
subscription, journal, and then the wakes. There is no I/O here: the journal is given, and what it
does is its own affair.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from craze.clock import Clock
from craze.eventlog.cursors import CursorRefused, ReplayFailed
from craze.eventlog.record import Record
from craze.eventlog.ring import Ring
from craze.eventlog.stamp import Stamper
from craze.eventlog.subscription import Subscription
from craze.wire import json, limits

Event = dict[str, Any]


class LogJournal(Protocol):
    """What the log asks of its journal (`craze.eventlog.journal.Journal`)."""

    def event(self, record: Record) -> None:
        """Queue the record; never waits and never fails."""

    def diag(self, kind: str, fields: dict[str, Any]) -> None:
        """Queue a note for whoever reads the journal."""

    def missing(self, low: int, high: int) -> str:
        """Why the records `low` to `high` cannot come from the file (codecs 4.4), or ""."""

    def replay(self, low: int, high: int) -> Iterator[Record]:
        """The records `low` to `high` from the file. Raises ReplayFailed."""

    def close(self) -> None:
        """Write what is queued, and wait for that a little."""


class EventLog:
    """The log of one incarnation of a session; seqs start at 1 and have no gaps (codecs 4.1).

    `observer(seq, event)` hears of every event as it is committed, an omitted one included. It and
    the subscriptions' wakes run inside the commit: they must not wait, and a wake must not raise.
    """

    __slots__ = (
        "_clock",
        "_journal",
        "_observer",
        "_record_bytes",
        "_ring",
        "_stamp",
        "_subscriptions",
        "closed",
        "head",
        "incarnation",
    )

    def __init__(
        self,
        incarnation: str,
        clock: Clock,
        *,
        observer: Callable[[int, Event], None],
        journal: LogJournal | None = None,
        ring_events: int = limits.RING_EVENTS,
        ring_bytes: int = limits.RING_BYTES,
        record_bytes: int = limits.RECORD,
    ) -> None:
        self.incarnation = incarnation
        self.head = 0  # the last committed seq
        self.closed = False
        self._clock = clock
        self._observer = observer
        self._journal = journal
        self._record_bytes = record_bytes
        self._ring = Ring(ring_events, ring_bytes)
        self._stamp = Stamper()
        # Replaced, never changed: a wake may close any of them while a commit goes through them.
        self._subscriptions: tuple[Subscription, ...] = ()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._subscriptions)} subscriptions"
        return f"<EventLog {self.incarnation} at {self.head}, {state}>"

    def commit(self, event: Event) -> int:
        """Give the event its time (`at`, last member) and its seq, and hand it round; the seq.

        Nobody may change the event afterwards. Raises RuntimeError once the log is closed.
        """
        if self.closed:
            raise RuntimeError(f"the log of {self.incarnation} is closed")
        seq = self.head + 1
        record = self._encode(seq, event)
        self.head = seq
        self._ring.push(record)
        try:
            self._observer(seq, event)
        finally:  # an observer's failure is its own: readers still get every seq
            # Every subscription has the record, and the journal too, before the first wake: what a
            # wake sets off may commit the next one.
            behind = self._pass_on(record) if self._subscriptions else ()
            if self._journal is not None:
                self._journal.event(record)
            if record.omitted is not None:
                self._note("record_omitted", record, record.omitted)
            for subscription in behind:
                subscription.wake()
        return seq

    def subscribe(
        self,
        after: int | None,
        incarnation: str | None,
        *,
        max_items: int = limits.SUBSCRIPTION_ITEMS,
        max_bytes: int = limits.SUBSCRIPTION_BYTES,
        wake: Callable[[], None],
        deliver: Callable[[Record], bool] | None = None,
    ) -> Subscription:
        """A subscription from the cursor {incarnation, after}, or live only when `after` is None.

        `wake()` is called from commits and from the close whenever there is something new to take:
        a record, or the subscription's end. `deliver(record)` is asked first for each live record
        that nothing waits before: it takes the record at once, or gives False; unlike a wake, it
        must set nothing off that commits. Raises CursorRefused.
        """
        replay: list[Record] = []
        file_range = None
        if after is not None:
            if incarnation != self.incarnation:
                raise CursorRefused("foreign_incarnation")
            if after > self.head:
                raise CursorRefused("future_seq")
            replay = self._ring.after(after)
            if sum(record.size for record in replay) > max_bytes:
                raise CursorRefused("backlog_too_large")
            if after + 1 < self._ring.oldest:
                file_range = (after + 1, self._ring.oldest - 1)
                reason = self._journal.missing(*file_range) if self._journal else "no_journal"
                if reason:
                    raise CursorRefused(reason)
        subscription = Subscription(
            replay,
            self.head,
            file_range,
            max_items=max_items,
            max_bytes=max_bytes,
            wake=wake,
            deliver=deliver,
            leave=self._leave,
        )
        if self.closed:
            subscription.finish()
        else:
            self._subscriptions += (subscription,)
        return subscription

    def read_file(self, low: int, high: int) -> Iterator[Record]:
        """The records `low` to `high`, streamed from the journal. Waits; raises ReplayFailed."""
        if self._journal is None:
            raise ReplayFailed("no_journal")
        return self._journal.replay(low, high)

    def close(self) -> None:
        """End every subscription, then close the journal, which may wait a little. Idempotent."""
        if self.closed:
            return
        self.closed = True
        subscriptions, self._subscriptions = self._subscriptions, ()
        for subscription in subscriptions:
            subscription.finish()
        for subscription in subscriptions:
            subscription.wake()
        if self._journal is not None:
            self._journal.close()

    def _encode(self, seq: int, event: Event) -> Record:
        kind, at = event.get("type", ""), ""
        try:
            if not kind:
                raise ValueError("an event has no type")
            at = event["at"] = self._stamp(self._clock.now())
            body = json.dumps(event)
        except Exception as failure:  # whatever the codec trips over, the seq is taken
            error = str(failure).encode(errors="replace")[: limits.OMITTED_ERROR]
            omitted = {"reason": "encode_error", "error": error.decode(errors="ignore")}
            return Record(seq, kind, at, b"", omitted)
        if len(body) > self._record_bytes:
            return Record(seq, kind, at, b"", {"reason": "oversized", "bytes": len(body)})
        return Record(seq, kind, at, body)

    def _pass_on(self, record: Record) -> Sequence[Subscription]:
        """Give the record to every subscription: those that are to be woken for it."""
        behind: list[Subscription] = []
        for subscription in self._subscriptions:
            if not subscription.pass_on(record):
                behind.append(subscription)
        for subscription in behind:
            if not subscription.offer(record):
                self._leave(subscription)
                self._note("subscriber_dropped", record, {"bytes": record.size})
        return behind

    def _note(self, kind: str, record: Record, fields: dict[str, Any]) -> None:
        if self._journal is not None:
            self._journal.diag(kind, {"seq": record.seq, **fields})

    def _leave(self, subscription: Subscription) -> None:
        self._subscriptions = tuple(one for one in self._subscriptions if one is not subscription)
