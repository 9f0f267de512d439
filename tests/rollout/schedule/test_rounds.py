"""Runs whose attempts are decided round by round."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay.agents.interface import Attempt
from assay.errors import UserError
from assay.records import AttemptStarted, Trajectory
from assay.rollout import (
    PlannedAttempt,
    ReverifyConfig,
    RunConfig,
    Tally,
    TrialResult,
    require_finished,
    resume_run,
    reverify,
    start_run,
)
from assay.rollout.limits.early_stop import HOPELESS, stop_report
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import replay
from assay.settings import Settings
from assay.store import RunStore, audit
from tests.rollout.counting import counting_task
from tests.rollout.rounds_run import ATTEMPTS, config
from tests.sampling import WHOLE

ROOT = Path(__file__).parents[3]
TASKS = 12


class CutError(Exception):
    """The run is cut here."""


class CuttingTally(Tally):
    """Cuts the run after some attempts."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        super().finished(attempt, result)
        self._after -= 1
        if self._after == 0:
            raise CutError


def made(store: Path, run: str) -> dict[str, tuple[Any, ...]]:
    """What each attempt of a run was told and came to; chains that were cut left out."""
    with RunStore.open(store, run) as opened:
        rows = [row for row in opened.attempts() if row.final]
        assert len({row.attempt for row in rows}) == len(rows)
        trajectories = [opened.trajectory(row.chain) for row in rows]
    return {one.attempt: (told(one.started), one.agent, one.seed, one.outcome, acts(one)) for one in trajectories}


def told(started: AttemptStarted) -> dict[str, Any]:
    """But for the number of tries that the attempt which is gone on from had."""
    found = dict(started.config)
    if "fork" in found:
        found["fork"] = {**found["fork"], "chain": found["fork"]["chain"].rpartition(".")[0]}
    return found


def acts(trajectory: Trajectory) -> list[str]:
    return [call.arguments for step in trajectory.steps for call in step.tool_calls]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that nobody cut."""
    store = tmp_path_factory.mktemp("whole")
    for policy in ("uncertainty", "forks", "frontier"):
        asyncio.run(start_run(config(policy), Settings(cache=store, store=store), Tally()))
    return store


@pytest.mark.long
@pytest.mark.parametrize("policy", ["uncertainty", "forks", "frontier"])
def test_a_cut_run_is_finished_as_if_it_had_not_been_cut(policy: str, whole: Path, tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path, store=tmp_path)
    with pytest.raises(CutError):
        asyncio.run(start_run(config(policy), settings, CuttingTally(31)))
    with pytest.raises(CutError):
        asyncio.run(resume_run(policy, settings, CuttingTally(23)))
    with pytest.raises(UserError, match="have not ended"):
        require_finished(tmp_path, policy)
    asyncio.run(resume_run(policy, settings, Tally()))
    require_finished(tmp_path, policy)
    assert made(tmp_path, policy) == made(whole, policy)


@pytest.mark.long
def test_a_killed_run_of_forks_loses_nothing_and_does_nothing_twice(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.rollout.rounds_run", str(tmp_path), "forks"]
    moments = random.Random(3)
    for _ in range(6 if WHOLE else 3):
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        lock = tmp_path / "runs" / "forks" / "lock"
        while process.poll() is None and not (lock.exists() and lock.read_text() == str(process.pid)):
            time.sleep(0.005)
        time.sleep(moments.uniform(0.0, 0.3))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert made(tmp_path, "forks") == made(whole, "forks")
    assert audit(tmp_path, "forks") == ()


def test_the_whole_budget_is_spent_and_each_round_is_told(whole: Path) -> None:
    found = made(whole, "uncertainty")
    assert len(found) == TASKS * ATTEMPTS
    rounds = Counter(given["allocation"]["round"] for given, *_ in found.values())
    assert rounds[0] == TASKS * 2
    assert sorted(rounds) == list(range(len(rounds)))


def test_forks_begin_in_a_recorded_state_and_are_called_so(whole: Path) -> None:
    with RunStore.open(whole, "forks") as run:
        rows = run.attempts()
        forks = [run.trajectory(row.chain) for row in rows if row.agent == "fork+expert"]
        assert len(forks) >= 4
        for fork in forks:
            begin = fork.started.config["fork"]
            parent = [step for step in run.trajectory(begin["chain"]).steps if step.actor == "agent"]
            assert parent[begin["prefix"] - 1].state == begin["state"]
            assert fork.task == run.trajectory(begin["chain"]).task


async def test_forks_are_judged_again_from_where_they_began(whole: Path) -> None:
    report = await reverify("forks", ReverifyConfig(again=1), Settings(cache=whole, store=whole))
    assert report.counts["agree"] == TASKS * ATTEMPTS


async def test_a_fork_is_not_replayed_from_the_start(whole: Path) -> None:
    with RunStore.open(whole, "forks") as run:
        fork = next(row.attempt for row in run.attempts() if row.agent == "fork+expert")
    given = ReplayConfig(attempts=(fork,), run="forks")
    report = await replay("forks", given, Settings(cache=whole, store=whole), Tally())
    assert "began in the middle" in str(report.results[0].problem)


def test_a_curriculum_without_levels_is_refused(tmp_path: Path) -> None:
    given = RunConfig(tasks=("family:grid,n=2",), agent="expert", allocate="frontier")
    with pytest.raises(UserError, match="name at least two"):
        asyncio.run(start_run(given, Settings(cache=tmp_path, store=tmp_path), Tally()))
    assert not (tmp_path / "runs").exists()


def test_a_record_that_the_policy_does_not_ask_for_is_refused(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path, store=tmp_path)
    with pytest.raises(CutError):
        asyncio.run(start_run(config("uncertainty"), settings, CuttingTally(1)))
    with RunStore.open(tmp_path, "uncertainty", write=True) as run:
        run.append(
            "grid-0-0@99.0", [AttemptStarted("uncertainty", "grid-0-0@99", "grid-0-0", "d", "expert", None, 0, 99)]
        )
    with pytest.raises(UserError, match="is not an attempt of round 0"):
        asyncio.run(resume_run("uncertainty", settings, Tally()))


class Wanderer:
    """Reaches ten at once, or goes to and fro for long, by its seed."""

    name = "wanderer"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        from tests.rollout.agents import add

        if attempt.seed % 3:
            for _ in range(attempt.seed % 5):
                await attempt.act([add(1)])
            await attempt.act([add(10 - attempt.seed % 5)])
        else:
            for _ in range(20):
                await attempt.act([add(1)])
                await attempt.act([add(-1)])
        attempt.finish("done")


@pytest.mark.long
def test_hopeless_attempts_are_stopped_and_controls_tell_how_wrong_that_was(tmp_path: Path) -> None:
    given = RunConfig(tasks=("-",), agent=f"{__file__}:Wanderer", attempts=5, early_stop=0.1, run="stopped")
    tasks = [counting_task(f"count-{n:02}") for n in range(40)]
    asyncio.run(start_run(given, Settings(cache=tmp_path, store=tmp_path), Tally(), tasks=tasks))
    with RunStore.open(tmp_path, "stopped") as run:
        trajectories = list(run.trajectories())
    report = stop_report(trajectories)
    stopped = [one for one in trajectories if one.finished is not None and one.finished.stopped == HOPELESS]
    assert report.stopped == len(stopped) > 20
    assert all(one.outcome == "fail" and len(one.steps) < 10 for one in stopped)
    assert report.controls > 2
    assert report.false_stop_rate is not None
    assert report.false_stop_rate <= 0.2
    assert len(trajectories) == 200
