"""What an attempt comes to without each step, on a world where it is plain which steps were needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.errors import UserError
from assay.learning.ablation import ablate_steps, ablation_column
from assay.learning.credit import build_batch
from assay.learning.credit.leave_one_out import leave_one_out
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.settings import Settings
from assay.store import RunStore, audit
from tests.learning.credit.rows import row
from tests.rollout.counting import counting_task

ADDS = Path(__file__).with_name("adds.py")


async def test_needed_steps_are_those_without_which_it_is_lost(tmp_path: Path) -> None:
    settings = Settings(Settings.from_environment().cache, tmp_path)
    config = RunConfig(tasks=("-",), agent=f"{ADDS}:Adds", run="r")
    await start_run(config, settings, Tally(), tasks=(counting_task(),))
    with RunStore.open(tmp_path, "r") as store:
        (made,) = store.trajectories()
    found = await ablate_steps(f"r:{made.attempt}", settings, ReplayConfig(allow_task_code=True))
    assert made.outcome == "pass"
    # To add nothing changes nothing; of the ten that it adds, both halves are needed.
    assert found.rewards == {0: 1.0, 1: 0.0, 2: 0.0}
    assert audit(tmp_path, found.replays) == ()
    rows = [row(made.chain, 3, run="r")]
    held = build_batch(rows)
    whole = held.batch._replace(without=ablation_column(rows, held, {("r", made.chain): found.rewards}))
    np.testing.assert_allclose(leave_one_out(whole).advantage, [-2 / 3, 1 / 3, 1 / 3], atol=1e-6)


async def test_an_attempt_that_is_not_there_is_told(tmp_path: Path) -> None:
    settings = Settings(Settings.from_environment().cache, tmp_path)
    await start_run(RunConfig(tasks=("-",), agent=f"{ADDS}:Adds", run="r"), settings, Tally(), tasks=(counting_task(),))
    with pytest.raises(UserError, match="nobody"):
        await ablate_steps("r:nobody@0", settings)


def test_a_turn_of_which_nothing_is_known_stays_unknown() -> None:
    rows = [row("a", spans=[{"step": 0}, {}]), row("b", 1)]
    found = ablation_column(rows, build_batch(rows), {("r", "a"): {0: 1.0, 7: 0.0}})
    np.testing.assert_array_equal(found, [1.0, np.nan, np.nan])
