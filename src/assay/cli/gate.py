"""`assay gate`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer

from assay.errors import UserError

from .options import takes_config
from .output import console, emit_json
from .shared import JsonOption, StoreOption, settings_with
from .table_formats import FormOption
from .tables import print_rows


class GateConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The compared configurations and the decision rule."""

    base: str
    """The released configuration: RUN, RUN:AGENT or RUN:AGENT:MODEL."""
    candidate: str
    """The configuration that would replace it, in the same form."""
    protected: str | None = None
    """File with a task id a line; none of them may be lost."""
    not_worse: bool = False
    """Accept losses that chance explains."""
    alpha: float = 0.05
    """Level of the one-sided exact test."""
    tolerance: float = 0.0
    """Largest fall of a protected task's rate that does not count as lost."""


@takes_config(GateConfig, arguments=("base", "candidate"))
def gate(config: GateConfig, form: FormOption = "text", store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Decides whether a candidate may replace the base, by the tasks whose result flipped.

    No protected task may be lost, and over all other tasks gains must outweigh losses by the exact one-sided test.
    Exits with 1 where the candidate is refused.

    Examples:

      assay gate released candidate --protected must-pass.txt

      assay gate released candidate --not-worse

      assay gate released:loop candidate:loop --format markdown
    """
    from assay.statistics import GateRule, compare_paired, decide_gate

    from .compare import flip_rows, load_side

    root, base, candidate = settings_with(store).store, config.base, config.candidate
    paired = compare_paired(load_side(root, base).counts, load_side(root, candidate).counts)
    names = _read_task_names(Path(config.protected)) if config.protected is not None else frozenset()
    rule = GateRule("not worse" if config.not_worse else "better", config.alpha, config.tolerance)
    try:
        ruling = decide_gate(paired, names, rule)
    except ValueError as exc:
        raise UserError(str(exc)) from exc
    if as_json or form == "json":
        emit_json({"base": base, "candidate": candidate, "ruling": ruling, "comparison": paired})
    else:
        word = "accepted" if ruling.accepted else "refused"
        console().print(f"{candidate} is {word} against {base}")
        for reason in ruling.reasons:
            console().print(f"  {reason}")
        print_rows(flip_rows(paired), form=form, empty="no task changed")
    if not ruling.accepted:
        raise typer.Exit(1)


def _read_task_names(path: Path) -> frozenset[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise UserError(f"{path} cannot be read: {exc}; it holds a task id a line") from exc
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
