"""One connection's place on the session's event stream (protocol tables 8, 16).

Life: pending (its reply is not queued yet), live, closed. Records go from the log's subscription to
the connection's outbox as they are committed, by the same call that commits them: only a full
outbox, or a replay that is read from the journal, makes them wait in the subscription, whose budget
then decides. Milestones (synchronized, ready, a command's reply) follow the record that reaches
their position.
"""

from collections import deque
from collections.abc import Callable, Iterator

from gevent.event import Event

from craze import greenlets
from craze.eventlog import EventLog, Record, ReplayFailed, Subscription
from craze.host.outbox import Outbox
from craze.wire import envelope


class Attachment:
    """`synchronized()` hears that the replay is over, `ended(attachment)` of the attachment's own
    end, whatever ends it."""

    def __init__(
        self,
        name: str,
        outbox: Outbox,
        synchronized: Callable[[], None],
        ended: Callable[["Attachment"], None],
    ) -> None:
        self.id = name
        self.live = False
        self.closed = False
        self.synchronized = False
        self.position = 0
        self._outbox = outbox
        self._on_synchronized = synchronized
        self._ended = ended
        self._subscription: Subscription | None = None
        self._held: Record | None = None
        self._replaying = False
        self._milestones: deque[tuple[int, Callable[[], None]]] = deque()
        self._barriers: deque[tuple[int, Event]] = deque()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "live" if self.live else "pending"
        return f"<Attachment {self.id} {state} at {self.position}>"

    def subscribe(
        self,
        log: EventLog,
        after: int | None,
        incarnation: str | None,
        max_items: int,
        max_bytes: int,
    ) -> None:
        """Take a place in the log, from which nothing is queued before `go_live`. Raises
        CursorRefused."""
        self._subscription = log.subscribe(
            after,
            incarnation,
            max_items=max_items,
            max_bytes=max_bytes,
            wake=self.wake,
            deliver=self.deliver,
        )

    def go_live(self, log: EventLog, after: int) -> None:
        """The reply is queued: events may follow. `after` is where the stream continues."""
        subscription = self._subscription
        if subscription is None:
            return
        self.position = after
        self.live = True
        self.at(subscription.cutoff, lambda: self._synchronize(subscription.cutoff))
        if subscription.file_range is not None:
            self._replaying = True
            records = log.read_file(*subscription.file_range)
            greenlets.spawn(f"replay {self.id}", self._replay, records)
        else:
            self.forward()

    def at(self, seq: int, call: Callable[[], None]) -> None:
        """Call `call` once everything up to `seq` is queued, and never if the attachment ends
        before. Milestones are added in the order of their positions."""
        if self.live and not self.closed and self.position >= seq and not self._milestones:
            call()
        elif not self.closed:
            self._milestones.append((seq, call))

    def wait_for(self, seq: int) -> None:
        """The reply barrier: wait until everything up to `seq` is queued, or the attachment has
        ended. A pending attachment holds nothing back."""
        if self.live and not self.closed and self.position < seq:
            reached = Event()
            self._barriers.append((seq, reached))
            reached.wait()

    def deliver(self, record: Record) -> bool:
        """Queue a record at once; whether that could be. The log calls it for each live record that
        nothing waits before."""
        if not self.live or self._replaying or self._held is not None or record.omitted is not None:
            return False
        return self._queue(record)

    def wake(self) -> None:
        """The subscription holds something new, or has ended."""
        subscription = self._subscription
        overflowed = subscription is not None and subscription.ended == "slow_consumer"
        if self.live and (overflowed or not self._replaying):
            self.forward()

    def forward(self) -> None:
        """Queue every record there is, as far as the outbox has room."""
        subscription = self._subscription
        if self.closed or subscription is None:
            return
        outbox = self._outbox
        while subscription.ended != "slow_consumer":
            record = self._held or subscription.take()
            if record is None:
                break
            if record.omitted is not None:
                self.reset("omitted")
                return
            if not self._queue(record):
                self._held = record
                outbox.when_room(self.forward)
                return
            self._held = None
        if subscription.ended:
            self.reset("session_closed" if subscription.ended == "closed" else subscription.ended)

    def reset(self, reason: str) -> None:
        """End the attachment with its one `reset`."""
        if not self.closed:
            self._outbox.put(self.reset_line(reason))
            self.close()

    def reset_line(self, reason: str) -> bytes:
        return envelope.notification("reset", {"subscription": self.id, "reason": reason})

    def silence(self) -> None:
        """No record follows any more; the detach's reply is the attachment's last line."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def close(self) -> None:
        """End the attachment without a word: a detach, whose reply is the word, or a lost
        connection."""
        if self.closed:
            return
        self.closed = True
        self._milestones.clear()
        while self._barriers:
            self._barriers.popleft()[1].set()
        self._held = None
        self.silence()
        self._ended(self)

    def _queue(self, record: Record) -> bool:
        if not self._outbox.offer(record.line(self.id)):
            return False
        self.position = record.seq
        if self._milestones or self._barriers:
            self._reach()
        return True

    def _reach(self) -> None:
        while self._milestones and self._milestones[0][0] <= self.position:
            self._milestones.popleft()[1]()
        while self._barriers and self._barriers[0][0] <= self.position:
            self._barriers.popleft()[1].set()

    def _synchronize(self, cutoff: int) -> None:
        self.synchronized = True
        self._outbox.put(
            envelope.notification("synchronized", {"subscription": self.id, "seq": cutoff})
        )
        self._on_synchronized()

    def _replay(self, records: Iterator[Record]) -> None:
        try:
            for record in records:
                if record.omitted is not None:
                    self.reset("omitted")
                while not self.closed and not self._queue(record):
                    self._outbox.wait_room(len(record.line(self.id)))
                if self.closed:
                    return
        except ReplayFailed:
            self.reset("replay_failed")
            return
        self._replaying = False
        self.forward()
