"""Progress towards the goal over the steps of an attempt, and what its curve tells.

Source of the measures: OPD (outcome, process, diagnosis) of PRM-as-a-Judge (arXiv 2603.21669), formulas in our own
code. There a model guesses the progress; here it is whatever share a verifier gives after each step, best the tests
passed.

With P_0 = 0, P_1 ... P_T in [0, 1] and steps dP_t = P_t - P_(t-1):

    MC@q  1 where max P reaches q, for q of .25, .5, .75 and 1      MP   max P
    PPE   P_T / sum |dP|                                            PPL  P_T * PPE
    CRA   mean over t of (max of P up to t) - P_t                   STR  share of steps with |dP| < .005

All are in [0, 1]; high is good but for CRA (how far behind its best the attempt is, on average) and STR (share of steps
that change nothing). An attempt that never moves has PPE 0: the published quotient is 0/0 there.

When they mislead: progress by tests is lumpy, so STR is high for good attempts too, and a curve from tests that the
agent itself ran (`observed_progress`) is of the tests that it chose to run, as its own record shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from assay.records import Trajectory

from .actions import is_test_run
from .interface import Action

__all__ = ["MILESTONES", "Progress", "ProgressPoint", "observed_progress", "progress_metrics", "reported_progress"]

MILESTONES = (0.25, 0.5, 0.75, 1.0)
_STILL = 0.005
# "12 passed, 3 failed, 1 error in 2.3s"; the last line of that shape counts.
_PYTEST = re.compile(
    r"^=*[ \t]*((?>(?:\d{1,9} (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)(?:, )?)+))"
    r".*? in [\d.]+",
    re.MULTILINE,
)
_COUNT = re.compile(r"(\d{1,9}) (passed|failed|error)")
_UNITTEST = re.compile(r"^Ran (\d{1,9}) tests? in [\d.]+s\s+(OK|FAILED)(?: \(([^)\n]{0,200})\))?", re.MULTILINE)
_LOST = re.compile(r"(?:failures|errors)=(\d{1,9})")
_JEST = re.compile(r"^Tests:[ \t]+((?>(?:\d{1,9} \w+, )+))\d{1,9} total", re.MULTILINE)


class ProgressPoint(NamedTuple):
    """Share of the goal reached after the step."""

    step: int
    share: float


class Progress(msgspec.Struct, frozen=True):
    """Measures of one curve."""

    milestones: dict[str, bool]
    """MC, by milestone: `25`, `50`, `75`, `100`."""
    most: float
    efficiency: float
    effective: float
    regret: float
    stagnation: float


def progress_metrics(curve: Sequence[float]) -> Progress:
    """Returns the measures of a curve P_1 ... P_T, shares in [0, 1], after P_0 = 0.

    Raises:
        ValueError: There is no point, or one is not a share.
    """
    points = np.asarray(curve, dtype=np.float64)
    if points.ndim != 1 or not points.size:
        raise ValueError("a progress curve is a sequence of at least one share")
    if not np.all((points >= 0) & (points <= 1)):
        raise ValueError("a share of progress lies in [0, 1]")
    moved = np.abs(np.diff(points, prepend=0.0))
    length = float(moved.sum())
    efficiency = float(points[-1]) / length if length else 0.0
    return Progress(
        milestones={f"{share:.0%}".rstrip("%"): bool(points.max() >= share) for share in MILESTONES},
        most=float(points.max()),
        efficiency=efficiency,
        effective=float(points[-1]) * efficiency,
        regret=float(np.mean(np.maximum.accumulate(points) - points)),
        stagnation=float(np.mean(moved < _STILL)),
    )


def observed_progress(actions: Sequence[Action]) -> tuple[ProgressPoint, ...]:
    """Returns the share of passed tests after each of the agent's own test runs with a readable summary (pytest,
    unittest, Jest). It is no verdict: the tests may differ each time, and be forged.
    """
    found = []
    for action in actions:
        share = _share(action.observation or "") if is_test_run(action) else None
        if share is not None:
            found.append(ProgressPoint(action.step, share))
    return tuple(found)


def reported_progress(trajectory: Trajectory) -> tuple[ProgressPoint, ...]:
    """Returns the share of passed tests in each recorded report of a verifier, in order.

    A report belongs to the last step begun before it; without a time, to the last step. Most attempts have one point;
    replays that verify every prefix have a curve.
    """
    begun = [(step.started, step.index) for step in trajectory.steps if step.started is not None]
    last = trajectory.steps[-1].index if trajectory.steps else 0
    found = []
    for item in trajectory.evidence:
        counts = item.data.get("counts") if item.kind == "test_report" else None
        if not isinstance(counts, dict):
            continue
        held = {name: value for name, value in counts.items() if type(value) is int and value >= 0}
        share = _of(held.get("passed", 0), held.get("failed", 0) + held.get("error", 0))
        if share is not None:
            before = [step for at, step in begun if item.at is not None and at <= item.at]
            found.append(ProgressPoint(max(before, default=last), share))
    return tuple(found)


def _share(text: str) -> float | None:
    text = text[-20_000:]
    if summaries := _PYTEST.findall(text):
        counts = {kind: int(number) for number, kind in _COUNT.findall(summaries[-1])}
        return _of(counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0))
    if runs := _UNITTEST.findall(text):
        total, verdict, log = runs[-1]
        lost = sum(map(int, _LOST.findall(log))) if verdict == "FAILED" else 0
        return _of(max(int(total) - lost, 0), min(lost, int(total)))
    if runs := _JEST.findall(text):
        counts = {kind: int(number) for number, kind in _COUNT.findall(runs[-1])}
        return _of(counts.get("passed", 0), counts.get("failed", 0))
    return None


def _of(passed: int, failed: int) -> float | None:
    return passed / (passed + failed) if passed + failed else None
