"""When a host that nobody uses ends."""

from typing import Any

import pytest

from craze.host.idle import STARTUP_GRACE, UNPROMPTED, Idle

QUIET: dict[str, Any] = {
    "attached": 0,
    "ever_attached": True,
    "busy": False,
    "turns": 0,
    "start_failed": False,
    "prompted": True,
}


def test_an_unused_host_ends_at_its_limit() -> None:
    idle = Idle(3600, 0)
    assert idle.due(3599, **QUIET) == ""
    assert idle.due(3600, **QUIET) == "idle for 1h0m0s with no client attached"


def test_a_host_nobody_prompted_ends_after_five_minutes() -> None:
    idle = Idle(3600, 0)
    quiet = QUIET | {"prompted": False}
    assert idle.due(UNPROMPTED - 1, **quiet) == ""
    assert idle.due(UNPROMPTED, **quiet) == "idle for 5m0s with no client attached, never prompted"


@pytest.mark.parametrize("held", [{"attached": 1}, {"busy": True}, {"turns": 1}])
def test_what_is_under_way_restarts_the_clock(held: dict[str, Any]) -> None:
    idle = Idle(10, 0)
    assert idle.due(9, **QUIET | held) == ""
    later = QUIET | {"turns": held.get("turns", 0)}
    assert idle.due(18, **later) == ""
    assert idle.due(19, **later)


def test_b17_never_means_never() -> None:
    assert Idle(None, 0).due(1e9, **QUIET) == ""


def test_a_new_host_is_given_time_for_its_first_client() -> None:
    idle = Idle(0, 0)
    fresh = QUIET | {"ever_attached": False}
    assert idle.due(STARTUP_GRACE - 1, **fresh) == ""
    assert idle.due(STARTUP_GRACE, **fresh)


def test_a_failed_start_ends_even_under_never() -> None:
    failed = QUIET | {"start_failed": True, "busy": True}
    words = "its session did not start and no client is attached"
    assert Idle(None, 0).due(1, **failed) == words
    assert Idle(None, 0).due(1, **failed | {"attached": 1}) == ""


def test_a_lifted_verdict_starts_the_clock_again() -> None:
    idle = Idle(10, 0)
    idle.stayed(10)
    assert idle.due(19, **QUIET) == ""
    assert idle.due(20, **QUIET)
