"""Batches of rows: rows of each forward pass, token weights, and log-probabilities.

Rows are padded on the right, which causal attention ignores. Token weights are computed over the whole step before it
is split into passes, so that the split changes only the rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.learning.rows import TrainingRow

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Normalise = Literal["attempt", "token", "constant"]


class RowPass(NamedTuple):
    """Rows of one pass, by index, and their longest length."""

    positions: tuple[int, ...]
    longest: int


class PaddedRows(NamedTuple):
    """Padded rows of shapes (rows, tokens) and (rows, tokens - 1): column t is about token t + 1."""

    ids: torch.Tensor
    targets: torch.Tensor

    def column(self, columns: Sequence[NDArray[Any]]) -> torch.Tensor:
        """Pads one number per token to (rows, tokens - 1)."""
        import torch

        padded = np.zeros((len(columns), self.ids.shape[1]), dtype=np.float32)
        for row, column in enumerate(columns):
            padded[row, : len(column)] = column
        return torch.from_numpy(padded[:, 1:]).to(self.ids.device)


def plan_passes(lengths: Sequence[int], most: int) -> Iterator[RowPass]:
    """Groups rows of similar length into passes of at most `most` tokens, padding included; a longer row is alone."""
    members: list[int] = []
    for position in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if members and (len(members) + 1) * lengths[position] > most:
            yield RowPass(tuple(members), lengths[members[-1]])
            members = []
        members.append(position)
    if members:
        yield RowPass(tuple(members), lengths[members[-1]])


def pad_rows(rows: Sequence[NDArray[Any]], longest: int, device: Any) -> PaddedRows:
    """Pads token ids to `longest`."""
    import torch

    padded = np.zeros((len(rows), longest), dtype=np.int64)
    for row, ids in enumerate(rows):
        padded[row, : len(ids)] = ids
    ids = torch.from_numpy(padded).to(device)
    return PaddedRows(ids, ids[:, 1:])


def log_probabilities(model: Any, inputs: PaddedRows) -> torch.Tensor:
    """Returns the log-probability of each token after the first, in nats, of shape (rows, tokens - 1), float32."""
    import torch

    logits = model(input_ids=inputs.ids[:, :-1], use_cache=False).logits.float()
    chosen = logits.gather(-1, inputs.targets.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(logits, -1)


def attempt_numbers(rows: Sequence[TrainingRow]) -> NDArray[np.int64]:
    """Returns each row's attempt number, [R], in order of first appearance."""
    known: dict[tuple[str, str], int] = {}
    return np.array([known.setdefault((row.run, row.chain), len(known)) for row in rows], dtype=np.int64)


def token_weights(
    masks: Sequence[NDArray[Any]], attempts: NDArray[np.int64], normalise: Normalise, constant: int = 1
) -> list[Floats]:
    """Returns token weights with which a sum becomes a mean, from masks of shape [N] and the attempt of each row.

    `attempt`: the weights of one attempt's tokens, over all of its rows, sum to 1 / attempts. `token`: all weights sum
    to 1. `constant`: each is 1 / (attempts * constant).
    """
    sums = np.array([float(np.sum(mask)) for mask in masks])
    count = len(set(attempts.tolist()))
    if normalise == "attempt":
        each = np.bincount(attempts, weights=sums, minlength=count)
        over = count * each[attempts]
    else:
        over = np.full(len(masks), sums.sum() if normalise == "token" else float(count * constant))
    return [np.asarray(mask, dtype=np.float64) / max(whole, 1e-12) for mask, whole in zip(masks, over, strict=True)]
