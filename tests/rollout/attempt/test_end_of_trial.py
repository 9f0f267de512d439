"""A trial that is cancelled while its end is committed has ended: nothing follows its end, and it is not run again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.agents.building import build_agent
from assay.agents.interface import Attempt
from assay.records import AttemptEnded
from assay.rollout import RunConfig, Tally, TrialResult, start_run
from assay.rollout.limits.run_controls import RunControls
from assay.rollout.plan import PlannedAttempt, plan
from assay.rollout.runs import make_services, open_resources
from assay.rollout.schedule.runner import run_plan
from assay.rollout.telemetry.observer import SILENT, TrialInfo
from assay.settings import Settings
from assay.store import AttemptRow, RunStore
from tests.rollout.counting import counting_task

pytestmark = pytest.mark.quick


class Done:
    """Ends at once."""

    name = "done"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        attempt.finish("done")


class AtCommit:
    """Does something as the end of the first trial is committed, whichever it is. Observes nothing else."""

    def __init__(self, act: Callable[[TrialInfo], object]) -> None:
        self._act: Callable[[TrialInfo], object] | None = act

    def begin_trial(self, trial: TrialInfo) -> _TrialAtCommit:
        return _TrialAtCommit(self, trial)

    def act_once(self, trial: TrialInfo) -> None:
        act, self._act = self._act, None
        if act is not None:
            act(trial)


class _TrialAtCommit:
    def __init__(self, run: AtCommit, trial: TrialInfo) -> None:
        self._run, self._trial = run, trial

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        if name == "commit":
            self._run.act_once(self._trial)
        yield

    def __getattr__(self, name: str) -> Any:
        return getattr(SILENT, name)


async def run_two(
    root: Path, act: Callable[[TrialInfo], object], controls: RunControls
) -> tuple[list[AttemptRow], int]:
    """Returns the rows of two attempts, and how many of them the run counted as done."""
    config = RunConfig(tasks=("-",), agent=f"{__file__}:Done", run="two", concurrency=2)
    tasks, agent = [counting_task("t0"), counting_task("t1")], build_agent(config.agent, {})
    settings, tally = Settings(cache=root / "cache", store=root / "store"), Tally()
    async with open_resources(config, settings, tasks, agent) as resources:
        with RunStore.create(settings.store, "two", {}) as store:
            services = make_services(store, resources, None)._replace(observer=AtCommit(act), controls=controls)
            await run_plan(services, plan(tasks, agent.name, 1, seed=0, limits=config.limits), tally)
            for row in store.attempts():
                assert isinstance(list(store.events(row.chain))[-1].body, AttemptEnded)
            return store.attempts(), tally.done


def cancel_current(_: TrialInfo) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def test_a_cancelled_trial_keeps_its_end(tmp_path: Path) -> None:
    rows, done = await run_two(tmp_path, cancel_current, RunControls(2))
    assert [(row.ended, row.interrupted, row.retry) for row in rows] == [("done", False, 0)] * 2
    assert done == 1  # the run was told of the other one alone


async def test_an_abort_that_comes_too_late_is_ignored(tmp_path: Path) -> None:
    controls = RunControls(2)
    rows, done = await run_two(tmp_path, lambda trial: controls.abort(trial.run, trial.attempt), controls)
    assert [(row.ended, row.interrupted, row.retry) for row in rows] == [("done", False, 0)] * 2
    assert done == 2


class Results(Tally):
    """Keeps the results of trials."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[TrialResult] = []

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        super().finished(attempt, result)
        self.results.append(result)


class Teller:
    """Tells a credential as it ends, or as it fails."""

    name = "teller"
    needs_model = False

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    async def run(self, attempt: Attempt) -> None:
        if self._fails:
            raise ValueError("refused: secret-of-the-driver-1234")
        attempt.finish("it is secret-of-the-driver-1234")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_result_that_leaves_the_machine_holds_no_credential(tmp_path: Path, *, fails: bool) -> None:
    settings = Settings(tmp_path, tmp_path / "runs", openai_api_key="secret-of-the-driver-1234")
    config = RunConfig(
        tasks=("family:grid,n=1,size=3",), run="r", agent=f"{__file__}:Teller", agent_options={"fails": fails}
    )
    progress = Results()
    await start_run(config, settings, progress)
    (result,) = progress.results
    assert "[redacted:OPENAI_API_KEY]" in f"{result.ended} {result.error}"
    assert "secret-of-the-driver" not in str(result)
