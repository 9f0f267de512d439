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

__all__ = ["Pair", "Preferences", "dpo_step", "pairs_of", "preferences", "train_dpo"]

Ids = NDArray[np.int32]
Done = Callable[[int, dict[str, float]], None]


class Pair(NamedTuple):
    """Two answers to one prompt, as token ids."""

    prompt: Ids
    chosen: Ids
    rejected: Ids
    chosen_attempt: str
    rejected_attempt: str


class _Way:
    """One answer at one place, and the attempts that gave it."""

    def __init__(self, answer: Ids) -> None:
        self.answer = answer
        self.passes: list[str] = []
        self.failures: list[str] = []


def pairs_of(rows: Iterable[TrainingRow], *, verified: bool = True) -> list[Pair]:
    """The pairs among rows, one a place at most, by the rule of the exports: the answer that most passes went through
    is chosen, and the one is rejected that most failures and no pass went through.

    Args:
        rows: Of any attempts; rows compete within their `group`.
        verified: Whether a pass counts only where nothing speaks against it; else a cheat's answer may be preferred.
    """
    places: defaultdict[tuple[str, bytes], dict[bytes, _Way]] = defaultdict(dict)
    for row in rows:
        if (
            row.outcome not in ("pass", "fail")
            or row.broke is not None
            or (verified and row.outcome == "pass" and not row.verified_pass)
        ):
            continue
        for turn in row.turns:
            if turn.trained:
                answer = row.token_ids[turn.start : turn.end]
                ways = places[row.group, row.token_ids[: turn.start].tobytes()]
                way = ways.setdefault(answer.tobytes(), _Way(answer))
                (way.passes if row.outcome == "pass" else way.failures).append(row.attempt)
    found: list[Pair] = []
    for (_, prompt), ways in places.items():
        good = max(ways.values(), key=lambda way: len(way.passes))
        bad = max((way for way in ways.values() if not way.passes), key=lambda way: len(way.failures), default=None)
        if good.passes and bad is not None:
            told = np.frombuffer(prompt, dtype=np.int32)
            found.append(Pair(told, good.answer, bad.answer, good.passes[0], bad.failures[0]))
    return found


class Preferences(NamedTuple):
    """Pairs, and what the policy that the training began with gave each one's two answers, in nats."""

    pairs: tuple[Pair, ...]
    reference: tuple[tuple[float, float], ...]


def preferences(policy: Policy, pairs: Sequence[Pair], most: int) -> Preferences:
    """Pairs with the policy as it is now for their reference, in passes of at most `most` tokens."""
    import torch

    found = [(0.0, 0.0)] * len(pairs)
    with torch.no_grad():
        for places, chosen, rejected in _passes(policy, pairs, most):
            for place, good, bad in zip(places, chosen.tolist(), rejected.tolist(), strict=True):
                found[place] = (good, bad)
    return Preferences(tuple(pairs), tuple(found))


def train_dpo(
    policy: Policy,
    given: Preferences,
    options: DpoOptions,
    *,
    seed: int,
    optimiser: Optimiser | None = None,
    done: Done | None = None,
) -> None:
    """Trains until `options.steps` are done.

    Args:
        policy: Is trained in place.
        given: Their reference is the policy as it was before the first step.
        options: See there.
        seed: Of the order in which pairs are taken.
        optimiser: One that may have taken some of the steps already.
        done: Told after each step: its number from 1, and what was measured.

    Raises:
        UserError: There is no pair.
    """
    if not given.pairs:
        raise UserError(
            "there is no pair to learn from: no two attempts at one task, one passed and one failed, parted at a turn"
        )
    optimiser = optimiser or Optimiser(policy.model, options.optimise, options.steps)
    while optimiser.taken < options.steps:
        places = drawn(len(given.pairs), options.batch, optimiser.taken, seed)
        some = Preferences(
            tuple(given.pairs[place] for place in places), tuple(given.reference[place] for place in places)
        )
        measured = dpo_step(policy, optimiser, some, options.beta)
        if done is not None:
            done(optimiser.taken, measured)


def dpo_step(policy: Policy, optimiser: Optimiser, given: Preferences, beta: float) -> dict[str, float]:
    """One step on these pairs. What was measured: the mean loss, and the share of pairs that are told apart rightly."""
    import torch

    total, right = 0.0, 0
    pairs, reference = given

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
