"""A model small enough to write out by hand, and rows of attempts with known log-probabilities."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay.learning.rows import TrainingRow, TurnSpan

SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
WORDS = 7


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch, imported with the first test that computes with it."""
    return pytest.importorskip("torch")


def make_bigram(torch: Any, seed: int = 0) -> Any:
    """Returns a causal model whose logits for the next token are a row of one table."""

    class Bigram(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            table = np.random.default_rng(seed).normal(size=(WORDS, WORDS))
            self.table = torch.nn.Parameter(torch.tensor(table, dtype=torch.float32))

        def forward(self, input_ids: Any, **_: Any) -> Any:
            return SimpleNamespace(logits=self.table[input_ids])

    return Bigram()


@pytest.fixture
def policy(torch: Any) -> Any:
    """What the losses need of a policy."""
    return SimpleNamespace(model=make_bigram(torch), device=torch.device("cpu"), version="v1")


@pytest.fixture
def log_probs() -> Callable[[Any, Sequence[int]], list[float]]:
    """Of each token after the one before, written out; 0 for the first."""

    def make(model: Any, ids: Sequence[int]) -> list[float]:
        table = model.table.detach().double().numpy()
        found = [0.0]
        for before, token in itertools.pairwise(ids):
            scores = table[before]
            found.append(float(scores[token] - np.log(np.sum(np.exp(scores)))))
        return found

    return make


@pytest.fixture
def row(policy: Any, log_probs: Any) -> Callable[..., TrainingRow]:
    """`row("a", [1, 2, 3], [(1, 3)], advantage=0.5)`: an attempt's row whose turns stand at these places."""

    def make(attempt: str, ids: Sequence[int], turns: Sequence[tuple[int, int]], **how: Any) -> TrainingRow:
        mask = np.zeros(len(ids), dtype=np.bool_)
        for start, end in turns:
            mask[start:end] = True
        likely = np.array(log_probs(policy.model, ids), dtype=np.float32)
        advantage = how.pop("advantage", 1.0)
        spans = tuple(
            TurnSpan(start=s, end=e, call=f"c{s}", step=n, weight_version=how.get("version", "v1"), certified=True,
                     sampling=how.get("sampling", SAMPLING))
            for n, (s, e) in enumerate(turns)
        )  # fmt: skip
        fields: dict[str, Any] = {
            "token_ids": np.array(ids, dtype=np.int32),
            "roles": np.where(mask, 2, 3).astype(np.uint8),
            "loss_mask": mask,
            "logprobs": np.where(mask, likely + how.get("off", 0.0), 0).astype(np.float32),
            "advantages": None if advantage is None else np.where(mask, advantage, 0).astype(np.float32),
            "versions": np.where(mask, 0, -1).astype(np.int16),
            "weight_versions": (how.get("version", "v1"),),
            "run": "r", "chain": attempt, "attempt": attempt, "group": how.get("group", "g"), "task": "t",
            "agent": "loop", "branch": how.get("branch", "b"), "turns": spans,
            "outcome": how.get("outcome", "pass"), "weights": how.get("weights", {}),
        }  # fmt: skip
        return TrainingRow(**fields)

    return make
