"""Several tries on real repairs: best-of-n, retry and vote beside one try (results: `several-tries.md`).

The combinators start each try from scratch with a seed of its own, and choose by what the tries ended with. So their
outcomes need no runs of their own: of three independent attempts of the agent at a task, each order is what a
combinator would have made, and the mean over all orders estimates its success with less work and less noise than runs
of every combinator. Judged are the same things: `verdict` is the outcome (an upper bound), the visible tests are what
the agent itself reports of them at its end, and a vote counts digests of final states.

Set before the run with `--record`: `repair` with a budget of 20 evaluations a try on the 24 synthesised tasks of
`assay demo`, in the five seeds of `experiments.refused_skills`. The three tries of a seed are the attempts without a
skill of its three trials, which are of this agent, budget and tasks, and have a run seed of their own in each trial;
their six orders are what a combinator might have made in that seed. Success and cost of all arms, gains by seed, and
paired by task, averaged over seeds, with intervals over tasks. No bar: the figures are reported as they are.

    python -m experiments.refused_skills .assay/demo-tasks-0-24 --store STORE
    python -m experiments.repair_tries --store STORE
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import msgspec

from assay.learning.skills.library import SkillLibrary
from assay.records import Trajectory
from assay.settings import Settings
from assay.store import RunStore, final_rows

from ._paired import mean_cell, range_cell
from ._results import Recording, Table
from ._running import make_parser, open_recording
from .refused_skills import SEEDS

TRIALS = ("harmful", "learnt", "null")
"""Trials of a seed, of whose attempts without a skill the tries are."""


class RepairTry(NamedTuple):
    """How one try ended."""

    passed: bool
    says_done: bool
    """True if the agent reports that all visible tests pass."""
    state: str
    """Digest of the final files."""
    turns: int
    evaluations: int


class Choice(NamedTuple):
    """The try that a combinator hands in, and the tries that it made."""

    chosen: RepairTry
    made: Sequence[RepairTry]


def take_best(tries: Sequence[RepairTry]) -> Choice:
    """Takes the first of the tries that pass, else the first, as `best-of` with the verdict."""
    return Choice(max(tries, key=lambda one: one.passed), tries)


def take_first_done(tries: Sequence[RepairTry]) -> Choice:
    """Takes the first try whose agent reports success, else the first, as `retry` with the visible tests."""
    for number, one in enumerate(tries, 1):
        if one.says_done:
            return Choice(one, tries[:number])
    return Choice(tries[0], tries)


def take_majority(tries: Sequence[RepairTry]) -> Choice:
    """Takes the first of the tries whose final state most of them share, as `vote`."""
    counts = Counter(one.state for one in tries)
    return Choice(max(tries, key=lambda one: counts[one.state]), tries)


ARMS: dict[str, Callable[[Sequence[RepairTry]], Choice]] = {
    "the agent": lambda tries: Choice(tries[0], tries[:1]),
    "best of 3, verdict": take_best,
    "retry up to 3, visible tests": take_first_done,
    "vote of 3": take_majority,
}


def find_runs(settings: Settings) -> list[str]:
    """Returns the runs without a skill of the trials of one seed, which had one look each."""
    library = SkillLibrary(settings.store)
    trials = [entry.trial for name in TRIALS for entry in library.entries(name)]
    return [run for one in trials if one is not None for arm in one.arms if arm.name == "none" for run in arm.runs]


def read_tries(settings: Settings, run: str) -> dict[str, RepairTry]:
    """Returns how the attempts of a run ended, by task."""
    with RunStore.open(settings.store, run) as store:
        return {row.task: read_try(store.trajectory(row.chain)) for row in final_rows(store.attempts())}


def read_try(made: Trajectory) -> RepairTry:
    """Returns how a recorded attempt ended."""
    ended = (made.finished.ended if made.finished is not None else None) or ""
    states = [item.data["digest"] for item in made.evidence if item.kind == "snapshot"]
    number = re.search(r"after (\d+) evaluations", ended)
    return RepairTry(
        made.outcome == "pass",
        ended.startswith("all visible tests pass"),
        states[-1] if states else made.attempt,
        len(made.steps),
        int(number[1]) if number else 0,
    )


def expect(
    tries: Sequence[RepairTry], choose: Callable[[Sequence[RepairTry]], Choice]
) -> tuple[float, float, float, float]:
    """Returns success, turns, evaluations and tries of a combinator, each the mean over all orders of the tries."""
    found = [choose(some) for some in itertools.permutations(tries)]
    return (
        fmean(one.chosen.passed for one in found),
        fmean(sum(each.turns for each in one.made) for one in found),
        fmean(sum(each.evaluations for each in one.made) for one in found),
        fmean(len(one.made) for one in found),
    )


Tries = Mapping[str, Sequence[RepairTry]]
"""The tries of one seed by task."""


def report(seeds: Sequence[Tries], recording: Recording) -> None:
    """Reports all arms against one try."""
    tasks = sorted(seeds[0])
    made = {name: [[expect(one[task], choose) for task in tasks] for one in seeds] for name, choose in ARMS.items()}
    base, rows = made["the agent"], []
    for name, found in made.items():
        gains = [
            [arm[0] - one[0] for arm, one in zip(arms, ones, strict=True)]
            for arms, ones in zip(found, base, strict=True)
        ]
        shown = ["-", "-"]
        if found is not base:
            shown = [mean_cell([fmean(one) for one in zip(*gains, strict=True)]), range_cell([*map(fmean, gains)])]
        passed, *costs = (fmean(cell[column] for one in found for cell in one) for column in range(4))
        rows.append([name, f"{passed:.3f}", *shown, *(f"{cost:.1f}" for cost in costs)])
    every = {task: [one for seed in seeds for one in seed[task]] for task in tasks}
    passes, number = Counter(sum(one.passed for one in tries) for tries in every.values()), len(every[tasks[0]])
    by_passes = [[f"{count} of {number}", str(passes[count])] for count in sorted(passes)]
    flat = [one for tries in every.values() for one in tries]
    columns = ["arm", "passed", "gain over one try [95%]", "by seed", "turns", "evaluations", "tries"]
    recording.write(
        {"arms": Table(columns, rows), "tasks": Table(["tries that pass", "tasks"], by_passes)},
        says_done=fmean(one.says_done for one in flat),
        says_done_and_passes=fmean(one.says_done and one.passed for one in flat),
        passes=fmean(one.passed for one in flat),
        passes_by_task={name: [int(one.passed) for one in tries] for name, tries in every.items()},
    )


def collect(settings: Settings) -> dict[str, list[RepairTry]]:
    """Returns the tries of one seed by task. Raises `SystemExit` where a trial was not run."""
    tasks: dict[str, list[RepairTry]] = {}
    for name in find_runs(settings):
        for task, one in read_tries(settings, name).items():
            tasks.setdefault(task, []).append(one)
    if not tasks or {len(tries) for tries in tasks.values()} != {len(TRIALS)}:
        raise SystemExit(f"{settings.store} does not hold {len(TRIALS)} tries of each task: run refused_skills there")
    return tasks


def main() -> None:
    """Runs the experiment."""
    parser = make_parser(__doc__, seeds=SEEDS)
    given = parser.parse_args()
    if given.store is None:
        parser.error("--store is that of `experiments.refused_skills`")
    recording = open_recording("repair-tries", "repair_tries --store STORE", given, __doc__, SEEDS)
    settings = Settings.from_environment()
    stores = [msgspec.structs.replace(settings, store=given.store / str(seed)) for seed in recording.seeds]
    report([collect(one) for one in stores], recording)


if __name__ == "__main__":
    main()
