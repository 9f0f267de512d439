"""Skills for `repair` that deserve to be refused, tried on all 24 synthesised tasks of `assay demo`.

Results: `docs/experiments/refused-skills.md`. The learnt priors are better in simulation (`experiments.repair_priors`);
`harmful` calls the operators unlikely that most often restore a file; `leaking` is the agent's own table with the id of
a task of the trial; `null` changes the factors of two operators by 5%.

`inverted` makes every likely operator a million times less likely than the unlikely ones.

In earlier runs `harmful` was refused for no gain alone (seed 31, no harm check: of nine tasks that passed it lost six,
and gained three others), and with a harm check every skill for its cause (seed 32). Set before the run with `--record`,
which has five fresh seeds and a harm check of three further attempts at each task that passed without the skill: each
is refused in every seed, `leaking` unrun for the task id; and in at least four seeds of five `harmful` for harm, and
`null` and `learnt` for no gain and not for harm. `inverted` is tried only where `harmful` is not refused for harm, to
be refused for that. All 24 tasks in every arm (`looks = 1`), budget 20 evaluations, level 0.0125 each, so that the
decisions of a seed share the tasks' error budget of 0.05; each seed is a repetition with a store, and so a budget, of
its own. No placebo arm: no cause of a refusal needs one.

    python -m experiments.refused_skills .assay/demo-tasks-0-24
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from assay.agents._repair_search import LIKELIHOOD
from assay.learning.skills.folder import SKILL_FILE, SkillFolder
from assay.learning.skills.library import SkillLibrary
from assay.learning.skills.records import TrialRecord
from assay.learning.skills.trial import run_trial
from assay.learning.skills.trial_config import TrialConfig
from assay.settings import Settings
from assay.tasks import find_tasks

from ._results import Bar, Recording, Table
from ._running import make_parser, open_recording, open_store
from .repair_priors import PACKAGES, count_factors, make_faults, write_priors

BUDGET, ALPHA, HARM_ATTEMPTS = 20, 0.0125, 3
SEEDS = (33, 34, 35, 36, 37)
BAR = 0.8
"""Share of the seeds in which a skill is to be refused for its cause."""
FAULTS = 40
"""Made faults of each package, of which the learnt priors are counted."""
LIKELY = 0.8
"""Operators that the agent's own table takes for at least this likely are the ones that `harmful` calls unlikely."""


class Cause(NamedTuple):
    """Why a skill is to be refused."""

    first: str
    """Cause that is named first."""
    never: str = ""
    """Cause that may not be named."""


PLAN = {
    "leaking": Cause("leak"),
    "harmful": Cause("harm"),
    "learnt": Cause("no gain", never="harm"),
    "null": Cause("no gain", never="harm"),
    "inverted": Cause("harm"),
}
"""In the order of the trials; `inverted` only where `harmful` was not refused for harm."""


@functools.cache
def count_learnt() -> Mapping[str, float]:
    """Returns the learnt factors, counted in packages without networkx."""
    return count_factors([one for package in PACKAGES for one in make_faults(package, FAULTS, random.Random(package))])


def make_skill(name: str, task_id: str) -> SkillFolder:
    """Returns a skill of the plan."""
    if name == "learnt":
        return write_priors(name, count_learnt())
    unlikely = {operator: 0.01 for operator, factor in LIKELIHOOD.items() if factor >= LIKELY}
    tables = {
        "leaking": LIKELIHOOD,
        "harmful": unlikely,
        "null": {operator: LIKELIHOOD[operator] * 0.95 for operator in ("ternary_swapped", "sign_added")},
        "inverted": {operator: 0.001 if operator in unlikely else 1000.0 for operator in LIKELIHOOD},
    }
    skill = write_priors(name, tables[name])
    if name != "leaking":
        return skill
    text = f"{skill.text}\nIn {task_id} the fault is in the first function.\n"
    return SkillFolder(name, {SKILL_FILE: text.encode()})


async def try_skill(name: str, folder: str, seed: int, settings: Settings) -> TrialRecord:
    """Runs or continues the trial of one skill."""
    config = TrialConfig(
        skill=name, tasks=(folder,), agent="repair", agent_options={"budget": BUDGET}, looks=1, alpha=ALPHA,
        harm_attempts=HARM_ATTEMPTS, no_placebo=True, seed=seed, concurrency=2,
    )  # fmt: skip
    entry = await run_trial(config, settings, lambda text: print(f"{seed}, {name}: {text}", flush=True))
    if entry.trial is None:
        raise SystemExit(f"the ledger of {name} holds no trial")
    return entry.trial


def try_skills(folder: str, seed: int, settings: Settings) -> dict[str, TrialRecord]:
    """Runs or continues the trials of one seed."""
    task_id, library = find_tasks((folder,))[0].task.id, SkillLibrary(settings.store)
    found = dict[str, TrialRecord]()
    for name in PLAN:
        if name == "inverted" and "harm" in found["harmful"].causes:
            continue  # harm was shown already
        if name not in library.names():
            skill = make_skill(name, task_id)
            library.add(skill, "import", reason="to be refused", source="experiments.refused_skills")
        trial = found[name] = asyncio.run(try_skill(name, folder, seed, settings))
        print(f"{seed}, {name}: {trial.causes}", flush=True)
    return found


def is_as_planned(name: str, trial: TrialRecord) -> bool:
    """True if a skill was refused for its cause."""
    first, never = PLAN[name]
    return not trial.accepted and trial.causes[0] == first and never not in trial.causes


def report(found: Mapping[int, Mapping[str, TrialRecord]], recording: Recording) -> None:
    """Reports the decisions of all seeds."""
    rows, bars = [], []
    for name, (first, never) in PLAN.items():
        trials = {seed: one[name] for seed, one in found.items() if name in one}
        rows += [[name, str(seed), *_trial_cells(trial)] for seed, trial in trials.items()]
        if not trials:
            continue  # `inverted`, where `harmful` was shown to harm in every seed
        as_planned = sum(is_as_planned(name, trial) for trial in trials.values())
        released = sum(trial.accepted for trial in trials.values())
        bar = f"{name} is released in no seed, and refused for {first}{f', not for {never}' if never else ''}"
        measured = f"released in {released}, refused so in {as_planned} of {len(trials)}"
        share = 1.0 if name == "leaking" else BAR
        bar += ", in every seed" if share == 1 else f", in {share:.0%} of the seeds"
        bars.append(Bar(bar, measured, not released and as_planned >= share * len(trials)))
    columns = ["skill", "seed", "passed without", "passed with", "harm check: without and with", "decision"]
    reasons = {name: {seed: list(one[name].reasons) for seed, one in found.items() if name in one} for name in PLAN}
    recording.write({"trials": Table(columns, rows)}, bars, reasons=reasons)


def _trial_cells(trial: TrialRecord) -> list[str]:
    arms = {arm.name: f"{arm.passed} of {arm.judged}" for arm in trial.arms}
    check = "-"
    if trial.harm_check is not None:
        total = trial.harm_check.tasks * HARM_ATTEMPTS
        check = " and ".join(f"{passed} of {total}" for passed in trial.harm_check.passed)
    decision = "released" if trial.accepted else f"refused: {', '.join(trial.causes)}"
    return [arms.get("none", "-"), arms.get("skill", "-"), check, decision]


def main() -> None:
    """Runs the trials."""
    parser = make_parser(__doc__, seeds=SEEDS)
    parser.add_argument("folder", help="task folders, as `assay demo` makes them")
    given = parser.parse_args()
    words = f"refused_skills {given.folder} --store STORE"
    recording = open_recording("refused-skills", words, given, __doc__, SEEDS)
    found = {}
    with open_store(given.store) as settings:
        for seed in recording.seeds:
            own = msgspec.structs.replace(settings, store=settings.store / str(seed))
            found[seed] = try_skills(given.folder, seed, own)
    report(found, recording)


if __name__ == "__main__":
    main()
