"""What every lane's and every source's stream keeps to, whatever happens behind it."""

from collections.abc import Callable

from craze_shed.contract import frames
from craze_shed.contract.frames import LaneFrame, SourceFrame
from craze_shed.contract.publisher import MAX_SOURCE_ROWS, SEED_ROWS, Subscription
from tests.unit.shed.craze.scripting import until


class LaneStream:
    """A lane's subscription: frames are checked as they are read, and kept in `seen`."""

    def __init__(self, subscription: Subscription[LaneFrame]) -> None:
        self.subscription = subscription
        self.seen: list[LaneFrame] = []
        self._generation = 0  # of the last Reset
        self._seed: int | None = None  # the one that is under way
        self._spoilt = False  # it has a Stale in it
        self._live: int | None = None  # the last one that was completed
        self._stale = False
        self._down = False
        self._rows = 0  # of the seed
        self._seq = 0
        self._offers: bool | None = None  # whether the capabilities, where told, say settings
        self._settings = False  # were told

    def next(self, timeout: float = 10.0) -> LaneFrame | None:
        """The next frame; None at the end, and a failure where none comes."""
        frame = self.subscription.next(timeout)
        if frame is None:
            assert self.subscription.ended, f"no frame came after {self.seen[-3:]}"
            assert self._down, "a stream that closed without a Down"
            return None
        return self._seen(frame)

    def until(self, kind: type[LaneFrame]) -> list[LaneFrame]:
        """What comes up to the first frame of that kind, it included."""
        came: list[LaneFrame] = []
        while not came or not isinstance(came[-1], kind):
            frame = self.next()
            assert frame is not None, f"it ended with {self.seen[-1]}, without a {kind.__name__}"
            came.append(frame)
        return came

    def waiting(self) -> list[LaneFrame]:
        """What is queued, without waiting."""
        came = []
        while (frame := self.subscription.next(0)) is not None:
            came.append(self._seen(frame))
        return came

    def follow(self, take: Callable[[LaneFrame], object]) -> None:
        """Read until it is closed or ended, and give each frame to `take`."""
        for frame in self.subscription:
            take(self._seen(frame))

    def _seen(self, frame: LaneFrame) -> LaneFrame:
        self._check(frame)
        self.seen.append(frame)
        return frame

    def close(self) -> None:
        self.subscription.close()

    def _check(self, frame: LaneFrame) -> None:
        assert not isinstance(frame, frames.Unknown)
        assert not self._down, f"{frame} after a Down"
        if not self.seen:
            assert isinstance(frame, frames.Reset | frames.Stale | frames.Down), frame
        match frame:
            case frames.Reset():
                assert frame.generation > self._generation
                self._generation = self._seed = frame.generation
                self._spoilt = self._settings = False
                self._offers = None
                self._rows = 0
            case frames.Ready():
                if self._seed is not None:
                    assert frame.generation == self._seed and not self._spoilt
                    assert self._offers is not None, "a seed without capabilities"
                    assert self._settings == self._offers, "settings and capabilities disagree"
                    self._live, self._seed = self._seed, None
                else:
                    assert frame.generation == self._live, "a lone Ready of another generation"
                    assert self._stale, "a lone Ready after no Stale"
                self._stale = False
            case frames.Stale():
                self._stale = True
                self._spoilt = self._seed is not None
            case frames.Down():
                self._down = True
            case frames.Message():
                assert frame.message.seq > self._seq
                self._seq = frame.message.seq
                self._rows += 1
                # A seed's own rows come before its Session; those of events come behind.
                assert self._offers is not None or self._seed is None or self._rows <= SEED_ROWS
            case frames.Capabilities():
                self._offers = frame.capabilities.settings
            case frames.Settings():
                assert self._offers, "settings that the capabilities do not offer"
                self._settings = True
            case frames.Session():
                assert frame.session.tab_id is None and not frame.session.approximate


class SourceStream:
    """A source's subscription: frames are checked as they are read, and kept in `seen`."""

    def __init__(self, subscription: Subscription[SourceFrame]) -> None:
        self.subscription = subscription
        self.seen: list[SourceFrame] = []
        self._generation = 0
        self._seed: int | None = None
        self._capable = False
        self._rows = 0

    def next(self, timeout: float = 10.0) -> SourceFrame:
        frame = self.subscription.next(timeout)
        assert frame is not None, f"no frame came after {self.seen[-3:]}"
        self._check(frame)
        self.seen.append(frame)
        return frame

    def until(self, kind: type[SourceFrame]) -> list[SourceFrame]:
        came = [self.next()]
        while not isinstance(came[-1], kind):
            came.append(self.next())
        return came

    def nothing(self) -> bool:
        """Whether nothing is queued."""
        return self.subscription.next(0) is None

    def close(self) -> None:
        self.subscription.close()

    def _check(self, frame: SourceFrame) -> None:
        assert not isinstance(frame, frames.SourceUnknown)
        if not self.seen:
            assert isinstance(frame, frames.SourceReset | frames.SourceOffline), frame
        match frame:
            case frames.SourceReset():
                assert frame.generation > self._generation
                self._generation = self._seed = frame.generation
                self._capable, self._rows = False, 0
            case frames.SourceReady():
                assert frame.generation == self._seed and self._capable
                self._seed = None
            case frames.SourceOffline():
                self._seed = None
            case frames.SourceCapabilitiesFrame():
                self._capable = True
            case frames.SourceSession():
                self._rows += self._seed is not None
                assert self._rows <= MAX_SOURCE_ROWS and frame.session.tab_id is None


def ended(stream: LaneStream) -> str:
    """Why a lane went down, once it has."""
    while stream.next() is not None:
        pass
    last = stream.seen[-1]
    assert isinstance(last, frames.Down)
    until(lambda: stream.subscription.ended)
    return last.reason
