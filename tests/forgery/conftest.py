"""Runs the forgeries by the ordinary path: one run, an attempt each, a real agent process in a real sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from assay.records import Evidence, Trajectory, Verdict
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import load_task

HERE = Path(__file__).parent
collect_ignore = ["task"]


class Judged(NamedTuple):
    """The verdict of each check by name, all evidence, and the outcome that the run counts."""

    verdicts: dict[str, Verdict]
    evidence: tuple[Evidence, ...]
    outcome: str | None


async def run_all(names: Iterable[str], store: Path) -> dict[str, Judged]:
    """One run: a copy of the task for each script, named after it."""
    loaded = load_task(HERE / "task")
    tasks = [loaded._replace(task=msgspec.structs.replace(loaded.task, id=name)) for name in sorted(names)]
    settings = Settings(cache=Settings.from_environment().cache, store=store)
    config = RunConfig(tasks=("-",), agent=f"{HERE / 'attacker.py'}:Attacker", concurrency=3, run="forgery")
    await start_run(config, settings, Tally(), tasks=tasks)
    with RunStore.open(store, "forgery") as run:
        return {t.task: Judged(_outcomes(t), t.evidence, t.outcome) for t in run.trajectories()}


def _outcomes(trajectory: Trajectory) -> dict[str, Verdict]:
    return {verdict.check: verdict for verdict in trajectory.verdicts if verdict.kind == "outcome"}


@pytest.fixture(scope="session")
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """The verdicts on every script that a selected test names."""
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if hasattr(item, "callspec") and "name" in item.callspec.params and item.path.parent == HERE
    }
    return asyncio.run(run_all(wanted, tmp_path_factory.mktemp("forgery")))
