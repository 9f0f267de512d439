"""Gives every attempt the same number of rows, for trainers that want batches of one shape.

An attempt of a team, or of an agent with sub-agents, has as many rows as there were lines of calls. After M-GRPO's
trajectory alignment (catalogued from its abstract; its code leaves it out): surplus rows are dropped at random, missing
ones are filled. Ours fills with copies that train nothing, so that no sampled token is trained twice, and drops rows of
the first actor last.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import numpy as np

from .rows import TrainingRow


def align_rows(rows: Sequence[TrainingRow], count: int, seed: str) -> list[TrainingRow]:
    """Returns `count` rows of one attempt in their order; an attempt without rows stays without.

    Args:
        rows: All rows of the attempt.
        count: At least 1.
        seed: Decides which rows are dropped.
    """
    if not rows:
        return []
    kept = list(range(len(rows)))
    if len(rows) > count:
        draw = random.Random(f"align/{seed}")
        others = [n for n in kept if rows[n].actor != rows[0].actor or rows[n].cause == "sub_agent"]
        mains = [n for n in kept if n not in others]
        kept = sorted((*mains[:count], *draw.sample(others, max(0, count - len(mains)))))
    found = [msgspec.structs.replace(rows[n], attempt_rows=min(len(rows), count)) for n in kept]
    return [*found, *(_untrained(found[0]) for _ in range(count - len(found)))]


def _untrained(row: TrainingRow) -> TrainingRow:
    """Returns a copy of a row in which nothing is trained."""
    return msgspec.structs.replace(
        row,
        loss_mask=np.zeros_like(row.loss_mask),
        advantages=None if row.advantages is None else np.zeros_like(row.advantages),
        weights={name: np.zeros_like(stream) for name, stream in row.weights.items()},
        turns=tuple(msgspec.structs.replace(turn, trained=False) for turn in row.turns),
    )
