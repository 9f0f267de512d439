"""Loads published runs on a node, and opens what their trials need."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.agents.building import build_agent
from assay.errors import UserError
from assay.rollout.attempt.preparation import layer_demands
from assay.rollout.limits.contract_guards import ActiveContracts
from assay.rollout.run_inputs import find_recorded_tasks
from assay.rollout.run_manifest import match_tasks, parse_manifest
from assay.rollout.runs import RunResources, load_run_contracts, make_services, open_resources
from assay.rollout.telemetry.observer import RunObserver
from assay.rollout.telemetry.opening import TraceIdentity, open_telemetry
from assay.rollout.telemetry.run_metrics import RunMetrics
from assay.store import RunStore

from .agent import RunTrial
from .place_records import PublishedRun
from .workloads import NodeContext, NodeParts, NodeRun, find_workload

_log = logging.getLogger(__name__)


class OpenRun(NamedTuple):
    """A run that is open on a node."""

    trials: RunTrial
    resources: RunResources
    isolation: tuple[str, ...]
    """Names of the sandbox backends that work for it."""
    observer: RunObserver | None


async def load_published(published: PublishedRun, context: NodeContext) -> NodeRun:
    """Loads what a published run names, from the folder where it was started, if it exists here.

    Raises:
        UserError: This is another version of Assay, or a task or a contract is missing or differs.
    """
    load = find_workload(published)
    if Path(published.folder).is_dir():
        os.chdir(published.folder)
    run = load_run(published, context.slots) if load is None else await load(published, context)
    if context.backend is None:
        return run
    return run._replace(config=msgspec.structs.replace(run.config, backend=context.backend))


def load_run(published: PublishedRun, slots: int) -> NodeRun:
    """Loads an ordinary run. Raises as `load_published`."""
    manifest = published.manifest
    try:
        config, recorded = parse_manifest(manifest)
    except (KeyError, msgspec.ValidationError) as exc:
        raise UserError(
            f"run {published.run!r} does not say how it was made ({exc}): it is of another version"
        ) from exc
    try:
        tasks = find_recorded_tasks(config)
    except UserError as exc:
        raise UserError(
            f"{exc}\n(nodes read tasks from the paths of the machine where the run was started, in {published.folder}: "
            "mount them at the same paths)"
        ) from exc
    tasks = match_tasks(recorded, tasks, config.disturb)
    contracts = load_run_contracts(config, tasks)
    if {c.name: c.digest for c in contracts} != manifest.get("contracts", {}):
        raise UserError(f"the contracts of run {published.run!r} differ on this node: copy the files again")
    agent = build_agent(config.agent, config.agent_options, model=config.model, default_name=manifest.get("agent"))
    bounds: dict[str, Any] = {"budget_usd": None, "budget_calls": None, "concurrency": slots}
    return NodeRun(published.run, msgspec.structs.replace(config, **bounds), tasks, agent, contracts, published.id)


@asynccontextmanager
async def open_run(run: NodeRun, context: NodeContext, node: str, metrics: RunMetrics) -> AsyncIterator[OpenRun]:
    """Opens the services of a run's trials, over a store in the node's folder. Raises `UserError`."""
    identity = TraceIdentity(node, run.id)
    async with (
        open_telemetry(run.name, _log.warning, metrics, identity, otel=run.config.otel) as observer,
        open_resources(
            run.config,
            context.settings,
            run.tasks,
            run.agent,
            run.model,
            screening=run.screening,
            exchange=context.layers,
        ) as resources,
    ):
        with RunStore.create(context.folder, run.name, {}, spool=True) as store:
            services = make_services(store, resources, ActiveContracts(run.contracts, None))
            if context.layers is not None:
                context.layers.recall({demand for loaded in run.tasks for demand in layer_demands(loaded)})
            parts = NodeParts(services._replace(observer=observer), resources, context)
            isolation = () if resources.preparer is None else (resources.preparer.backend.name,)
            yield OpenRun(run.trials(parts), resources, isolation, observer)
