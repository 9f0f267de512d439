"""Marginal contributions of a team's acts and actors, measured on forks.

The marginal of an act is the team's mean outcome if the act is made less that if its actor passes its turn instead,
everything before it being as recorded. Both sides continue from the recorded state with the same seeds, so that the
difference is paired. The marginal of an actor compares the team with one in which it does nothing, from the start.
Every continuation is an ordinary, judged attempt of an ordinary run.

After the counterfactual baselines of C3 and COMA; known from their code and paper. Ours is the plain difference.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal, NamedTuple

import msgspec

from assay import __version__
from assay.agents.building import build_agent
from assay.agents.fork import ForkAgent
from assay.agents.interface import Agent, Prior
from assay.agents.teams.agent import TeamAgent
from assay.agents.teams.spec import TeamSpec, read_team
from assay.errors import UserError
from assay.plugins import names_code
from assay.records import TEAM, Step, Trajectory
from assay.rollout.plan import PlannedAttempt, attempt_seed, merge_limits
from assay.rollout.progress import Progress
from assay.rollout.rejudge.config import MarginalsConfig, ReplayConfig, sandbox_fields
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.replay import replay_obstacle, select_attempts
from assay.rollout.run_manifest import new_run_name
from assay.rollout.runs import RunResources, open_resources, run_attempts
from assay.rollout.schedule.allocation import Anchor
from assay.rollout.schedule.fork_states import ForkOrigin, anchor_after, fork_states, plan_fork
from assay.settings import Settings
from assay.statistics import difference_interval
from assay.store import AttemptRow, RunStore, final_rows
from assay.tasks import LoadedTask

MOST_CONTINUATIONS = 200_000
MARGINALS = "marginals"
"""Key of the manifest of a run of continuations."""
Side = Literal["with", "without"]
_SIDES: tuple[Side, ...] = ("with", "without")
_SHOWN = 80


class Marginal(msgspec.Struct, frozen=True, kw_only=True):
    """The contribution of one act, or of one actor (`step` is None)."""

    attempt: str
    actor: str
    step: int | None
    act: str
    """The act in short; empty for an actor."""
    with_it: float | None
    """Mean outcome with it; None if no pair of continuations was judged."""
    without_it: float | None
    marginal: float | None
    low: float | None = None
    """95% interval of the marginal, over forks."""
    high: float | None = None
    pairs: int
    """Judged pairs of continuations."""


class MarginalsReport(msgspec.Struct, frozen=True, kw_only=True):
    """Marginals and what they cost."""

    run: str
    forks: str
    """Run of the continuations."""
    units: Literal["acts", "actors"]
    marginals: tuple[Marginal, ...]
    continuations: int
    turns: int
    """Turns of all continuations."""
    cpu_s: float
    """CPU seconds of this process over all continuations."""
    unbuilt: tuple[str, ...] = ()
    """Acts whose state could not be rebuilt, as ATTEMPT:STEP."""


class _Unit(NamedTuple):
    attempt: str
    chain: str
    loaded: LoadedTask
    seed: int
    actor: str
    step: Step | None
    steps: tuple[Step, ...]
    """Recorded steps before the act."""

    @property
    def name(self) -> str:
        part = f"actor-{self.actor}" if self.step is None else f"step-{self.step.index}"
        return f"{self.attempt}+{part}"


async def measure_marginals(
    run: str, config: MarginalsConfig, settings: Settings, progress: Progress
) -> MarginalsReport:
    """Measures the marginals of attempts of a team.

    Raises:
        UserError: An attempt does not exist, or is not of a team; nothing was started.
        StoreError: The run is damaged, or nothing can be written.
    """
    replay = ReplayConfig(attempts=config.attempts, all=not config.attempts, **sandbox_fields(config))
    with RunStore.open(settings.store, run) as store, RecordedTasks.chosen(store, config) as tasks:
        rows = select_attempts(store, replay)
        trajectories = [store.trajectory(row.chain) for row in rows]
        team = _team_of(trajectories, config)
        units = [unit for one in trajectories for unit in _units(one, tasks.of(one), team, config)]
        if not units:
            raise UserError(f"the actors named have no act in the attempts of run {run!r}")
        if 2 * config.forks * len(units) > MOST_CONTINUATIONS:
            raise UserError(
                f"{len(units)} {config.units} with {config.forks} forks of each side are more than "
                f"{MOST_CONTINUATIONS:,} continuations: name attempts or actors, or take fewer forks"
            )
        return await _Measuring(store, config, settings, team, units).run(progress)


def _team_of(trajectories: Sequence[Trajectory], config: MarginalsConfig) -> TeamSpec:
    """Returns the recorded team of all attempts. Raises `UserError` without one, or for several."""
    specs = []
    for one in trajectories:
        problem = replay_obstacle(one)
        found = next((item.data.get("team") for item in one.evidence if item.kind == TEAM), None)
        if problem is not None or not isinstance(found, dict):
            raise UserError(f"{one.attempt} has no marginals: {problem or 'it is not of a team (--agent team)'}")
        specs.append(read_team(found))
    if any(spec != specs[0] for spec in specs):
        raise UserError("the attempts are of different teams: name attempts of one")
    code = [role.agent for role in specs[0].roles if names_code("agents", role.agent)]
    if code and not config.allow_task_code:
        raise UserError(f"the recorded team names Python code, {code[0]}: --allow-task-code permits it")
    return specs[0]


def _units(trajectory: Trajectory, loaded: LoadedTask, team: TeamSpec, config: MarginalsConfig) -> Iterator[_Unit]:
    names = config.actors or tuple(role.name for role in team.roles if role.name not in team.absent)
    unknown = sorted(set(names) - {role.name for role in team.roles})
    if unknown:
        raise UserError(f"no role is called {unknown[0]!r}; there are {', '.join(role.name for role in team.roles)}")
    common = (trajectory.attempt, trajectory.chain, loaded, trajectory.started.seed)
    if config.units == "actors":
        for name in names:
            yield _Unit(*common, name, None, ())
        return
    steps = tuple(step for step in trajectory.steps if step.actor == "agent")
    for at, step in enumerate(steps):
        if step.actor_name in names and step.tool_calls:
            yield _Unit(*common, step.actor_name, step, steps[:at])


class _Measuring:
    def __init__(
        self, store: RunStore, config: MarginalsConfig, settings: Settings, team: TeamSpec, units: Sequence[_Unit]
    ) -> None:
        self._store, self._config, self._settings, self._team = store, config, settings, team
        self._units = units
        self._limits = recorded_config(store, config).limits
        self._unbuilt: list[str] = []

    async def run(self, progress: Progress) -> MarginalsReport:
        loaded = {unit.loaded.task.id: unit.loaded for unit in self._units}
        config = msgspec.structs.replace(
            recorded_config(self._store, self._config), concurrency=self._config.concurrency, model=self._config.model
        )
        whole, name, begun = self._agent(), new_run_name("marginals"), time.process_time()
        async with open_resources(config, self._settings, list(loaded.values()), whole) as resources:
            with RunStore.create(self._settings.store, name, self._manifest(whole, loaded)) as made:
                plans = await self._run(made, resources, whole, progress)
                rows = made.attempts()
                scores = {row.attempt: _score(row) for row in final_rows(rows)}
                found = tuple(
                    self._marginal(scores, unit, plans[unit.name]) for unit in self._units if unit.name in plans
                )
        return MarginalsReport(
            run=self._store.run,
            forks=name,
            units=self._config.units,
            marginals=found,
            continuations=len(rows),
            turns=int(sum(row.metrics.get("turns", row.steps) for row in rows)),
            cpu_s=round(time.process_time() - begun, 3),
            unbuilt=tuple(self._unbuilt),
        )

    async def _run(
        self, made: RunStore, resources: RunResources, whole: Agent, progress: Progress
    ) -> dict[str, tuple[list[PlannedAttempt], list[PlannedAttempt]]]:
        """Runs the continuations; returns their plans with and without each unit."""
        found = [(unit.loaded, _anchor(unit, side)) for unit in self._units for side in _SIDES]
        anchors = [(loaded, anchor) for loaded, anchor in found if anchor is not None]
        plans: dict[str, tuple[list[PlannedAttempt], list[PlannedAttempt]]] = {}
        async with fork_states(self._store, anchors, resources.preparer) as origins:
            for unit in self._units:
                pair = self._origins(unit, origins)
                if pair is None:
                    self._unbuilt.append(unit.name)
                    continue
                absent = self._agent(unit.actor) if unit.step is None else ForkAgent(whole)
                agents = (whole if unit.step is None else ForkAgent(whole), absent)
                plans[unit.name] = (
                    [self._plan(unit, "with", n, agents[0], pair[0]) for n in range(self._config.forks)],
                    [self._plan(unit, "without", n, agents[1], pair[1]) for n in range(self._config.forks)],
                )
            planned = [plan for sides in plans.values() for side in sides for plan in side]
            await run_attempts(made, resources, planned, progress)
        return plans

    def _origins(self, unit: _Unit, origins: dict[Anchor, ForkOrigin | None]) -> tuple[ForkOrigin, ForkOrigin] | None:
        """Returns where the two sides of a unit begin; None if a state could not be rebuilt."""
        after, begin = (
            ForkOrigin(Prior()) if anchor is None else origins[anchor]
            for anchor in (_anchor(unit, side) for side in _SIDES)
        )
        if after is None or begin is None:
            return None
        if unit.step is None:
            return after, begin
        passed = msgspec.structs.replace(
            unit.step, message=None, reasoning=None, tool_calls=(), observations=(), call=None
        )
        return after, begin._replace(prior=Prior(acts=(*unit.steps, passed)))

    def _plan(self, unit: _Unit, side: Side, number: int, agent: Agent, origin: ForkOrigin) -> PlannedAttempt:
        data: dict[str, Any] = {"run": self._store.run, "chain": unit.chain, "side": side, "actor": unit.actor}
        if unit.step is not None:
            data["step"] = unit.step.index
        plan = PlannedAttempt(
            id=f"{unit.name}+{side}@{number}",
            loaded=unit.loaded,
            number=number,
            seed=attempt_seed(unit.seed, unit.loaded.task.digest, unit.name, number),
            limits=merge_limits(self._limits, unit.loaded.task.limits),
            agent=agent,
            extra_config={"marginal": data},
        )
        return plan_fork(plan, _anchor(unit, side), origin)

    def _marginal(
        self,
        scores: Mapping[str, float | None],
        unit: _Unit,
        sides: tuple[list[PlannedAttempt], list[PlannedAttempt]],
    ) -> Marginal:
        judged = [[scores.get(plan.id) for plan in side] for side in sides]
        pairs = [(a, b) for a, b in zip(*judged, strict=True) if a is not None and b is not None]
        interval = difference_interval([a - b for a, b in pairs])
        means = (fmean(a for a, _ in pairs), fmean(b for _, b in pairs)) if pairs else None
        return Marginal(
            attempt=unit.attempt,
            actor=unit.actor,
            step=None if unit.step is None else unit.step.index,
            act="" if unit.step is None else _describe(unit.step),
            with_it=means[0] if means else None,
            without_it=means[1] if means else None,
            marginal=means[0] - means[1] if means else None,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            pairs=len(pairs),
        )

    def _agent(self, *absent: str) -> TeamAgent:
        team = msgspec.structs.replace(self._team, absent=tuple(dict.fromkeys((*self._team.absent, *absent))))
        agents = {
            role.name: build_agent(role.agent, role.options, model=self._config.model) for role in self._team.roles
        }
        return TeamAgent(team, agents)

    def _manifest(self, agent: Agent, loaded: dict[str, LoadedTask]) -> dict[str, Any]:
        return {
            "agent": agent.name,
            "assay_version": __version__,
            "config": {"base": recorded_config(self._store, self._config).base},
            MARGINALS: {"run": self._store.run, **msgspec.to_builtins(self._config)},
            "tasks": {name: one.task.digest for name, one in loaded.items()},
        }


def _anchor(unit: _Unit, side: Side) -> Anchor | None:
    """Returns the state in which a side begins: after the act, or before it; None for the start of the task."""
    if unit.step is None:
        return None
    return anchor_after(unit.chain, (*unit.steps, unit.step) if side == "with" else unit.steps)


def _score(row: AttemptRow) -> float | None:
    if row.outcome not in ("pass", "fail"):
        return None
    return row.score if row.score is not None else float(row.outcome == "pass")


def _describe(step: Step) -> str:
    return "; ".join(f"{call.name} {call.arguments}" for call in step.tool_calls)[:_SHOWN]
