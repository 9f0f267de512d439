"""How far an attempt got, against how well it did what it got to.

After WebStep (named in its abstract: exploration reach against execution accuracy); it publishes no formula, so these
are ours. Landmarks are acts that every attempt known to have passed goes through, in one order; they are found, not
declared. Reach is the share of landmarks that an attempt comes to in that order; accuracy is the share of those that
came to no error when it first did. The two part: an agent with high reach and low accuracy knows where to go and fails
to act, one with low reach and high accuracy acts well and looks in the wrong place.

Range [0, 1]; accuracy is None where nothing was reached. When they mislead: with few passing attempts, landmarks are
habits rather than needs: `landmarks` of one attempt are all of its acts."""

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
    """Of one attempt against the landmarks of its task."""

    reach: float
    accuracy: float | None
    positions: tuple[int | None, ...]
    """Of each landmark: the act that came to it, or None."""


def landmarks(passing: Sequence[Sequence[State]]) -> tuple[State, ...]:
    """The acts common to all the attempts given, in their common order; the longest chain that a fold finds.

    What is common to three sequences or more is found two by two, which may miss some. Thinking is no landmark.

    Raises:
        ValueError: There is no attempt.
    """
    if not passing:
        raise ValueError("landmarks are of attempts that passed, and there is none")
    common = [state for state in passing[0] if state.kind not in ("think", "say", "finish")]
    for other in passing[1:]:
        common = [common[pair.left] for pair in align(matches(common, other))]
    return tuple(common)


def reach_of(actions: Sequence[Action], marks: Sequence[State], states: Sequence[State] | None = None) -> Reached:
    """Reach and accuracy of an attempt; with no landmarks all is reached and nothing was done wrong."""
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
