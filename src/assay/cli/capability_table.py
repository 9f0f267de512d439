"""The table `capabilities` of `assay stats`: pass rates on pages by what the tasks need, and of tasks that do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.api.summaries import interval_text
from assay.statistics import Estimate, count_by_task, estimate_pass_rate

if TYPE_CHECKING:
    from assay.analysis.columns import AttemptMeasures
    from assay.statistics import TaskCount

Needed = Mapping[tuple[int, str], tuple[str, ...]]
"""Capabilities by index of the run and task."""


class CapabilityRate(msgspec.Struct, frozen=True):
    """How one configuration does at tasks that need a capability."""

    agent: str
    model: str | None
    capability: str
    tasks: int
    """Judged tasks that need it."""
    passed: int
    judged: int
    """Attempts at these tasks."""
    rate: Estimate
    others: int
    """Judged tasks on pages that do not need it."""
    other_rate: Estimate


def read_needed(
    root: Path, runs: Sequence[str], on_warning: Callable[[str], None], *, allow_task_code: bool = False
) -> Needed:
    """Returns what the tasks on pages need; those whose record cannot be opened are counted in a warning."""
    from assay.store import RunStore, final_rows
    from assay.synthesis.services.planned import UnsuitableError
    from assay.synthesis.sites.capabilities import SITES, capabilities_of

    from .service_tables import TaskReader

    found: dict[tuple[int, str], tuple[str, ...]] = {}
    left_out: Counter[str] = Counter()
    for source, run in enumerate(runs):
        with RunStore.open(root, run) as store:
            reader = TaskReader(store, allow_task_code=allow_task_code)
            chains = {row.task: row.chain for row in final_rows(store.attempts())}
            for name, chain in chains.items():
                task = reader.read_task(store.trajectory(chain))
                if isinstance(task, str):
                    left_out[task] += 1
                elif task.environment.kind == SITES:
                    try:
                        found[source, name] = capabilities_of(task)
                    except UnsuitableError as exc:
                        left_out[str(exc)] += 1
    for problem, count in left_out.items():
        on_warning(f"{count} tasks are not in the table of capabilities: {problem}")
    return found


def sum_capabilities(attempts: Iterable[AttemptMeasures], needed: Needed) -> list[CapabilityRate]:
    """Returns the rates by agent, model and capability, the lowest first; attempts at other tasks do not count."""
    groups: dict[tuple[str, str | None], dict[tuple[int, str], list[Any]]] = {}
    for one in attempts:
        outcome = one.outcome
        if (key := (one.source, outcome.task)) in needed:
            groups.setdefault((outcome.agent, outcome.model), {}).setdefault(key, []).append(outcome)
    found = []
    for (agent, model), by_task in groups.items():
        for name in dict.fromkeys(name for key in by_task for name in needed[key]):
            mine = [outcome for key, outcomes in by_task.items() if name in needed[key] for outcome in outcomes]
            other = [outcome for key, outcomes in by_task.items() if name not in needed[key] for outcome in outcomes]
            counts, others = _judged(mine), _judged(other)
            passed, judged = sum(one.passed for one in counts), sum(one.judged for one in counts)
            rate, other_rate = estimate_pass_rate(counts), estimate_pass_rate(others)
            found.append(CapabilityRate(agent, model, name, len(counts), passed, judged, rate, len(others), other_rate))
    return sorted(found, key=lambda one: (one.agent, one.model or "", one.rate.value or 0.0, one.capability))


def _judged(outcomes: Iterable[Any]) -> list[TaskCount]:
    return [one for one in count_by_task(outcomes) if one.judged]


def capability_rows(found: Iterable[CapabilityRate]) -> list[dict[str, str]]:
    """Returns the printed rows."""
    return [
        {
            "agent": one.agent,
            "model": one.model or "-",
            "capability": one.capability,
            "tasks": str(one.tasks),
            "passed": f"{one.passed} of {one.judged}",
            "pass@1 [95%]": interval_text(one.rate),
            "other tasks": str(one.others),
            "theirs [95%]": interval_text(one.other_rate),
        }
        for one in found
    ]
