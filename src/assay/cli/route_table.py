"""The table `routes` of `assay stats`: steps of the shortest ways on sites by skill, and where attempts were lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.verify.route_check import ROUTE

from .check_evidence import read_check_evidence


class RouteLoss(msgspec.Struct, frozen=True):
    """Steps of the shortest way of one attempt by skill, and where it was lost."""

    agent: str
    model: str | None
    needed: dict[str, int]
    done: dict[str, int]
    lost: str
    """Empty at the goal."""


def read_routes(root: Path, runs: Sequence[str]) -> tuple[RouteLoss, ...]:
    """Returns what the check `route` found in each attempt that it judged; other evidence of its kind is left out."""
    return read_check_evidence(root, runs, ROUTE, RouteLoss)


def sum_routes(routes: Iterable[RouteLoss]) -> list[dict[str, Any]]:
    """Returns the sums by agent, model and skill."""
    groups: dict[tuple[str, str | None, str], list[int]] = {}
    for one in routes:
        for skill in dict.fromkeys((*one.needed, *([one.lost] if one.lost else ()))):  # lost on the way round, too
            count = one.needed.get(skill, 0)
            sums = groups.setdefault((one.agent, one.model, skill), [0, 0, 0, 0])
            for at, amount in enumerate((int(count > 0), count, one.done.get(skill, 0), int(one.lost == skill))):
                sums[at] += amount
    fields = ("attempts", "needed", "done", "lost")
    return [
        {"agent": agent, "model": model, "skill": skill, **dict(zip(fields, sums, strict=True))}
        for (agent, model, skill), sums in groups.items()
    ]


def route_rows(routes: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """Returns the printed rows."""
    return [
        {
            "agent": one["agent"],
            "model": one["model"] or "-",
            "skill": one["skill"],
            "attempts": str(one["attempts"]),
            "steps done": f"{one['done']} of {one['needed']}",
            "lost here": str(one["lost"]),
        }
        for one in routes
    ]
