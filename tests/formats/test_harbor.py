"""Harbor's job folders: round trips, what a trial's files become, and hostile folders."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.formats.harbor import HarborJob
from assay.records import Trajectory
from tests.formats.generated import round_trip, trajectories


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(trajectories(), min_size=4, max_size=4))
def test_generated_trajectories_come_back_the_same(given_: list[Trajectory]) -> None:
    round_trip(HarborJob(), given_, "job")
