"""Labels recorded steps with the cheapest of several agents that suffices there, and scores routers on them.

A tier suffices at a step if its attempts that continue from the recorded state before that step pass, with no other
agent's help. The cheapest tier is tried first, and only steps where it fails go to the next. Every try is an ordinary,
judged attempt of an ordinary run; the labels are read from the current verdicts, so that a pass that is doubted later
does not count.

After the downgrade and cascade of TwinRouterBench, catalogued from its abstract alone; that a tier must finish the task
by itself is our choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from assay import __version__
from assay.agents.branches import uses_branches
from assay.agents.building import build_agent
from assay.agents.combinators.routing import StepPrefix, load_route
from assay.agents.fork import DelegatingAgent, ForkAgent
from assay.agents.interface import Agent, Attempt, Prior
from assay.analysis.columns import measure_attempts
from assay.analysis.judged_path import opens_branches
from assay.analysis.step_routing import RouterScore, SufficientTier, cheapest_sufficient, score_routers
from assay.errors import MissingModelError, StoreError, UserError
from assay.records import TEAM, Separation, Step, Trajectory
from assay.rollout.plan import PlannedAttempt, attempt_seed, merge_limits
from assay.rollout.progress import Progress
from assay.rollout.rejudge.config import ReplayConfig, TiersConfig, Version, sandbox_fields
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.replay import replay_obstacle, select_attempts
from assay.rollout.run_manifest import new_run_name
from assay.rollout.runs import RunResources, open_resources, run_attempts
from assay.rollout.schedule.allocation import Anchor
from assay.rollout.schedule.fork_states import ForkOrigin, anchor_after, fork_states, plan_fork
from assay.settings import Settings
from assay.store import AttemptRow, RunStore, chain_problems, current_verdicts_by_chain, final_rows
from assay.tasks import LoadedTask
from assay.tasks.named_code import FLAG
from assay.tasks.sources import names_family_code

MOST_TRIES = 200_000
TIER_LABEL = "tier_label"
"""Key of the manifest of a run of tries, and of what the first event of a try says of its step."""


class LabelledStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a recorded attempt."""

    attempt: str
    chain: str
    task: str
    step: int
    """Number of the agent's steps before it."""
    tier: str | None
    """The cheapest tier that suffices; None if all fail, or if no try of a cheaper one was judged."""
    tries: dict[str, tuple[int, int]]
    """Passed and judged tries by tier; a dearer tier than the label was not tried."""


class TierLabels(msgspec.Struct, frozen=True, kw_only=True):
    """The labelled steps of a run."""

    run: str
    """The recorded run."""
    labels: str
    """Run of the tries."""
    tiers: dict[str, float]
    """Cost of a step by tier, from the cheapest."""
    need: float
    steps: tuple[LabelledStep, ...]
    tries: int
    turns: int
    """Turns of all tries."""
    untried: tuple[str, ...] = ()
    """Steps without a try, as ATTEMPT:STEP: their state could not be rebuilt, or the labelling was interrupted."""


class RoutersReport(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of routers on the labelled steps of a run."""

    labels: str
    unlabelled: int
    """Steps at which no tier suffices; they count for no router."""
    untried: int
    """Steps without a try; they count for no router either."""
    scores: tuple[RouterScore, ...]


class _TierAgent(DelegatingAgent):
    """Acts under a name with its tier, which tells apart tiers that are one agent with other options."""

    async def run(self, attempt: Attempt) -> None:
        await self._then.run(attempt)


class _Tier(NamedTuple):
    """One agent of the comparison, and what its tries need."""

    name: str
    resources: RunResources


class _Unit(NamedTuple):
    """A step to be labelled."""

    trajectory: Trajectory
    loaded: LoadedTask
    steps: tuple[Step, ...]
    """Recorded steps before it."""

    @property
    def key(self) -> tuple[str, int]:
        return self.trajectory.chain, len(self.steps)

    @property
    def anchor(self) -> Anchor | None:
        """Returns the state before the step; None for the start of the task."""
        return anchor_after(self.trajectory.chain, self.steps)


async def label_tiers(run: str, config: TiersConfig, settings: Settings, progress: Progress) -> TierLabels:
    """Labels the steps of attempts.

    Raises:
        UserError: An attempt does not exist or cannot be forked, a tier cannot continue, or the run holds tries of
            another labelling; nothing was started.
        StoreError: The run is damaged, or nothing can be written.
    """
    replay = ReplayConfig(attempts=config.attempts, all=not config.attempts, **sandbox_fields(config))
    with RunStore.open(settings.store, run) as store, RecordedTasks.chosen(store, config) as tasks:
        if TIER_LABEL in store.manifest():
            raise UserError(f"run {run!r} holds tries of `assay router label`: name the run whose steps it labelled")
        agents = {name: _build(name, config) for name in config.ordered}
        trajectories = [store.trajectory(row.chain) for row in select_attempts(store, replay)]
        units = [unit for one in trajectories for unit in _units(one, tasks.of(one), config.every)]
        if not units:
            raise UserError(f"no attempt of run {run!r} has a step")
        most = len(units) * len(agents) * config.forks
        if most > MOST_TRIES:
            raise UserError(f"up to {most:,} tries are more than {MOST_TRIES:,}: name attempts, or set --every")
        base = msgspec.structs.replace(recorded_config(store, config), concurrency=config.concurrency)
        loaded = list({unit.loaded.task.id: unit.loaded for unit in units}.values())
        async with AsyncExitStack() as stack:
            tiers = []
            for name, agent in agents.items():
                own = msgspec.structs.replace(base, model=config.tier_models.get(name))
                opened = await stack.enter_async_context(open_resources(own, settings, loaded, agent))
                tiers.append(_Tier(name, opened))
            with RunStore.create(settings.store, new_run_name("tiers"), _manifest(store, config, units)) as made:
                counts = _TryCounts(_read_manifest(made))
                for tier in tiers:
                    left = [unit for unit in units if counts.label_of(unit.key) is None]
                    tries = await _try_tier(store, made, tier, left, config.forks, progress)
                    rows = [row for row in final_rows(made.attempts()) if row.attempt in tries]
                    counts.add(made, rows, [tries[row.attempt] for row in rows])
                return counts.labels(made.run)


def _build(tier: str, config: TiersConfig) -> Agent:
    model = config.tier_models.get(tier)
    try:
        agent = build_agent(config.tiers[tier], config.options_of(tier), model=model)
    except MissingModelError as exc:
        raise UserError(f"tier {tier}: {exc}; a tier's model is --tier-model {tier}=MODEL") from exc
    except UserError as exc:
        raise UserError(f"tier {tier}: {exc}") from exc
    if uses_branches(agent):
        raise UserError(f"tier {tier}: {agent.name} tries several times, and cannot continue in the middle")
    return agent


def _units(trajectory: Trajectory, loaded: LoadedTask, every: int) -> list[_Unit]:
    problem = replay_obstacle(trajectory)
    if opens_branches(trajectory) or any(item.kind == TEAM for item in trajectory.evidence):
        problem = "its steps are of several tries, or of several actors"
    if problem is not None:
        raise UserError(f"{trajectory.attempt} cannot be labelled: {problem}")
    steps = tuple(step for step in trajectory.steps if step.actor == "agent")
    return [_Unit(trajectory, loaded, steps[:at]) for at in range(0, len(steps), every)]


async def _try_tier(
    store: RunStore, made: RunStore, tier: _Tier, units: Sequence[_Unit], forks: int, progress: Progress
) -> dict[str, _RecordedTry]:
    """Lets one tier continue from each step that is left, and returns the tries by attempt; a state that cannot be
    rebuilt is not tried."""
    anchors = [(unit.loaded, unit.anchor) for unit in units if unit.anchor is not None]
    async with fork_states(store, anchors, tier.resources.preparer) as origins:
        planned = []
        for unit in units:
            origin = ForkOrigin(Prior()) if unit.anchor is None else origins[unit.anchor]
            if origin is not None:
                planned += [_plan(unit, number, tier, origin) for number in range(forks)]
        await run_attempts(made, tier.resources, planned, progress)
    return {one.id: msgspec.convert(one.extra_config[TIER_LABEL], _RecordedTry) for one in planned}


def _plan(unit: _Unit, number: int, tier: _Tier, origin: ForkOrigin) -> PlannedAttempt:
    attempt, step, agent = unit.trajectory.attempt, len(unit.steps), tier.resources.agent
    data = {"chain": unit.trajectory.chain, "attempt": attempt, "step": step, "tier": tier.name}
    plan = PlannedAttempt(
        id=f"{attempt}+step-{step}+{tier.name}@{number}",
        loaded=unit.loaded,
        number=number,
        seed=attempt_seed(unit.trajectory.started.seed, unit.loaded.task.digest, f"{attempt}+{step}", number),
        limits=merge_limits(tier.resources.config.limits, unit.loaded.task.limits),
        agent=_TierAgent(tier.name, agent if unit.anchor is None else ForkAgent(agent)),
        extra_config={TIER_LABEL: data},
    )
    return plan_fork(plan, unit.anchor, origin)


def _manifest(store: RunStore, config: TiersConfig, units: Sequence[_Unit]) -> dict[str, Any]:
    steps: dict[str, list[int]] = {}
    for unit in units:
        steps.setdefault(unit.trajectory.attempt, []).append(len(unit.steps))
    return {
        "agent": " < ".join(config.ordered),
        "assay_version": __version__,
        "config": {"base": recorded_config(store, config).base},
        TIER_LABEL: {
            "run": store.run,
            "tiers": config.ordered,
            "need": config.need,
            "steps": steps,
            "config": msgspec.to_builtins(config),
        },
        "tasks": {unit.loaded.task.id: unit.loaded.task.digest for unit in units},
    }


class _TaskVersion(msgspec.Struct, frozen=True):
    """Which tasks were labelled, of the configuration."""

    check_version: Version = "recorded"
    tasks: tuple[str, ...] = ()


class _ManifestPart(msgspec.Struct, frozen=True):
    run: str
    tiers: dict[str, Annotated[float, msgspec.Meta(gt=0)]]
    need: Annotated[float, msgspec.Meta(gt=0, le=1)]
    steps: dict[str, tuple[int, ...]] = {}
    """Steps to be labelled by attempt."""
    config: _TaskVersion = _TaskVersion()


class _RecordedTry(msgspec.Struct, frozen=True):
    chain: str
    attempt: str
    step: int
    tier: str


class _TryCounts:
    """Passed and judged tries of the steps of a run, by tier."""

    def __init__(self, part: _ManifestPart) -> None:
        self._part, self._tiers = part, dict(sorted(part.tiers.items(), key=lambda one: one[1]))
        self._counts: dict[tuple[str, int], dict[str, tuple[int, int]]] = {}
        self._unjudged = Counter[tuple[tuple[str, int], str]]()
        self._about: dict[tuple[str, int], tuple[str, str]] = {}
        self._tries, self._turns = 0, 0.0

    def add(
        self,
        store: RunStore,
        rows: Sequence[AttemptRow],
        tries: Sequence[_RecordedTry],
        require: Separation = "unknown",
    ) -> None:
        """Adds tries, each with its row."""
        measured = measure_attempts(rows, current_verdicts_by_chain(store, rows), require=require)
        for row, one, tried in zip(rows, measured, tries, strict=True):
            key, status = (tried.chain, tried.step), one.outcome.status
            self._about[key] = (tried.attempt, row.task)
            passed, judged = self._counts.setdefault(key, {}).get(tried.tier, (0, 0))
            is_pass, is_judged = status == "pass" and not one.outcome.doubtful, status in ("pass", "fail")
            self._counts[key][tried.tier] = (passed + is_pass, judged + is_judged)
            self._unjudged[key, tried.tier] += not is_judged
        self._tries += len(rows)
        self._turns += sum(row.metrics.get("turns", row.steps) for row in rows)

    def label_of(self, key: tuple[str, int]) -> str | None:
        """Returns the cheapest tier that suffices at a step, as far as it was tried.

        Beside judged tries those without a verdict count as failed, so that a tier gains nothing by breaking them.
        """
        tries = self._counts.get(key, {})
        counted = []
        for name in self._tiers:
            passed, judged = tries.get(name, (0, 0))
            counted.append((passed, judged + self._unjudged[key, name] if judged else 0))
        label = cheapest_sufficient(counted, self._part.need)
        return None if label is None else list(self._tiers)[label]

    def labels(self, run: str) -> TierLabels:
        """Returns the labels of the steps that were tried."""
        steps = []
        for key, (attempt, task) in self._about.items():
            tier, tries = self.label_of(key), self._counts[key]
            steps.append(LabelledStep(attempt=attempt, chain=key[0], task=task, step=key[1], tier=tier, tries=tries))
        steps.sort(key=lambda one: (one.attempt, one.step))
        return TierLabels(
            run=self._part.run,
            labels=run,
            tiers=self._tiers,
            need=self._part.need,
            steps=tuple(steps),
            tries=self._tries,
            turns=int(self._turns),
            untried=_find_untried(self._part, {(one.attempt, one.step) for one in steps}),
        )


def read_labels(store: RunStore, require: Separation = "unknown") -> TierLabels:
    """Returns the labels that the tries of a run give. `require` is the least grade of separation of a pass that
    counts; a doubted pass is a fail, and so is an unjudged try beside judged ones. Raises `StoreError` for another run,
    and for one that is not what was recorded."""
    rows = final_rows(store.attempts())
    part = _read_manifest(store)
    for row in rows:
        problem = next(chain_problems(store.run, store.links(row.chain), [row]), None)
        if problem is not None:
            raise StoreError(f"run {store.run!r} is not what was recorded ({problem}): no label is read from it")
    try:
        configs = (store.trajectory(row.chain).started.config for row in rows)
        made = [msgspec.convert(one.get(TIER_LABEL), _RecordedTry) for one in configs]
    except msgspec.ValidationError as exc:
        raise StoreError(f"run {store.run!r} holds an attempt without a label of its step: {exc}") from exc
    if len(set(part.tiers.values())) < len(part.tiers):
        raise StoreError(f"run {store.run!r} names tiers of equal cost")
    counts = _TryCounts(part)
    counts.add(store, rows, made, require)
    return counts.labels(store.run)


def _read_manifest(store: RunStore) -> _ManifestPart:
    try:
        return msgspec.convert(store.manifest().get(TIER_LABEL), _ManifestPart)
    except msgspec.ValidationError as exc:
        raise StoreError(f"run {store.run!r} holds no labels of steps: `assay router label` makes some") from exc


def _find_untried(part: _ManifestPart, tried: Container[tuple[str, int]]) -> tuple[str, ...]:
    planned = ((attempt, step) for attempt, steps in part.steps.items() for step in steps)
    return tuple(f"{attempt}:{step}" for attempt, step in planned if (attempt, step) not in tried)


def score_routes(
    labels_run: str,
    routes: Sequence[str],
    root: Path,
    require: Separation = "unknown",
    *,
    allow_task_code: bool = False,
) -> RoutersReport:
    """Scores routers on the labelled steps of a run. Executes no agent and no task; with `allow_task_code` families of
    tasks may be Python code where today's tasks were labelled.

    Raises:
        UserError: No step is labelled, or a router chooses what is no tier.
        CannotRebuildError: The tasks that were labelled are not available.
        StoreError: The run holds no labels, or the recorded run is missing.
    """
    with RunStore.open(root, labels_run) as made:
        found, version = read_labels(made, require), _read_manifest(made).config
    labelled = [one for one in found.steps if one.tier is not None]
    if not labelled:
        raise UserError(f"no step of run {labels_run!r} is labelled: at none of them a tier suffices")
    names = list(found.tiers)
    code = [one for one in version.tasks if names_family_code(one)]
    if code and not allow_task_code:
        raise UserError(f"the labels are of tasks of a family that is Python code, {code[0]}: {FLAG} permits it")
    with (
        RunStore.open(root, found.run) as store,
        RecordedTasks(store, version.check_version, version.tasks, allow_task_code=allow_task_code) as tasks,
    ):
        prefixes = _read_prefixes(store, tasks, labelled)
    choices = {one: _choose(one, load_route(one, "router"), prefixes, names) for one in dict.fromkeys(routes)}
    labels = [SufficientTier(one.task, names.index(one.tier)) for one in labelled if one.tier is not None]
    return RoutersReport(
        labels=labels_run,
        unlabelled=len(found.steps) - len(labelled),
        untried=len(found.untried),
        scores=tuple(score_routers(choices, labels, found.tiers)),
    )


def _read_prefixes(store: RunStore, tasks: RecordedTasks, labelled: Sequence[LabelledStep]) -> list[StepPrefix]:
    """Returns what a router may see before each step, as in a live run."""
    trajectories = {chain: store.trajectory(chain) for chain in dict.fromkeys(one.chain for one in labelled)}
    found = []
    for one in labelled:
        trajectory = trajectories[one.chain]
        steps = tuple(step for step in trajectory.steps if step.actor == "agent")
        found.append(StepPrefix(tasks.to_read(trajectory).task, steps[: one.step]))
    return found


def _choose(
    route: str, router: Callable[[StepPrefix], object], prefixes: Sequence[StepPrefix], names: Sequence[str]
) -> list[int]:
    chosen = []
    for prefix in prefixes:
        found = router(prefix)
        if isinstance(found, bool):
            chosen.append(len(names) - 1 if found else 0)
        elif isinstance(found, str) and found in names:
            chosen.append(names.index(found))
        else:
            raise UserError(
                f"router {route} returned {found!r:.100}: expected a tier ({', '.join(names)}), or True for the "
                "dearest and False for the cheapest"
            )
    return chosen
