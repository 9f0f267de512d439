"""Tests whether two environments are equivalent, with the same seeds and actions; reports the first divergence.

- *Property*: what both declare: instruction, checks, limits, tools with their schemas, files and settings of a sandbox,
  the first state of a world.
- *Interaction*: the same actions on both, observation and state compared after each. For worlds also the calls of their
  own hooks. The first environment runs twice: differences between its runs are counted, not reported.
- *Rollout*: the same agents with the same seeds, verdicts compared: the null agent, the known solution, a random
  policy; in text worlds also the expert. For worlds each episode is judged as well.

Equivalent means: no divergence in these tests, which is not a proof. Not compared: time, cost, hidden state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from assay.agents.calls import CallsAgent
from assay.agents.expert import ExpertAgent
from assay.agents.interface import Agent
from assay.agents.null import NullAgent
from assay.agents.oracle import OracleAgent
from assay.agents.random_shell import RandomShellAgent
from assay.agents.random_world import RandomWorldAgent
from assay.errors import UserError
from assay.records import canonical_bytes, digest_bytes
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.plan import PlannedAttempt, merge_limits
from assay.rollout.progress import Progress
from assay.rollout.run_manifest import new_run_name
from assay.rollout.runs import RunResources, open_resources, run_attempts
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask, find_tasks
from assay.verify import judge_facts

from ._comparison_actions import ComparisonAction, shell_actions, tool_actions
from ._comparison_sides import (
    ActionResult,
    ComparisonSide,
    OpenEnvironment,
    WorkspaceSide,
    WorldSide,
    perform_action,
    truncate_text,
)
from .config import AdmitConfig
from .worlds import collect_hooks, gives_advice

Layer = Literal["property", "interaction", "rollout"]
LAYERS: tuple[Layer, ...] = ("property", "interaction", "rollout")
_ALWAYS_VOLATILE = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?",
    r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2} +(\d\d:\d\d|\d{4})\b",
    r"0x[0-9a-fA-F]{6,}",
)


class ComparisonOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Depth of a comparison."""

    episodes: int = 8
    """Sequences of drawn actions on each task."""
    steps: int = 12
    """Actions of a sequence."""
    rollouts: int = 2
    """Attempts of each agent on each task; 0 leaves rollouts out."""
    volatile: tuple[str, ...] = ()
    """Regular expressions for text to ignore in observations and states. Times, `ls` dates and memory addresses are
    always ignored."""

    def __post_init__(self) -> None:
        for name, least in (("episodes", 0), ("steps", 1), ("rollouts", 0)):
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least {least}")
        self.patterns()

    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """Returns the compiled patterns. Raises `UserError` for an invalid one."""
        try:
            return tuple(re.compile(pattern) for pattern in (*_ALWAYS_VOLATILE, *self.volatile))
        except re.error as exc:
            raise UserError(f"volatile: {exc.pattern!r} is not a regular expression: {exc}") from exc


class Divergence(msgspec.Struct, frozen=True):
    """A difference between two environments."""

    layer: Layer
    task: str
    about: str
    """`instruction`, `limit memory_mib`, `tool add`, `file ./a.txt`, `observation`, `state`, `verdict of null.0`, or
    the like."""
    one: str
    other: str
    actions: tuple[str, ...] = ()
    """Shared actions up to and including the diverging one."""
    seed: str | None = None


class ComparisonReport(msgspec.Struct, frozen=True):
    """Results of a comparison."""

    tasks: int
    """Pairs of tasks."""
    tests: dict[str, int]
    """Layer to the number of comparisons."""
    unstable: int
    """Comparisons skipped because the first environment did not repeat itself."""
    divergences: tuple[Divergence, ...]
    runs: tuple[str, ...] = ()
    """Names of the rollouts' runs in the store."""

    @property
    def equivalent(self) -> bool:
        """True where something was compared and nothing diverged."""
        return not self.divergences and self.tasks > 0

    def markdown(self) -> str:
        comparisons = ", ".join(f"{self.tests.get(layer, 0)} {layer}" for layer in LAYERS)
        head = "no divergence found" if self.equivalent else f"{len(self.divergences)} divergences"
        overview = (
            f"{self.tasks} tasks; comparisons: {comparisons}; {self.unstable} left out, because the first environment "
            "did not repeat itself."
        )
        lines = [f"# Two environments: {head}", "", overview, ""]
        for one in self.divergences:
            lines += [f"## {one.layer}: {one.about} ({one.task})", ""]
            lines += [f"{n}. `{action}`" for n, action in enumerate(one.actions, 1)]
            lines += ["", f"- one: `{_line(one.one)}`", f"- other: `{_line(one.other)}`", ""]
        return "\n".join(lines)


def _line(text: str) -> str:
    return " ".join(text.replace("`", "'").split())[:600] or "nothing"


async def compare_environments(
    config: AdmitConfig, other: Sequence[str], options: ComparisonOptions, settings: Settings, progress: Progress
) -> ComparisonReport:
    """Compares the tasks of `config` with those of `other`, pair by pair.

    Raises:
        UserError: The tasks cannot be read, or paired.
        TaskError: A world cannot be made.
        EnvironmentFailure: A sandbox broke.
    """
    first, second = find_tasks(config.tasks), find_tasks(other)
    return await compare_tasks(first, second, config, options, settings, progress)


async def compare_tasks(
    first: Sequence[LoadedTask],
    second: Sequence[LoadedTask],
    config: AdmitConfig,
    options: ComparisonOptions,
    settings: Settings,
    progress: Progress,
) -> ComparisonReport:
    """Compares tasks that are already loaded; see `compare_environments`."""
    pairs, unpaired = _pair_tasks(first, second)
    async with open_resources(config.as_run(), settings, (*first, *second), OracleAgent()) as resources:
        comparer = _PairComparer(options, config.seed, resources.preparer)
        for one, two in pairs:
            await comparer.compare(one, two)
        runs: tuple[str, ...] = ()
        if options.rollouts and pairs:
            runs = await _Rollouts(options, config, settings, resources, comparer).run(pairs, progress)
    return ComparisonReport(len(pairs), comparer.tests, comparer.unstable, (*unpaired, *comparer.divergences), runs)


def _pair_tasks(
    first: Sequence[LoadedTask], second: Sequence[LoadedTask]
) -> tuple[list[tuple[LoadedTask, LoadedTask]], list[Divergence]]:
    """Pairs tasks by name, or by position where they share no name."""
    others = {one.task.id: one for one in second}
    if not any(one.task.id in others for one in first):
        if len(first) != len(second):
            raise UserError(
                f"no task of the one is called as one of the other, and there are {len(first)} and {len(second)}: they "
                "cannot be paired; give them the same names, or as many of each"
            )
        return list(zip(first, second, strict=True)), []
    pairs = [(one, others[one.task.id]) for one in first if one.task.id in others]
    paired_ids = {one.task.id for one, _ in pairs}
    unpaired = [
        Divergence("property", one.task.id, "task", "there", "missing")
        for one in first
        if one.task.id not in paired_ids
    ]
    unpaired += [
        Divergence("property", t.task.id, "task", "missing", "there") for t in second if t.task.id not in paired_ids
    ]
    return pairs, unpaired


class _PairComparer:
    def __init__(self, options: ComparisonOptions, seed: int, preparer: Preparer | None) -> None:
        self.tests: dict[str, int] = dict.fromkeys(LAYERS, 0)
        self.unstable = 0
        self.divergences: list[Divergence] = []
        self.options = options
        self._seed = seed
        self._preparer = preparer
        self._volatile = options.patterns()

    def diverge(self, divergence: Divergence) -> None:
        """Records a divergence, with its texts cut."""
        texts = {"one": truncate_text(divergence.one), "other": truncate_text(divergence.other)}
        self.divergences.append(msgspec.structs.replace(divergence, **texts))

    async def compare(self, one: LoadedTask, other: LoadedTask) -> None:
        """Runs the property and interaction tests of a pair."""
        name = one.task.id
        worlds = [loaded.task.environment.kind != "workspace" for loaded in (one, other)]
        if worlds[0] != worlds[1]:
            one_kind, other_kind = ("a world" if world else "a workspace" for world in worlds)
            self.diverge(Divergence("property", name, "environment", one_kind, other_kind))
            return
        first, second = self._side(one), self._side(other)
        files = await self._properties(first, second)
        for seed, actions in [*await self._hook_actions(one, other), *await self._draw_actions(first, files)]:
            if await self._interact(first, second, seed, actions):
                return

    def _side(self, loaded: LoadedTask) -> ComparisonSide:
        if loaded.task.environment.kind != "workspace":
            return WorldSide(loaded)
        assert self._preparer is not None, "a run with a workspace has a preparer"
        return WorkspaceSide(loaded, self._preparer)

    async def _properties(self, first: ComparisonSide, second: ComparisonSide) -> list[str]:
        """Compares the declarations; returns the files that both sides have."""
        one = {**_record(first.loaded), **await first.read_declarations()}
        two = {**_record(second.loaded), **await second.read_declarations()}
        for name in sorted(one.keys() | two.keys()):
            self.tests["property"] += 1
            if one.get(name) != two.get(name):
                texts = (one.get(name, "missing"), two.get(name, "missing"))
                self.diverge(Divergence("property", first.loaded.task.id, name, *texts))
        return sorted(name.removeprefix("file ") for name in one.keys() & two.keys() if name.startswith("file "))

    async def _hook_actions(self, one: LoadedTask, other: LoadedTask) -> list[tuple[str, tuple[ComparisonAction, ...]]]:
        actions_by_hook: dict[str, tuple[ComparisonAction, ...]] = {}
        for side, loaded in (("one", one), ("other", other)):
            if loaded.task.environment.kind == "workspace":
                continue
            hooks = await collect_hooks(loaded, self._seed)
            calls_by_hook = {"oracle": hooks.oracle or (), **(hooks.null or {}), **(hooks.perturb or {})}
            for name, calls in calls_by_hook.items():
                actions = tuple(ComparisonAction(call.name, call.parsed or {}) for call in calls)
                if actions and actions not in actions_by_hook.values():
                    actions_by_hook[f"{side}'s {name}"] = actions
        return list(actions_by_hook.items())

    async def _draw_actions(
        self, first: ComparisonSide, files: Sequence[str]
    ) -> list[tuple[str, tuple[ComparisonAction, ...]]]:
        seeds = [f"{self._seed} {first.loaded.task.id} {number}" for number in range(self.options.episodes)]
        if first.loaded.task.environment.kind == "workspace":
            return [(seed, shell_actions(files[:200], self.options.steps, seed)) for seed in seeds]
        environment = await first.open()
        try:
            specs = environment.tools.specs()
        finally:
            await environment.close()
        return [(seed, tool_actions(specs, self.options.steps, seed)) for seed in seeds]

    async def _interact(
        self, first: ComparisonSide, second: ComparisonSide, seed: str, actions: Sequence[ComparisonAction]
    ) -> bool:
        """Performs one sequence on both sides; returns whether they diverged."""
        environments: list[OpenEnvironment] = []
        try:
            for side in (first, first, second):
                environments.append(await side.open())
            return await self._compare_steps(first.loaded, second.loaded, environments, seed, actions)
        finally:
            for environment in environments:
                await environment.close()

    async def _compare_steps(
        self,
        one: LoadedTask,
        other: LoadedTask,
        environments: Sequence[OpenEnvironment],
        seed: str,
        actions: Sequence[ComparisonAction],
    ) -> bool:
        repeats = True
        for number, action in enumerate(actions, 1):
            result, repeated, opposite = [
                await perform_action(environment, action, self._volatile) for environment in environments
            ]
            repeats = repeats and result.state == repeated.state
            for about, same in (("observation", result.observation == repeated.observation), ("state", repeats)):
                if not same:
                    self.unstable += 1
                    continue
                self.tests["interaction"] += 1
                if getattr(result, about) != getattr(opposite, about):
                    led = tuple(step.describe() for step in actions[:number])
                    texts = _differing_texts(about, result, opposite)
                    self.diverge(Divergence("interaction", one.task.id, about, *texts, led, seed))
                    return True
        return repeats and await self._compare_verdicts(one, other, environments, seed, actions)

    async def _compare_verdicts(
        self,
        one: LoadedTask,
        other: LoadedTask,
        environments: Sequence[OpenEnvironment],
        seed: str,
        actions: Sequence[ComparisonAction],
    ) -> bool:
        facts, _, opposite = [await environment.facts() for environment in environments]
        if facts is None or opposite is None:
            return False
        self.tests["rollout"] += 1
        verdict, other_verdict = _verdict(one, facts), _verdict(other, opposite)
        if verdict != other_verdict:
            led = tuple(step.describe() for step in actions)
            self.diverge(Divergence("rollout", one.task.id, "verdict", verdict, other_verdict, led, seed))
        return verdict != other_verdict


def _verdict(loaded: LoadedTask, facts: dict[str, Any]) -> str:
    return ", ".join(f"{r.verdict.check}: {r.verdict.status}" for r in judge_facts(loaded.task, facts))


def _record(loaded: LoadedTask) -> dict[str, str]:
    """Returns the parts of the task record that agents and judges depend on; excludes name and source."""
    task = loaded.task
    parts: dict[str, object] = {"instruction": task.instruction, "checks": task.checks}
    parts |= {f"limit {name}": value for name, value in msgspec.structs.asdict(task.limits).items()}
    return {name: canonical_bytes(value).decode() for name, value in parts.items()}


def _differing_texts(about: str, result: ActionResult, opposite: ActionResult) -> tuple[str, str]:
    """Returns both observations, or only the differing lines of both states."""
    if about == "observation":
        return result.observation, opposite.observation
    one, two = result.state.split("\n"), opposite.state.split("\n")
    return "\n".join(line for line in one if line not in two), "\n".join(line for line in two if line not in one)


class _Rollouts:
    """Runs the same agents on both sides, in two runs of the store."""

    def __init__(
        self,
        options: ComparisonOptions,
        config: AdmitConfig,
        settings: Settings,
        resources: RunResources,
        comparer: _PairComparer,
    ) -> None:
        self._options = options
        self._config = config
        self._settings = settings
        self._resources = resources
        self._comparer = comparer

    async def run(self, pairs: Sequence[tuple[LoadedTask, LoadedTask]], progress: Progress) -> tuple[str, ...]:
        """Runs the agents, records differing verdicts and returns the names of the runs."""
        name, outcomes, runs = self._config.run or new_run_name("against"), [], []
        agents = {pair[0].task.id: await self._agents(*pair) for pair in pairs}
        for side, label in enumerate(("one", "other")):
            planned = [p for pair in pairs for p in self._plan_attempts(pair[0], pair[side], agents[pair[0].task.id])]
            if not planned:
                return ()
            runs.append(f"{name}-{label}")
            outcomes.append(await self._outcomes(runs[-1], planned, progress))
        for one in sorted(outcomes[0]):
            self._comparer.tests["rollout"] += 1
            verdict, other_verdict = (found.get(one) or "none" for found in outcomes)
            if verdict != other_verdict:
                task, _, agent = one.rpartition("@")
                self._comparer.diverge(Divergence("rollout", task, f"verdict of {agent}", verdict, other_verdict))
        return tuple(runs)

    async def _agents(self, first: LoadedTask, other: LoadedTask) -> list[Agent]:
        """Returns the policies of a pair: the null agent, the known solution, and a random one where there is one."""
        if first.task.environment.kind == "workspace":
            oracle: list[Agent] = [OracleAgent()] if first.task.oracle is not None else []
            return [NullAgent(), *oracle, RandomShellAgent(steps=6, odd=0.0)]
        agents: list[Agent] = [NullAgent()]
        if other.task.environment.kind == "workspace":
            return agents
        hooks = await collect_hooks(first, self._config.seed)
        if hooks.oracle is not None:
            agents.append(CallsAgent("oracle", hooks.oracle))
        if await gives_advice(first) and await gives_advice(other):
            agents += [ExpertAgent(), RandomWorldAgent(steps=self._options.steps)]
        return agents

    def _plan_attempts(self, first: LoadedTask, own: LoadedTask, agents: Sequence[Agent]) -> Iterator[PlannedAttempt]:
        """Yields attempts with the first side's seeds and names, so that both runs match."""
        for agent in agents:
            for number in range(self._options.rollouts):
                text = f"{self._config.seed} {first.task.id} {agent.name} {number}"
                seed = int(digest_bytes(text.encode()).rpartition(":")[2][:15], 16)
                limits = merge_limits(self._config.limits, own.task.limits)
                yield PlannedAttempt(f"{first.task.id}@{agent.name}.{number}", own, number, seed, limits, agent)

    async def _outcomes(self, run: str, planned: Sequence[PlannedAttempt], progress: Progress) -> dict[str, str | None]:
        manifest = {
            "against": run,
            "tasks": {p.loaded.task.id: p.loaded.task.digest for p in planned},
            "agent": "several",
        }
        with RunStore.create(self._settings.store, run, manifest) as store:
            await run_attempts(store, self._resources, planned, progress)
            return {row.attempt: row.outcome for row in store.attempts() if row.final}
