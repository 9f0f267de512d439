"""Supervised fine-tuning on the agents' own tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import UserError
from assay.learning.rows import TrainingRow

from .batches import attempt_numbers, log_probabilities, pad_rows, plan_passes, token_weights
from .loss import cross_entropy
from .optimise import Optimiser
from .options import SftOptions
from .policy import TrainedPolicy

if TYPE_CHECKING:
    import torch

Done = Callable[[int, dict[str, float]], None]


def train_sft(
    policy: TrainedPolicy,
    rows: Sequence[TrainingRow],
    options: SftOptions,
    *,
    seed: int,
    optimiser: Optimiser | None = None,
    done: Done | None = None,
) -> None:
    """Trains until `options.steps` are done, and calls `done` with each step's number, from 1, and its metrics."""
    rows = [row for row in rows if row.loss_mask.any()]
    if not rows:
        raise UserError("there is nothing to learn from: no row has a token in its loss mask")
    attempts = attempt_numbers(rows)
    members: list[list[TrainingRow]] = [[] for _ in range(int(attempts.max()) + 1)]
    for row, attempt in zip(rows, attempts, strict=True):
        members[attempt].append(row)
    optimiser = optimiser or Optimiser(policy.model, options.optimise, options.steps)
    while optimiser.steps_taken < options.steps:
        positions = draw_batch(len(members), options.batch, optimiser.steps_taken, seed)
        measured = sft_step(policy, optimiser, [row for position in positions for row in members[position]])
        if done is not None:
            done(optimiser.steps_taken, measured)


def sft_step(policy: TrainedPolicy, optimiser: Optimiser, rows: Sequence[TrainingRow]) -> dict[str, float]:
    """Runs one step with equal token weights; returns metrics in nats per token."""
    weights = token_weights([row.loss_mask for row in rows], attempt_numbers(rows), "token")
    total = 0.0

    def losses() -> Iterator[torch.Tensor]:
        nonlocal total
        for one in plan_passes([len(row) for row in rows], optimiser.options.tokens_at_once):
            inputs = pad_rows([rows[position].token_ids for position in one.positions], one.longest, policy.device)
            loss = cross_entropy(
                log_probabilities(policy.model, inputs),
                inputs.column([weights[position] for position in one.positions]),
            )
            total += float(loss.detach())
            yield loss

    rate = optimiser.rate()
    norm = optimiser.step(losses())
    return {"loss": total, "gradient_norm": norm, "learning_rate": rate, "tokens": _count_trained(rows)}


def draw_batch(count: int, size: int, step: int, seed: int) -> list[int]:
    """Returns the items of a step, each once before any repeats; depends on the arguments only."""
    found: list[int] = []
    at = step * size
    while len(found) < size:
        epoch, position = divmod(at + len(found), count)
        order: Any = np.random.default_rng([seed, epoch]).permutation(count)
        found += order[position : position + size - len(found)].tolist()
    return found


def _count_trained(rows: Sequence[TrainingRow]) -> float:
    return float(sum(int(row.loss_mask.sum()) for row in rows))
