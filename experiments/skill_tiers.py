"""Worth of tiers of skills, and how often they move a skill wrongly (`docs/experiments/skills.md#tiers`)

A library of eight released skills is used for 20 weeks of 30 tasks; three of the skills, drawn at random, fit each task
by their words. A task is tried twice with the chosen skill, and at one task in three twice without any. After each week
`next_tier` moves the skills by all that was recorded.

    python -m experiments.skill_tiers --record
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from assay.learning.skills.records import SkillTier
from assay.learning.skills.tiers import next_tier
from assay.learning.skills.usage import LEAST_TASKS, VersionUsage
from assay.statistics import difference_interval

from ._results import Table
from ._running import make_parser, open_recording

WEEKS, TASKS, FITTING, ATTEMPTS = 20, 30, 3, 2
LIBRARIES = {
    "two help (+20 points), three do nothing, three harm (-20)": (0.2, 0.2, 0.0, 0.0, 0.0, -0.2, -0.2, -0.2),
    "none does anything": (0.0,) * 8,
}
Choose = Callable[[Sequence[int], Sequence[SkillTier]], int | None]


class Played(NamedTuple):
    """Pass rate of the last ten weeks with and without tiers, with no skill, and with the best fitting one; the share
    of skills in a tier that their effect contradicts."""

    tiers: float
    words: float
    none: float
    best: float
    wrong: float


def by_tier(fitting: Sequence[int], tiers: Sequence[SkillTier]) -> int | None:
    """Returns the first proven skill, else the first new one; None where all were demoted."""
    offered = [one for one in fitting if tiers[one] in ("proven", "new")]
    return min(offered, key=lambda one: tiers[one] != "proven", default=None)


def play(effects: Sequence[float], choose: Choose, seed: int) -> tuple[float, list[SkillTier]]:
    """Returns the pass rate of the last ten weeks, and the tiers at the end."""
    draw = np.random.default_rng(seed)
    tiers: list[SkillTier] = ["new"] * len(effects)
    differences: list[list[float]] = [[] for _ in effects]
    late: list[float] = []
    for week in range(WEEKS):
        for _ in range(TASKS):
            rate, fitting = draw.beta(2, 2), draw.permutation(len(effects))[:FITTING].tolist()
            chosen = choose(fitting, tiers)
            effect = 0.0 if chosen is None else effects[chosen]
            passed = draw.binomial(ATTEMPTS, np.clip(rate + effect, 0, 1)) / ATTEMPTS
            if draw.random() < 1 / 3 and chosen is not None:
                differences[chosen].append(passed - draw.binomial(ATTEMPTS, rate) / ATTEMPTS)
            late += [passed] if week >= WEEKS - 10 else []
        tiers = [next_tier(tier, _usage(own)) for tier, own in zip(tiers, differences, strict=True)]
    return float(np.mean(late)), tiers


def _usage(differences: Sequence[float]) -> VersionUsage | None:
    interval = difference_interval(differences) if len(differences) >= LEAST_TASKS else None
    if interval is None:
        return None
    return VersionUsage("", 0, 0, 0, len(differences), float(np.mean(differences)), *interval)


def compare(effects: Sequence[float], seed: int) -> Played:
    """Plays all policies with the same seed."""
    rate, tiers = play(effects, by_tier, seed)
    wrong = np.mean(
        [
            (tier == "proven" and effect <= 0) or (tier == "demoted" and effect >= 0)
            for tier, effect in zip(tiers, effects, strict=True)
        ]
    )
    words = play(effects, lambda fitting, _: fitting[0], seed)[0]
    best = play(effects, lambda fitting, _: max(fitting, key=lambda one: effects[one]), seed)[0]
    return Played(rate, words, play(effects, lambda _fitting, _tiers: None, seed)[0], best, float(wrong))


def make_table(number: int) -> Table:
    """Returns the pass rates of the last ten weeks."""
    rows = []
    for name, effects in LIBRARIES.items():
        found = np.array([compare(effects, seed) for seed in range(number)])
        mean = Played(*found.mean(axis=0))
        gain = found[:, 0] - found[:, 1]
        error = 1.96 * gain.std(ddof=1) / np.sqrt(number)
        rates = [f"{mean.none:.3f}", f"{mean.words:.3f}", f"{mean.tiers:.3f} ({gain.mean():+.3f} ± {error:.3f})"]
        rows.append([name, *rates, f"{mean.best:.3f}", f"{mean.wrong:.1%}"])
    columns = ["library", "no skill", "by words alone", "with tiers", "always the best", "in a wrong tier"]
    return Table(columns, rows)


def main() -> None:
    """Prints a table."""
    parser = make_parser(__doc__, store=False)
    parser.add_argument("--number", type=int, default=200, help="simulations of each library")
    given = parser.parse_args()
    plan = f"{__doc__}\n{given.number:,} simulations of each library, seeds from 0."
    recording = open_recording("skill-tiers", "skill_tiers", given, plan, [0])
    recording.write({"libraries": make_table(given.number)})


if __name__ == "__main__":
    main()
