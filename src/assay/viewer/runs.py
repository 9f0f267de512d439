"""The view of all runs of a store."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay.errors import AssayError
from assay.store import ADMISSION, Layout, RunStore, final_rows, list_runs
from assay.store.database import has_writer
from assay.verdicts import assess

from .interface import Fields, View, json_bytes
from .judged_rows import read_judged_rows
from .stamp import run_stamp

MOST_RUNS = 2000
"""Newest runs that the page lists."""
SUMMED = 300
"""Newest runs whose attempts are counted."""
LONGEST = 300
TRAINING = "-training"
"""End of the name of a training's run; the runs of its steps begin with what is before it."""
_RECIPE_PART = re.compile(r"-(?:training|demonstrations|step-\d+|evaluation-\d+)$")


class RunLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run in the list."""

    run: str
    created: float | None = None
    sealed: bool = False
    attempts: int | None = None
    """Decided attempts; None where they were not counted, because the run is old or unreadable."""
    open: int = 0
    counts: dict[str, int] = {}
    """By outcome class (`assay.verdicts.OutcomeClass`)."""
    separations: dict[str, int] = {}
    """Trusted passes by grade of separation."""
    tasks: int = 0
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    error: str | None = None
    planned: int | None = None
    """Attempts that the configuration asks for; None where the manifest does not say."""
    grid: str | None = None
    """Name of the grid that it is a cell of."""
    is_training: bool = False
    """True for the run with the metrics of `assay train` or `assay improve`."""


RunState = Literal["running", "interrupted", "finished", "sealed"]


def run_state(root: Path, line: RunLine) -> RunState:
    """Returns whether a process writes the run, whether it was cut, or whether it is complete.

    A run without a known plan is complete when no attempt of it is open.
    """
    if line.sealed:
        return "sealed"
    if has_writer(Layout(root, line.run).lock):
        return "running"
    missing = line.planned is not None and (line.attempts or 0) < line.planned
    return "interrupted" if missing or line.open else "finished"


def run_line(root: Path, run: str) -> RunLine:
    """Summarizes a run from its attempts' rows. Raises `StoreError` where it is unreadable."""
    with RunStore.open(root, run) as store, store.snapshot():
        every, stands = read_judged_rows(store)
        manifest, sealed = store.manifest(), store.is_sealed
    rows = [row for row in every if row.agent != ADMISSION]
    decided = final_rows(rows)
    trusts = [assess(stands[row.chain], row) for row in decided]
    open_ = [row for row in rows if row.finished is None and not row.interrupted]
    return RunLine(
        run=run,
        created=created_at(manifest),
        sealed=sealed,
        attempts=len(decided),
        open=len(open_),
        counts=dict(Counter(trust.outcome_class for trust in trusts)),
        separations=dict(Counter(trust.separation for trust in trusts if trust.trusted)),
        tasks=len({row.task_digest or row.task for row in rows}),
        agents=_most_common(row.agent for row in rows),
        models=_most_common(row.model for row in rows if row.model),
        planned=_planned_attempts(manifest),
        grid=_grid_name(manifest),
        is_training=isinstance(manifest.get("training"), dict),
    )


def _planned_attempts(manifest: Mapping[str, Any]) -> int | None:
    """Returns the size of the plan of `assay run`, and of a run that names it; None for other runs."""
    if isinstance(planned := manifest.get("planned"), int):
        return planned
    config, tasks = manifest.get("config"), manifest.get("tasks")
    if not isinstance(config, dict) or not isinstance(tasks, dict) or ADMISSION in manifest:
        return None
    attempts, budget = config.get("attempts"), config.get("budget")
    if isinstance(budget, int):
        return budget
    return attempts * len(tasks) if isinstance(attempts, int) else None


def _grid_name(manifest: Mapping[str, Any]) -> str | None:
    label = manifest.get("grid")
    name = label.get("name") if isinstance(label, dict) else None
    return name[:LONGEST] if isinstance(name, str) and name else None


class RunGroup(NamedTuple):
    """The runs that one command made."""

    kind: Literal["grid", "recipe"]
    name: str


def group_runs(lines: Iterable[RunLine]) -> dict[str, RunGroup]:
    """Returns the group of each run that has one: cells of a grid, and all runs of a recipe's training."""
    listed = list(lines)
    recipes = {line.run.removesuffix(TRAINING) for line in listed if line.is_training and line.run.endswith(TRAINING)}
    found: dict[str, RunGroup] = {}
    for line in listed:
        part = _RECIPE_PART.search(line.run)
        if part is not None and line.run[: part.start()] in recipes:
            found[line.run] = RunGroup("recipe", line.run[: part.start()])
        elif line.grid is not None:
            found[line.run] = RunGroup("grid", line.grid)
    return found


def created_at(manifest: Mapping[str, Any]) -> float | None:
    """Returns when a run was created, in Unix seconds; None where its manifest has no valid time."""
    created = manifest.get("created")
    return float(created) if isinstance(created, int | float) and 0 < created < 1e11 else None


def _most_common(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name[:LONGEST] for name, _ in Counter(names).most_common(5))


def _runs(root: Path, _: Fields) -> bytes:
    names = list_runs(root)[::-1]
    summed = [_line(root, name) for name in names[:SUMMED]]
    groups = group_runs(summed)
    lines = [describe_line(line, run_state(root, line), groups.get(line.run)) for line in summed]
    lines += [{"run": name} for name in names[SUMMED:MOST_RUNS]]
    more = max(0, len(names) - MOST_RUNS)
    facts = {"store": root.absolute().name, "has_service": (root / "service" / "policies").is_dir()}
    return json_bytes({**facts, "runs": lines, "more": more, "at": time.time()})


def describe_line(line: RunLine, state: RunState, group: RunGroup | None = None) -> dict[str, Any]:
    """Returns a run's line with its state and group, as the page lists it."""
    found: dict[str, Any] = msgspec.to_builtins(line) | {"state": state}
    return found if group is None else found | {"group": group._asdict()}


def current_state(root: Path, run: str) -> RunState:
    """Returns a run's state. Raises `AssayError` where it is unreadable."""
    if has_writer(Layout(root, run).lock):
        return "running"
    return run_state(root, _cached_line(root, run, run_stamp(root, run)))


def _line(root: Path, name: str) -> RunLine:
    try:
        return _cached_line(root, name, run_stamp(root, name))
    except AssayError as exc:
        return RunLine(name, sealed=Layout(root, name).is_sealed, error=str(exc)[:LONGEST])


@lru_cache(4096)
def _cached_line(root: Path, name: str, _: str) -> RunLine:
    return run_line(root, name)


def _no_names(_: Path, __: str) -> tuple[str, ...]:
    return ()  # an export is of one run, and `export` makes its list


VIEWS = (View("runs", _runs, _no_names),)
