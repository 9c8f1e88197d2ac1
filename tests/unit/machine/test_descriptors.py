import resource
from collections.abc import Iterator

import pytest

from craze.machine import descriptors


@pytest.fixture(autouse=True)
def given(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The limit of this process, which it has again afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(descriptors, "_given", [])
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def limit() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def test_the_limit_is_raised_and_children_have_it_as_it_was(given: tuple[int, int]) -> None:
    low = (min(given[0], 256), given[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, low)
    descriptors.raise_limit()
    raised = (given[1], given[1])
    assert limit() == raised
    with descriptors.as_given():
        assert limit() == low
    assert limit() == raised
    with pytest.raises(ZeroDivisionError), descriptors.as_given():
        raise ZeroDivisionError
    assert limit() == raised


def test_nothing_raised_is_nothing_lowered(given: tuple[int, int]) -> None:
    with descriptors.as_given():
        assert limit() == given


def test_a_system_that_refuses_keeps_its_limit(
    given: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    with monkeypatch.context() as patch:
        patch.setattr(resource, "setrlimit", refuse)
        descriptors.raise_limit()
        with descriptors.as_given():
            assert limit() == given
