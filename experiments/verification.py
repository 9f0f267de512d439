"""Does learning from verified attempts beat learning from what merely passes? `docs/experiments/` has the design.

python -m experiments.verification                      # runs what is missing, resumable
python -m experiments.verification --report             # analyses it, once all cells are there
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.admission.battery import admit
from assay.admission.config import AdmitConfig
from assay.learning.rows import TrainingRow
from assay.learning.trainer.batches import attempt_numbers
from assay.learning.trainer.optimise import Optimiser
from assay.learning.trainer.options import OptimiserOptions
from assay.learning.trainer.policy import TrainedPolicy
from assay.learning.trainer.rollouts import complete_run, read_training_rows
from assay.learning.trainer.sft import draw_batch, sft_step
from assay.records import Limits
from assay.rollout.admitted import find_certificates
from assay.rollout.config import RunConfig
from assay.rollout.progress import Tally
from assay.store import RunStore, final_rows, list_runs
from assay.tasks import LoadedTask, find_tasks

from ._cells import (
    AGENT,
    CONCURRENCY,
    MODEL,
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

ARMS = ("outcome", "admitted", "card", "everything")
WORLD = "family:grid,shortcut=true"
HELD_OUT = f"{WORLD},part=test,n=200,seed=77"
TRIES = 2
NOISE = 0.5
ROUNDS = 2
ATTEMPTS = 384
HALF = 48
"""Tasks with the naive check, and as many with the true one."""
TOKENS = 16_000
"""Trained tokens of a round."""
BATCH = 16
OPTIMISE = OptimiserOptions(learning_rate=1e-3, warmup=5, schedule="constant")
HONEST = str(Path(__file__).with_name("honest.toml"))
BASE = "base"


async def run_one(place: Place, arm: str, seed: int) -> Cell:
    """One arm in one seed."""
    report = await base(place, seed, WORLD, noise=NOISE)
    measured: dict[str, float] = {}
    policy = TrainedPolicy.open(Path(report.model), MODEL)
    if arm != BASE:
        tasks = await _tasks(place, arm, seed)
        for number in range(1, ROUNDS + 1):
            policy = await _round(place, (arm, seed, number), policy, tasks, measured)
    return await _evaluated(place, arm, seed, policy, measured)


def _pool(seed: int) -> tuple[str, ...]:
    """The tasks that there are: the naive ones and the true ones."""
    naive = f"{WORLD},check=naive,part=train,n={HALF},seed={2000 + seed}"
    return naive, f"{WORLD},part=train,n={HALF},seed={3000 + seed}"


async def _tasks(place: Place, arm: str, seed: int) -> tuple[LoadedTask, ...]:
    """Those of an arm; what is certified is told by `assay admit` alone."""
    every = find_tasks(_pool(seed))
    if arm != "admitted":
        return every
    name = f"admission-{seed}"
    if name not in list_runs(place.settings.store):
        await admit(AdmitConfig(tasks=_pool(seed), run=name), place.settings, Tally())
    held = find_certificates(place.settings.store, [one.task.digest for one in every])
    return tuple(one for one in every if one.task.digest in held and _is_admitted(held[one.task.digest].certificate))


def _is_admitted(certificate: Any) -> bool:
    return bool(certificate.admitted.get("default"))


async def _round(
    place: Place,
    cell: tuple[str, int, int],
    policy: TrainedPolicy,
    tasks: Sequence[LoadedTask],
    measured: dict[str, float],
) -> TrainedPolicy:
    """Tries, keeps, trains; the policy after it."""
    arm, seed, number = cell
    # In the first round all arms that try all tasks begin with the same weights, so their attempts are the same.
    who = "all" if number == 1 and arm != "admitted" else arm
    run = f"{who}-{seed}-round-{number}"
    await _run(place, run, seed * 10 + number, policy, tasks, ATTEMPTS)
    tell(f"    round {number}: tried")
    rows = read_training_rows(place.settings, run, policy)
    kept = _kept(arm, rows)
    false = _false_passes(place, run)
    chains = {row.chain for row in kept}
    measured[f"kept_{number}"] = len(chains)
    measured[f"false_{number}"] = len(chains & false)
    folder = place.folder / "trained" / f"{arm}-{seed}-round-{number}"
    if not (folder / "model.safetensors").is_file():
        measured[f"tokens_{number}"] = train_tokens(policy, kept, TOKENS, seed * 10 + number)
        fresh = folder.with_name(folder.name + ".part")
        fresh.mkdir(parents=True, exist_ok=True)
        policy.save(fresh)
        (fresh / "tokens").write_text(str(measured[f"tokens_{number}"]))
        fresh.rename(folder)
    tell(f"    round {number}: trained")
    measured[f"tokens_{number}"] = float((folder / "tokens").read_text())
    return TrainedPolicy.open(folder, MODEL)


async def _run(
    place: Place, run: str, seed: int, policy: TrainedPolicy, tasks: Sequence[LoadedTask], attempts: int
) -> None:
    import torch

    torch.set_num_threads(1)
    config = RunConfig(
        tasks=("-",),
        agent="loop",
        agent_options=AGENT,
        model="local:policy",
        attempts=attempts,
        budget=attempts,
        concurrency=CONCURRENCY,
        model_concurrency=CONCURRENCY,
        limits=Limits(wall_s=300),
        contracts=(HONEST,),
        seed=seed,
        run=run,
    )
    if attempts % len(tasks) == 0:
        config = msgspec.structs.replace(config, attempts=attempts // len(tasks), budget=None)
    backend = policy.backend("local:policy")
    try:
        await complete_run(config, place.settings, backend, tuple(tasks))
    finally:
        await backend.close()
    torch.set_num_threads(MODEL.threads)


def _kept(arm: str, rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """What an arm learns from."""
    if arm == "everything":
        return [row for row in rows if row.outcome in ("pass", "fail")]
    if arm == "card":
        return [row for row in rows if row.verified_pass and row.safety != "fail" and row.integrity != "fail"]
    return [row for row in rows if row.outcome == "pass"]


def train_tokens(policy: TrainedPolicy, rows: Sequence[TrainingRow], budget: int, seed: int) -> int:
    """Trains on attempts of `rows` until `budget` of their own tokens are trained; how many were, to within one
    attempt. Without rows nothing is trained."""
    if not rows:
        return 0
    attempts = attempt_numbers(rows)
    members: list[list[TrainingRow]] = [[] for _ in range(int(attempts.max()) + 1)]
    for row, attempt in zip(rows, attempts, strict=True):
        members[attempt].append(row)
    optimiser, trained = Optimiser(policy.model, OPTIMISE, 1), 0
    while trained < budget:
        chosen: list[TrainingRow] = []
        for place in draw_batch(len(members), BATCH, optimiser.steps_taken, seed):
            if trained >= budget:
                break
            chosen += members[place]
            trained += sum(int(row.loss_mask.sum()) for row in members[place])
        sft_step(policy, optimiser, chosen)
    return trained


def _false_passes(place: Place, run: str) -> set[str]:
    """Chains of attempts that passed and are not at the goal: what a check that believes the world would say."""
    found = set()
    with RunStore.open(place.settings.store, run) as store:
        for row in final_rows(store.attempts()):
            facts = next(e.data["facts"] for e in store.trajectory(row.chain).evidence if e.kind == "facts")
            if row.outcome == "pass" and not facts["solved"]:
                found.add(row.chain)
    return found


async def _evaluated(place: Place, arm: str, seed: int, policy: TrainedPolicy, measured: dict[str, float]) -> Cell:
    """True success on the held-out tasks."""
    tasks = find_tasks([HELD_OUT])
    run = f"{arm}-{seed}-held-out"
    await _run(place, run, 9, policy, tasks, TRIES * len(tasks))
    passed = {one.task.id: 0.0 for one in tasks}
    claims = 0
    with RunStore.open(place.settings.store, run) as store:
        rows = final_rows(store.attempts())
        for row in rows:
            passed[row.task] += (row.outcome == "pass") / TRIES
            steps = store.trajectory(row.chain).steps
            claims += any(call.name == "claim" and call.error is None for step in steps for call in step.tool_calls)
    measured["claims"] = claims / len(rows)
    return Cell(arm, seed, tuple(passed[name] for name in sorted(passed)), 0.0, measured)


def report(place: Place, seeds: Sequence[int], document: Path | None) -> None:
    """The analysis that was announced. Refuses where a cell is missing."""
    cells = {(arm, seed): place.cell(arm, seed) for arm in (BASE, *ARMS) for seed in seeds}
    missing = [f"{arm}-{seed}" for (arm, seed), cell in cells.items() if cell is None]
    if missing:
        message = f"{len(missing)} cells are not run yet ({', '.join(missing[:5])}): there is nothing to analyse"
        raise SystemExit(message)
    known = {key: cell for key, cell in cells.items() if cell is not None}
    text = "True success on the held-out tasks:\n\n" + _by_seed(known, seeds)
    text += "\nTests (H1, H2):\n\n"
    text += told_differences([compared(known, arm, "outcome") for arm in ("card", "admitted")], tested=True)
    text += "\nNot tested:\n\n"
    others = [compared(known, "card", "admitted"), *(compared(known, arm, BASE) for arm in ARMS)]
    text += told_differences(others, tested=False)
    write_results(place, "verification", text, list(known.values()), document)


def _by_seed(cells: dict[tuple[str, int], Cell], seeds: Sequence[int]) -> str:
    head = "| arm | " + " | ".join(f"seed {seed}" for seed in seeds)
    lines = [head + " | claims | kept | of these false | trained tokens |", "|---" * (len(seeds) + 5) + "|"]
    for arm in (BASE, *ARMS):
        mine = [cells[arm, seed] for seed in seeds]
        more = {name: sum(c.more.get(name, 0.0) for c in mine) / len(mine) for c in mine for name in c.more}
        sums = [sum(more.get(f"{name}_{n}", 0.0) for n in range(1, ROUNDS + 1)) for name in ("kept", "false", "tokens")]
        shown = " | ".join(f"{cell.success:.3f}" for cell in mine)
        lines.append(f"| `{arm}` | {shown} | {more['claims']:.3f} | " + " | ".join(f"{one:.0f}" for one in sums) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """See the module."""
    given = arguments(__doc__, "verification", (BASE, *ARMS))
    place = Place.at(given.out)
    if given.report:
        report(place, given.seeds, given.document)
        return
    wanted = [(arm, seed) for seed in given.seeds for arm in given.arms]
    run_cells(place, wanted, lambda arm, seed: run_one(place, arm, seed))


if __name__ == "__main__":
    main()
