"""The distribution that a token is drawn from, and the drawing. Torch is imported by whoever calls.

`temperature` 0 takes the likeliest token; its log-probability is then given at temperature 1, for the distribution
that was really used says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import ProviderError

if TYPE_CHECKING:
    import torch

__all__ = ["Drawing", "drawing_of", "log_probabilities", "pick"]


class Drawing(NamedTuple):
    """How tokens are drawn. 0 for `top_k`, 1 for `top_p` and 0 for `min_p` leave everything in."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0


def drawing_of(sampling: dict[str, Any]) -> Drawing:
    """Reads sampling options. Raises `ProviderError` (status 400) naming what is out of range."""
    limits: dict[str, tuple[float, float, float]] = {
        "temperature": (1.0, 0.0, 100.0),
        "top_p": (1.0, 0.0, 1.0),
        "top_k": (0, -1, 1 << 31),
        "min_p": (0.0, 0.0, 1.0),
    }
    found: dict[str, float] = {}
    for name, (default, low, high) in limits.items():
        given = sampling.get(name, default)
        if not isinstance(given, int | float) or isinstance(given, bool) or not low <= given <= high:
            raise ProviderError(
                f"{name} must be a number from {low:g} to {high:g}, got {given!r}", status=400, retryable=False
            )
        found[name] = given
    top_p = found["top_p"] or 1e-9  # 0 asks for the likeliest token alone
    return Drawing(float(found["temperature"]), float(top_p), max(0, int(found["top_k"])), float(found["min_p"]))


def log_probabilities(logits: torch.Tensor, how: Drawing) -> torch.Tensor:
    """Of every token, under the sampling distribution, in float64 if `logits` are, else in float32.

    Args:
        logits: Of shape (..., vocabulary).
        how: The distribution.
    """
    import torch

    if logits.dtype != torch.float64:
        logits = logits.float()
    if how.temperature > 0:
        logits = logits / how.temperature
        if 0 < how.top_k < logits.shape[-1]:
            least = torch.topk(logits, how.top_k).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if how.min_p > 0:
            least = logits.amax(-1, keepdim=True) + float(torch.log(torch.tensor(how.min_p)))
            logits = logits.masked_fill(logits < least, -torch.inf)
        if how.top_p < 1:
            ordered, order = torch.sort(logits, descending=True)
            before = torch.softmax(ordered, -1).cumsum(-1) - torch.softmax(ordered, -1)
            logits = logits.masked_fill((before >= how.top_p).gather(-1, order.argsort()), -torch.inf)
    return torch.log_softmax(logits, -1)


def pick(log_probs: torch.Tensor, how: Drawing, points: Sequence[float]) -> list[int]:
    """Draws one token a row of `log_probs`, of shape (rows, vocabulary).

    Args:
        log_probs: As `log_probabilities` gives them.
        how: The distribution.
        points: One uniform number a row, each of its own request's: what else is in a batch changes nothing.
    """
    import torch

    if how.temperature == 0:
        return [int(token) for token in log_probs.argmax(-1).tolist()]
    heap = log_probs.double().exp().cumsum(-1)
    at = torch.tensor(points, dtype=torch.float64, device=heap.device)[:, None] * heap[:, -1:]
    drawn = torch.searchsorted(heap, at, right=True)[:, 0].clamp(max=log_probs.shape[-1] - 1)
    return [int(token) for token in drawn.tolist()]
