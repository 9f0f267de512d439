"""`assay compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from assay.api.summaries import interval_text
from assay.errors import UserError

from .output import emit_json, quantity, say
from .shared import JsonOption, StoreOption, pick_run, pick_runs, settings_with
from .table_formats import FormOption
from .tables import load_outcomes, print_rows

if TYPE_CHECKING:
    from assay.statistics import PairedComparison, Robustness, TaskCount

SHOWN = 20


def compare(
    configurations: Annotated[
        list[str],
        typer.Argument(help="RUN, RUN:AGENT, RUN:AGENT:MODEL, or one grid; all are compared with the first."),
    ],
    everything: Annotated[bool, typer.Option("--all", help="List every task that changed.")] = False,
    form: FormOption = "text",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compares configurations on the tasks that both tried: gains, losses and significance.

    The task is the unit: the exact McNemar test counts tasks that rose against tasks that fell, the interval accounts
    for correlation between attempts at one task. With several candidates, p-values are corrected by Holm's method.
    `kept` is the share of the base's rate that is left: what a perturbation (injected errors, another wording) costs.

    Examples:

      assay compare before after

      assay compare my-run:repair my-run:oracle --all

      assay compare base first second third --format markdown
    """
    from assay.statistics import holm, measure_robustness

    settings = settings_with(store)
    root = settings.store
    if len(configurations) == 1 and ":" not in configurations[0]:
        configurations = list(pick_runs(configurations, settings))
    if len(configurations) < 2:
        raise UserError("name at least two configurations, or one grid: `assay compare BASE CANDIDATE`")
    base, *others = [load_side(root, given) for given in configurations]
    retained = [measure_robustness(base.counts, other.counts) for other in others]
    pairs = [(other, one.delta) for other, one in zip(others, retained, strict=True)]
    corrected = holm([pair.p_value for _, pair in pairs])
    if as_json or form == "json":
        found = [
            {
                "candidate": other.name,
                "comparison": pair,
                "p_holm": p,
                "kept": one.ratio,
                "kept_interval": one.ratio_interval,
            }
            for (other, pair), p, one in zip(pairs, corrected, retained, strict=True)
        ]
        emit_json({"base": base.name, "comparisons": found})
        return
    rows = [
        _row(base, other, pair, p) | {"kept [95%]": _retention_text(one)}
        for (other, pair), p, one in zip(pairs, corrected, retained, strict=True)
    ]
    print_rows(rows, form=form)
    for other, pair in pairs:
        flips = flip_rows(pair)
        shown = flips if everything else flips[:SHOWN]
        if shown and form == "text":
            say(f"\n{other.name} against {base.name}: {quantity(len(flips), 'task')} changed")
            print_rows(shown)
        if len(shown) < len(flips):
            say(f"{len(flips) - len(shown)} more: --all lists them")
        missing = len(pair.only_before) + len(pair.only_after)
        if missing:
            say(f"ignored, because judged in only one of the two: {quantity(missing, 'task')}")


class ComparedConfiguration(NamedTuple):
    """Task counts of one configuration."""

    name: str
    counts: tuple[TaskCount, ...]


def load_side(root: Path, given: str, *, with_redrawn: bool = True) -> ComparedConfiguration:
    """Loads the task counts of `RUN[:AGENT[:MODEL]]`. Raises `UserError` unless it selects one configuration.

    `with_redrawn` is False for a reader that takes an attempt with more than one draw as one without a verdict.
    """
    from assay.statistics import count_by_task, without_redrawn

    run, _, rest = given.partition(":")
    agent, _, model = rest.partition(":")
    name = pick_run(run, settings_with(root))
    outcomes = load_outcomes(root, [name])
    if not with_redrawn:
        outcomes = without_redrawn(outcomes)
    counts = [
        count for count in count_by_task(outcomes) if agent in ("", count.agent) and model in ("", count.model or "-")
    ]
    kinds = sorted({(count.agent, count.model or "-") for count in counts})
    if len(kinds) != 1:
        known = kinds or sorted({(c.agent, c.model or "-") for c in count_by_task(load_outcomes(root, [name]))})
        listed = ", ".join(f"{name}:{one}:{two}" for one, two in known) or "none: no attempt has ended"
        what = "is several configurations" if kinds else "is not a configuration of that run"
        raise UserError(f"{given!r} {what}; there are {listed}")
    return ComparedConfiguration(given, tuple(counts))


def flip_rows(pair: PairedComparison) -> list[dict[str, str]]:
    """Returns the tasks whose result changed, losses first."""
    marked = [*(("lost", flip) for flip in pair.lost), *(("gained", flip) for flip in pair.gained)]
    return [
        {
            "change": name,
            "task": flip.task,
            "before": f"{flip.before:.2f} of {flip.attempts_before}",
            "after": f"{flip.after:.2f} of {flip.attempts_after}",
        }
        for name, flip in marked
    ]


def _retention_text(one: Robustness) -> str:
    if one.ratio is None:
        return "-"
    ends = one.ratio_interval
    return f"{one.ratio:.3f}" + ("" if ends is None else f" [{ends.low:.3f}, {ends.high:.3f}]")


def _row(
    base: ComparedConfiguration, other: ComparedConfiguration, pair: PairedComparison, corrected: float
) -> dict[str, str]:
    from assay.statistics import format_p_value

    cells: dict[str, Any] = {
        "candidate": other.name,
        "base": base.name,
        "tasks": pair.n_tasks,
        "before": "-" if pair.before is None else f"{pair.before:.3f}",
        "after": "-" if pair.after is None else f"{pair.after:.3f}",
        "difference [95%]": interval_text(pair.difference),
        "gained": len(pair.gained),
        "lost": len(pair.lost),
        "p (McNemar)": format_p_value(pair.p_value, digits=4) if pair.n_tasks else "-",
        "p (Holm)": format_p_value(corrected, digits=4) if pair.n_tasks else "-",
    }
    return {name: str(value) for name, value in cells.items()}
