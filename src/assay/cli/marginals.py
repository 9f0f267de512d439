"""`assay marginals`: what each act or actor of a team contributed."""

from __future__ import annotations

import asyncio

from assay.rollout.rejudge.config import MarginalsConfig

from .options import takes_config
from .output import console, emit_json, explain_interruption, plain
from .shared import JsonOption, StoreOption, pick_recorded, settings_with
from .tables import print_rows

_SHOWN = 60


@takes_config(MarginalsConfig, arguments=("attempts",))
def marginals(config: MarginalsConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Measures the contribution of each act of a team's actors, or of each actor, on forks.

    An act is compared with passing the turn instead, from the state in which it was made; an actor with a team that
    lacks it, from the start. Both sides continue with the same seeds; the 95% interval is over forks. The continuations
    are an ordinary run, and the cost is printed.

    Examples:

      assay marginals --run team --forks 32

      assay marginals split-constraints-0-1@0 --run team --units actors --json
    """
    from assay.rollout.rejudge.marginals import MARGINALS, measure_marginals

    from .live import display

    settings = settings_with(store)
    run = pick_recorded(config.run, MARGINALS, settings)
    kept = "Completed continuations are stored as a run of their own; repeat the command for all"
    with explain_interruption(kept), display() as progress:
        report = asyncio.run(measure_marginals(run, config, settings, progress))
    if as_json:
        emit_json(report)
        return
    order = sorted(report.marginals, key=lambda one: -2.0 if one.marginal is None else one.marginal, reverse=True)
    print_rows(
        [
            {
                "attempt": one.attempt,
                "actor": one.actor,
                **({} if one.step is None else {"step": str(one.step), "act": plain(one.act).replace("\n", " ")}),
                "with": _number(one.with_it),
                "without": _number(one.without_it),
                "marginal [95%]": "-"
                if one.marginal is None
                else f"{one.marginal:+.3f}" + ("" if one.low is None else f" [{one.low:+.3f}, {one.high:+.3f}]"),
                "pairs": str(one.pairs),
            }
            for one in order[:_SHOWN]
        ]
    )
    if len(order) > _SHOWN:
        console().print(f"... and {len(order) - _SHOWN} more (--json lists all)")
    if report.unbuilt:
        console().print(plain(f"{len(report.unbuilt)} acts have no state that could be rebuilt: {report.unbuilt[0]}"))
    console().print(
        plain(
            f"{report.continuations:,} continuations, {report.turns:,} turns, {report.cpu_s:.1f} CPU-s; "
            f"they are the run {report.forks}"
        )
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
