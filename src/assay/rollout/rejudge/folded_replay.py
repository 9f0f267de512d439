"""Executes recorded attempts again with some of their calls made by composite tools, as one ordinary, judged run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from assay import __version__
from assay.agents.composites import CompositeReplayAgent, CompositeTool
from assay.analysis.judged_path import judged_path
from assay.errors import StoreError, UserError
from assay.records import Trajectory, digest_record
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress
from assay.rollout.rejudge.config import ReplayConfig, SandboxOptions
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.replay import plan_replay, replay_obstacle
from assay.rollout.run_manifest import new_run_name
from assay.rollout.runs import open_resources, run_attempts
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask
from assay.verdicts import trust_of
from assay.verify.reverification import CannotRebuildError


class FoldedReplay(NamedTuple):
    """The result of one attempt that was executed again by one composite tool."""

    tool: str
    chain: str
    """Chain of the recorded attempt."""
    run: str
    """Run of the execution; empty if there was none."""
    attempt: str
    problem: str | None
    """Why it does not support the tool; None if it does."""


async def replay_folded(
    run: str, chosen: Mapping[str, Sequence[CompositeTool]], settings: Settings, progress: Progress
) -> list[FoldedReplay]:
    """Executes attempts of a run again, once for each of their composite tools.

    An execution supports its tool if the composite was called without a problem, the attempt's checks pass without
    doubt, and the final state is the recorded one.

    Args:
        run: The run.
        chosen: The tools to execute, by chain.
        settings: Where the store is.
        progress: Told of each attempt.

    Raises:
        UserError: An attempt does not exist.
        StoreError: The run is damaged.
    """
    config = ReplayConfig(run=run, all=True, no_experiments=True)
    found: list[FoldedReplay] = []
    planned: list[tuple[PlannedAttempt, Trajectory, CompositeTool]] = []
    with RunStore.open(settings.store, run) as store, RecordedTasks.chosen(store, config) as tasks:
        for chain, tools in chosen.items():
            row = next((one for one in store.attempts() if one.chain == chain), None)
            if row is None:
                raise UserError(f"run {run!r} has no attempt of the chain {chain}")
            recorded = judged_path(store.trajectory(chain))
            loaded = _load(tasks, recorded)
            if isinstance(loaded, str):
                found += [FoldedReplay(tool.name, chain, "", row.attempt, loaded) for tool in tools]
                continue
            for tool in tools:
                plan = plan_replay(store, row, loaded, config)
                name = f"{plan.id}+{digest_record(tool)[7:15]}"
                planned.append((plan._replace(id=name, agent=CompositeReplayAgent([tool])), recorded, tool))
        if planned:
            name = await _execute(store, config, [plan for plan, _, _ in planned], settings, progress)
            with RunStore.open(settings.store, name) as made:
                for plan, recorded, tool in planned:
                    again = made.trajectory(made.find(plan.id).chain)
                    problem = _problem(recorded, again)
                    found.append(FoldedReplay(tool.name, recorded.chain, name, plan.id, problem))
    return found


def _load(tasks: RecordedTasks, recorded: Trajectory) -> LoadedTask | str:
    obstacle = replay_obstacle(recorded)
    if obstacle is not None:
        return obstacle
    try:
        return tasks.of(recorded)
    except CannotRebuildError as exc:
        return str(exc)


async def _execute(
    store: RunStore,
    config: ReplayConfig,
    planned: Sequence[PlannedAttempt],
    settings: Settings,
    progress: Progress,
) -> str:
    name, agent = new_run_name("composites"), planned[0].agent
    if agent is None:
        raise StoreError("a folded replay was planned without its agent")
    loaded = {plan.loaded.task.id: plan.loaded for plan in planned}
    given = msgspec.to_builtins(recorded_config(store, config))
    manifest = {
        "agent": agent.name,
        "assay_version": __version__,
        "config": {field: given[field] for field in SandboxOptions.__struct_fields__},
        "replay": {"run": store.run, **msgspec.to_builtins(config)},
        "tasks": {task: one.task.digest for task, one in loaded.items()},
    }
    recorded = msgspec.structs.replace(recorded_config(store, config), concurrency=config.concurrency)
    async with open_resources(recorded, settings, list(loaded.values()), agent) as resources:
        with RunStore.create(settings.store, name, manifest) as made:
            await run_attempts(made, resources, planned, progress)
    return name


def _problem(recorded: Trajectory, again: Trajectory) -> str | None:
    if again.finished is None or again.finished.broke is not None:
        return "the execution broke"
    called = [one.data for one in again.evidence if one.kind == "composite_call"]
    if not called:
        return "the composite was not called"
    stopped = next((one["problem"] for one in called if "problem" in one), None)
    if stopped is not None:
        return f"the composite stopped: {stopped}"
    if not trust_of(again).trusted:
        return "the attempt does not pass any more"
    if _last_state(recorded) != _last_state(again):
        return "the final state differs from the recorded one"
    return None


def _last_state(trajectory: Trajectory) -> str | None:
    return next((step.state for step in reversed(trajectory.steps) if step.state is not None), None)
