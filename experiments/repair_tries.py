"""Several tries on real repairs: best-of-n, retry and vote beside one try (results: `several-tries.md`).

The combinators start each try from scratch with a seed of its own, and choose by what the tries ended with. So their
outcomes need no runs of their own: with several independent attempts of the agent at a task, each ordered choice of
three of them is what a combinator would have made, and the mean over all choices estimates its success with less work
and less noise than runs of every combinator. Judged are the same things: `verdict` is the outcome (an upper bound), the
visible tests are what the agent itself reports of them at its end, and a vote counts digests of final states.

Set before the run with `--record`: `repair` with a budget of 20 evaluations a try on the 24 synthesised tasks of
`assay demo`. Three tries of each task are the attempts without a skill of the trials of `experiments.refused_skills`,
which are of this agent, budget and tasks, and have a seed of their own in each trial; two more (run seeds 41 and 42)
are made here, so that each task has 60 ordered choices of three tries. Success and cost of all arms, gains paired by
task with their intervals over tasks. No bar: the figures are reported as they are.

    python -m experiments.refused_skills .assay/demo-tasks-0-24 --store STORE
    python -m experiments.repair_tries .assay/demo-tasks-0-24 --store STORE
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from assay.learning.skills.library import SkillLibrary
from assay.learning.trainer.rollouts import complete_run
from assay.records import Trajectory
from assay.rollout import RunConfig
from assay.settings import Settings
from assay.store import RunStore, final_rows

from ._paired import mean_cell
from ._results import Recording, Table
from ._running import make_parser, open_recording, open_store
from .refused_skills import BUDGET

SEEDS, TRIES = (41, 42), 3


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


async def make_run(folder: str, seed: int, settings: Settings) -> str:
    """Makes one attempt at each task, or continues the run that is there; returns its name."""
    run, options = f"tries-{seed}", {"budget": BUDGET}
    config = RunConfig(tasks=(folder,), agent="repair", agent_options=options, run=run, seed=seed, concurrency=2)
    await complete_run(config, settings)
    return run


def find_runs(settings: Settings) -> list[str]:
    """Returns the runs without a skill of all trials in the store, which had one look each."""
    library = SkillLibrary(settings.store)
    trials = [entry.trial for name in library.names() for entry in library.entries(name)]
    return sorted(
        run for one in trials if one is not None for arm in one.arms if arm.name == "none" for run in arm.runs
    )


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
    """Returns success, turns, evaluations and tries of a combinator, each the mean over all ordered choices."""
    found = [choose(some) for some in itertools.permutations(tries, TRIES)]
    return (
        fmean(one.chosen.passed for one in found),
        fmean(sum(each.turns for each in one.made) for one in found),
        fmean(sum(each.evaluations for each in one.made) for one in found),
        fmean(len(one.made) for one in found),
    )


def report(tasks: Mapping[str, Sequence[RepairTry]], recording: Recording) -> None:
    """Reports all arms against one try."""
    base = [fmean(one.passed for one in tries) for tries in tasks.values()]
    rows = []
    for name, choose in ARMS.items():
        found = [expect(tries, choose) for tries in tasks.values()]
        passed = [one[0] for one in found]
        gain = "-" if name == "the agent" else mean_cell([a - b for a, b in zip(passed, base, strict=True)])
        costs = (f"{fmean(one[column] for one in found):.1f}" for column in (1, 2, 3))
        rows.append([name, f"{fmean(passed):.3f}", gain, *costs])
    passes = Counter(sum(one.passed for one in tries) for tries in tasks.values())
    number = len(next(iter(tasks.values())))
    by_passes = [[f"{count} of {number}", str(passes[count])] for count in range(number + 1)]
    every = [one for tries in tasks.values() for one in tries]
    columns = ["arm", "passed", "gain over one try [95%]", "turns", "evaluations", "tries"]
    recording.write(
        {"arms": Table(columns, rows), "tasks": Table(["tries that pass", "tasks"], by_passes)},
        says_done=fmean(one.says_done for one in every),
        says_done_and_passes=fmean(one.says_done and one.passed for one in every),
        passes=fmean(one.passed for one in every),
        passes_by_task={name: [int(one.passed) for one in tries] for name, tries in tasks.items()},
    )


async def run(folder: str, settings: Settings, recording: Recording) -> None:
    """Collects the tries of all runs."""
    runs = [*find_runs(settings), *[await make_run(folder, seed, settings) for seed in recording.seeds]]
    print(f"runs: {', '.join(runs)}", flush=True)
    tasks: dict[str, list[RepairTry]] = {}
    for name in runs:
        for task, one in read_tries(settings, name).items():
            tasks.setdefault(task, []).append(one)
    report({name: tries for name, tries in sorted(tasks.items()) if len(tries) == len(runs)}, recording)


def main() -> None:
    """Runs the experiment."""
    parser = make_parser(__doc__, seeds=SEEDS)
    parser.add_argument("folder", help="task folders, as `assay demo` makes them")
    given = parser.parse_args()
    if given.store is None:
        parser.error("--store is that of `experiments.refused_skills`")
    recording = open_recording("repair-tries", f"repair_tries {given.folder} --store STORE", given, __doc__, SEEDS)
    with open_store(given.store) as settings:
        asyncio.run(run(given.folder, settings, recording))


if __name__ == "__main__":
    main()
