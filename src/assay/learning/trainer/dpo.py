"""Direct preference optimisation over turns at which two attempts parted.

A pair is two attempts at one task, one that passed and one that did not, whose tokens are the same up to a turn that
both sampled and that differs: the same question, two answers. Only those two answers are trained; what the world said
after them is nobody's preference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import UserError
from assay.learning.rows import TrainingRow

from .batches import log_probabilities, passes, tensors
from .loss import preference
from .optimise import Optimiser
from .options import DpoOptions
from .policy import Policy
from .sft import drawn

if TYPE_CHECKING:
    import torch

__all__ = ["Pair", "Reference", "dpo_step", "pairs_of", "reference_of", "train_dpo"]

Ids = NDArray[np.int32]
Done = Callable[[int, dict[str, float]], None]


class Pair(NamedTuple):
    """Two answers to one prompt, as token ids."""

    prompt: Ids
    chosen: Ids
    rejected: Ids
    chosen_attempt: str
    rejected_attempt: str


def pairs_of(rows: Iterable[TrainingRow], *, verified: bool = False, most: int = 8) -> list[Pair]:
    """The pairs among rows, in a stable order.

    Args:
        rows: Of any attempts; rows compete within their `group`.
        verified: Whether a pass counts only where nothing speaks against it.
        most: Pairs of one group and prompt, at most.
    """
    groups: defaultdict[tuple[str, bytes], list[tuple[TrainingRow, int, int]]] = defaultdict(list)
    for row in rows:
        for turn in row.turns:
            if turn.trained and row.outcome in ("pass", "fail"):
                key = (row.group, row.token_ids[: turn.start].tobytes())
                groups[key].append((row, turn.start, turn.end))
    found: list[Pair] = []
    for (_, prompt), answers in groups.items():
        found += list(_pairs(np.frombuffer(prompt, dtype=np.int32), answers, verified=verified))[:most]
    return found


def _pairs(prompt: Ids, answers: Sequence[tuple[TrainingRow, int, int]], *, verified: bool) -> Iterator[Pair]:
    good = [a for a in answers if (a[0].verified_pass if verified else a[0].outcome == "pass")]
    bad = [a for a in answers if a[0].outcome == "fail"]
    said_well = {row.token_ids[start:end].tobytes() for row, start, end in good}
    seen: set[tuple[bytes, bytes]] = set()
    for row, start, end in good:
        for other, begin, stop in bad:
            chosen, rejected = row.token_ids[start:end], other.token_ids[begin:stop]
            key = (chosen.tobytes(), rejected.tobytes())
            # An answer that also led to a pass is none to be unlearned.
            if key[1] in said_well or key in seen:
                continue
            seen.add(key)
            yield Pair(prompt, chosen, rejected, row.attempt, other.attempt)


Reference = list[tuple[float, float]]
"""Log-probabilities of each pair's two answers by the policy that the training began with, in nats."""


def reference_of(policy: Policy, pairs: Sequence[Pair], most: int) -> Reference:
    """What the policy as it is now gives the pairs, in passes of at most `most` tokens."""
    import torch

    found: Reference = [(0.0, 0.0)] * len(pairs)
    with torch.no_grad():
        for places, chosen, rejected in _passes(policy, pairs, most):
            for place, good, bad in zip(places, chosen.tolist(), rejected.tolist(), strict=True):
                found[place] = (good, bad)
    return found


def train_dpo(
    policy: Policy,
    pairs: Sequence[Pair],
    reference: Reference,
    options: DpoOptions,
    *,
    seed: int,
    optimiser: Optimiser | None = None,
    done: Done | None = None,
) -> None:
    """Trains until `options.steps` are done.

    Args:
        policy: Is trained in place.
        pairs: See `pairs_of`.
        reference: Of the policy as it was before the first step.
        options: See there.
        seed: Of the order in which pairs are taken.
        optimiser: One that may have taken some of the steps already.
        done: Told after each step: its number from 1, and what was measured.

    Raises:
        UserError: There is no pair.
    """
    if not pairs:
        message = (
            "there is no pair to learn from: no two attempts at one task, one passed and one failed, parted at a turn"
        )
        raise UserError(message)
    optimiser = optimiser or Optimiser(policy.model, options.optimise, options.steps)
    while optimiser.taken < options.steps:
        places = drawn(len(pairs), options.batch, optimiser.taken, seed)
        measured = dpo_step(
            policy, optimiser, [pairs[place] for place in places], [reference[place] for place in places], options.beta
        )
        if done is not None:
            done(optimiser.taken, measured)


def dpo_step(
    policy: Policy, optimiser: Optimiser, pairs: Sequence[Pair], reference: Reference, beta: float
) -> dict[str, float]:
    """One step on these pairs. What was measured: the mean loss, and the share of pairs that are told apart rightly."""
    import torch

    total, right = 0.0, 0

    def losses() -> Iterator[torch.Tensor]:
        nonlocal total, right
        for places, chosen, rejected in _passes(policy, pairs, optimiser.options.tokens_at_once):
            good, bad = (torch.tensor([reference[p][side] for p in places], device=policy.device) for side in (0, 1))
            each = preference(chosen, rejected, (good, bad), beta)
            right += int(((chosen - rejected) > (good - bad)).sum())
            loss = each.sum() / len(pairs)
            total += float(loss.detach())
            yield loss

    rate = optimiser.rate()
    norm = optimiser.step(losses())
    return {"loss": total, "gradient_norm": norm, "learning_rate": rate, "right": right / len(pairs)}


def _passes(
    policy: Policy, pairs: Sequence[Pair], most: int
) -> Iterator[tuple[tuple[int, ...], torch.Tensor, torch.Tensor]]:
    """For pairs that are read together their places, and the log-probabilities of their two answers, (pairs,) each."""
    lengths = [len(pair.prompt) + max(len(pair.chosen), len(pair.rejected)) for pair in pairs]
    for one in passes(lengths, max(1, most // 2)):
        held = [pairs[place] for place in one.places]
        rows = [np.concatenate([p.prompt, p.chosen]) for p in held] + [
            np.concatenate([p.prompt, p.rejected]) for p in held
        ]
        marks = [_marked(len(pair.prompt), len(row)) for pair, row in zip([*held, *held], rows, strict=True)]
        given = tensors(rows, one.longest, policy.device)
        sums = (log_probabilities(policy.model, given) * given.column(marks)).sum(-1)
        yield one.places, sums[: len(held)], sums[len(held) :]


def _marked(prompt: int, length: int) -> NDArray[np.float32]:
    found = np.ones(length, dtype=np.float32)
    found[:prompt] = 0
    return found
