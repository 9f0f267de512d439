"""Grounding of an agent's steps in what the environment showed, step by step: pure.

After the Posterior Distillation Index of SPARK (arXiv 2605.09192), whose online form compares notes that its agent
writes about facts and strategy. Here every record has what is needed:

    evidence   share of the words of an act, other than the instruction's, that stand in earlier observations
    plan       Jaccard index of the words that the agent says in this step and in the one before
    outcome    Jaccard index of the words of this step's observations and of those before

    score = min(1, earlier steps / 2) * (z(evidence) - z(plan) - z(outcome))

Each z is taken over the attempt's own earlier steps, with a standard deviation of at least 0.1, and is 0 where a part
is not defined. A low index says that the agent repeats its plan, sees the same again, and acts on words that nothing
showed. In the published code the weight of the first step is negative, which turns its sign; here it is 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from assay.records import Step, Trajectory

ALARM = -2.0
"""Index below which a step counts as ungrounded; our choice, two standard deviations of one part."""
_WORD = re.compile(r"[A-Za-z0-9_]{3,}")
_LEAST_DEVIATION, _CHARACTERS = 0.1, 20_000


class StepGrounding(NamedTuple):
    """The score of one step, its index of grounding, and its parts; a part is None where it is not defined."""

    step: int
    evidence: float | None
    plan: float | None
    outcome: float | None
    score: float


class AttemptGrounding(NamedTuple):
    """The index over one attempt."""

    mean: float | None
    """None for fewer than three steps with an act."""
    low: int
    """Steps below `ALARM`."""
    steps: int


class GroundingMeter:
    """Computes the index of each step of one attempt as it is made."""

    def __init__(self, instruction: str) -> None:
        self._told = _words(instruction)
        self._shown: set[str] = set()
        self._before: tuple[set[str], set[str]] | None = None
        self._history: tuple[list[float], list[float], list[float]] = ([], [], [])
        self._count = 0

    def add(self, step: int, said: str, acts: str, seen: str) -> StepGrounding:
        """Adds a step and returns its index.

        Args:
            step: Its number, returned unchanged.
            said: The agent's message and reasoning.
            acts: Names and arguments of its calls.
            seen: The observations.
        """
        plan_words, outcome_words, new = _words(said), _words(seen), _words(acts) - self._told
        evidence = len(new & self._shown) / len(new) if new else None
        plan = outcome = None
        if self._before is not None:
            plan, outcome = _jaccard(self._before[0], plan_words), _jaccard(self._before[1], outcome_words)
        parts = (evidence, plan, outcome)
        scores = [_score(history, value) for history, value in zip(self._history, parts, strict=True)]
        score = min(1.0, self._count / 2) * (scores[0] - scores[1] - scores[2])
        for history, value in zip(self._history, parts, strict=True):
            if value is not None:
                history.append(value)
        self._shown |= outcome_words
        self._before, self._count = (plan_words, outcome_words), self._count + 1
        return StepGrounding(step, evidence, plan, outcome, score)


def grounding_of(trajectory: Trajectory, instruction: str) -> list[StepGrounding]:
    """Returns the index of each step with a call of an attempt's agent."""
    meter = GroundingMeter(instruction)
    acted = [step for step in trajectory.steps if step.actor == "agent" and step.tool_calls]
    return [meter.add(step.index, *_texts(step)) for step in acted]


def summarise_grounding(steps: Sequence[StepGrounding]) -> AttemptGrounding:
    """Returns the index over one attempt; the first two steps, whose weight is below 1, are left out of the mean."""
    later = [one.score for one in steps[2:]]
    mean = sum(later) / len(later) if later else None
    return AttemptGrounding(mean, sum(one.score < ALARM for one in steps), len(steps))


def _texts(step: Step) -> tuple[str, str, str]:
    said = f"{step.message or ''} {step.reasoning or ''}"
    acts = " ".join(f"{call.name} {call.arguments}" for call in step.tool_calls)
    return said, acts, " ".join(f"{one.content} {one.stderr}" for one in step.observations)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text[:_CHARACTERS].lower()))


def _jaccard(one: set[str], other: set[str]) -> float | None:
    union = one | other
    return len(one & other) / len(union) if union else None


def _score(history: Sequence[float], value: float | None) -> float:
    if value is None or len(history) < 2:
        return 0.0
    mean = sum(history) / len(history)
    deviation = math.sqrt(sum((one - mean) ** 2 for one in history) / (len(history) - 1))
    return (value - mean) / max(_LEAST_DEVIATION, deviation)
