"""Reach and accuracy of an attempt over the task's landmarks.

After WebStep (exploration reach against execution accuracy, named in its abstract); the formulas are ours. Landmarks
are acts common to all passing attempts in one order. Reach is the portion of landmarks reached in that order; accuracy
is the portion of those reached without an error the first time. High reach with low accuracy is failing execution, low
reach with high accuracy failing search.

Range [0, 1]; accuracy is None if nothing was reached. Misleading with few passing attempts, whose common acts are
habits: all acts of a single attempt are landmarks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .alignment import align
from .coverage import matches
from .interface import Action
from .outcomes import is_error
from .states import State, states_of

__all__ = ["Reached", "landmarks", "reach_of"]


class Reached(msgspec.Struct, frozen=True):
    """Reach of one attempt."""

    reach: float
    accuracy: float | None
    positions: tuple[int | None, ...]
    """Per landmark, the act that reached it, or None."""


def landmarks(passing: Sequence[Sequence[State]]) -> tuple[State, ...]:
    """Returns acts common to all attempts in order, by pairwise folding, which may miss some. Thinking is excluded.

    Raises:
        ValueError: There is no attempt.
    """
    if not passing:
        raise ValueError("landmarks need at least one passing attempt")
    common = [state for state in passing[0] if state.kind not in ("think", "say", "finish")]
    for other in passing[1:]:
        common = [common[pair.left] for pair in align(matches(common, other))]
    return tuple(common)


def reach_of(actions: Sequence[Action], marks: Sequence[State], states: Sequence[State] | None = None) -> Reached:
    """Returns reach and accuracy of an attempt; without landmarks everything is reached without errors."""
    held = states_of(actions) if states is None else states
    positions: list[int | None] = [None] * len(marks)
    for pair in align(matches(held, marks)):
        positions[pair.right] = pair.left
    reached = [position for position in positions if position is not None]
    right = sum(not is_error(actions[position]) for position in reached)
    return Reached(
        reach=len(reached) / len(marks) if marks else 1.0,
        accuracy=right / len(reached) if reached else None,
        positions=tuple(positions),
    )
