"""How often garbage is looked for, and that it is as before once nobody wants it seldom."""

from __future__ import annotations

import gc
from pathlib import Path

from assay.agents.functions import FunctionAgent
from assay.agents.interface import Attempt
from assay.gc_tuning import raised_thresholds
from assay.rollout import RunConfig, RunParts, Tally, start_run
from assay.rollout.schedule.runner import GC_THRESHOLD
from assay.settings import Settings
from tests.rollout.counting import counting_task


def test_the_most_patient_one_decides_and_what_was_before_comes_back_in_any_order(
    thresholds: tuple[int, int, int],
) -> None:
    one, other = raised_thresholds(90_000), raised_thresholds(95_000, 50)
    with one:
        assert gc.get_threshold() == (90_000, *thresholds[1:])
        other.__enter__()
        assert gc.get_threshold() == (95_000, 50, thresholds[2])
    assert gc.get_threshold() == (95_000, 50, thresholds[2])
    other.__exit__(None, None, None)
    assert gc.get_threshold() == thresholds


def test_a_process_that_looks_for_none_goes_on_so(thresholds: tuple[int, int, int]) -> None:
    gc.set_threshold(0)
    with raised_thresholds(90_000):
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0
    gc.set_threshold(*thresholds)


async def test_a_run_collects_more_seldom_and_leaves_the_process_as_it_was(
    thresholds: tuple[int, int, int], tmp_path: Path
) -> None:
    seen: list[int] = []

    async def look(attempt: Attempt) -> None:
        seen.append(gc.get_threshold()[0])
        attempt.finish("looked")

    config = RunConfig(tasks=("-",), agent="null", run="seldom")
    settings, parts = Settings(cache=tmp_path, store=tmp_path / "store"), RunParts(agent=FunctionAgent(look))
    await start_run(config, settings, Tally(), tasks=[counting_task("t")], parts=parts)
    assert seen == [GC_THRESHOLD]
    assert gc.get_threshold() == thresholds
