"""Finds the decisive step of an attempt: another agent continues from before each recorded step.

The state before a step is rebuilt by replaying the steps before it. One pass takes a snapshot before each step where
that captures everything (no running process, no files outside the state); elsewhere, and in worlds, the prefix is
replayed for each continuation. Every continuation is an ordinary, judged attempt of an ordinary run.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

import msgspec

from assay import __version__
from assay.agents.interface import Agent, Attempt, takes_solution
from assay.agents.replay import ActionReplayer, ContinueAgent, ReplayAgent, SuffixAgent
from assay.analysis.attribution import Attribution, attribute_by_replay
from assay.analysis.judged_path import has_branches
from assay.environments.interface import Snapshot
from assay.errors import UserError
from assay.plugins import construct, load
from assay.records import Step, VerdictStatus
from assay.rollout.attempt.live_snapshot import LiveSnapshot, snapshot_live_state
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress, Tally
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.recorded_task import RecordedTasks, priors_of, recorded_config
from assay.rollout.rejudge.replay import plan_replay, replay_obstacle, select_attempts
from assay.rollout.run_manifest import new_run_name
from assay.rollout.runs import RunResources, open_resources, run_attempts
from assay.settings import Settings
from assay.store import AttemptRow, RunStore
from assay.tasks import LoadedTask

MOST_PREFIXES = 200
ContinuationAgent = Agent | Callable[[int], Agent]
"""The continuing agent: one for all prefixes, or a factory by prefix length."""


class PrefixOutcome(msgspec.Struct, frozen=True):
    """The outcome of continuing from before one step."""

    prefix: int
    """Number of replayed steps; the agent continues at this position."""
    outcome: VerdictStatus | None
    score: float | None
    chain: str
    """Chain of the continuation, in the run of continuations."""
    how: Literal["snapshot", "replayed"]
    note: str | None = None
    """Reason why it was not judged, or the state not stored."""


class RewindResult(msgspec.Struct, frozen=True):
    """The outcomes of continuing one attempt from before every step."""

    run: str
    attempt: str
    was: VerdictStatus | None
    agent: str
    continuations: str
    """Run that holds the continuations."""
    steps: int
    outcomes: tuple[PrefixOutcome, ...]
    decisive: int | None
    """Position of the last step before which the agent still wins and after which it does not; None without one."""
    attribution: Attribution | None = None
    """The decisive step, its actor and the kind of error in it; None without one."""

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        won = [one.prefix for one in self.outcomes if one.outcome == "pass"]
        if not won:
            return f"{self.agent} wins from no prefix, not even from the start: no step was decisive for it"
        if self.decisive is None:
            return f"{self.agent} still wins after the last step: no step was decisive"
        return f"step {self.decisive} was decisive: before it {self.agent} still wins, and from no later step"


def decisive_step(outcomes: Sequence[PrefixOutcome], steps: int) -> int | None:
    """Returns the last step before which a continuation wins, unless one wins after all steps.

    Unjudged continuations are ignored.
    """
    won = [one.prefix for one in outcomes if one.outcome == "pass"]
    return None if not won or max(won) >= steps else max(won)


async def rewind(
    attempt: str,
    agent: ContinuationAgent,
    settings: Settings,
    *,
    config: ReplayConfig | None = None,
    progress: Progress | None = None,
) -> tuple[PrefixOutcome, ...]:
    """Lets an agent, for example `OracleAgent()`, continue from before each step of the attempt `RUN:ATTEMPT`.

    Returns one outcome for each prefix length, from 0 to all steps.

    Raises:
        UserError: The attempt does not exist or cannot be replayed.
        StoreError: The run is damaged, or nothing can be written.
    """
    run, _, name = attempt.partition(":")
    given = msgspec.structs.replace(config or ReplayConfig(), attempts=(name,), run=run)
    (found,) = await _rewind_attempts(run, given, settings, progress or Tally(), lambda _store: agent)
    return found.outcomes


async def rewind_run(
    run: str, config: ReplayConfig, settings: Settings, progress: Progress
) -> tuple[RewindResult, ...]:
    """Lets the configured agent continue from before each step of the configured attempts."""
    return await _rewind_attempts(
        run, config, settings, progress, lambda store: _make_continuation_agent(store, config)
    )


def _make_continuation_agent(store: RunStore, config: ReplayConfig) -> ContinuationAgent:
    if config.agent.startswith("attempt:"):
        other = store.find(config.agent.removeprefix("attempt:"))
        (prior, *more) = priors_of(store, other.chain)
        if more:
            raise UserError(
                f"{other.attempt!r} is of a task of several steps: the rest of it cannot go on from a prefix"
            )
        return lambda since: SuffixAgent(prior, since)
    kind = load("agents", config.agent)
    made: Agent = construct(f"agent {config.agent!r}", kind, config.agent_options)
    return made


async def _rewind_attempts(
    run: str,
    config: ReplayConfig,
    settings: Settings,
    progress: Progress,
    agent_of: Callable[[RunStore], ContinuationAgent],
) -> tuple[RewindResult, ...]:
    with RunStore.open(settings.store, run) as store, RecordedTasks.chosen(store, config) as tasks:
        then, found = agent_of(store), []
        for row in select_attempts(store, config):
            trajectory = store.trajectory(row.chain)
            problem = replay_obstacle(trajectory)
            if has_branches(trajectory):
                problem = "it tried several times: rewind an attempt of the agent that it tried"
            if problem is not None:
                raise UserError(f"{row.attempt} cannot be rewound: {problem}")
            rewinding = _Rewind(store, row, tasks.of(trajectory), config, then)
            result = await rewinding.run(settings, progress)
            lost_by = attribute_by_replay(trajectory, result.decisive)
            found.append(msgspec.structs.replace(result, attribution=lost_by))
        return tuple(found)


class _Rewind:
    def __init__(
        self, store: RunStore, row: AttemptRow, loaded: LoadedTask, config: ReplayConfig, then: ContinuationAgent
    ) -> None:
        self._store, self._row, self._loaded, self._config, self._then = store, row, loaded, config, then
        self._plan = plan_replay(store, row, loaded, config)
        if len(self._plan.prior) != 1:
            raise UserError(f"{row.attempt!r} is of a task of several steps: only attempts of one can be rewound")
        acts = self._plan.prior[0].acts
        self._steps = sum(isinstance(act, Step) and act.actor == "agent" for act in acts)
        if self._steps > MOST_PREFIXES:
            raise UserError(f"{row.attempt!r} has {self._steps} steps; at most {MOST_PREFIXES} are rewound")

    async def run(self, settings: Settings, progress: Progress) -> RewindResult:
        """Stores the states, continues from each, and determines the decisive step."""
        agents = [self._agent(prefix) for prefix in range(self._steps + 1)]
        name = new_run_name(f"rewind-{agents[0].name}")
        config = msgspec.structs.replace(
            recorded_config(self._store, self._config),
            concurrency=self._config.concurrency,
            model=self._config.model,
            agent_options=self._config.agent_options,
        )
        async with open_resources(config, settings, [self._loaded], agents[0]) as resources:
            with RunStore.create(settings.store, name, self._manifest(agents[0])) as made:
                async with self._states(made, resources, progress) as kept:
                    plans = [self._continuation(n, agent, kept[n]) for n, agent in enumerate(agents)]
                    await run_attempts(made, resources, plans, progress)
                outcomes = tuple(_outcome(made, n, plan, kept[n]) for n, plan in enumerate(plans))
        return RewindResult(
            run=self._row.run,
            attempt=self._row.attempt,
            was=self._row.outcome,
            agent=agents[0].name,
            continuations=name,
            steps=self._steps,
            outcomes=outcomes,
            decisive=decisive_step(outcomes, self._steps),
        )

    def _agent(self, prefix: int) -> Agent:
        return self._then if isinstance(self._then, Agent) else self._then(prefix)

    def _manifest(self, agent: Agent) -> dict[str, Any]:
        return {
            "agent": agent.name,
            "assay_version": __version__,
            "config": {"base": recorded_config(self._store, self._config).base},
            "replay": {"run": self._row.run, "rewound": self._row.chain, **msgspec.to_builtins(self._config)},
            "tasks": {self._loaded.task.id: self._loaded.task.digest},
        }

    @contextlib.asynccontextmanager
    async def _states(
        self, made: RunStore, resources: RunResources, progress: Progress
    ) -> AsyncIterator[list[LiveSnapshot]]:
        """Yields the state before each step, captured in one pass where that loses nothing."""
        if resources.preparer is None:
            yield [LiveSnapshot(None)] * (self._steps + 1)
            return
        keeper = _SnapshottingAgent(self._steps)
        try:
            plan = self._plan._replace(id=f"{self._row.attempt}+states", agent=keeper)
            await run_attempts(made, resources, [plan], progress)
            yield keeper.states()
        finally:
            for snapshot in keeper.snapshots():
                await resources.preparer.backend.release(snapshot)

    def _continuation(self, prefix: int, agent: Agent, kept: LiveSnapshot) -> PlannedAttempt:
        extra_config = {"rewound": {"run": self._row.run, "chain": self._row.chain, "prefix": prefix}}
        whole = self._plan._replace(
            id=f"{self._row.attempt}+before-{prefix}",
            agent=ContinueAgent(agent),
            extra_config=extra_config,
            brings_solution=self._plan.brings_solution or takes_solution(agent),
        )
        if kept.snapshot is not None:
            return whole._replace(agent=agent, state=kept.snapshot, prior=())
        return whole._replace(prior=(self._plan.prior[0]._replace(until=prefix),))


def _outcome(made: RunStore, prefix: int, plan: PlannedAttempt, kept: LiveSnapshot) -> PrefixOutcome:
    row = made.find(plan.id)
    note = kept.note if row.broke is None else f"{row.broke} failed: {row.error}"
    how: Literal["snapshot", "replayed"] = "replayed" if kept.snapshot is None else "snapshot"
    return PrefixOutcome(prefix, row.outcome, row.score, row.chain, how, note)


class _SnapshottingAgent(ReplayAgent):
    name = "replay"

    def __init__(self, steps: int) -> None:
        self._kept: list[LiveSnapshot] = []
        self._steps = steps

    async def run(self, attempt: Attempt) -> None:
        if attempt.workspace is not None and attempt.prior is not None:
            self._kept, replayer = [], ActionReplayer(attempt, attempt.prior)
            for prefix in range(self._steps + 1):
                await replayer.run_until(prefix)
                self._kept.append(await snapshot_live_state(attempt.workspace))
            replayer.note()
        attempt.finish(f"kept {sum(one.snapshot is not None for one in self._kept)} states")

    def states(self) -> list[LiveSnapshot]:
        """Returns the states before each step and after the last; steps that the pass did not reach have none."""
        missing = LiveSnapshot(None, "the pass that keeps states did not come here")
        return [*self._kept, *[missing] * (self._steps + 1 - len(self._kept))]

    def snapshots(self) -> list[Snapshot]:
        return [one.snapshot for one in self._kept if one.snapshot is not None]
