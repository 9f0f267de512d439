"""What an attempt comes to without one of its steps: each is left out in turn, and the rest done again and judged.

For credit by leaving one out (`assay.learning.credit.leave_one_out`). Every replay is an ordinary, judged attempt of an
ordinary run. Later steps are done as they were recorded, so where one would have said something else without the step
that is left out, that is not seen: it measures the step's effect on the state, not on the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from assay import __version__
from assay.agents.replay import ReplayAgent
from assay.errors import UserError
from assay.learning.credit.batch import Batched
from assay.learning.credit.interface import Floats
from assay.learning.rows import TrainingRow
from assay.records import Step
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress, Tally
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.replay import ReplayConfig, plan_replay, replay_obstacle, select_attempts
from assay.rollout.runs import new_run_name, open_resources, run_attempts
from assay.settings import Settings
from assay.store import RunStore

__all__ = ["Ablated", "by_step", "left_out"]

MOST_STEPS = 200


class Ablated(msgspec.Struct, frozen=True):
    """What one attempt came to without each of its steps."""

    run: str
    chain: str
    replays: str
    """The run that the replays are."""
    rewards: dict[int, float]
    """`Step.index` to 1 for a pass and 0 for a fail of what is left; without steps whose replay was not judged."""


async def left_out(
    attempt: str, settings: Settings, config: ReplayConfig | None = None, progress: Progress | None = None
) -> Ablated:
    """Replays an attempt without each of its agent's steps.

    Args:
        attempt: `RUN:ATTEMPT`.
        settings: Where the store and the caches are.
        config: As in `assay replay`.
        progress: Told what happens.

    Raises:
        UserError: There is no such attempt, it cannot be replayed, or it has more than 200 steps.
        StoreError: The run is damaged, or nothing can be written.
    """
    run, _, name = attempt.partition(":")
    asked = msgspec.structs.replace(config or ReplayConfig(), attempts=(name,), run=run)
    with RunStore.open(settings.store, run) as store, RecordedTasks(store, asked.check_version, asked.tasks) as tasks:
        (row,) = select_attempts(store, asked)
        trajectory = store.trajectory(row.chain)
        problem = replay_obstacle(trajectory)
        whole = None if problem else plan_replay(store, row, tasks.of(trajectory), asked)
        if whole is None or len(whole.prior) != 1:
            raise UserError(
                f"{row.attempt} cannot be replayed without its steps: {problem or 'it is of several parts'}"
            )
        plans = _plans(whole)
        made_with = msgspec.structs.replace(recorded_config(store, asked), concurrency=asked.concurrency)
        manifest = {
            "agent": "replay",
            "assay_version": __version__,
            "config": {"base": made_with.base},
            "replay": {"run": run, "without_each_step_of": row.chain},
            "tasks": {whole.loaded.task.id: whole.loaded.task.digest},
        }
        replays = new_run_name("without")
        async with open_resources(made_with, settings, [whole.loaded], ReplayAgent()) as means:
            with RunStore.create(settings.store, replays, manifest) as made:
                await run_attempts(made, means, list(plans.values()), progress or Tally())
                came = {step: made.find(plan.id).outcome for step, plan in plans.items()}
    rewards = {step: float(outcome == "pass") for step, outcome in came.items() if outcome in ("pass", "fail")}
    return Ablated(run, row.chain, replays, rewards)


def _plans(whole: PlannedAttempt) -> dict[int, PlannedAttempt]:
    """By step, the plan of the replay without it."""
    prior = whole.prior[0]
    acting = [place for place, act in enumerate(prior.acts) if isinstance(act, Step) and act.actor == "agent"]
    if len(acting) > MOST_STEPS:
        raise UserError(f"{whole.id!r} has {len(acting)} steps; at most {MOST_STEPS} are left out in turn")
    found = {}
    for place in acting:
        step = prior.acts[place]
        assert isinstance(step, Step)
        rest = prior._replace(acts=(*prior.acts[:place], *prior.acts[place + 1 :]))
        extra_config = {**whole.extra_config, "without": step.index}
        found[step.index] = whole._replace(
            id=f"{whole.id}+without-{step.index}", prior=(rest,), extra_config=extra_config
        )
    return found


def by_step(
    rows: Sequence[TrainingRow], held: Batched, values: Mapping[tuple[str, str], Mapping[int, float]]
) -> Floats:
    """A column [T] from values by step, for `Batch._replace(without=...)`; NaN for turns of which nothing is known.

    Args:
        rows: That the batch was made of.
        held: The batch.
        values: Run and chain to `Step.index` to value, as `Ablated.rewards`.
    """
    found = np.full(len(held.places), np.nan)
    for turn, (number, position) in enumerate(held.places):
        row = rows[number]
        step = row.turns[position].step
        known = values.get((row.run, row.chain), {})
        if step is not None and step in known:
            found[turn] = known[step]
    return found
