"""Predictive validity: agreement of rankings on different tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from ._clustered import REPLICATES, percentiles
from ._rates import Interval, normal_quantile
from ._summary import TaskCount

Floats = npt.NDArray[np.float64]
DRAWS = REPLICATES // 4
SMALL = 1e-9
"""Keeps the matrix of two nearly equal sides invertible, whose variances are 1."""


class RankAgreement(msgspec.Struct, frozen=True):
    """Spearman's correlation of two rankings."""

    value: float | None
    interval: Interval | None
    """Of the correlation of the true values, which noise attenuates: it is not centred at `value`."""
    n: int
    """Configurations."""


def rank_agreement(
    inside: Mapping[str, Sequence[float]],
    outside: Mapping[str, Sequence[float]],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    paired: bool = False,
) -> RankAgreement:
    """Measures whether the ranking of configurations on some tasks holds on others; each has a value for every task.
    With `paired`, both sides are of the same tasks in the same order, measured in two ways, and their noise is common.

    The interval is that of the true values' rank correlation, None with fewer than 2 tasks on a side. Resampling tasks
    alone adds noise, which attenuates a rank correlation: such percentiles cover the truth in 66 to 92% of experiments.
    Here the pairs of true values are drawn from their posterior: normal with an unknown covariance (an inverse Wishart
    around the observed one); the observed means differ from them as means over resampled tasks differ from the mean (a
    hierarchical normal model, Gelman et al., Bayesian Data Analysis, 3rd ed., chapters 3 and 5; conditioning by
    simulation after Matheron 1973).

    Raises:
        ValueError: The configurations differ, or do not have the same tasks; with `paired`, the sides have not.
    """
    normal_quantile(confidence)
    if set(inside) != set(outside):
        raise ValueError("both sides need the same configurations")
    names = sorted(inside)
    sides = [_matrix([side[name] for name in names]) for side in (inside, outside)]
    if paired and sides[0].shape != sides[1].shape:
        raise ValueError("paired sides need values for the same tasks")
    if len(names) < 3:
        return RankAgreement(None, None, len(names))
    found = _spearman(*(side.mean(axis=1)[None] for side in sides))
    if not len(found):
        return RankAgreement(None, None, len(names))
    if min(side.shape[1] for side in sides) < 2:
        return RankAgreement(float(found[0]), None, len(names))
    true = _true_values(sides, np.random.default_rng(seed), paired=paired)
    drawn = _spearman(true[:, 0], true[:, 1]).tolist()
    return RankAgreement(float(found[0]), percentiles(drawn, confidence), len(names))


def _true_values(sides: Sequence[Floats], draw: np.random.Generator, *, paired: bool) -> Floats:
    """Draws the true values given the observed ones, up to location and scale: [draws, 2, configurations]."""
    standardized = np.stack([side.mean(axis=1) for side in sides])
    standardized -= standardized.mean(axis=1, keepdims=True)
    unit = standardized.std(axis=1, keepdims=True)  # a ranking has none
    counts = [_resample(side.shape[1], draw) for side in (sides[:1] if paired else sides)]
    noise = np.stack([_noise(side, drawn) for side, drawn in zip(sides, counts * (1 + paired), strict=True)], axis=1)
    standardized, noise = standardized / unit, noise / unit
    free = standardized.shape[1] - 1
    spread = np.diag(noise.var(axis=0).sum(axis=1) / free)  # of one configuration's noise, [2, 2]
    if paired:
        spread[0, 1] = spread[1, 0] = float((noise[:, 0] * noise[:, 1]).mean(axis=0).sum()) / free
    true = _positive(_covariances(standardized @ standardized.T / free, free, draw) - spread)
    before = np.linalg.cholesky(true) @ draw.standard_normal(noise.shape)
    gain = true @ np.linalg.inv(true + spread)
    return np.asarray(before + gain @ (standardized - before - noise), dtype=np.float64)


def _resample(tasks: int, draw: np.random.Generator) -> Floats:
    """Returns how often each task is drawn, [draws, tasks]."""
    return np.asarray(draw.multinomial(tasks, np.full(tasks, 1 / tasks), size=DRAWS), dtype=np.float64)


def _noise(side: Floats, counts: Floats) -> Floats:
    """Returns the deviations of means over resampled tasks from the mean, [draws, configurations].

    The deviation common to all configurations moves no rank and is removed.
    """
    tasks = side.shape[1]
    apart = counts @ side.T / tasks - side.mean(axis=1)
    return np.asarray(apart - apart.mean(axis=1, keepdims=True), dtype=np.float64)


def cell_agreement(
    one: Mapping[str, Sequence[float]],
    other: Mapping[str, Sequence[float]],
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> RankAgreement:
    """Measures the rank correlation of two measures over all pairs of configuration and task.

    Both have a value for every pair, tasks in the same order. The interval is a percentile interval over resampled
    tasks, None for fewer than two; `n` counts the configurations.

    Raises:
        ValueError: The configurations or tasks differ.
    """
    normal_quantile(confidence)
    if set(one) != set(other):
        raise ValueError("both measures need the same configurations")
    names = sorted(one)
    sides = [_matrix([side[name] for name in names]) for side in (one, other)]
    if not names or sides[0].shape != sides[1].shape:
        raise ValueError("both measures need a value for the same tasks")
    found = _spearman(*(side.reshape(1, -1) for side in sides))
    if not len(found):
        return RankAgreement(None, None, len(names))
    tasks = sides[0].shape[1]
    if tasks < 2:
        return RankAgreement(float(found[0]), None, len(names))
    chosen = np.random.default_rng(seed).integers(0, tasks, (DRAWS, tasks))
    drawn = _spearman(*(side[:, chosen].transpose(1, 0, 2).reshape(DRAWS, -1) for side in sides))
    return RankAgreement(float(found[0]), percentiles(drawn, confidence), len(names))


def _covariances(scale: Floats, free: int, draw: np.random.Generator) -> Floats:
    """Draws from an inverse Wishart distribution with `free` degrees of freedom, [draws, 2, 2]."""
    normal = draw.standard_normal((DRAWS, 2, free))
    wishart = normal @ normal.swapaxes(1, 2) / free
    root = np.linalg.cholesky(scale + SMALL * np.eye(2))
    return np.asarray(root @ np.linalg.inv(wishart + SMALL * np.eye(2)) @ root.T, dtype=np.float64)


def _positive(matrices: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrices)
    least = SMALL * np.maximum(values[:, -1:], 1.0)  # below that, rounding decides about the sign
    return np.asarray((vectors * np.maximum(values, least)[:, None, :]) @ vectors.swapaxes(1, 2), dtype=np.float64)


def _matrix(rows: Sequence[Sequence[float]]) -> Floats:
    if len({len(row) for row in rows}) > 1 or (rows and not len(rows[0])):
        raise ValueError("every configuration needs a value for the same tasks, and at least one")
    return np.asarray(rows, dtype=np.float64)


def _spearman(one: Floats, other: Floats) -> Floats:
    """Returns the rank correlation of corresponding rows, without rows of equal values."""
    sides = [ranks - ranks.mean(axis=1, keepdims=True) for ranks in (ranks_of(one), ranks_of(other))]
    lengths = np.sqrt((sides[0] ** 2).sum(axis=1) * (sides[1] ** 2).sum(axis=1))
    kept = lengths > 1e-12
    return np.asarray((sides[0] * sides[1]).sum(axis=1)[kept] / lengths[kept], dtype=np.float64)


def ranks_of(values: Floats) -> Floats:
    """Returns the ranks in each row, from 1; ties share the mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(np.round(values, 12), axis=1), dtype=np.float64)


def split_halves(counts: Iterable[TaskCount]) -> tuple[tuple[TaskCount, ...], tuple[TaskCount, ...]]:
    """Splits tasks into alternating halves by name: in-sample and out-of-sample."""
    given = list(counts)
    first = set(sorted({count.task for count in given})[::2])
    return tuple(c for c in given if c.task in first), tuple(c for c in given if c.task not in first)


def predictive_validity(
    inside: Iterable[TaskCount], outside: Iterable[TaskCount], *, confidence: float = 0.95, seed: int = 0
) -> RankAgreement:
    """Computes the rank agreement of the configurations (agent with model) of both sides.

    Uses only tasks at which all of them were judged; without such a task on a side, or with fewer than three
    configurations, the value is missing.
    """
    sides = [_rates(inside), _rates(outside)]
    shared = sorted(sides[0].keys() & sides[1].keys(), key=repr)
    columns = []
    for side in sides:
        tasks = sorted(set.intersection(*(set(side[who]) for who in shared))) if shared else []
        columns.append({repr(who): [side[who][task] for task in tasks] for who in shared})
    if not all(all(column.values()) for column in columns):
        return RankAgreement(None, None, len(shared))
    return rank_agreement(*columns, confidence=confidence, seed=seed)


def _rates(counts: Iterable[TaskCount]) -> dict[tuple[str, str | None], dict[str, float]]:
    found: dict[tuple[str, str | None], dict[str, float]] = defaultdict(dict)
    for count in counts:
        if count.judged:
            found[count.agent, count.model][count.task] = count.passed / count.judged
    return found
