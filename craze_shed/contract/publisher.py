"""The bounded channel of one subscription: an adapter publishes, a client iterates.

`channel` makes the two halves. The overflow policy lives here and nowhere else: `publish` never
waits and says when a frame did not fit, and the terminal path alone waits for room. Either half's
end is the other's: a client that closes or drops its Subscription stops the pump behind it.
"""

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from gevent.event import Event

F = TypeVar("F")

LANE_CHANNEL_CAPACITY: Final = 1024  # frames, of a lane's and of a source's channel
MAX_SOURCE_ROWS: Final = 512  # of a source's seed
SEED_ROWS: Final = 500  # of a lane's


class Lagged(Exception):
    """The channel is full, and the frame was dropped. Its generation ends with that: let go of the
    transport, `wait_drained`, back off, reseed."""


class ReceiverGone(Exception):
    """Nobody receives any more; there is nothing left to do for this subscription."""


class _Channel(Generic[F]):
    """What the halves share. It knows neither, so that dropping a half is noticed."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.frames: deque[F] = deque()
        self.arrived = Event()  # a frame, or the end
        self.taken = Event()  # a frame has been, or the receiver is gone
        self.ended = False  # the publisher is done
        self.closed = False  # the receiver is gone
        self.on_close: list[Callable[[], object]] = []

    def put(self, frame: F) -> None:
        self.frames.append(frame)
        self.arrived.set()

    def end(self) -> None:
        self.ended = True
        self.arrived.set()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.frames.clear()
        self.taken.set()
        self.arrived.set()
        told, self.on_close = self.on_close, []
        for tell in told:
            tell()

    def wait_until_at_most(self, held: int) -> None:
        while not self.closed and len(self.frames) > held:
            self.taken.clear()
            self.taken.wait()
        if self.closed:
            raise ReceiverGone

    def __repr__(self) -> str:
        state = "closed" if self.closed else "ended" if self.ended else "open"
        return f"{state}, {len(self.frames)} of {self.capacity} frames"


class Publisher(Generic[F]):
    """The adapter's half, for one pump. After `publish_final` or `close` it is used up: publishing
    more is a RuntimeError."""

    def __init__(self, channel: _Channel[F]) -> None:
        self._channel = channel

    def __repr__(self) -> str:
        return f"<Publisher {self._channel!r}>"

    def publish(self, frame: F) -> None:
        """Queue `frame`, without waiting. Raises Lagged and ReceiverGone."""
        channel = self._usable()
        if channel.closed:
            raise ReceiverGone
        if len(channel.frames) >= channel.capacity:
            raise Lagged
        channel.put(frame)

    def publish_waiting(self, frame: F) -> None:
        """Queue `frame` once there is room: for the rows right before a Down. Raises
        ReceiverGone."""
        channel = self._usable()
        channel.wait_until_at_most(channel.capacity - 1)
        channel.put(frame)

    def publish_final(self, frame: F) -> None:
        """Queue the last frame once there is room, and end the stream. Nothing happens where
        nobody receives any more."""
        with contextlib.suppress(ReceiverGone):
            self.publish_waiting(frame)
        self._channel.end()

    def wait_drained(self) -> None:
        """Wait until every frame has been taken. Raises ReceiverGone."""
        self._usable().wait_until_at_most(0)

    def is_closed(self) -> bool:
        """Whether nobody receives any more."""
        return self._channel.closed

    def close(self) -> None:
        """End the stream without a last frame, as a pump does that fails. Closing twice is
        harmless."""
        self._channel.end()

    def on_close(self, tell: Callable[[], object]) -> None:
        """Call `tell()` when the receiver goes, at once if it has gone. It runs wherever that
        happens, a collected object's end included: it must not wait."""
        if self._channel.closed:
            tell()
        else:
            self._channel.on_close.append(tell)

    def _usable(self) -> _Channel[F]:
        if self._channel.ended:
            raise RuntimeError("published after the final frame")
        return self._channel


class Subscription(Generic[F]):
    """The client's half: iterate over it, and close it. Two readers of one subscription would
    share its frames; subscribe twice instead."""

    def __init__(self, channel: _Channel[F]) -> None:
        self._channel = channel

    def __repr__(self) -> str:
        return f"<Subscription {self._channel!r}>"

    def __enter__(self) -> "Subscription[F]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not sys.is_finalizing():  # the pump is gone with the loop then
            self.close()

    def __iter__(self) -> Iterator[F]:
        return self

    def __next__(self) -> F:
        """The next frame, waiting for it. The iteration ends where the stream does."""
        frame = self.next()
        if frame is None:
            raise StopIteration
        return frame

    def next(self, timeout: float | None = None) -> F | None:
        """As iteration does, but None at the end and after `timeout` seconds without a frame."""
        channel = self._channel
        while not channel.frames:
            if self.ended:
                return None
            channel.arrived.clear()
            if not channel.arrived.wait(timeout):
                return None
        frame = channel.frames.popleft()
        channel.taken.set()
        return frame

    @property
    def ended(self) -> bool:
        """Whether no frame will come any more."""
        return self._channel.closed or (self._channel.ended and not self._channel.frames)

    def close(self) -> None:
        """Drop what is queued and stop the pump. Closing twice is harmless."""
        self._channel.close()


def channel(capacity: int = LANE_CHANNEL_CAPACITY) -> tuple[Publisher[F], Subscription[F]]:
    """The two halves of one subscription's channel, which holds `capacity` frames."""
    shared: _Channel[F] = _Channel(capacity)
    return Publisher(shared), Subscription(shared)
