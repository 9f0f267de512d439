"""Leave-one-out ablation: replays an attempt without each of its steps and judges the result.

For the credit method `leave_one_out`. Every replay is an ordinary, judged attempt of an ordinary run. Later steps are
replayed as recorded, so the ablation measures a step's effect on the state, not on the agent's later decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from assay import __version__
from assay.agents.replay import ReplayAgent
from assay.errors import UserError
from assay.learning.credit.batch import RowBatch
from assay.learning.credit.interface import Floats
from assay.learning.rows import TrainingRow
from assay.records import Step
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress, Tally
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.replay import plan_replay, replay_obstacle, select_attempts
from assay.rollout.run_manifest import new_run_name
from assay.rollout.runs import open_resources, run_attempts
from assay.settings import Settings
from assay.store import RunStore

MAX_STEPS = 200


class AblationResult(msgspec.Struct, frozen=True):
    """Result of an ablation."""

    run: str
    chain: str
    replays: str
    """Run of the replays."""
    rewards: dict[int, float]
    """`Step.index` to the reward without that step: 1 for a pass, 0 for a fail; unjudged replays are omitted."""


async def ablate_steps(
    attempt: str, settings: Settings, config: ReplayConfig | None = None, progress: Progress | None = None
) -> AblationResult:
    """Replays the attempt `RUN:ATTEMPT` once without each of its agent's steps.

    Raises:
        UserError: The attempt does not exist, it cannot be replayed, or it has more than 200 steps.
        StoreError: The run is damaged, or nothing can be written.
    """
    run, _, name = attempt.partition(":")
    replay_config = msgspec.structs.replace(config or ReplayConfig(), attempts=(name,), run=run)
    with (
        RunStore.open(settings.store, run) as store,
        RecordedTasks.chosen(store, replay_config) as tasks,
    ):
        (row,) = select_attempts(store, replay_config)
        trajectory = store.trajectory(row.chain)
        problem = replay_obstacle(trajectory)
        whole = None if problem else plan_replay(store, row, tasks.of(trajectory), replay_config)
        if whole is None or len(whole.prior) != 1:
            raise UserError(
                f"{row.attempt} cannot be replayed without its steps: {problem or 'it is of several parts'}"
            )
        plans = _plans(whole)
        run_settings = msgspec.structs.replace(
            recorded_config(store, replay_config), concurrency=replay_config.concurrency
        )
        manifest = {
            "agent": "replay",
            "assay_version": __version__,
            "config": {"base": run_settings.base},
            "replay": {"run": run, "without_each_step_of": row.chain},
            "tasks": {whole.loaded.task.id: whole.loaded.task.digest},
        }
        replays = new_run_name("without")
        async with open_resources(run_settings, settings, [whole.loaded], ReplayAgent()) as means:
            with RunStore.create(settings.store, replays, manifest) as made:
                await run_attempts(made, means, list(plans.values()), progress or Tally())
                outcomes = {step: made.find(plan.id).outcome for step, plan in plans.items()}
    rewards = {step: float(outcome == "pass") for step, outcome in outcomes.items() if outcome in ("pass", "fail")}
    return AblationResult(run, row.chain, replays, rewards)


def _plans(whole: PlannedAttempt) -> dict[int, PlannedAttempt]:
    prior = whole.prior[0]
    agent_positions = [
        position for position, act in enumerate(prior.acts) if isinstance(act, Step) and act.actor == "agent"
    ]
    if len(agent_positions) > MAX_STEPS:
        raise UserError(f"{whole.id!r} has {len(agent_positions)} steps; at most {MAX_STEPS} are left out in turn")
    found = {}
    for position in agent_positions:
        step = prior.acts[position]
        assert isinstance(step, Step)
        rest = prior._replace(acts=(*prior.acts[:position], *prior.acts[position + 1 :]))
        extra_config = {**whole.extra_config, "without": step.index}
        found[step.index] = whole._replace(
            id=f"{whole.id}+without-{step.index}", prior=(rest,), extra_config=extra_config
        )
    return found


def ablation_column(
    rows: Sequence[TrainingRow], row_batch: RowBatch, values: Mapping[tuple[str, str], Mapping[int, float]]
) -> Floats:
    """Returns a column [T] for `Batch._replace(without=...)`; NaN for turns without a value."""
    found = np.full(len(row_batch.positions), np.nan)
    for turn, (number, position) in enumerate(row_batch.positions):
        row = rows[number]
        step = row.turns[position].step
        known = values.get((row.run, row.chain), {})
        if step is not None and step in known:
            found[turn] = known[step]
    return found
