"""A machine's state by what was found of it, and when it is looked at again."""

import pytest

from craze_shed.contract.capabilities import SourceCapabilities
from craze_shed.craze.driver import NO_HUB, Driver, Status, is_settled

ABLE = SourceCapabilities("craze", True, True, True, False)


def state(driver: Driver) -> tuple[str, str | None]:
    return driver.state, driver.cause


def test_nothing_is_there_before_the_first_answer():
    assert state(Driver()) == ("absent", None)
    assert repr(Driver()) == "<Driver absent>"


@pytest.mark.parametrize(
    "before", [None, "ready", NO_HUB, "not_installed", "too_old", "unreachable"]
)
@pytest.mark.parametrize(
    ("found", "shown", "cause"),
    [
        (NO_HUB, "dormant", None),
        ("not_installed", "absent", "not_installed"),
        ("too_old", "offline", "too_old"),
        ("unreachable", "offline", "unreachable"),
        ("failed", "offline", "failed"),
        ("novelty", "offline", "novelty"),
    ],
)
def test_the_state_is_what_was_found_last(before, found, shown, cause):
    driver = Driver()
    if before == "ready":
        driver.ready()
    elif before:
        driver.found(before)
    driver.found(found)
    assert state(driver) == (shown, cause)
    driver.ready()
    assert state(driver) == ("live", None)


def test_the_waits_of_an_outage_double_up_to_a_bound():
    driver = Driver()
    assert [driver.found("unreachable") for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [driver.found("failed") for _ in range(2)] == [30, 30]


@pytest.mark.parametrize("found", [NO_HUB, "not_installed", "too_old"])
def test_what_stays_so_is_looked_at_rarely(found):
    driver = Driver()
    driver.found("unreachable")
    assert [driver.found(found) for _ in range(3)] == [30, 30, 30]
    assert driver.found("unreachable") == 1  # it was reached meanwhile
    assert is_settled(found) and not is_settled("unreachable")


def test_after_a_live_roster_it_is_looked_at_soon():
    driver = Driver()
    for _ in range(4):
        driver.found("unreachable")
    driver.ready()
    assert [driver.found("unreachable") for _ in range(3)] == [1, 2, 4]


def test_what_can_be_done_is_known_while_it_is_live():
    driver = Driver()
    assert driver.status(ABLE, 3) == Status("absent", None, False, False, False, False, 3)
    driver.ready()
    assert driver.status(ABLE, 3) == Status("live", None, True, True, True, False, 3)
    assert driver.status(None, 3) == Status("live", None, False, False, False, False, 3)
    driver.found("too_old")
    assert driver.status(ABLE, 3) == Status("offline", "too_old", False, False, False, False, 3)
    assert repr(driver) == "<Driver offline, too_old>"
