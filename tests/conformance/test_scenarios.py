"""The project's own scenarios: what the recorded ones do not cover."""

from pathlib import Path

import pytest

from tests.conformance.runner import Runner

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.ndjson"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(scenario: Path, tmp_path: Path) -> None:
    Runner(scenario, tmp_path).run()
