"""Sampling distribution and drawing of tokens. The caller imports torch.

`temperature` 0 takes the most likely token; its log-probability is then reported at temperature 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ._reply import invalid_request

if TYPE_CHECKING:
    import torch


class SamplingParams(NamedTuple):
    """Sampling parameters. `top_k` 0, `top_p` 1 and `min_p` 0 disable truncation."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0


def parse_sampling(sampling: dict[str, Any]) -> SamplingParams:
    """Parses sampling options. Raises `ProviderError` (status 400) naming the one out of range."""
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
            raise invalid_request(f"{name} must be a number from {low:g} to {high:g}, got {given!r}")
        found[name] = given
    top_p = found["top_p"] or 1e-9  # 0 asks for the likeliest token alone
    return SamplingParams(float(found["temperature"]), float(top_p), max(0, int(found["top_k"])), float(found["min_p"]))


def log_probabilities(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Returns log-probabilities of all tokens, in float64 for float64 logits, else float32."""
    import torch

    if logits.dtype != torch.float64:
        logits = logits.float()
    if params.temperature > 0:
        logits = logits / params.temperature
        if 0 < params.top_k < logits.shape[-1]:
            least = torch.topk(logits, params.top_k).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if params.min_p > 0:
            least = logits.amax(-1, keepdim=True) + float(torch.log(torch.tensor(params.min_p)))
            logits = logits.masked_fill(logits < least, -torch.inf)
        if params.top_p < 1:
            ordered, order = torch.sort(logits, descending=True)
            before = torch.softmax(ordered, -1).cumsum(-1) - torch.softmax(ordered, -1)
            logits = logits.masked_fill((before >= params.top_p).gather(-1, order.argsort()), -torch.inf)
    return torch.log_softmax(logits, -1)


def draw_tokens(log_probs: torch.Tensor, params: SamplingParams, points: Sequence[float]) -> list[int]:
    """Draws one token per row of `log_probs`, of shape (rows, vocabulary), with a uniform number of each request's own,
    so that other requests in a batch change nothing.
    """
    import torch

    if params.temperature == 0:
        return [int(token) for token in log_probs.argmax(-1).tolist()]
    heap = log_probs.double().exp().cumsum(-1)
    at = torch.tensor(points, dtype=torch.float64, device=heap.device)[:, None] * heap[:, -1:]
    drawn = torch.searchsorted(heap, at, right=True)[:, 0].clamp(max=log_probs.shape[-1] - 1)
    return [int(token) for token in drawn.tolist()]
