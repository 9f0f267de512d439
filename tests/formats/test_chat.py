"""Chat JSONL and ShareGPT: round trips, columns, and rows that are none."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from assay.formats.chat import Chat
from assay.formats.interface import Format
from assay.formats.sharegpt import ShareGpt
from assay.records import Trajectory
from tests.formats.generated import round_trip, trajectories

QUICK = settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.mark.parametrize("format", [Chat(), ShareGpt()], ids=lambda f: f.name)
def test_a_generated_trajectory_comes_back_the_same(format: Format) -> None:
    @QUICK
    @given(trajectories())
    def goes_round(trajectory: Trajectory) -> None:
        round_trip(format, [trajectory], ".jsonl")

    goes_round()
