"""The table `economy` of `assay stats`: what attempts read and asked beyond what their tasks need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.verify.economy_check import ECONOMY

from .check_evidence import read_check_evidence


class Economy(msgspec.Struct, frozen=True):
    """Reads and questions of one attempt, and those that its task needs."""

    agent: str
    model: str | None
    reads: int
    needed_reads: int
    questions: int
    needed_questions: int


def read_economies(root: Path, runs: Sequence[str]) -> tuple[Economy, ...]:
    """Returns what the check `economy` found in each attempt that it judged; other evidence of its kind is left out."""
    return read_check_evidence(root, runs, ECONOMY, Economy)


def sum_economies(economies: Sequence[Economy]) -> list[dict[str, Any]]:
    """Returns the sums by agent and model."""
    groups: dict[tuple[str, str | None], list[Economy]] = {}
    for one in economies:
        groups.setdefault((one.agent, one.model), []).append(one)
    return [
        {
            "agent": agent,
            "model": model,
            "attempts": len(mine),
            "reads": sum(one.reads for one in mine),
            "needed_reads": sum(one.needed_reads for one in mine),
            "questions": sum(one.questions for one in mine),
            "needed_questions": sum(one.needed_questions for one in mine),
        }
        for (agent, model), mine in groups.items()
    ]


def economy_rows(economies: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Returns the sums as a table."""
    return [
        {
            "agent": one["agent"],
            "model": one["model"] or "-",
            "attempts": str(one["attempts"]),
            "reads": f"{one['reads']}, {one['needed_reads']} needed",
            "excess reads": f"{(one['reads'] - one['needed_reads']) / one['attempts']:+.2f}",
            "messages": f"{one['questions']}, {one['needed_questions']} needed",
            "excess messages": f"{(one['questions'] - one['needed_questions']) / one['attempts']:+.2f}",
        }
        for one in economies
    ]
