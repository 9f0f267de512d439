"""Accuracy of attributions against labels, and of two baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.statistics import wilson


class LabelledPrediction(NamedTuple):
    """One trajectory's label and attribution."""

    step: int
    who: str
    named_step: int | None
    named_who: str | None


class Accuracy(msgspec.Struct, frozen=True):
    """Shares of correct attributions, with Wilson intervals; a missing attribution counts as wrong."""

    n: int
    steps_right: int
    agents_right: int
    step: float
    step_interval: tuple[float, float]
    agent: float
    agent_interval: tuple[float, float]


def accuracy(rows: Sequence[LabelledPrediction], confidence: float = 0.95) -> Accuracy:
    """Returns step and agent accuracy. Raises `ValueError` without rows."""
    if not rows:
        raise ValueError("accuracy needs labelled trajectories")
    steps = sum(row.named_step == row.step for row in rows)
    agents = sum(row.named_who == row.who for row in rows)
    n = len(rows)
    return Accuracy(
        n, steps, agents, steps / n, wilson(steps, n, confidence), agents / n, wilson(agents, n, confidence)
    )


def last_step(steps: Sequence[tuple[int, str]]) -> tuple[int, str]:
    """Returns the last step, as a baseline. `steps` are (number, who) of all agent steps."""
    return steps[-1]


def random_expectation(runs: Sequence[tuple[int, str, Sequence[tuple[int, str]]]]) -> tuple[float, float]:
    """Returns the expected step and agent accuracy of a uniformly drawn agent step.

    Each run is its labelled step, its labelled agent, and (number, who) of all agent steps.
    """
    step = agent = 0.0
    for labelled, name, steps in runs:
        step += sum(number == labelled for number, _ in steps) / len(steps)
        agent += sum(by == name for _, by in steps) / len(steps)
    return step / len(runs), agent / len(runs)
