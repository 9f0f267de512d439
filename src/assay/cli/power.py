"""`assay power`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay.errors import UserError

from .options import takes_config
from .output import emit_json
from .shared import JsonOption, StoreOption, settings_with
from .table_formats import FormOption
from .tables import print_rows


class PowerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A plan, or a configuration to derive it from."""

    configuration: str | None = None
    """RUN, RUN:AGENT or RUN:AGENT:MODEL to take tasks, attempts, rate and correlation from."""
    tasks: int | None = None
    """Tasks of the plan."""
    attempts: int | None = None
    """Attempts at each task; default 1."""
    rate: float | None = None
    """Expected pass rate; default 0.5."""
    icc: float | None = None
    """Intra-task correlation; default 0.4."""
    shared: float = 0.0
    """Correlation of two configurations' task rates, from 0 to 1."""
    difference: float = 0.05
    """Difference of rates to be found."""
    alpha: float = 0.05
    """Level of the two-sided test."""
    power: float = 0.8
    """Probability of finding a true difference."""


@takes_config(PowerConfig, arguments=("configuration",))
def power(
    config: PowerConfig, form: FormOption = "text", store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Computes the power of a plan, and how many more attempts or tasks it needs.

    Examples:

      assay power --tasks 100 --attempts 4 --difference 0.05

      assay power my-run --difference 0.1

      assay power my-run:repair --shared 0.5 --json
    """
    from assay.statistics import StudyDesign, attempts_needed, detectable_difference, standard_error, tasks_needed

    seen, difference = _measure_configuration(config.configuration, store), config.difference
    given = {name: getattr(config, name) for name in ("tasks", "attempts", "rate", "icc")}
    plan = {**seen, **{name: value for name, value in given.items() if value is not None}}
    if "tasks" not in plan:
        raise UserError("missing number of tasks: use --tasks N, or name a run to start from")
    if config.rate is None and plan.get("rate") in (0.0, 1.0):
        raise UserError(
            f"all judged attempts of {config.configuration} {'pass' if plan['rate'] else 'fail'}: they show no spread "
            "to plan from; say which rate you expect with --rate, for example --rate 0.3"
        )
    try:
        design = StudyDesign(**plan, shared=config.shared, alpha=config.alpha, power=config.power)
        needed, more = tasks_needed(design, difference), attempts_needed(design, difference)
    except ValueError as exc:
        raise UserError(str(exc)) from exc
    found = {
        "design": design,
        "standard_error": standard_error(design),
        "detectable": detectable_difference(design),
        "difference": difference,
        "tasks_needed": needed,
        "attempts_needed": more,
    }
    if as_json or form == "json":
        emit_json(found)
        return
    row = {
        "tasks": str(design.tasks),
        "attempts each": str(design.attempts),
        "rate": f"{design.rate:.3f}",
        "correlation": f"{design.icc:.2f}",
        "standard error": f"{standard_error(design):.4f}",
        f"found with {config.power:.0%}": f"a difference of {detectable_difference(design):.3f}",
        f"for {difference:g}: tasks": str(needed),
        f"for {difference:g}: attempts each": "no number is enough: more tasks" if more is None else str(more),
    }
    print_rows([row], form=form)


def _measure_configuration(configuration: str | None, store: Path | None) -> dict[str, Any]:
    from assay.statistics import estimate_clustering

    from .compare import load_side

    if configuration is None:
        return {}
    root = settings_with(store).store
    judged = [count for count in load_side(root, configuration).counts if count.judged]
    if not judged:
        return {}
    known = estimate_clustering([[1.0] * c.passed + [0.0] * (c.judged - c.passed) for c in judged])
    found: dict[str, Any] = {
        "tasks": len(judged),
        "attempts": max(1, round(sum(c.judged for c in judged) / len(judged))),
        "rate": sum(c.passed / c.judged for c in judged) / len(judged),
    }
    return found if known.icc is None else {**found, "icc": min(1.0, max(0.0, known.icc))}
