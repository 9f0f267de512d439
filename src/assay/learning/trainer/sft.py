"""Supervised fine-tuning on what agents said: their tokens alone carry the loss, and what they were told does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import UserError
from assay.learning.rows import TrainingRow

from .batches import attempts_of, log_probabilities, passes, tensors, token_weights
from .loss import cross_entropy
from .optimise import Optimiser
from .options import SftOptions
from .policy import Policy

if TYPE_CHECKING:
    import torch

__all__ = ["drawn", "sft_step", "train_sft"]

Done = Callable[[int, dict[str, float]], None]


def train_sft(
    policy: Policy,
    rows: Sequence[TrainingRow],
    options: SftOptions,
    *,
    seed: int,
    optimiser: Optimiser | None = None,
    done: Done | None = None,
) -> None:
    """Trains until `options.steps` are done.

    Args:
        policy: Is trained in place.
        rows: What was said, of any attempts.
        options: See there.
        seed: Of the order in which attempts are taken.
        optimiser: One that may have taken some of the steps already.
        done: Told after each step: its number from 1, and what was measured.

    Raises:
        UserError: No row has a token to learn.
    """
    rows = [row for row in rows if row.loss_mask.any()]
    if not rows:
        raise UserError("there is nothing to learn from: no row has a token in its loss mask")
    attempts = attempts_of(rows)
    members: list[list[TrainingRow]] = [[] for _ in range(int(attempts.max()) + 1)]
    for row, attempt in zip(rows, attempts, strict=True):
        members[attempt].append(row)
    optimiser = optimiser or Optimiser(policy.model, options.optimise, options.steps)
    while optimiser.taken < options.steps:
        places = drawn(len(members), options.batch, optimiser.taken, seed)
        measured = sft_step(policy, optimiser, [row for place in places for row in members[place]])
        if done is not None:
            done(optimiser.taken, measured)


def sft_step(policy: Policy, optimiser: Optimiser, rows: Sequence[TrainingRow]) -> dict[str, float]:
    """One step on these rows; every token weighs the same. What was measured, in nats a token."""
    weights = token_weights([row.loss_mask for row in rows], attempts_of(rows), "token")
    total = 0.0

    def losses() -> Iterator[torch.Tensor]:
        nonlocal total
        for one in passes([len(row) for row in rows], optimiser.options.tokens_at_once):
            given = tensors([rows[place].token_ids for place in one.places], one.longest, policy.device)
            loss = cross_entropy(
                log_probabilities(policy.model, given), given.column([weights[place] for place in one.places])
            )
            total += float(loss.detach())
            yield loss

    rate = optimiser.rate()
    norm = optimiser.step(losses())
    return {"loss": total, "gradient_norm": norm, "learning_rate": rate, "tokens": _trained(rows)}


def drawn(count: int, size: int, step: int, seed: int) -> list[int]:
    """Which of `count` things the step of that number takes: each once before any is taken again. Depends on nothing
    but the arguments."""
    found: list[int] = []
    at = step * size
    while len(found) < size:
        around, place = divmod(at + len(found), count)
        order: Any = np.random.default_rng([seed, around]).permutation(count)
        found += order[place : place + size - len(found)].tolist()
    return found


def _trained(rows: Sequence[TrainingRow]) -> float:
    return float(sum(int(row.loss_mask.sum()) for row in rows))
