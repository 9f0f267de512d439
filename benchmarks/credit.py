"""Credit on a million turns in ten thousand groups, each method beside one copy of the batch in memory.

    python -m benchmarks.credit [--quick]

A copy of all columns is the limit: no method can be faster than reading what it is given and writing what it gives.
Every method is evidence-aware, so a fifth of the attempts is left out of it or discredited. Each runs in a process of
its own on one core: CPU is the median of five runs; memory is the most that NumPy held beside the batch during the last
run, and what five runs leave behind.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.learning.credit import Batch, CreditConfig, MaskStage, compute_credit, make_batch
from assay.learning.credit.echo import echo_weights
from assay.learning.credit.importance import importance_weights
from benchmarks._measure import cost_of, median_of, own_process
from benchmarks._report import Report, Target, options

COLUMNS = ("method", "cpu_s", "wall_s", "times_copy", "peak_mib", "left_mib")
MOST_S, MOST_LEFT_MIB = 5.0, 1.0
COPY = "copy of the batch (limit)"
MASKS = (MaskStage("first-error"), MaskStage("entropy"), MaskStage("fresh", {"now": 9, "most": 4}))
ESTIMATORS = ("grpo", "dr-grpo", "rloo", "reinforce++", "gae", "gigpo", "mc-grpo", "step-returns", "m-grpo", "xrpo",
              "sweet-spot", "leave-one-out", "progress", "hindsight")  # fmt: skip
METHODS = {name: CreditConfig(name) for name in ESTIMATORS}
METHODS["gigpo and three masks"] = CreditConfig("gigpo", masks=MASKS)
TOKENS = ("importance weights by turn, a token each", "ECHO weights, a token each")


def made(turns: int, groups: int) -> Batch:
    """A batch with every column: groups of ten attempts, 1 to 19 turns each, rewards and verdicts of all kinds."""
    draw = np.random.default_rng(0)
    attempts = groups * 10
    sizes = draw.integers(1, 20, attempts)
    attempt = np.repeat(np.arange(attempts), sizes)[:turns]
    turns = len(attempt)
    passed = draw.random(attempts) < draw.random(groups).repeat(10)
    return make_batch(
        group=np.arange(attempts) // 10,
        reward=passed.astype(np.float64),
        attempt=attempt,
        outcome=np.where(draw.random(attempts) < 0.1, 2, np.where(passed, 0, 1)),
        integrity=np.where(draw.random(attempts) < 0.1, 1, 0),
        parent=np.where(np.arange(attempts) % 10 < 7, -1, np.arange(attempts) // 10 * 10),
        turn_reward=draw.random(turns) < 0.1,
        state=draw.integers(-1, 200, turns),
        tokens=draw.integers(5, 200, turns),
        version=draw.integers(0, 10, turns),
        logprob=-draw.random(turns),
        error=draw.random(turns) < 0.2,
        entropy=draw.random(turns),
        value=draw.random(turns),
        final_value=np.zeros(attempts),
        final_state=draw.integers(-1, 200, attempts),
        progress=draw.random(turns),
        without=draw.random(turns) < 0.5,
    )


def _copied(held: Batch) -> None:
    for column in held:
        if column is not None:
            column.copy()


def _act(name: str, turns: int, groups: int) -> Callable[[], object]:
    if name == TOKENS[0]:
        draw = np.random.default_rng(0)
        now, then, unit = -draw.random(turns), -draw.random(turns), np.arange(turns) // 20
        return lambda: importance_weights(now, then, unit, mean=True, band=(0.5, 5.0))
    if name == TOKENS[1]:
        roles = np.random.default_rng(0).integers(0, 6, turns).astype(np.uint8)
        names, row = ("template", "prompt", "action", "observation", "warning", "unknown"), np.arange(turns) // 100
        return lambda: echo_weights(roles, row, names=names)
    held = made(turns, groups)
    if name == COPY:
        return lambda: _copied(held)
    return lambda: compute_credit(held, METHODS[name])


def measured(name: str, turns: int, groups: int) -> dict[str, Any]:
    """CPU and wall seconds of one run, and memory in MiB."""
    act = _act(name, turns, groups)
    act()
    cost = median_of(act)
    tracemalloc.start()
    act()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    cost_of(lambda: [act() for _ in range(4)])
    peak = tracemalloc.get_traced_memory()[1]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    mib = 1 << 20
    return {
        "method": name,
        "cpu_s": round(cost.cpu_s, 4),
        "wall_s": round(cost.wall_s, 4),
        "peak_mib": round((peak - before) / mib, 1),
        "left_mib": round((after - before) / mib, 3),
    }


def main(arguments: list[str] | None = None) -> None:
    given = options("credit", "Credit of a million turns.").parse_args(arguments)
    turns, groups = (20_000, 200) if given.quick else (1_000_000, 10_000)
    rows = [own_process(measured, name, turns, groups)[0] for name in (COPY, *METHODS, *TOKENS)]
    for row in rows:
        row["times_copy"] = round(row["cpu_s"] / rows[0]["cpu_s"], 1) if rows[0]["cpu_s"] else None
    slowest = max(rows, key=lambda row: row["cpu_s"])
    left = max(row["left_mib"] for row in rows)
    size = f"{turns:,} turns in {groups:,} groups"
    targets = [
        Target(f"credit of {size}, the slowest method", "CPU s", MOST_S, None if given.quick else slowest["cpu_s"]),
        Target("memory that four runs of any method leave behind", "MiB", MOST_LEFT_MIB, left),
    ]
    how = f"Credit of {size}; evidence-aware, one core."
    Report("credit", how, rows, targets, {}).finish(COLUMNS, given.into)


if __name__ == "__main__":
    main()
