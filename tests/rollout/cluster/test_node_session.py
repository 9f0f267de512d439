"""A session whose nodes have all left: an error, unless another command has completed the run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assay.errors import EnvironmentFailure
from assay.records import Limits
from assay.rollout.cluster.coordinator import CoordinatorConfig
from assay.rollout.cluster.node_session import NodeSession, PublishedName
from assay.rollout.cluster.place_records import connect_http, publish_end
from assay.rollout.cluster.run_state import listed_run
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Tally
from assay.store.objects import open_place
from assay.tasks import find_tasks
from tests.optional import require_packages

require_packages("obstore")


async def _end(folder: Path, *, has_ended: bool) -> str:
    place = open_place(f"file://{folder}", create=True)
    if has_ended:
        await publish_end(place, "many")

    async def leave() -> None:
        raise EnvironmentFailure("all local nodes have ended")

    watching = asyncio.create_task(leave())
    times = CoordinatorConfig(poll_s=0.05, answer_s=0.04, misses=10)
    session = NodeSession(PublishedName(place, "many", "a" * 32), connect_http(None), watching, times, Tally())
    (loaded,) = find_tasks(("family:grid,n=1,size=3",))
    return await session.coordinate(listed_run("many", [PlannedAttempt("t@0", loaded, 0, 0, Limits())]))


async def test_nodes_that_left_because_another_command_was_faster_end_the_run(tmp_path: Path) -> None:
    assert await _end(tmp_path, has_ended=True) == "complete"


async def test_nodes_that_left_before_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="all local nodes have ended"):
        await _end(tmp_path, has_ended=False)
