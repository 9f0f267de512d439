"""Losses, as sums weighted by `batches.token_weights`. Pure functions of tensors.

Sources: PPO's clipped surrogate (arXiv 1707.06347) with separate bounds (DAPO, 2503.14476); Schulman's k3 estimate of a
divergence; DPO (2305.18290).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Surrogate(NamedTuple):
    """The policy's loss and its parts."""

    loss: torch.Tensor
    """A scalar."""
    ratio: torch.Tensor
    """Ratio of each token; 1 without weight."""
    clipped: torch.Tensor
    """Tokens with a clipped gradient."""


def cross_entropy(logprobs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Returns the weighted sum of -log p. Both are of shape (rows, tokens)."""
    return -(logprobs * weights).sum()


def clipped_surrogate(
    logprobs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    bounds: tuple[float, float],
) -> Surrogate:
    """Returns the clipped policy gradient: the weighted sum of -min(r A, clip(r, 1 - low, 1 + high) A), r = p / p_old.

    All tensors are of shape (rows, tokens); `logprobs` has a gradient, `old` none; weights of untrained tokens are 0.
    """
    ratio = ((logprobs - old) * (weights > 0)).exp()
    objective = ratio * advantages
    clipped_objective = ratio.clamp(1 - bounds[0], 1 + bounds[1]) * advantages
    clipped = (clipped_objective < objective) & (weights > 0)
    return Surrogate(-(objective.minimum(clipped_objective) * weights).sum(), ratio, clipped)


def k3_divergence(logprobs: torch.Tensor, reference: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Returns the weighted sum of exp(d) - 1 - d, d = log p_reference - log p: an estimate of the divergence."""
    gap = (reference - logprobs) * (weights > 0)
    return ((gap.exp() - 1 - gap) * weights).sum()


def dpo_loss(
    chosen: torch.Tensor, rejected: torch.Tensor, reference: tuple[torch.Tensor, torch.Tensor], beta: float
) -> torch.Tensor:
    """Returns DPO's loss of each pair, (pairs,): -log sigmoid(beta * (margin - reference margin))."""
    import torch.nn.functional as functional

    margin = (chosen - rejected) - (reference[0] - reference[1])
    return -functional.logsigmoid(beta * margin)
