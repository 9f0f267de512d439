"""The quality of a score that predicts outcomes.

A score may rank well and be useless for selection, or select well and be badly calibrated; all three are measured
(after SWE-RM, which found equal selection with unequal use in training).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from ._clustered import REPLICATES, percentiles
from ._ranking import ranks_of
from ._rates import Interval, mean_or_none, normal_quantile

Floats = npt.NDArray[np.float64]


class CalibrationBin(msgspec.Struct, frozen=True):
    """One range of scores and its observed rate."""

    low: float
    high: float
    count: int
    mean_score: float
    rate: float


class ReportCard(msgspec.Struct, frozen=True):
    """The quality of a score as a predictor of the outcome."""

    n: int
    passed: int
    auc: float | None
    """Probability that a passing attempt has the higher score, ties half; None where all outcomes are equal."""
    auc_interval: Interval | None
    """Tasks drawn with replacement."""
    ece: float
    """Expected calibration error over ten bins of equal width, in [0, 1]."""
    brier: float
    selected: float | None
    """Mean over tasks of the outcome of the attempt with the highest score; ties share."""
    at_random: float | None
    """The same for a random attempt."""
    at_best: float | None
    """The same for the best attempt: the upper limit."""
    bins: tuple[CalibrationBin, ...]


def area_under_curve(scores: Sequence[float], passed: Sequence[bool]) -> float | None:
    """Returns the probability that a passing attempt scores above a failing one, ties half (Mann and Whitney 1947)."""
    score_array, outcome = np.asarray(scores, dtype=np.float64), np.asarray(passed, dtype=bool)
    good, bad = int(outcome.sum()), int((~outcome).sum())
    if not good or not bad:
        return None
    ranks = ranks_of(score_array[None])[0]
    return (float(ranks[outcome].sum()) - good * (good + 1) / 2) / (good * bad)


def calibration_error(
    scores: Sequence[float], passed: Sequence[bool], bins: int = 10
) -> tuple[float, tuple[CalibrationBin, ...]]:
    """Returns the expected calibration error and the non-empty bins (Naeini et al. 2015; equal width).

    Raises:
        ValueError: A score is outside [0, 1], or the columns differ in length.
    """
    score_array, outcome = _columns(scores, passed)
    if not len(score_array):
        return 0.0, ()
    places = np.minimum((score_array * bins).astype(int), bins - 1)
    found, error = [], 0.0
    for place in range(bins):
        inside = places == place
        count = int(inside.sum())
        if count:
            mean, rate = float(score_array[inside].mean()), float(outcome[inside].mean())
            found.append(CalibrationBin(place / bins, (place + 1) / bins, count, mean, rate))
            error += count / len(score_array) * abs(mean - rate)
    return error, tuple(found)


def report_card(
    scores: Sequence[float], passed: Sequence[bool], tasks: Sequence[str], *, confidence: float = 0.95, seed: int = 0
) -> ReportCard:
    """Evaluates scores in [0, 1] against the outcomes of attempts; those at one task are resampled together.

    Raises:
        ValueError: A score is outside [0, 1], or the columns differ in length.
    """
    score_array, outcome = _columns(scores, passed)
    if len(tasks) != len(score_array):
        raise ValueError(f"{len(tasks)} tasks for {len(score_array)} scores")
    error, bins = calibration_error(scores, passed)
    groups = _groups(tasks)
    picked = [_pick_outcomes(score_array[rows], outcome[rows]) for rows in groups]
    return ReportCard(
        n=len(score_array),
        passed=int(outcome.sum()),
        auc=area_under_curve(scores, passed),
        auc_interval=_auc_interval(score_array, outcome, _task_codes(tasks), (confidence, seed)),
        ece=error,
        brier=float(np.mean((score_array - outcome) ** 2)) if len(score_array) else 0.0,
        selected=mean_or_none([one[0] for one in picked]),
        at_random=mean_or_none([one[1] for one in picked]),
        at_best=mean_or_none([one[2] for one in picked]),
        bins=bins,
    )


def _columns(scores: Sequence[float], passed: Sequence[bool]) -> tuple[Floats, Floats]:
    score_array, outcome = np.asarray(scores, dtype=np.float64), np.asarray(passed, dtype=np.float64)
    if score_array.shape != outcome.shape or score_array.ndim != 1:
        raise ValueError(f"{len(scores)} scores for {len(passed)} outcomes")
    if not bool(np.all((score_array >= 0) & (score_array <= 1))):
        raise ValueError("a score is in [0, 1]")
    return score_array, outcome


def _groups(tasks: Sequence[str]) -> list[npt.NDArray[np.intp]]:
    place = _task_codes(tasks)
    order = np.argsort(place, kind="stable")
    return np.split(order, np.cumsum(np.bincount(place))[:-1]) if len(place) else []


def _task_codes(tasks: Sequence[str]) -> npt.NDArray[np.intp]:
    """Returns each attempt's position among the sorted tasks."""
    return np.unique(np.asarray(tasks, dtype=str), return_inverse=True)[1]


def _pick_outcomes(scores: Floats, outcome: Floats) -> tuple[float, float, float]:
    """Returns the outcome of the highest score, of a random draw, and of the best."""
    return float(outcome[scores == scores.max()].mean()), float(outcome.mean()), float(outcome.max())


def _auc_interval(
    score_array: Floats, outcome: Floats, places: npt.NDArray[np.intp], drawn: tuple[float, int]
) -> Interval | None:
    """Resamples tasks with replacement; each count weights its attempts."""
    confidence, seed = drawn
    normal_quantile(confidence)
    tasks = int(places.max()) + 1 if len(places) else 0
    if tasks < 2:
        return None
    known, score = np.unique(score_array, return_inverse=True)
    draw, found = np.random.default_rng(seed), []
    for _ in range(REPLICATES // 4):
        weights = np.bincount(draw.integers(0, tasks, tasks), minlength=tasks)[places]
        good = np.bincount(score, weights * outcome, len(known))
        bad = np.bincount(score, weights * (1 - outcome), len(known))
        pairs = float(good.sum() * bad.sum())
        if pairs:
            found.append(float(good @ (np.cumsum(bad) - bad / 2)) / pairs)
    return _interval_or_none(found, confidence)


def _interval_or_none(samples: Sequence[float], confidence: float) -> Interval | None:
    normal_quantile(confidence)
    if len(samples) < 100:
        return None
    return percentiles(samples, confidence)
