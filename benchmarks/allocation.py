"""Where attempts teach something: useful gradient an attempt of each allocation, beside uniform.

    python -m benchmarks.allocation [--quick]

Simulated: 200 tasks whose success rates are drawn, 8 attempts each on average; the rates are known, so `p (1 - p)` is
the truth. In worlds: tasks of a family, an expert that errs, real runs with every attempt recorded and verified; the
signal is the unbiased variance of the scores in a group, over all attempts. A group is what a trainer compares:
attempts at one task from its start, or forks from one state. Intervals are Student's 95% over paired experiments (same
rates, same tasks) of the ratio to uniform.

Curricula: a learner whose skill grows with the gradient it gets, over six levels; how many times sooner it masters the
hardest than with levels drawn evenly. Early stop: what it saves and how often it was wrong, as its controls tell.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.limits.early_stop import stop_report
from assay.rollout.schedule.allocation import Policy, TaskHistory, squared_deviations
from assay.rollout.schedule.curriculum import History, LevelOutcomes, bandit, frontier, progress
from assay.rollout.schedule.policies import policy_named
from assay.rollout.schedule.rounds import score_of
from assay.settings import Settings
from assay.store import RunStore
from benchmarks._report import Report, Target, options

COLUMNS = ("part", "what", "policy", "mixed_percent", "signal", "times", "low", "high", "turns", "note")
RATES = {"most too easy or too hard": (0.3, 0.3), "most too hard": (0.2, 1.0), "all in the middle": (2.0, 2.0)}


class Where(NamedTuple):
    """Tasks, and the share of the expert's acts that are random."""

    sources: tuple[str, ...]
    noise: float


WORLDS = {
    "grid, 3 to 8 wide": Where(("family:grid,n=30,size=3", "family:grid,n=30,size=8,walls=6,seed=1"), 0.7),
    "grid, too easy to too hard": Where(
        (
            "family:grid,n=20,size=3,distance=1",
            "family:grid,n=20,size=6,seed=1",
            "family:grid,n=20,size=9,distance=12,turns=14,seed=2",
        ),
        0.6,
    ),
    "key-value": Where(("family:key-value,n=60",), 0.5),
    "sokoban": Where(("family:sokoban,n=60",), 0.55),
}
TASKS, ATTEMPTS = 200, 8
LEVELS, GROUP = 6, 8
TEACHERS: dict[str, Callable[[History, int], tuple[float, ...]]] = {
    "frontier": frontier,
    "progress": progress,
    "bandit": bandit,
}


class Useful(NamedTuple):
    """What a budget gave."""

    has_mixed_outcomes: float
    """Share of attempts in groups whose outcomes differ."""
    signal: float
    """Mean `p (1 - p)` over attempts."""
    turns: float = 0.0
    """Turns an attempt."""


def simulated(policy: Policy, rates: Sequence[float], draw: np.random.Generator) -> Useful:
    """One budget spent on tasks of known rates. A task's attempts are the same whoever asks for them."""
    coins = [np.random.default_rng(seed) for seed in draw.integers(0, 2**62, len(rates))]
    had: list[list[float]] = [[] for _ in rates]
    left = len(rates) * ATTEMPTS
    while left:
        for grant in policy.grants([TaskHistory(tuple(scores), (0,) * len(scores)) for scores in had], left):
            had[grant.task] += (coins[grant.task].random(grant.attempts) < rates[grant.task]).astype(float).tolist()
            left -= grant.attempts
    attempts = len(rates) * ATTEMPTS
    useful = sum(len(scores) for scores in had if len(set(scores)) > 1)
    truth = sum(len(scores) * rate * (1 - rate) for scores, rate in zip(had, rates, strict=True))
    return Useful(useful / attempts, truth / attempts)


def in_simulation(experiments: int, tasks: int) -> Iterator[dict[str, Any]]:
    """Rows of all policies over all distributions of rates."""
    for what, (a, b) in RATES.items():
        found: dict[str, list[Useful]] = defaultdict(list)
        for number in range(experiments):
            rates = np.random.default_rng([number, 1]).beta(a, b, tasks).tolist()
            for name in ("uniform", "halving", "uncertainty"):
                draw = np.random.default_rng([number, 2])
                found[name].append(simulated(policy_named(name, {}), rates, draw))
        yield from rows_of("simulated", what, found)


def in_worlds(seeds: int) -> Iterator[dict[str, Any]]:
    """Rows of all policies in real worlds."""
    for what, where in WORLDS.items():
        found: dict[str, list[Useful]] = defaultdict(list)
        for seed in range(seeds):
            for name in ("uniform", "halving", "uncertainty", "forks"):
                found[name].append(asyncio.run(_run(where, name, seed)))
        yield from rows_of("world", what, found)


async def _run(where: Where, policy: str, seed: int) -> Useful:
    config = RunConfig(
        tasks=where.sources,
        agent="expert",
        agent_options={"noise": where.noise},
        attempts=ATTEMPTS,
        allocate=policy,
        seed=seed,
        concurrency=8,
        run="r",
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(Path(folder), Path(folder))
        await start_run(config, settings, Tally())
        groups: dict[tuple[str, str | None], list[float]] = defaultdict(list)
        turns = attempts = 0
        with RunStore.open(settings.store, "r") as store:
            for row in store.attempts():
                fork = store.trajectory(row.chain).started.config.get("fork") if policy == "forks" else None
                score = score_of(row)
                turns, attempts = turns + row.steps, attempts + 1
                if score is not None:
                    groups[row.task, fork["state"] if fork else None].append(score)
    useful = sum(len(scores) for scores in groups.values() if len(set(scores)) > 1)
    held = sum(
        squared_deviations(scores) * len(scores) / (len(scores) - 1) for scores in groups.values() if len(scores) > 1
    )
    return Useful(useful / attempts, held / attempts, turns / attempts)


def rows_of(part: str, what: str, found: dict[str, list[Useful]]) -> Iterator[dict[str, Any]]:
    """Means, and the ratio of the signal to that of uniform, experiment by experiment."""
    base = np.array([one.signal for one in found["uniform"]])
    for name, several in found.items():
        ratio = np.array([one.signal for one in several])[base > 0] / base[base > 0]
        half = student(len(ratio)) * float(ratio.std(ddof=1)) / math.sqrt(len(ratio)) if len(ratio) > 1 else math.nan
        shown = name != "uniform" and len(ratio) > 1
        turns = float(np.mean([one.turns for one in several]))
        yield {
            "part": part,
            "what": what,
            "policy": name,
            "mixed_percent": round(100 * float(np.mean([one.has_mixed_outcomes for one in several])), 1),
            "signal": f"{float(np.mean([one.signal for one in several])):.3f}",
            "times": f"{float(ratio.mean()):.2f}" if len(ratio) else None,
            "low": f"{float(ratio.mean()) - half:.2f}" if shown else None,
            "high": f"{float(ratio.mean()) + half:.2f}" if shown else None,
            "turns": f"{turns:.1f}" if turns else None,
        }


def student(number: int) -> float:
    """The two-sided 95% quantile of a mean of so many."""
    from scipy.special import stdtrit

    return float(stdtrit(number - 1, 0.975))


def until_mastery(teacher: str | None, seed: int, most: int = 400) -> int:
    """Rounds until the hardest of the levels is passed 8 times of 10; each round gives 24 groups."""
    draw, skill = np.random.default_rng(seed), -1.0
    history: list[list[LevelOutcomes]] = []
    for number in range(most):
        rates = [1 / (1 + math.exp(-(skill - 1.5 * level))) for level in range(LEVELS)]
        if rates[-1] >= 0.8:
            return number
        shares = [1 / LEVELS] * LEVELS if teacher is None else TEACHERS[teacher](history, LEVELS)
        groups = draw.multinomial(4 * LEVELS, shares)
        passed = [draw.binomial(int(n) * GROUP, rate) for n, rate in zip(groups, rates, strict=True)]
        history.append([LevelOutcomes(float(p), int(n) * GROUP) for p, n in zip(passed, groups, strict=True)])
        gained = sum(int(n) * GROUP * rate * (1 - rate) for n, rate in zip(groups, rates, strict=True))
        skill += 0.004 * gained
    return most


def curricula(experiments: int) -> Iterator[dict[str, Any]]:
    """How many times sooner each teacher gets there than an even draw."""
    even = np.array([until_mastery(None, seed) for seed in range(experiments)])
    for name in TEACHERS:
        ratio = even / np.array([until_mastery(name, seed) for seed in range(experiments)])
        half = student(len(ratio)) * float(ratio.std(ddof=1)) / math.sqrt(len(ratio))
        mean = float(ratio.mean())
        yield {
            "part": "curriculum", "what": f"{LEVELS} levels, simulated learner", "policy": name,
            "times": f"{mean:.2f}", "low": f"{mean - half:.2f}", "high": f"{mean + half:.2f}",
        }  # fmt: skip


def early_stop(tasks: int) -> dict[str, Any]:
    """What ending hopeless attempts saves, and how often it was wrong."""

    async def tried(tolerated: float | None, folder: str) -> tuple[int, Any]:
        config = RunConfig(
            tasks=(f"family:grid,n={tasks},size=6,turns=40",), agent="expert", agent_options={"noise": 0.85},
            attempts=ATTEMPTS, early_stop=tolerated, concurrency=8, run="r",
        )  # fmt: skip
        settings = Settings(Path(folder), Path(folder))
        await start_run(config, settings, Tally())
        with RunStore.open(settings.store, "r") as store:
            return sum(row.steps for row in store.attempts()), stop_report(store.trajectories())

    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        whole, _ = asyncio.run(tried(None, first))
        cut, report = asyncio.run(tried(0.1, second))
    low, high = report.interval
    wrong = report.false_stop_rate
    return {
        "part": "early stop",
        "what": "grid, 6 wide, 40 turns, 10% tolerated",
        "policy": "uniform",
        "note": (
            f"{report.stopped} of {report.watched} ended, {100 * (1 - cut / whole):.1f}% of turns saved; of "
            f"{report.controls} controls {report.controls_passed} passed: false stops "
            + ("not known" if wrong is None else f"{wrong:.1%} ({low:.1%} to {high:.1%})")
        ),
    }


def main(arguments: list[str] | None = None) -> None:
    given = options("allocation", "Useful gradient an attempt.").parse_args(arguments)
    experiments, tasks, seeds = (8, 40, 2) if given.quick else (100, TASKS, 6)
    rows = [
        *in_simulation(experiments, tasks),
        *in_worlds(seeds),
        *curricula(experiments),
        early_stop(30 if given.quick else 100),
    ]
    lows = {(row["part"], row["policy"], row["what"]): row.get("low") for row in rows}
    extreme = "most too easy or too hard"
    worst = min(float(lows["simulated", name, extreme] or 0) for name in ("halving", "uncertainty"))
    targets = [
        Target("signal of uniform beside the worse adaptive allocation, extreme rates", "times",
               1.0, None if not worst else round(1 / worst, 3)),
    ]  # fmt: skip
    how = (
        f"Useful gradient an attempt beside uniform: {experiments} simulated budgets of {tasks} tasks x {ATTEMPTS}, "
        f"{seeds} runs a world and policy of an expert that errs; ratio to uniform with its 95% interval."
    )
    Report("allocation", how, rows, targets, {}).finish(COLUMNS, given.into)


if __name__ == "__main__":
    main()
