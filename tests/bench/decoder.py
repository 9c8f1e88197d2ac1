"""The line decoder by chunk size, against the decoder one writes first: append, then split.

The stream is one long line between short ones, which is what separates the two: a decoder that
looks at its buffer anew for each chunk takes quadratic time over the long one.
"""

from collections.abc import Iterator

from craze.wire.framing import LineDecoder
from craze.wire.limits import INBOUND_LINE
from tests.bench.measure import Measure, side_by_side

CHUNK_BYTES = (16, 256, 4096, 65536)
SHORT, LONG = b"x" * 399 + b"\n", b"y" * 399_999 + b"\n"


class Naive:
    """Right for any input, and nothing else."""

    def __init__(self) -> None:
        self.buffer = b""

    def feed(self, data: bytes) -> list[bytes]:
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        return lines


def run() -> Iterator[Measure]:
    stream = SHORT * 500 + LONG + SHORT * 500
    for size in CHUNK_BYTES:
        chunks = [stream[at : at + size] for at in range(0, len(stream), size)]

        def ours(chunks: list[bytes] = chunks) -> None:
            decoder = LineDecoder(INBOUND_LINE)
            assert sum(len(decoder.feed(chunk)) for chunk in chunks) == 1001

        def naive(chunks: list[bytes] = chunks) -> None:
            decoder = Naive()
            assert sum(len(decoder.feed(chunk)) for chunk in chunks) == 1001

        mine, floor = (len(stream) / 1e6 / s for s in side_by_side(ours, naive, rounds=3))
        yield Measure(f"decoder, {size}-byte chunks", mine, "MB/s", floor)
