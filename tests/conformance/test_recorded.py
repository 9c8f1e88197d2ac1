"""The recorded scenarios of protocol 1, byte for byte."""

from pathlib import Path

import pytest

from tests.conformance.runner import Runner

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "wire"
SCENARIOS = range(1, 27)


@pytest.mark.parametrize("number", SCENARIOS)
def test_recorded_scenario(number: int, tmp_path: Path) -> None:
    found = sorted(RECORDED.glob(f"{number:02d}-*.ndjson"))
    if not found:
        pytest.skip(f"no recorded scenario {number:02d}: {RECORDED} is not there")
    Runner(found[0], tmp_path).run()
