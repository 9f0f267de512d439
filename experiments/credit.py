"""Which credit serves best on a harder world with an unreliable verifier? `docs/experiments/` has the design.

python -m experiments.credit                            # runs what is missing, resumable
python -m experiments.credit --report                   # analyses it, once all cells are there
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.learning.credit.compose import CreditConfig
from assay.learning.improve import improve
from assay.learning.trainer.options import ModelOptions, OptimiserOptions, PolicyGradientOptions
from assay.learning.trainer.recipe import (
    DemonstrationOptions,
    EvaluationOptions,
    GateOptions,
    ImproveRecipe,
    RolloutOptions,
)
from assay.store import RunStore, final_rows
from assay.tasks import find_tasks

from ._cells import (
    AGENT,
    CONCURRENCY,
    Cell,
    Place,
    arguments,
    base,
    compared,
    run_cells,
    tell,
    told_differences,
    write_results,
)

ARMS = ("grpo", "gigpo", "mc-grpo", "echo", "evidence")
WORLD = "family:grid,size=6,walls=4"
HELD_OUT = f"{WORLD},part=test,n=200,seed=78"
TRIES = 2
NOISE = 0.7
STEPS = 20
GROUPS, ATTEMPTS = 16, 8
LOST = f"{Path(__file__).with_name('lost_verdicts.py')}:lost"


def recipe_of(arm: str, seed: int, place: Place, model: str) -> ImproveRecipe:
    """The whole of one cell, as `assay improve` would take it."""
    options: dict[str, Any] = {"method": "grpo" if arm in ("echo", "evidence") else arm}
    options["treat"] = "mask" if arm == "evidence" else "fail"
    return ImproveRecipe(
        name=arm,
        seed=seed,
        folder=str(place.folder / "trained"),
        model=ModelOptions(path=model, thinking=False, threads=2),
        teach=DemonstrationOptions(),
        steps=STEPS,
        rollout=RolloutOptions(
            tasks=(f"{WORLD},part=train",),
            agent_options=AGENT,
            groups=GROUPS,
            attempts=ATTEMPTS,
            concurrency=CONCURRENCY,
        ),
        credit=CreditConfig(method=LOST, options=options, evidence="ignore"),
        policy_gradient=PolicyGradientOptions(
            optimise=OptimiserOptions(learning_rate=5e-4),
            observation_weight=0.1 if arm == "echo" else 0.0,
            observation_warmup=10,
        ),
        evaluate=EvaluationOptions(tasks=(HELD_OUT,), attempts=TRIES),
        gate=GateOptions(better=False),
        checkpoint_every=5,
    )


async def run_one(place: Place, arm: str, seed: int) -> Cell:
    """One arm in one seed."""
    taught = await base(place, seed, WORLD, noise=NOISE)
    report = await improve(recipe_of(arm, seed, place, taught.model), place.settings, lambda text: tell(f"    {text}"))
    before, after = (_passed(place, run) for run in (report.before.run, report.after.run))
    return Cell(arm, seed, after, 0.0, {"before": sum(before) / len(before)})


def _passed(place: Place, run: str) -> tuple[float, ...]:
    """The share of passed attempts of each held-out task; what was not judged is no pass."""
    passed = {one.task.id: 0.0 for one in find_tasks([HELD_OUT])}
    with RunStore.open(place.settings.store, run) as store:
        for row in final_rows(store.attempts()):
            passed[row.task] += (row.outcome == "pass") / TRIES
    return tuple(passed[name] for name in sorted(passed))


def report(place: Place, seeds: Sequence[int], document: Path | None) -> None:
    """The analysis that was announced. Refuses where a cell is missing."""
    cells = {(arm, seed): place.cell(arm, seed) for arm in ARMS for seed in seeds}
    missing = [f"{arm}-{seed}" for (arm, seed), cell in cells.items() if cell is None]
    if missing:
        message = f"{len(missing)} cells are not run yet ({', '.join(missing[:5])}): there is nothing to analyse"
        raise SystemExit(message)
    known = {key: cell for key, cell in cells.items() if cell is not None}
    lines = ["| arm | " + " | ".join(f"seed {seed}" for seed in seeds) + " |", "|---" * (len(seeds) + 1) + "|"]
    before = [known["grpo", seed].more["before"] for seed in seeds]
    lines.append("| taught, before all | " + " | ".join(f"{one:.3f}" for one in before) + " |")
    for arm in ARMS:
        lines.append(f"| `{arm}` | " + " | ".join(f"{known[arm, seed].success:.3f}" for seed in seeds) + " |")
    text = "Success on the held-out tasks:\n\n" + "\n".join(lines) + "\n\nTests (H3 to H6):\n\n"
    tests = [compared(known, arm, "grpo") for arm in ("evidence", "gigpo", "mc-grpo", "echo")]
    write_results(place, "credit", text + told_differences(tests, tested=True), list(known.values()), document)


def main() -> None:
    """See the module."""
    given = arguments(__doc__, "credit", ARMS)
    place = Place.at(given.out)
    if given.report:
        report(place, given.seeds, given.document)
        return
    wanted = [(arm, seed) for seed in given.seeds for arm in given.arms]
    run_cells(place, wanted, lambda arm, seed: run_one(place, arm, seed))


if __name__ == "__main__":
    main()
