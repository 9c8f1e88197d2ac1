"""How long to wait before the next try."""

from hypothesis import given
from hypothesis import strategies as st

from craze_shed import backoff


def test_the_wait_doubles_to_its_limit_and_falls_back_once_it_worked():
    waits = [0.2]
    while waits[-1] < 5:
        waits.append(backoff.next_delay(waits[-1], 0.2, 5.0, worked=False))
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert backoff.next_delay(5.0, 0.2, 5.0, worked=False) == 5.0
    assert backoff.next_delay(5.0, 0.2, 5.0, worked=True) == 0.2


@given(st.floats(0, 100), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_in_the_upper_half(delay, chance):
    assert delay / 2 <= backoff.jittered(delay, chance) <= delay
