"""Agents by models by whatever else was varied: a rate in every cell, and how much each factor explains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from ._effects import Component, explained
from ._summary import Estimate, Outcome, count_by_task, rate_over

__all__ = ["Cell", "Grid", "grid"]

TASK = "task"


class Cell(msgspec.Struct, frozen=True):
    """One combination of levels that was tried."""

    levels: tuple[str, ...]
    """One a factor, in the grid's order."""
    attempts: int
    tasks: int
    pass_at_1: Estimate


class Grid(msgspec.Struct, frozen=True):
    """All of them."""

    factors: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    """Of each factor, sorted."""
    cells: tuple[Cell, ...]
    components: tuple[Component, ...]
    """Of the factors that have at least two levels and of the task, over judged attempts; a doubtful pass is none."""


def grid(rows: Sequence[Outcome], factors: Mapping[str, Sequence[str]], *, confidence: float = 0.95) -> Grid:
    """The grid of attempts by factors.

    Args:
        rows: One an attempt.
        factors: Name to the level of each attempt, for example of agent, model and run.
        confidence: Of the cells' intervals.

    Raises:
        ValueError: A factor's column has another length, one is called `task`, or an attempt is given twice.
    """
    for name, levels in factors.items():
        if name == TASK or len(levels) != len(rows):
            what = "is taken" if name == TASK else f"has {len(levels)} entries for {len(rows)} attempts"
            raise ValueError(f"the factor {name!r} {what}")
    columns = list(factors.values())
    placed: dict[tuple[str, ...], list[Outcome]] = defaultdict(list)
    for number, row in enumerate(rows):
        placed[tuple(column[number] for column in columns)].append(row)
    cells = [_cell(levels, placed[levels], confidence) for levels in sorted(placed)]
    return Grid(
        factors=tuple(factors),
        levels=tuple(tuple(sorted(set(column))) for column in columns),
        cells=tuple(cells),
        components=_components(rows, factors),
    )


def _cell(levels: tuple[str, ...], rows: Sequence[Outcome], confidence: float) -> Cell:
    """A cell may hold several agents where the agent is no factor: its attempts are numbered anew."""
    same = [msgspec.structs.replace(row, agent="", model=None, number=number) for number, row in enumerate(rows)]
    counts = count_by_task(same)
    return Cell(levels, len(same), len(counts), rate_over(counts, confidence))


def _components(rows: Sequence[Outcome], factors: Mapping[str, Sequence[str]]) -> tuple[Component, ...]:
    judged = [number for number, row in enumerate(rows) if row.status in ("pass", "fail")]
    values = [float(rows[number].status == "pass" and not rows[number].doubtful) for number in judged]
    given = {name: [column[number] for number in judged] for name, column in factors.items()}
    varied = {name: column for name, column in given.items() if len(set(column)) > 1}
    tasks = [rows[number].task for number in judged]
    if len(set(tasks)) > 1:
        varied[TASK] = tasks
    crossed = [name for name in varied if name != TASK][:2]
    both = (crossed[0], crossed[1]) if len(crossed) == 2 else None
    return explained(values, varied, interaction=both) if varied else ()
