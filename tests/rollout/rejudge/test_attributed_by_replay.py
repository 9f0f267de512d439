"""Counterfactual replay as an attribution: the strongest of the three ways to name a decisive step."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.cli.replay import _print_rewound
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.counterfactual import rewind_run
from assay.rollout.rejudge.replay import ReplayConfig
from assay.settings import Settings
from tests.rollout.counting import counting_task

pytestmark = pytest.mark.quick


async def test_the_step_after_which_nobody_could_win_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(tmp_path / "cache", tmp_path)
    agents = Path(__file__).with_name("test_counterfactual.py")
    config = RunConfig(tasks=("-",), agent=f"{agents}:Overshooter", run="r")
    await start_run(config, settings, Tally(), tasks=(counting_task(),))
    replay = ReplayConfig(attempts=("count@0",), agent=f"{agents}:Adder", from_each_prefix=True, allow_task_code=True)
    (found,) = await rewind_run("r", replay, settings, Tally())
    assert found.attribution is not None
    assert (found.attribution.step, found.attribution.method) == (2, "counterfactual")
    _print_rewound(found)
    assert f"that step is of {found.attribution.who}; kind of error: " in capsys.readouterr().out
