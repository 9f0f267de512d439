"""Runs that others recorded, in whatever format, go round through the formats that hold nearly all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from assay.errors import UserError
from assay.formats.harbor.atif import AtifFormat
from assay.formats.harbor.format import HarborFormat
from assay.formats.interface import Format, ImportContext
from assay.records import Trajectory
from assay.rollout.exchange.sources import SourceWalk
from tests.formats.generated import Blobs, assembled, round_trip
from tests.sampling import draw_sample

SETS = {"tau-bench": 100, "swe-agent": 20, "who-and-when": 100, "inspect-logs": 40, "spark-skills": 100}
"""How many runs there are at least."""
SAMPLE = 30
"""Of each set so many runs go round; `make campaign` takes all."""


class DataSet(NamedTuple):
    """The runs of a data set, and what they name by digest."""

    name: str
    runs: list[Trajectory]
    blobs: Blobs


@pytest.fixture(scope="module", params=SETS)
def data_set(request: pytest.FixtureRequest, shared_data: Path) -> DataSet:
    """Each data set is read once, for all formats."""
    blobs = Blobs()
    reading = ImportContext(blobs.keep, lambda _: None)
    walk = SourceWalk(None, lambda _: None)
    trajectories: list[Trajectory] = []
    for found in walk.find_sources(shared_data / request.param):
        with suppress(UserError):  # what is no run, which an import names
            trajectories += map(assembled, found.format.read(found.path, reading))
    return DataSet(request.param, trajectories, blobs)


@pytest.mark.long
@pytest.mark.parametrize(
    ("format", "target"), [(AtifFormat(), "atif"), (HarborFormat(), "job")], ids=["atif", "harbor"]
)
def test_recorded_runs_come_back_the_same(data_set: DataSet, format: Format, target: str) -> None:
    assert len(data_set.runs) >= SETS[data_set.name]
    losses = round_trip(format, draw_sample(data_set.runs, SAMPLE), target, data_set.blobs)
    assert {loss.field for loss in losses} <= {"calls.request", "calls.raw_request"}
