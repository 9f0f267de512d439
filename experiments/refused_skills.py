"""Skills for `repair` that deserve to be refused, tried on all 24 synthesised tasks of `assay demo`.

Results: `docs/experiments/refused-skills.md`. The learnt priors are better in simulation (`experiments.repair_priors`);
`harmful` calls the operators unlikely that most often restore a file; `leaking` is the agent's own table with the id of
a task of the trial; `null` changes the factors of two operators by 5%.

`inverted` makes every likely operator a million times less likely than the unlikely ones.

In an earlier run (seed 31, no harm check) `harmful` was refused for no gain alone: of nine tasks that passed it lost
six, and gained three others. Set before the run with `--record`, which has a fresh seed (32) and a harm check of three
further attempts at each task that passed without the skill: each is refused, `leaking` unrun for the task id, `harmful`
for harm, `null` and `learnt` for no gain and not for harm; `inverted` is tried only where `harmful` is not refused for
harm, to be refused for that. All 24 tasks in every arm (`looks = 1`), budget 20 evaluations, level 0.0125 each, so that
the decisions share the tasks' error budget of 0.05. No placebo arm: no cause of a refusal needs one.

    python -m experiments.refused_skills .assay/demo-tasks-0-24
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
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
from .repair_priors import PACKAGES, count_factors, make_faults, write_priors

BUDGET, SEED, ALPHA, HARM_ATTEMPTS = 20, 32, 0.0125, 3
FAULTS = 40
"""Made faults of each package, of which the learnt priors are counted."""
LIKELY = 0.8
"""Operators that the agent's own table takes for at least this likely are the ones that `harmful` calls unlikely."""


class Expected(NamedTuple):
    """One skill and why it is to be refused."""

    skill: SkillFolder
    cause: str
    """Cause that the refusal has to name."""
    never: str = ""
    """Cause that it may not name."""


def make_skills(task_id: str) -> list[Expected]:
    """Returns the skills but the learnt one; the last is tried only where the harmful one is not refused for harm."""
    unlikely = {name: 0.01 for name, factor in LIKELIHOOD.items() if factor >= LIKELY}
    inverted = {name: 0.001 if name in unlikely else 1000.0 for name in LIKELIHOOD}
    slightly = {name: LIKELIHOOD[name] * 0.95 for name in ("ternary_swapped", "sign_added")}
    text = f"{write_priors('leaking', LIKELIHOOD).text}\nIn {task_id} the fault is in the first function.\n"
    return [
        Expected(SkillFolder("leaking", {SKILL_FILE: text.encode()}), "leak"),
        Expected(write_priors("harmful", unlikely), "harm"),
        Expected(write_priors("null", slightly), "no gain", "harm"),
        Expected(write_priors("inverted", inverted), "harm"),
    ]


def learn_priors() -> Expected:
    """Returns the skill that says how much more often than chance each operator restored a file, in packages without
    networkx."""
    faults = [one for name in PACKAGES for one in make_faults(name, FAULTS, random.Random(name))]
    return Expected(write_priors("learnt", count_factors(faults)), "no gain", "harm")


async def try_skill(expected: Expected, folder: str, settings: Settings) -> TrialRecord:
    """Runs or continues the trial of one skill."""
    name = expected.skill.name
    config = TrialConfig(
        skill=name, tasks=(folder,), agent="repair", agent_options={"budget": BUDGET}, looks=1, alpha=ALPHA,
        harm_attempts=HARM_ATTEMPTS, no_placebo=True, seed=SEED, concurrency=2,
    )  # fmt: skip
    entry = await run_trial(config, settings, lambda text: print(f"{name}: {text}", flush=True))
    if entry.trial is None:
        raise SystemExit(f"the ledger of {name} holds no trial")
    return entry.trial


def report(found: Mapping[str, tuple[Expected, TrialRecord]], recording: Recording) -> None:
    """Reports the decisions."""
    rows, bars = [], []
    for name, (expected, trial) in found.items():
        arms = {arm.name: f"{arm.passed} of {arm.judged}" for arm in trial.arms}
        check = "-"
        if trial.harm_check is not None:
            total = trial.harm_check.tasks * HARM_ATTEMPTS
            check = " and ".join(f"{passed} of {total}" for passed in trial.harm_check.passed)
        decision = "released" if trial.accepted else f"refused: {', '.join(trial.causes)}"
        rows.append([name, arms.get("none", "-"), arms.get("skill", "-"), check, decision, "; ".join(trial.reasons)])
        met = not trial.accepted and trial.causes[0] == expected.cause and expected.never not in trial.causes
        but = f", not for {expected.never}" if expected.never else ""
        bars.append(Bar(f"{name} is refused for {expected.cause}{but}", decision, met))
    columns = ["skill", "passed without", "passed with", "harm check: without and with", "decision", "reasons"]
    recording.write({"trials": Table(columns, rows)}, bars)


def main() -> None:
    """Runs the trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="task folders, as `assay demo` makes them")
    parser.add_argument("--store", type=Path, help="where the runs are kept; default: a temporary folder")
    parser.add_argument("--record", action="store_true", help="writes experiments/results")
    given = parser.parse_args()
    command = f"python -m experiments.refused_skills {given.folder} --record"
    recording = Recording("refused-skills", command, [SEED], __doc__ or "", enabled=given.record)
    with tempfile.TemporaryDirectory() as scratch:
        settings = msgspec.structs.replace(Settings.from_environment(), store=given.store or Path(scratch))
        tasks = find_tasks((given.folder,))
        library, found = SkillLibrary(settings.store), dict[str, tuple[Expected, TrialRecord]]()
        *skills, inverted = make_skills(tasks[0].task.id)
        for expected in (*skills, learn_priors(), inverted):
            name = expected.skill.name
            if expected is inverted and "harm" in found["harmful"][1].causes:
                continue  # harm was shown already
            if name not in library.names():
                library.add(expected.skill, "import", reason="to be refused", source="experiments.refused_skills")
            found[name] = expected, asyncio.run(try_skill(expected, given.folder, settings))
            print(f"{name}: {found[name][1].causes}", flush=True)
        report(found, recording)


if __name__ == "__main__":
    main()
