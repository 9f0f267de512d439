"""Runs the battery on a set of tasks in one run of the store, and certifies each task after its last attempt.

Phases of a task: reference solution; dependent probes; rewrites, where the control passes; comparisons of mutants that
passed. Tasks run in waves, which bounds memory. After a crash, `resume_admission` plans the same attempts and runs the
missing ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay import __version__
from assay.agents.interface import Agent
from assay.agents.oracle import OracleAgent
from assay.errors import AssayError, EnvironmentFailure, UserError
from assay.rollout.admitted import BATTERY
from assay.rollout.attempt.models import resolve_model_name
from assay.rollout.limits.run_budget import BudgetLimits, estimate_use
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import ForwardedProgress, Progress
from assay.rollout.run_manifest import PLACE, match_tasks
from assay.rollout.runs import RunResources, open_resources, run_attempts
from assay.rollout.schedule.rounds import RunPlan
from assay.settings import Settings
from assay.store import ADMISSION, RunStore
from assay.tasks import LoadedTask, find_tasks

from .certificate import certify, read_reports
from .config import AdmitConfig
from .difficulty import compute_rates
from .findings import AdmissionFinding
from .review import ReviewAgent, review_probe
from .soundness import TaskReport, judge_task
from .subject import AdmissionSubject

if TYPE_CHECKING:
    from assay.rollout.cluster.node_session import PlacedRunOptions

LEAST_WAVE, WAVE_A_PLACE = 8, 4
"""Tasks in progress at once: minimum, and per unit of concurrency."""
ReportCallback = Callable[[TaskReport], None]


class Admission(NamedTuple):
    run: str
    store: Path
    config: AdmitConfig
    reports: tuple[TaskReport, ...]


def new_admission_name() -> str:
    """Returns a run name that sorts by time."""
    return f"admit-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() // 1000 % 1_000_000:06d}"


async def admit(
    config: AdmitConfig,
    settings: Settings,
    progress: Progress,
    *,
    on_report: ReportCallback | None = None,
    tasks: Sequence[LoadedTask] | None = None,
    nodes: PlacedRunOptions | None = None,
) -> Admission:
    """Runs the battery on tasks and certifies each; `on_report` gets each report as it is made.

    `tasks` are the tasks themselves, for generated ones; default those that `config` names. With `nodes` these do the
    attempts; probes are planned, changed solutions compared and tasks certified here.

    Raises:
        UserError: The configuration cannot work; nothing was started.
        StoreError: The record cannot be written; what is committed stays, and `resume_admission` goes on.
    """
    if not config.tasks and tasks is None:
        raise UserError("no tasks: name at least one task folder, or family:NAME")
    name = config.run or new_admission_name()
    config = msgspec.structs.replace(config, run=name, model=resolve_model_name(config.model, settings))
    if nodes is not None:
        _require_sendable(config, tasks)
    loaded = tuple(tasks) if tasks is not None else find_tasks(config.tasks)
    manifest = {
        ADMISSION: msgspec.to_builtins(config),
        "battery": BATTERY,
        "tasks": {one.task.id: one.task.digest for one in loaded},
        "agent": ADMISSION,
        "assay_version": __version__,
    }
    if nodes is not None:
        from assay.rollout.cluster.placed_work import label_manifest  # late: one machine needs no cluster

        manifest = await label_manifest(name, manifest, settings, nodes)
    async with open_resources(config.as_run(), settings, loaded, make_agent(config), screening=True) as resources:
        if resources.model is not None:
            model = resources.model.backend.name
            progress.inform(estimate_use(settings.store, ReviewAgent.name, model, len(loaded)).sentence())
        with RunStore.create(settings.store, name, manifest) as store:
            async with _open_attempts(store, resources, settings, progress, nodes) as run_plan:
                battery = _Battery(store, resources, config, settings, run_plan)
                return await battery.run(loaded, progress, on_report)


async def resume_admission(
    run: str,
    settings: Settings,
    progress: Progress,
    *,
    on_report: ReportCallback | None = None,
    tasks: Sequence[LoadedTask] | None = None,
    budget: BudgetLimits | None = None,
    nodes: PlacedRunOptions | None = None,
) -> Admission:
    """Completes an interrupted admission; for a finished one, returns its report again.

    `budget` replaces that of its configuration, and `nodes` the place and nodes with which it began.

    Raises:
        UserError: The run is not an admission, has another battery, or a task has changed since it began.
        StoreError: The run does not exist, is sealed, or another process is writing it.
    """
    with RunStore.open(settings.store, run, write=True) as store:
        config = parse_config(run, store.manifest())
        if PLACE in store.manifest():
            _require_sendable(config, tasks)
        elif nodes is not None:
            raise UserError(f"run {run!r} was started on this machine: resume it without --nodes and --place")
        if budget is not None:
            config = msgspec.structs.replace(config, budget_usd=budget.cost_usd, budget_calls=budget.calls)
        found = tuple(tasks) if tasks is not None else find_tasks(config.tasks)
        loaded = match_tasks(store.manifest()["tasks"], found)
        async with (
            open_resources(config.as_run(), settings, loaded, make_agent(config), screening=True) as resources,
            _open_attempts(store, resources, settings, progress, nodes) as run_plan,
        ):
            battery = _Battery(store, resources, config, settings, run_plan)
            return await battery.run(loaded, progress, on_report)


def parse_config(run: str, manifest: Mapping[str, Any]) -> AdmitConfig:
    """Returns the configuration of an admission from its manifest. Raises `UserError`."""
    if ADMISSION not in manifest:
        raise UserError(f"run {run!r} is not an admission: resume it with `assay resume {run}`")
    if manifest.get("battery") != BATTERY:
        raise UserError(
            f"run {run!r} is of battery {manifest.get('battery')}, and the present one is {BATTERY}: start a new "
            "admission"
        )
    try:
        return msgspec.convert(manifest[ADMISSION], AdmitConfig)
    except msgspec.ValidationError as exc:
        raise UserError(f"run {run!r} has an invalid configuration ({exc}): start a new admission") from exc


def make_agent(config: AdmitConfig) -> Agent:
    """Returns the agent of attempts that bring none."""
    return ReviewAgent(()) if config.model is not None else OracleAgent()


def _require_sendable(config: AdmitConfig, tasks: Sequence[LoadedTask] | None) -> None:
    """Raises `UserError` for an admission that nodes cannot carry out."""
    remedy = "leave out --nodes and --place to admit them on this machine"
    if tasks is not None:
        raise UserError(f"nodes cannot be given Python objects: name the tasks by their folders, or {remedy}")
    if config.budget_usd is not None or config.budget_calls is not None:
        raise UserError(f"the budget of an admission is kept by one process: leave out the budget, or {remedy}")


@asynccontextmanager
async def _open_attempts(
    store: RunStore,
    resources: RunResources,
    settings: Settings,
    progress: Progress,
    nodes: PlacedRunOptions | None,
) -> AsyncIterator[RunPlan]:
    """Yields what runs planned attempts, here or on nodes, and records them in the store."""
    if PLACE not in store.manifest():
        yield partial(run_attempts, store, resources)
        return
    from assay.rollout.cluster.node_session import PlacedRunOptions  # late: one machine needs no cluster
    from assay.rollout.cluster.placed_run import require_label
    from assay.rollout.cluster.placed_work import open_placed_work, published_of

    from .node_work import WORKLOAD

    label = require_label(store)
    published = published_of(store, label, WORKLOAD, resources.config.concurrency)
    options = nodes or PlacedRunOptions(label.url, label.nodes)
    async with open_placed_work(published, settings, options, progress) as work:

        async def run_on_nodes(planned: Sequence[PlannedAttempt], shown: Progress) -> None:
            await work.run_attempts(store, planned, shown, resources.config.retries)

        yield run_on_nodes


async def learn_probes(subject: AdmissionSubject, store: RunStore, resources: RunResources, cache: Path) -> None:
    """Plans the second phase of a task, from the records of the first. Raises `StoreError`."""
    from .instruction import review

    await subject.learn(store, resources, cache)
    knowledge = subject.solution.knowledge if subject.solution is not None else None
    subject.more += review(subject.loaded, knowledge)
    if subject.config.model is not None:
        subject.add(review_probe(subject.loaded))


class _Battery:
    def __init__(
        self, store: RunStore, resources: RunResources, config: AdmitConfig, settings: Settings, run_plan: RunPlan
    ) -> None:
        self._store = store
        self._run_plan = run_plan
        self._resources = resources
        self._config = config
        self._settings = settings
        self._places = asyncio.Semaphore(config.concurrency)

    async def run(self, tasks: Sequence[LoadedTask], progress: Progress, on_report: ReportCallback | None) -> Admission:
        """Runs all tasks in waves."""
        attempts = [row for row in self._store.attempts() if row.agent != ADMISSION]  # no certificates
        progress.opened(self._store.run, attempts)
        progress.bound(BudgetLimits(self._config.budget_usd, self._config.budget_calls))
        rates = compute_rates(self._settings.store, [one.task.digest for one in tasks])
        reports = read_reports(self._store)
        open_tasks = [one for one in tasks if one.task.id not in reports]
        size, completed = max(LEAST_WAVE, WAVE_A_PLACE * self._config.concurrency), 0
        for start in range(0, len(open_tasks), size):
            wave = [AdmissionSubject(one, self._config) for one in open_tasks[start : start + size]]
            completed += await self._wave(wave, _OffsetProgress(progress, completed))
            for subject in wave:
                evidence = subject.collect_evidence(self._store)._replace(
                    difficulty=rates.get(subject.loaded.task.digest, ())
                )
                report = reports[subject.task] = judge_task(evidence)
                certify(self._store, report, self._config)
                if on_report is not None:
                    on_report(report)
        ordered = tuple(reports[one.task.id] for one in tasks)
        return Admission(self._store.run, self._settings.store, self._config, ordered)

    async def _wave(self, wave: Sequence[AdmissionSubject], progress: Progress) -> int:
        """Runs all phases of some tasks and returns the number of attempts."""
        for subject in wave:
            subject.begin()
        planned = await self._attempts(wave, progress, 0)
        await self._each(wave, self._learn)
        planned = await self._attempts(wave, progress, planned)
        for subject in wave:
            subject.go_on(self._store)
        planned = await self._attempts(wave, progress, planned)
        await self._each(wave, self._compare)
        return planned

    async def _attempts(self, wave: Sequence[AdmissionSubject], progress: Progress, before: int) -> int:
        """Runs the planned attempts if there are more than `before`; returns their number."""
        planned = [attempt for subject in wave for attempt in subject.plan()]
        if len(planned) > before:
            await self._run_plan(planned, progress)
        return len(planned)

    async def _each(
        self, wave: Sequence[AdmissionSubject], work: Callable[[AdmissionSubject], Awaitable[None]]
    ) -> None:
        """Applies `work` to each task with bounded concurrency. Raises the first failure after all have ended."""
        failed: list[AssayError] = []
        async with asyncio.TaskGroup() as group:
            for subject in wave:
                group.create_task(self._bounded(subject, work, failed))
        if failed:
            raise failed[0]

    async def _bounded(
        self, subject: AdmissionSubject, work: Callable[[AdmissionSubject], Awaitable[None]], failed: list[AssayError]
    ) -> None:
        async with self._places:
            try:
                await work(subject)
            except AssayError as exc:
                failed.append(exc)

    async def _learn(self, subject: AdmissionSubject) -> None:
        await learn_probes(subject, self._store, self._resources, self._settings.cache)

    async def _compare(self, subject: AdmissionSubject) -> None:
        backend = self._resources.preparer.backend if self._resources.preparer is not None else None
        try:
            await subject.compare(self._store, backend)
        except EnvironmentFailure as exc:
            text = f"changed solutions that were paid could not be compared with the right one: {exc}"
            subject.more.append(AdmissionFinding("not-compared", subject.task, None, "note", text))


class _OffsetProgress(ForwardedProgress):
    """Adds the attempts of earlier waves to the counts."""

    def __init__(self, whole: Progress, completed: int) -> None:
        super().__init__(whole)
        self._completed = completed

    def begin(self, *, total: int, done: int) -> None:
        self.whole.begin(total=total + self._completed, done=done + self._completed)
