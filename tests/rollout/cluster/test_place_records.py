"""What a place says of runs: a known name is given to no other run, and a record that is no run's is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import __version__
from assay.errors import UserError
from assay.rollout import RunConfig, Tally
from assay.rollout.cluster.commits import commit_final, new_token, pack_trial
from assay.rollout.cluster.node_session import PlacedRunOptions
from assay.rollout.cluster.place_records import PublishedRun, new_run_id, publish_run, require_unused
from assay.rollout.cluster.placed_run import start_placed_run
from assay.rollout.cluster.recorded_trial import cluster_run
from assay.rollout.cluster.run_status import count_attempts
from assay.rollout.cluster.workloads import concurrency_of
from assay.settings import Settings
from assay.store.objects import open_place
from assay.tasks import find_tasks
from tests.optional import require_packages
from tests.store.objects.simulated import SimulatedStore

require_packages("obstore")
BODY = pack_trial("grid-size3-0-0@0.0", 0, "blake3:" + "0" * 64, [], None)


async def test_finals_of_a_run_whose_record_was_removed_do_not_decide_a_new_one(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/objects"
    await commit_final(open_place(url, create=True), "r", "grid-size3-0-0@0", new_token(), BODY)
    config = RunConfig(tasks=("family:grid,n=1,size=3",), agent="expert", run="r")
    with pytest.raises(UserError, match=r"whose run.json was removed: choose another name"):
        await start_placed_run(config, Settings(tmp_path, tmp_path / "s"), Tally(), PlacedRunOptions(url, 1))
    assert not (tmp_path / "s" / "runs").exists()


async def test_a_published_name_is_taken_and_a_sealed_copy_of_a_run_takes_none() -> None:
    place = SimulatedStore()
    await place.create(f"runs/r/segments/{'a' * 64}/events.parquet", b"")
    await require_unused(place, "r")
    await publish_run(place, PublishedRun(1, "r", new_run_id(), "/project", {}))
    with pytest.raises(UserError, match="holds a run 'r' already"):
        await require_unused(place, "r")


@pytest.mark.parametrize("workload", ["os:system", ["x"], 7])
def test_work_of_an_unknown_kind_is_refused(workload: object) -> None:
    manifest = {"assay_version": __version__, "workload": workload}
    with pytest.raises(UserError, match="this node knows"):
        concurrency_of(PublishedRun(1, "r", new_run_id(), "/project", manifest))


@pytest.mark.parametrize(
    "manifest", [{}, {"config": None, "tasks": {}}, {"config": {}, "tasks": [1]}, {"workload": "x", "attempts": "y"}]
)
def test_the_attempts_of_a_run_that_does_not_say_how_it_was_made_are_unknown(manifest: dict[str, object]) -> None:
    assert count_attempts(manifest) == 0


def test_a_run_of_a_place_with_too_many_attempts_is_refused() -> None:
    config = RunConfig(tasks=("family:grid,n=1,size=3",), agent="expert", run="r", attempts=10**15)
    with pytest.raises(UserError, match="at most 1,000,000 are allowed"):
        cluster_run("r", config, find_tasks(config.tasks), "expert")
