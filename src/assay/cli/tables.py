"""Text tables of summaries; `assay.statistics` computes the numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.verdicts import SEPARATIONS

from .output import console, plain

if TYPE_CHECKING:
    from assay.analysis.columns import AttemptMeasures
    from assay.records import Separation
    from assay.statistics import AttemptOutcome, Estimate, GroupSummary


def summarise_runs(
    root: Path, runs: Sequence[str], *, ks: Sequence[int] = (1, 2, 4), require: Separation = "unknown"
) -> list[GroupSummary]:
    """Returns summaries over deciding trials by agent and model; `require` as in `load_measures`."""
    from assay.statistics import summarise

    return list(summarise(load_outcomes(root, runs, require), ks=ks))


def required_by(root: Path, run: str) -> Separation:
    """Returns the grade of separation that a run requires of its passes (`RunConfig.require`)."""
    from assay.store import RunStore

    with RunStore.open(root, run) as store:
        config = store.manifest().get("config")
    asked = config.get("require") if isinstance(config, dict) else None
    return next((grade for grade in SEPARATIONS if grade == asked), "unknown")


def load_outcomes(root: Path, runs: Sequence[str], require: Separation = "unknown") -> list[AttemptOutcome]:
    """Returns the decided attempts' outcomes; `require` as in `load_measures`."""
    return [one.outcome for one in load_measures(root, runs, require)]


def load_measures(root: Path, runs: Sequence[str], require: Separation = "unknown") -> list[AttemptMeasures]:
    """Returns the decided attempts of some runs; `source` is the index of the run. A pass below the required grade of
    separation counts as doubtful."""
    from assay.analysis.columns import measure_attempts
    from assay.store import RunStore, check_rows, current_verdicts_of, final_rows

    from .output import say

    found = []
    for place, run in enumerate(dict.fromkeys(runs)):  # a run that is named twice is one run
        with RunStore.open(root, run) as store:
            checked = check_rows(store)
            stands = current_verdicts_of(store, checked.rows, checked.verdicts)
        found += measure_attempts(final_rows(checked.rows), stands, source=place, require=require)
        if warning := checked.warning():
            say(f"warning: run {run}: {warning}")
    return found


def print_summaries(groups: Sequence[GroupSummary], form: str = "text") -> None:
    """Prints a table of summaries."""
    rows = []
    for group in groups:
        rows.append(
            {
                "agent": group.agent,
                "model": group.model or "-",
                "tasks": str(group.n_tasks),
                "attempts": str(group.n_attempts),
                "pass": str(group.passed),
                "separation": ", ".join(f"{grade} {n}" for grade, n in group.separations.items()) or "-",
                **({"pass (doubtful)": str(group.doubtful)} if any(each.doubtful for each in groups) else {}),
                "fail": str(group.failed),
                "unknown": str(group.unknown),
                "error": str(group.error),
                "pass@1 [95%]": interval_text(group.pass_at_1),
                **_at_k(group),
            }
        )
    empty = "no attempt has ended yet: `assay ls` shows those under way, `assay resume RUN` goes on"
    print_rows(rows, empty=empty, form=form)


def _at_k(group: GroupSummary) -> dict[str, str]:
    cells = {}
    for found in group.at_k:
        if found.k > 1 and found.pass_at_k.value is not None:
            used = found.pass_at_k.n_tasks
            tasks = "" if used == group.n_tasks else f" ({used} of {group.n_tasks} tasks)"
            cells[f"pass@{found.k}"] = interval_text(found.pass_at_k) + tasks
            cells[f"pass^{found.k}"] = interval_text(found.pass_hat_k) + tasks
    return cells


def interval_text(estimate: Estimate | None) -> str:
    """Formats a value with its interval."""
    if estimate is None or estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


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
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[plain(row.get(name, "-")) for name in columns] for row in rows]
    if not sys.stdout.isatty():
        lines = [[line.replace("\n", " ").replace("\t", " ") for line in row] for row in (columns, *cells)]
        widths = [max(len(row[i]) for row in lines) for i in range(len(columns))]
        for row in lines:
            sys.stdout.write("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() + "\n")
        return
    from rich.table import Table

    table = Table(show_edge=False, box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in cells:
        table.add_row(*row)
    console().print(table)
