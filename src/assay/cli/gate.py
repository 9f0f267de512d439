"""`assay gate` and `assay releases`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from assay.errors import UserError

from .options import takes_config
from .output import console, emit_json, quantity, say
from .shared import JsonOption, StoreOption, pick_run, settings_with
from .table_formats import FormOption
from .tables import print_rows

if TYPE_CHECKING:
    from assay.statistics import GateDecision, GateRule, PairedComparison, TaskCount


class GateConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The compared configurations and the decision rule."""

    base: str
    """The released configuration: RUN, RUN:AGENT or RUN:AGENT:MODEL."""
    candidate: str
    """The configuration that would replace it, in the same form."""
    protected: str | None = None
    """File with a task id a line; none of them may be lost."""
    not_worse: bool = False
    """Accept losses that chance explains; with `line` also against the last release that was accepted as better."""
    alpha: float = 0.05
    """Level of the one-sided exact test."""
    tolerance: float = 0.0
    """Largest fall of a protected task's rate that does not count as lost."""
    line: str | None = None
    """Record the decision in this line of releases; the base must be its present release."""


@takes_config(GateConfig, arguments=("base", "candidate"))
def gate(config: GateConfig, form: FormOption = "text", store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Decides whether a candidate may replace the base, by the tasks whose result flipped.

    No protected task may be lost, and over all other tasks gains must outweigh losses by the exact one-sided test. An
    attempt without a verdict counts against the candidate: as failed in it, as passed in the base.
    With --line the decision is an entry of a version line, in which each candidate is compared with the present release
    and decided once (assay releases). Exits with 1 where the candidate is refused.

    Examples:

      assay gate released candidate --protected must-pass.txt

      assay gate released candidate --not-worse --line main

      assay gate released:loop candidate:loop --format markdown
    """
    from assay.statistics import GateRule, compare_paired, count_undecided, decide_gate

    from .compare import flip_rows

    root, base, candidate = settings_with(store).store, config.base, config.candidate
    anchor = None if config.line is None else _anchor(root, config)
    names = _read_task_names(Path(config.protected)) if config.protected is not None else frozenset()
    rule = GateRule("not worse" if config.not_worse else "better", config.alpha, config.tolerance)
    counts = count_undecided(_load_live(root, candidate), "failed")
    paired = compare_paired(count_undecided(_load_live(root, base), "passed"), counts)
    try:
        ruling = decide_gate(paired, names, rule)
        if anchor is not None:
            before = count_undecided(_load_live(root, anchor), "passed")
            earlier = decide_gate(compare_paired(before, counts), names, rule)
            ruling = _join_rulings(ruling, earlier, anchor)
    except ValueError as exc:
        raise UserError(str(exc)) from exc
    number = None if config.line is None else _record(root, config, paired, ruling)
    if as_json or form == "json":
        emit_json({"base": base, "candidate": candidate, "ruling": ruling, "comparison": paired})
    else:
        word = "accepted" if ruling.accepted else "refused"
        console().print(f"{candidate} is {word} against {base}")
        for reason in ruling.reasons:
            console().print(f"  {reason}")
        print_rows(flip_rows(paired), form=form, empty="no task changed")
    if number is not None and number > 1:
        say(f"decision {number} on these tasks in line {config.line}: each is another chance to be lucky")
    if not ruling.accepted:
        raise typer.Exit(1)


def _load_live(root: Path, given: str) -> tuple[TaskCount, ...]:
    """Returns the task counts of a configuration. Raises `UserError` for a semi-online replay."""
    from assay.store import RunStore

    from .compare import load_side
    from .semi_online_tables import is_replay_run

    with RunStore.open(root, pick_run(given.partition(":")[0], settings_with(root))) as store:
        if is_replay_run(store):
            raise UserError("a semi-online replay is not an attempt at its task: a gate compares live runs")
    counts = load_side(root, given, with_redrawn=False).counts
    undecided = sum(one.unknown + one.error for one in counts)
    if undecided:
        say(
            f"{given}: {quantity(undecided, 'attempt')} without a verdict, or begun again with another draw: counted "
            "against the candidate"
        )
    return counts


def _anchor(root: Path, config: GateConfig) -> str | None:
    """Returns the earlier release that a candidate is compared with besides the base; None without one. Raises
    `UserError` where the comparison does not continue the line, before anything is printed."""
    from assay.learning.release_line import is_same_configuration, read_line, require_next

    line = read_line(root, config.line or "")
    require_next(line, config.base, config.candidate)
    if line is None or not config.not_worse or is_same_configuration(line.anchor, config.base):
        return None
    return line.anchor


def _join_rulings(ruling: GateDecision, earlier: GateDecision, anchor: str) -> GateDecision:
    """Returns the decision that holds only if both do."""
    told = tuple(f"against {anchor}, the last release accepted as better: {reason}" for reason in earlier.reasons)
    reasons = (*(() if ruling.accepted and not earlier.accepted else ruling.reasons), *told)
    return msgspec.structs.replace(ruling, accepted=ruling.accepted and earlier.accepted, reasons=reasons)


def _record(root: Path, config: GateConfig, paired: PairedComparison, ruling: GateDecision) -> int:
    from assay.learning.release_line import record_decision

    return record_decision(root, config.line or "", config.base, config.candidate, paired, ruling).number


def releases(
    name: Annotated[str | None, typer.Argument(help="Name of a line; default: all.", show_default=False)] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lists the lines of releases: every candidate, what it was compared with, and the gate's decision.

    Examples:

      assay releases

      assay releases main --json
    """
    from assay.learning.release_line import line_names, read_line

    root = settings_with(store).store
    if name is not None and name not in line_names(root):
        known = ", ".join(line_names(root)) or "none yet: assay gate --line begins one"
        raise UserError(f"no line is called {name!r}; there are {known}")
    lines = [line for one in ([name] if name is not None else line_names(root)) if (line := read_line(root, one))]
    if as_json:
        emit_json([line._asdict() for line in lines])
        return
    print_rows(
        [
            {
                "line": line.name,
                "candidate": one.candidate,
                "against": one.base,
                "decision": "accepted" if one.accepted else "refused",
                "rule": _rule_text(one.rule),
                "gained": str(len(one.gained)),
                "lost": str(len(one.lost)),
                "reason": one.reasons[0][:100] if one.reasons else "-",
            }
            for line in lines
            for one in line.entries
        ],
        empty="no line of releases: assay gate BASE CANDIDATE --line NAME begins one",
    )
    for line in lines:
        say(f"release of {line.name}: {line.release}")


def _rule_text(rule: GateRule | msgspec.UnsetType) -> str:
    if isinstance(rule, msgspec.UnsetType):
        return "-"
    return f"{rule.want}, alpha {rule.alpha:g}" + (f", tolerance {rule.tolerance:g}" if rule.tolerance else "")


def _read_task_names(path: Path) -> frozenset[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise UserError(f"{path} cannot be read: {exc}; it holds a task id a line") from exc
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
