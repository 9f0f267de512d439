"""How good a score is that predicts outcomes.

A score may rank well and still be useless for selection, or select well and be badly calibrated; all three are given
(after SWE-RM, which found equal selection with unequal use in training).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from ._clustered import REPLICATES, percentiles
from ._ranking import ranks_of
from ._rates import Interval, mean_of, normal_quantile

__all__ = ["Bin", "ReportCard", "area_under_curve", "calibration", "report_card"]

Floats = npt.NDArray[np.float64]


class Bin(msgspec.Struct, frozen=True):
    """Scores of one range against what happened."""

    low: float
    high: float
    count: int
    mean_score: float
    rate: float


class ReportCard(msgspec.Struct, frozen=True):
    """What a score is worth as a stand-in for the outcome."""

    n: int
    passed: int
    auc: float | None
    """Probability that a passing attempt has the higher score, ties half; None where all came out the same."""
    auc_interval: Interval | None
    """Tasks drawn with replacement."""
    ece: float
    """Expected calibration error over ten bins of equal width, in [0, 1]."""
    brier: float
    selected: float | None
    """Mean over tasks of the outcome of the attempt with the highest score; ties share."""
    at_random: float | None
    """The same for an attempt drawn blindly."""
    at_best: float | None
    """The same for the best attempt: nobody selects better."""
    bins: tuple[Bin, ...]


def area_under_curve(scores: Sequence[float], passed: Sequence[bool]) -> float | None:
    """Probability that a passing attempt scores above a failing one, ties counting half (Mann and Whitney 1947)."""
    given, outcome = np.asarray(scores, dtype=np.float64), np.asarray(passed, dtype=bool)
    good, bad = int(outcome.sum()), int((~outcome).sum())
    if not good or not bad:
        return None
    ranks = ranks_of(given[None])[0]
    return (float(ranks[outcome].sum()) - good * (good + 1) / 2) / (good * bad)


def calibration(scores: Sequence[float], passed: Sequence[bool], bins: int = 10) -> tuple[float, tuple[Bin, ...]]:
    """Expected calibration error and the bins that are not empty (Naeini et al. 2015; equal width).

    Raises:
        ValueError: A score is outside [0, 1], or the columns differ in length.
    """
    given, outcome = _columns(scores, passed)
    if not len(given):
        return 0.0, ()
    places = np.minimum((given * bins).astype(int), bins - 1)
    found, error = [], 0.0
    for place in range(bins):
        inside = places == place
        count = int(inside.sum())
        if count:
            mean, rate = float(given[inside].mean()), float(outcome[inside].mean())
            found.append(Bin(place / bins, (place + 1) / bins, count, mean, rate))
            error += count / len(given) * abs(mean - rate)
    return error, tuple(found)


def report_card(
    scores: Sequence[float], passed: Sequence[bool], tasks: Sequence[str], *, confidence: float = 0.95, seed: int = 0
) -> ReportCard:
    """Judges a score against outcomes; attempts at one task are drawn together.

    Args:
        scores: In [0, 1], one an attempt.
        passed: What the outcome was.
        tasks: Which task each is of.
        confidence: Of the interval.
        seed: Of the bootstrap.

    Raises:
        ValueError: A score is outside [0, 1], or the columns differ in length.
    """
    given, outcome = _columns(scores, passed)
    if len(tasks) != len(given):
        raise ValueError(f"{len(tasks)} tasks for {len(given)} scores")
    error, bins = calibration(scores, passed)
    groups = _groups(tasks)
    picked = [_picked(given[rows], outcome[rows]) for rows in groups]
    return ReportCard(
        n=len(given),
        passed=int(outcome.sum()),
        auc=area_under_curve(scores, passed),
        auc_interval=_auc_interval(given, outcome, _places(tasks), (confidence, seed)),
        ece=error,
        brier=float(np.mean((given - outcome) ** 2)) if len(given) else 0.0,
        selected=mean_of([one[0] for one in picked]),
        at_random=mean_of([one[1] for one in picked]),
        at_best=mean_of([one[2] for one in picked]),
        bins=bins,
    )


def _columns(scores: Sequence[float], passed: Sequence[bool]) -> tuple[Floats, Floats]:
    given, outcome = np.asarray(scores, dtype=np.float64), np.asarray(passed, dtype=np.float64)
    if given.shape != outcome.shape or given.ndim != 1:
        raise ValueError(f"{len(scores)} scores for {len(passed)} outcomes")
    if not bool(np.all((given >= 0) & (given <= 1))):
        raise ValueError("a score is in [0, 1]")
    return given, outcome


def _groups(tasks: Sequence[str]) -> list[npt.NDArray[np.intp]]:
    place = _places(tasks)
    order = np.argsort(place, kind="stable")
    return np.split(order, np.cumsum(np.bincount(place))[:-1]) if len(place) else []


def _places(tasks: Sequence[str]) -> npt.NDArray[np.intp]:
    """Which of the tasks, by name, each is."""
    return np.unique(np.asarray(tasks, dtype=str), return_inverse=True)[1]


def _picked(scores: Floats, outcome: Floats) -> tuple[float, float, float]:
    """The outcome of the highest score, of a blind draw, and of the best."""
    return float(outcome[scores == scores.max()].mean()), float(outcome.mean()), float(outcome.max())


def _auc_interval(
    given: Floats, outcome: Floats, places: npt.NDArray[np.intp], drawn: tuple[float, int]
) -> Interval | None:
    """Tasks drawn with replacement: how often each was drawn is the weight of its attempts."""
    confidence, seed = drawn
    normal_quantile(confidence)
    tasks = int(places.max()) + 1 if len(places) else 0
    if tasks < 2:
        return None
    known, score = np.unique(given, return_inverse=True)
    draw, found = np.random.default_rng(seed), []
    for _ in range(REPLICATES // 4):
        weights = np.bincount(draw.integers(0, tasks, tasks), minlength=tasks)[places]
        good = np.bincount(score, weights * outcome, len(known))
        bad = np.bincount(score, weights * (1 - outcome), len(known))
        pairs = float(good.sum() * bad.sum())
        if pairs:
            found.append(float(good @ (np.cumsum(bad) - bad / 2)) / pairs)
    return _ends(found, confidence)


def _ends(found: Sequence[float], confidence: float) -> Interval | None:
    normal_quantile(confidence)
    if len(found) < 100:
        return None
    return percentiles(found, confidence)
