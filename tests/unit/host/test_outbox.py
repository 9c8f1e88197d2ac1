"""The writer of one connection: order, bounds, a stalled peer, and its ends."""

import socket as names
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest
from gevent import socket

from craze.host.outbox import Outbox


class Pair:
    """An outbox and the peer it writes to."""

    def __init__(self, **limits: Any) -> None:
        ours, self.peer = socket.socketpair(names.AF_UNIX, names.SOCK_STREAM)
        ours.setsockopt(names.SOL_SOCKET, names.SO_SNDBUF, 4096)
        self.ends: list[BaseException | None] = []
        self.ours = ours
        self.outbox = Outbox(ours, self._ended, **limits)

    def _ended(self, error: BaseException | None) -> None:
        self.ends.append(error)
        self.ours.close()

    def everything(self) -> bytes:
        data = b""
        while piece := self.peer.recv(1 << 16):
            data += piece
        return data


@pytest.fixture
def pair() -> Iterator[Callable[..., Pair]]:
    made: list[Pair] = []

    def make(**limits: Any) -> Pair:
        made.append(Pair(**limits))
        return made[-1]

    yield make
    for one in made:
        one.outbox.kill()
        one.ours.close()
        one.peer.close()


def test_lines_leave_in_order_and_the_end_waits_for_them(pair: Callable[..., Pair]) -> None:
    one = pair()
    lines = [b"%d\n" % number * 50 for number in range(2000)]
    for line in lines:
        one.outbox.put(line)
    one.outbox.finish()
    assert one.everything() == b"".join(lines)
    assert one.ends == [None]


def test_a_reply_is_written_when_its_last_byte_is_on_the_socket(pair: Callable[..., Pair]) -> None:
    one = pair()
    written: list[str] = []
    one.outbox.put(b"x" * 1_000_000 + b"\n", lambda: written.append("big"))
    one.outbox.put(b"small\n", lambda: written.append("small"))
    gevent.sleep(0.05)
    assert written == []
    one.outbox.finish()
    assert len(one.everything()) == 1_000_007
    assert written == ["big", "small"]


def test_b76_a_full_queue_takes_nothing_but_the_reserve(pair: Callable[..., Pair]) -> None:
    one = pair(limit=100_000, reserve=1000)
    one.outbox.put(b"x" * 90_000)
    gevent.sleep(0.01)
    assert not one.outbox.fits(60_000)
    assert one.outbox.fits(100)
    room: list[bool] = []
    one.outbox.when_room(lambda: room.append(True))
    one.peer.recv(1 << 16)
    gevent.sleep(0.01)
    assert room == [True]


def test_an_empty_queue_takes_a_line_of_any_size(pair: Callable[..., Pair]) -> None:
    assert pair(limit=10, reserve=1).outbox.fits(1_000_000)


def test_waiting_for_room_ends_with_the_outbox(pair: Callable[..., Pair]) -> None:
    one = pair(limit=1000, reserve=10)
    one.outbox.put(b"x" * 1_000_000)
    waiter = gevent.spawn(one.outbox.wait_room, 500)
    gevent.sleep(0.01)
    assert not waiter.dead
    one.outbox.kill()
    waiter.join(1)
    assert waiter.dead


def test_a_peer_that_takes_nothing_is_given_up(pair: Callable[..., Pair]) -> None:
    one = pair(stall=0.1)
    one.outbox.put(b"x" * 1_000_000)
    gevent.sleep(0.05)
    one.peer.recv(1000)  # not enough to move anything, but it lives
    deadline = gevent.Timeout(2)
    with deadline:
        while not one.ends:
            gevent.sleep(0.01)
    assert isinstance(one.ends[0], TimeoutError)


def test_a_peer_that_says_nothing_is_not_given_up(pair: Callable[..., Pair]) -> None:
    one = pair(stall=0.05)
    reading = gevent.spawn(one.ours.recv, 100)
    gevent.sleep(0.15)
    one.peer.sendall(b"late")
    assert reading.get(timeout=2) == b"late"
    assert not one.ends


def test_a_slow_peer_is_not_given_up(pair: Callable[..., Pair]) -> None:
    one = pair(stall=0.3)
    one.outbox.put(b"x" * 400_000)
    one.outbox.finish()
    taken = 0
    while piece := one.peer.recv(1 << 16):
        taken += len(piece)
        gevent.sleep(0.1)
    assert taken == 400_000
    assert one.ends == [None]


def test_a_line_in_pieces_is_one_line(pair: Callable[..., Pair]) -> None:
    one = pair()
    written: list[bool] = []
    one.outbox.put(b"first\n")
    one.outbox.put(
        [b"a" * 300_000, memoryview(b"b" * 300_000), b"\n"], lambda: written.append(True)
    )
    gevent.sleep(0.01)
    one.outbox.put(b"dropped\n")
    one.outbox.terminate(b"last\n")
    assert one.everything() == b"first\n" + b"a" * 300_000 + b"b" * 300_000 + b"\nlast\n"
    assert written == []


def test_terminate_finishes_the_line_in_hand_and_drops_the_rest(pair: Callable[..., Pair]) -> None:
    one = pair()
    first = b"a" * 500_000 + b"\n"
    one.outbox.put(first)
    gevent.sleep(0.01)
    one.outbox.put(b"dropped\n")
    one.outbox.terminate(b"last\n")
    one.outbox.put(b"too late\n")
    assert one.everything() == first + b"last\n"


def test_a_gone_peer_ends_the_writer(pair: Callable[..., Pair]) -> None:
    one = pair()
    one.peer.close()
    one.outbox.put(b"x\n")
    gevent.sleep(0.05)
    assert len(one.ends) == 1
    assert isinstance(one.ends[0], OSError)


def test_a_held_outbox_sends_when_it_is_released(pair: Callable[..., Pair]) -> None:
    one = pair()
    one.outbox.hold(True)
    one.outbox.put(b"x\n")
    gevent.sleep(0.02)
    one.peer.settimeout(0.02)
    with pytest.raises(TimeoutError):
        one.peer.recv(10)
    one.outbox.hold(False)
    one.peer.settimeout(1)
    assert one.peer.recv(10) == b"x\n"
