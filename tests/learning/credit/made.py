"""Batches for tests: any, small, with every column; and one small enough to do by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from assay.learning.credit import Batch, make_batch

NAN = float("nan")


def made(seed: int, attempts: int = 8, groups: int = 3, most_turns: int = 5) -> Batch:
    """A batch with every column, attempts of no turn included. Rewards come from few values, so that they tie."""
    random = np.random.default_rng(seed)
    sizes = random.integers(0, most_turns + 1, attempts)
    turns = int(sizes.sum())
    parent = np.array([random.integers(-1, number) if number else -1 for number in range(attempts)], dtype=np.int64)
    outcome = random.integers(-1, 5, attempts)
    return make_batch(
        group=random.integers(-2, groups, attempts) * 7,
        reward=random.choice([0.0, 0.5, 1.0], attempts),
        attempt=np.repeat(np.arange(attempts), sizes),
        outcome=outcome,
        integrity=random.integers(-1, 4, attempts),
        parent=np.where(random.random(attempts) < 0.5, -1, parent),
        forked=random.random(attempts) < 0.3,
        turn_reward=random.choice([0.0, 0.0, 0.25, -0.25], turns),
        state=random.integers(-1, 4, turns),
        tokens=random.integers(0, 6, turns),
        version=random.integers(-1, 5, turns),
        logprob=np.where(random.random(turns) < 0.1, NAN, -random.random(turns) * 3),
        error=random.random(turns) < 0.3,
        entropy=np.where(random.random(turns) < 0.1, NAN, random.choice([0.1, 0.2, 0.5, 0.9], turns)),
        value=random.random(turns),
        final_value=random.random(attempts),
        final_state=random.integers(-1, 4, attempts),
        progress=np.where(random.random(turns) < 0.3, NAN, random.choice([0.0, 0.25, 0.5, 0.8, 1.0], turns)),
        without=np.where(random.random(turns) < 0.3, NAN, random.choice([0.0, 1.0], turns)),
    )


batches = st.builds(
    made,
    seed=st.integers(0, 10_000),
    attempts=st.integers(0, 9),
    groups=st.integers(1, 4),
    most_turns=st.integers(0, 5),
)


def by_hand(**columns: Any) -> Batch:
    """Two groups: attempts 0, 1, 2 with 2, 1, 1 turns and rewards 1, 0, 0; attempt 3, alone, with 1 turn and 1."""
    return make_batch(group=[5, 5, 5, 9], reward=[1.0, 0.0, 0.0, 1.0], attempt=[0, 0, 1, 2, 3], **columns)
