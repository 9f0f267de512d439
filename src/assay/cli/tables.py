"""Prints tables; `assay.api.summaries` makes the rows of summaries."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.api import summaries
from assay.api.summaries import summary_rows
from assay.api.tables import plain, table_lines

from .output import console, say

if TYPE_CHECKING:
    from assay.analysis.columns import AttemptMeasures
    from assay.records import Separation
    from assay.statistics import AttemptOutcome, GroupSummary


def summarise_runs(
    root: Path, runs: Sequence[str], *, ks: Sequence[int] = (1, 2, 4), require: Separation = "unknown"
) -> list[GroupSummary]:
    """Returns summaries over deciding trials by agent and model; `require` as in `load_measures`."""
    from assay.statistics import summarise

    return list(summarise(load_outcomes(root, runs, require), ks=ks))


def load_outcomes(root: Path, runs: Sequence[str], require: Separation = "unknown") -> list[AttemptOutcome]:
    """Returns the decided attempts' outcomes; `require` as in `load_measures`."""
    return [one.outcome for one in load_measures(root, runs, require)]


def load_measures(
    root: Path, runs: Sequence[str], require: Separation = "unknown", *, no_redrawn: bool = False
) -> list[AttemptMeasures]:
    """Returns what `assay.api.summaries.load_measures` returns, and prints its warnings.

    With `no_redrawn`, attempts that had more than one draw have no verdict.
    """
    found = summaries.load_measures(root, runs, require, lambda text: say(f"warning: {text}"))
    if not no_redrawn:
        return found
    from assay.statistics import without_redrawn

    outcomes = without_redrawn(one.outcome for one in found)
    return [one._replace(outcome=outcome) for one, outcome in zip(found, outcomes, strict=True)]


def print_summaries(groups: Sequence[GroupSummary], form: str = "text") -> None:
    """Prints a table of summaries."""
    print_rows(summary_rows(groups), empty=summaries.EMPTY, form=form)


def print_rows(rows: Sequence[dict[str, str]], *, empty: str = "nothing to show", form: str = "text") -> None:
    """Prints a table, with control characters escaped; one line per row if piped.

    `form` is one of `FORMS`.
    """
    if form != "text":
        from .table_formats import format_rows

        sys.stdout.write(format_rows(rows, form))
        return
    if not rows:
        console().print(empty)
        return
    if not sys.stdout.isatty():
        for line in table_lines(rows):  # one by one: a reader that leaves is noticed at once
            sys.stdout.write(f"{line}\n")
        return
    from rich.table import Table

    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(show_edge=False, box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(plain(row.get(name, "-")) for name in columns))
    console().print(table)
