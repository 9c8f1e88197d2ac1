import uuid

import pytest

from craze.machine import ids


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a", True), ("A-z_0.9", True), ("x" * 128, True), ("...", True), ("x" * 129, False),
        ("", False), (".", False), ("..", False), ("a/b", False), ("a:b", False), ("é", False),
        ("a\n", False), ("a b", False), ("٣", False),
    ],
)  # fmt: skip
def test_tokens(text: str, holds: bool) -> None:
    assert ids.is_token(text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("0123456789ab", True), ("0123456789aB", False), ("0123456789a", False),
        ("0123456789abc", False), ("0123456789ag", False), ("0123456789ab\n", False), ("", False),
    ],
)  # fmt: skip
def test_host_ids(text: str, holds: bool) -> None:
    assert ids.is_host_id(text) is holds


def test_fresh_ids_are_what_they_should_be() -> None:
    now = 1_790_000_000_123_456_789
    made = [uuid.UUID(ids.session_id(now)) for _ in range(200)]
    assert len(set(made)) == 200
    for one in made:
        assert (one.version, one.variant) == (7, uuid.RFC_4122)
        assert one.int >> 80 == now // 1_000_000
    assert ids.is_token(ids.session_id(now))
    hosts = {ids.host_id() for _ in range(200)}
    assert len(hosts) == 200 and all(map(ids.is_host_id, hosts))


def test_a_later_session_id_sorts_later() -> None:
    assert ids.session_id(1_000_000_000) < ids.session_id(2_000_000_000)
