"""`assay stats`."""

from __future__ import annotations

from typing import Annotated

import typer

from .forms import FormOption
from .shared import JsonOption, StoreOption, pick_run, settings_with

__all__ = ["stats"]


def stats(
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs; default: the newest.")] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", min=1, help="Also pass@k and pass^k for this k; repeatable.")
    ] = None,
    form: FormOption = "text",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sums up runs by agent and model: pass@k and pass^k with intervals; unknown and broken attempts apart.

    The interval knows that attempts at one task resemble each other. `bounds` says what pass@1 would be had every
    attempt that could not be judged failed, or passed.

    Examples:

      assay stats

      assay stats my-run --k 1 --k 8

      assay stats before after --json

      assay stats my-run --format latex
    """
    from .output import emit_json, say
    from .tables import print_summaries, summaries_of

    settings = settings_with(store)
    given: list[str | None] = list(runs) if runs else [None]
    names = list(dict.fromkeys(pick_run(run, settings) for run in given))
    groups = summaries_of(settings.store, names, ks=tuple(sorted({1, *(k or (2, 4))})))
    if as_json or form == "json":
        emit_json({"runs": names, "groups": groups})
        return
    print_summaries(groups, form)
    for group in groups:
        bounds = group.pass_at_1_bounds
        for found in group.at_k:
            if k and found.k in k and found.pass_at_k.value is None:
                say(f"{group.agent}: no pass@{found.k}: {found.pass_at_k.method}; run more with --attempts {found.k}")
        if group.unknown or group.error:
            say(
                f"{group.agent}: {group.unknown + group.error} attempts could not be judged; "
                f"with them pass@1 lies between {bounds.worst or 0:.3f} and {bounds.best or 0:.3f}"
            )
        claimed = group.pass_at_1_claimed
        if group.doubtful and claimed is not None and claimed.value is not None:
            say(
                f"{group.agent}: {group.doubtful} passes lack integrity or did not hold when judged again, and count "
                f"as none; with them pass@1 would be {claimed.value:.3f} (`assay audit`, `assay ls`)"
            )
        if group.icc is not None:
            icc, effective = group.icc, group.effective_n or 0
            say(f"{group.agent}: intra-task correlation {icc:.2f}, effective attempts {effective:.1f}")
