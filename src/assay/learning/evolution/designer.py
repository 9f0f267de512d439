"""A designer that learns which configurations to try: nested rollouts of k designs by m executions, credit to both.

The designer has a softmax preference over the values of each option, apart. In each round it draws k designs; each is
executed on the same batch of tasks. With d the mean outcome of a design over its executions,

    credit of a design     A = (d - mean of d over the round) / (standard deviation + 0.05)
    credit of an execution r - mean of the design's executions at its task

and the designer's preferences follow its credit (a gradient bandit). An executor's credit is within one design, so that
a good design does not praise a poor execution: a design is a run of its own, whose rows any estimator groups by task.
After the executor-designer hierarchical rollout of MetaAgent-X (catalogued from its abstract); the formulas are ours.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

STEP: Final = 0.8
_SPREAD: Final = 0.05


def design_credit(scores: Sequence[float]) -> list[float]:
    """Returns the credit of each design of a round, from their mean outcomes; 0 for all where they are equal."""
    values = np.asarray(scores, dtype=float)
    return list(((values - values.mean()) / (values.std() + _SPREAD)).tolist())


class Designer:
    """Preferences over the values of each option.

    Args:
        space: Options with their values.
        seed: Seed of the draws.
    """

    def __init__(self, space: Mapping[str, Sequence[Any]], seed: int) -> None:
        self._values = {option: list(values) for option, values in space.items()}
        self._preferences = {option: np.zeros(len(values)) for option, values in self._values.items()}
        self._draw = random.Random(f"designer/{seed}")

    def draw(self, count: int) -> list[dict[str, int]]:
        """Returns designs, each the number of a value for each option."""
        return [
            {
                option: self._draw.choices(range(len(values)), weights=self.chances(option).tolist())[0]
                for option, values in self._values.items()
            }
            for _ in range(count)
        ]

    def options(self, design: Mapping[str, int]) -> dict[str, Any]:
        """Returns the values of a design."""
        return {option: self._values[option][number] for option, number in design.items()}

    def chances(self, option: str) -> NDArray[np.float64]:
        """Returns the chance of each value."""
        powers = np.exp(self._preferences[option] - self._preferences[option].max())
        return np.asarray(powers / powers.sum())

    def learn(self, designs: Sequence[Mapping[str, int]], credit: Sequence[float]) -> None:
        """Moves the preferences towards designs with credit above 0."""
        changes = {option: np.zeros(len(values)) for option, values in self._values.items()}
        for design, value in zip(designs, credit, strict=True):
            for option, number in design.items():
                chosen = np.arange(len(self._values[option])) == number
                changes[option] += STEP * value * (chosen - self.chances(option)) / len(designs)
        for option, change in changes.items():
            self._preferences[option] += change

    def best(self) -> dict[str, int]:
        """Returns the preferred value of each option, the first of equals."""
        return {option: int(preferred.argmax()) for option, preferred in self._preferences.items()}
