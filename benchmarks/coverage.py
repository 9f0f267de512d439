"""How often each interval holds the truth: simulated experiments with clustered outcomes, the naive interval beside.

    python -m benchmarks.coverage [--quick]

Each experiment draws tasks whose true rates follow a beta distribution with the given mean and intra-task correlation,
and attempts at them; the truth is the mean of that distribution, not the mean of the tasks drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from assay.statistics import (
    Interval,
    TaskCount,
    amount_interval,
    difference_interval,
    hierarchical_bootstrap,
    mean_interval,
    measure_robustness,
    outcome_consistency,
    pass_at_k,
    pass_hat_k,
    rank_agreement,
    report_card,
    task_bootstrap,
    wilson,
)
from benchmarks._report import Report, Target, options

EXPERIMENTS = 2000
NOMINAL = 0.95
WANTED = (0.93, 0.97)
Draw = np.random.Generator
Counts = npt.NDArray[np.intp]


class Experiment(NamedTuple):
    """How many tasks and attempts, at what rate, how alike attempts at one task are."""

    tasks: int
    attempts: int
    rate: float
    icc: float

    def rates(self, draw: Draw, tasks: int | None = None) -> npt.NDArray[np.float64]:
        """True rates of tasks."""
        whole = 1 / self.icc - 1
        return draw.beta(self.rate * whole, (1 - self.rate) * whole, tasks or self.tasks)

    def passed(self, draw: Draw) -> Counts:
        """How many attempts at each task passed."""
        return draw.binomial(self.attempts, self.rates(draw))


class Row(NamedTuple):
    """One interval in one design."""

    interval: str
    design: Experiment
    coverage: float
    width: float
    naive: float | None
    """Coverage of the interval that takes attempts for independent."""


MAIN = (
    Experiment(40, 4, 0.5, 0.4),
    Experiment(40, 4, 0.3, 0.4),
    Experiment(60, 8, 0.5, 0.3),
    Experiment(100, 2, 0.4, 0.5),
)
Made = Callable[[Experiment, Draw], tuple[Interval | None, Interval | None, float]]
"""The interval, the naive one, and the truth."""


def _pass_at_1(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    passed = design.passed(draw)
    found = mean_interval((passed / design.attempts).tolist(), most=design.tasks * design.attempts)
    return found, wilson(int(passed.sum()), design.tasks * design.attempts), design.rate


def _task_bootstrap(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    passed = design.passed(draw)
    found = task_bootstrap((passed / design.attempts).tolist(), replicates=1000)
    return found, wilson(int(passed.sum()), design.tasks * design.attempts), design.rate


def _hierarchical(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    passed = design.passed(draw)
    columns = [[1.0] * int(c) + [0.0] * (design.attempts - int(c)) for c in passed]
    found = hierarchical_bootstrap(columns, replicates=1000)
    return found, wilson(int(passed.sum()), design.tasks * design.attempts), design.rate


def _at_k(rate_of: Callable[[int, int, int], float], *, hat: bool) -> Made:
    def made(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
        k = 2
        passed = design.passed(draw)
        values = [rate_of(design.attempts, int(c), k) for c in passed]
        a = design.rate * (1 / design.icc - 1)
        b = (1 - design.rate) * (1 / design.icc - 1)
        all_pass = a * (a + 1) / ((a + b) * (a + b + 1))
        all_fail = b * (b + 1) / ((a + b) * (a + b + 1))
        truth = all_pass if hat else 1 - all_fail
        count = design.tasks * design.attempts
        naive = wilson(round(float(np.mean(values)) * count), count)
        return mean_interval(values, most=count), naive, truth

    return made


def _difference(which: str) -> Made:
    def made(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
        """Half of the tasks' rates are shared by both, so that they are correlated; the true difference is 0."""
        base, own, other = (design.rates(draw) for _ in range(3))
        both = draw.random(design.tasks) < 0.5
        sides = [draw.binomial(design.attempts, np.where(both, base, rates)) for rates in (own, other)]
        values = ((sides[1] - sides[0]) / design.attempts).tolist()
        rates = [float(side.sum()) / (design.tasks * design.attempts) for side in sides]
        half = 1.96 * float(np.sqrt(sum(r * (1 - r) for r in rates) / (design.tasks * design.attempts)))
        naive = Interval(rates[1] - rates[0] - half, rates[1] - rates[0] + half)
        found = difference_interval(values) if which == "student" else task_bootstrap(values, replicates=1000)
        return found, naive, 0.0

    return made


def _mean_score(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    """Scores between 0 and 1: a beta around each task's rate."""
    rates = np.clip(design.rates(draw), 0.02, 0.98)
    scores = draw.beta(rates * 5, (1 - rates) * 5, (design.attempts, design.tasks))
    flat = scores.reshape(-1)
    half = 1.96 * float(flat.std(ddof=1)) / np.sqrt(len(flat))
    naive = Interval(float(flat.mean() - half), float(flat.mean() + half))
    return mean_interval(scores.mean(axis=0).tolist()), naive, _clipped_mean(design)


_CLIPPED: dict[Experiment, float] = {}


def _clipped_mean(design: Experiment) -> float:
    if design not in _CLIPPED:
        drawn = design.rates(np.random.default_rng(1), 4_000_000)
        _CLIPPED[design] = float(np.clip(drawn, 0.02, 0.98).mean())
    return _CLIPPED[design]


def _auc(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    """Scores that are normal, a unit apart between passes and failures, with a shift of each task's own."""
    rates = design.rates(draw)
    passed = draw.random((design.tasks, design.attempts)) < rates[:, None]
    raw = passed + draw.normal(0, 1, passed.shape) + draw.normal(0, 1, design.tasks)[:, None]
    scores = 1 / (1 + np.exp(-raw))
    tasks = np.repeat(np.arange(design.tasks), design.attempts).astype(str).tolist()
    card = report_card(scores.reshape(-1).tolist(), passed.reshape(-1).tolist(), tasks)
    from scipy.stats import norm

    value, good, bad = card.auc or 0.5, int(passed.sum()), int((~passed).sum())
    half = 1.96 * _hanley(value, good, bad)
    return card.auc_interval, Interval(value - half, value + half), float(norm.cdf(1 / np.sqrt(4)))


def _hanley(auc: float, good: int, bad: int) -> float:
    """Hanley and McNeil (1982): the standard error where attempts are independent."""
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    square = auc * (1 - auc) + (good - 1) * (one - auc**2) + (bad - 1) * (two - auc**2)
    return float(np.sqrt(max(0.0, square) / max(1, good * bad)))


def _ratio(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    """The perturbed agent keeps 0.7 of each task's rate. The naive one: of a risk ratio (Katz et al. 1978)."""
    rates = design.rates(draw)
    sides = [draw.binomial(design.attempts, rates * factor) for factor in (1.0, 0.7)]
    counts = [
        [TaskCount("a", None, str(n), int(c), design.attempts - int(c), 0, 0) for n, c in enumerate(side)]
        for side in sides
    ]
    total, (plain, hurt) = design.tasks * design.attempts, (int(side.sum()) for side in sides)
    half = 1.96 * np.sqrt(1 / max(1, plain) - 1 / total + 1 / max(1, hurt) - 1 / total)
    ends = [float(hurt / max(1, plain) * np.exp(way * half)) for way in (-1, 1)]
    return measure_robustness(*counts).ratio_interval, Interval(*ends), 0.7


def _amount(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    """Costs with a long tail: lognormal between tasks (0.6) and within (0.5)."""
    between = draw.normal(0, 0.6, design.tasks)
    costs = np.exp(between + draw.normal(0, 0.5, (design.attempts, design.tasks)))
    flat = costs.reshape(-1)
    half = 1.96 * float(flat.std(ddof=1)) / np.sqrt(len(flat))
    naive = Interval(float(flat.mean() - half), float(flat.mean() + half))
    return amount_interval(costs.mean(axis=0).tolist()), naive, float(np.exp((0.6**2 + 0.5**2) / 2))


def _consistency(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    """The naive one: of the squares as they are observed."""
    passed = design.passed(draw)
    counts = [TaskCount("a", None, str(n), int(c), design.attempts - int(c), 0, 0) for n, c in enumerate(passed)]
    found = outcome_consistency(counts)
    made = None if found.low is None or found.high is None else Interval(found.low, found.high)
    naive = mean_interval(((2 * passed / design.attempts - 1) ** 2).tolist())
    spread = design.rate * (1 - design.rate) * (1 - design.icc)  # the mean of p (1 - p)
    return made, naive, 1 - 4 * spread


def _rank(design: Experiment, draw: Draw) -> tuple[Interval | None, Interval | None, float]:
    """Eight configurations whose true rates differ somewhat on the other tasks; the truth is that of the true rates.

    The naive one: percentiles over tasks drawn with replacement.
    """
    from scipy.stats import rankdata, spearmanr

    inside = draw.uniform(design.rate - 0.3, design.rate + 0.3, 8)
    outside = inside + draw.normal(0, 0.08, 8)
    sides = []
    for rates in (inside, outside):
        hard = draw.normal(0, 0.15, design.tasks)
        true = np.clip(rates[:, None] + hard, 0, 1)
        sides.append(
            {str(n): (draw.binomial(design.attempts, row) / design.attempts).tolist() for n, row in enumerate(true)}
        )
    ranks = [rankdata(_redrawn(np.array(list(side.values())), seed), axis=1) for seed, side in enumerate(sides)]
    one, other = (each - each.mean(axis=1, keepdims=True) for each in ranks)
    found = (one * other).sum(axis=1) / np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    naive = Interval(*np.quantile(found, [(1 - NOMINAL) / 2, (1 + NOMINAL) / 2]).tolist())
    return rank_agreement(*sides).interval, naive, float(spearmanr(inside, outside).statistic)


def _redrawn(values: npt.NDArray[np.float64], seed: int) -> npt.NDArray[np.float64]:
    """Means over tasks drawn with replacement, [draws, configurations]."""
    tasks = values.shape[1]
    counts = np.random.default_rng(seed).multinomial(tasks, np.full(tasks, 1 / tasks), size=500)
    return np.asarray(counts @ values.T / tasks, dtype=np.float64)


INTERVALS: dict[str, Made] = {
    "pass@1 (to quote)": _pass_at_1,
    "pass@1, tasks resampled": _task_bootstrap,
    "pass@1, hierarchical bootstrap": _hierarchical,
    "pass@2": _at_k(pass_at_k, hat=False),
    "pass^2": _at_k(pass_hat_k, hat=True),
    "mean score": _mean_score,
    "difference, Student over tasks": _difference("student"),
    "difference, paired bootstrap": _difference("bootstrap"),
    "AUC of a score": _auc,
    "robustness ratio": _ratio,
    "what an attempt costs": _amount,
    "consistency of outcomes": _consistency,
    "rank agreement": _rank,
}
SLOW = {"rank agreement", "AUC of a score", "pass@1, hierarchical bootstrap", "robustness ratio"}
"""Tried in two designs."""


def measured(name: str, design: Experiment, experiments: int, seed: int = 0) -> Row:
    """Coverage of one interval in one design."""
    draw = np.random.default_rng([seed, sorted(INTERVALS).index(name)])
    hits, naive_hits, naive_made, widths = 0, 0, 0, []
    for _ in range(experiments):
        found, naive, truth = INTERVALS[name](design, draw)
        hits += found is not None and found.low - 1e-9 <= truth <= found.high + 1e-9
        widths.append(found.high - found.low if found is not None else 1.0)
        if naive is not None:
            naive_made += 1
            naive_hits += naive.low <= truth <= naive.high
    share = naive_hits / naive_made if naive_made else None
    return Row(name, design, hits / experiments, float(np.median(widths)), share)


def report_of(experiments: int) -> Report:
    """All intervals in their designs; the promise of each is its worst distance from the nominal level."""
    rows: list[dict[str, Any]] = []
    targets = []
    for name in INTERVALS:
        found = []
        for design in MAIN[:2] if name in SLOW else MAIN:
            row = measured(name, design, experiments)
            found.append(row)
            rows.append(_shown(row))
            sys.stderr.write(f"{name}, {design.tasks} x {design.attempts}: {row.coverage:.1%}\n")
        far = max(abs(row.coverage - NOMINAL) for row in found)
        targets.append(Target(f"coverage of a nominal 95% interval beside 95%: {name}", "points", 2.0, 100 * far))
    how = f"Coverage of nominal 95% intervals in {experiments} simulated experiments each."
    return Report("coverage", how, rows, targets, {})


def _shown(row: Row) -> dict[str, Any]:
    design = row.design
    return {
        "interval": row.interval,
        "design": f"{design.tasks} x {design.attempts}",
        "rate": design.rate,
        "icc": design.icc,
        "coverage_percent": round(100 * row.coverage, 1),
        "naive_percent": None if row.naive is None else round(100 * row.naive, 1),
        "width": round(row.width, 3),
    }


def main() -> None:
    """See the module."""
    given = options("coverage", __doc__ or "").parse_args()
    columns = ("interval", "design", "rate", "icc", "coverage_percent", "naive_percent", "width")
    report_of(200 if given.quick else EXPERIMENTS).finish(columns, given.into)


if __name__ == "__main__":
    main()
