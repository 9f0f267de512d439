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


def make_skill(name: str, task_id: str) -> SkillFolder:
    """Returns a skill of the plan; the learnt one is counted in packages without networkx."""
    if name == "learnt":
        faults = [one for package in PACKAGES for one in make_faults(package, FAULTS, random.Random(package))]
        return write_priors(name, count_factors(faults))
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


async def try_skill(name: str, folder: str, settings: Settings) -> TrialRecord:
    """Runs or continues the trial of one skill."""
    config = TrialConfig(
        skill=name, tasks=(folder,), agent="repair", agent_options={"budget": BUDGET}, looks=1, alpha=ALPHA,
        harm_attempts=HARM_ATTEMPTS, no_placebo=True, seed=SEED, concurrency=2,
    )  # fmt: skip
    entry = await run_trial(config, settings, lambda text: print(f"{name}: {text}", flush=True))
    if entry.trial is None:
        raise SystemExit(f"the ledger of {name} holds no trial")
    return entry.trial


def report(found: Mapping[str, TrialRecord | None], recording: Recording) -> None:
    """Reports the decisions; None stands for a trial that was not run."""
    rows, bars = [], []
    for name, trial in found.items():
        first, never = PLAN[name]
        bar = f"{name} is refused for {first}{f', not for {never}' if never else ''}"
        if trial is None:
            bars.append(Bar(bar, "not run", None))
            continue
        arms = {arm.name: f"{arm.passed} of {arm.judged}" for arm in trial.arms}
        check = "-"
        if trial.harm_check is not None:
            total = trial.harm_check.tasks * HARM_ATTEMPTS
            check = " and ".join(f"{passed} of {total}" for passed in trial.harm_check.passed)
        decision = "released" if trial.accepted else f"refused: {', '.join(trial.causes)}"
        rows.append([name, arms.get("none", "-"), arms.get("skill", "-"), check, decision, "; ".join(trial.reasons)])
        met = not trial.accepted and trial.causes[0] == first and never not in trial.causes
        bars.append(Bar(bar, decision, met))
    columns = ["skill", "passed without", "passed with", "harm check: without and with", "decision", "reasons"]
    recording.write({"trials": Table(columns, rows)}, bars)


def main() -> None:
    """Runs the trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="task folders, as `assay demo` makes them")
    parser.add_argument("--store", type=Path, help="where the runs are kept; default: a temporary folder")
    parser.add_argument("--only", nargs="+", choices=list(PLAN), default=list(PLAN), help="try only these skills")
    parser.add_argument("--record", action="store_true", help="writes experiments/results")
    given = parser.parse_args()
    command = f"python -m experiments.refused_skills {given.folder} --record"
    recording = Recording("refused-skills", command, [SEED], __doc__ or "", enabled=given.record)
    with tempfile.TemporaryDirectory() as scratch:
        settings = msgspec.structs.replace(Settings.from_environment(), store=given.store or Path(scratch))
        task_id = find_tasks((given.folder,))[0].task.id
        library, found = SkillLibrary(settings.store), dict[str, TrialRecord | None]()
        for name in PLAN:
            harmful = found.get("harmful")
            if name == "inverted" and harmful is not None and "harm" in harmful.causes:
                continue  # harm was shown already
            if name not in given.only:
                found[name] = None
                continue
            if name not in library.names():
                skill = make_skill(name, task_id)
                library.add(skill, "import", reason="to be refused", source="experiments.refused_skills")
            trial = found[name] = asyncio.run(try_skill(name, given.folder, settings))
            print(f"{name}: {trial.causes}", flush=True)
        report(found, recording)


if __name__ == "__main__":
    main()
