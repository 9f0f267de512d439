"""The table `evidence` of `assay stats`: which needed facts the actors found, who found them, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from assay.analysis.evidence_graph import EvidenceGraph, build_evidence_graph
from assay.environments.worlds.opening import NeededFacts, needed_facts
from assay.errors import PluginLoadError
from assay.statistics import mean_interval
from assay.store import RunStore, final_rows
from assay.verdicts import trust_of

from .service_tables import TaskReader


class EvidenceAttempt(msgspec.Struct, frozen=True):
    """The evidence graph of one attempt."""

    agent: str
    model: str | None
    task: str
    passed: bool
    graph: EvidenceGraph


def read_evidence_graphs(
    root: Path, runs: Sequence[str], on_warning: Callable[[str], None], *, allow_task_code: bool = False
) -> tuple[EvidenceAttempt, ...]:
    """Returns the graphs of attempts at tasks whose world names facts; tasks that cannot be opened are counted in a
    warning."""
    found, left_out = list[EvidenceAttempt](), Counter[str]()
    for run in runs:
        facts: dict[str, NeededFacts | str] = {}
        with RunStore.open(root, run) as store:
            reader = TaskReader(store, allow_task_code=allow_task_code)
            for row in final_rows(store.attempts()):
                trajectory = store.trajectory(row.chain)
                if row.task_digest not in facts:
                    task = reader.read_task(trajectory)
                    try:
                        facts[row.task_digest] = task if isinstance(task, str) else needed_facts(task)
                    except (PluginLoadError, ValueError) as exc:
                        facts[row.task_digest] = str(exc)
                known = facts[row.task_digest]
                if isinstance(known, str):
                    left_out[known] += 1
                elif known.facts:
                    graph = build_evidence_graph(trajectory, *known)
                    passed = trust_of(trajectory).trusted
                    found.append(EvidenceAttempt(row.agent, row.model, row.task, passed, graph))
    for problem, count in left_out.items():
        on_warning(f"{count} attempts are not in the table of evidence: {problem}")
    return tuple(found)


def sum_evidence(attempts: Iterable[EvidenceAttempt]) -> list[dict[str, Any]]:
    """Returns coverage and duplication by agent and model, and by actor within."""
    groups: dict[tuple[str, str | None], list[EvidenceAttempt]] = {}
    for one in attempts:
        groups.setdefault((one.agent, one.model), []).append(one)
    return [_sum_group(agent, model, mine) for (agent, model), mine in groups.items()]


def _sum_group(agent: str, model: str | None, mine: Sequence[EvidenceAttempt]) -> dict[str, Any]:
    by_task: dict[str, list[float]] = {}
    actors: dict[str, list[tuple[float, float, int]]] = {}
    for one in mine:
        by_task.setdefault(one.task, []).append(one.graph.found / one.graph.needed)
        for part in one.graph.actors:
            actors.setdefault(part.actor, []).append((part.first / one.graph.needed, part.again, part.acts))
    interval = mean_interval([fmean(shares) for shares in by_task.values()])
    finds = sum(one.graph.finds for one in mine)
    return {
        "agent": agent,
        "model": model,
        "attempts": len(mine),
        "passed": sum(one.passed for one in mine),
        "searchers": fmean(one.graph.searchers for one in mine),
        "needed": fmean(one.graph.needed for one in mine),
        "coverage": fmean(share for shares in by_task.values() for share in shares),
        "coverage_low": None if interval is None else interval.low,
        "coverage_high": None if interval is None else interval.high,
        "shared": fmean(one.graph.shared / one.graph.needed for one in mine),
        "finds": finds,
        "duplication": sum(one.graph.repeated for one in mine) / finds if finds else None,
        "acts": fmean(sum(part.acts for part in one.graph.actors) for one in mine),
        "actors": [
            {
                "actor": name,
                "attempts": len(parts),
                "first": fmean(first for first, _, _ in parts),
                "again": fmean(again for _, again, _ in parts),
                "acts": fmean(acts for _, _, acts in parts),
            }
            for name, parts in actors.items()
        ],
    }


def evidence_rows(groups: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Returns a row for each agent, and one for each of its actors."""
    found = []
    for one in groups:
        ends = "" if one["coverage_low"] is None else f" [{one['coverage_low']:.3f}, {one['coverage_high']:.3f}]"
        found.append(
            {
                "agent": one["agent"][:60],
                "actor": "(all)",
                "attempts": str(one["attempts"]),
                "passed": str(one["passed"]),
                "searchers": f"{one['searchers']:.1f}",
                "needed": f"{one['needed']:.1f}",
                "coverage [95%]": f"{one['coverage']:.3f}{ends}",
                "shared": f"{one['shared']:.3f}",
                "found again": "-" if one["duplication"] is None else f"{one['duplication']:.3f}",
                "acts": f"{one['acts']:.1f}",
            }
        )
        found += [
            dict.fromkeys(("agent", "passed", "searchers", "needed", "shared"), "")
            | {
                "actor": part["actor"],
                "attempts": str(part["attempts"]),
                "coverage [95%]": f"{part['first']:.3f}",
                "found again": f"{part['again']:.2f} times",
                "acts": f"{part['acts']:.1f}",
            }
            for part in one["actors"]
        ]
    keys = list(found[0]) if found else []
    return [{key: row[key] for key in keys} for row in found]
