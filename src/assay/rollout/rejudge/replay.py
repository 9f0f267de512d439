"""Replays recorded attempts in fresh environments and compares the results step by step.

Replays are an ordinary, judged run; each comparison is added to the replay's chain as evidence of the kind `replay`. A
diverging replay is repeated under variations to find the cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import msgspec

from assay import __version__
from assay.agents.carried_script import CARRIED, CarryAgent
from assay.agents.replay import ReplayAgent
from assay.analysis.causes import Cause, DivergenceFacts, Signature, cause_of, signature
from assay.analysis.judged_path import has_branches, judged_path
from assay.analysis.replayed import Comparison, Manifest, PathDifference, compare
from assay.analysis.volatile import Volatile, compile_patterns, is_volatile_path
from assay.environments.interface import Change
from assay.errors import StoreError, UserError
from assay.records import AttemptStarted, Evidence, EvidenceAdded, Trajectory, canonical_bytes
from assay.rollout.attempt.variation import Variation, clock_variation
from assay.rollout.plan import PlannedAttempt, merge_limits
from assay.rollout.progress import Progress
from assay.rollout.rejudge.config import ReplayConfig, SandboxOptions
from assay.rollout.rejudge.recorded_task import (
    AS_ASKED,
    RecordedTasks,
    priors_of,
    recorded_config,
    sandbox_steps,
    variation_of,
)
from assay.rollout.run_manifest import new_run_name
from assay.rollout.runs import RunResources, open_resources, run_attempts
from assay.rollout.schedule.rounds import RunPlan
from assay.settings import Settings
from assay.store import ADMISSION, AttemptRow, BlobStore, RunStore, annotate_all
from assay.tasks import LoadedTask
from assay.verdicts import is_imported_record, was_given_solution
from assay.verify.reverification import CannotRebuildError, find_sealed_states

MOST_EXPLAINED = 20
"""Diverging attempts of one replay that are repeated under variations."""
KIND = "replay"
HASH_SEED = "20261"


class CarriedScript(msgspec.Struct, frozen=True):
    """The result of carrying an attempt over to other looks."""

    acts: int
    """Recorded acts on elements."""
    matched: int
    """Those whose element was found and acted on."""
    outcome: tuple[str | None, str | None]
    """Recorded, and now."""
    problem: str = ""
    """Reason why it ended before its last act; empty if it did not."""


class ReplayResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one replay of one attempt."""

    attempt: str
    chain: str
    agent: str
    head: str
    """The head of the recorded chain."""
    replay: str | None = None
    """Chain of the replay; None if there was none."""
    problem: str | None = None
    """Reason why it could not be replayed, or broke."""
    comparison: Comparison | None = None
    missing: tuple[str, ...] = ()
    """Recorded acts that could not be repeated."""
    cause: Cause | None = None
    experiments: tuple[str, ...] = ()
    """Variations under which it was repeated to find the cause."""
    carried: CarriedScript | None = None
    """With `carry`, in place of a comparison."""

    @property
    def agrees(self) -> bool:
        """Returns whether the replay matches the record, ignoring volatile differences; of a script that was carried
        over, whether all of it was done with the same outcome."""
        if self.carried is not None:
            return not self.carried.problem and self.carried.outcome[0] == self.carried.outcome[1]
        return self.comparison is not None and self.comparison.agrees


class ReplayReport(msgspec.Struct, frozen=True):
    """The results of a replay."""

    run: str
    replay: str
    results: tuple[ReplayResult, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of agreeing, differing and unreplayable attempts."""
        agree = sum(one.agrees for one in self.results)
        failed = sum(one.comparison is None and one.carried is None for one in self.results)
        return {"agree": agree, "differ": len(self.results) - agree - failed, "cannot": failed}

    @property
    def rate(self) -> float | None:
        """Share of replayed attempts that agree; None if none was replayed."""
        counts = self.counts
        tried = counts["agree"] + counts["differ"]
        return counts["agree"] / tried if tried else None


class _ReplaySource(NamedTuple):
    row: AttemptRow
    trajectory: Trajectory
    loaded: LoadedTask | None
    problem: str | None = None


class ReplayJob(NamedTuple):
    """Replays that are to be made elsewhere."""

    source: RunStore
    made: RunStore
    config: ReplayConfig
    chains: dict[str, str]
    """The replayed chains by the ids of their attempts; the ids of the replays begin with these."""
    samples: tuple[str, ...]
    """One chain of each task."""


OpenAttempts = Callable[[ReplayJob], AbstractAsyncContextManager[RunPlan]]
"""Opens what makes planned replays elsewhere, and records them in `made`."""


async def replay(
    run: str, config: ReplayConfig, settings: Settings, progress: Progress, elsewhere: OpenAttempts | None = None
) -> ReplayReport:
    """Replays attempts of a run; with `elsewhere`, nodes make the replays.

    Raises:
        UserError: An attempt does not exist, or an option cannot work; nothing was started.
        StoreError: The run is damaged, or the replays cannot be written.
    """
    with RunStore.open(settings.store, run) as store, RecordedTasks.chosen(store, config) as tasks:
        known = [_load_source(store, row, tasks) for row in select_attempts(store, config)]
        replaying = _Replay(store, config, settings, progress, elsewhere)
        return await replaying.run(known)


def select_attempts(store: RunStore, config: ReplayConfig) -> list[AttemptRow]:
    """Returns the deciding trials of the requested attempts. Raises `UserError` without any."""
    if config.all == bool(config.attempts):
        raise UserError("name the attempts that are to be replayed, or give --all (`assay ls` lists them)")
    rows = [row for row in store.attempts() if row.final] if config.all else list(map(store.find, config.attempts))
    if not rows:
        raise UserError(f"no attempt of run {store.run!r} has ended: there is nothing to replay")
    return list({row.chain: row for row in rows}.values())


def _load_source(store: RunStore, row: AttemptRow, tasks: RecordedTasks) -> _ReplaySource:
    trajectory = judged_path(store.trajectory(row.chain))
    problem = replay_obstacle(trajectory)
    try:
        return _ReplaySource(row, trajectory, None if problem else tasks.of(trajectory), problem)
    except CannotRebuildError as exc:
        return _ReplaySource(row, trajectory, None, str(exc))


def replay_obstacle(trajectory: Trajectory) -> str | None:
    """Returns why an attempt's acts cannot be replayed; None if they can."""
    if is_imported_record(trajectory.started):
        return "it was imported: its actions are those of another harness, in an environment that is not known"
    if trajectory.agent == ADMISSION:
        return "it is a certificate, not an attempt of an agent"
    fork = trajectory.started.config.get("fork")
    if isinstance(fork, dict):
        return f"it began in the middle of {fork.get('chain')}: replay that, or judge this with `assay verify --again`"
    if has_branches(trajectory) and any(item.kind == "place" for item in trajectory.evidence):
        return "it tried several times in sandboxes, whose acts beside steps the record does not tell apart"
    if variation_of(trajectory) is not None:
        return f"it acted under a variation ({variation_of(trajectory)}): only its run makes that again"
    if any(call.raw_request is not None for call in trajectory.calls):
        again = f"replay:{trajectory.run}:{trajectory.attempt}"
        return (
            f"a program in the sandbox acted, with its own tools: run it again on the recorded replies of its "
            f"model, with `assay run TASK --agent {trajectory.agent} --model {again}`"
        )
    if sandbox_steps(trajectory):
        return "its commands ran in a sandbox in which its world was served: run it again with `assay run`"
    return None


def volatile_of(loaded: LoadedTask) -> tuple[Volatile, ...]:
    """Returns the task's own patterns, `[metadata.assay] volatile`. Raises `UserError` for an invalid one."""
    ours = loaded.task.metadata.get("assay")
    given = ours.get("volatile", ()) if isinstance(ours, dict) else ()
    try:
        return compile_patterns([str(one) for one in given] if isinstance(given, list | tuple) else [str(given)])
    except ValueError as exc:
        raise UserError(f"task {loaded.task.id!r}: {exc}") from exc


def plan_replay(store: RunStore, row: AttemptRow, loaded: LoadedTask, config: ReplayConfig) -> PlannedAttempt:
    """Returns the plan of one replay."""
    as_asked = row.agent.endswith(AS_ASKED)
    limits = merge_limits(recorded_config(store, config).limits, loaded.task.limits)
    return PlannedAttempt(
        id=row.attempt,
        loaded=loaded,
        number=row.number,
        seed=row.seed,
        limits=limits,
        agent=ReplayAgent() if config.carry == "no" else CarryAgent(config.carry),
        verification="as_asked" if as_asked else "default",
        extra_config={"replay": {"run": row.run, "chain": row.chain, "head": row.head, "agent": row.agent}},
        brings_solution=was_given_solution(_started(store, row.chain)),
        prior=priors_of(store, row.chain),
    )


def vary_replay(plan: PlannedAttempt, row: AttemptRow) -> Iterator[tuple[str, PlannedAttempt]]:
    """Yields the variations of a replay by name."""
    variations: dict[str, Variation | None] = {"again": Variation()}
    if plan.loaded.task.environment.kind == "workspace":
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row.started or 0.0))
        seed = Variation("hash-seed", env={"PYTHONHASHSEED": HASH_SEED})
        variations |= {"hash-seed-1": seed, "hash-seed-2": seed}
        variations |= {"clock-1": clock_variation("clock", at), "clock-2": clock_variation("clock", at)}
        variations["clock-control"] = clock_variation("clock-control", "+0d")
    for name, variation in variations.items():
        if variation is not None:
            yield name, plan._replace(id=f"{plan.id}+{name}", variation=variation)


def repeat_replay(plan: PlannedAttempt, times: int) -> Iterator[PlannedAttempt]:
    """Yields a replay so many times, each under an id of its own."""
    for number in range(times):
        yield plan._replace(id=plan.id if number == 0 else f"{plan.id}+time-{number + 1}")


def _started(store: RunStore, chain: str) -> AttemptStarted:
    """Returns the first event of a chain. Raises `StoreError` where it is of another type."""
    body = next(iter(store.events(chain))).body
    if not isinstance(body, AttemptStarted):
        raise StoreError(f"chain {chain!r} does not begin with attempt_started: run `assay verify {store.run}`")
    return body


class _Replay:
    def __init__(
        self,
        store: RunStore,
        config: ReplayConfig,
        settings: Settings,
        progress: Progress,
        elsewhere: OpenAttempts | None,
    ) -> None:
        self._elsewhere = elsewhere
        self._store, self._config, self._settings, self._progress = store, config, settings, progress
        self._name = new_run_name("replay")

    async def run(self, known: Sequence[_ReplaySource]) -> ReplayReport:
        """Replays, compares, finds causes, and stores the results."""
        plans = {one.row.chain: list(self._plans(one)) for one in known if one.loaded is not None}
        planned = [plan for several in plans.values() for plan in several]
        results = [ReplayResult(k.row.attempt, k.row.chain, k.row.agent, k.row.head, None, k.problem) for k in known]
        if not planned:
            return ReplayReport(self._store.run, self._name, tuple(results))
        loaded = {plan.loaded.task.id: plan.loaded for plan in planned}
        config = recorded_config(self._store, self._config)
        config = msgspec.structs.replace(config, concurrency=self._config.concurrency)
        async with open_resources(config, self._settings, list(loaded.values()), ReplayAgent()) as resources:
            with RunStore.create(self._settings.store, self._name, self._manifest(loaded)) as made:
                async with self._open_attempts(made, resources, known) as run_plan:
                    results = await self._replay_all(made, known, plans, run_plan)
        self._keep(results)
        return ReplayReport(self._store.run, self._name, tuple(results))

    async def _replay_all(
        self,
        made: RunStore,
        known: Sequence[_ReplaySource],
        plans: Mapping[str, Sequence[PlannedAttempt]],
        run_plan: RunPlan,
    ) -> list[ReplayResult]:
        """Makes the replays, and the variations of those that differ."""
        await run_plan([plan for several in plans.values() for plan in several], self._progress)
        results = [one for k in known for one in self._compare(made, k, plans.get(k.row.chain, ()))]
        experiments = {} if self._config.no_experiments else self._plan_experiments(known, results)
        if experiments:
            await run_plan([plan for some in experiments.values() for plan in some.values()], self._progress)
        return [self._explain(made, k, one, experiments) for k in known for one in results if one.chain == k.row.chain]

    def _open_attempts(
        self, made: RunStore, resources: RunResources, known: Sequence[_ReplaySource]
    ) -> AbstractAsyncContextManager[RunPlan]:
        if self._elsewhere is None:
            return nullcontext(partial(run_attempts, made, resources))
        whole = [one for one in known if one.loaded is not None]
        samples = {id(one.loaded): one.row.chain for one in whole}
        chains = {one.row.attempt: one.row.chain for one in whole}
        return self._elsewhere(ReplayJob(self._store, made, self._config, chains, tuple(samples.values())))

    def _manifest(self, loaded: Mapping[str, LoadedTask]) -> dict[str, Any]:
        places = SandboxOptions.__struct_fields__
        given = msgspec.to_builtins(recorded_config(self._store, self._config))
        return {
            "agent": ReplayAgent.name,
            "assay_version": __version__,
            "config": {name: given[name] for name in places},
            "replay": {"run": self._store.run, **msgspec.to_builtins(self._config)},
            "tasks": {name: one.task.digest for name, one in loaded.items()},
        }

    def _plans(self, known: _ReplaySource) -> Iterator[PlannedAttempt]:
        assert known.loaded is not None
        volatile_of(known.loaded)  # a wrong pattern ends it before it begins
        plan = plan_replay(self._store, known.row, known.loaded, self._config)
        yield from repeat_replay(plan, self._config.times)

    def _compare(self, made: RunStore, known: _ReplaySource, plans: Sequence[PlannedAttempt]) -> Iterator[ReplayResult]:
        first = ReplayResult(known.row.attempt, known.row.chain, known.row.agent, known.row.head, problem=known.problem)
        if known.loaded is None:
            yield first
            return
        for plan in plans:
            again = made.trajectory(made.find(plan.id).chain)
            broke = again.finished.broke if again.finished is not None else "cut"
            recorded = known.trajectory.finished.broke if known.trajectory.finished is not None else None
            if broke is not None and broke != recorded:
                error = again.finished.error if again.finished is not None else "it was cut"
                problem = f"{broke} failed: {error}"
                yield msgspec.structs.replace(first, replay=again.chain, problem=problem)
                continue
            if self._config.carry != "no":
                yield msgspec.structs.replace(first, replay=again.chain, carried=_carried(known.trajectory, again))
                continue
            finals = (_final_manifest(known.trajectory, made.blobs), _final_manifest(again, made.blobs))
            compared = compare(known.trajectory, again, finals=finals, volatile=volatile_of(known.loaded))
            missing = tuple(str(m) for e in again.evidence if e.kind == "replayed" for m in e.data["missing"])
            yield msgspec.structs.replace(first, replay=again.chain, comparison=compared, missing=missing)

    def _plan_experiments(
        self, known: Sequence[_ReplaySource], results: Iterable[ReplayResult]
    ) -> dict[str, dict[str, PlannedAttempt]]:
        """Plans variations of attempts whose replay differs in a step: by recorded chain, then by variation name."""
        differ = {one.chain: one for one in results if one.comparison is not None and one.comparison.first is not None}
        rows = [k for k in known if k.row.chain in differ][:MOST_EXPLAINED]
        return {k.row.chain: dict(self._circumstances(k)) for k in rows}

    def _circumstances(self, known: _ReplaySource) -> Iterator[tuple[str, PlannedAttempt]]:
        assert known.loaded is not None
        plan = plan_replay(self._store, known.row, known.loaded, self._config)
        return vary_replay(plan, known.row)

    def _explain(
        self,
        made: RunStore,
        known: _ReplaySource,
        one: ReplayResult,
        experiments: Mapping[str, Mapping[str, PlannedAttempt]],
    ) -> ReplayResult:
        compared = one.comparison
        if compared is None or compared.first is None or known.loaded is None or one.replay is None:
            return one
        volatile, first = volatile_of(known.loaded), compared.first
        tried = {name: _completed_trajectory(made, plan) for name, plan in experiments.get(one.chain, {}).items()}
        whole = {name: found for name, found in tried.items() if found is not None}
        again = made.trajectory(one.replay)
        seen = DivergenceFacts(
            first=first,
            recorded=signature(known.trajectory, first, volatile),
            replayed=signature(again, first, volatile),
            missing=one.missing,
            changed=_sandbox_changes(known.trajectory, again),
            network=known.loaded.task.environment.parameters.get("network_mode", "no-network") != "no-network",
            paths=_paths_between(again, whole.get("again"), first.step),
        )
        signatures: dict[str, Signature] = {name: signature(t, first, volatile) for name, t in whole.items()}
        cause = cause_of(seen, signatures)
        return msgspec.structs.replace(one, cause=cause, experiments=tuple(signatures))

    def _keep(self, results: Iterable[ReplayResult]) -> None:
        told = {one.replay: [_evidence(one, self._store.run)] for one in results if one.replay is not None}
        if told:
            annotate_all(self._settings.store, self._name, told)


def _carried(recorded: Trajectory, again: Trajectory) -> CarriedScript:
    data = next((item.data for item in again.evidence if item.kind == CARRIED), {})
    outcome = recorded.outcome, again.outcome
    return CarriedScript(data.get("acts", 0), data.get("matched", 0), outcome, data.get("problem", "it was cut"))


def _completed_trajectory(made: RunStore, plan: PlannedAttempt) -> Trajectory | None:
    """Returns the trajectory of an experiment that completed; None if it broke."""
    found = made.trajectory(made.find(plan.id).chain)
    return found if found.finished is not None and found.finished.broke is None else None


def _evidence(one: ReplayResult, run: str) -> EvidenceAdded:
    data = {"run": run, "agrees": one.agrees, **msgspec.to_builtins(one)}
    return EvidenceAdded(Evidence("replay", "audit", KIND, data, at=time.time()))


def _final_manifest(trajectory: Trajectory, blobs: BlobStore) -> Manifest | None:
    """Returns the last sealed state by path; None if its manifest is unknown."""
    states = find_sealed_states(trajectory)
    manifest = states[-1].data.get("manifest") if states else None
    if not isinstance(manifest, str):
        return None
    try:
        changes = msgspec.json.decode(blobs.get(manifest), type=tuple[Change, ...])
    except (StoreError, msgspec.DecodeError):
        return None
    return {change.path: canonical_bytes(change).decode() for change in changes}


def _sandbox_changes(recorded: Trajectory, again: Trajectory) -> tuple[str, ...]:
    before, now = (next((e.data for e in t.evidence if e.kind == "place"), None) for t in (recorded, again))
    if before is None or now is None:
        return ()
    names = ("image", "base", "tools", "network", "backend", "limits")
    return tuple(
        f"{name} was {before.get(name)}, is {now.get(name)}" for name in names if before.get(name) != now.get(name)
    )


def _paths_between(one: Trajectory, other: Trajectory | None, step: int) -> tuple[str, ...]:
    """Returns paths that two replays changed differently up to a step, volatile ones last."""
    if other is None:
        return ()
    states = [_states_up_to(trajectory, step) for trajectory in (one, other)]
    differ = sorted(path for path in states[0].keys() | states[1].keys() if states[0].get(path) != states[1].get(path))
    found = [PathDifference(path, is_volatile_path(path)) for path in differ]
    return tuple(path.path for path in sorted(found, key=lambda found: found.volatile))


def _states_up_to(trajectory: Trajectory, step: int) -> dict[str, object]:
    known: dict[str, object] = {}
    for found in (e.data for e in trajectory.evidence if e.kind == "step_state" and e.data["step"] <= step):
        known |= {change["path"]: change for change in found["changes"]}
        for path in found["as_before"]:
            known.pop(path, None)
    return known
