"""One task under admission: its probes, knowledge and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec

from assay.agents.cheats.interface import Knowledge
from assay.environments.interface import Backend, WorkspaceSpec
from assay.errors import BoundaryError, EnvironmentFailure, UserError
from assay.records import Check
from assay.rollout.plan import PlannedAttempt
from assay.rollout.runs import RunResources
from assay.store import RunStore
from assay.tasks import LoadedTask

from .bundles import uncleared
from .config import AdmitConfig
from .differential import DifferentialTester
from .findings import AdmissionFinding
from .knowledge import SolutionRecord, extract_knowledge
from .probe import Probe, SkippedProbe
from .probe_results import ProbeResult, collect_probe_results
from .probes import FIRST, has_oracle, oracle_probes, plan_attempt, sandbox_probes, world_probes
from .review import review_findings
from .sensitivity import MutantComparison, MutantRow, Sensitivity, judge_mutants
from .soundness import TaskEvidence
from .strictness import VariantRow, strictness_findings
from .worlds import collect_hooks

LEAST_LIMIT_S, TIMES_ORACLE = 20.0, 10.0
"""Time limit for verifying anything but the solution, where the task's own limit is longer."""
QUICK_LEAST_S, QUICK_TIMES = 2.0, 3.0
"""The same in a quick battery, where one hanging answer would double the duration."""


class AdmissionSubject:
    """A task and its probes, which grow from phase to phase in a deterministic way."""

    def __init__(self, loaded: LoadedTask, config: AdmitConfig) -> None:
        self.loaded = loaded
        self.config = config
        self.solution: SolutionRecord | None = None
        self.spec: WorkspaceSpec | None = None
        self.untried: list[SkippedProbe] = []
        self.more: list[AdmissionFinding] = []
        self.comparisons: dict[str, MutantComparison] = {}
        self._probes: list[Probe] = []
        self._later: list[Probe] = []
        """Rewrites that wait for the control."""
        self._limit_s: float | None = None

    @property
    def task(self) -> str:
        return self.loaded.task.id

    @property
    def in_sandbox(self) -> bool:
        return self.loaded.task.environment.kind == "workspace"

    def plan(self) -> Iterator[PlannedAttempt]:
        """Yields the attempts of all probes so far, in order."""
        for number, probe in enumerate(self._probes):
            hurried = probe.group not in ("completeness", "review") and self._limit_s is not None
            loaded = _limit_checks(self.loaded, self._limit_s or 0.0) if hurried else self.loaded
            yield plan_attempt(probe, loaded, number, self.config)

    def begin(self) -> None:
        """Phase 1: plans the reference solution."""
        if self.in_sandbox and has_oracle(self.loaded):
            self._probes += oracle_probes(self.config)

    async def learn(self, store: RunStore, resources: RunResources, cache: Path) -> None:
        """Phase 2: plans the probes that depend on the solution's files; rewrites wait for the control."""
        try:
            found = await (self._learn_sandbox(store, resources, cache) if self.in_sandbox else self._learn_world())
        except (UserError, BoundaryError) as exc:
            if isinstance(exc, BoundaryError) and exc.name == "store":
                raise
            text = f"the task cannot be set up: {exc}"
            self.more.append(AdmissionFinding("not-set-up", self.task, None, "broken", text))
            return
        for one in found:
            if isinstance(one, SkippedProbe):
                self.untried.append(one)
            elif one.rewrite is not None and self.in_sandbox:
                self._later.append(one)
            else:
                self._probes.append(one)

    async def _learn_sandbox(self, store: RunStore, resources: RunResources, cache: Path) -> list[Probe | SkippedProbe]:
        preparer = resources.preparer
        if preparer is None:
            raise EnvironmentFailure("the run has no sandbox")
        spec = self.spec = await preparer.spec(self.loaded)
        seen = collect_probe_results(store, self.task, self._probes)
        first = seen.get(FIRST)
        if first is not None and first.outcome is not None:
            trajectory = store.trajectory(first.chain)
            self.solution = await extract_knowledge(self.loaded, trajectory, store.blobs, preparer.backend, spec)
            least_s, times = (QUICK_LEAST_S, QUICK_TIMES) if self.config.quick else (LEAST_LIMIT_S, TIMES_ORACLE)
            # The median: the first may have met a busy moment, and an answer that hangs takes all that it is given.
            self._limit_s = max(least_s, times * median(o.judged_s for o in seen.values() if o.outcome is not None))
        return list(sandbox_probes(self.loaded, self.config, spec, self.solution, cache))

    async def _learn_world(self) -> list[Probe | SkippedProbe]:
        return list(
            world_probes(self.config, await collect_hooks(self.loaded, self.config.seed), self.loaded.task.checks)
        )

    def add(self, probe: Probe) -> None:
        """Adds a probe before the waiting ones."""
        self._probes.append(probe)

    def go_on(self, store: RunStore) -> None:
        """Phase 3: plans members that a shared attempt did not clear, and rewrites if the solution's files pass."""
        shared = [probe for probe in self._probes if probe.members]
        covered = {name: one.covers for name, one in collect_probe_results(store, self.task, shared).items()}
        self._probes += uncleared(shared, covered)
        later, self._later = self._later, []
        if not later:
            return
        controls = [probe for probe in self._probes if probe.name == "oracle.files"]
        control = next(iter(collect_probe_results(store, self.task, controls).values()), None)
        if control is not None and control.passed:
            self._probes += later
            return
        said = "were not judged" if control is None or control.outcome is None else f"alone give {control.outcome}"
        reason = f"the files that the solution leaves {said}: what solves the task is more than files"
        self.untried += [SkippedProbe(group, group, reason) for group in dict.fromkeys(probe.group for probe in later)]

    async def compare(self, store: RunStore, backend: Backend | None) -> None:
        """Phase 4: compares mutants that passed with the solution. Raises `EnvironmentFailure`."""
        seen = collect_probe_results(store, self.task, self._mutants())
        survivors = [probe for probe in self._mutants() if probe.id in seen and seen[probe.id].passed]
        if not survivors:
            return
        if not self.in_sandbox:
            self.comparisons = self._compare_worlds(store, survivors)
            return
        if self.solution is None or self.spec is None or backend is None:
            return
        knowledge: Knowledge = self.solution.knowledge
        task, folder = self.loaded.task, self.loaded.folder
        async with DifferentialTester(
            backend, self.spec, task, knowledge, seed=self.config.seed, folder=folder
        ) as bench:
            for probe in survivors:
                if probe.rewrite is not None:
                    self.comparisons[probe.name] = await bench.compare(probe.rewrite)

    def _compare_worlds(self, store: RunStore, survivors: Sequence[Probe]) -> dict[str, MutantComparison]:
        results = self.observed(store)
        right = results[FIRST].told.get("ended") if FIRST in results else None
        comparisons = {}
        for probe in survivors:
            wrong = results[probe.id].told.get("ended")
            if right is None or wrong is None:
                comparisons[probe.name] = MutantComparison("undecided")
            elif right == wrong:
                comparisons[probe.name] = MutantComparison("same", "final state", "", 1)
            else:
                witness = "the world ends in another state than the solution's"
                comparisons[probe.name] = MutantComparison("changed", "final state", witness, 1)
        return comparisons

    def _mutants(self) -> list[Probe]:
        return [p for p in self._probes if p.group == "sensitivity" and p.rewrite is not None]

    def observed(self, store: RunStore) -> dict[str, ProbeResult]:
        """Returns the results so far, by probe id."""
        return collect_probe_results(store, self.task, self._probes)

    def collect_evidence(self, store: RunStore) -> TaskEvidence:
        """Returns the input of the task's report."""
        results = self.observed(store)
        return TaskEvidence(
            task=self.task,
            task_digest=self.loaded.task.digest,
            verifications=self.config.verifications if self.in_sandbox else ("default",),
            has_oracle=has_oracle(self.loaded) if self.in_sandbox else FIRST in results,
            observed=tuple(results.values()),
            untried=tuple(self.untried),
            sensitivity=self._sensitivity(results),
            changed=tuple(f.path for f in self.solution.knowledge.changed) if self.solution is not None else (),
            more=(*self.more, *self._strictness(results), *review_findings(self.task, results.get("review"))),
        )

    def _strictness(self, results: dict[str, ProbeResult]) -> tuple[AdmissionFinding, ...]:
        rows = [
            VariantRow(probe.rewrite, results[probe.id].outcome, results[probe.id].attempt)
            for probe in self._probes
            if probe.group == "strictness" and probe.rewrite is not None and probe.id in results
        ]
        return strictness_findings(self.loaded.task, rows)

    def _sensitivity(self, results: dict[str, ProbeResult]) -> Sensitivity | None:
        rows = []
        for probe in self._mutants():
            one = results.get(probe.id)
            if one is not None and probe.rewrite is not None:
                rows.append(MutantRow(probe.rewrite, one.outcome, one.attempt, self.comparisons.get(probe.name)))
        return judge_mutants(rows) if rows else None


def _limit_checks(loaded: LoadedTask, most_s: float) -> LoadedTask:
    """Returns the task with a time limit on its checks: a mutant may hang."""
    checks = tuple(_limit_check(check, most_s) for check in loaded.task.checks)
    steps = tuple(msgspec.structs.replace(step, check=_limit_check(step.check, most_s)) for step in loaded.steps)
    return loaded._replace(task=msgspec.structs.replace(loaded.task, checks=checks), steps=steps)


def _limit_check(check: Check, most_s: float) -> Check:
    given = check.parameters.get("timeout_s")
    if check.kind not in ("script", "pytest") or (isinstance(given, int | float) and given <= most_s):
        return check
    return msgspec.structs.replace(check, parameters={**check.parameters, "timeout_s": most_s})
