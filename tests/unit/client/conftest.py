from collections.abc import Iterator

import gevent
import pytest

from tests.unit.client.stub import Stub, serving


@pytest.fixture
def stub() -> Iterator[Stub]:
    yield from serving()


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """A test that hangs fails instead."""
    with gevent.Timeout(20, AssertionError("the test hung")):
        yield
