"""The splice, over each kind of buffer: every byte in order, every end passed on, nothing left."""

import contextlib
import hashlib
import os
import random
import socket as names
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest
from gevent import socket

from craze import greenlets
from craze.hub import splice
from craze.hub.splice import Memory, Splice
from tests.unit.hub.hosting import until

MIB = 1024 * 1024
BUFFERS: list[Any] = [Memory]
if hasattr(os, "splice"):
    BUFFERS.append(splice.Pipe)


class Spliced:
    """A splice between a `client` and a `host`, each the far end of a pair."""

    def __init__(self, buffer: Callable[[], Any], ahead: bytes, **more: float) -> None:
        self.client, client = socket.socketpair()
        self.host, host = socket.socketpair()
        for end in (self.client, self.host):
            end.settimeout(20)
        self.splice = Splice(client, host, ahead, buffer=buffer, **more)
        self.running = greenlets.spawn("splice", self.splice.run)

    def over(self) -> None:
        """Wait until it is."""
        self.running.get(timeout=20)

    def close(self) -> None:
        self.client.close()
        self.host.close()
        self.over()


@pytest.fixture(params=BUFFERS, ids=lambda buffer: buffer.__name__)
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., Spliced]]:
    made: list[Spliced] = []

    def spliced(ahead: bytes = b"", **more: float) -> Spliced:
        made.append(Spliced(request.param, ahead, **{"look": 0.02, **more}))
        return made[-1]

    yield spliced
    for each in made:
        each.close()


def read(sock: Any, size: int) -> bytes:
    """So many bytes, or what comes before the end."""
    pieces = []
    while size and (piece := sock.recv(min(size, 1 << 16))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def to_the_end(sock: Any) -> bytes:
    return read(sock, sys.maxsize)


def as_much_as_it_takes(sock: Any) -> int:
    """Write until nothing more is taken; how many bytes were."""
    took = 0
    with contextlib.suppress(OSError), gevent.Timeout(0.1, False):
        while True:
            took += sock.send(b"x" * 65536)
    return took


def ended(sock: Any) -> bool:
    """Whether the other end is closed."""
    try:
        return bool(sock.recv(1) == b"")
    except ConnectionResetError:
        return True


# ---- bytes ----


def test_what_was_sent_ahead_comes_first(make: Callable[..., Spliced]) -> None:
    spliced = make(b"ahead,")
    spliced.client.sendall(b"after")
    assert read(spliced.host, 11) == b"ahead,after"


def test_megabytes_ahead_come_first(make: Callable[..., Spliced]) -> None:
    ahead = random.Random(1).randbytes(4 * MIB)
    spliced = make(ahead)
    spliced.client.sendall(b"after")
    assert read(spliced.host, 4 * MIB + 5) == ahead + b"after"


def test_b68_single_bytes_pass_as_they_come(make: Callable[..., Spliced]) -> None:
    spliced = make()
    for byte in "a😀é\n\0".encode():
        spliced.client.sendall(bytes((byte,)))
        assert spliced.host.recv(9) == bytes((byte,))
        spliced.host.sendall(bytes((byte,)))
        assert spliced.client.recv(9) == bytes((byte,))


def test_64_mib_pass_both_ways_at_once_unchanged(make: Callable[..., Spliced]) -> None:
    spliced = make()
    size = 64 * MIB

    def write(sock: Any, seed: int) -> str:
        chance, digest = random.Random(seed), hashlib.sha256()
        noise, left = chance.randbytes(MIB), size
        while left:
            begin = chance.randrange(MIB)
            piece = noise[begin : begin + min(left, chance.choice((1, 100, 5000, 40_000, MIB)))]
            sock.sendall(piece)
            digest.update(piece)
            left -= len(piece)
        return digest.hexdigest()

    def digest(sock: Any, seed: int) -> str:
        chance, digest, left = random.Random(seed), hashlib.sha256(), size
        while left:
            piece = sock.recv(chance.choice((7, 4096, 1 << 16, 1 << 20)))
            digest.update(piece)
            left -= len(piece)
        return digest.hexdigest()

    work = [
        gevent.spawn(what, sock, seed)
        for what in (write, digest)
        for seed, sock in enumerate((spliced.client, spliced.host))
    ]
    gevent.joinall(work, raise_error=True)
    said_by_client, said_by_host, client_heard, host_heard = (each.value for each in work)
    assert (client_heard, host_heard) == (said_by_host, said_by_client)


def test_b76_who_does_not_read_stops_the_other_and_nothing_piles_up(
    make: Callable[..., Spliced],
) -> None:
    spliced = make()
    for source, sink in ((spliced.client, spliced.host), (spliced.host, spliced.client)):
        took = as_much_as_it_takes(source)
        assert took < 2 * MIB
        assert read(sink, took) == b"x" * took


# ---- ends ----


def test_a_client_that_says_no_more_still_hears(make: Callable[..., Spliced]) -> None:
    spliced = make()
    spliced.client.sendall(b"the last")
    spliced.client.shutdown(names.SHUT_WR)
    assert to_the_end(spliced.host) == b"the last"
    gevent.sleep(0.1)  # some looks
    for words in (b"one", b"two"):
        spliced.host.sendall(words)
        assert spliced.client.recv(9) == words
    assert not spliced.running.dead
    spliced.host.close()
    assert to_the_end(spliced.client) == b""
    spliced.over()


def test_a_client_that_has_gone_is_noticed_however_quiet_the_host(
    make: Callable[..., Spliced],
) -> None:
    spliced = make()
    spliced.client.sendall(b"the last")
    spliced.client.close()
    assert to_the_end(spliced.host) == b"the last"
    spliced.over()
    with pytest.raises(BrokenPipeError):
        spliced.host.sendall(b"x")


def test_a_client_that_goes_after_its_half_close_is_noticed(
    make: Callable[..., Spliced],
) -> None:
    spliced = make()
    spliced.client.shutdown(names.SHUT_WR)
    assert ended(spliced.host)
    gevent.sleep(0.05)
    assert not spliced.running.dead
    spliced.client.close()
    spliced.over()


def test_a_client_that_goes_with_bytes_unread_is_noticed(make: Callable[..., Spliced]) -> None:
    spliced = make()
    spliced.host.sendall(b"never read")
    until(lambda: spliced.client.recv(1, names.MSG_PEEK))
    spliced.client.close()
    spliced.over()
    assert ended(spliced.host)


def test_what_a_client_said_before_it_went_reaches_a_host_that_talks(
    make: Callable[..., Spliced],
) -> None:
    spliced = make()
    talking = gevent.spawn(as_much_as_it_takes, spliced.host)  # the client never reads a word
    said = as_much_as_it_takes(spliced.client)
    spliced.client.close()
    gevent.sleep(0.05)  # the other way has failed by now
    assert len(to_the_end(spliced.host)) == said
    talking.get()
    spliced.over()


def test_a_hosts_end_closes_the_client_after_all_it_said(make: Callable[..., Spliced]) -> None:
    spliced = make()
    said = random.Random(2).randbytes(3 * MIB)

    def say() -> None:
        spliced.host.sendall(said)
        spliced.host.close()

    saying = gevent.spawn(say)
    gevent.sleep(0.05)
    assert to_the_end(spliced.client) == said
    saying.get()
    spliced.over()


def test_a_host_that_says_no_more_ends_it(make: Callable[..., Spliced]) -> None:
    spliced = make()
    spliced.host.sendall(b"the last")
    spliced.host.shutdown(names.SHUT_WR)
    assert to_the_end(spliced.client) == b"the last"
    spliced.over()


def test_what_a_host_said_before_it_went_reaches_a_client_that_talks(
    make: Callable[..., Spliced],
) -> None:
    spliced = make()
    said = as_much_as_it_takes(spliced.host)
    spliced.host.close()
    with contextlib.suppress(OSError):
        spliced.client.sendall(b"what nobody reads")
    gevent.sleep(0.05)  # the other way has failed by now
    assert len(to_the_end(spliced.client)) == said
    spliced.over()


def test_a_client_that_went_before_the_splice_began(make: Callable[..., Spliced]) -> None:
    spliced = make(b"what it said")
    spliced.client.close()
    assert to_the_end(spliced.host) == b"what it said"
    spliced.over()


def test_a_host_that_went_before_the_splice_began(make: Callable[..., Spliced]) -> None:
    spliced = make(b"what nobody reads")
    spliced.host.close()
    assert ended(spliced.client)
    spliced.over()


# ---- who takes nothing ----


def test_a_host_that_takes_nothing_for_too_long_ends_it(make: Callable[..., Spliced]) -> None:
    spliced = make(stall=0.05)
    with pytest.raises(OSError):
        spliced.client.sendall(b"x" * 8 * MIB)
    spliced.over()
    assert ended(spliced.client)


def test_a_host_that_takes_nothing_of_what_was_sent_ahead_ends_it(
    make: Callable[..., Spliced],
) -> None:
    spliced = make(b"x" * 8 * MIB, stall=0.05)
    spliced.over()
    assert ended(spliced.client)


def test_a_client_that_takes_nothing_for_too_long_ends_it(make: Callable[..., Spliced]) -> None:
    spliced = make(stall=0.05)
    with pytest.raises(OSError):
        spliced.host.sendall(b"x" * 8 * MIB)
    spliced.over()


def test_a_client_that_went_from_a_host_that_takes_nothing_is_the_stalls(
    make: Callable[..., Spliced],
) -> None:
    spliced = make(stall=0.3)
    with gevent.Timeout(0.1, False):
        spliced.client.sendall(b"x" * 8 * MIB)
    spliced.client.close()
    gevent.sleep(0.1)  # some looks
    assert not spliced.running.dead
    spliced.over()


# ---- the hub's end ----


def test_a_hub_that_goes_has_both_read_all_that_was_taken_then_the_end(
    make: Callable[..., Spliced],
) -> None:
    spliced = make()
    spliced.client.sendall(b"to the host")
    spliced.host.sendall(b"to the client")
    gevent.sleep(0.05)
    leaving = gevent.spawn(spliced.splice.shut_down)
    assert to_the_end(spliced.host) == b"to the host"
    assert to_the_end(spliced.client) == b"to the client"
    leaving.get()
    spliced.over()


def test_a_hub_that_goes_passes_on_what_a_slow_client_has_not_read(
    make: Callable[..., Spliced],
) -> None:
    spliced = make()
    writing = gevent.spawn(spliced.host.sendall, b"x" * 8 * MIB)
    gevent.sleep(0.05)  # both buffers are full
    leaving = gevent.spawn(spliced.splice.shut_down)
    heard = to_the_end(spliced.client)
    assert heard == b"x" * len(heard) and heard
    leaving.get()
    spliced.over()
    with pytest.raises(OSError):
        writing.get()


def test_a_hub_that_goes_waits_for_nobody_for_long(make: Callable[..., Spliced]) -> None:
    spliced = make()
    with gevent.Timeout(0.1, False):
        spliced.host.sendall(b"x" * 8 * MIB)
    with gevent.Timeout(10):
        spliced.splice.shut_down()
    spliced.over()


def test_a_splice_that_is_killed_closes_both(make: Callable[..., Spliced]) -> None:
    spliced = make()
    gevent.sleep(0.01)
    spliced.running.kill()
    assert ended(spliced.client) and ended(spliced.host)


def test_nothing_of_a_splice_stays_open(make: Callable[..., Spliced]) -> None:
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    for _ in range(20):
        spliced = make(b"x")
        spliced.client.close()
        spliced.over()
        spliced.host.close()
    if before:
        assert len(os.listdir("/proc/self/fd")) == len(before)


# ---- the others ----


class Busy:
    """A buffer whose source always has something, and whose sink takes it all."""

    def __init__(self) -> None:
        self._left = 10_000

    def fill(self, source: int) -> int:
        self._left -= 1
        return max(self._left, 0)

    def drain(self, sink: int) -> int:
        return 0

    def close(self) -> None:
        pass


def test_a_flood_keeps_nobody_else_waiting() -> None:
    spliced = Spliced(Busy, b"")
    turns = 0
    while not spliced.running.dead:
        turns += 1
        gevent.sleep(0)
    assert turns > 100
    spliced.close()
