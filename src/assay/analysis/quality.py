"""A quality score of the process, without the outcome in it.

Source: AgentLens (arXiv 2605.12925), recomputed exactly on its released annotations. The published score of 0 to 100 is

    25 coverage + 25 coherence + 18 stage completeness + 12 workflow similarity + 10 F1 + 10 outcome

with the outcome 1 (passed), 0 (failed) or .5 (unknown), and every other part in [0, 1]. Its last term is the label: it
gives a passing attempt 10 of the points that it takes to be no "lucky" one. `label_free_score` leaves it out (0 to 90).

When it misleads: it knows nothing of integrity. Attempts that read the fix in the repository's future history are among
the best scored. The parts against a reference reward likeness to attempts that passed before. Without a reference
(`without_reference`, our own choice, comparable to nothing published) only order, stages and waste are judged.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .coverage import cover
from .interface import Action
from .stages import Stage
from .states import State, states_of
from .waste import waste_of
from .workflow import coherence, workflow_similarity

MOST_ACTS = 1_000
_PARTS = {"coverage": 25.0, "coherence": 25.0, "completeness": 18.0, "workflow": 12.0, "f1": 10.0}
_LABEL_FREE = sum(_PARTS.values())
_EXPECTED: tuple[Stage, ...] = ("explore", "implement", "verify")
_ALONE = {"coherence": 25.0, "completeness": 18.0, "thrift": 25.0}


class Parts(msgspec.Struct, frozen=True):
    """Parts of the score, each in [0, 1]."""

    coverage: float
    coherence: float
    completeness: float
    workflow: float
    f1: float


class Quality(msgspec.Struct, frozen=True):
    """Process quality of an attempt, regardless of its outcome."""

    score: float
    """Score in [0, 1]."""
    parts: dict[str, float]
    """Parts, each in [0, 1]."""
    referenced: bool
    """True if it was compared with passing attempts. Scores with and without are on different scales."""
    wasted: tuple[int, ...]
    """Positions of wasted actions."""
    judged: int
    """Number of examined actions: at most the first 1,000 of the attempt and of each reference."""
    path: int | None = None
    """Index of the most similar reference among those with acts."""


def label_free_score(parts: Parts) -> float:
    """Returns the points without the outcome, 0 to 90."""
    return sum(weight * float(getattr(parts, name)) for name, weight in _PARTS.items())


def without_reference(states: Sequence[State]) -> dict[str, float]:
    """Returns coherence, portion of explore, implement and verify that occur, and 1 minus the portion of waste."""
    held = {state.stage for state in states}
    return {
        "coherence": coherence(states),
        "completeness": sum(stage in held for stage in _EXPECTED) / len(_EXPECTED),
        "thrift": 1.0 - waste_of(states).severity,
    }


def process_quality(actions: Sequence[Action], references: Sequence[Sequence[Action]] = ()) -> Quality | None:
    """Returns the label-free quality of an attempt, None without actions.

    `references` are other passing attempts at the same task; those without acts are skipped.
    """
    if not actions:
        return None
    states = states_of(actions[:MOST_ACTS])
    paths = [states_of(each[:MOST_ACTS]) for each in references if each]
    if not paths:
        alone = without_reference(states)
        score = sum(weight * alone[name] for name, weight in _ALONE.items()) / sum(_ALONE.values())
        return Quality(score, alone, referenced=False, wasted=waste_of(states).wasted, judged=len(states))
    covered = cover(states, paths)
    path = paths[covered.path]
    parts = Parts(
        coverage=covered.coverage,
        coherence=coherence(states),
        completeness=covered.completeness,
        workflow=workflow_similarity([each.stage for each in states], [each.stage for each in path]),
        f1=covered.f1,
    )
    return Quality(
        score=label_free_score(parts) / _LABEL_FREE,
        parts=msgspec.structs.asdict(parts),
        referenced=True,
        wasted=waste_of(states, path, covered.pairs).wasted,
        judged=len(states),
        path=covered.path,
    )
