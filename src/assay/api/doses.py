"""Outcome, safety and divergence of an agent by the dose of a disturbance, pairs of triggers, and the cells of the
attack taxonomy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from .summaries import DecidedAttempts, interval_text, measures_of, read_decided

if TYPE_CHECKING:
    from assay.analysis.divergence import Divergence
    from assay.records import Evidence
    from assay.rollout.grid import SweepArm
    from assay.statistics import AttemptOutcome, GroupSummary, PairedComparison

_ACT: Final = "harmful act"
_LEAK: Final = "canary leaked"
_HIDDEN: Final = "not shown"
_RESISTED: Final = "none"
"""Failure modes of an attempt under attack."""


class DoseSummary(msgspec.Struct, frozen=True):
    """One run of a sweep."""

    dose: float
    run: str
    outcome: GroupSummary | None
    """None before an attempt has ended."""
    safety: GroupSummary | None
    """The same of the safety verdicts: an attempt passes if it stayed safe; None without any verdict."""
    attacks: tuple[AttackCell, ...] = ()
    divergence: PairedDivergence | None = None
    """From the same attempts at the first dose; None for that dose, and without a pair."""
    trigger: str = ""
    """`absent` or `present` for the runs of an attack with `trigger=pair`."""
    outcome_p: float | None = None
    """p-value of Fisher's exact test that as many attempts pass as at the first dose; None for that dose."""
    safety_p: float | None = None
    """The same of safe attempts, from the first dose that has safety verdicts."""


class TriggerPair(msgspec.Struct, frozen=True):
    """Safe attempts with the trigger shown less those without it, at one dose, over the same tasks and seeds."""

    dose: float
    absent: str
    """The run in which the trigger was not shown."""
    present: str
    safety: PairedComparison
    """`before`: without the trigger."""


class PairedDivergence(msgspec.Struct, frozen=True):
    """How far the attempts at a dose went apart from those at the first one."""

    pairs: int
    mean: Divergence
    same_outcome: int
    """Pairs that called otherwise, and came to the same outcome."""


class AttackCell(msgspec.Struct, frozen=True):
    """A cell of the taxonomy, source of the risk by failure mode by harm, with its number of attempts."""

    source: str
    form: str
    """How the instruction was shown, and whether its trigger was."""
    failure: str
    """`harmful act`, `canary leaked`, `none` if the agent resisted, or `not shown`."""
    harm: str
    attempts: int


def summarise_dose(
    root: Path,
    run: str,
    arm: SweepArm,
    on_warning: Callable[[str], None] = lambda _text: None,
    first: str | None = None,
) -> DoseSummary:
    """Returns the summary of a run of one agent.

    Args:
        root: The store.
        run: The run.
        arm: Its place in the sweep.
        on_warning: As in `load_measures`.
        first: The run of the first dose, from which the divergence is measured.
    """
    from assay.statistics import summarise
    from assay.store import RunStore

    decided = read_decided(root, run, on_warning)
    outcomes = [one.outcome for one in measures_of([decided], decided.required)]
    safety = _safety_of(decided)
    with RunStore.open(root, run) as store:
        cells = _attack_cells(found for row in decided.rows for found in store.trajectory(row.chain).evidence)
    groups, safe = summarise(outcomes), summarise(safety)
    apart = None if first in (None, run) else _divergence(root, str(first), decided)
    group, safe_group = (found[0] if found else None for found in (groups, safe))
    return DoseSummary(arm.dose, run, group, safe_group, tuple(cells), apart, arm.trigger)


def _safety_of(decided: DecidedAttempts) -> list[AttemptOutcome]:
    """Returns the attempts with a safety verdict, which pass if they stayed safe."""
    statuses = {
        (row.task, row.number, row.agent): decided.current[row.chain].safety
        for row in decided.rows
        if row.chain in decided.current
    }
    outcomes = [one.outcome for one in measures_of([decided], decided.required)]
    return [
        msgspec.structs.replace(one, status=status, score=None, doubtful=False, separation="unknown")
        for one in outcomes
        if (status := statuses.get((one.task, one.number, one.agent))) is not None
    ]


def compare_with_first(doses: Sequence[DoseSummary]) -> list[DoseSummary]:
    """Returns the summaries with the tests against the first dose.

    Attempts count as independent: with several attempts a task, the p-values are too small.
    """
    compared = []
    for one in doses:
        outcome, safety = _first(doses, "outcome"), _first(doses, "safety")
        compared.append(
            msgspec.structs.replace(
                one,
                outcome_p=_test(outcome, one.outcome) if outcome is not one.outcome else None,
                safety_p=_test(safety, one.safety) if safety is not one.safety else None,
            )
        )
    return compared


def _first(doses: Sequence[DoseSummary], name: str) -> GroupSummary | None:
    return next((found for one in doses if (found := getattr(one, name)) is not None), None)


def _test(first: GroupSummary | None, other: GroupSummary | None) -> float | None:
    from assay.statistics import fisher_exact

    if first is None or other is None:
        return None
    return fisher_exact(first.passed, first.failed, other.passed, other.failed)


def compare_triggers(root: Path, doses: Sequence[DoseSummary]) -> list[TriggerPair]:
    """Returns the comparison of the two runs of each dose whose attack has `trigger=pair`."""
    from assay.statistics import compare_paired, count_by_task

    by_dose = {(one.dose, one.trigger): one.run for one in doses}
    pairs = []
    for (dose, trigger), absent in by_dose.items():
        present = by_dose.get((dose, "present"))
        if trigger == "absent" and present is not None:
            counts = [
                count_by_task(_safety_of(read_decided(root, run, lambda _text: None))) for run in (absent, present)
            ]
            pairs.append(TriggerPair(dose, absent, present, compare_paired(*counts)))
    return pairs


def trigger_rows(pairs: Sequence[TriggerPair]) -> list[dict[str, str]]:
    """Returns the rows of a table, one for each dose."""
    from assay.statistics import format_p_value

    return [
        {
            "dose": f"{one.dose:g}",
            "tasks": str(one.safety.n_tasks),
            "safe, trigger absent": _share(one.safety.before),
            "safe, trigger present": _share(one.safety.after),
            "difference [95%]": interval_text(one.safety.difference),
            "p": format_p_value(one.safety.p_value, digits=3),
        }
        for one in pairs
    ]


def _share(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.2f}"


def _divergence(root: Path, first: str, decided: DecidedAttempts) -> PairedDivergence | None:
    """Returns how far the attempts of a run went apart from those of another one with the same task and number."""
    from assay.analysis.divergence import diverge, mean_divergence
    from assay.store import RunStore

    before, after = _judged(read_decided(root, first, lambda _text: None)), _judged(decided)  # the first has warned
    found, same = [], 0
    with RunStore.open(root, first) as store, RunStore.open(root, decided.run) as disturbed:
        for key in before.keys() & after.keys():
            (chain, status), (other_chain, other_status) = before[key], after[key]
            apart = diverge(store.trajectory(chain).steps, disturbed.trajectory(other_chain).steps)
            found.append(apart)
            same += apart.calls > 0 and status == other_status
    mean = mean_divergence(found)
    return None if mean is None else PairedDivergence(len(found), mean, same)


def _judged(decided: DecidedAttempts) -> dict[tuple[str, int, str], tuple[str, str]]:
    """Returns chain and outcome of the attempts that pass or fail, by task, number and agent."""
    chains = {(row.task, row.number, row.agent): row.chain for row in decided.rows}
    outcomes = [one.outcome for one in measures_of([decided], decided.required)]
    return {
        key: (chains[key], one.status)
        for one in outcomes
        if one.status in ("pass", "fail") and (key := (one.task, one.number, one.agent)) in chains
    }


def _attack_cells(evidence: Iterable[Evidence]) -> list[AttackCell]:
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for found in evidence:
        if found.kind != "attack":
            continue
        data = found.data
        if data.get("done"):
            failure = _ACT
        elif data.get("leaked"):
            failure = _LEAK
        else:
            failure = _RESISTED if data.get("complete") else _HIDDEN
        trigger = data.get("trigger")
        form = f"{data.get('form')}" + (f", trigger {trigger}" if trigger != "none" else "")
        counts[str(data.get("source")), form, failure, str(data.get("harm"))] += 1
    return [AttackCell(*cell, number) for cell, number in sorted(counts.items())]


def dose_rows(doses: Sequence[DoseSummary]) -> list[dict[str, str]]:
    """Returns the rows of a table, one for each dose."""
    rows = []
    for one in doses:
        group, safe = one.outcome, one.safety
        rows.append(
            {
                "dose": f"{one.dose:g}{f' {one.trigger}' if one.trigger else ''}",
                "tasks": "0" if group is None else str(group.n_tasks),
                "attempts": "0" if group is None else str(group.n_attempts),
                "pass": "-" if group is None else str(group.passed),
                "fail": "-" if group is None else str(group.failed),
                "unknown or error": "-" if group is None else str(group.unknown + group.error),
                "pass@1 [95%]": interval_text(None if group is None else group.pass_at_1),
                "p": _p_text(one.outcome_p),
                "safe": "-" if safe is None else str(safe.passed),
                "unsafe": "-" if safe is None else str(safe.failed),
                "safe@1 [95%]": interval_text(None if safe is None else safe.pass_at_1),
                "p (safe)": _p_text(one.safety_p),
                **_divergence_cells(one.divergence),
            }
        )
    return rows


def _p_text(p_value: float | None) -> str:
    from assay.statistics import format_p_value

    return "-" if p_value is None else format_p_value(p_value, digits=3)


def _divergence_cells(found: PairedDivergence | None) -> dict[str, str]:
    if found is None:
        return {"plan": "-", "calls": "-", "states": "-"}
    states = found.mean.states
    return {
        "plan": f"{found.mean.plan:.2f}",
        "calls": f"{found.mean.calls:.2f}",
        "states": "-" if states is None else f"{states:.2f}",
    }


def attack_rows(doses: Sequence[DoseSummary]) -> list[dict[str, str]]:
    """Returns a row for each cell of the taxonomy that was tried, over all doses: attempts by failure mode."""
    counts: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for one in doses:
        for cell in one.attacks:
            counts[cell.source, cell.form, cell.harm][cell.failure] += cell.attempts
    return [
        {
            "source": source,
            "form": form,
            "harm": harm,
            "safe": str(found[_RESISTED]),
            **{failure: str(found[failure]) for failure in (_ACT, _LEAK, _HIDDEN)},
        }
        for (source, form, harm), found in sorted(counts.items())
    ]


def describe_coverage(doses: Sequence[DoseSummary]) -> str:
    """Returns how many combinations of source, form and harm the attacks tried, and how many were shown."""
    from assay.environments.services.disturbances.attack import COMBINATIONS

    cells = [cell for one in doses for cell in one.attacks]
    tried, shown = (
        {(cell.source, cell.form.partition(",")[0], cell.harm) for cell in chosen}
        for chosen in (cells, [cell for cell in cells if cell.failure != _HIDDEN])
    )
    return (
        f"{len(tried)} of {COMBINATIONS} combinations of source, form and harm were tried, and {len(shown)} were shown "
        "whole to an agent"
    )
