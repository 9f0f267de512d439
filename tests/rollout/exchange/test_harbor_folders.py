"""The hand-written Harbor folders, run for real: the reference solution passes, doing nothing fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore, audit

FOLDERS = Path(__file__).parents[2] / "tasks" / "harbor"
NEEDS_HARDWARE = {"assay/ready-image"}


async def outcomes(agent: str, store: Path) -> dict[str, str | None]:
    config = RunConfig(
        tasks=(str(FOLDERS),),
        agent=agent,
        run="harbor",
        base={"python:3.12-slim": "scratch"},
        allow_network=True,
        concurrency=2,
    )
    cache = Settings.from_environment().cache
    await start_run(config, Settings(cache=cache, store=store), Tally())
    assert audit(store, "harbor") == ()
    with RunStore.open(store, "harbor") as run:
        return {row.task: row.outcome for row in run.attempts() if row.final}


@pytest.mark.long
async def test_reference_solutions_pass(tmp_path: Path) -> None:
    found = await outcomes("oracle", tmp_path)
    assert len(found) == 12
    assert {task for task, outcome in found.items() if outcome != "pass"} == NEEDS_HARDWARE


@pytest.mark.long
async def test_doing_nothing_never_passes(tmp_path: Path) -> None:
    found = await outcomes("null", tmp_path)
    assert {outcome for task, outcome in found.items() if task not in NEEDS_HARDWARE} == {"fail"}


@pytest.mark.long
async def test_a_task_that_cannot_be_set_up_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    await outcomes("null", tmp_path)
    with RunStore.open(tmp_path, "harbor") as run:
        row = run.find("assay/ready-image@0")
    assert (row.broke, row.outcome) == ("task", None)
    assert "accelerator" in (row.error or "")
