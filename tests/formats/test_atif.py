"""ATIF: round trips, what it holds, hostile documents, and Harbor's own models."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from assay.formats.atif import Atif
from assay.records import Trajectory
from tests.formats.generated import round_trip, trajectories


@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trajectories())
def test_a_generated_trajectory_comes_back_the_same(trajectory: Trajectory) -> None:
    round_trip(Atif(), [trajectory], ".json")
