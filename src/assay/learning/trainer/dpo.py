"""Direct preference optimisation over turns at which two attempts diverged.

A pair is a passed and a failed attempt at one task whose tokens are equal up to a sampled turn that differs. Only the
two differing answers are trained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import UserError
from assay.learning.rows import TrainingRow

from .batches import log_probabilities, pad_rows, plan_passes
from .loss import dpo_loss
from .optimise import Optimiser
from .options import DpoOptions
from .policy import TrainedPolicy
from .sft import draw_batch

if TYPE_CHECKING:
    import torch

Ids = NDArray[np.int32]
Done = Callable[[int, dict[str, float]], None]


class TokenPair(NamedTuple):
    """Two answers to one prompt, as token ids."""

    prompt: Ids
    chosen: Ids
    rejected: Ids
    chosen_attempt: str
    rejected_attempt: str


class _AnswerOutcomes:
    def __init__(self, answer: Ids) -> None:
        self.answer = answer
        self.passes: list[str] = []
        self.failures: list[str] = []


def find_token_pairs(rows: Iterable[TrainingRow], *, verified: bool = True) -> list[TokenPair]:
    """Returns at most one pair per prompt, by the rule of the exports: the answer of most passes is chosen, and the
    answer of most failures and no pass is rejected. Rows compete within their `group`.

    Unless `verified`, a pass counts although something speaks against it, so a cheat's answer may be preferred.
    """
    by_prompt: defaultdict[tuple[str, bytes], dict[bytes, _AnswerOutcomes]] = defaultdict(dict)
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
                answers = by_prompt[row.group, row.token_ids[: turn.start].tobytes()]
                outcomes = answers.setdefault(answer.tobytes(), _AnswerOutcomes(answer))
                (outcomes.passes if row.outcome == "pass" else outcomes.failures).append(row.attempt)
    found: list[TokenPair] = []
    for (_, prompt), answers in by_prompt.items():
        good = max(answers.values(), key=lambda outcomes: len(outcomes.passes))
        bad = max(
            (outcomes for outcomes in answers.values() if not outcomes.passes),
            key=lambda outcomes: len(outcomes.failures),
            default=None,
        )
        if good.passes and bad is not None:
            prompt_ids = np.frombuffer(prompt, dtype=np.int32)
            found.append(TokenPair(prompt_ids, good.answer, bad.answer, good.passes[0], bad.failures[0]))
    return found


class ScoredPairs(NamedTuple):
    """Pairs with the reference log-probabilities of both answers, in nats."""

    pairs: tuple[TokenPair, ...]
    reference: tuple[tuple[float, float], ...]


def score_pairs(policy: TrainedPolicy, pairs: Sequence[TokenPair], most: int) -> ScoredPairs:
    """Scores pairs with the current policy as reference, in passes of at most `most` tokens."""
    import torch

    found = [(0.0, 0.0)] * len(pairs)
    with torch.no_grad():
        for positions, chosen, rejected in _passes(policy, pairs, most):
            for position, good, bad in zip(positions, chosen.tolist(), rejected.tolist(), strict=True):
                found[position] = (good, bad)
    return ScoredPairs(tuple(pairs), tuple(found))


def train_dpo(
    policy: TrainedPolicy,
    scored: ScoredPairs,
    options: DpoOptions,
    *,
    seed: int,
    optimiser: Optimiser | None = None,
    done: Done | None = None,
) -> None:
    """Trains until `options.steps` are done, and calls `done` with each step's number, from 1, and its metrics."""
    if not scored.pairs:
        raise UserError("no preference pair: no passed and failed attempt at one task diverged at a turn")
    optimiser = optimiser or Optimiser(policy.model, options.optimise, options.steps)
    while optimiser.steps_taken < options.steps:
        positions = draw_batch(len(scored.pairs), options.batch, optimiser.steps_taken, seed)
        some = ScoredPairs(
            tuple(scored.pairs[position] for position in positions),
            tuple(scored.reference[position] for position in positions),
        )
        measured = dpo_step(policy, optimiser, some, options.beta)
        if done is not None:
            done(optimiser.steps_taken, measured)


def dpo_step(policy: TrainedPolicy, optimiser: Optimiser, scored: ScoredPairs, beta: float) -> dict[str, float]:
    """Runs one step; returns the mean loss and the share of pairs ranked correctly, among others."""
    import torch

    total, right = 0.0, 0
    pairs, reference = scored

    def losses() -> Iterator[torch.Tensor]:
        nonlocal total, right
        for positions, chosen, rejected in _passes(policy, pairs, optimiser.options.tokens_at_once):
            good, bad = (torch.tensor([reference[p][side] for p in positions], device=policy.device) for side in (0, 1))
            each = dpo_loss(chosen, rejected, (good, bad), beta)
            right += int(((chosen - rejected) > (good - bad)).sum())
            loss = each.sum() / len(pairs)
            total += float(loss.detach())
            yield loss

    rate = optimiser.rate()
    norm = optimiser.step(losses())
    return {"loss": total, "gradient_norm": norm, "learning_rate": rate, "right": right / len(pairs)}


def _passes(
    policy: TrainedPolicy, pairs: Sequence[TokenPair], most: int
) -> Iterator[tuple[tuple[int, ...], torch.Tensor, torch.Tensor]]:
    """Yields, for each pass, pair indices and the log-probabilities of both answers, (pairs,) each."""
    lengths = [len(pair.prompt) + max(len(pair.chosen), len(pair.rejected)) for pair in pairs]
    for one in plan_passes(lengths, max(1, most // 2)):
        pass_pairs = [pairs[position] for position in one.positions]
        rows = [np.concatenate([p.prompt, p.chosen]) for p in pass_pairs] + [
            np.concatenate([p.prompt, p.rejected]) for p in pass_pairs
        ]
        marks = [
            _answer_mask(len(pair.prompt), len(row)) for pair, row in zip([*pass_pairs, *pass_pairs], rows, strict=True)
        ]
        inputs = pad_rows(rows, one.longest, policy.device)
        sums = (log_probabilities(policy.model, inputs) * inputs.column(marks)).sum(-1)
        yield one.positions, sums[: len(pass_pairs)], sums[len(pass_pairs) :]


def _answer_mask(prompt: int, length: int) -> NDArray[np.float32]:
    found = np.ones(length, dtype=np.float32)
    found[:prompt] = 0
    return found
