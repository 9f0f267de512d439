"""Summaries of runs by agent and model, from the store to the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.gc_tuning import raised_thresholds

if TYPE_CHECKING:
    from assay.analysis.columns import AttemptMeasures
    from assay.records import Separation
    from assay.statistics import Estimate, GroupSummary
    from assay.store import AttemptRow
    from assay.verdicts import CurrentVerdicts

EMPTY = "no attempt has ended yet: `assay ls` shows those under way, or where they are; `assay resume RUN` goes on"


def load_measures(
    root: Path,
    runs: Sequence[str],
    require: Separation = "unknown",
    on_warning: Callable[[str], None] = lambda _text: None,
) -> list[AttemptMeasures]:
    """Returns the decided attempts of some runs; `source` is the index of the run.

    Args:
        root: The store.
        runs: Names of runs; one that is named twice counts once.
        require: Weakest grade of separation; a pass below it counts as doubtful.
        on_warning: Receives a text where a record contradicts its summary rows.
    """
    with raised_thresholds(100_000, 50, 100):  # rows and measures are many small objects without cycles
        return measures_of((read_decided(root, run, on_warning) for run in dict.fromkeys(runs)), require)


def measures_of(runs: Iterable[DecidedAttempts], require: Separation) -> list[AttemptMeasures]:
    """Returns the measures of the decided attempts of some runs, as `load_measures`."""
    from assay.analysis.columns import measure_attempts

    measures = []
    for index, run in enumerate(runs):
        measures += measure_attempts(run.rows, run.current, source=index, require=require, redrawn=run.redrawn)
    return measures


class DecidedAttempts(NamedTuple):
    """The decided attempts of a run."""

    run: str
    rows: list[AttemptRow]
    """Their deciding trials, in the order in which they began."""
    current: dict[str, CurrentVerdicts]
    """Their current verdicts, by chain."""
    required: Separation
    """The grade of separation that the run requires of its passes."""
    redrawn: frozenset[str]
    """Chains of attempts that had more than one draw."""


def read_decided(root: Path, run: str, on_warning: Callable[[str], None]) -> DecidedAttempts:
    """Returns the decided attempts of a run, as its chains say; `on_warning` as in `load_measures`."""
    from assay.store import RunStore, check_rows, current_verdicts_by_chain, final_rows, redrawn_chains

    with RunStore.open(root, run) as store:
        checked = check_rows(store)
        rows = final_rows(checked.rows)
        current = current_verdicts_by_chain(store, rows, checked.verdicts)
        required = separation_of(store.manifest())
        redrawn = redrawn_chains(store, checked.rows)
    if warning := checked.warning():
        on_warning(f"run {run}: {warning}")
    return DecidedAttempts(run, rows, current, required, redrawn)


def required_separation(root: Path, run: str) -> Separation:
    """Returns the grade of separation that a run requires of its passes (`RunConfig.require`)."""
    from assay.store import RunStore

    with RunStore.open(root, run) as store:
        return separation_of(store.manifest())


def separation_of(manifest: Mapping[str, Any]) -> Separation:
    """Returns the grade of separation that a run requires of its passes, from its manifest."""
    from assay.verdicts import SEPARATIONS

    config = manifest.get("config")
    required = config.get("require") if isinstance(config, dict) else None
    return next((grade for grade in SEPARATIONS if grade == required), "unknown")


def summary_rows(groups: Sequence[GroupSummary]) -> list[dict[str, str]]:
    """Returns the rows of a table of summaries, column by column in order."""
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
                **({"redrawn": str(group.redrawn)} if any(each.redrawn for each in groups) else {}),
                "pass@1 [95%]": interval_text(group.pass_at_1),
                **_at_k(group),
            }
        )
    return rows


def _at_k(group: GroupSummary) -> dict[str, str]:
    cells = {}
    for rate in group.at_k:
        if rate.k > 1 and rate.pass_at_k.value is not None:
            used = rate.pass_at_k.n_tasks
            tasks = "" if used == group.n_tasks else f" ({used} of {group.n_tasks} tasks)"
            cells[f"pass@{rate.k}"] = interval_text(rate.pass_at_k) + tasks
            cells[f"pass^{rate.k}"] = interval_text(rate.pass_hat_k) + tasks
    return cells


def interval_text(estimate: Estimate | None) -> str:
    """Formats a value with its interval."""
    if estimate is None or estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
