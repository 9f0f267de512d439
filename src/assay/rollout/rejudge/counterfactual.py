"""Would it still have been won? Another agent goes on from before each step of a recorded attempt.

The state before a step is rebuilt by doing the steps before it again. One pass keeps a snapshot before each step where
that loses nothing (no process runs, nothing lies in folders that are no part of a state); elsewhere, and in in-process
worlds, the prefix is done again for each. Every continuation is an ordinary, judged attempt of an ordinary run.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

import msgspec

from assay import __version__
from assay.agents.interface import Agent, Attempt, takes_solution
from assay.agents.replay import ActsAgain, ContinueAgent, ReplayAgent, SuffixAgent
from assay.environments.interface import Snapshot
from assay.errors import UserError
from assay.plugins import load
from assay.records import Step, VerdictStatus
from assay.rollout.attempt.live_snapshot import Kept, state_of
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress, Tally
from assay.rollout.rejudge.recorded_task import PastTasks, past_config, priors_of
from assay.rollout.rejudge.replay import ReplayConfig, chosen, replayed_attempt, unreplayable
from assay.rollout.runs import Means, new_run_name, opened_means, run_attempts
from assay.settings import Settings
from assay.store import AttemptRow, RunStore
from assay.tasks import LoadedTask

__all__ = ["PrefixOutcome", "Rewound", "decisive_step", "rewind", "rewind_run"]

MOST_PREFIXES = 200
Then = Agent | Callable[[int], Agent]
"""Who goes on: one agent for all prefixes, or one for each, by how many steps the prefix has."""


class PrefixOutcome(msgspec.Struct, frozen=True):
    """What came of going on from before one step."""

    prefix: int
    """How many steps were done again; the agent goes on before the step at this position."""
    outcome: VerdictStatus | None
    score: float | None
    chain: str
    """Of the continuation, in the run of continuations."""
    how: Literal["snapshot", "replayed"]
    note: str | None = None
    """What kept it from being judged, or the state from being kept."""


class Rewound(msgspec.Struct, frozen=True):
    """What came of going on from before every step of one attempt."""

    run: str
    attempt: str
    was: VerdictStatus | None
    agent: str
    continuations: str
    """The run that the continuations are."""
    steps: int
    outcomes: tuple[PrefixOutcome, ...]
    decisive: int | None
    """Position of the last step before which it could still be won and after which it could not; None where there is
    none."""

    @property
    def told(self) -> str:
        """The result in a sentence."""
        won = [one.prefix for one in self.outcomes if one.outcome == "pass"]
        if not won:
            return f"{self.agent} wins from no prefix, not even from the start: no step was decisive for it"
        if self.decisive is None:
            return f"{self.agent} still wins after the last step: no step was decisive"
        return f"step {self.decisive} was decisive: before it {self.agent} still wins, and from no later step"


def decisive_step(outcomes: Sequence[PrefixOutcome], steps: int) -> int | None:
    """The last step before which it could still be won, unless it still could after all of them.

    Where a continuation could not be judged, nothing is concluded from it.
    """
    won = [one.prefix for one in outcomes if one.outcome == "pass"]
    return None if not won or max(won) >= steps else max(won)


async def rewind(
    attempt: str,
    agent: Then,
    settings: Settings,
    *,
    config: ReplayConfig | None = None,
    progress: Progress | None = None,
) -> tuple[PrefixOutcome, ...]:
    """Lets an agent go on from before each step of an attempt.

    Args:
        attempt: `RUN:ATTEMPT`.
        agent: Who goes on, for example `OracleAgent()`.
        settings: Where the store and the caches are.
        config: As in `assay replay`.
        progress: Told what happens.

    Returns:
        One outcome for each number of steps kept, from 0 to all of them.

    Raises:
        UserError: There is no such attempt, or it cannot be replayed.
        StoreError: The run is damaged, or nothing can be written.
    """
    run, _, name = attempt.partition(":")
    given = msgspec.structs.replace(config or ReplayConfig(), attempts=(name,), run=run)
    (found,) = await _rewound(run, given, settings, progress or Tally(), lambda _store: agent)
    return found.outcomes


async def rewind_run(run: str, config: ReplayConfig, settings: Settings, progress: Progress) -> tuple[Rewound, ...]:
    """Lets the agent that `config` names go on from before each step of the attempts that it names."""
    return await _rewound(run, config, settings, progress, lambda store: _named(store, config))


def _named(store: RunStore, config: ReplayConfig) -> Then:
    if config.agent.startswith("attempt:"):
        other = store.find(config.agent.removeprefix("attempt:"))
        (prior, *more) = priors_of(store, other.chain)
        if more:
            raise UserError(
                f"{other.attempt!r} is of a task of several steps: the rest of it cannot go on from a prefix"
            )
        return lambda since: SuffixAgent(prior, since)
    kind = load("agents", config.agent)
    try:
        made: Agent = kind(**config.agent_options)
    except TypeError as exc:
        raise UserError(f"agent {config.agent!r} does not take these options: {exc}") from exc
    return made


async def _rewound(
    run: str, config: ReplayConfig, settings: Settings, progress: Progress, agent_of: Callable[[RunStore], Then]
) -> tuple[Rewound, ...]:
    with RunStore.open(settings.store, run) as store, PastTasks(store, config.check_version, config.tasks) as tasks:
        then, found = agent_of(store), []
        for row in chosen(store, config):
            trajectory = store.trajectory(row.chain)
            problem = unreplayable(trajectory)
            if problem is not None:
                raise UserError(f"{row.attempt} cannot be rewound: {problem}")
            rewinding = _Rewinding(store, row, tasks.of(trajectory), config, then)
            found.append(await rewinding.run(settings, progress))
        return tuple(found)


class _Rewinding:
    """One attempt, rewound to before each of its steps."""

    def __init__(self, store: RunStore, row: AttemptRow, loaded: LoadedTask, config: ReplayConfig, then: Then) -> None:
        self._store, self._row, self._loaded, self._config, self._then = store, row, loaded, config, then
        self._plan = replayed_attempt(store, row, loaded, config)
        if len(self._plan.prior) != 1:
            raise UserError(f"{row.attempt!r} is of a task of several steps: only attempts of one can be rewound")
        acts = self._plan.prior[0].acts
        self._steps = sum(isinstance(act, Step) and act.actor == "agent" for act in acts)
        if self._steps > MOST_PREFIXES:
            raise UserError(f"{row.attempt!r} has {self._steps} steps; at most {MOST_PREFIXES} are rewound")

    async def run(self, settings: Settings, progress: Progress) -> Rewound:
        """Keeps the states, lets the agent go on from each, and says which step was decisive."""
        agents = [self._agent(prefix) for prefix in range(self._steps + 1)]
        name = new_run_name(f"rewind-{agents[0].name}")
        config = msgspec.structs.replace(
            past_config(self._store, self._config),
            concurrency=self._config.concurrency,
            model=self._config.model,
            agent_options=self._config.agent_options,
        )
        async with opened_means(config, settings, [self._loaded], agents[0]) as means:
            with RunStore.create(settings.store, name, self._manifest(agents[0])) as made:
                async with self._states(made, means, progress) as kept:
                    plans = [self._continuation(n, agent, kept[n]) for n, agent in enumerate(agents)]
                    await run_attempts(made, means, plans, progress)
                outcomes = tuple(_outcome(made, n, plan, kept[n]) for n, plan in enumerate(plans))
        return Rewound(
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
            "config": {"base": past_config(self._store, self._config).base},
            "replay": {"run": self._row.run, "rewound": self._row.chain, **msgspec.to_builtins(self._config)},
            "tasks": {self._loaded.task.id: self._loaded.task.digest},
        }

    @contextlib.asynccontextmanager
    async def _states(self, made: RunStore, means: Means, progress: Progress) -> AsyncIterator[list[Kept]]:
        """The state before each step, kept in one pass where that loses nothing."""
        if means.preparer is None:
            yield [Kept(None)] * (self._steps + 1)
            return
        keeper = _KeepingAgent(self._steps)
        try:
            plan = self._plan._replace(id=f"{self._row.attempt}+states", agent=keeper)
            await run_attempts(made, means, [plan], progress)
            yield keeper.kept()
        finally:
            for snapshot in keeper.snapshots():
                await means.preparer.backend.release(snapshot)

    def _continuation(self, prefix: int, agent: Agent, kept: Kept) -> PlannedAttempt:
        told = {"rewound": {"run": self._row.run, "chain": self._row.chain, "prefix": prefix}}
        whole = self._plan._replace(
            id=f"{self._row.attempt}+before-{prefix}",
            agent=ContinueAgent(agent),
            told=told,
            brings_solution=self._plan.brings_solution or takes_solution(agent),
        )
        if kept.snapshot is not None:
            return whole._replace(agent=agent, state=kept.snapshot, prior=())
        return whole._replace(prior=(self._plan.prior[0]._replace(until=prefix),))


def _outcome(made: RunStore, prefix: int, plan: PlannedAttempt, kept: Kept) -> PrefixOutcome:
    row = made.find(plan.id)
    note = kept.note if row.broke is None else f"{row.broke} failed: {row.error}"
    how: Literal["snapshot", "replayed"] = "replayed" if kept.snapshot is None else "snapshot"
    return PrefixOutcome(prefix, row.outcome, row.score, row.chain, how, note)


class _KeepingAgent(ReplayAgent):
    """Does the recorded steps again and keeps the state before each."""

    name = "replay"

    def __init__(self, steps: int) -> None:
        self._kept: list[Kept] = []
        self._steps = steps

    async def run(self, attempt: Attempt) -> None:
        if attempt.workspace is not None and attempt.prior is not None:
            self._kept, again = [], ActsAgain(attempt, attempt.prior)
            for prefix in range(self._steps + 1):
                await again.go_on(prefix)
                self._kept.append(await state_of(attempt.workspace))
            again.note()
        attempt.finish(f"kept {sum(one.snapshot is not None for one in self._kept)} states")

    def kept(self) -> list[Kept]:
        """The state before each step, and after the last; those that the pass did not come to have none."""
        missing = Kept(None, "the pass that keeps states did not come here")
        return [*self._kept, *[missing] * (self._steps + 1 - len(self._kept))]

    def snapshots(self) -> list[Snapshot]:
        """All that must be released."""
        return [one.snapshot for one in self._kept if one.snapshot is not None]
