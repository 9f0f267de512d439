"""Starts and resumes runs: opens the services that a configuration's attempts share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay import __version__
from assay.agents.building import AgentSource, build_agent
from assay.agents.interface import Agent, needs_sandbox
from assay.analysis.contracts import Contract
from assay.environments.interface import Backend
from assay.errors import CheckDefinitionError, UserError
from assay.gateway.interface import ModelBackend
from assay.plugins import load, names_code
from assay.rollout.attempt.endpoint import GatewayHandle
from assay.rollout.attempt.models import open_model
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.attempt.recorded_attempt import ModelAccess
from assay.rollout.attempt.site import NO_CHECKS
from assay.rollout.attempt.site_factory import SiteFactory
from assay.rollout.attempt.trial import Services
from assay.rollout.limits.contract_guards import (
    ActiveContracts,
    Ask,
    contracts_of_task,
    load_contracts,
    unique_contracts,
)
from assay.rollout.limits.run_budget import BudgetLimits, RunBudget, use_of
from assay.rollout.limits.run_controls import RunControls
from assay.rollout.recording.redaction import Redactor
from assay.rollout.recording.screens import browsers_of
from assay.rollout.recording.task_archive import TaskArchive
from assay.rollout.schedule.rounds import RoundResources, levels_of, run_rounds
from assay.rollout.schedule.runner import run_plan
from assay.rollout.telemetry.observer import RunObserver
from assay.rollout.telemetry.opening import open_telemetry
from assay.rollout.telemetry.run_metrics import RunMetrics
from assay.settings import Settings
from assay.store import Layout, RunStore
from assay.tasks import LoadedTask
from assay.tasks.named_code import require_no_code_of_folders
from assay.verify import RunChecks

from .admitted import require_admitted
from .config import RunConfig
from .plan import PlannedAttempt, plan, require_plannable
from .progress import Progress
from .run_inputs import RunInputs, find_recorded_tasks, require_user_model, resolve_models
from .run_manifest import PLACE, count_left, match_tasks, new_run_name, read_manifest, require_complete

if TYPE_CHECKING:
    from assay.environments.workspace.layer_exchange import LayerExchange
    from assay.verify.splice.screening import ScreeningJudges


class RunParts(NamedTuple):
    """Python objects of a run, beside its configuration, and what its manifest says of them."""

    agent: AgentSource | None = None
    """The agent; None: the one that the configuration names."""
    agent_name: str | None = None
    """Name of an agent that was given none; None: made from what it is."""
    checks: RunChecks = NO_CHECKS
    """Checks beside those of the tasks."""
    objects: tuple[str, ...] = ()
    """Names of what the configuration cannot name, so that `resume` needs it again: `agent`, `tasks`, `model`,
    `checks`."""
    labels: Mapping[str, Any] = {}
    """Further keys of the manifest."""
    controls: RunControls | None = None
    """Control from outside, which other runs may share."""
    metrics: RunMetrics | None = None
    """Metrics of the process, which other runs may share."""
    observer: RunObserver | None = None
    """Observer of the attempts, opened by `start_run` and `resume_run`."""


class RunSummary(NamedTuple):
    """Name and store of a finished run."""

    run: str
    store: Path


class PreparedRun(NamedTuple):
    """A run that was checked and not started."""

    name: str
    config: RunConfig
    """With the names of its models resolved."""
    inputs: RunInputs
    agent: Agent
    contracts: tuple[Contract, ...]
    manifest: dict[str, Any]

    @property
    def tasks(self) -> tuple[LoadedTask, ...]:
        return self.inputs.tasks


def prepare_run(
    config: RunConfig,
    settings: Settings,
    progress: Progress,
    *,
    tasks: Sequence[LoadedTask] | None = None,
    parts: RunParts | None = None,
    inputs: RunInputs | None = None,
) -> PreparedRun:
    """Checks a configuration and loads what it names. Raises `UserError` if it cannot work. See `start_run`."""
    parts = parts or RunParts()
    config = resolve_models(config, settings)
    inputs = inputs or RunInputs(config, settings.store, tasks)
    found = inputs.tasks
    certificates = require_admitted(settings.store, found) if config.admitted else {}
    contracts = load_run_contracts(config, found)
    require_user_model(config, found)
    _require_check_kinds(parts.checks, found)
    levels_of(config, found)  # a curriculum without levels ends the run before it begins
    require_other_names(parts.checks, found)
    agent = _make_agent(config, parts)
    for warning in (*inputs.warnings, *_unused_model(config, agent)):
        progress.warn(warning)
    manifest = {
        "config": msgspec.to_builtins(config),
        "tasks": {t.task.id: t.task.digest for t in found},
        "agent": agent.name,
        "assay_version": __version__,
        **({"contracts": {c.name: c.digest for c in contracts}} if contracts else {}),
        **({"checks": parts.checks.digests()} if parts.checks.checks else {}),
        **({"objects": list(parts.objects)} if parts.objects else {}),
        **parts.labels,
        **({"certificates": {t: [c.run, c.chain, c.head] for t, c in certificates.items()}} if certificates else {}),
    }
    return PreparedRun(config.run or new_run_name(agent.name), config, inputs, agent, contracts, manifest)


async def start_run(
    config: RunConfig,
    settings: Settings,
    progress: Progress,
    *,
    tasks: Sequence[LoadedTask] | None = None,
    ask: Ask | None = None,
    backend: ModelBackend | None = None,
    parts: RunParts | None = None,
    inputs: RunInputs | None = None,
) -> RunSummary:
    """Runs a configuration to its end.

    Args:
        config: Configuration of the run.
        settings: Where the store and the caches are.
        progress: Receives progress.
        tasks: Generated tasks; default: those in the folders that `config` names.
        ask: Confirms calls for contracts; None refuses such calls.
        backend: An open model, closed by its opener; default: the one that `config.model` names.
        parts: Python objects of the run.
        inputs: What is shared with other runs, in place of `tasks`.

    Raises:
        UserError: The configuration cannot work; nothing was started.
        StoreError: The record cannot be written; committed events stay, and `resume_run` continues.
    """
    prepared = prepare_run(config, settings, progress, tasks=tasks, parts=parts, inputs=inputs)
    config, found, agent = prepared.config, prepared.tasks, prepared.agent
    parts = parts or RunParts()
    async with (
        open_telemetry(prepared.name, progress.warn, parts.metrics, otel=config.otel) as observer,
        open_resources(config, settings, found, agent, backend, controls=parts.controls) as resources,
    ):
        if resources.model is not None:  # under the name that its attempts carry
            model = resources.model.backend.name
            estimate = prepared.inputs.history.estimate(agent.name, model, config.total(len(found)))
            progress.inform(estimate.sentence())
        with RunStore.create(settings.store, prepared.name, prepared.manifest) as store:
            contracts = ActiveContracts(prepared.contracts, ask)
            await _run(store, resources, found, progress, contracts, parts._replace(observer=observer))
    return RunSummary(prepared.name, settings.store)


def load_run_contracts(config: RunConfig, tasks: Sequence[LoadedTask]) -> tuple[Contract, ...]:
    """Loads the run's contracts, and checks those of the tasks, so that an invalid one fails before the run begins."""
    contracts = load_contracts(config.contracts)
    for loaded in tasks:
        unique_contracts((*contracts, *contracts_of_task(loaded.task)))
    return contracts


async def resume_run(
    run: str,
    settings: Settings,
    progress: Progress,
    *,
    tasks: Sequence[LoadedTask] | None = None,
    ask: Ask | None = None,
    backend: ModelBackend | None = None,
    parts: RunParts | None = None,
    budget: BudgetLimits | None = None,
) -> RunSummary:
    """Completes an interrupted run; `budget` replaces that of its configuration. Python objects that the run was given
    are needed again, as `parts`.

    Raises:
        UserError: A task, a contract or a check has changed or gone since the run began, the manifest is incomplete, or
            the run was sealed unfinished.
        StoreError: The run does not exist, or another process is writing it.
    """
    if Layout(settings.store, run).is_sealed:
        require_complete(settings.store, run)
        return _nothing_left(run, settings, progress)
    with RunStore.open(settings.store, run, write=True) as store:
        if PLACE in store.manifest():
            raise UserError(f"run {run!r} is done by nodes: finish it with `assay resume {run}`")
        config, recorded = read_manifest(store)
        parts = parts or RunParts()
        _require_same_parts(store, parts)
        if budget is not None:
            config = msgspec.structs.replace(config, budget_usd=budget.cost_usd, budget_calls=budget.calls)
        found = match_tasks(recorded, find_recorded_tasks(config) if tasks is None else tasks, config.disturb)
        found = tuple(one for one in found if one.task.id in recorded)  # a folder may hold others by now
        contracts = load_run_contracts(config, found)
        if {c.name: c.digest for c in contracts} != store.manifest().get("contracts", {}):
            raise UserError("the contracts of the run have changed since it began: put them back, or start a new run")
        if not count_left(store, config.total(len(recorded))):  # the agent may no longer be there
            return _nothing_left(run, settings, progress)
        # A name that was made from what the agent is may have been made in another way then.
        agent = _make_agent(config, parts._replace(agent_name=store.manifest().get("agent")))
        async with (
            open_telemetry(run, progress.warn, parts.metrics, otel=config.otel) as observer,
            open_resources(config, settings, found, agent, backend, controls=parts.controls) as resources,
        ):
            parts = parts._replace(observer=observer)
            await _run(store, resources, found, progress, ActiveContracts(contracts, ask), parts)
    return RunSummary(run, settings.store)


def _nothing_left(run: str, settings: Settings, progress: Progress) -> RunSummary:
    progress.inform(f"every attempt of run {run} has ended: nothing is left to run")
    return RunSummary(run, settings.store)


def _require_same_parts(store: RunStore, parts: RunParts) -> None:
    """Raises `UserError` unless a run that was started from Python is given the same objects again."""
    manifest = store.manifest()
    missing = [name for name in manifest.get("objects", ()) if name not in parts.objects]
    if missing:
        raise UserError(
            f"run {store.run!r} was started from Python with objects ({', '.join(missing)}), which no file names: "
            f"finish it with assay.run(..., run={store.run!r}, resume=True) and the same arguments"
        )
    if parts.checks.digests() != manifest.get("checks", {}):
        raise UserError("the checks of the run have changed since it began: put them back, or start a new run")


class RunResources(NamedTuple):
    """Opened resources of a run, checked before anything is recorded."""

    config: RunConfig
    agent: Agent
    model: ModelAccess | None
    preparer: Preparer | None
    secrets: dict[str, str]
    user_model: ModelAccess | None = None
    """The model of simulated persons."""
    screening: ScreeningJudges | None = None
    """Judges that attempts which ask for it share."""


@asynccontextmanager
async def open_resources(
    config: RunConfig,
    settings: Settings,
    tasks: Sequence[LoadedTask],
    agent: Agent,
    model: ModelBackend | None = None,
    *,
    controls: RunControls | None = None,
    screening: bool = False,
    exchange: LayerExchange | None = None,
) -> AsyncIterator[RunResources]:
    """Opens what attempts at these tasks need, and closes it again; a given `model` stays open. Model calls wait while
    `controls` are paused. With `screening`, attempts that ask for it share judges. `exchange` has layers of other
    machines.

    Raises:
        UserError: The configuration cannot work; nothing was started.
    """
    if not config.allow_task_code:
        require_no_code_of_folders(tasks)
    require_plannable(config.total(len(tasks)))
    for kind in {t.task.environment.kind for t in tasks} - {"workspace"}:
        load("environments", kind)  # one that is not there ends the run before it begins
    named = config.model if agent.needs_model else None
    async with (
        _model(config, settings, named, model, controls) as access,
        _model(config, settings, config.user_model, None, controls) as user_model,
        _backend(config, tasks, agent) as backend,
        browsers_of(tasks),
    ):
        secrets = {**settings.secrets(), **settings.named(config.pass_env)}
        preparer = Preparer(backend, config, settings, exchange) if backend else None
        resources = RunResources(config, agent, access, preparer, secrets, user_model)
        async with AsyncExitStack() as stack:
            if preparer is not None:
                stack.callback(preparer.close)
            if backend is not None and screening:
                from assay.verify.splice.screening import ScreeningJudges  # late: most runs have none

                judges = ScreeningJudges(backend)
                stack.push_async_callback(judges.close)
                resources = resources._replace(screening=judges)
            yield resources


async def _run(
    store: RunStore,
    resources: RunResources,
    tasks: Sequence[LoadedTask],
    progress: Progress,
    contracts: ActiveContracts,
    parts: RunParts,
) -> None:
    config = resources.config
    progress.opened(store.run, store.attempts())
    progress.bound(BudgetLimits(config.budget_usd, config.budget_calls))
    services = make_services(store, resources, contracts)
    services = services._replace(checks=parts.checks, controls=parts.controls, observer=parts.observer)
    if config.in_rounds:
        rounds = RoundResources(config, resources.agent, store, resources.preparer, partial(run_plan, services))
        await run_rounds(rounds, tasks, progress)
        return
    planned = plan(tasks, resources.agent.name, config.attempts, seed=config.seed, limits=config.limits)
    await run_plan(services, planned, progress)


async def run_attempts(
    store: RunStore,
    resources: RunResources,
    planned: Sequence[PlannedAttempt],
    progress: Progress,
    contracts: ActiveContracts | None = None,
) -> None:
    """Runs the missing attempts of a plan, under `contracts`. Raises `StoreError` if the record cannot be written."""
    await run_plan(make_services(store, resources, contracts), planned, progress)


def make_services(store: RunStore, resources: RunResources, contracts: ActiveContracts | None) -> Services:
    """Returns what the attempts of a run share."""
    config, agent = resources.config, resources.agent
    make_site = SiteFactory(
        resources.preparer,
        store.blobs,
        TaskArchive(store.blobs, Redactor(resources.secrets)),
        agent,
        repetitions=config.repetitions,
        user_model=resources.user_model,
        screening=resources.screening,
    )
    limits = BudgetLimits(config.budget_usd, config.budget_calls)
    return Services(
        config,
        store.run,
        store,
        store.blobs,
        agent,
        resources.model,
        make_site,
        resources.secrets,
        contracts,
        None if limits.is_unlimited else RunBudget(limits, use_of(store)),
    )


def _require_check_kinds(checks: RunChecks, tasks: Sequence[LoadedTask]) -> None:
    """Raises `UserError` where a check's kind does not exist. Code that a task names is loaded when it judges."""
    known = {"facts", *checks.kinds}
    for loaded in tasks:
        for check in (*loaded.task.checks, *(part.check for part in loaded.steps)):
            if check.kind in known or names_code("checks", check.kind):
                continue
            try:
                load("checks", check.kind)
            except UserError as exc:
                raise UserError(f"task {loaded.task.id!r}: {exc}") from exc
            known.add(check.kind)


def _unused_model(config: RunConfig, agent: Agent) -> list[str]:
    if config.model is None or agent.needs_model:
        return []
    return [f"the agent {agent.name} asks no model: {config.model} is not used"]


def _make_agent(config: RunConfig, parts: RunParts) -> Agent:
    source = config.agent if parts.agent is None else parts.agent
    return build_agent(source, config.agent_options, model=config.model, default_name=parts.agent_name)


def require_other_names(checks: RunChecks, tasks: Sequence[LoadedTask]) -> None:
    """Raises `CheckDefinitionError` where a check of the run has the name of a task's own."""
    for loaded in tasks:
        for check in (*loaded.task.checks, *(step.check for step in loaded.steps)):
            if check.name in checks.digests():
                raise CheckDefinitionError(
                    f"task {loaded.task.id!r} has a check {check.name!r} of its own: name yours with "
                    "@assay.check(name=...)"
                )


@asynccontextmanager
async def _model(
    config: RunConfig,
    settings: Settings,
    named: str | None,
    given: ModelBackend | None,
    controls: RunControls | None,
) -> AsyncIterator[ModelAccess | None]:
    if named is None:
        yield None
        return
    backend, gateway_handle = given or open_model(named, settings), GatewayHandle()
    calls = config.model_concurrency
    try:
        yield ModelAccess(
            backend, asyncio.Semaphore(calls) if controls is None else controls.call_slots(calls), gateway_handle
        )
    finally:
        await gateway_handle.close()
        if given is None:
            await backend.close()


@asynccontextmanager
async def _backend(config: RunConfig, tasks: Sequence[LoadedTask], agent: Agent) -> AsyncIterator[Backend | None]:
    without = not needs_sandbox(agent) and all(t.task.environment.kind != "workspace" for t in tasks)
    if without and config.backend is None:
        yield None
        return
    from assay.environments.workspace.choose import choose_backend, require_backend

    if without and config.backend is not None:
        require_backend(config.backend)
        yield None
        return
    backend, _ = await choose_backend(config.backend, allow_unsafe=config.allow_unsafe, sandboxes=config.concurrency)
    try:
        yield backend
    finally:
        await backend.close()
