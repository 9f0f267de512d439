"""Pass rates of agents on a task, from all attempts in the store, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from assay.errors import StoreError
from assay.records import AttemptStarted
from assay.statistics import Interval, wilson
from assay.store import ADMISSION, RunStore, list_runs
from assay.verdicts import is_baseline

from .findings import AdmissionFinding

EASY, HARD, ENOUGH = 0.8, 0.2, 8


class AgentRate(msgspec.Struct, frozen=True):
    """Pass rate of one agent with one model on a task. Attempts without a verdict do not count."""

    agent: str
    model: str | None
    judged: int
    passed: int
    rate: float
    interval: Interval


def compute_rates(root: Path, digests: Iterable[str]) -> dict[str, tuple[AgentRate, ...]]:
    """Returns the agents' pass rates by task digest, from all runs except admissions. Raises `StoreError`."""
    task_digests = set(digests)
    judged: dict[str, Counter[tuple[str, str | None]]] = {digest: Counter() for digest in task_digests}
    passed: dict[str, Counter[tuple[str, str | None]]] = {digest: Counter() for digest in task_digests}
    for run in list_runs(root):
        with RunStore.open(root, run) as store:
            if _is_admission(store):
                continue
            for row in store.attempts():
                judged_here = row.final and row.outcome in ("pass", "fail") and row.task_digest in task_digests
                if judged_here and not _is_baseline(store, row.chain):
                    judged[row.task_digest][row.agent, row.model] += 1
                    passed[row.task_digest][row.agent, row.model] += row.outcome == "pass"
    return {digest: _rates(judged[digest], passed[digest]) for digest in task_digests}


def _is_baseline(store: RunStore, chain: str) -> bool:
    started = next(iter(store.events(chain))).body
    return isinstance(started, AttemptStarted) and is_baseline(started)


def _is_admission(store: RunStore) -> bool:
    try:
        return ADMISSION in store.manifest()
    except StoreError:  # such a run has no countable attempts
        return False


def _rates(judged: Counter[tuple[str, str | None]], passed: Counter[tuple[str, str | None]]) -> tuple[AgentRate, ...]:
    ordered = sorted(judged, key=lambda key: (key[0], key[1] or ""))
    return tuple(
        AgentRate(agent, model, n, k, k / n, wilson(k, n))
        for agent, model in ordered
        for n, k in [(judged[agent, model], passed[agent, model])]
    )


def difficulty_findings(task: str, rates: Iterable[AgentRate]) -> list[AdmissionFinding]:
    """Reports a task that every agent passes or that no agent passes, judged by the intervals."""
    known = [rate for rate in rates if rate.judged >= ENOUGH]
    if not known:
        return []
    named = "; ".join(f"{r.agent}{f' with {r.model}' if r.model else ''} {r.passed} of {r.judged}" for r in known[:5])
    if all(rate.interval.low >= EASY for rate in known):
        return [AdmissionFinding("too-easy", task, None, "note", f"every agent passes it: {named}")]
    if all(rate.passed == 0 for rate in known) and max(rate.interval.high for rate in known) <= 2 * HARD:
        return [AdmissionFinding("impossible", task, None, "note", f"no agent passes it: {named}")]
    return []
