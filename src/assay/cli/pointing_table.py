"""The table `pointing` of `assay stats`: targets, way and form of acts on pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from assay.verify.pointing_check import POINTING

from .check_evidence import read_check_evidence


class PointedAttempt(msgspec.Struct, frozen=True):
    """Acts of one attempt, and how like a shortest way they are."""

    agent: str
    model: str | None
    acts: int
    malformed: int
    aimed: int
    right: int
    path: float


def read_pointing(root: Path, runs: Sequence[str]) -> tuple[PointedAttempt, ...]:
    """Returns what the check `pointing` found in each attempt that it judged; other evidence is left out."""
    return read_check_evidence(root, runs, POINTING, PointedAttempt)


def sum_pointing(attempts: Sequence[PointedAttempt]) -> list[dict[str, Any]]:
    """Returns the sums by agent and model."""
    groups: dict[tuple[str, str | None], list[PointedAttempt]] = {}
    for one in attempts:
        groups.setdefault((one.agent, one.model), []).append(one)
    return [
        {
            "agent": agent,
            "model": model,
            "attempts": len(mine),
            **{name: sum(getattr(one, name) for one in mine) for name in ("acts", "malformed", "aimed", "right")},
            "path": fmean(one.path for one in mine),
        }
        for (agent, model), mine in groups.items()
    ]


def pointing_rows(sums: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Returns the sums as a table."""
    return [
        {
            "agent": one["agent"],
            "model": one["model"] or "-",
            "attempts": str(one["attempts"]),
            "on target": f"{one['right']} of {one['aimed']}",
            "path": f"{one['path']:.3f}",
            "well formed": f"{one['acts'] - one['malformed']} of {one['acts']}",
        }
        for one in sums
    ]
