"""The poll: what keeps the roster true, and only while someone wants it.

A round reads the registry, which clears dead hosts away, and asks every live host for its row,
eight at a time, each within half a second, over connections that are kept from round to round.
Whatever comes of an attempt is believed only after the host's registry entry was read again: a host
that is stopping is dropped at once and for good.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import gevent
from gevent.event import Event

from craze import greenlets
from craze.client.errors import Refused
from craze.clock import Clock
from craze.hub.bounds import BOUNDS, Bounds
from craze.hub.link import Link, Lost, own_row
from craze.hub.roster import Roster, listable
from craze.machine import registry
from craze.machine.errors import MachineError
from craze.machine.paths import Paths
from craze.wire.codes import Refusal
from craze.wire.limits import (
    ROSTER_ASKED_AT_ONCE,
    ROSTER_BACKOFF_FIRST,
    ROSTER_BACKOFF_MAX,
)

NAME = "craze hub roster"
_REPORT_EVERY = 60.0
UNREADABLE = "the registry of session hosts cannot be read: try again"


class _Backoff:
    """When a host that failed is tried again."""

    __slots__ = ("pause", "until")

    def __init__(self, now: float, before: "_Backoff | None") -> None:
        self.pause: float = ROSTER_BACKOFF_FIRST
        if before is not None:
            self.pause = min(2 * before.pause, ROSTER_BACKOFF_MAX)
        self.until = now + self.pause


class Poll:
    """The poll of the hosts in `paths`' registry into `roster`. `changed()` hears that it may have
    moved, `report(text)` why the registry could not be read, `failed(error)` of our own fault."""

    def __init__(
        self,
        paths: Paths,
        roster: Roster,
        clock: Clock,
        *,
        changed: Callable[[], None],
        report: Callable[[str], None],
        failed: Callable[[BaseException], None],
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._bounds = bounds
        self._paths = paths
        self._roster = roster
        self._clock = clock
        self._changed = changed
        self._report = report
        self._wanted = 0
        self._links: dict[str, Link] = {}
        self._failing: dict[str, _Backoff] = {}
        self._stopping: set[str] = set()  # dropped for good, for as long as they are registered
        self._unreadable = False
        self._reported_at = -_REPORT_EVERY
        self._heard = Event()  # the round that began last has heard from every host
        self._wake = Event()
        self._worker = greenlets.spawn("roster", self._run, on_error=failed)

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        """For as long as someone wants the roster; the first starts a round at once."""
        self.want()
        try:
            yield
        finally:
            self.unwant()

    def want(self) -> None:
        self._wanted += 1
        if self._wanted == 1:
            self._heard.clear()
            self._wake.set()

    def unwant(self) -> None:
        self._wanted -= 1

    def wait(self) -> None:
        """Wait until the current round has heard from every host, a second at most; the roster has
        to be wanted meanwhile. Raises Refusal `host_unreachable` for a registry that cannot be
        read."""
        self._heard.wait(self._bounds.wait)
        if self._unreadable:
            raise Refusal("host_unreachable", UNREADABLE)

    def seen(self, entry: registry.Entry, version: str, row: bytes) -> None:
        """Somebody else has just read this host's row."""
        if listable(entry) and entry.hostId not in self._stopping:
            self._roster.read(entry, version, row, self._clock.monotonic())
            self._changed()

    def close(self) -> None:
        """Stop, and let go of every host."""
        self._worker.kill()
        self._hang_up(list(self._links))

    # ---- rounds ----

    def _run(self) -> None:
        while True:
            self._wake.clear()
            if not self._wanted and not self._wake.wait(self._bounds.fresh):
                # What is kept of a host that nobody asks for would only keep its place open.
                self._hang_up(list(self._links))
                self._wake.wait()
            self._heard.clear()
            began = self._clock.monotonic()
            self._round()
            self._heard.set()
            rest = self._bounds.round - (self._clock.monotonic() - began)
            if self._wanted and rest > 0:
                self._wake.wait(rest)

    def _round(self) -> None:
        now = self._clock.monotonic()
        try:
            live, unreadable = registry.scan(self._paths)
        except MachineError as failure:
            self._unreadable = True
            if now - self._reported_at >= _REPORT_EVERY:
                self._reported_at = now
                self._report(f"the registry cannot be read: {failure}")
            self._roster.age(now)
            self._changed()
            return
        self._unreadable = False
        entries = {entry.hostId: entry for entry in live}
        present = entries.keys() | set(unreadable)
        self._stopping &= present
        self._stopping |= {host_id for host_id, entry in entries.items() if entry.stopping}
        for host_id in self._roster.hosts:
            if host_id not in present or host_id in self._stopping:
                self._drop(host_id)
        self._hang_up(self._links.keys() - present)
        due = []
        for host_id, entry in entries.items():
            if listable(entry) and host_id not in self._stopping:
                self._roster.listed(entry, now)
                failing = self._failing.get(host_id)
                if failing is None or failing.until <= now:
                    due.append(entry)
            elif host_id in self._roster:
                self._drop(host_id)
        self._changed()
        self._ask_all(due)
        self._roster.age(self._clock.monotonic())
        self._changed()

    def _ask_all(self, entries: list[registry.Entry]) -> None:
        # Those that failed before come last: they may take their whole time again.
        waiting = deque(sorted(entries, key=lambda entry: entry.hostId in self._failing))

        def work() -> None:
            while waiting and self._wanted:
                self._ask(waiting.popleft())
                self._changed()

        workers = min(ROSTER_ASKED_AT_ONCE, len(entries))
        asking = [greenlets.spawn("roster ask", work) for _ in range(workers)]
        try:
            gevent.joinall(asking, raise_error=True)
        finally:
            gevent.killall(asking)

    def _ask(self, entry: registry.Entry) -> None:
        host_id = entry.hostId
        try:
            version, row = self._read(entry)
        except (Lost, Refused):
            answer = None
            now = self._clock.monotonic()
            self._failing[host_id] = _Backoff(now, self._failing.get(host_id))
        else:
            answer = version, row
            self._failing.pop(host_id, None)
        try:
            again = registry.read(self._paths, host_id)
        except FileNotFoundError:
            self._drop(host_id)
            return
        except MachineError:
            return  # it stays as it stood
        if again.stopping:
            self._stopping.add(host_id)
        if not listable(again):
            self._drop(host_id)
        elif host_id not in self._stopping and answer is None:
            self._roster.failed(host_id, self._clock.monotonic())
        elif answer is not None:
            self._roster.read(again, *answer, self._clock.monotonic())

    def _read(self, entry: registry.Entry) -> tuple[str, bytes]:
        """The host's version and row. Raises Lost, Refused."""
        until = self._clock.monotonic() + self._bounds.host
        kept = self._links.pop(entry.hostId, None)
        if kept is not None:
            try:
                return self._asked(entry, kept, until)
            except Lost:
                pass  # it may have ended the connection long ago
        left = until - self._clock.monotonic()
        link = Link(entry.socket, max(left, 0.001))
        try:
            link.hello(NAME, max(until - self._clock.monotonic(), 0.001))
        except BaseException:
            link.close()
            raise
        return self._asked(entry, link, until)

    def _asked(self, entry: registry.Entry, link: Link, until: float) -> tuple[str, bytes]:
        try:
            left = max(until - self._clock.monotonic(), 0.001)
            row = own_row(link.ask("sessions.list", {}, left))
        except BaseException:
            link.close()
            raise
        self._links[entry.hostId] = link
        return link.version, row

    # ---- what is let go ----

    def _drop(self, host_id: str) -> None:
        self._roster.drop(host_id)
        self._failing.pop(host_id, None)
        self._hang_up([host_id])

    def _hang_up(self, hosts: Iterable[str]) -> None:
        for host_id in list(hosts):
            link = self._links.pop(host_id, None)
            if link is not None:
                link.close()
