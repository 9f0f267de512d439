"""Pass rates by agent, model and other factors, and the variance that each factor explains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from ._effects import VarianceComponent, variance_components
from ._summary import AttemptOutcome, Estimate, count_by_task, estimate_pass_rate

TASK = "task"


class GridCell(msgspec.Struct, frozen=True):
    """One combination of levels."""

    levels: tuple[str, ...]
    """One a factor, in the grid's order."""
    attempts: int
    tasks: int
    pass_at_1: Estimate


class RateGrid(msgspec.Struct, frozen=True):
    """A grid of pass rates."""

    factors: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    """Of each factor, sorted."""
    cells: tuple[GridCell, ...]
    components: tuple[VarianceComponent, ...]
    """Of the task and of factors with at least two levels, over judged attempts; a doubtful pass does not count."""


def build_grid(
    rows: Sequence[AttemptOutcome], factors: Mapping[str, Sequence[str]], *, confidence: float = 0.95
) -> RateGrid:
    """Computes the grid of attempts by factors: name to the level of each attempt, for example of agent, model and run.

    Raises:
        ValueError: A factor's column has another length, one is called `task`, or an attempt is given twice.
    """
    for name, levels in factors.items():
        if name == TASK or len(levels) != len(rows):
            what = "is taken" if name == TASK else f"has {len(levels)} entries for {len(rows)} attempts"
            raise ValueError(f"the factor {name!r} {what}")
    columns = list(factors.values())
    placed: dict[tuple[str, ...], list[AttemptOutcome]] = defaultdict(list)
    for number, row in enumerate(rows):
        placed[tuple(column[number] for column in columns)].append(row)
    cells = [_cell(levels, placed[levels], confidence) for levels in sorted(placed)]
    return RateGrid(
        factors=tuple(factors),
        levels=tuple(tuple(sorted(set(column))) for column in columns),
        cells=tuple(cells),
        components=_components(rows, factors),
    )


def _cell(levels: tuple[str, ...], rows: Sequence[AttemptOutcome], confidence: float) -> GridCell:
    """Computes a cell. It may combine several agents, so its attempts are renumbered."""
    same = [msgspec.structs.replace(row, agent="", model=None, number=number) for number, row in enumerate(rows)]
    counts = count_by_task(same)
    return GridCell(levels, len(same), len(counts), estimate_pass_rate(counts, confidence))


def _components(rows: Sequence[AttemptOutcome], factors: Mapping[str, Sequence[str]]) -> tuple[VarianceComponent, ...]:
    judged = [number for number, row in enumerate(rows) if row.status in ("pass", "fail")]
    values = [float(rows[number].status == "pass" and not rows[number].doubtful) for number in judged]
    columns_by_factor = {name: [column[number] for number in judged] for name, column in factors.items()}
    varied = {name: column for name, column in columns_by_factor.items() if len(set(column)) > 1}
    tasks = [rows[number].task for number in judged]
    if len(set(tasks)) > 1:
        varied[TASK] = tasks
    crossed = [name for name in varied if name != TASK][:2]
    both = (crossed[0], crossed[1]) if len(crossed) == 2 else None
    return variance_components(values, varied, interaction=both) if varied else ()
