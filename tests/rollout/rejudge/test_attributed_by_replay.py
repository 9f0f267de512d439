"""Counterfactual replay as an attribution: the strongest of the three ways to name a decisive step."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.analysis.attribution import attribute_by_replay
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.counterfactual import decisive_step, rewind
from assay.settings import Settings
from assay.store import RunStore
from tests.rollout.counting import counting_task
from tests.rollout.rejudge.test_counterfactual import Adder

pytestmark = pytest.mark.quick


async def test_the_step_after_which_nobody_could_win_is_named(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path)
    agent = f"{Path(__file__).with_name('test_counterfactual.py')}:Overshooter"
    await start_run(RunConfig(tasks=("-",), agent=agent, run="r"), settings, Tally(), tasks=(counting_task(),))
    outcomes = await rewind("r:count@0", Adder(), settings)
    with RunStore.open(tmp_path, "r") as store:
        (found,) = store.trajectories()
    shown = attribute_by_replay(found, decisive_step(outcomes, len(found.steps)))
    assert shown is not None
    assert (shown.step, shown.method) == (2, "counterfactual")
