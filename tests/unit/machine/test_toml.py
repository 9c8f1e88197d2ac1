import math
import tomllib
from datetime import UTC, date, datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.machine import toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    TEXT | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
    | st.dates() | st.times() | st.datetimes(timezones=st.none() | st.just(UTC))
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_any_document_comes_back(document: dict[str, object]) -> None:
    assert tomllib.loads(toml.dumps(document)) == document


def test_a_configuration_reads_as_one_writes_it() -> None:
    document = {
        "agents": {"grok": "/opt/x/grok"},
        "provider": "grok",
        "providers": {"my own": {"command": ["a", 'b"c'], "env": {}}},
        "many": [{"a": 1}, {"b": [1, 2.5, True]}],
    }
    assert toml.dumps(document) == (
        'provider = "grok"\n\n[agents]\ngrok = "/opt/x/grok"\n\n[providers]\n\n'
        '[providers."my own"]\ncommand = ["a", "b\\"c"]\n\n[providers."my own".env]\n\n'
        "[[many]]\na = 1\n\n[[many]]\nb = [1, 2.5, true]\n"
    )


def test_odd_numbers_and_times() -> None:
    document = {"i": math.inf, "d": date(2026, 1, 2), "t": time(3, 4), "n": -0.0}
    document["at"] = datetime(2026, 1, 2, tzinfo=UTC)
    assert tomllib.loads(toml.dumps(document)) == document
    assert math.isnan(tomllib.loads(toml.dumps({"x": math.nan}))["x"])


def test_what_toml_cannot_say() -> None:
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        toml.dumps({"x": None})
