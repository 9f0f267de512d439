"""Training rows for tests, made by hand: each turn is one prompt token and two sampled ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.learning.rows import ACTION, PROMPT, TrainingRow, TurnSpan


def row(chain: str, turns: int = 2, *, spans: list[dict[str, Any]] | None = None, **fields: Any) -> TrainingRow:
    """A row of one attempt; `spans` changes its turns, `fields` the row."""
    length = 3 * turns
    sampled = np.array([False, True, True] * turns)
    held = [
        TurnSpan(
            start=3 * n + 1, end=3 * n + 3, call=f"call-{n}", certified=True, **(spans[n] if spans else {"step": n})
        )
        for n in range(turns)
    ]
    made: dict[str, Any] = {
        "token_ids": np.arange(length, dtype=np.int32),
        "roles": np.where(sampled, ACTION, PROMPT).astype(np.uint8),
        "loss_mask": sampled.copy(),
        "logprobs": np.where(sampled, -0.5, 0.0).astype(np.float32),
        "versions": np.full(length, -1, dtype=np.int16),
        "run": "r",
        "chain": chain,
        "attempt": f"t#{chain}",
        "group": "g",
        "task": "t",
        "agent": "a",
        "branch": "0",
        "outcome": "pass",
        "turns": tuple(held),
    }
    return TrainingRow(**{**made, **fields})
