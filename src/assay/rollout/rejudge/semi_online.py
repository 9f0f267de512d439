"""Semi-online replay: another agent acts on the pages of verified attempts, without the site.

Each recorded attempt that passed becomes a task whose environment plays its pages (`environments.browser.recorded`).
The replays are an ordinary, judged run: a replay passes if the agent does all recorded steps itself, without a patch,
and stops there. Each attempt records that it is a semi-online replay: it is no sample of the live task's attempts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from assay import __version__
from assay.agents.fork import DelegatingAgent
from assay.agents.interface import Agent, Attempt
from assay.agents.patched_attempt import PatchedAttempt
from assay.analysis.judged_path import judged_path
from assay.analysis.semi_online import PREFIX, ReplayedSteps, ReplayScore, replayed_steps_of, score_replay
from assay.environments.browser.recorded.record import RecordedCall, read_pages
from assay.environments.browser.recorded.site import KIND
from assay.errors import UserError
from assay.plugins import construct, load
from assay.records import Check, EnvironmentSpec, Task, Trajectory, digest_record, pair_observations
from assay.rollout.plan import PlannedAttempt, attempt_seed, merge_limits
from assay.rollout.progress import Progress
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.replay import replay_obstacle, select_attempts
from assay.rollout.run_manifest import new_run_name
from assay.rollout.runs import open_resources, run_attempts
from assay.settings import Settings
from assay.statistics import Interval, mean_interval
from assay.store import AttemptRow, RunStore
from assay.tasks import LoadedTask
from assay.verdicts import trust_of
from assay.verify.reverification import CannotRebuildError


class SemiOnlineResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of one replay."""

    attempt: str
    """The recorded attempt."""
    replay: str | None = None
    """Chain of the replay; None if there was none."""
    problem: str | None = None
    """Reason why it could not be replayed, or broke."""
    replayed: ReplayedSteps | None = None


class PatchedScore(msgspec.Struct, frozen=True):
    """Scores of all replays under a number of patches: means over recorded attempts."""

    patches: int
    progress: float
    progress_interval: Interval | None
    success: float
    success_interval: Interval | None
    score: float
    """Mean of progress and success."""


class SemiOnlineReport(msgspec.Struct, frozen=True):
    """Results of a semi-online replay."""

    run: str
    replay: str
    agent: str
    strategy: str
    results: tuple[SemiOnlineResult, ...]
    scores: tuple[PatchedScore, ...]
    """For each number of patches from 0 on; empty if nothing was replayed."""


class SemiOnlineAgent(DelegatingAgent):
    """Lets an agent act on recorded pages."""

    def __init__(self, then: Agent) -> None:
        super().__init__(PREFIX, then)

    async def run(self, attempt: Attempt) -> None:
        await self._then.run(PatchedAttempt(attempt))


class _Source(NamedTuple):
    row: AttemptRow
    loaded: LoadedTask | None
    problem: str | None = None


async def replay_semi_online(
    run: str, config: ReplayConfig, settings: Settings, progress: Progress
) -> SemiOnlineReport:
    """Replays verified attempts of a run with the configured agent.

    Raises:
        UserError: An attempt does not exist, none can be replayed, or an option cannot work; nothing was started.
        StoreError: The run is damaged, or the replays cannot be written.
    """
    made_agent: Agent = construct(f"agent {config.agent!r}", load("agents", config.agent), config.agent_options)
    agent, name = SemiOnlineAgent(made_agent), new_run_name(f"{PREFIX}-{made_agent.name}")
    with RunStore.open(settings.store, run) as store, RecordedTasks.chosen(store, config) as tasks:
        sources = [_load_source(store, row, tasks, config) for row in select_attempts(store, config)]
        loaded = [one.loaded for one in sources if one.loaded is not None]
        if not loaded:
            raise UserError(f"nothing of run {run!r} can be replayed semi-online: {sources[0].problem}")
        base = msgspec.structs.replace(
            recorded_config(store, config),
            concurrency=config.concurrency,
            model=config.model,
            agent_options=config.agent_options,
        )
        plans = {one.row.chain: _plans(one, agent, config, base.limits) for one in sources if one.loaded is not None}
        async with open_resources(base, settings, loaded, agent) as resources:
            planned = [plan for some in plans.values() for plan in some]
            manifest = {**_manifest(run, agent, config, loaded), "planned": len(planned)}
            with RunStore.create(settings.store, name, manifest) as made:
                await run_attempts(made, resources, planned, progress)
                results = [result for one in sources for result in _results(made, one, plans.get(one.row.chain, []))]
    return SemiOnlineReport(run, name, made_agent.name, config.patch_strategy, tuple(results), score_all(results))


def _load_source(store: RunStore, row: AttemptRow, tasks: RecordedTasks, config: ReplayConfig) -> _Source:
    whole = store.trajectory(row.chain)
    problem = replay_obstacle(whole)
    if problem is None and trust_of(whole).outcome_class != "pass":
        problem = "it is no verified pass, so what it did is no reference"
    if problem is not None:
        return _Source(row, None, problem)
    trajectory = judged_path(whole)
    calls = recorded_calls(trajectory)
    try:
        read_pages(calls)
        loaded = tasks.of(trajectory)
    except (ValueError, CannotRebuildError) as exc:
        return _Source(row, None, str(exc))
    return _Source(row, loaded._replace(task=semi_online_task(loaded.task, trajectory, calls, config)))


def recorded_calls(trajectory: Trajectory) -> tuple[RecordedCall, ...]:
    """Returns the agent's calls that did not fail, with what they returned; empty where an output was cut."""
    found = []
    for step in trajectory.steps:
        if step.actor != "agent":
            continue
        thought = "\n".join(filter(None, (step.reasoning, step.message)))
        for call, seen in zip(step.tool_calls, pair_observations(step.tool_calls, step.observations), strict=True):
            if call.error is not None or not seen or seen[0].error:
                continue
            if seen[0].truncated is not None:
                return ()
            found.append(RecordedCall(call.name, dict(call.parsed or {}), seen[0].content, thought))
    return tuple(found)


def semi_online_task(task: Task, trajectory: Trajectory, calls: tuple[RecordedCall, ...], config: ReplayConfig) -> Task:
    """Returns a task on recorded pages, with the instruction and name of the live one."""
    parameters: dict[str, Any] = {
        "calls": msgspec.to_builtins(calls),
        "patches": config.patches,
        "strategy": config.patch_strategy,
        "source": f"{trajectory.run}:{trajectory.attempt} {trajectory.head}",
    }
    environment = EnvironmentSpec(KIND, parameters, task.environment.seed)
    checks = (Check(PREFIX, "facts", {"expected": {"unaided": True}}),)
    digest = digest_record([task.digest, environment, checks])
    return msgspec.structs.replace(task, environment=environment, checks=checks, oracle=None, digest=digest)


def _plans(source: _Source, agent: Agent, config: ReplayConfig, limits: Any) -> list[PlannedAttempt]:
    assert source.loaded is not None, "only what can be replayed is planned"
    loaded, row = source.loaded, source.row
    return [
        PlannedAttempt(
            id=row.attempt if number == 0 else f"{row.attempt}+time-{number + 1}",
            loaded=loaded,
            number=number,
            seed=attempt_seed(row.seed, loaded.task.digest, agent.name, number),
            limits=merge_limits(limits, loaded.task.limits),
            agent=agent,
            extra_config={"semi_online": {"run": row.run, "chain": row.chain, "head": row.head}},
        )
        for number in range(config.times)
    ]


def _manifest(run: str, agent: Agent, config: ReplayConfig, loaded: list[LoadedTask]) -> dict[str, Any]:
    return {
        "agent": agent.name,
        "assay_version": __version__,
        "config": {"agent_options": config.agent_options, "model": config.model},
        "replay": {"run": run, **msgspec.to_builtins(config)},
        "tasks": {one.task.id: one.task.digest for one in loaded},
    }


def _results(made: RunStore, source: _Source, plans: list[PlannedAttempt]) -> list[SemiOnlineResult]:
    first = SemiOnlineResult(source.row.attempt, problem=source.problem)
    if not plans:
        return [first]
    found = []
    for plan in plans:
        trajectory = made.trajectory(made.find(plan.id).chain)
        finished = trajectory.finished
        broke = "it was cut" if finished is None else finished.broke and f"{finished.broke} failed: {finished.error}"
        replayed = None if broke else replayed_steps_of(trajectory)
        found.append(msgspec.structs.replace(first, replay=trajectory.chain, problem=broke, replayed=replayed))
    return found


def score_all(results: list[SemiOnlineResult]) -> tuple[PatchedScore, ...]:
    """Returns the scores for each number of patches; means over recorded attempts of the means over their replays."""
    by_attempt: dict[str, list[ReplayedSteps]] = {}
    for one in results:
        if one.replayed is not None:
            by_attempt.setdefault(one.attempt, []).append(one.replayed)
    if not by_attempt:
        return ()
    most = min(one.patches for some in by_attempt.values() for one in some)
    return tuple(_score(list(by_attempt.values()), patches) for patches in range(most + 1))


def _score(by_attempt: list[list[ReplayedSteps]], patches: int) -> PatchedScore:
    scored: list[list[ReplayScore]] = [[score_replay(one, patches) for one in some] for some in by_attempt]
    progress = [sum(one.progress for one in some) / len(some) for some in scored]
    success = [sum(one.succeeded for one in some) / len(some) for some in scored]
    means = sum(progress) / len(progress), sum(success) / len(success)
    return PatchedScore(
        patches, means[0], mean_interval(progress), means[1], mean_interval(success), (means[0] + means[1]) / 2
    )
