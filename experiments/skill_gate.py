"""How often does the gate of `assay skills trial` accept? `docs/experiments/skills.md` has the plan and the results.

Everything runs through the decision function of a trial. A case is a way to draw the pass counts of 100 tasks with 4
attempts in three arms; the limit is the power of the most powerful exact test of tasks, whose weights an oracle chooses
that knows each task's rate and the effect.

Set before the runs: of 1,000 searches of 20 worthless candidates the gate accepts at most 5% (nominally 3%), and the
mean at least 85%; a gain of 10 points is accepted in at least 90%.

    python -m experiments.skill_gate search --record     # and power, nulls, limit, reserve, harm
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.learning.skills.decision import (
    TaskPasses,
    TrialDecision,
    TrialDesign,
    add_harm_check,
    choose_harm_tasks,
    decide_trial,
)
from assay.statistics import SequentialTest, TaskScore

from ._results import Bar, Table
from ._running import make_parser, open_recording

TASKS, ATTEMPTS, ALPHA = 100, 4, 0.05
Counts = NDArray[np.int64]


class Case(NamedTuple):
    """A way to draw a trial. Task rates are Beta(shape, shape) x 0.9."""

    name: str
    shape: float = 1.0
    skill: float = 0.0
    placebo: float = 0.0
    shared: float = 0.0
    """Chance that an attempt has the same draw in all arms, as equal seeds give it."""
    interaction: float = 0.0
    """Standard deviation of an effect of each text on each task, with mean 0."""
    tilt: float = 0.0
    """The skill adds this to tasks of extreme rates and takes as much from the others, with mean 0 over the tasks."""
    lumped: bool = False
    """With the skill all attempts at a task end alike, at the same rate."""
    agreed: bool = False
    """In every arm all attempts at a task end alike."""
    copied: bool = False
    """The placebo changes nothing: with equal seeds its attempts end as those without the skill."""


POWER = (
    Case("+10 points, U-shaped rates", 0.5, skill=0.1),
    Case("+10 points, uniform rates", 1.0, skill=0.1),
    Case("+10 points, peaked rates, 30% shared draws", 2.0, skill=0.1, shared=0.3),
    Case("+10 points, uniform rates, the placebo ends as no skill does", 1.0, skill=0.1, copied=True),
    Case("+10 points, peaked rates, the placebo ends as no skill does", 2.0, skill=0.1, copied=True),
    Case("+10 points, peaked rates", 2.0, skill=0.1),
)
NULLS = (
    Case("no effect"),
    Case("no effect, 30% shared draws", shared=0.3),
    Case("no effect, all attempts at a task alike", agreed=True),
    Case("no effect, rates below .1", 0.5),
    Case("no effect, the placebo ends as no skill does", copied=True),
    Case("not better than the placebo, both +10 points", skill=0.1, placebo=0.1),
    Case("not better than none, the placebo -10 points", placebo=-0.1),
    Case("mean 0: each text moves each task by 20 points", interaction=0.2),
    Case("mean 0: +15 points at extreme rates, -15 at others", tilt=0.15),
    Case("mean 0: with the skill all attempts at a task alike", lumped=True),
)


def draw_arms(draw: np.random.Generator, case: Case, tasks: int = TASKS) -> tuple[Counts, Counts, Counts]:
    """Returns the passes at each task without the skill, with it, and with the placebo."""
    rates = draw.beta(case.shape, case.shape, tasks) * (0.1 if "below .1" in case.name else 0.9)
    common, is_shared = draw.random((tasks, ATTEMPTS)), draw.random((tasks, ATTEMPTS)) < case.shared
    arms = []
    for number, effect in enumerate((0.0, case.skill, case.placebo)):
        shifted = rates + effect + (draw.normal(0, case.interaction, tasks) if case.interaction and number else 0.0)
        if case.tilt and number == 1:
            signs = np.where(np.abs(rates - 0.45) > 0.225, 1.0, -1.0)
            shifted = rates + case.tilt * (signs - signs.mean())
        values = np.where(is_shared, common, draw.random((tasks, ATTEMPTS)))
        if case.agreed or (case.lumped and number == 1):
            values = np.repeat(draw.random((tasks, 1)), ATTEMPTS, axis=1)
        arms.append((values < shifted[:, None]).sum(axis=1))
    return arms[0], arms[1], arms[0] if case.copied else arms[2]


def decide(passes: Sequence[TaskPasses], attempts: int = ATTEMPTS, looks: int = 3) -> TrialDecision:
    """Returns the decision of a trial with equal looks."""
    ends = [round(len(passes) * part / looks) for part in range(looks + 1)]
    parts = [passes[start:end] for start, end in pairwise(ends)]
    decision = decide_trial(parts, TrialDesign(ALPHA, len(passes), attempts))
    assert decision is not None
    return decision


class Rates(NamedTuple):
    """How often trials end how."""

    accepted: float
    accepted_alone: float
    """Without the placebo arm."""
    harmful: float
    """With it, the skill is called harmful."""
    tasks: float
    """Tasks tried."""
    number: int

    @property
    def shown(self) -> str:
        """Rate of acceptance with the 95% error of the simulation."""
        return f"{self.accepted:.3f} ± {1.96 * np.sqrt(self.accepted * (1 - self.accepted) / self.number):.3f}"


def simulate(case: Case, seeds: range, tasks: int = TASKS, looks: int = 3) -> Rates:
    """Simulates a trial of a case for each seed."""
    found = []
    for seed in seeds:
        none, skill, placebo = draw_arms(np.random.default_rng(seed), case, tasks)
        passes = [
            TaskPasses(f"t{n:03}", *map(int, row)) for n, row in enumerate(zip(none, skill, placebo, strict=True))
        ]
        alone = decide([one._replace(placebo=None) for one in passes], looks=looks)
        both = decide(passes, looks=looks)
        found.append((both.accepted, alone.accepted, "harm" in both.causes, both.tasks))
    accepted, alone_accepted, harmful, tried = np.mean(found, axis=0).tolist()
    return Rates(accepted, alone_accepted, harmful, tried, len(seeds))


def report_power(seeds: range) -> tuple[Table, list[Bar]]:
    """Returns how often a gain of 10 points is accepted."""
    found = {case: simulate(case, seeds) for case in POWER}
    rows = [[case.name, one.shown, f"{one.accepted_alone:.3f}", f"{one.tasks:.0f}"] for case, one in found.items()]
    bars = [Bar(f"{case.name} accepted in at least .90", one.shown, one.accepted >= 0.9) for case, one in found.items()]
    return Table(["gain and rates", "with the placebo arm", "without it", "tasks tried"], rows), bars


def report_nulls(seeds: range) -> tuple[Table, list[Bar]]:
    """Returns how often a worthless skill is accepted, and called harmful."""
    rows = []
    for case in NULLS:
        one = simulate(case, seeds)
        rows.append([case.name, one.shown, f"{one.accepted_alone:.3f}", f"{one.harmful:.3f}", f"{one.tasks:.0f}"])
    columns = ["case", "accepted with the placebo arm", "without it", "called harmful", "tasks tried"]
    return Table(columns, rows), []


def report_reserves(seeds: range) -> tuple[Table, list[Bar]]:
    """Returns the power of larger plans, whose early looks save what the later ones add, in the case of least power."""
    rows = []
    for tasks, looks in ((100, 3), (110, 3), (120, 4), (130, 4)):
        one = simulate(POWER[-1], seeds, tasks, looks)
        plan = f"planned {tasks} tasks, {looks} looks"
        rows.append([plan, one.shown, f"{one.accepted_alone:.3f}", f"{one.tasks:.0f}"])
    return Table([POWER[-1].name, "with the placebo arm", "without it", "tasks tried"], rows), []


def report_searches(seeds: range) -> tuple[Table, list[Bar]]:
    """Returns how often a search of 20 worthless candidates is accepted by its own mean, and by one gate."""
    found = [_search(np.random.default_rng(seed)) for seed in seeds]
    naive, both, alone = (float(rate) for rate in np.mean(found, axis=0))
    rows = [
        ["by the mean on its own tasks", f"{naive:.3f}"],
        ["by the gate, without the placebo arm", f"{alone:.3f}"],
        ["by the gate, with it", f"{both:.3f}"],
    ]
    worst = max(both, alone)
    bars = [
        Bar("worthless searches accepted by the gate in at most 5%", f"{both:.3f}, without placebo {alone:.3f}",
            worst <= 0.05),
        Bar("accepted by the mean in at least 85%", f"{naive:.3f}", naive >= 0.85),
    ]  # fmt: skip
    return Table(["worthless search", "accepted"], rows), bars


def _search(draw: np.random.Generator) -> tuple[bool, bool, bool]:
    """Returns who accepts the best of 20 candidates by its mean on 40 tasks; the gate uses 40 fresh tasks."""
    rates = draw.beta(2, 2, 40)
    base = draw.binomial(1, rates).mean()
    best = max(draw.binomial(1, rates).mean() for _ in range(20))
    fresh = draw.beta(2, 2, 40)
    arms = [draw.binomial(1, fresh).tolist() for _ in range(3)]
    passes = [TaskPasses(f"t{n}", *counts) for n, counts in enumerate(zip(*arms, strict=True))]
    alone = decide([one._replace(placebo=None) for one in passes], 1)
    return bool(best > base), decide(passes, 1).accepted, alone.accepted


def report_harm(seeds: range) -> tuple[Table, list[Bar]]:
    """Returns how often harm is named on few and hard tasks, without a harm check and with one, and what the check
    costs: 24 tasks, of which 9 pass in 95% without the skill and at another rate with it, and 15 in 10% either way."""
    rows = []
    for kept in (0.95, 0.7, 0.5, 0.3, 0.1):
        rates = np.array([[0.95, kept]] * 9 + [[0.1, 0.1]] * 15)
        found = [_harm_trial(np.random.default_rng(seed), rates) for seed in seeds]
        plain, checked, attempts = np.mean(found, axis=0)
        rows.append([f"0.95 and {kept:.2f}", f"{plain:.3f}", f"{checked:.3f}", "48", f"{attempts:.0f}"])
    columns = ["the nine tasks pass in, without and with", "without a harm check", "with one"]
    return Table([*columns, "attempts of the trial", "of the check (mean)"], rows), []


def _harm_trial(draw: np.random.Generator, rates: NDArray[np.float64], tries: int = 3) -> tuple[bool, bool, int]:
    """Returns whether harm is named without a check, and with one, and the attempts of the check."""
    first, again = draw.random(rates.shape) < rates, draw.binomial(tries, rates)
    passes = [TaskPasses(f"t{n:02}", *map(int, row)) for n, row in enumerate(first)]
    plain, design = TrialDesign(ALPHA, len(passes)), TrialDesign(ALPHA, len(passes), has_harm_check=True)
    alone, decision = decide_trial([passes], plain), decide_trial([passes], design)
    assert alone is not None
    assert decision is not None
    names = choose_harm_tasks(passes, decision, design)
    if names:
        tried = [TaskPasses(one.task, *map(int, again[n])) for n, one in enumerate(passes) if one.task in names]
        decision, _ = add_harm_check(decision, tried, tries, design)
    return "harm" in alone.causes, "harm" in decision.causes, 2 * tries * len(names)


def report_limits(seeds: range) -> tuple[Table, list[Bar]]:
    """Returns the power of the oracle's test in one look at all tasks, against each control and against both."""
    rows = []
    for case in POWER:
        if case.shared or case.copied:
            continue  # the oracle's weights are those of independent attempts
        found = []
        for seed in seeds:
            draw = np.random.default_rng(seed)
            rates = draw.beta(case.shape, case.shape, TASKS) * 0.9
            none, skill, placebo = (draw.binomial(ATTEMPTS, rates + effect) for effect in (0.0, case.skill, 0.0))
            odds = np.log((rates + case.skill) * (1 - rates) / np.maximum(1e-12, rates * (1 - rates - case.skill)))
            weights = np.maximum(1, np.rint(8 * np.minimum(odds, 8))).astype(int)
            crossed = [_crosses(skill, control, weights) for control in (none, placebo)]
            found.append((crossed[0], all(crossed)))
        one, both = np.mean(found, axis=0)
        rows.append([case.name, f"{both:.3f}", f"{one:.3f}"])
    return Table(["gain and rates", "against both controls", "against one"], rows), []


def _crosses(skill: Counts, control: Counts, weights: Counts) -> bool:
    """Returns whether the exact test with these weights is significant at 5%."""
    sums = (weights * (skill - control)).tolist()
    look = SequentialTest(ALPHA, TASKS).look([TaskScore(one, (one, -one)) for one in sums])
    return look.crossed


PARTS: dict[str, tuple[Callable[[range], tuple[Table, list[Bar]]], range]] = {
    "search": (report_searches, range(1_000)),
    "power": (report_power, range(10_000, 11_000)),
    "nulls": (report_nulls, range(10_000, 11_000)),
    "limit": (report_limits, range(10_000, 16_000)),
    "reserve": (report_reserves, range(10_000, 10_600)),
    "harm": (report_harm, range(20_000, 21_000)),
}
"""Parts with the seeds of their simulations."""


def main() -> None:
    """Runs one of the parts."""
    parser = make_parser(__doc__, list(PARTS), store=False)
    parser.add_argument("--number", type=int, help="simulations of each row; default: those of the plan")
    given = parser.parse_args()
    report, seeds = PARTS[given.part]
    seeds = seeds if given.number is None else range(seeds.start, seeds.start + given.number)
    plan = f"{__doc__}\n{len(seeds):,} simulations of each row, with the seeds from {seeds.start} on."
    recording = open_recording(f"skill-gate-{given.part}", f"skill_gate {given.part}", given, plan, [seeds.start])
    table, bars = report(seeds)
    recording.write({"simulated": table}, bars)


if __name__ == "__main__":
    main()
