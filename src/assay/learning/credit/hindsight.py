"""Hindsight relabelling: a failed attempt counts as a success at the state that it reached.

After hindsight experience replay (arXiv 1707.01495), with states identified by digest. `relabel_goals` gives failed
attempts their final state as goal; the environment's author writes the instruction for that goal. Their credit is that
of a success, discounted by the remaining turns,

    A_t = discount^(turns from t to the goal)        up to the turn that first reached it; later turns are masked

Ours. An attempt with failed or unknown integrity is never relabelled: it may have reached its state by cheating.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._groups import last_turns, require_column, turn_numbers
from .interface import FAIL, NOT_JUDGED, PASS, Batch, Bools, Credit, Ints


class RelabelledGoals(NamedTuple):
    """Goals of relabelled attempts."""

    goal: Ints
    """[A] state code of the new goal; -1 if not relabelled."""
    turn: Ints
    """[A] index of the turn that first reached it; -1 likewise."""


def relabel_goals(batch: Batch) -> RelabelledGoals:
    """Returns hindsight goals: for each honest failed attempt, its final state.

    An attempt that ended where it began reached nothing, and one whose last state is not known cannot be relabelled.
    """
    after = _after(batch)
    final = require_column(batch, "final_state")
    first = np.full(len(batch.group), -1, dtype=np.int64)
    begins = np.flatnonzero(turn_numbers(batch) == 0)
    first[batch.attempt[begins]] = batch.state[begins]
    honest = (batch.integrity == PASS) | (batch.integrity == NOT_JUDGED)
    fit = (batch.outcome == FAIL) & honest & (final >= 0) & (final != first) & (first >= 0)
    goal = np.where(fit, final, -1)
    turn = np.full(len(batch.group), -1, dtype=np.int64)
    reached = np.flatnonzero((after == goal[batch.attempt]) & fit[batch.attempt])
    # Written in reverse, so that the first turn that reached it is what stays.
    turn[batch.attempt[reached[::-1]]] = turn_numbers(batch)[reached[::-1]]
    return RelabelledGoals(goal, turn)


def hindsight(batch: Batch, *, discount: float = 0.95) -> Credit:
    """Credit [T] in [0, 1] for the attempts that are relabelled; every other turn is masked.

    Args:
        batch: Needs outcomes, states and `final_state`.
        discount: By turn, in [0, 1].
    """
    turn = relabel_goals(batch).turn[batch.attempt]
    left = turn - turn_numbers(batch)
    mask: Bools = (turn >= 0) & (left >= 0)
    advantage = np.zeros(len(mask), dtype=np.float32)
    advantage[mask] = discount ** left[mask]
    reasons = {"not relabelled": int((turn < 0).sum()), "after the goal": int(((turn >= 0) & (left < 0)).sum())}
    return Credit(advantage, mask, {reason: count for reason, count in reasons.items() if count})


def _after(batch: Batch) -> Ints:
    found = np.full(len(batch.state), -1, dtype=np.int64)
    found[:-1] = batch.state[1:]
    last = last_turns(batch)
    found[last] = require_column(batch, "final_state")[batch.attempt[last]]
    return found
