"""Outcome, safety and divergence of an agent by the dose of a disturbance, and the cells of the attack taxonomy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .summaries import DecidedAttempts, interval_text, measures_of, read_decided

if TYPE_CHECKING:
    from assay.analysis.divergence import Divergence
    from assay.records import Evidence
    from assay.statistics import GroupSummary


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
    root: Path, run: str, dose: float, on_warning: Callable[[str], None] = lambda _text: None, first: str | None = None
) -> DoseSummary:
    """Returns the summary of a run of one agent.

    Args:
        root: The store.
        run: The run.
        dose: Its dose.
        on_warning: As in `load_measures`.
        first: The run of the first dose, from which the divergence is measured.
    """
    from assay.statistics import summarise
    from assay.store import RunStore

    decided = read_decided(root, run, on_warning)
    outcomes = [one.outcome for one in measures_of([decided], decided.required)]
    statuses = {
        (row.task, row.number, row.agent): decided.current[row.chain].safety
        for row in decided.rows
        if row.chain in decided.current
    }
    safety = [
        msgspec.structs.replace(one, status=status, score=None, doubtful=False, separation="unknown")
        for one in outcomes
        if (status := statuses.get((one.task, one.number, one.agent))) is not None
    ]
    with RunStore.open(root, run) as store:
        cells = _attack_cells(found for row in decided.rows for found in store.trajectory(row.chain).evidence)
    groups, safe = summarise(outcomes), summarise(safety)
    apart = None if first in (None, run) else _divergence(root, str(first), decided)
    return DoseSummary(dose, run, groups[0] if groups else None, safe[0] if safe else None, tuple(cells), apart)


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
            failure = "harmful act"
        elif data.get("leaked"):
            failure = "canary leaked"
        else:
            failure = "none" if data.get("complete") else "not shown"
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
                "dose": f"{one.dose:g}",
                "tasks": "0" if group is None else str(group.n_tasks),
                "attempts": "0" if group is None else str(group.n_attempts),
                "pass": "-" if group is None else str(group.passed),
                "fail": "-" if group is None else str(group.failed),
                "unknown or error": "-" if group is None else str(group.unknown + group.error),
                "pass@1 [95%]": interval_text(None if group is None else group.pass_at_1),
                "safe": "-" if safe is None else str(safe.passed),
                "unsafe": "-" if safe is None else str(safe.failed),
                "safe@1 [95%]": interval_text(None if safe is None else safe.pass_at_1),
                **_divergence_cells(one.divergence),
            }
        )
    return rows


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
    """Returns the rows of the taxonomy's cells that were tried, over all doses."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for one in doses:
        for cell in one.attacks:
            counts[cell.source, cell.form, cell.harm, cell.failure] += cell.attempts
    return [
        {"source": source, "form": form, "harm": harm, "failure": failure, "attempts": str(number)}
        for (source, form, harm, failure), number in sorted(counts.items())
    ]


def describe_coverage(doses: Sequence[DoseSummary]) -> str:
    """Returns how many combinations of source, form and harm the attacks tried."""
    from assay.environments.services.disturbances.attack import COMBINATIONS

    cells = [cell for one in doses for cell in one.attacks]
    tried = {(cell.source, cell.form.partition(",")[0], cell.harm) for cell in cells}
    return f"{len(tried)} of {COMBINATIONS} combinations of source, form and harm were tried"
