"""The Posterior Distillation Index: whether an agent that tries again learns from what it saw, or from its plans.

Source: SPARK (arXiv 2605.09192), its online form, formulas in our own code. After each attempt:

    exec = |words of the commands & words of the verified facts| / |words of the verified facts|
    plan = Jaccard(next strategy of the attempt before, next strategy of this one)
    oss  = (Jaccard(verified facts before, now) + Jaccard(failed tests before, now)) / 2
    PDI  = w * (z(exec) - z(plan) - z(oss)),      w = min(1, attempts so far / 2)

z is over the values so far, this one included. High means acting on evidence; below -.5 the plan is repeated.

Bugs of the published code, put right here: (1) its weight is min(1, step / warmup) and it calls with step = -1, which
makes the weight -.5 and turns the sign of the index round, as released runs show; here the weight is held in [0, 1].
(2) The first attempt's index is a difference of raw shares, compared with the same bound as later differences of
z-scores; here the first attempt has none (None), since nothing can be learnt from a history of one.

Range: unbounded, about [-4, 4]. When it misleads: z-scores of two or three values are coarse, and words shared with the
facts may be file names that any attempt would use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

__all__ = ["TRIGGER", "PdiPoint", "Proxies", "Reflection", "pdi", "proxies", "words"]

TRIGGER = -0.5
WARM_UP = 2
_WORD = re.compile(r"[A-Za-z0-9_./-]{2,80}")


class Reflection(msgspec.Struct, frozen=True):
    """Word sets of an attempt's reflection, as `words` gives them."""

    commands: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()
    """Verified facts that it wrote down."""
    strategy: frozenset[str] = frozenset()
    failed_tests: frozenset[str] = frozenset()


class Proxies(NamedTuple):
    """The three shares after one attempt, each in [0, 1]."""

    execution: float
    plan: float
    similarity: float
    """`oss`."""


class PdiPoint(msgspec.Struct, frozen=True):
    """The index after one attempt."""

    proxies: Proxies
    weight: float
    index: float | None
    """None after the first attempt."""

    @property
    def triggers(self) -> bool:
        """Returns whether the published intervention applies: the plan is repeated against the evidence."""
        return self.index is not None and self.index < TRIGGER - 1e-9


def words(text: str) -> frozenset[str]:
    """Returns words, paths and identifiers of a text, in lower case. The published tokenisation is unknown."""
    return frozenset(word.lower() for word in _WORD.findall(text))


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second) if first or second else 0.0


def _weight(step: int) -> float:
    return min(1.0, max(0.0, step / WARM_UP))


def proxies(attempts: Sequence[Reflection]) -> tuple[Proxies, ...]:
    """Returns the shares after each attempt at one task, in order."""
    found = []
    before = Reflection()
    for attempt in attempts:
        overlap = len(attempt.commands & attempt.facts) / len(attempt.facts) if attempt.facts else 0.0
        seen = (_jaccard(before.facts, attempt.facts) + _jaccard(before.failed_tests, attempt.failed_tests)) / 2
        found.append(Proxies(overlap, _jaccard(before.strategy, attempt.strategy), seen))
        before = attempt
    return tuple(found)


def pdi(history: Sequence[Proxies]) -> tuple[PdiPoint, ...]:
    """Returns the index after each attempt, from the shares of all of them in order."""
    found = []
    for step, point in enumerate(history):
        index = None
        if step:
            execution, plan, similarity = (_z(column) for column in zip(*history[: step + 1], strict=True))
            index = _weight(step) * (execution - plan - similarity)
        found.append(PdiPoint(point, _weight(step), index))
    return tuple(found)


def _z(values: Sequence[float]) -> float:
    """Returns the z-score of the last value; 0 for equal values."""
    spread = float(np.std(values))
    return (values[-1] - float(np.mean(values))) / spread if spread > 1e-12 else 0.0
