"""Grids: several agents with several models on the same tasks, one run for each combination; and sweeps, one run for
each dose of a disturbance.

The runs carry the name of their grid in their manifests, so that an interrupted grid can be completed from any of
them. They run one after another; each uses the whole concurrency.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.agents.building import AgentSource, build_agent, describe_agent, has_default_name, is_importable
from assay.environments.wrapping import parse_wrappers
from assay.errors import StoreError, UserError
from assay.gateway.interface import ModelBackend
from assay.rollout.limits.contract_guards import Ask
from assay.rollout.limits.run_budget import BudgetLimits
from assay.settings import Settings
from assay.store import AttemptRow, Layout, RunStore, list_runs
from assay.store.layout import MAX_RUN_NAME, unknown_run
from assay.tasks import LoadedTask

from .config import RunConfig
from .progress import ForwardedProgress, Progress
from .run_inputs import RunInputs, resolve_models
from .run_manifest import new_run_name, read_config, require_same_arguments
from .runs import RunParts, RunSummary, resume_run, start_run

if TYPE_CHECKING:
    from .cluster.node_session import PlacedRunOptions

GRID = "grid"
"""Key of a run's manifest: the grid's `name`, `agents` and `models`, or the sweep's `name`, `disturb` and `doses`."""


class GridCell(NamedTuple):
    """One run of a grid. `backend` is an open model, closed by its opener; None: the one that `config` names."""

    config: RunConfig
    parts: RunParts
    backend: ModelBackend | None = None


def plan_grid(
    config: RunConfig,
    agents: Sequence[AgentSource],
    models: Sequence[str | ModelBackend | None],
    parts: RunParts | None = None,
) -> tuple[GridCell, ...]:
    """Returns a run for each agent with each model; an agent that asks no model has one run.

    One agent with one model is a plain run, without a grid. Agents without a name of their own get distinct ones.

    Raises:
        UserError: An agent cannot be built with the configuration's options, or asks a model where none is named.
    """
    parts = parts or RunParts()
    if len(agents) == 1 and len(models) <= 1:
        model = models[0] if models else None
        return (_cell(config, _Combination(agents[0], "", model), parts),)
    combinations = _name_agents(_combinations(config, agents, models or (None,)))
    if len(combinations) == 1:
        return (_cell(config, combinations[0], parts),)
    name = config.run or new_run_name(GRID)
    label = {
        "name": name,
        "agents": list(dict.fromkeys(describe_agent(one.source) for one in combinations)),
        "models": list(dict.fromkeys(_model_name(model) for model in models)),
    }
    labelled = parts._replace(labels={**parts.labels, GRID: label})
    cells = []
    for number, one in enumerate(combinations):
        run = msgspec.structs.replace(config, run=_name_cell(name, number, one))
        cells.append(_cell(run, one, labelled))
    return tuple(cells)


class SweepArm(NamedTuple):
    """One run of a sweep."""

    dose: float
    trigger: str
    """`absent` or `present` for the two runs of an attack with `trigger=pair`; empty for others."""
    disturb: str | None
    """The disturbance with its rate; None at dose 0."""


def list_arms(disturb: str, doses: Sequence[float]) -> list[SweepArm]:
    """Returns the runs of a sweep in their order: one a dose, two where an attack has `trigger=pair`; at dose 0 nothing
    is disturbed, and there is one. Raises `UserError` as `at_dose`."""
    is_pair = any(spec["kind"] == "attack" and spec.get("trigger") == "pair" for spec in parse_wrappers(disturb))
    arms = []
    for dose in doses:
        for trigger in ("absent", "present") if is_pair and dose else ("",):
            spec = disturb.replace(":trigger=pair", f":trigger={trigger}") if trigger else disturb
            arms.append(SweepArm(dose, trigger, at_dose(spec, dose)))
    return arms


def plan_sweep(config: RunConfig, doses: Sequence[float], parts: RunParts | None = None) -> tuple[GridCell, ...]:
    """Returns the runs of a sweep over the doses of the configuration's disturbance, as `list_arms`.

    Raises:
        UserError: A disturbance or a dose is missing, a dose is not a share or given twice, or the disturbance names a
            rate.
    """
    if not config.disturb:
        raise UserError("no disturbance: name one with --disturb, such as --disturb failures")
    if not doses or len(set(doses)) < len(doses) or not all(0 <= dose <= 1 for dose in doses):
        raise UserError(f"doses {', '.join(map(str, doses)) or '(none)'}: give different shares from 0 to 1: 0,0.1,0.3")
    parts = parts or RunParts()
    name = config.run or new_run_name("sweep")
    label = {"name": name, "disturb": config.disturb, "doses": list(doses)}
    labelled = parts._replace(labels={**parts.labels, GRID: label})
    cells = []
    for number, arm in enumerate(list_arms(config.disturb, doses)):
        suffix = f"-{number}-dose-{arm.dose:g}".replace(".", "-") + (f"-{arm.trigger}" if arm.trigger else "")
        run = f"{name[: MAX_RUN_NAME - len(suffix)]}{suffix}"
        cells.append(GridCell(msgspec.structs.replace(config, run=run, disturb=arm.disturb), labelled))
    return tuple(cells)


def at_dose(disturb: str, dose: float) -> str | None:
    """Returns disturbances with a rate; None at 0. Raises `UserError` if they name one."""
    if any("rate" in spec for spec in parse_wrappers(disturb)):
        raise UserError(f"--disturb {disturb!r} names a rate, which the doses set: leave it out")
    return "+".join(f"{part}:rate={dose:g}" for part in disturb.split("+")) if dose else None


def _name_cell(grid: str, number: int, one: _Combination) -> str:
    """Returns the name of a cell's run. If it is too long, words are cut, then the grid's name, never the number."""
    numbered = f"{grid[: MAX_RUN_NAME - len(f'-{number}')]}-{number}"
    words = re.sub(r"[^A-Za-z0-9]+", "-", f"{one.name}-{_model_name(one.model) or ''}").strip("-")
    return f"{numbered}-{words}"[:MAX_RUN_NAME]


class _Combination(NamedTuple):
    source: AgentSource
    name: str
    """The agent's."""
    model: str | ModelBackend | None
    has_default_name: bool = False


def _combinations(
    config: RunConfig, agents: Sequence[AgentSource], models: Sequence[str | ModelBackend | None]
) -> list[_Combination]:
    found: list[_Combination] = []
    for agent, model in itertools.product(agents, models):
        built = build_agent(agent, config.agent_options, model=_model_name(model))
        chosen = model if built.needs_model or len(models) == 1 else None
        if not any(agent is other.source and chosen is other.model for other in found):
            found.append(_Combination(agent, built.name, chosen, has_default_name(built)))
    return found


def _name_agents(combinations: Sequence[_Combination]) -> list[_Combination]:
    """Returns the combinations with distinct names of different agents that were given none: with the module's or
    file's name where that tells them apart, else with a number, in the order of the agents."""
    alike: dict[str, list[AgentSource]] = {}
    for one in combinations:
        sources = alike.setdefault(one.name, [])
        if not any(_is_same(one.source, other) for other in sources):
            sources.append(one.source)
    named = []
    for one in combinations:
        sources = alike[one.name]
        number = next(n for n, source in enumerate(sources, 1) if _is_same(source, one.source))
        modules = [_module_name(source) for source in sources]
        name = f"{one.name}-{number}" if len(set(modules)) < len(modules) else f"{modules[number - 1]}.{one.name}"
        named.append(one._replace(name=name) if one.has_default_name and len(sources) > 1 else one)
    return named


def _is_same(one: AgentSource, other: AgentSource) -> bool:
    return one is other or (isinstance(one, str) and one == other)


def _module_name(source: AgentSource) -> str:
    """Returns the last part of the module or the file in which an agent is defined."""
    path = describe_agent(source).partition(":")[0]
    return Path(path).stem if path.endswith(".py") else path.rpartition(".")[2]


def _model_name(model: str | ModelBackend | None) -> str | None:
    return model if model is None or isinstance(model, str) else model.name


def _cell(config: RunConfig, combination: _Combination, parts: RunParts) -> GridCell:
    agent, model = combination.source, combination.model
    config = msgspec.structs.replace(config, agent=describe_agent(agent), model=_model_name(model))
    parts = parts._replace(agent_name=combination.name or None)
    if not isinstance(agent, str):
        found_by_name = isinstance(agent, type) and is_importable(agent)
        parts = parts._replace(agent=agent, objects=parts.objects if found_by_name else (*parts.objects, "agent"))
    if model is None or isinstance(model, str):
        return GridCell(config, parts)
    return GridCell(config, parts._replace(objects=(*parts.objects, "model")), model)


async def run_grid(
    cells: Sequence[GridCell],
    settings: Settings,
    progress: Progress,
    *,
    tasks: Sequence[LoadedTask] | None = None,
    ask: Ask | None = None,
    resume: bool = False,
    budget: BudgetLimits | None = None,
    nodes: PlacedRunOptions | None = None,
) -> tuple[RunSummary, ...]:
    """Runs the cells in order; with `resume`, completes those that exist and starts the others.

    `budget` replaces that of each resumed run. `nodes` do the attempts; each cell starts local nodes of its own.

    Raises:
        UserError: A cell cannot work; the cells before it have ended. Or a cell cannot be done by nodes; none began.
        StoreError: The record cannot be written; committed events stay, and the grid can be resumed.
    """
    if nodes is not None:
        _require_sendable_cells(cells, nodes)
    existing = _survey(settings.store, [config.run for config, _, _ in cells]) if resume else {}
    if resume and not existing:
        name = cells[0].config.run if len(cells) == 1 else _grid_name(cells)
        raise UserError(f"there is nothing to resume: {unknown_run(settings.store, str(name))}")
    ended = sum(existing.values())
    shared_inputs: dict[str | None, RunInputs] = {}
    shared = progress if len(cells) == 1 else _GridProgress(progress, _grid_name(cells), len(cells), ended)
    summaries = []
    for cell in cells:
        config, parts, backend = cell
        if nodes is not None:
            summaries.append(await _run_on_nodes(cell, settings, shared, nodes, existing, budget))
            continue
        given: dict[str, Any] = {"ask": ask, "backend": backend, "parts": parts}
        if config.disturb not in shared_inputs:
            shared_inputs[config.disturb] = RunInputs(config, settings.store, tasks, recorded=bool(existing))
        inputs = shared_inputs[config.disturb]
        if config.run is not None and config.run in existing:
            with RunStore.open(settings.store, config.run) as store:
                named = resolve_models(config, settings)
                require_same_arguments(store, named, None if tasks is None else inputs.tasks)
            # A sealed run counts as complete.
            if not Layout(settings.store, config.run).is_sealed:
                await resume_run(config.run, settings, shared, tasks=inputs.undisturbed, budget=budget, **given)
            summaries.append(RunSummary(config.run, settings.store))
        else:
            summaries.append(await start_run(config, settings, shared, inputs=inputs, **given))
    return tuple(summaries)


def _require_sendable_cells(cells: Sequence[GridCell], nodes: PlacedRunOptions) -> None:
    from .cluster.placed_run import require_sendable  # late: runs on one machine need no cluster

    if nodes.nodes is None and len(cells) > 1:
        raise UserError(
            "several agents or models make several runs, and a node that others start serves one: start one command "
            "for each, or use --nodes N"
        )
    for cell in cells:
        require_sendable(cell.config, cell.parts)


async def _run_on_nodes(
    cell: GridCell,
    settings: Settings,
    progress: Progress,
    nodes: PlacedRunOptions,
    existing: Mapping[str, int],
    budget: BudgetLimits | None,
) -> RunSummary:
    from .cluster.placed_run import resume_placed_run, start_placed_run

    run = cell.config.run
    if run is None or run not in existing:
        return await start_placed_run(cell.config, settings, progress, nodes, cell.parts)
    if not Layout(settings.store, run).is_sealed:
        await resume_placed_run(run, settings, progress, nodes, budget)
    return RunSummary(run, settings.store)


def _grid_name(cells: Sequence[GridCell]) -> str:
    return str(cells[0].parts.labels.get(GRID, {}).get("name"))


def _survey(root: Path, runs: Sequence[str | None]) -> dict[str, int]:
    """Returns the number of ended attempts of those runs that exist."""
    ended = {}
    for run in set(runs) & set(list_runs(root)):
        with RunStore.open(root, str(run)) as store:
            ended[str(run)] = sum(row.final for row in store.attempts())
    return ended


def read_grid(root: Path, name: str) -> tuple[GridCell, ...]:
    """Returns the cells of a grid from the manifests of its runs; empty if no run is of that grid.

    A run that cannot be read is skipped here; completing it raises.
    """
    for run in list_runs(root):
        label = _read_label(root, run)
        if not isinstance(label, dict) or label.get("name") != name:
            continue
        with RunStore.open(root, run) as store:
            if store.manifest().get("objects"):
                raise UserError(
                    f"grid {name!r} was started from Python with objects, which no file names: finish it with "
                    f"assay.run(..., run={name!r}, resume=True) and the same arguments"
                )
            config = msgspec.structs.replace(read_config(store), run=name)
        if "doses" in label:
            return plan_sweep(msgspec.structs.replace(config, disturb=label["disturb"]), label["doses"])
        return plan_grid(config, label["agents"], label["models"])
    return ()


def _read_label(root: Path, run: str) -> Any:
    try:
        with RunStore.open(root, run) as store:
            return store.manifest().get(GRID)
    except StoreError:
        return None


class _GridProgress(ForwardedProgress):
    """Shows the runs of a grid as one."""

    def __init__(self, whole: Progress, name: str, runs: int, ended: int) -> None:
        super().__init__(whole)
        self._name = name
        self._runs, self._ended = runs, ended
        self._warnings: set[str] = set()
        self._has_begun = False

    def warn(self, text: str) -> None:
        """Shows a text that several runs share once."""
        if text not in self._warnings:
            self._warnings.add(text)
            self.whole.warn(text)

    def opened(self, run: str, rows: Sequence[AttemptRow]) -> None:
        """Names the grid, which is resumed as a whole."""
        self.whole.opened(self._name, rows)

    def begin(self, *, total: int, done: int) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.whole.begin(total=total * self._runs, done=self._ended)
