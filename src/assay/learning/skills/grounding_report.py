"""Reads how far the steps of stored attempts are grounded in what the environment showed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.agents.grounding import AttemptGrounding, grounding_of, summarise_grounding
from assay.analysis.judged_path import judged_path
from assay.errors import UserError
from assay.learning.curation.lessons import opening_for
from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.records import Trajectory
from assay.settings import Settings
from assay.statistics import area_under_curve
from assay.verdicts import trust_of


class AttemptRow(NamedTuple):
    """One attempt."""

    run: str
    attempt: str
    outcome: str
    grounding: AttemptGrounding


class GroundingReport(msgspec.Struct, frozen=True):
    """The attempts of runs, and whether the index tells passes from failures."""

    attempts: tuple[AttemptRow, ...]
    area: float | None
    """Chance that a passing attempt has a higher mean index than a failing one; None without both."""
    passing: int
    failing: int


def _instruction(reader: RunReader, trajectory: Trajectory) -> str:
    """Returns the texts before the agent's first step; empty where the record of another tool does not hold them."""
    try:
        messages = opening_for(reader, trajectory).messages
    except UserError:
        return ""
    return "\n".join(str(m["content"]) for m in messages if isinstance(m.get("content"), str))


def report_grounding(runs: Sequence[str], settings: Settings) -> GroundingReport:
    """Returns the index of each attempt of some runs, after their hash chains verified.

    Raises:
        StoreError: A run is not what was recorded.
    """
    rows: list[AttemptRow] = []
    for run in runs:
        with RunReader.open(settings, run, RowsConfig()) as reader:
            for one in reader.trajectories():
                found = summarise_grounding(grounding_of(judged_path(one), _instruction(reader, one)))
                rows.append(AttemptRow(run, one.attempt, str(trust_of(one).outcome_class), found))
    judged = [
        (one.grounding.mean, one.outcome == "pass")
        for one in rows
        if one.outcome in ("pass", "fail") and one.grounding.mean is not None
    ]
    passed = [is_pass for _, is_pass in judged]
    area = area_under_curve([mean for mean, _ in judged], passed) if judged else None
    return GroundingReport(tuple(rows), area, sum(passed), len(passed) - sum(passed))
