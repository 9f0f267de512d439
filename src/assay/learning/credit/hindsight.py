"""Hindsight relabelling: an attempt that missed its goal is one that reached what it reached.

After hindsight experience replay (arXiv 1707.01495), with states told by digest. `relabelled` gives, for attempts that
failed, the same turns as attempts at the goal of being in the state in which they ended (or in one that they came
through); the instruction that names that goal is written by who knows the world. Credit for them is what a success at
that goal earns, discounted by the turns that were still to go,

    A_t = discount^(turns from t to the goal)        up to the turn that first reached it; later turns are masked

Ours. An attempt whose integrity failed, or was looked at and could not be told, is never relabelled: what it reached it
may have reached by cheating.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._groups import last_turns, needed, numbered
from .interface import FAIL, NOT_JUDGED, PASS, Batch, Bools, Credit, Ints

__all__ = ["Relabelled", "hindsight", "relabelled"]


class Relabelled(NamedTuple):
    """Which attempts were relabelled, and how."""

    goal: Ints
    """[A] code of the state that is its goal now; -1 where it was not relabelled."""
    turn: Ints
    """[A] number of the turn that first reached it; -1 likewise."""


def relabelled(batch: Batch) -> Relabelled:
    """The goals in hindsight: for each attempt that failed honestly, the state in which it ended.

    An attempt that ended where it began reached nothing, and one whose last state is not known cannot be relabelled.

    Raises:
        ValueError: There is no column `final_state`.
    """
    after = _after(batch)
    final = needed(batch, "final_state")
    first = np.full(len(batch.group), -1, dtype=np.int64)
    begins = np.flatnonzero(numbered(batch) == 0)
    first[batch.attempt[begins]] = batch.state[begins]
    honest = (batch.integrity == PASS) | (batch.integrity == NOT_JUDGED)
    fit = (batch.outcome == FAIL) & honest & (final >= 0) & (final != first) & (first >= 0)
    goal = np.where(fit, final, -1)
    turn = np.full(len(batch.group), -1, dtype=np.int64)
    reached = np.flatnonzero((after == goal[batch.attempt]) & fit[batch.attempt])
    # Written in reverse, so that the first turn that reached it is what stays.
    turn[batch.attempt[reached[::-1]]] = numbered(batch)[reached[::-1]]
    return Relabelled(goal, turn)


def hindsight(batch: Batch, *, discount: float = 0.95) -> Credit:
    """Credit [T] in [0, 1] for the attempts that are relabelled; every other turn is masked.

    Args:
        batch: Needs outcomes, states and `final_state`.
        discount: By turn, in [0, 1].

    Raises:
        ValueError: There is no column `final_state`.
    """
    turn = relabelled(batch).turn[batch.attempt]
    left = turn - numbered(batch)
    mask: Bools = (turn >= 0) & (left >= 0)
    advantage = np.zeros(len(mask), dtype=np.float32)
    advantage[mask] = discount ** left[mask]
    reasons = {"not relabelled": int((turn < 0).sum()), "after the goal": int(((turn >= 0) & (left < 0)).sum())}
    return Credit(advantage, mask, {reason: count for reason, count in reasons.items() if count})


def _after(batch: Batch) -> Ints:
    """[T] code of the state after each turn."""
    found = np.full(len(batch.state), -1, dtype=np.int64)
    found[:-1] = batch.state[1:]
    last = last_turns(batch)
    found[last] = needed(batch, "final_state")[batch.attempt[last]]
    return found
