"""Does recorded attempts again in fresh environments and compares what they show, step by step.

The replays are an ordinary run in the store, judged as every run is; what comparing came to is added to each of its
chains as evidence of the kind `replay`. Where a replay differs, it is done again under other circumstances to find why.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay import __version__
from assay.agents.replay import ReplayAgent
from assay.analysis.causes import Cause, Seen, Signature, cause_of, signature
from assay.analysis.replayed import Comparison, Manifest, PathDifference, compare
from assay.analysis.volatile import Volatile, is_volatile_path, own
from assay.environments.interface import Change
from assay.errors import StoreError, UserError
from assay.records import AttemptStarted, Evidence, EvidenceAdded, Trajectory, canonical_bytes
from assay.rollout.admitted import ADMISSION
from assay.rollout.attempt.variation import Variation, other_clock
from assay.rollout.plan import PlannedAttempt, merge_limits
from assay.rollout.progress import Progress
from assay.rollout.rejudge.recorded_task import (
    AS_ASKED,
    PastTasks,
    Places,
    Version,
    past_config,
    priors_of,
    variation_of,
)
from assay.rollout.runs import new_run_name, opened_means, run_attempts
from assay.settings import Settings
from assay.store import AttemptRow, BlobStore, RunStore, annotate_all
from assay.tasks import LoadedTask
from assay.verdicts import is_imported_record, was_given_solution
from assay.verify.again import CannotRebuildError, sealed_states

__all__ = ["ReplayConfig", "ReplayReport", "Replayed", "replay", "replayed_attempt", "unreplayable", "volatile_of"]

MOST_EXPLAINED = 20
"""Divergent attempts of one replay that are replayed under other circumstances."""
KIND = "replay"
HASH_SEED = "20261"


class ReplayConfig(Places, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is replayed, and how."""

    attempts: tuple[str, ...] = ()
    """Names of attempts (task@number), or their beginnings; what stands before a slash may be left out."""
    run: str | None = None
    """Name of the run that they are of; default: the newest one that is no replay itself."""
    all: bool = False
    """Replay every attempt of the run."""
    times: int = 1
    """How often each attempt is replayed."""
    no_experiments: bool = False
    """Do not replay what differs under other circumstances to find out why."""
    from_each_prefix: bool = False
    """Let another agent go on before each step, and say which step was decisive."""
    agent: str = "oracle"
    """With --from-each-prefix, who goes on: an agent as in `assay run`, or `attempt:NAME` for the rest of that one."""
    agent_options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Options of that agent, as `key=value`."""
    model: str | None = None
    """What that agent asks, as in `assay run`."""
    check_version: Version = "recorded"
    """Which task: as it was `recorded` (from the store's copy, or a folder with the same digest), or as it is
    `today`."""
    tasks: tuple[str, ...] = ()
    """Where today's tasks are, folders or families; default: where the run found them."""
    concurrency: int = 2
    """How many replays are under way at once."""

    def __post_init__(self) -> None:
        """Refuses what cannot work, before anything starts."""
        if self.times < 1 or self.concurrency < 1:
            raise UserError("times and concurrency must be at least 1")


class Replayed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one replay of one attempt came to."""

    attempt: str
    chain: str
    agent: str
    head: str
    """The head of the recorded chain."""
    replay: str | None = None
    """The chain of the replay; None where there was none."""
    problem: str | None = None
    """Why it could not be replayed, or broke."""
    comparison: Comparison | None = None
    missing: tuple[str, ...] = ()
    """What was done and could not be done again."""
    cause: Cause | None = None
    experiments: tuple[str, ...] = ()
    """Circumstances under which it was replayed to find the cause."""

    @property
    def agrees(self) -> bool:
        """Whether the replay shows what was recorded, but for what means nothing."""
        return self.comparison is not None and self.comparison.agrees


class ReplayReport(msgspec.Struct, frozen=True):
    """What replaying came to."""

    run: str
    replay: str
    """The run that the replays are."""
    results: tuple[Replayed, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many replays agree and differ, and how many attempts cannot be replayed."""
        agree = sum(one.agrees for one in self.results)
        cannot = sum(one.comparison is None for one in self.results)
        return {"agree": agree, "differ": len(self.results) - agree - cannot, "cannot": cannot}

    @property
    def rate(self) -> float | None:
        """The share of what could be replayed that agrees."""
        counts = self.counts
        tried = counts["agree"] + counts["differ"]
        return counts["agree"] / tried if tried else None


class _Known(NamedTuple):
    """A recorded attempt and what doing it again needs."""

    row: AttemptRow
    trajectory: Trajectory
    loaded: LoadedTask | None
    problem: str | None = None


async def replay(run: str, config: ReplayConfig, settings: Settings, progress: Progress) -> ReplayReport:
    """Replays attempts of a run.

    Args:
        run: The run that they are of.
        config: Which, and how.
        settings: Where the store and the caches are.
        progress: Told what happens.

    Raises:
        UserError: An attempt is none of the run, or what is asked for cannot work; nothing was started.
        StoreError: The run is damaged, or the replays cannot be written.
    """
    with RunStore.open(settings.store, run) as store, PastTasks(store, config.check_version, config.tasks) as tasks:
        known = [_known(store, row, tasks) for row in chosen(store, config)]
        replaying = _Replaying(store, config, settings, progress)
        return await replaying.run(known)


def chosen(store: RunStore, config: ReplayConfig) -> list[AttemptRow]:
    """The deciding tries of the attempts that are asked for. Raises `UserError` where that is none."""
    if config.all == bool(config.attempts):
        raise UserError("name the attempts that are to be replayed, or give --all (`assay ls` lists them)")
    rows = [row for row in store.attempts() if row.final] if config.all else list(map(store.find, config.attempts))
    if not rows:
        raise UserError(f"no attempt of run {store.run!r} has ended: there is nothing to replay")
    return list({row.chain: row for row in rows}.values())


def _known(store: RunStore, row: AttemptRow, tasks: PastTasks) -> _Known:
    trajectory = store.trajectory(row.chain)
    problem = unreplayable(trajectory)
    try:
        return _Known(row, trajectory, None if problem else tasks.of(trajectory), problem)
    except CannotRebuildError as exc:
        return _Known(row, trajectory, None, str(exc))


def unreplayable(trajectory: Trajectory) -> str | None:
    """Why an attempt's actions cannot be executed again by us; None where they can."""
    if is_imported_record(trajectory.started):
        return "it was imported: its actions are those of another harness, in an environment that is not known"
    if trajectory.agent == ADMISSION:
        return "it is a certificate: nobody acted"
    fork = trajectory.started.config.get("fork")
    if isinstance(fork, dict):
        return f"it began in the middle of {fork.get('chain')}: replay that, or judge this with `assay verify --again`"
    if variation_of(trajectory) is not None:
        return f"it acted under a circumstance of its own ({variation_of(trajectory)}): only its run makes that again"
    if any(call.raw_request is not None for call in trajectory.calls):
        again = f"replay:{trajectory.run}:{trajectory.attempt}"
        return (
            f"a program in the sandbox acted, with tools of its own: let it act again on the recorded replies of its "
            f"model, with `assay run TASK --agent {trajectory.agent} --model {again}`"
        )
    return None


def volatile_of(loaded: LoadedTask) -> tuple[Volatile, ...]:
    """The task's own patterns, `[metadata.assay] volatile`. Raises `UserError` where one is wrong."""
    ours = loaded.task.metadata.get("assay")
    given = ours.get("volatile", ()) if isinstance(ours, dict) else ()
    try:
        return own([str(one) for one in given] if isinstance(given, list | tuple) else [str(given)])
    except ValueError as exc:
        raise UserError(f"task {loaded.task.id!r}: {exc}") from exc


def replayed_attempt(store: RunStore, row: AttemptRow, loaded: LoadedTask, config: ReplayConfig) -> PlannedAttempt:
    """The plan of one replay."""
    as_asked = row.agent.endswith(AS_ASKED)
    limits = merge_limits(past_config(store, config).limits, loaded.task.limits)
    return PlannedAttempt(
        id=row.attempt,
        loaded=loaded,
        number=row.number,
        seed=row.seed,
        limits=limits,
        agent=ReplayAgent(),
        verification="as_asked" if as_asked else "default",
        told={"replay": {"run": row.run, "chain": row.chain, "head": row.head, "agent": row.agent}},
        brings_solution=was_given_solution(_started(store, row.chain)),
        prior=priors_of(store, row.chain),
    )


def _started(store: RunStore, chain: str) -> AttemptStarted:
    """Returns the first event of a chain. Raises `StoreError` where it is of another type."""
    body = next(iter(store.events(chain))).body
    if not isinstance(body, AttemptStarted):
        raise StoreError(f"chain {chain!r} does not begin with attempt_started: run `assay verify {store.run}`")
    return body


class _Replaying:
    """One replay of a run's attempts under way."""

    def __init__(self, store: RunStore, config: ReplayConfig, settings: Settings, progress: Progress) -> None:
        self._store, self._config, self._settings, self._progress = store, config, settings, progress
        self._name = new_run_name("replay")

    async def run(self, known: Sequence[_Known]) -> ReplayReport:
        """Replays, compares, looks for causes, and keeps what was found."""
        plans = {one.row.chain: list(self._plans(one)) for one in known if one.loaded is not None}
        planned = [plan for several in plans.values() for plan in several]
        results = [Replayed(k.row.attempt, k.row.chain, k.row.agent, k.row.head, None, k.problem) for k in known]
        if not planned:
            return ReplayReport(self._store.run, self._name, tuple(results))
        loaded = {plan.loaded.task.id: plan.loaded for plan in planned}
        config = past_config(self._store, self._config)
        config = msgspec.structs.replace(config, concurrency=self._config.concurrency)
        async with opened_means(config, self._settings, list(loaded.values()), ReplayAgent()) as means:
            with RunStore.create(self._settings.store, self._name, self._manifest(loaded)) as made:
                await run_attempts(made, means, planned, self._progress)
                results = [one for k in known for one in self._compared(made, k, plans.get(k.row.chain, ()))]
                trials = {} if self._config.no_experiments else self._trials(known, results)
                if trials:
                    more = [plan for some in trials.values() for plan in some.values()]
                    await run_attempts(made, means, more, self._progress)
                results = [self._explained(made, k, one, trials) for k in known for one in results if _is(one, k)]
        self._keep(results)
        return ReplayReport(self._store.run, self._name, tuple(results))

    def _manifest(self, loaded: Mapping[str, LoadedTask]) -> dict[str, Any]:
        places = Places.__struct_fields__
        given = msgspec.to_builtins(past_config(self._store, self._config))
        return {
            "agent": ReplayAgent.name,
            "assay_version": __version__,
            "config": {name: given[name] for name in places},
            "replay": {"run": self._store.run, **msgspec.to_builtins(self._config)},
            "tasks": {name: one.task.digest for name, one in loaded.items()},
        }

    def _plans(self, known: _Known) -> Iterator[PlannedAttempt]:
        assert known.loaded is not None
        volatile_of(known.loaded)  # a wrong pattern ends it before it begins
        plan = replayed_attempt(self._store, known.row, known.loaded, self._config)
        for number in range(self._config.times):
            yield plan._replace(id=plan.id if number == 0 else f"{plan.id}+time-{number + 1}")

    def _compared(self, made: RunStore, known: _Known, plans: Sequence[PlannedAttempt]) -> Iterator[Replayed]:
        """What each replay of an attempt came to."""
        first = Replayed(known.row.attempt, known.row.chain, known.row.agent, known.row.head, problem=known.problem)
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
            finals = (_final(known.trajectory, made.blobs), _final(again, made.blobs))
            compared = compare(known.trajectory, again, finals=finals, volatile=volatile_of(known.loaded))
            missing = tuple(str(m) for e in again.evidence if e.kind == "replayed" for m in e.data["missing"])
            yield msgspec.structs.replace(first, replay=again.chain, comparison=compared, missing=missing)

    def _trials(self, known: Sequence[_Known], results: Iterable[Replayed]) -> dict[str, dict[str, PlannedAttempt]]:
        """Replays under other circumstances of what differs in a step: by the recorded chain, then by their name."""
        differ = {one.chain: one for one in results if one.comparison is not None and one.comparison.first is not None}
        rows = [k for k in known if k.row.chain in differ][:MOST_EXPLAINED]
        return {k.row.chain: dict(self._circumstances(k)) for k in rows}

    def _circumstances(self, known: _Known) -> Iterator[tuple[str, PlannedAttempt]]:
        assert known.loaded is not None
        plan = replayed_attempt(self._store, known.row, known.loaded, self._config)
        variations: dict[str, Variation | None] = {"again": Variation()}
        if known.loaded.task.environment.kind == "workspace":
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(known.row.started or 0.0))
            seed = Variation("hash-seed", env={"PYTHONHASHSEED": HASH_SEED})
            variations |= {"hash-seed-1": seed, "hash-seed-2": seed}
            variations |= {"clock-1": other_clock("clock", at), "clock-2": other_clock("clock", at)}
            variations["clock-control"] = other_clock("clock-control", "+0d")
        for name, variation in variations.items():
            if variation is not None:
                yield name, plan._replace(id=f"{plan.id}+{name}", variation=variation)

    def _explained(
        self, made: RunStore, known: _Known, one: Replayed, trials: Mapping[str, Mapping[str, PlannedAttempt]]
    ) -> Replayed:
        compared = one.comparison
        if compared is None or compared.first is None or known.loaded is None or one.replay is None:
            return one
        volatile, first = volatile_of(known.loaded), compared.first
        tried = {name: _trial(made, plan) for name, plan in trials.get(one.chain, {}).items()}
        whole = {name: found for name, found in tried.items() if found is not None}
        again = made.trajectory(one.replay)
        seen = Seen(
            first=first,
            recorded=signature(known.trajectory, first, volatile),
            replayed=signature(again, first, volatile),
            missing=one.missing,
            changed=_changed(known.trajectory, again),
            network=known.loaded.task.environment.parameters.get("network_mode", "no-network") != "no-network",
            paths=_paths_between(again, whole.get("again"), first.step),
        )
        signatures: dict[str, Signature] = {name: signature(t, first, volatile) for name, t in whole.items()}
        cause = cause_of(seen, signatures)
        return msgspec.structs.replace(one, cause=cause, experiments=tuple(signatures))

    def _keep(self, results: Iterable[Replayed]) -> None:
        """Adds what comparing came to to the replays' own chains."""
        told = {one.replay: [_evidence(one, self._store.run)] for one in results if one.replay is not None}
        if told:
            annotate_all(self._settings.store, self._name, told)


def _is(one: Replayed, known: _Known) -> bool:
    return one.chain == known.row.chain


def _trial(made: RunStore, plan: PlannedAttempt) -> Trajectory | None:
    """An experiment that came to its end."""
    found = made.trajectory(made.find(plan.id).chain)
    return found if found.finished is not None and found.finished.broke is None else None


def _evidence(one: Replayed, run: str) -> EvidenceAdded:
    data = {"run": run, "agrees": one.agrees, **msgspec.to_builtins(one)}
    return EvidenceAdded(Evidence("replay", "audit", KIND, data, at=time.time()))


def _final(trajectory: Trajectory, blobs: BlobStore) -> Manifest | None:
    """The last sealed state, path by path; None where it is not known so."""
    states = sealed_states(trajectory)
    manifest = states[-1].data.get("manifest") if states else None
    if not isinstance(manifest, str):
        return None
    try:
        changes = msgspec.json.decode(blobs.get(manifest), type=tuple[Change, ...])
    except (StoreError, msgspec.DecodeError):
        return None
    return {change.path: canonical_bytes(change).decode() for change in changes}


def _changed(recorded: Trajectory, again: Trajectory) -> tuple[str, ...]:
    """What the two sandboxes were made of, where it differs."""
    before, now = (next((e.data for e in t.evidence if e.kind == "place"), None) for t in (recorded, again))
    if before is None or now is None:
        return ()
    names = ("image", "base", "tools", "network", "backend", "limits")
    return tuple(
        f"{name} was {before.get(name)}, is {now.get(name)}" for name in names if before.get(name) != now.get(name)
    )


def _paths_between(one: Trajectory, other: Trajectory | None, step: int) -> tuple[str, ...]:
    """Paths that two replays changed otherwise up to a step, but for what means nothing."""
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
